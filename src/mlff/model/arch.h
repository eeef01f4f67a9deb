/* arch.h: interface of an architecture: one const descriptor at the end of arch/x.c. */
#ifndef MLFF_ARCH_H
#define MLFF_ARCH_H

#include "../backend/ops.h"
#include "modelfile.h"

/* Part of a model that is used: species with use[s] != 0 for s < n_species (networks and columns of others may be
 * omitted); members as in mlff_options, always NULL without n_members; radial_intervals as there, 0 = default. */
typedef struct mlff_species_use {
  int n_species;
  const int *use;
  const char *members;
  int radial_intervals;
} mlff_species_use;

/* Weights of the energies of atoms: gradients are those of sum_i weights[i] e_i. Energies are not weighted. */
typedef struct mlff_weighting {
  const void *weights; /* real [n_local] on the backend; NULL = 1 */
  int is_backward;     /* set by the network when its backward pass begins: from then on the halo gets adjoints */
} mlff_weighting;

typedef struct mlff_arch_inputs {
  const mlff_graph *graph;
  const mlff_edges *edges;
  const mlff_halo *halo; /* NULL on one rank */
  /* single: after an evaluation of the same graph, compute only the edge gradients of member `member`. */
  int single, member;
  const mlff_last_features *last; /* NULL = not wanted */
  mlff_weighting *weighting;      /* NULL = no weights */
} mlff_arch_inputs;

/* Outputs of a direct model, which predicts forces and stress instead of node energies and edge gradients. On the host;
 * sums over ranks are those of the whole system. */
typedef struct mlff_direct {
  double energy;             /* this rank's share, without the element offsets     */
  double virial[6];          /* this rank's share, xx yy zz xy xz yz, LAMMPS sign  */
  const double (*forces)[3]; /* [n_local]                                          */
  /* Start and end of the stress head (mlff_spans_now); 0 without one. */
  double stress_begin, stress_end;
} mlff_direct;

/* Buffers belong to the network and are valid until its next evaluation; repulsion is added to them. Units of the model
 * file. */
typedef struct mlff_arch_outputs {
  void *node_energy;         /* real [n_local], without the element offsets                              */
  void *edge_grad;           /* real [n_edges][4] dE/d(x_j - x_i), E summed over ALL ranks' nodes        */
  void *member_energy;       /* real [n_members][n_local]; NULL without an ensemble                      */
  const mlff_direct *direct; /* of direct models (not MLFF_CONSERVATIVE); then the other members are NULL */
} mlff_arch_outputs;

typedef struct mlff_arch {
  const char *name;     /* value of `architecture:` in a model file */
  const char *citation; /* one line: authors, journal, year, DOI    */
  /* Traits of a network (e.g. PaiNN with one layer is strictly local). */
  unsigned (*traits)(const void *net);
  /* Reads the block of the architecture. `cutoff`, `elements`, units and offsets have been read. */
  mlff_status (*create)(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                        mlff_error *error);
  /* For memory forecasts: reserves what `evaluate` needs on the device. NULL = calls `evaluate`, with ops that only
   * reserve. */
  mlff_status (*reserve)(void *net, const mlff_arch_inputs *in, mlff_error *error);
  /* Makes all halo exchanges of a step even if it fails (unless memory is short). */
  mlff_status (*evaluate)(void *net, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error);
  /* Members in use, and in the file; NULL = no ensembles. */
  int (*n_members)(const void *net, int *of_file);
  /* Largest row of a halo exchange, reals; 0 = none. */
  int (*exchange_width)(const void *net);
  /* The same of mlff_halo.reverse; NULL = neither reverse nor reduce is used. */
  int (*reverse_width)(const void *net);
  /* Number of features of the last layer, for mlff_arch_inputs.last; NULL = none. Ensembles have those of the first
   * member. */
  int (*n_features)(const void *net);
  /* net: NULL is allowed. */
  void (*destroy)(void *net);
  /* Supports mlff_species_use.radial_intervals. */
  int has_tables;
} mlff_arch;

/* Calls last_features for atoms first .. first + n, unless `last` is NULL. */
static inline void mlff_take_features(mlff_backend *backend, const mlff_last_features *last, const mlff_edges *edges,
                                      int64_t first, int64_t n, const void *features, int64_t width, int64_t ld)
{
  const mlff_last_features_args args = {.last = last,
                                        .n = n,
                                        .first = first,
                                        .width = width,
                                        .ld = ld,
                                        .center_species = edges->center_species.data,
                                        .features = features};
  if (last) backend->ops->last_features(backend, &args);
}

/* Multiplies adjoints y of the energies of atoms first .. first + n by their weights; `=` or `+=` to y. */
static inline void mlff_weight_rows(mlff_backend *backend, const mlff_weighting *weighting, int64_t first, int64_t n,
                                    int64_t width, int64_t ld, const void *x, void *y, int accumulate)
{
  if (!weighting || !weighting->weights) return;
  backend->ops->weight_rows(backend, &(mlff_weight_rows_args){.n = n,
                                                              .width = width,
                                                              .ld = ld,
                                                              .weight = mlff_at(backend, weighting->weights, first),
                                                              .x = x,
                                                              .y = y,
                                                              .accumulate = accumulate});
}

/* Sets use[k] = 1 for the members that `text` lists (mlff_options), of n. */
mlff_status mlff_members_parse(const char *text, int n, int *use, mlff_error *error);

/* All architectures, terminated by NULL. Generated from the mlff_add_arch() lines of src/mlff/CMakeLists.txt. */
extern const mlff_arch *const mlff_archs[];

#endif
