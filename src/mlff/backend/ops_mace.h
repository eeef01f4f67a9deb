/* ops_mace.h: operations of MACE beyond those of NequIP (cpu/mace.c; CUDA twins: cuda/mace.cu).
 *
 * I. Batatia et al., NeurIPS 2022, arXiv:2206.07697. Rows of features are those of ops_nequip.h. In mace_start and
 * mace_product all orders have the same number n of channels, so that component k = l^2 + m of channel c is at k n + c.
 * A matrix that depends on the element of an atom multiplies a wide row, in which the channels of the atom's element
 * follow those of the others, which are zeros.
 */
#ifndef MLFF_OPS_MACE_H
#define MLFF_OPS_MACE_H

#include "ops_nequip.h"

enum { MLFF_MACE_HIDDEN = 64 }; /* most units of a readout */

/* Elements of the n atoms of a call. */
typedef struct mlff_mace_atoms {
  int64_t n;
  const int32_t *slot;    /* on the backend: position of a species, -1 if it cannot occur */
  const int32_t *species; /* [n], on the backend; -1: an atom without features            */
} mlff_mace_atoms;

/* mace_expand: wide[i][l][m][slot of i * n_l + c] = x[i][l][m][c], and zeros elsewhere, for the orders of `wide`.
 * mace_pick: the reverse, x = wide of the slot; zeros in orders that `wide` lacks.
 *   row   of x: real [n][row.ld]
 *   wide  of wide_x: real [n][wide.ld], n_slots times the channels of `row`; at most its orders */
typedef struct mlff_mace_select_args {
  mlff_mace_atoms atoms;
  mlff_nequip_row row, wide;
  void *x, *wide_x;
} mlff_mace_select_args;

/* mace_start: x = bias of the slot in order 0, and zeros in the other orders.
 *   bias  real [n_slots][row.n[0]], or NULL: zeros
 *   x     real [n][row.ld] */
typedef struct mlff_mace_start_args {
  mlff_mace_atoms atoms;
  mlff_nequip_row row;
  const void *bias;
  void *x;
} mlff_mace_start_args;

/* mace_product: for each channel and each component M of p, a polynomial of the components of a,
 *   p[M] = sum_i a_i (c_i + sum_j a_j (c_ij + sum_k c_ijk a_k)),   i <= j <= k,
 * whose coefficients depend on the slot. mace_product_backward: grad_a (=) from grad_p.
 *   a, grad_a  real [n][a_row.ld]; p, grad_p  real [n][p_row.ld]
 *   terms      int32, on the backend: for each M: number of i; for each i: i, number of j; for each j: j, number of k,
 *              all k
 *   coef       real [n_slots][n_coef][channels]: c_i, c_ij, c_ijk in the order in which `terms` names them
 *   density    real, one in each row of MLFF_NEQUIP_BLOCK: divides a first; NULL: 1. grad_density: its adjoint */
typedef struct mlff_mace_product_args {
  mlff_mace_atoms atoms;
  mlff_nequip_row a_row, p_row;
  const int32_t *terms;
  const void *coef;
  int64_t n_coef;
  const void *a, *density, *grad_p;
  void *p, *grad_a, *grad_density;
} mlff_mace_product_args;

/* mace_divide: out = in/density, and with `bias` += bias of the slot in the first columns; zeros for atoms without a
 * slot. With grad_density, out being an adjoint: grad_density = -sum z out/density.
 *   in, out, z             real [n][ld]; z: what was divided
 *   density, grad_density  real, one in each row of MLFF_NEQUIP_BLOCK; density NULL: 1
 *   bias                   real [n_slots][n_bias], or NULL */
typedef struct mlff_mace_divide_args {
  mlff_mace_atoms atoms;
  int64_t ld, n_bias;
  const void *in, *density, *bias, *z;
  void *out, *grad_density;
} mlff_mace_divide_args;

/* mace_readout of scalars x, n_channels each: energy o and its gradient by x.
 *   n_hidden = 0: o = weight . x, weight real [n_channels]
 *   else          o = last . act(weight x), weight real [n_hidden][n_channels], last real [n_hidden]
 *                 or, with ld_last, [n_slots][ld_last],
 *                 act = gain silu, or gain tanh with `is_tanh`
 *   middle        NULL, or real [n_hidden][n_hidden]: o = last . act(middle act(weight x) + bias), bias real [n_hidden]
 *   energy  real [n]: (+)= o; NULL: not wanted
 *   grad    real [n][ld]: (+)= do/dx in the first n_channels columns; NULL: not wanted */
typedef struct mlff_mace_readout_args {
  mlff_mace_atoms atoms;
  int n_channels, n_hidden;
  int64_t ld;
  const void *x;
  const void *weight, *middle, *bias, *last;
  int64_t ld_last; /* 0: `last` is that of all elements */
  double gain;
  int is_tanh;
  void *energy, *grad;
  int add_energy, add_grad; /* += instead of = */
} mlff_mace_readout_args;

#endif
