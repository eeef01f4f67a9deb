/* painn_mix.cu: the steps of an atom's update between its matrix products, and the readout, on the GPU. What
 * reverses what is told in its twin, cpu/painn_mix.c. */
#include "painn.h"

enum { MIX_THREADS = 128, READOUT_WARPS = 4 };

namespace { /* kernels and their arguments differ between element types */

typedef struct mix_arrays {
  int64_t n, ld_grad_q, ld_grad_mu;
  const real *vw, *y, *mu, *grad, *grad_qn, *grad_m;
  real *qn, *inv_norm, *q_out, *state_out, *grad_y, *grad_vw, *grad_q_out, *grad_mu_out;
  double epsilon;
  int f, last;
} mix_arrays;

/* Atom i and channel k of this thread; 0 beyond the end. Kernels here own one channel of one atom per thread, use no
 * shared memory and are deterministic. */
MLFF_DEVICE int own_channel(const mix_arrays &a, int64_t *i, int *k)
{
  const int64_t t = (int64_t) blockIdx.x * MIX_THREADS + threadIdx.x;
  *i = t / a.f;
  *k = (int) (t % a.f);
  return *i < a.n;
}

/* The vector parts of one atom at one channel: V and W are [3][2F]. */
typedef struct mix_vectors {
  real vx, vy, vz, wx, wy, wz;
} mix_vectors;

MLFF_DEVICE mix_vectors load_vectors(const real *vw, int64_t f)
{
  const mix_vectors m = {vw[0], vw[2 * f], vw[4 * f], vw[f], vw[3 * f], vw[5 * f]};
  return m;
}

MLFF_DEVICE real dot_vw(const mix_vectors &m)
{
  return m.vx * m.wx + m.vy * m.wy + m.vz * m.wz;
}

/* n[i][k] = sqrt(V.V + epsilon) into qn[i][F + k], 1/n into inv_norm[i][k]. Twin: painn_mix_norm_cpu. */
__global__ void __launch_bounds__(MIX_THREADS) mix_norm_kernel(mix_arrays a)
{
  int64_t i, f = a.f;
  int k;
  if (!own_channel(a, &i, &k)) return;
  const mix_vectors m = load_vectors(a.vw + i * 6 * f + k, f);
  const real n = real_sqrt(m.vx * m.vx + m.vy * m.vy + m.vz * m.vz + (real) a.epsilon);
  a.qn[i * 2 * f + f + k] = n;
  a.inv_norm[i * f + k] = 1 / n;
}

/* q_out = q + s + t V.W,  mu_out = mu + v W with (s, v, t) = y [n][3F] (last: (s, t) [n][2F] and no mu_out).
 * Twin: painn_mix_update_cpu. */
__global__ void __launch_bounds__(MIX_THREADS) mix_update_kernel(mix_arrays a)
{
  int64_t i, f = a.f;
  int k;
  if (!own_channel(a, &i, &k)) return;
  const int n_parts = a.last ? 2 : 3;
  const mix_vectors m = load_vectors(a.vw + i * 6 * f + k, f);
  const real *y = a.y + i * n_parts * f + k;
  a.q_out[i * f + k] = a.qn[i * 2 * f + k] + y[0] + y[(n_parts - 1) * f] * dot_vw(m);
  if (a.last) return;
  const real *mu = a.mu + i * 3 * f + k, v = y[f];
  real *mu_out = a.state_out + i * 6 * f + 3 * f + k;
  mu_out[0] = mu[0] + v * m.wx;
  mu_out[f] = mu[f] + v * m.wy;
  mu_out[2 * f] = mu[2 * f] + v * m.wz;
}

/* Reverses mix_update towards s, v, t:  g_s = g_q,  g_v = g_mu.W,  g_t = g_q V.W. Twin:
 * painn_mix_backward_gates_cpu. */
__global__ void __launch_bounds__(MIX_THREADS) mix_backward_gates_kernel(mix_arrays a)
{
  int64_t i, f = a.f;
  int k;
  if (!own_channel(a, &i, &k)) return;
  const int n_parts = a.last ? 2 : 3;
  const mix_vectors m = load_vectors(a.vw + i * 6 * f + k, f);
  const real *grad = a.grad + i * (a.last ? 1 : 4) * f + k;
  real *gy = a.grad_y + i * n_parts * f + k;
  gy[0] = grad[0];
  gy[(n_parts - 1) * f] = grad[0] * dot_vw(m);
  if (!a.last) gy[f] = grad[f] * m.wx + grad[2 * f] * m.wy + grad[3 * f] * m.wz;
}

/* Reverses mix_update and mix_norm towards V and W:  g_V = g_q t W + g_n/n V,  g_W = g_mu v + g_q t V.
 * Twin: painn_mix_backward_vectors_cpu. */
__global__ void __launch_bounds__(MIX_THREADS) mix_backward_vectors_kernel(mix_arrays a)
{
  int64_t i, f = a.f;
  int k;
  if (!own_channel(a, &i, &k)) return;
  const int n_parts = a.last ? 2 : 3;
  const mix_vectors m = load_vectors(a.vw + i * 6 * f + k, f);
  const real *grad = a.grad + i * (a.last ? 1 : 4) * f + k, *y = a.y + i * n_parts * f + k;
  const real gdot = grad[0] * y[(n_parts - 1) * f], gnn = a.grad_qn[i * 2 * f + f + k] * a.inv_norm[i * f + k];
  real *gv = a.grad_vw + i * 6 * f + k, *gw = gv + f;
  gv[0] = gdot * m.wx + gnn * m.vx;
  gv[2 * f] = gdot * m.wy + gnn * m.vy;
  gv[4 * f] = gdot * m.wz + gnn * m.vz;
  const real v = a.last ? (real) 0 : y[f];
  gw[0] = gdot * m.vx + (a.last ? (real) 0 : v * grad[f]);
  gw[2 * f] = gdot * m.vy + (a.last ? (real) 0 : v * grad[2 * f]);
  gw[4 * f] = gdot * m.vz + (a.last ? (real) 0 : v * grad[3 * f]);
}

/* grad_q_out = g_q + grad_qn (its q part),  grad_mu_out = g_mu + grad_m (last: grad_m). Twin:
 * painn_mix_backward_sum_cpu. */
__global__ void __launch_bounds__(MIX_THREADS) mix_backward_sum_kernel(mix_arrays a)
{
  int64_t i, f = a.f;
  int k;
  if (!own_channel(a, &i, &k)) return;
  const real *grad = a.grad + i * (a.last ? 1 : 4) * f + k, *through = a.grad_m + i * 3 * f + k;
  real *gmu_out = a.grad_mu_out + i * a.ld_grad_mu + k;
  a.grad_q_out[i * a.ld_grad_q + k] = grad[0] + a.grad_qn[i * 2 * f + k];
  for (int c = 0; c < 3; c++) gmu_out[c * f] = a.last ? through[c * f] : grad[(1 + c) * f] + through[c * f];
}

} // namespace

