/* tensornet.cu: node-local TensorNet ops of the GPU. Twin: cpu/tensornet.c. */
#include "tensornet.h"

enum { NODE_THREADS = 128, NORM_WARPS = 4 };

namespace { /* kernels and their arguments differ between element types */

/* ---- embedding --------------------------------------------------------------------------------------------------- */

typedef struct pair_arrays {
  mlff_mace_atoms atoms;
  real *vu, *t;
  const real *z;
  int64_t f;
} pair_arrays;

/* t = v + z u. One thread per element of t; deterministic. Twin: tensornet_pair_cpu. */
__global__ void tensornet_pair_kernel(pair_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * blockDim.x + threadIdx.x, row = q / a.f, c = q % a.f;
  if (row >= a.atoms.n * COMPONENTS) return;
  const int32_t slot = atom_slot(a.atoms, row / COMPONENTS);
  const real *vu = a.vu + row * 2 * a.f + c;
  a.t[q] = slot < 0 ? 0 : vu[0] + a.z[slot * a.f + c] * vu[a.f];
}

/* g_v = g_t, g_u = z g_t. One thread per element of t; deterministic. Twin: tensornet_pair_backward_cpu. */
__global__ void tensornet_pair_backward_kernel(pair_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * blockDim.x + threadIdx.x, row = q / a.f, c = q % a.f;
  if (row >= a.atoms.n * COMPONENTS) return;
  const int32_t slot = atom_slot(a.atoms, row / COMPONENTS);
  real *vu = a.vu + row * 2 * a.f + c;
  vu[0] = slot < 0 ? 0 : a.t[q];
  vu[a.f] = slot < 0 ? 0 : a.z[slot * a.f + c] * a.t[q];
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

typedef struct norm_arrays {
  int64_t n, f;
  const real *x, *grad_out;
  real *out, *inverse, *grad;
  double epsilon;
  int n_channels, n_groups, accumulate, unused;
} norm_arrays;

/* Components first .. end of a group. */
MLFF_DEVICE void group_range(int n_groups, int group, int *first, int *end)
{
  *first = n_groups == 1 || group == 0 ? 0 : group == 1 ? 1 : 4;
  *end = n_groups == 1 ? COMPONENTS : group == 0 ? 1 : group == 1 ? 4 : COMPONENTS;
}

/* out = (s - mean)/sqrt(variance + epsilon), s the sums of squares of each group. A warp owns an atom, a lane every
 * 32nd channel. No shared memory; deterministic. Twin: tensornet_norm_cpu. */
__global__ void __launch_bounds__(NORM_WARPS *WARP) tensornet_norm_kernel(norm_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * NORM_WARPS + threadIdx.x / WARP;
  if (i >= a.n) return;
  const real *x = a.x + i * COMPONENTS * a.f, count = (real) (a.n_groups * a.n_channels);
  real *out = a.out + i * a.n_groups * a.f, sum = 0, squares = 0;
  for (int g = 0; g < a.n_groups; g++) {
    int first, end;
    group_range(a.n_groups, g, &first, &end);
    for (int c = lane; c < a.n_channels; c += WARP) {
      real s = 0;
      for (int k = first; k < end; k++) s += x[k * a.f + c] * x[k * a.f + c];
      out[g * a.f + c] = s;
      sum += s;
    }
  }
  const real mean = warp_sum(sum) / count;
  for (int g = 0; g < a.n_groups; g++) {
    for (int c = lane; c < a.n_channels; c += WARP) {
      const real d = out[g * a.f + c] - mean;
      squares += d * d;
    }
  }
  const real s = (real) (1 / sqrt((double) (warp_sum(squares) / count) + a.epsilon));
  for (int g = 0; g < a.n_groups; g++)
    for (int c = lane; c < a.f; c += WARP)
      out[g * a.f + c] = c < a.n_channels ? (out[g * a.f + c] - mean) * s : (real) 0;
  if (lane == 0) a.inverse[i] = s;
}

/* grad (+)= 2 x g_s. A warp owns an atom, a lane every 32nd channel. No shared memory; deterministic. Twin:
 * tensornet_norm_backward_cpu. */
__global__ void __launch_bounds__(NORM_WARPS *WARP) tensornet_norm_backward_kernel(norm_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * NORM_WARPS + threadIdx.x / WARP;
  if (i >= a.n) return;
  const int64_t row = i * COMPONENTS * a.f, width = a.n_groups * a.f;
  const real *v = a.grad_out + i * width, *h = a.out + i * width, count = (real) (a.n_groups * a.n_channels);
  real sum = 0, slanted = 0;
  for (int64_t c = lane; c < width; c += WARP) {
    sum += v[c];
    slanted += v[c] * h[c];
  }
  const real mean = warp_sum(sum) / count, slant = warp_sum(slanted) / count, scale = 2 * a.inverse[i];
  for (int g = 0; g < a.n_groups; g++) {
    int first, end;
    group_range(a.n_groups, g, &first, &end);
    for (int64_t c = lane; c < a.f; c += WARP) {
      const real gs = scale * (v[g * a.f + c] - mean - h[g * a.f + c] * slant);
      for (int k = first; k < end; k++) {
        const int64_t at = row + k * a.f + c;
        a.grad[at] = (a.accumulate ? a.grad[at] : 0) + gs * a.x[at];
      }
    }
  }
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

typedef struct activate_arrays {
  int64_t n;
  real *x, *slope;
  int act, unused;
} activate_arrays;

/* x = act(x) and its slope. One thread per element; deterministic. Twin: tensornet_activate_cpu. */
__global__ void tensornet_activate_kernel(activate_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= a.n) return;
  double slope;
  a.x[q] = (real) mlff_tensornet_activation((mlff_tensornet_act) a.act, (double) a.x[q], &slope);
  a.slope[q] = (real) slope;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* y = x/(||x||^2 + 1); returns 1/(||x||^2 + 1) */
MLFF_DEVICE real normalize(const real x[COMPONENTS], real y[COMPONENTS])
{
  const real inverse = 1 / (1 + mlff_tensornet_dot(x, x));
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) y[k] = x[k] * inverse;
  return inverse;
}

/* g = dE/dx from g = dE/dy, with y and the result of normalize: g inverse - 2 y <g, y> */
MLFF_DEVICE void normalize_backward(const real y[COMPONENTS], real inverse, real g[COMPONENTS])
{
  const real slant = 2 * mlff_tensornet_dot(g, y);
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) g[k] = g[k] * inverse - y[k] * slant;
}

typedef struct gate_arrays {
  int64_t n, f;
  const real *s, *t, *slope;
  real *x, *inverse, *grad, *grad_s;
} gate_arrays;

/* x = s t/(||s t||^2 + 1). One thread per atom and channel; deterministic. Twin: tensornet_gate_cpu. */
__global__ void __launch_bounds__(NODE_THREADS) tensornet_gate_kernel(gate_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * NODE_THREADS + threadIdx.x, i = q / a.f, c = q % a.f;
  if (i >= a.n) return;
  const int64_t row = i * COMPONENTS * a.f + c;
  real x[COMPONENTS];
  row_load(a.t + row, a.f, x);
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) x[k] *= a.s[(3 * i + component_part(k)) * a.f + c];
  a.inverse[q] = normalize(x, x);
  row_store(a.x + row, a.f, x);
}

