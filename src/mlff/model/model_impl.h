/* model_impl.h: what the files that implement an open model share. */
#ifndef MLFF_MODEL_IMPL_H
#define MLFF_MODEL_IMPL_H

#include "arch.h"
#include "modelfile_impl.h"

/* A structure of the file's self-test. Arrays live as long as the file. */
typedef struct mlff_test_structure {
  const char *name;
  int n_atoms;
  const int32_t *species; /* [n_atoms]              */
  const double (*positions)[3];
  const double (*cell)[3];     /* NULL = not periodic    */
  double energy;               /* eV                     */
  const double (*forces)[3];   /* eV/A                   */
  const double *virial;        /* [6] eV                 */
  const double *atom_energies; /* [n_atoms] eV, NULL = the file has none */
} mlff_test_structure;

typedef struct mlff_test_set {
  const char *origin;
  int n;
  mlff_test_structure *structures;
  double tolerance[3][3]; /* fp64, fp32, mixed x energy, forces, virial; NaN = the file has none */
} mlff_test_set;

/* Steps recorded and replayed: replay.c. */
typedef struct mlff_replay {
  int is_on;             /* wanted, and this backend and model can */
  uint64_t list_id;      /* of the last step that was run plainly from its beginning to its end; 0: none */
  int is_recorded;       /* and still fits steps with the list */
  int is_other;          /* the last step wanted other results than the recording has */
  unsigned wants;        /* which results the recording has */
  mlff_arch_outputs out; /* of the recorded step */
  char why[300];         /* why nothing is recorded */
  mlff_replays counts;
} mlff_replay;

/* What the host reads of the graph of a step: host_view.c. */
typedef struct mlff_host_view {
  mlff_graph graph; /* with arrays on the host; nbr and pos are NULL when the step's are on a device */
  int is_on_device; /* the step's arrays */
  uint64_t list_id; /* of the list on the device that `data` is a copy of; 0: none */
  void *data;       /* row, species, node */
  int32_t longest_row;
  size_t capacity, n_growths;
} mlff_host_view;

struct mlff_model {
  mlff_modelfile *file; /* its weights are released after opening */
  const mlff_modelfile_head *head;
  mlff_backend *backend;
  mlff_ops unfused; /* the backend's without fused operations, when the user wants none */
  const mlff_arch *arch;
  void *net;
  int *use;             /* [n_elements] species that the network was made for */
  int radial_intervals; /* option, 0: auto */
  mlff_edges edges;
  mlff_repulsion repulsion;                  /* edges.repulsion, unless that is NULL */
  mlff_buf repulsion_grad, repulsion_energy; /* of models that give neither: [n_edges][4], [n_local] */
  mlff_host_view host_view;
  uint64_t checked_list_id; /* graph whose species were checked */
  double offsets;           /* of its owned atoms, in units of the model */
  int without_offsets;      /* option e0 no */
  double *host;             /* downloaded energies of members */
  size_t host_capacity, n_host_growths;
  size_t own_bytes; /* of the backend's memory after opening: what does not depend on the number of atoms */
  double scale;     /* the file's energy unit in eV */
  mlff_test_set tests;
  mlff_info info;
  mlff_replay replay;
  mlff_spans *spans; /* of the last mlff_spans_start; the backend has it too while spans are on */
};

/* Whether energies of the single members of an ensemble are wanted. */
static inline int mlff_wants_members(const mlff_model *model, const mlff_result *result)
{
  return model->info.n_members > 1 && (result->member_energy || result->atom_spread);
}

/* options.c: whether all values are known; and of one that is yes or no and was checked, yes being what NULL stands
 * for. */
mlff_status mlff_options_check(const mlff_options *options, mlff_error *error);
static inline int mlff_option_is_on(const char *value)
{
  return !value || mlff_yes_or_no(value) == 1;
}

/* host_view.c: sets model->host_view for a step with the graph; an error when it is on a device that is not the
 * model's. */
mlff_status mlff_host_view_make(mlff_model *model, const mlff_graph *graph, mlff_error *error);

/* step.c: a step op by op; and its end: forces, energies, virials of the network's outputs into result. */
mlff_status mlff_step_plain(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                            mlff_error *error);
mlff_status mlff_step_results(mlff_model *model, const mlff_graph *graph, const mlff_arch_outputs *out,
                              mlff_result *result, mlff_error *error);
/* The forces op and downloads that mlff_step_results makes, in its order, without looking at what they bring. */
mlff_status mlff_step_downloads(mlff_model *model, const mlff_graph *graph, const mlff_arch_outputs *out,
                                mlff_result *result, mlff_error *error);
mlff_status mlff_step_check_distance(const mlff_model *model, const mlff_graph *graph, mlff_error *error);

/* repulsion.c: makes the model's table; and after an evaluation of the network adds the repulsion to its outputs where
 * atoms are close. A model with forces of its own then has gradients and energies beside them, the repulsion alone. */
mlff_status mlff_repulsion_open(mlff_model *model, mlff_error *error);
mlff_status mlff_repulsion_add(mlff_model *model, mlff_arch_outputs *out, mlff_error *error);
void mlff_repulsion_close(mlff_model *model);

/* replay.c, for backends that can record: whether steps are recorded, decided when the model is opened; and a step,
 * replayed where that can be. */
void mlff_replay_open(mlff_model *model, const mlff_options *options);
/* The next step is not replayed. */
void mlff_replay_forget(mlff_model *model);
/* Forgets the recording and the counts: after self-tests, which may have run another network. */
void mlff_replay_restart(mlff_model *model);
mlff_status mlff_replay_step(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                             mlff_error *error);

/* 1 when the next step could be replayed, but there is no recording of it; one of other results is forgotten then. */
int mlff_replay_make_room(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, const mlff_result *result);
/* Whether steps need other ranks: their features, or sums of theirs. */
int mlff_replay_has_exchanges(const mlff_model *model, const mlff_halo *halo);
/* Records the next step and evaluates nothing, so that no other rank is needed. */
mlff_status mlff_replay_record(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                               mlff_error *error);

/* After the device ran out of memory: makes the exchanges of the step that is lost and says what would have been
 * needed. n_edges of the graph, -1 when not known. Always fails. */
mlff_status mlff_forecast_memory(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, int64_t n_edges,
                                 mlff_result *result, mlff_error *error);

/* Forces and virial of each member by itself, into result->member_forces; after an evaluation of the same graph. */
mlff_status mlff_members_evaluate(mlff_model *model, const mlff_graph *graph, mlff_result *result, mlff_error *error);

/* What the block domain of the file does not say, "pressure, triples"; "": nothing. */
void mlff_domain_missing(const mlff_info *info, char *text, size_t size);

/* Reads the file's self_test block. */
mlff_status mlff_selftest_read(mlff_modelfile *file, mlff_test_set *set, mlff_error *error);
/* Runs structure k on the network that the model has now. */
mlff_status mlff_selftest_run(mlff_model *model, int k, mlff_self_test *test, mlff_error *error);
/* Runs all of them, on a network with all species that they need, and fails when one does not pass. For opening, while
 * the weights are there. */
mlff_status mlff_selftest_run_all(mlff_model *model, mlff_error *error);
/* 1 when the network was made for all species of structure k. */
int mlff_selftest_is_covered(const mlff_model *model, int k);

#endif
