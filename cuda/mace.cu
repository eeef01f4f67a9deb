/* mace.cu: MACE ops of the GPU. Twin: cpu/mace.c. */
#include "nequip.h"

enum { MACE_THREADS = 128, PRODUCT_THREADS = 64, READOUT_WARPS = 4 };

namespace { /* kernels and their arguments differ between element types */

MLFF_DEVICE int32_t slot_of(const mlff_mace_atoms &atoms, int64_t i)
{
  return atoms.species[i] < 0 ? -1 : atoms.slot[atoms.species[i]];
}

/* ---- matrices of an element -------------------------------------------------------------------------------------- */

typedef struct select_arrays {
  mlff_mace_atoms atoms;
  real *x, *wide;
  int64_t ld, wide_ld;
  int n_orders, wide_orders;
  int n[MLFF_NEQUIP_ORDERS], offset[MLFF_NEQUIP_ORDERS]; /* of x */
  int n_wide[MLFF_NEQUIP_ORDERS], wide_offset[MLFF_NEQUIP_ORDERS];
} select_arrays;

/* An order in both rows, and a column of it: component k, channel c. */
typedef struct select_column {
  int n, n_wide, offset, wide_offset, order, k, c;
} select_column;

MLFF_DEVICE select_column column_of(const select_arrays &a, int column, bool is_wide)
{
  select_column s = {a.n[0], a.n_wide[0], a.offset[0], a.wide_offset[0], 0, 0, 0};
  const int n_orders = is_wide ? a.wide_orders : a.n_orders;
#pragma unroll
  for (int l = 1; l < MLFF_NEQUIP_ORDERS; l++)
    if (l < n_orders && column >= (is_wide ? a.wide_offset[l] : a.offset[l]))
      s = {a.n[l], a.n_wide[l], a.offset[l], a.wide_offset[l], l, 0, 0};
  const int within = column - (is_wide ? s.wide_offset : s.offset), n = is_wide ? s.n_wide : s.n;
  s.k = within / n;
  s.c = within % n;
  return s;
}

/* wide[i][k][slot n + c] = x[i][k][c], k a component of an order, and zeros elsewhere. One thread per element of wide;
 * deterministic. Twin: mace_expand_cpu. */
__global__ void mace_expand_kernel(select_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= a.atoms.n * a.wide_ld) return;
  const int64_t i = q / a.wide_ld;
  const select_column s = column_of(a, (int) (q % a.wide_ld), true);
  a.wide[q] = s.c / s.n == slot_of(a.atoms, i) ? a.x[i * a.ld + s.offset + s.k * s.n + s.c % s.n] : 0;
}

/* x[i][k][c] = wide[i][k][slot n + c], zeros in components that wide lacks. One thread per element of x;
 * deterministic. Twin: mace_pick_cpu. */
__global__ void mace_pick_kernel(select_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= a.atoms.n * a.ld) return;
  const int64_t i = q / a.ld;
  const select_column s = column_of(a, (int) (q % a.ld), false);
  const int32_t slot = slot_of(a.atoms, i);
  const bool is_there = slot >= 0 && s.order < a.wide_orders;
  a.x[q] = is_there ? a.wide[i * a.wide_ld + s.wide_offset + s.k * s.n_wide + slot * s.n + s.c] : 0;
}

typedef struct start_arrays {
  mlff_mace_atoms atoms;
  const real *bias;
  real *x;
  int64_t ld, n;
} start_arrays;

/* x[i][c] = bias[slot][c] for c < n, zeros beyond. One thread per element; deterministic. Twin: mace_start_cpu. */
__global__ void mace_start_kernel(start_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= a.atoms.n * a.ld) return;
  const int64_t c = q % a.ld;
  const int32_t slot = slot_of(a.atoms, q / a.ld);
  a.x[q] = a.bias && c < a.n && slot >= 0 ? a.bias[slot * a.n + c] : 0;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef struct product_arrays {
  mlff_mace_atoms atoms;
  const int32_t *terms;
  const real *coef, *a, *density, *grad_p;
  real *p, *grad_a, *grad_density;
  int64_t a_ld, p_ld, n_coef, n;
  int n_a, n_p; /* components */
} product_arrays;

