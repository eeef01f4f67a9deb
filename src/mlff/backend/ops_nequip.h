/* ops_nequip.h: operations of NequIP (cpu/nequip*.c; CUDA twins: cuda/nequip*.cu).
 *
 * S. Batzner et al., Nature Communications 13, 2453 (2022). Symbols: x, y features of a node, of orders l (irreducible
 * representations of the rotation group) with 2l+1 components each; Y_lm real spherical harmonics of the unit vector of
 * an edge (mlff_nequip_harmonics, ops_math.h); w radial weights of an edge; c the Clebsch-Gordan coefficients of
 * nequip_cg.h. g_ marks an adjoint, dE/d(...).
 *
 * Channels of every order are padded with zeros to a multiple of MLFF_NEQUIP_BLOCK, channels of an order and component
 * are contiguous. Atoms of a call are begin <= i < end; arrays marked "block" start at atom `begin`, others at atom 0.
 * nequip_block: atoms per call of node-local work, so that it stays in cache; INT64_MAX: all. nequip_messages: edges
 * whose messages the backward pass stores per batch.
 */
#ifndef MLFF_OPS_NEQUIP_H
#define MLFF_OPS_NEQUIP_H

#include "backend.h"
#include "ops_painn.h"

struct mlff_edges;

enum {
  MLFF_NEQUIP_BLOCK = 16,
  MLFF_NEQUIP_ORDERS = 4,     /* l = 0 .. 3                            */
  MLFF_NEQUIP_HARMONICS = 16, /* (l, m), l outer                       */
  MLFF_NEQUIP_HIDDEN = 128,   /* most units of a hidden layer of a radial network */
  MLFF_NEQUIP_SCRATCH = 4     /* edges per batch of a message */
};

/* Layout of a row of features: component m of order l is at `offset[l] + m n[l]`, n[l] channels. */
typedef struct mlff_nequip_row {
  int n_orders;
  int n[MLFF_NEQUIP_ORDERS], offset[MLFF_NEQUIP_ORDERS];
  int64_t ld; /* of the whole row */
} mlff_nequip_row;

/* ---- radial part: nequip_radial.c --------------------------------------------------------------------------------
 *
 * The n_weights radial weights of an edge and their slopes are, as in ops_painn.h, sums over rows of a matrix R:
 *   w(r) = sum_t coef_t(r) R[first(r) + t],   dw/dr = sum_t slope_t(r) R[first(r) + t].
 * n_terms = 4: a table, coef and slope of mlff_painn_radial (CUBIC). Otherwise R is the last matrix of the radial
 * network, and coef the units of its last hidden layer, computed by nequip_terms (`terms`).
 */

/* What radial functions take instead of the distance r of a pair with radius r0, x = r/r0:
 *   AGNESI  t = 1/(1 + a x^p/(1 + x^(p-q)))
 *   SOFT    t = r_1 + (r - r_1)(1 + tanh(a (r - (r_1 + r_2)/2)/(r_2 - r_1)))/2, r_1 = 3/4 r0, r_2 = 4/3 r0 */
typedef enum mlff_nequip_transform { MLFF_NEQUIP_DISTANCE, MLFF_NEQUIP_AGNESI, MLFF_NEQUIP_SOFT } mlff_nequip_transform;

/* Functions b_n(t) f(r), n < n_basis: b_n = prefactor sin(frequency_n t)/t, or exp(coefficient (t - frequency_n)^2) if
 * the coefficient is not 0, and f one of two cutoff functions. */
typedef struct mlff_nequip_basis {
  int n;
  mlff_nequip_transform transform;
  double a, p, q; /* of the transform */
  double cutoff, prefactor, coefficient;
  double power; /* p of 1 - (p+1)(p+2)/2 x^p + p(p+2) x^(p+1) - p(p+1)/2 x^(p+2), x = r/cutoff; 0: the other one */
  double onset; /* XPLOR: 1 to here, then (c^2-r^2)^2 (c^2+2r^2-3o^2)/(c^2-o^2)^3 with cutoff c and onset o      */
} mlff_nequip_basis;

