/* ops_tensornet.h: operations of TensorNet (cpu/tensornet*.c; CUDA twins: cuda/tensornet*.cu).
 *
 * G. Simeon, G. De Fabritiis, NeurIPS 2023, arXiv:2306.06482. A feature is a 3x3 matrix X for each of the F channels
 * (n_features), stored as nine components in the orthonormal basis of tensornet_math.h: one of part I (the trace),
 * three of part A (antisymmetric) and five of part S (symmetric without trace). ||X||^2 is their sum of squares. g_
 * marks an adjoint, dE/d(...).
 *
 * A row of features is real [9][F], channels contiguous, F padded with zeros to a multiple of MLFF_PAINN_BLOCK. Rows of
 * scalars are [F], or [3][F] with one for each part. Atoms of a call are begin <= i < end; arrays marked "block" start
 * at atom `begin`, others at atom 0. tensornet_block: most atoms per call of node-local work.
 */
#ifndef MLFF_OPS_TENSORNET_H
#define MLFF_OPS_TENSORNET_H

#include "ops_mace.h"

enum {
  MLFF_TENSORNET_COMPONENTS = 9,
  MLFF_TENSORNET_LAYERS = 3,  /* of a radial network                  */
  MLFF_TENSORNET_BASIS = 64,  /* most radial functions                */
  MLFF_TENSORNET_WIDTH = 768, /* most outputs of its layers, 3F       */
};

typedef enum mlff_tensornet_act {
  MLFF_TENSORNET_SILU = 0,
  MLFF_TENSORNET_TANH,
  MLFF_TENSORNET_SIGMOID,
  MLFF_TENSORNET_SOFTPLUS /* log(1 + exp(x)) - ln 2 */
} mlff_tensornet_act;

/* ---- radial part: tensornet_radial.c ------------------------------------------------------------------------------
 *
 * The 3F weights q of an edge and their slopes are sums over four rows of a table, coef and slope of the edge's line
 * (ops_painn.h, CUBIC), or `terms`, computed by tensornet_terms. */

/* q(r) = fc(r) act(W_2 act(W_1 act(W_0 phi(r) + b_0) + b_1) + b_2), phi and fc those of ops_painn.h (GAUSSIAN, BESSEL)
 * without the cutoff function in phi. */
typedef struct mlff_tensornet_network {
  mlff_painn_kind kind;
  mlff_tensornet_act act;
  int n_basis;
  int width[MLFF_TENSORNET_LAYERS];
  double cutoff;
  const void *first, *second;                /* real [n_basis]: centers and 1/width^2, or freqs */
  const void *weight[MLFF_TENSORNET_LAYERS]; /* real [inputs][width]                            */
  const void *bias[MLFF_TENSORNET_LAYERS];   /* real [width]                                    */
} mlff_tensornet_network;

/* tensornet_terms: q and dq/dr of the edges of a block, which start at that of atom `begin`.
 *   terms  real [n_edges of the block][2][width of the last layer] */
typedef struct mlff_tensornet_terms_args {
  const struct mlff_edges *edges;
  mlff_tensornet_network network;
  int64_t begin, end;
  void *terms;
} mlff_tensornet_terms_args;

/* ---- embedding: tensornet_moments.c -------------------------------------------------------------------------------
 *
 * The embedding of an atom is linear in moments for each species s of neighbors,
 *   m[i][k][s][t] = sum_{j of s} coef_t(r_ij) e_k(u_ij),
 * e the nine components of 1 + [u]x + (u u^T - 1/3). */

/* tensornet_moments, tensornet_moments_backward.
 *   n_terms   of the radial data (GAUSSIAN, BESSEL); n_rows of them per slot differ from zero
 *   moments   real [n][9][ld] block; ld >= n_slots * n_rows + n_terms. Backward: their adjoints, finite everywhere
 *   edge_grad real [n_edges][4] (+)= dE/d(x_j - x_i) */
typedef struct mlff_tensornet_moments_args {
  const struct mlff_edges *edges;
  const mlff_painn_radial *radial;
  int n_terms, n_rows, n_slots;
  const int32_t *slot;
  int64_t begin, end;
  void *moments;
  int64_t ld;
  void *edge_grad;
  int accumulate;
} mlff_tensornet_moments_args;

/* ---- messages: tensornet_message.c --------------------------------------------------------------------------------
 *
 * tensornet_message: sums[i] = sum_{e of i} q(e) y[j], part by part, j = node of the neighbor.
 * tensornet_message_backward, for the sender i over its edges (the list is symmetric), j the receiver:
 *   sums[i] += sum_e q(e) grad[j];  edge_grad[e]: of the edge that i sends along e, q'(e) <grad[j], y[i]>
 * tensornet_local: q_sums[i] = sum_e q(e);  sums[i] = q_sums[i] y[i]
 * tensornet_local_backward: sums[i] += q_sums[i] grad[i];  edge_grad[e]: q'(e) <grad[i], y[i]>
 *   rows      real [n_rows][3F], the table; or NULL
 *   terms     of the block, read without `rows`
 *   y, grad   real [n_nodes][9][F]; of tensornet_local: block
 *   sums      real [n][9][F] block
 *   q_sums    real [n][3][F] block
 *   edge_grad real [n_edges][4] (+)= dE/d(x_j - x_i) */