/* What multiplies a of atom i. Twin: inverse_density. */
MLFF_DEVICE real inverse_density(const product_arrays &a, int64_t i)
{
  return a.density ? 1 / a.density[i * MLFF_NEQUIP_BLOCK] : 1;
}

/* p[M] = sum_i a_i (c_i + sum_j a_j (c_ij + sum_k c_ijk a_k)) of a channel. One thread per atom and channel; its a_i in
 * shared memory. Deterministic. Twin: mace_product_cpu. */
__global__ void __launch_bounds__(PRODUCT_THREADS) mace_product_kernel(product_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(real, shared, MLFF_NEQUIP_HARMONICS * PRODUCT_THREADS);
  const int64_t q = (int64_t) blockIdx.x * PRODUCT_THREADS + threadIdx.x, i = q / a.n, c = q % a.n;
  if (i >= a.atoms.n) return;
  real *x = shared + threadIdx.x;
  const int32_t slot = slot_of(a.atoms, i), *t = a.terms;
  const real *coef = a.coef + slot * a.n_coef * a.n + c;
  const real scale = inverse_density(a, i);
  for (int k = 0; k < a.n_a; k++) x[k * PRODUCT_THREADS] = scale * a.a[i * a.a_ld + k * a.n + c];
  for (int p = 0; p < a.n_p; p++) {
    real sum = 0;
    for (int n_i = slot < 0 ? 0 : *t++; n_i > 0; n_i--) {
      const real xi = x[*t++ * PRODUCT_THREADS];
      real si = *coef;
      coef += a.n;
      for (int n_j = *t++; n_j > 0; n_j--) {
        const real xj = x[*t++ * PRODUCT_THREADS];
        real sij = *coef;
        coef += a.n;
        for (int n_k = *t++; n_k > 0; n_k--, coef += a.n) sij += *coef * x[*t++ * PRODUCT_THREADS];
        si += sij * xj;
      }
      sum += si * xi;
    }
    a.p[i * a.p_ld + p * a.n + c] = sum;
  }
}

/* Adjoint of mace_product_kernel: grad_a from grad_p. One thread per atom and channel; a_i and their adjoints in shared
 * memory. Deterministic. Twin: mace_product_backward_cpu. */
__global__ void __launch_bounds__(PRODUCT_THREADS) mace_product_backward_kernel(product_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(real, shared, 2 * MLFF_NEQUIP_HARMONICS * PRODUCT_THREADS);
  const int64_t q = (int64_t) blockIdx.x * PRODUCT_THREADS + threadIdx.x, i = q / a.n, c = q % a.n;
  if (i >= a.atoms.n) return;
  real *x = shared + threadIdx.x, *gx = x + MLFF_NEQUIP_HARMONICS * PRODUCT_THREADS;
  const int32_t slot = slot_of(a.atoms, i), *t = a.terms;
  const real *coef = a.coef + slot * a.n_coef * a.n + c;
  const real scale = inverse_density(a, i);
  for (int k = 0; k < a.n_a; k++) {
    x[k * PRODUCT_THREADS] = scale * a.a[i * a.a_ld + k * a.n + c];
    gx[k * PRODUCT_THREADS] = 0;
  }
  for (int p = 0; p < a.n_p && slot >= 0; p++) {
    const real gp = a.grad_p[i * a.p_ld + p * a.n + c];
    for (int n_i = *t++; n_i > 0; n_i--) {
      const int at_i = *t++ * PRODUCT_THREADS;
      const real g_si = gp * x[at_i];
      real si = *coef;
      coef += a.n;
      for (int n_j = *t++; n_j > 0; n_j--) {
        const int at_j = *t++ * PRODUCT_THREADS;
        const real g_sij = g_si * x[at_j];
        real sij = *coef;
        coef += a.n;
        for (int n_k = *t++; n_k > 0; n_k--, coef += a.n) {
          const int at_k = *t++ * PRODUCT_THREADS;
          sij += *coef * x[at_k];
          gx[at_k] += *coef * g_sij;
        }
        gx[at_j] += g_si * sij;
        si += sij * x[at_j];
      }
      gx[at_i] += gp * si;
    }
  }
  for (int k = 0; k < a.n_a; k++) a.grad_a[i * a.a_ld + k * a.n + c] = scale * gx[k * PRODUCT_THREADS];
}

