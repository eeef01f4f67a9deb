/* nequip.h: a NequIP network in memory, made by nequip_load.c, evaluated by nequip.c. */
#ifndef MLFF_ARCH_NEQUIP_H
#define MLFF_ARCH_NEQUIP_H

#include "../model/arch.h"

enum {
  NEQUIP_ORDERS = MLFF_NEQUIP_ORDERS,
  NEQUIP_MAX_CHANNELS = 256,
  NEQUIP_MAX_HIDDEN = 4,  /* hidden layers of the radial network */
  NEQUIP_MAX_WIDTH = 4096 /* of a row of features before a gate, stored per atom by an op */
};

/* A linear map for each order, applied to each component alike. */
typedef struct nequip_map {
  mlff_linear forward[NEQUIP_ORDERS], back[NEQUIP_ORDERS];
  int n; /* number of orders with a map, from 0 */
} nequip_map;

/* Parameters of a radial network without a table; the last two with layer norms. */
typedef struct nequip_network {
  mlff_buf weight[NEQUIP_MAX_HIDDEN], affine[NEQUIP_MAX_HIDDEN], pair_bias;
} nequip_network;

struct mace_layer;
struct mace_density;
typedef struct nequip_net nequip_net;

/* Atoms begin .. begin + n. */
typedef struct nequip_atoms {
  int64_t begin, n;
} nequip_atoms;

/* What becomes of the messages of a layer, for one block of atoms. */
typedef struct nequip_update {
  /* Rows [n][row of z] for the sums of messages after linear_2. */
  void *(*z_of)(nequip_net *, int t, nequip_atoms);
  /* x of the next layer from z and x; in the last layer also the energies, and dE/dx in last_grad. */
  void (*forward)(nequip_net *, const mlff_edges *, int t, nequip_atoms);
  /* grad_z, and unless t is 0 dE/dx without the part of linear_1, from dE/dx of the next layer. */
  void (*backward)(nequip_net *, const mlff_edges *, int t, nequip_atoms);
  /* Before the first and after the last layer. NULL in NequIP. */
  void (*begin)(nequip_net *, const mlff_edges *), (*finish)(nequip_net *, const mlff_edges *);
  /* Releases nequip_net.density and nequip_layer.mace. NULL in NequIP. */
  void (*release)(nequip_net *);
} nequip_update;

typedef struct nequip_layer {
  /* parameters */
  nequip_network network; /* without a table */
  mlff_buf rows;          /* R of ops_nequip.h: in layer 0 one for each species in use            */
  int n_weights;
  int n_paths, n_coupling[NEQUIP_ORDERS];
  mlff_buf paths, coupling;            /* none in layer 0 */
  nequip_map linear_1, linear_2, skip; /* in layer 0 folded into rows and bias */
  nequip_map linear_1_back;            /* of matrices of the element: adjoints of y to those of x */
  mlff_nequip_row wide_y, wide_x;      /* rows of linear_1 and skip for all elements; ld 0: they do not depend on it */
  mlff_buf norm;
  mlff_nequip_row sums, z, x; /* rows of the message's sums, before the update, and after it */
  mlff_nequip_row a;          /* of MACE: what the products multiply; z without gates        */
  struct mace_layer *mace;    /* NULL in NequIP                                              */
  /* kept from forward to backward */
  mlff_buf y;        /* [n_nodes][row of y]: linear_1 of the features; none in layer 0 */
  mlff_buf z_values; /* [n_local][z]; of the last layer [block]       */
  mlff_buf scale;    /* [n_local]; of the last layer [block]          */
  mlff_buf a_values; /* [n_local][a]; of the last layer [block]; with gates of MACE */
} nequip_layer;

struct nequip_net {
  mlff_backend *backend;
  const nequip_update *update;
  int n_layers, n_orders, lmax, is_even; /* orders of hidden features; highest order of the edges' harmonics */
  int n_channels[NEQUIP_ORDERS];
  int n_sent[NEQUIP_ORDERS]; /* channels of y, the features that neighbors receive */
  mlff_nequip_row y;
  mlff_nequip_terms_args network; /* of the radial networks, weights aside */
  mlff_buf frequency;
  int is_exact;           /* radial networks are evaluated without a table             */
  mlff_buf radius;        /* of pairs, for networks */
  mlff_painn_basis table; /* CUBIC: intervals of the tables, basis of the edge lines   */
  int64_t n_rows;         /* of a table */
  double epsilon, gain;
  int is_tanh; /* readout of MACE */
  int n_slots;
  mlff_buf slot;                    /* int32 [n_elements], -1 = not in use */
  mlff_buf bias;                    /* layer 0: [n_slots][scalars of z]    */
  mlff_buf readout;                 /* [n_slots][n_channels[0], padded], or [n_hidden][the same] */
  mlff_buf last;                    /* [n_slots][n_hidden] */
  int n_hidden;                     /* units of a readout with silu; 0: linear */
  double readout_gain;              /* of its silu */
  const mlff_last_features *wanted; /* of the evaluation */
  const mlff_weighting *weighting;  /* of the evaluation */
  nequip_layer *layers;