/* Adjoint of tensornet_gate_kernel. One thread per atom and channel; deterministic. Twin: tensornet_gate_backward_cpu.
 */
__global__ void __launch_bounds__(NODE_THREADS) tensornet_gate_backward_kernel(gate_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * NODE_THREADS + threadIdx.x, i = q / a.f, c = q % a.f;
  if (i >= a.n) return;
  const int64_t row = i * COMPONENTS * a.f + c, scalars = 3 * i * a.f + c;
  real x[COMPONENTS], g[COMPONENTS], gs[3] = {0, 0, 0};
  row_load(a.x + row, a.f, x);
  row_load(a.grad + row, a.f, g);
  normalize_backward(x, a.inverse[q], g);
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) {
    gs[component_part(k)] += g[k] * a.t[row + k * a.f];
    g[k] *= a.s[scalars + component_part(k) * a.f];
  }
  row_store(a.grad + row, a.f, g);
#pragma unroll
  for (int p = 0; p < 3; p++) a.grad_s[scalars + p * a.f] = gs[p] * a.slope[scalars + p * a.f];
}

typedef struct product_arrays {
  int64_t n, f;
  const real *y, *m, *grad_r;
  real *r, *grad_m, *grad_y;
} product_arrays;

/* Components of M Y + Y M (O3) or 2 Y M, from matrices. */
template <int O3> MLFF_DEVICE void product(const real y[COMPONENTS], const real m[COMPONENTS], real out[COMPONENTS])
{
  real q[COMPONENTS];
  mlff_tensornet_multiply(y, 0, m, 0, 0, q);
  if (O3) mlff_tensornet_multiply(m, 0, y, 0, 1, q);
  mlff_tensornet_reduce(q, out);
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) out[k] *= O3 ? 1 : 2;
}