/* grad_density[i] = -sum_kc grad_a_kc a_kc / density. A warp owns an atom, a lane every 32nd element. No shared memory;
 * deterministic. Twin: mace_product_backward_cpu. */
__global__ void __launch_bounds__(MACE_THREADS) mace_density_kernel(product_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * (MACE_THREADS / WARP) + threadIdx.x / WARP;
  if (i >= a.atoms.n) return;
  real sum = 0;
  for (int64_t c = lane; c < a.a_ld; c += WARP) sum += a.grad_a[i * a.a_ld + c] * a.a[i * a.a_ld + c];
  sum = warp_sum(sum);
  if (lane == 0 && slot_of(a.atoms, i) >= 0) a.grad_density[i * MLFF_NEQUIP_BLOCK] = -sum * inverse_density(a, i);
}

typedef struct divide_arrays {
  mlff_mace_atoms atoms;
  const real *in, *density, *bias, *z;
  real *out, *grad_density;
  int64_t ld, n_bias;
} divide_arrays;

/* out[i] = in[i]/density, + bias[slot] in the first n_bias columns; grad_density[i] = -sum_c z out/density. A warp owns
 * an atom, a lane every 32nd column. No shared memory; deterministic. Twin: mace_divide_cpu. */
__global__ void __launch_bounds__(MACE_THREADS) mace_divide_kernel(divide_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t i = (int64_t) blockIdx.x * (MACE_THREADS / WARP) + threadIdx.x / WARP;
  if (i >= a.atoms.n) return;
  const int32_t slot = slot_of(a.atoms, i);
  const real scale = slot < 0 ? 0 : a.density ? 1 / a.density[i * MLFF_NEQUIP_BLOCK] : 1;
  real sum = 0;
  for (int64_t c = lane; c < a.ld; c += WARP) {
    real x = slot < 0 ? 0 : scale * a.in[i * a.ld + c];
    if (a.bias && c < a.n_bias && slot >= 0) x += a.bias[slot * a.n_bias + c];
    a.out[i * a.ld + c] = x;
    if (a.grad_density && slot >= 0) sum += a.z[i * a.ld + c] * x;
  }
  if (!a.grad_density) return;
  sum = warp_sum(sum);
  if (lane == 0 && slot >= 0) a.grad_density[i * MLFF_NEQUIP_BLOCK] = -scale * sum;
}

/* ---- readout ----------------------------------------------------------------------------------------------------- */

typedef struct mace_readout_arrays {
  mlff_mace_atoms atoms;
  const real *x, *weight, *middle, *bias, *last;
  real *energy, *grad;
  int64_t ld, ld_last;
  real gain;
  int n, n_hidden, add_energy, add_grad, is_tanh;
#if MLFF_REAL_IS_DOUBLE
  int unused;
#endif
} mace_readout_arrays;

/* Value and slope of the activation without its gain. */
MLFF_DEVICE real activation(const mace_readout_arrays &a, real v, real *slope)
{
  const real s = (real) (a.is_tanh ? tanh((double) v) : 1.0 / (1.0 + exp(-(double) v)));
  *slope = a.is_tanh ? 1 - s * s : s * (1 + v * (1 - s));
  return a.is_tanh ? s : v * s;
}

/* o = last . act(middle act(weight x) + bias) of a warp's atom; grad += do/dx. v, g: shared, one per hidden unit. Twin:
 * readout_twice. */