typedef struct mlff_tensornet_message_args {
  const struct mlff_edges *edges;
  const mlff_painn_radial *radial;
  const void *rows, *terms;
  int n_features;
  int64_t begin, end;
  const void *y, *grad;
  void *sums, *q_sums;
  void *edge_grad;
  int accumulate;
} mlff_tensornet_message_args;

/* ---- nodes: tensornet.c; all arrays are blocks of n atoms -------------------------------------------------------- */

/* tensornet_pair: t = v + z[slot] u, zeros for atoms without a slot. tensornet_pair_backward: g_v = g_t, g_u = z g_t.
 *   vu  real [n][9][2F]: v and u, or their adjoints
 *   z   real [n_slots][F]
 *   t   real [n][9][F], or its adjoint */
typedef struct mlff_tensornet_pair_args {
  mlff_mace_atoms atoms;
  int n_features;
  void *vu, *t;
  const void *z;
} mlff_tensornet_pair_args;

/* tensornet_norm: s = sums of squares of the components of all parts (n_groups 1) or of each part (n_groups 3), and
 * out = (s - mean)/sqrt(variance + epsilon), over n_groups n_channels values.
 * tensornet_norm_backward: g_x += 2 x g_s.
 *   n_channels  F before padding
 *   out         real [n][n_groups][F], zeros in padded channels
 *   inverse     real [n]: 1/sqrt(variance + epsilon), written by the forward op
 *   grad_out    real [n][n_groups][F]
 *   grad        real [n][9][F]: +=, or = without `accumulate` */
typedef struct mlff_tensornet_norm_args {
  int64_t n;
  int n_features, n_channels, n_groups;
  double epsilon;
  const void *x;
  void *out, *inverse;
  const void *grad_out;
  void *grad;
  int accumulate;
} mlff_tensornet_norm_args;

/* tensornet_activate: x = act(x), slope = act'(x), element by element, n of them. */
typedef struct mlff_tensornet_activate_args {
  int64_t n;
  mlff_tensornet_act act;
  void *x, *slope;
} mlff_tensornet_activate_args;

/* tensornet_gate: X = s t, part by part;  x = X/(||X||^2 + 1), inverse = 1/(||X||^2 + 1).
 * tensornet_gate_backward: grad = dE/dt from dE/dx, in place, and grad_s = dE/ds * slope.
 *   s, slope, grad_s  real [n][3][F]
 *   t, x, grad        real [n][9][F]
 *   inverse           real [n][F] */
typedef struct mlff_tensornet_gate_args {
  int64_t n;
  int n_features;
  const void *s, *t, *slope;
  void *x, *inverse;
  void *grad, *grad_s;
} mlff_tensornet_gate_args;

/* tensornet_product: Q = M Y + Y M (is_o3) or 2 Y M;  r = Q/(||Q||^2 + 1).
 * tensornet_product_backward: grad_m and grad_y, from grad_r.
 *   all real [n][9][F]; grad_m may alias grad_r */
typedef struct mlff_tensornet_product_args {
  int64_t n;
  int n_features, is_o3;
  const void *y, *m;
  void *r;
  const void *grad_r;
  void *grad_m, *grad_y;
} mlff_tensornet_product_args;

/* tensornet_update: X = x + D + D D;  out = X/(||X||^2 + 1) with `inverse` = 1/(||X||^2 + 1), or out = X without it.
 * tensornet_update_backward: grad = dE/dX from dE/dout, in place; grad_d = dE/dD.
 *   x, d, out, grad, grad_d  real [n][9][F]
 *   inverse                  real [n][F], or NULL */
typedef struct mlff_tensornet_update_args {
  int64_t n;
  int n_features;
  const void *x, *d;
  void *out, *inverse;
  void *grad, *grad_d;
} mlff_tensornet_update_args;

/* tensornet_readout: a = weight_0 . h_0 + bias[0], b likewise;  energy = scale a sigmoid(b);  grad = dE/dh * slope.
 * Zeros for atoms without a slot.
 *   h, slope, grad  real [n][2][n_features]; grad may alias slope
 *   weight          real [2][n_features]
 *   energy          real [n] */
typedef struct mlff_tensornet_readout_args {
  mlff_mace_atoms atoms;
  int n_features;
  double bias[2], scale;
  const void *h, *slope, *weight;
  void *energy, *grad;
} mlff_tensornet_readout_args;

#endif