static mix_arrays arrays_of(const mlff_painn_mix_args *args)
{
  mix_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.ld_grad_q = args->ld_grad_q;
  a.ld_grad_mu = args->ld_grad_mu;
  a.vw = (const real *) args->vw;
  a.y = (const real *) args->y;
  a.mu = (const real *) args->mu;
  a.grad = (const real *) args->grad;
  a.grad_qn = (const real *) args->grad_qn;
  a.grad_m = (const real *) args->grad_m;
  a.qn = (real *) args->qn;
  a.inv_norm = (real *) args->inv_norm;
  a.q_out = (real *) args->q_out;
  a.state_out = (real *) args->state_out;
  a.grad_y = (real *) args->grad_y;
  a.grad_vw = (real *) args->grad_vw;
  a.grad_q_out = (real *) args->grad_q_out;
  a.grad_mu_out = (real *) args->grad_mu_out;
  a.epsilon = args->epsilon;
  a.f = args->n_features;
  a.last = args->last;
  return a;
}

#define MIX_OP(op, kernel)                                                               \
  void MLFF_CUDA(op)(mlff_backend * backend, const mlff_painn_mix_args *args)            \
  {                                                                                      \
    const unsigned n_blocks = mlff_cuda_blocks(args->n * args->n_features, MIX_THREADS); \
    MLFF_LAUNCH_INDEPENDENT(backend, kernel, n_blocks, MIX_THREADS, arrays_of(args));    \
  }
MIX_OP(painn_mix_norm_cuda, mix_norm_kernel)
MIX_OP(painn_mix_update_cuda, mix_update_kernel)
MIX_OP(painn_mix_backward_gates_cuda, mix_backward_gates_kernel)
MIX_OP(painn_mix_backward_vectors_cuda, mix_backward_vectors_kernel)
MIX_OP(painn_mix_backward_sum_cuda, mix_backward_sum_kernel)

/* ---- readout ----------------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

typedef struct readout_arrays {
  int64_t n;
  const real *h, *slope, *weight;
  const int32_t *species;
  real *energy, *grad_h;
  double bias;
  int width, unused;
} readout_arrays;

/* energy[i] = bias + sum_k w[k] h[i][k] (0 for species -1),  grad_h[i][k] = w[k] slope[i][k];  h, slope [n][width]
 * A warp owns atom i, a lane every 32nd k; the sum goes through shuffles. A block has READOUT_WARPS warps; no shared
 * memory; deterministic. Twin: painn_readout_cpu. */
__global__ void __launch_bounds__(WARP *READOUT_WARPS) painn_readout_kernel(readout_arrays a)
{
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * READOUT_WARPS + threadIdx.x / WARP;
  if (i >= a.n) return;
  real sum = 0;
  for (int k = lane; k < a.width; k += WARP) {
    const real w = a.weight[k];
    sum += w * a.h[i * a.width + k];
    a.grad_h[i * a.width + k] = w * a.slope[i * a.width + k];
  }
  sum = warp_sum(sum);
  if (lane == 0) a.energy[i] = a.species[i] < 0 ? (real) 0 : (real) a.bias + sum;
}

} // namespace

void MLFF_CUDA(painn_readout_cuda)(mlff_backend *backend, const mlff_painn_readout_args *args)
{
  readout_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.h = (const real *) args->h;
  a.slope = (const real *) args->slope;
  a.weight = (const real *) args->weight;
  a.species = args->species;
  a.energy = (real *) args->energy;
  a.grad_h = (real *) args->grad_h;
  a.bias = args->bias;
  a.width = args->width;
  MLFF_LAUNCH(backend, painn_readout_kernel, mlff_cuda_blocks(a.n, READOUT_WARPS), WARP * READOUT_WARPS, 0, a);
}