MLFF_DEVICE void load_matrix(const real *row, int64_t f, real m[COMPONENTS])
{
  real x[COMPONENTS];
  row_load(row, f, x);
  mlff_tensornet_expand(x, m);
}

/* r = Q/(||Q||^2 + 1). One thread per atom and channel; deterministic. Twin: tensornet_product_cpu. */
template <int O3> __global__ void __launch_bounds__(NODE_THREADS) tensornet_product_kernel(product_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * NODE_THREADS + threadIdx.x, i = q / a.f;
  if (i >= a.n) return;
  const int64_t row = i * COMPONENTS * a.f + q % a.f;
  real y[COMPONENTS], m[COMPONENTS], x[COMPONENTS];
  load_matrix(a.y + row, a.f, y);
  load_matrix(a.m + row, a.f, m);
  product<O3>(y, m, x);
  normalize(x, x);
  row_store(a.r + row, a.f, x);
}

/* Adjoint of tensornet_product_kernel. One thread per atom and channel; deterministic. Twin:
 * tensornet_product_backward_cpu. */
template <int O3> __global__ void __launch_bounds__(NODE_THREADS, 4) tensornet_product_backward_kernel(product_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * NODE_THREADS + threadIdx.x, i = q / a.f;
  if (i >= a.n) return;
  const int64_t row = i * COMPONENTS * a.f + q % a.f;
  real y[COMPONENTS], m[COMPONENTS], x[COMPONENTS], g[COMPONENTS], back[COMPONENTS];
  load_matrix(a.y + row, a.f, y);
  load_matrix(a.m + row, a.f, m);
  product<O3>(y, m, x);
  const real inverse = normalize(x, x);
  row_load(a.grad_r + row, a.f, g);
  normalize_backward(x, inverse, g);
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) g[k] *= O3 ? 1 : 2;
  mlff_tensornet_expand(g, x);
  mlff_tensornet_multiply(y, 1, x, 0, 0, back);
  if (O3) mlff_tensornet_multiply(x, 0, y, 1, 1, back);
  mlff_tensornet_reduce(back, g);
  row_store(a.grad_m + row, a.f, g);
  mlff_tensornet_multiply(x, 0, m, 1, 0, back);
  if (O3) mlff_tensornet_multiply(m, 1, x, 0, 1, back);
  mlff_tensornet_reduce(back, g);
  row_store(a.grad_y + row, a.f, g);
}

/* ---- update ------------------------------------------------------------------------------------------------------ */

typedef struct update_arrays {
  int64_t n, f;
  const real *x, *d;
  real *out, *inverse, *grad, *grad_d;
} update_arrays;

/* X = x + D + D D, out = X/(||X||^2 + 1), or X. One thread per atom and channel; deterministic. Twin:
 * tensornet_update_cpu. */
__global__ void __launch_bounds__(NODE_THREADS) tensornet_update_kernel(update_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * NODE_THREADS + threadIdx.x, i = q / a.f;
  if (i >= a.n) return;
  const int64_t row = i * COMPONENTS * a.f + q % a.f;
  real x[COMPONENTS], d[COMPONENTS], m[COMPONENTS], dd[COMPONENTS];
  row_load(a.d + row, a.f, d);
  mlff_tensornet_expand(d, m);
  mlff_tensornet_multiply(m, 0, m, 0, 0, dd);
  mlff_tensornet_reduce(dd, m);
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) x[k] = a.x[row + k * a.f] + (d[k] + m[k]);
  if (a.inverse) a.inverse[q] = normalize(x, x);
  row_store(a.out + row, a.f, x);
}

/* grad = dE/dX, grad_d = G + G D^T + D^T G. One thread per atom and channel; deterministic. Twin:
 * tensornet_update_backward_cpu. */
__global__ void __launch_bounds__(NODE_THREADS) tensornet_update_backward_kernel(update_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * NODE_THREADS + threadIdx.x, i = q / a.f;
  if (i >= a.n) return;
  const int64_t row = i * COMPONENTS * a.f + q % a.f;
  real x[COMPONENTS], d[COMPONENTS], g[COMPONENTS], gd[COMPONENTS];
  row_load(a.grad + row, a.f, g);
  if (a.inverse) {
    row_load(a.out + row, a.f, x);
    normalize_backward(x, a.inverse[q], g);
    row_store(a.grad + row, a.f, g);
  }
  load_matrix(a.d + row, a.f, d);
  mlff_tensornet_expand(g, x);
  mlff_tensornet_multiply(x, 0, d, 1, 0, gd);
  mlff_tensornet_multiply(d, 1, x, 0, 1, gd);
  mlff_tensornet_reduce(gd, x);
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) x[k] += g[k];
  row_store(a.grad_d + row, a.f, x);
}

