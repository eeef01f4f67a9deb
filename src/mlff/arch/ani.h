/* ani.h: an ANI network in memory, made by ani_load.c, evaluated by ani.c. */
#ifndef MLFF_ARCH_ANI_H
#define MLFF_ARCH_ANI_H

#include "../model/arch.h"

enum { ANI_MAX_LAYERS = 16 };

typedef struct ani_layer {
  mlff_linear forward, backward;
} ani_layer;

/* One network: n_layers - 1 hidden layers and the readout. */
typedef struct ani_network {
  ani_layer *layers; /* [n_layers-1] */
  mlff_buf readout;  /* real [width of the last hidden layer] */
  double readout_bias;
} ani_network;

typedef struct ani_element {
  int n_layers;                 /* 0 = not in use */
  int dims[ANI_MAX_LAYERS + 1]; /* of the file; dims[0] = columns of the full AEV */
  ani_network *members;         /* [n_members] */
} ani_element;

typedef struct ani_net {
  mlff_backend *backend;
  int n_elements, n_members, n_members_file; /* members in use, and in the file */
  int *use;                                  /* [n_elements] */
  ani_element *elements;                     /* [n_elements] */
  double alpha;                              /* of CELU */
  mlff_aev aev;
  mlff_ani_networks networks;   /* those in use: all members of an element, then of the next one */
  mlff_aev_constants constants; /* its pointers are borrowed from the file and only valid while creating */
  int n_columns_file, n_layers_max;
  int32_t *columns; /* [aev.n_columns] column of the file's AEV */

  uint64_t list_id; /* of the graph that the order belongs to */
  int32_t *order;   /* [n_rows] owned atoms by element */
  int32_t order_capacity;
  int64_t n_rows, *first;             /* first[element], [n_elements+1] */
  int64_t ld_aev, ld[ANI_MAX_LAYERS]; /* leading dimensions of AEVs and of activations of all elements together */
  mlff_buf centers;                   /* order on the backend */
  mlff_buf aevs, aev_grads;
  mlff_buf hidden[ANI_MAX_LAYERS]; /* forward: activations; backward: dE/d of what was activated */
  mlff_buf row_energy, node_energy, member_energy, edge_grad;
  const mlff_last_features *wanted; /* of the evaluation */
} ani_net;

/* Leading dimension of arrays with n columns. */
static inline int64_t ani_pad(int64_t n)
{
  enum { PAD = 16 };
  return (n + PAD - 1) / PAD * PAD;
}

mlff_status ani_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **out,
                       mlff_error *error);
void ani_destroy(void *network);

/* Prepares the networks for the fused op ani_networks, if the backend has it. */
mlff_status ani_setup_networks(ani_net *net, mlff_error *error);

/* Rows first .. first + n of atoms sorted by element, and the members of the ensemble in the batch. */
typedef struct ani_batch {
  ani_net *net;
  const mlff_edges *edges;
  int64_t first, n, room; /* room: of the largest batch */
  int member_begin, n_members;
  double factor;  /* 1/number of members that are evaluated */
  int accumulate; /* += */
} ani_batch;

/* Energies of the rows, and dE/dAEV times factor of each member: aev_grads real [n_members][n][ld_aev]. */
mlff_status ani_evaluate_networks(const ani_batch *b, mlff_error *error);

#endif
