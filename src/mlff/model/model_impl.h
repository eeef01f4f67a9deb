/* model_impl.h: types and functions of an open model. */
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
  const double *atom_energies; /* [n_atoms] eV; NULL if the file has none */
} mlff_test_structure;

typedef struct mlff_test_set {
  const char *origin;
  int n;
  mlff_test_structure *structures;
  double tolerance[3][3]; /* fp64, fp32, mixed x energy, forces, virial; NaN if the file has none */
} mlff_test_set;

/* Capture and replay of steps: replay.c. */
typedef struct mlff_replay {
  int is_on;             /* requested, and supported by backend and model */
  uint64_t list_id;      /* of the last completed plain step; 0 = none */
  int is_recorded;       /* a captured step exists and is valid for the list */
  int is_other;          /* the last step had another key than the captured one */
  unsigned key;          /* results and exchanges of the captured step */
  mlff_arch_outputs out; /* of the captured step */
  char why[300];         /* why steps are not captured */
  mlff_replays counts;
} mlff_replay;

/* The graph of a step as the host reads it: host_view.c. */
typedef struct mlff_host_view {
  mlff_graph graph; /* arrays on the host; nbr and pos are NULL if those of the step are on a device */
  int is_on_device; /* arrays of the step */
  uint64_t list_id; /* of the list on the device that `data` is a copy of; 0 = none */
  void *data;       /* row, species, node */
  int32_t longest_row;
  size_t capacity, n_growths;
} mlff_host_view;

/* The block uncertainty, and arrays of the last evaluation: uncertainty.c. */
typedef struct mlff_uncertainty {
  int width;               /* of matrices and rows of features         */
  const char *description; /* NULL without the key                     */
  char why[200];           /* why there is none; "" if there is one    */
  mlff_buf weights, values, rows;
} mlff_uncertainty;

struct mlff_model {
  mlff_modelfile *file; /* its weights are released after opening */
  const mlff_modelfile_head *head;
  mlff_backend *backend;
  mlff_ops unfused; /* table without fused operations, for mlff_options.fuse "no" */
  const mlff_arch *arch;
  void *net;
  int *use;             /* [n_elements] species of the network */
  int radial_intervals; /* option, 0: auto */
  mlff_edges edges;
  mlff_repulsion repulsion;                  /* edges.repulsion, unless that is NULL */
  mlff_buf repulsion_grad, repulsion_energy; /* of direct models: [n_edges][4], [n_local] */
  mlff_buf repulsion_vec;                    /* of kind clamped: [n_edges][4] */
  mlff_uncertainty uncertainty;
  mlff_host_view host_view;
  uint64_t checked_list_id; /* list whose species were checked */
  double offsets;           /* sum over its owned atoms, in units of the model */
  int without_offsets;      /* option e0 no */
  double *host;             /* downloaded energies of members */
  size_t host_capacity, n_host_growths;
  size_t own_bytes; /* memory of the backend after opening, independent of the number of atoms */
  double scale;     /* the file's energy unit in eV */
  mlff_test_set tests;
  mlff_info info;
  mlff_replay replay;
  mlff_spans *spans; /* of the last mlff_spans_start; also in the backend while timing is on */
};

/* Whether the result includes energies of the members of an ensemble. */
static inline int mlff_wants_members(const mlff_model *model, const mlff_result *result)
{
  return model->info.n_members > 1 && (result->member_energy || result->atom_spread);
}

/* options.c: checks all values. mlff_option_is_on: a checked yes-or-no value; NULL is yes. */
mlff_status mlff_options_check(const mlff_options *options, mlff_error *error);
static inline int mlff_option_is_on(const char *value)
{
  return !value || mlff_yes_or_no(value) == 1;
}

/* host_view.c: sets model->host_view for a step with the graph. An error if the graph is on another device than the
 * model. */
mlff_status mlff_host_view_make(mlff_model *model, const mlff_graph *graph, mlff_error *error);

/* step.c: a step op by op; and its end: forces, energies and virials from the outputs of the network. */
mlff_status mlff_step_plain(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                            mlff_error *error);
mlff_status mlff_step_results(mlff_model *model, const mlff_graph *graph, const mlff_arch_outputs *out,
                              mlff_result *result, mlff_error *error);
/* Makes the calls of mlff_step_results (forces op and downloads) in the same order, without using the results. */
mlff_status mlff_step_downloads(mlff_model *model, const mlff_graph *graph, const mlff_arch_outputs *out,
                                mlff_result *result, mlff_error *error);