/* ---- readout ----------------------------------------------------------------------------------------------------- */

typedef struct readout_arrays {
  mlff_mace_atoms atoms;
  const real *h, *slope, *weight;
  real *energy, *grad;
  int64_t f;
  double bias[2], scale;
} readout_arrays;

/* energy = scale a sigmoid(b), grad = dE/dh * slope. A warp owns an atom, a lane every 32nd unit. No shared memory;
 * deterministic. Twin: tensornet_readout_cpu. */
__global__ void __launch_bounds__(NORM_WARPS *WARP) tensornet_readout_kernel(readout_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * NORM_WARPS + threadIdx.x / WARP;
  if (i >= a.atoms.n) return;
  const bool is_there = atom_slot(a.atoms, i) >= 0;
  const real *h = a.h + i * 2 * a.f, *slope = a.slope + i * 2 * a.f, *w = a.weight;
  real *grad = a.grad + i * 2 * a.f, value = 0, gate = 0;
  for (int64_t c = lane; c < a.f; c += WARP) {
    value += w[c] * h[c];
    gate += w[a.f + c] * h[a.f + c];
  }
  value = warp_sum(value) + (real) a.bias[0];
  gate = warp_sum(gate);
  const real s = (real) (1.0 / (1.0 + exp(-((double) gate + a.bias[1])))), scale = is_there ? (real) a.scale : (real) 0;
  const real by_value = scale * s, by_gate = scale * value * s * (1 - s);
  for (int64_t c = lane; c < a.f; c += WARP) {
    grad[c] = by_value * w[c] * slope[c];
    grad[a.f + c] = by_gate * w[a.f + c] * slope[a.f + c];
  }
  if (lane == 0) a.energy[i] = scale * value * s;
}

} // namespace

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static pair_arrays pair_of(const mlff_tensornet_pair_args *args)
{
  pair_arrays a;
  memset(&a, 0, sizeof a);
  a.atoms = args->atoms;
  a.vu = (real *) args->vu;
  a.t = (real *) args->t;
  a.z = (const real *) args->z;
  a.f = args->n_features;
  return a;
}

void MLFF_CUDA(tensornet_pair_cuda)(mlff_backend *backend, const mlff_tensornet_pair_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_pair_kernel,
                          mlff_cuda_blocks(args->atoms.n * COMPONENTS * args->n_features, NODE_THREADS), NODE_THREADS,
                          pair_of(args));
}

void MLFF_CUDA(tensornet_pair_backward_cuda)(mlff_backend *backend, const mlff_tensornet_pair_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_pair_backward_kernel,
                          mlff_cuda_blocks(args->atoms.n * COMPONENTS * args->n_features, NODE_THREADS), NODE_THREADS,
                          pair_of(args));
}

static norm_arrays norm_of(const mlff_tensornet_norm_args *args)
{
  norm_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.f = args->n_features;
  a.x = (const real *) args->x;
  a.grad_out = (const real *) args->grad_out;
  a.out = (real *) args->out;
  a.inverse = (real *) args->inverse;
  a.grad = (real *) args->grad;
  a.epsilon = args->epsilon;
  a.n_channels = args->n_channels;
  a.n_groups = args->n_groups;
  a.accumulate = args->accumulate;
  return a;
}

void MLFF_CUDA(tensornet_norm_cuda)(mlff_backend *backend, const mlff_tensornet_norm_args *args)
{
  MLFF_LAUNCH(backend, tensornet_norm_kernel, mlff_cuda_blocks(args->n, NORM_WARPS), NORM_WARPS * WARP, 0,
              norm_of(args));
}

void MLFF_CUDA(tensornet_norm_backward_cuda)(mlff_backend *backend, const mlff_tensornet_norm_args *args)
{
  MLFF_LAUNCH(backend, tensornet_norm_backward_kernel, mlff_cuda_blocks(args->n, NORM_WARPS), NORM_WARPS * WARP, 0,
              norm_of(args));
}