/* nequip_terms: coef_t = act(h_t) and its slope for each edge, h the last hidden layer of
 *   h_0 = A_0 B(r),  h_k = A_k act(h_{k-1}),  act(h) = gain silu(h), or tanh(h^2) with `is_density`.
 * With `is_normed`: h_k += bias_k, h_0 += pair_bias, act(h) = gain silu(g (h - mean)/sqrt(variance + epsilon) + b),
 * except in the last layer with `is_density`. The cutoff function multiplies the units, not B, and is itself one more
 * unit unless `is_density`.
 *   frequency  real [n_basis]
 *   weight     A_k: real [width[k]][width[k-1] or n_basis], k < n_hidden
 *   radius     real [n_pairs]: r0 by the pair of lines; NULL without a transform
 *   pair_bias  real [n_pairs][width[0]]; affine  bias_k, g, b: real [3][width[k]]; with `is_normed`
 *   terms      real [n_edges][2][n_terms]: coef, slope, of the units from column `first` on; zeros beyond them */
typedef struct mlff_nequip_terms_args {
  const struct mlff_edges *edges;
  mlff_nequip_basis basis;
  const void *frequency;
  int n_hidden, width[4];
  const void *weight[4];
  double gain;
  int is_density;
  int is_normed;
  double epsilon;
  const void *pair_bias, *affine[4];
  const mlff_painn_radial *lines;
  const void *radius;
  int n_terms, first;
  void *terms;
} mlff_nequip_terms_args;

/* Units of a radial network. */
static inline int mlff_nequip_n_units(const mlff_nequip_terms_args *a)
{
  return a->width[a->n_hidden - 1] + (a->is_normed && !a->is_density);
}

/* Radial input of messages. */
typedef struct mlff_nequip_radial {
  const mlff_painn_radial *lines;
  const void *terms; /* as above; not read when n_terms = 4 */
  int n_terms, n_weights;
} mlff_nequip_radial;

/* ---- messages: nequip_first.c, nequip_message.c -------------------------------------------------------------------
 *
 * nequip_first: layer 0, where the features of a neighbor depend only on its species. The linear map of each order is
 * folded into the radial weights of the channels o of z, with a matrix R for each species:
 *   z[i][l][m][o] = bias[s_i][o] (l = 0) + sum_{e of i} w_{l,o}(r_e; s_j) Y_lm(e)
 *   rows     real [n_slots][n_rows][n_weights], columns: the orders of `out`, out.n[l] each
 *   slot     int32 [n_species], on the backend: position of a species, -1 if it cannot occur
 *   bias     real [n_slots][out.n[0]]
 *   z        real [n_local][out.ld]
 * nequip_first_backward: edge_grad from z, which holds the adjoint: of the block. */
typedef struct mlff_nequip_first_args {
  const struct mlff_edges *edges;
  mlff_nequip_radial radial;
  const void *rows, *bias;
  int64_t n_rows;
  const int32_t *slot;
  mlff_nequip_row out;
  int64_t begin, end;
  void *z;         /* real [n][out.ld] block                           */
  void *edge_grad; /* backward: real [n_edges][4], dE/d(x_j - x_i)      */
  int accumulate;  /* edge_grad += instead of =                        */
} mlff_nequip_first_args;

/* A coupling of orders: l1 of the neighbor's features and l2 of the edge to l3. */
typedef struct mlff_nequip_path {
  int32_t l1, l2, l3;
  int32_t n;        /* channels: those of order l1                                */
  int32_t column;   /* of its first radial weight                                */
  int32_t out;      /* offset of component 0 of its channels in a row of sums       */
  int32_t coupling; /* offset of K [2l1+1][2l3+1] in the edge's couplings; l2 > 0   */
} mlff_nequip_path;