MLFF_DEVICE real readout_twice(const mace_readout_arrays &a, const real *x, int lane, real *v, real *g, real *grad)
{
  real energy = 0;
  for (int h = 0; h < a.n_hidden; h++) {
    real u = 0, slope;
    for (int c = lane; c < a.n; c += WARP) u += a.weight[(int64_t) h * a.n + c] * x[c];
    u = a.gain * activation(a, warp_sum(u), &slope);
    if (lane == 0) v[h] = u;
    if (lane == 0) g[h] = 0;
  }
  __syncwarp();
  for (int k = 0; k < a.n_hidden; k++) {
    const real *w = a.middle + (int64_t) k * a.n_hidden;
    real u = 0, slope;
    for (int h = lane; h < a.n_hidden; h += WARP) u += w[h] * v[h];
    energy += a.last[k] * a.gain * activation(a, a.bias[k] + warp_sum(u), &slope);
    for (int h = lane; h < a.n_hidden; h += WARP) g[h] += a.last[k] * a.gain * slope * w[h];
  }
  __syncwarp();
  for (int h = 0; grad && h < a.n_hidden; h++) {
    const real *w = a.weight + (int64_t) h * a.n;
    real u = 0, slope;
    for (int c = lane; c < a.n; c += WARP) u += w[c] * x[c];
    activation(a, warp_sum(u), &slope);
    for (int c = lane; c < a.n; c += WARP) grad[c] += g[h] * a.gain * slope * w[c];
  }
  return energy;
}

/* energy[i] (+)= o, grad[i] (+)= do/dx, o = weight . x or last . act(weight x). A warp owns an atom, a lane every 32nd
 * channel. Shared memory: two values per hidden unit with two hidden layers. Deterministic. Twin: mace_readout_cpu. */
__global__ void __launch_bounds__(READOUT_WARPS *WARP) mace_readout_kernel(mace_readout_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(real, shared, READOUT_WARPS * 2 * MLFF_MACE_HIDDEN);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int64_t i = (int64_t) blockIdx.x * READOUT_WARPS + warp;
  if (i >= a.atoms.n) return;
  const int32_t slot = slot_of(a.atoms, i);
  const real *x = a.x + i * a.ld;
  real *grad = a.grad ? a.grad + i * a.ld : NULL, energy = 0;
  if (grad && !a.add_grad)
    for (int64_t c = lane; c < a.ld; c += WARP) grad[c] = 0;
  if (a.middle && slot >= 0) {
    real *v = shared + warp * 2 * MLFF_MACE_HIDDEN;
    energy = readout_twice(a, x, lane, v, v + MLFF_MACE_HIDDEN, grad);
  }
  for (int h = 0; !a.middle && slot >= 0 && h < (a.n_hidden ? a.n_hidden : 1); h++) {
    const real *w = a.weight + (int64_t) h * a.n;
    real v = 0, slope = 1;
    for (int c = lane; c < a.n; c += WARP) v += w[c] * x[c];
    v = warp_sum(v);
    if (a.n_hidden) {
      const real last = a.last[slot * a.ld_last + h] * a.gain;
      v = last * activation(a, v, &slope);
      slope *= last;
    }
    energy += v;
    if (grad)
      for (int c = lane; c < a.n; c += WARP) grad[c] += slope * w[c];
  }
  if (lane == 0 && a.energy) a.energy[i] = (a.add_energy ? a.energy[i] : 0) + energy;
}

} // namespace

static select_arrays select_of(const mlff_mace_select_args *args)
{
  select_arrays a;
  memset(&a, 0, sizeof a);
  a.atoms = args->atoms;
  a.x = (real *) args->x;
  a.wide = (real *) args->wide_x;
  a.ld = args->row.ld;
  a.wide_ld = args->wide.ld;
  a.n_orders = args->row.n_orders;
  a.wide_orders = args->wide.n_orders;
  for (int l = 0; l < MLFF_NEQUIP_ORDERS; l++) {
    a.n[l] = args->row.n[l];
    a.offset[l] = args->row.offset[l];
    a.n_wide[l] = args->wide.n[l];
    a.wide_offset[l] = args->wide.offset[l];
  }
  return a;
}

void MLFF_CUDA(mace_expand_cuda)(mlff_backend *backend, const mlff_mace_select_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, mace_expand_kernel, mlff_cuda_blocks(args->atoms.n * args->wide.ld, MACE_THREADS),
                          MACE_THREADS, select_of(args));
}

void MLFF_CUDA(mace_pick_cuda)(mlff_backend *backend, const mlff_mace_select_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, mace_pick_kernel, mlff_cuda_blocks(args->atoms.n * args->row.ld, MACE_THREADS),
                          MACE_THREADS, select_of(args));
}

