/* arch.h: what an architecture is to the rest of the engine: one const descriptor at the end of arch/x.c. */
#ifndef MLFF_ARCH_H
#define MLFF_ARCH_H

#include "../backend/ops.h"
#include "modelfile.h"

/* What of a model is needed in this run: species use[s] != 0 for s < n_species, networks and columns of others may be
 * left out; members as in mlff_options, which architectures without n_members never see; radial_intervals as there, 0:
 * the architecture's default. */
typedef struct mlff_species_use {
  int n_species;
  const int *use;
  const char *members;
  int radial_intervals;
} mlff_species_use;

typedef struct mlff_arch_inputs {
  const mlff_graph *graph;
  const mlff_edges *edges;
  const mlff_halo *halo; /* NULL on one rank */
  /* With `single`, after an evaluation of the same graph: the edge gradients of member `member` alone, nothing else. */
  int single, member;
} mlff_arch_inputs;

/* What a model whose forces and stress are outputs of the network gives instead of node energies and edge gradients. On
 * the host; sums over ranks are those of the whole system. */
typedef struct mlff_direct {
  double energy;             /* this rank's share, without the element offsets     */
  double virial[6];          /* this rank's share, xx yy zz xy xz yz, LAMMPS' sign */
  const double (*forces)[3]; /* [n_local]                                          */
  /* With spans: when a stress of its own was begun and done (mlff_spans_now); both 0 where there is none. */
  double stress_begin, stress_end;
} mlff_direct;

/* Buffers belong to the network and stay valid until its next evaluation, which writes them anew: repulsion is added
 * to them. Units are the model file's. */
typedef struct mlff_arch_outputs {
  void *node_energy;         /* real [n_local], without the element offsets                              */
  void *edge_grad;           /* real [n_edges][4] dE/d(x_j - x_i), E summed over ALL ranks' nodes        */
  void *member_energy;       /* real [n_members][n_local] or NULL when the model is no ensemble          */
  const mlff_direct *direct; /* of models that are not MLFF_CONSERVATIVE; then the other members are NULL */
} mlff_arch_outputs;

typedef struct mlff_arch {
  const char *name;     /* value of `architecture:` in a model file */
  const char *citation; /* one line: authors, journal, year, DOI    */
  /* Traits of a network made from this file (e.g. PaiNN with one layer is strictly local). */
  unsigned (*traits)(const void *net);
  /* Reads its own block of the file. `cutoff`, `elements`, units and offsets are already read. */
  mlff_status (*create)(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                        mlff_error *error);
  /* Even when it fails, all halo exchanges of a step must have been made (unless memory ran out). */
  mlff_status (*evaluate)(void *net, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error);
  int (*n_members)(const void *net, int *of_file); /* in use and in the file; NULL = architecture without ensembles */
  int (*exchange_width)(const void *net);          /* largest row of a halo exchange in reals, 0 = none */
  int (*reverse_width)(
      const void *net);       /* the same of the halo's `reverse`; NULL = neither reverse nor reduce is used */
  void (*destroy)(void *net); /* NULL is fine */
  int has_tables;             /* knows of mlff_species_use.radial_intervals */
} mlff_arch;

/* use[k] = 1 for the members of n that `text` names (mlff_options). */
mlff_status mlff_members_parse(const char *text, int n, int *use, mlff_error *error);

/* All architectures, ended by NULL. Generated from the mlff_add_arch() lines of src/mlff/CMakeLists.txt. */
extern const mlff_arch *const mlff_archs[];

#endif