/* nequip_message, for atom i over its edges e with node j of the neighbor, each path p and channel u:
 *   sums[i][p][k][u] = sum_e w_{p,u}(r_e) sum_i' K_p[i'][k](e) y[j][l1][i'][u],
 *   K_p[i'][k](e) = sum_j' c_{i'j'k} Y_l2j'(e)
 * nequip_message_backward, from the adjoints of the block's sums: edge_grad of the block's edges, and
 *   grad[j][l1][i'][u] += w_{p,u} sum_k K_p[i'][k] g_sums[i][p][k][u]
 *   in, out   rows of features and of sums
 *   paths     on the backend
 *   coupling  real: for l2 = 1, 2, 3 and j' < 2 l2 + 1: contribution of Y_l2j' to the couplings of an edge,
 *             [n_coupling[l2]], a multiple of MLFF_NEQUIP_BLOCK; sorted by l2
 *   scratch   real [MLFF_NEQUIP_SCRATCH][2 n_weights + sum of n_coupling], for CPUs
 *   messages  backward: real [n_messages][in.ld], contributions of edges to grad, for GPUs. n_messages >= the smaller
 *             of n_room and nequip_messages, and >= the candidates of any center */
typedef struct mlff_nequip_message_args {
  const struct mlff_edges *edges;
  mlff_nequip_radial radial;
  const void *rows; /* real [n_rows][n_weights] R of this layer */
  mlff_nequip_row in, out;
  int n_paths;
  const mlff_nequip_path *paths;
  const void *coupling;
  int n_coupling[MLFF_NEQUIP_ORDERS];
  int64_t begin, end;
  const void *y;   /* real [n_nodes][in.ld]                         */
  void *sums;      /* real [n][out.ld] block; backward: their adjoints */
  void *grad;      /* backward: real [n_nodes][in.ld] +=            */
  void *edge_grad; /* backward: real [n_edges][4]                   */
  int accumulate;  /* edge_grad += instead of =                     */
  void *scratch;
  void *messages;
  int64_t n_messages;
} mlff_nequip_message_args;

/* ---- nodes: nequip_gate.c ---------------------------------------------------------------------------------------- */

/* nequip_gate: q = g z/sqrt(s), s = epsilon + sum_l sum_{m,u} z_lmu^2/((2l+1)^2 n_orders) (s = 1 without a norm), then
 *   x_0 = gain silu(q_0),   x_l = gain q_l silu(gate of the channel), or with gate_gain: gate_gain q_l sigmoid(gate);
 * the gates of l = 1, 2, ... follow the scalars in order 0 of z.
 * nequip_gate_backward: grad_z from grad_x. grad_z may alias z.
 *   weight  real [sum of z.n[l]] g, or NULL: no norm, g = 1
 *   scale   real [n] 1/sqrt(s), written by the forward op; with a norm */
typedef struct mlff_nequip_gate_args {
  int64_t n;
  mlff_nequip_row in, out; /* of z and x */
  const void *z;           /* real [n][in.ld]  */
  const void *weight;
  double epsilon, gain, gate_gain; /* gate_gain: 0 for silu; else no norm */
  void *scale;
  void *x;            /* real [n][out.ld] */
  const void *grad_x; /* real [n][out.ld] */
  void *grad_z;       /* real [n][in.ld]  */
} mlff_nequip_gate_args;

/* nequip_readout. energy[i] = sum_u x[i][u] weight[slot of i][u], 0 for atoms of species -1; grad = that weight. */
typedef struct mlff_nequip_readout_args {
  int64_t n;
  int width;
  const void *x;          /* real [n][width]          */
  const void *weight;     /* real [n_slots][width]    */
  const int32_t *slot;    /* as in nequip_first       */
  const int32_t *species; /* [n] of the atoms, on the backend */
  void *energy;           /* real [n]                 */
  void *grad;             /* real [n][width]          */
} mlff_nequip_readout_args;

#endif