mlff_status mlff_step_check_distance(const mlff_model *model, const mlff_graph *graph, mlff_error *error);

/* repulsion.c: makes the table; before an evaluation of the network, clamps its distances (kind clamped); after it,
 * adds the repulsion of close atoms to the outputs and restores the distances. Direct models then have gradients and
 * energies, those of the repulsion alone, in addition. */
mlff_status mlff_repulsion_open(mlff_model *model, mlff_error *error);
mlff_status mlff_repulsion_clamp(mlff_model *model, mlff_error *error);
mlff_status mlff_repulsion_add(mlff_model *model, mlff_arch_outputs *out, mlff_error *error);
void mlff_repulsion_close(mlff_model *model);
/* Sets the reach: the largest cutoff of the elements in use. */
void mlff_repulsion_bound(mlff_model *model);

/* uncertainty.c: reads the block, after the network has been made; sets its fields of mlff_info. */
mlff_status mlff_uncertainty_open(mlff_model *model, mlff_error *error);
void mlff_uncertainty_close(mlff_model *model);
/* An error if the result wants what the model does not have. */
mlff_status mlff_uncertainty_check(const mlff_model *model, const mlff_result *result, mlff_error *error);
/* Whether a step computes uncertainties or features. `want` prepares *last for the network; `take` downloads. */
static inline int mlff_wants_features(const mlff_result *result)
{
  return result->atom_uncertainty || result->atom_features;
}
mlff_status mlff_uncertainty_want(mlff_model *model, const mlff_result *result, mlff_last_features *last,
                                  mlff_error *error);
mlff_status mlff_uncertainty_take(mlff_model *model, const mlff_result *result, mlff_error *error);

/* replay.c, for backends that can capture steps. mlff_replay_open: decides whether steps are captured.
 * mlff_replay_step: a step, replayed if possible. */
void mlff_replay_open(mlff_model *model, const mlff_options *options);
/* The next step is not replayed. */
void mlff_replay_forget(mlff_model *model);
/* Drops the captured step and the counts: after self-tests, which may have run another network. */
void mlff_replay_restart(mlff_model *model);
mlff_status mlff_replay_step(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                             mlff_error *error);

/* 1 if the next step could be replayed but has not been captured. Drops a captured step with other results. */
int mlff_replay_make_room(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, const mlff_result *result);
/* Whether steps exchange features or sums with other ranks. */
int mlff_replay_has_exchanges(const mlff_model *model, const mlff_halo *halo);
/* Captures the next step without evaluating it, so that no other rank is needed. */
mlff_status mlff_replay_record(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                               mlff_error *error);

/* After the device ran out of memory: makes the exchanges of the failed step and reports the required memory. n_edges:
 * of the graph, -1 if unknown. Always fails. */
mlff_status mlff_forecast_memory(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, int64_t n_edges,
                                 mlff_result *result, mlff_error *error);

/* Forces and virial of each member, to result->member_forces; after an evaluation of the same graph. */
mlff_status mlff_members_evaluate(mlff_model *model, const mlff_graph *graph, mlff_result *result, mlff_error *error);

/* Whether centroid virials need evaluations of their own. In strictly local models they are a sum over edges. */
static inline int mlff_wants_centroid(const mlff_model *model, const mlff_result *result)
{
  return result->atom_centroid && !(model->info.traits & MLFF_STRICTLY_LOCAL);
}

/* centroid.c: result->atom_centroid of a message-passing model, after an evaluation of the same graph. Makes its halo
 * exchanges four times. */
mlff_status mlff_centroid_evaluate(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo,
                                   double (*virial)[9], mlff_error *error);

/* Writes the limits that the block domain of the file does not state, "pressure, triples"; "" if it states all. */
void mlff_domain_missing(const mlff_info *info, char *text, size_t size);

/* Reads the file's self_test block. */
mlff_status mlff_selftest_read(mlff_modelfile *file, mlff_test_set *set, mlff_error *error);
/* Runs structure k on the current network. */
mlff_status mlff_selftest_run(mlff_model *model, int k, mlff_self_test *test, mlff_error *error);
/* Runs all structures, on a network with all species that they need, and fails if one does not pass. Called while the
 * model is opened and the weights are loaded. */
mlff_status mlff_selftest_run_all(mlff_model *model, mlff_error *error);
/* 1 if the network has all species of structure k. */
int mlff_selftest_is_covered(const mlff_model *model, int k);

#endif