void MLFF_CUDA(tensornet_activate_cuda)(mlff_backend *backend, const mlff_tensornet_activate_args *args)
{
  activate_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.x = (real *) args->x;
  a.slope = (real *) args->slope;
  a.act = args->act;
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_activate_kernel, mlff_cuda_blocks(a.n, NODE_THREADS), NODE_THREADS, a);
}

static gate_arrays gate_of(const mlff_tensornet_gate_args *args)
{
  gate_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.f = args->n_features;
  a.s = (const real *) args->s;
  a.t = (const real *) args->t;
  a.slope = (const real *) args->slope;
  a.x = (real *) args->x;
  a.inverse = (real *) args->inverse;
  a.grad = (real *) args->grad;
  a.grad_s = (real *) args->grad_s;
  return a;
}

void MLFF_CUDA(tensornet_gate_cuda)(mlff_backend *backend, const mlff_tensornet_gate_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_gate_kernel, mlff_cuda_blocks(args->n * args->n_features, NODE_THREADS),
                          NODE_THREADS, gate_of(args));
}

void MLFF_CUDA(tensornet_gate_backward_cuda)(mlff_backend *backend, const mlff_tensornet_gate_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_gate_backward_kernel,
                          mlff_cuda_blocks(args->n * args->n_features, NODE_THREADS), NODE_THREADS, gate_of(args));
}

static product_arrays product_of(const mlff_tensornet_product_args *args)
{
  product_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.f = args->n_features;
  a.y = (const real *) args->y;
  a.m = (const real *) args->m;
  a.grad_r = (const real *) args->grad_r;
  a.r = (real *) args->r;
  a.grad_m = (real *) args->grad_m;
  a.grad_y = (real *) args->grad_y;
  return a;
}

void MLFF_CUDA(tensornet_product_cuda)(mlff_backend *backend, const mlff_tensornet_product_args *args)
{
  const unsigned n_blocks = mlff_cuda_blocks(args->n * args->n_features, NODE_THREADS);
  if (args->is_o3)
    MLFF_LAUNCH_INDEPENDENT(backend, tensornet_product_kernel<1>, n_blocks, NODE_THREADS, product_of(args));
  else
    MLFF_LAUNCH_INDEPENDENT(backend, tensornet_product_kernel<0>, n_blocks, NODE_THREADS, product_of(args));
}

void MLFF_CUDA(tensornet_product_backward_cuda)(mlff_backend *backend, const mlff_tensornet_product_args *args)
{
  const unsigned n_blocks = mlff_cuda_blocks(args->n * args->n_features, NODE_THREADS);
  if (args->is_o3)
    MLFF_LAUNCH_INDEPENDENT(backend, tensornet_product_backward_kernel<1>, n_blocks, NODE_THREADS, product_of(args));
  else
    MLFF_LAUNCH_INDEPENDENT(backend, tensornet_product_backward_kernel<0>, n_blocks, NODE_THREADS, product_of(args));
}

static update_arrays update_of(const mlff_tensornet_update_args *args)
{
  update_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.f = args->n_features;
  a.x = (const real *) args->x;
  a.d = (const real *) args->d;
  a.out = (real *) args->out;
  a.inverse = (real *) args->inverse;
  a.grad = (real *) args->grad;
  a.grad_d = (real *) args->grad_d;
  return a;
}

void MLFF_CUDA(tensornet_update_cuda)(mlff_backend *backend, const mlff_tensornet_update_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_update_kernel, mlff_cuda_blocks(args->n * args->n_features, NODE_THREADS),
                          NODE_THREADS, update_of(args));
}

void MLFF_CUDA(tensornet_update_backward_cuda)(mlff_backend *backend, const mlff_tensornet_update_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_update_backward_kernel,
                          mlff_cuda_blocks(args->n * args->n_features, NODE_THREADS), NODE_THREADS, update_of(args));
}

void MLFF_CUDA(tensornet_readout_cuda)(mlff_backend *backend, const mlff_tensornet_readout_args *args)
{
  readout_arrays a;
  memset(&a, 0, sizeof a);
  a.atoms = args->atoms;
  a.h = (const real *) args->h;
  a.slope = (const real *) args->slope;
  a.weight = (const real *) args->weight;
  a.energy = (real *) args->energy;
  a.grad = (real *) args->grad;
  a.f = args->n_features;
  a.bias[0] = args->bias[0];
  a.bias[1] = args->bias[1];
  a.scale = args->scale;
  MLFF_LAUNCH(backend, tensornet_readout_kernel, mlff_cuda_blocks(args->atoms.n, NORM_WARPS), NORM_WARPS * WARP, 0, a);
}