void MLFF_CUDA(mace_start_cuda)(mlff_backend *backend, const mlff_mace_start_args *args)
{
  start_arrays a;
  memset(&a, 0, sizeof a);
  a.atoms = args->atoms;
  a.bias = (const real *) args->bias;
  a.x = (real *) args->x;
  a.ld = args->row.ld;
  a.n = args->row.n[0];
  MLFF_LAUNCH_INDEPENDENT(backend, mace_start_kernel, mlff_cuda_blocks(a.atoms.n * a.ld, MACE_THREADS), MACE_THREADS,
                          a);
}

static product_arrays product_of(const mlff_mace_product_args *args)
{
  product_arrays a;
  memset(&a, 0, sizeof a);
  a.atoms = args->atoms;
  a.terms = args->terms;
  a.coef = (const real *) args->coef;
  a.a = (const real *) args->a;
  a.density = (const real *) args->density;
  a.grad_density = (real *) args->grad_density;
  a.grad_p = (const real *) args->grad_p;
  a.p = (real *) args->p;
  a.grad_a = (real *) args->grad_a;
  a.a_ld = args->a_row.ld;
  a.p_ld = args->p_row.ld;
  a.n_coef = args->n_coef;
  a.n = args->a_row.n[0];
  a.n_a = args->a_row.n_orders * args->a_row.n_orders;
  a.n_p = args->p_row.n_orders * args->p_row.n_orders;
  return a;
}

void MLFF_CUDA(mace_product_cuda)(mlff_backend *backend, const mlff_mace_product_args *args)
{
  MLFF_LAUNCH(backend, mace_product_kernel, mlff_cuda_blocks(args->atoms.n * args->a_row.n[0], PRODUCT_THREADS),
              PRODUCT_THREADS, 0, product_of(args));
}

void MLFF_CUDA(mace_product_backward_cuda)(mlff_backend *backend, const mlff_mace_product_args *args)
{
  MLFF_LAUNCH(backend, mace_product_backward_kernel,
              mlff_cuda_blocks(args->atoms.n * args->a_row.n[0], PRODUCT_THREADS), PRODUCT_THREADS, 0,
              product_of(args));
  if (args->grad_density)
    MLFF_LAUNCH(backend, mace_density_kernel, mlff_cuda_blocks(args->atoms.n, MACE_THREADS / WARP), MACE_THREADS, 0,
                product_of(args));
}

void MLFF_CUDA(mace_divide_cuda)(mlff_backend *backend, const mlff_mace_divide_args *args)
{
  divide_arrays a;
  memset(&a, 0, sizeof a);
  a.atoms = args->atoms;
  a.in = (const real *) args->in;
  a.density = (const real *) args->density;
  a.bias = (const real *) args->bias;
  a.z = (const real *) args->z;
  a.out = (real *) args->out;
  a.grad_density = (real *) args->grad_density;
  a.ld = args->ld;
  a.n_bias = args->n_bias;
  MLFF_LAUNCH(backend, mace_divide_kernel, mlff_cuda_blocks(a.atoms.n, MACE_THREADS / WARP), MACE_THREADS, 0, a);
}

void MLFF_CUDA(mace_readout_cuda)(mlff_backend *backend, const mlff_mace_readout_args *args)
{
  mace_readout_arrays a;
  memset(&a, 0, sizeof a);
  a.atoms = args->atoms;
  a.x = (const real *) args->x;
  a.weight = (const real *) args->weight;
  a.middle = (const real *) args->middle;
  a.bias = (const real *) args->bias;
  a.last = (const real *) args->last;
  a.energy = (real *) args->energy;
  a.grad = (real *) args->grad;
  a.ld = args->ld;
  a.ld_last = args->ld_last;
  a.gain = (real) args->gain;
  a.n = args->n_channels;
  a.n_hidden = args->n_hidden;
  a.is_tanh = args->is_tanh;
  a.add_energy = args->add_energy;
  a.add_grad = args->add_grad;
  MLFF_LAUNCH(backend, mace_readout_kernel, mlff_cuda_blocks(args->atoms.n, READOUT_WARPS), READOUT_WARPS * WARP, 0, a);
}
