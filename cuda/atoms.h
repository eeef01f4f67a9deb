/* atoms.h: operations on rows of the same atoms that can be deferred and then run by one fused kernel (atoms.cu): their
 * arguments, and the code of one row or channel, which the kernels of single operations use as well.
 */
#ifndef MLFF_CUDA_ATOMS_H
#define MLFF_CUDA_ATOMS_H

#include "ops_cuda.h"

#define ATOMS MLFF_CUDA(atoms)

namespace ATOMS { /* structures differ between element types */

/* ---- GEMMs: linear.cu -------------------------------------------------------------------------------------------- */

/* Weights are [padded_rows(n_in)][n_out], zeros from row n_in on, so that loops over k need no remainder. */
enum { PADDED_ROWS = 32 };
static __host__ __device__ __forceinline__ int padded_rows(int n_in)
{
  return (n_in + PADDED_ROWS - 1) / PADDED_ROWS * PADDED_ROWS;
}

typedef struct linear_arrays {
  int64_t n_rows, ldx, ldy, ld_slope, ld_scale;
  const real *x, *weight, *bias, *scale;
  real *y, *slope;
  double alpha;
  int n_in, n_out, act, accumulate;
  int x_in_vectors, y_in_vectors; /* rows of x, and of y, slope and scale, allow loads and stores of four values */
} linear_arrays;

/* d celu(v)/dv from the value celu(v); NaN stays NaN. */
MLFF_DEVICE real celu_slope(real value, real inverse_alpha)
{
  return mlff_celu_slope(value > 0 ? (real) 0 : value, inverse_alpha);
}

MLFF_DEVICE real celu_value(real v, real alpha, real *slope)
{
  return mlff_celu(v < 0 ? (real) 0 : v, v > 0 ? (real) 1 : real_exp(v / alpha), alpha, slope);
}

/* act(v) and its slope. ACT: the activation, or ANY_BUT_SSP: `act` is chosen at run time, without SSP, which costs
 * registers. Twin: finish_vector of cpu/linear.c. */
enum { ANY_BUT_SSP = -1 };
template <int ACT> MLFF_DEVICE real activated(int act, real alpha, real v, real *slope)
{
  if (act == MLFF_ACT_SILU) return mlff_silu(v, real_sigmoid(v), slope);
  if (ACT == MLFF_ACT_SSP) {
    *slope = real_sigmoid(v);
    return real_ssp(v);
  }
  return celu_value(v, alpha, slope);
}

/* Epilogue of one accumulator v of y[row][col]. */
template <int ACT> MLFF_DEVICE void finish_value(const linear_arrays &a, real v, int64_t row, int col)
{
  const int act = ACT == ANY_BUT_SSP ? a.act : ACT;
  real *y = a.y + row * a.ldy + col;
  if (a.scale) {
    const real scale = a.scale[row * a.ld_scale + col];
    v *= act == MLFF_ACT_CELU ? celu_slope(scale, 1 / (real) a.alpha) : scale;
  } else if (act != MLFF_ACT_NONE) {
    real slope;
    v = activated<ACT>(act, (real) a.alpha, v, &slope);
    if (a.slope) a.slope[row * a.ld_slope + col] = slope;
  }
  if (a.accumulate) v += *y;
  *y = v;
}

/* ---- updates of atoms: painn_mix.cu; i: atom, k: channel; I: the type of indices --------------------------------- */

/* Loads come before stores: the compiler must assume that arrays alias. */

typedef struct mix_arrays {
  const real *vw, *y, *mu, *grad, *grad_qn, *grad_m;
  real *qn, *inv_norm, *q_out, *state_out, *grad_y, *grad_vw, *grad_q_out, *grad_mu_out;
  int64_t n, ld_grad_q, ld_grad_mu;
  double epsilon;
  int f, last, unused[2];
} mix_arrays;

/* The vector parts of one atom at one channel: V and W are [3][2F]. */
typedef struct mix_vectors {
  real vx, vy, vz, wx, wy, wz;
} mix_vectors;

template <typename I> MLFF_DEVICE mix_vectors load_vectors(const real *vw, I f)
{
  const mix_vectors m = {vw[0], vw[2 * f], vw[4 * f], vw[f], vw[3 * f], vw[5 * f]};
  return m;
}

MLFF_DEVICE real dot_vw(const mix_vectors &m)
{
  return m.vx * m.wx + m.vy * m.wy + m.vz * m.wz;
}

/* n[i][k] = sqrt(V.V + epsilon) into qn[i][F + k], 1/n into inv_norm[i][k]. Twin: painn_mix_norm_cpu. */
template <typename I> MLFF_DEVICE void mix_norm(const mix_arrays &a, I i, int k)
{
  const I f = a.f;
  const mix_vectors m = load_vectors(a.vw + i * 6 * f + k, f);
  const real n = real_sqrt(m.vx * m.vx + m.vy * m.vy + m.vz * m.vz + (real) a.epsilon);
  a.qn[i * 2 * f + f + k] = n;
  a.inv_norm[i * f + k] = 1 / n;
}

/* q_out = q + s + t V.W,  mu_out = mu + v W with (s, v, t) = y [n][3F] (last: (s, t) [n][2F] and no mu_out).
 * Twin: painn_mix_update_cpu. */
template <typename I> MLFF_DEVICE void mix_update(const mix_arrays &a, I i, int k)
{
  const I f = a.f;
  const int n_parts = a.last ? 2 : 3;
  const mix_vectors m = load_vectors(a.vw + i * 6 * f + k, f);
  const real *y = a.y + i * n_parts * f + k;
  const real q = a.qn[i * 2 * f + k] + y[0] + y[(n_parts - 1) * f] * dot_vw(m);
  if (!a.last) {
    const real *mu = a.mu + i * 3 * f + k, v = y[f], mu_x = mu[0], mu_y = mu[f], mu_z = mu[2 * f];
    real *mu_out = a.state_out + i * 6 * f + 3 * f + k;
    mu_out[0] = mu_x + v * m.wx;
    mu_out[f] = mu_y + v * m.wy;
    mu_out[2 * f] = mu_z + v * m.wz;
  }
  a.q_out[i * f + k] = q;
}

/* Reverses mix_update towards s, v, t:  g_s = g_q,  g_v = g_mu.W,  g_t = g_q V.W. Twin:
 * painn_mix_backward_gates_cpu. */
template <typename I> MLFF_DEVICE void mix_backward_gates(const mix_arrays &a, I i, int k)
{
  const I f = a.f;
  const int n_parts = a.last ? 2 : 3;
  const mix_vectors m = load_vectors(a.vw + i * 6 * f + k, f);
  const real *grad = a.grad + i * (a.last ? 1 : 4) * f + k;
  const real gq = grad[0], gt = gq * dot_vw(m);
  const real gv = a.last ? (real) 0 : grad[f] * m.wx + grad[2 * f] * m.wy + grad[3 * f] * m.wz;
  real *gy = a.grad_y + i * n_parts * f + k;
  gy[0] = gq;
  gy[(n_parts - 1) * f] = gt;
  if (!a.last) gy[f] = gv;
}

/* Reverses mix_update and mix_norm towards V and W:  g_V = g_q t W + g_n/n V,  g_W = g_mu v + g_q t V.
 * Twin: painn_mix_backward_vectors_cpu. */
template <typename I> MLFF_DEVICE void mix_backward_vectors(const mix_arrays &a, I i, int k)
{
  const I f = a.f;
  const int n_parts = a.last ? 2 : 3;
  const mix_vectors m = load_vectors(a.vw + i * 6 * f + k, f);
  const real *grad = a.grad + i * (a.last ? 1 : 4) * f + k, *y = a.y + i * n_parts * f + k;
  const real gdot = grad[0] * y[(n_parts - 1) * f], gnn = a.grad_qn[i * 2 * f + f + k] * a.inv_norm[i * f + k];
  const real v = a.last ? (real) 0 : y[f], gmu_x = a.last ? (real) 0 : grad[f];
  const real gmu_y = a.last ? (real) 0 : grad[2 * f], gmu_z = a.last ? (real) 0 : grad[3 * f];
  real *gv = a.grad_vw + i * 6 * f + k, *gw = gv + f;
  gv[0] = gdot * m.wx + gnn * m.vx;
  gv[2 * f] = gdot * m.wy + gnn * m.vy;
  gv[4 * f] = gdot * m.wz + gnn * m.vz;
  gw[0] = gdot * m.vx + v * gmu_x;
  gw[2 * f] = gdot * m.vy + v * gmu_y;
  gw[4 * f] = gdot * m.vz + v * gmu_z;
}

/* grad_q_out = g_q + grad_qn (its q part),  grad_mu_out = g_mu + grad_m (last: grad_m). Twin:
 * painn_mix_backward_sum_cpu. */
template <typename I> MLFF_DEVICE void mix_backward_sum(const mix_arrays &a, I i, int k)
{
  const I f = a.f;
  const real *grad = a.grad + i * (a.last ? 1 : 4) * f + k, *through = a.grad_m + i * 3 * f + k;
  const real gq = grad[0] + a.grad_qn[i * 2 * f + k];
  real gmu[3], *gmu_out = a.grad_mu_out + i * (I) a.ld_grad_mu + k;
#pragma unroll
  for (int c = 0; c < 3; c++) gmu[c] = a.last ? through[c * f] : grad[(1 + c) * f] + through[c * f];
  a.grad_q_out[i * (I) a.ld_grad_q + k] = gq;
#pragma unroll
  for (int c = 0; c < 3; c++) gmu_out[c * f] = gmu[c];
}

typedef struct readout_arrays {
  const real *h, *slope, *weight;
  real *energy, *grad_h;
  const int32_t *species;
  int64_t n;
  double bias;
  int width, unused;
} readout_arrays;

/* energy[i] = bias + sum_k w[k] h[i][k] (0 for species -1),  grad_h[i][k] = w[k] slope[i][k];  h, slope [n][width]. The
 * lanes of a warp own every 32nd k; the sum goes through shuffles. Twin: painn_readout_cpu. */
MLFF_DEVICE void readout_atom(const readout_arrays &a, int64_t i, int lane)
{
  const int32_t species = a.species[i];
  real sum = 0;
  for (int k = lane; k < a.width; k += WARP) {
    const real w = a.weight[k];
    sum += w * a.h[i * a.width + k];
    a.grad_h[i * a.width + k] = w * a.slope[i * a.width + k];
  }
  sum = warp_sum(sum);
  if (lane == 0) a.energy[i] = species < 0 ? (real) 0 : (real) a.bias + sum;
}

/* ---- deferred operations ----------------------------------------------------------------------------------------- */

enum step_kind {
  STEP_LINEAR = 0,
  STEP_NORM,
  STEP_UPDATE,
  STEP_BACKWARD_GATES,
  STEP_BACKWARD_VECTORS,
  STEP_BACKWARD_SUM,
  STEP_READOUT
};

/* linear_arrays with int indices. A worker thread computes one column of `rows` rows at a time; n_passes cover all
 * columns. */
typedef struct alignas(16) row_gemm {
  const real *x, *weight, *bias, *scale;
  real *y, *slope;
  double alpha;
  int ldx, ldy, ld_slope, ld_scale, n_in, n_out, act, accumulate;
  int ld, chunk_rows, rows, n_passes; /* ld: padded_rows(n_in); chunk_rows: rows of weights that are copied together */
  int x_in_vectors, unused;           /* as in linear_arrays */
} row_gemm;

typedef struct atom_step {
  int kind, rows_per_atom;          /* rows: of GEMMs */
  uint32_t inverse_in, inverse_out; /* reciprocals of ld (in vectors), and of n_out or features */
  union {
    linear_arrays linear; /* before the step is queued */
    row_gemm gemm;
    mix_arrays mix;
    readout_arrays readout;
  } args;
} atom_step;

enum { MOST_STEPS = 20 };
/* Argument of the fused kernel. */
typedef struct atom_steps {
  int64_t n_atoms;
  int n_steps, per_block, chunk, unused[3]; /* per_block: atoms; chunk: values of a buffer of weights */
  atom_step steps[MOST_STEPS];
} atom_steps;

} // namespace ATOMS

/* True: the step was deferred. It is when operations are (atoms_begin) and its n_rows rows are those of the atoms, at
 * most most_per_atom for each. Sets rows_per_atom. */
bool MLFF_CUDA(defer)(mlff_backend *, ATOMS::atom_step *, int64_t n_rows, int most_per_atom);

#endif