  /* arrays of a step: see reserve() for their shapes */
  int64_t block;
  mlff_painn_radial radial;
  mlff_buf terms, x, grad_x, grad_y, node_energy, edge_grad;
  int64_t n_messages;
  mlff_buf sums, grad_z, last_x, last_grad, scratch, messages;
  mlff_buf products, wide; /* [block][n_products] of MACE; [block][n_wide], a row for all elements */
  mlff_buf gated;          /* [block][n_gated] of MACE */
  int64_t n_products, n_wide, n_gated;
  struct mace_density *density;       /* of MACE, or NULL */
  mlff_buf densities, grad_densities; /* [n_local][MLFF_NEQUIP_BLOCK]: one for each layer */
};

static inline int nequip_padded(int n)
{
  return (n + MLFF_NEQUIP_BLOCK - 1) / MLFF_NEQUIP_BLOCK * MLFF_NEQUIP_BLOCK;
}

static inline int nequip_is_last(const nequip_net *net, int t)
{
  return t == net->n_layers - 1;
}

/* Rows of features between layers. */
static inline int64_t nequip_feature_width(const nequip_net *net)
{
  return net->n_layers > 1 ? net->layers[0].x.ld : 0;
}

/* Rows of features that neighbors receive. */
static inline int64_t nequip_sent_width(const nequip_net *net)
{
  return net->n_layers > 1 ? net->y.ld : 0;
}

/* Address of row `row` of a buffer whose rows have `width` reals. */
static inline void *nequip_row_of(const nequip_net *net, const mlff_buf *buf, int64_t row, int64_t width)
{
  return mlff_at(net->backend, buf->data, row * width);
}

/* First row of arrays that exist for all atoms except in the last layer. */
static inline int64_t nequip_kept_row(const nequip_net *net, int t, nequip_atoms s)
{
  return nequip_is_last(net, t) ? 0 : s.begin;
}

/* Rows of x after layer t, and of their adjoints. */
static inline void *nequip_x_of(nequip_net *net, int t, nequip_atoms s)
{
  return nequip_is_last(net, t) ? net->last_x.data : nequip_row_of(net, &net->x, s.begin, nequip_feature_width(net));
}

static inline void *nequip_grad_of(nequip_net *net, int t, nequip_atoms s)
{
  return nequip_is_last(net, t) ? net->last_grad.data
                                : nequip_row_of(net, &net->grad_x, s.begin, nequip_feature_width(net));
}

/* Without tables: evaluates the last hidden layer of a radial network for all edges. */
void nequip_make_terms(nequip_net *net, const mlff_edges *edges, const mlff_nequip_terms_args *args,
                       const nequip_network *network);
/* Applies the linear map of each order: rows of x to rows of y, or with `back` adjoints of y to those of x. */
void nequip_apply_map(nequip_net *net, const nequip_map *map, int back, int64_t n, const mlff_nequip_row *in,
                      const void *x, const mlff_nequip_row *out, void *y, int accumulate);
/* Arguments of mace_expand and mace_pick: rows of x, and net->wide. */
mlff_mace_select_args nequip_select_args(nequip_net *net, const mlff_edges *edges, nequip_atoms s,
                                         const mlff_nequip_row *row, const mlff_nequip_row *wide, void *x);
mlff_mace_atoms nequip_elements_of(const nequip_net *net, const mlff_edges *edges, nequip_atoms s);
mlff_status nequip_evaluate(void *net, const mlff_arch_inputs *in, mlff_arch_outputs *out, mlff_error *error);
int nequip_exchange_width(const void *net);
/* Scalars of the last layer, which the readout reads. */
int nequip_n_features(const void *net);

/* Intervals that a table for floats should have: 64 .. MLFF_SPLINE_MAX. `in` has host arrays of doubles; r0: radius of
 * the pair, whose pair_bias `in` has. */
int nequip_table_intervals(const mlff_nequip_terms_args *in, double r0);
/* A table of n intervals from 0 to the cutoff, or of a few more to have a knot at a kink. */
void nequip_choose_table(const mlff_nequip_basis *basis, int n, mlff_painn_basis *table);
/* Splines through the units of the last hidden layer: rows [n_rows][width]. `in` has host arrays of doubles. */
void nequip_unit_rows(const mlff_nequip_terms_args *in, double r0, const mlff_painn_basis *table, double *rows);

extern const nequip_update nequip_gates;
mlff_status nequip_create(const mlff_modelfile *file, mlff_backend *backend, const mlff_species_use *use, void **net,
                          mlff_error *error);
void nequip_destroy(void *net);

#endif
