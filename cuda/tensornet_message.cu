/* tensornet_message.cu: messages, moments and radial networks of TensorNet on the GPU. Twins: cpu/tensornet_message.c,
 * cpu/tensornet_moments.c.
 *
 * Lists are symmetric, so the backward pass gathers as the forward pass does: no atomic operations.
 */
#include "tensornet.h"

enum { TERM_THREADS = 128, MOMENT_THREADS = 128, MESSAGE_THREADS = 128, MESSAGE_WARPS = MESSAGE_THREADS / WARP };
enum { EDGE_BATCH = WARP }; /* edges whose gradients are summed over warps at a time */

namespace { /* kernels and their arguments differ between element types */

/* ---- radial networks --------------------------------------------------------------------------------------------- */

typedef struct terms_arrays {
  mlff_tensornet_network network;
  int64_t begin;
  const int64_t *row;
  const real *vec; /* [n_edges][4] */
  real *terms;
} terms_arrays;

typedef struct units {
  real *value, *slope; /* [MLFF_TENSORNET_WIDTH], shared memory */
} units;

/* One layer of a radial network, a thread per output. */
MLFF_DEVICE void radial_layer(const mlff_tensornet_network &net, int layer, int n_in, units in, units out)
{
  const real *w = (const real *) net.weight[layer], *bias = (const real *) net.bias[layer];
  const int n = net.width[layer];
  for (int o = (int) threadIdx.x; o < n; o += TERM_THREADS) {
    real x = bias[o], dx = 0;
    for (int c = 0; c < n_in; c++) {
      const real weight = w[(int64_t) c * n + o];
      x += weight * in.value[c];
      dx += weight * in.slope[c];
    }
    double slope;
    out.value[o] = (real) mlff_tensornet_activation(net.act, (double) x, &slope);
    out.slope[o] = (real) slope * dx;
  }
  __syncthreads();
}

/* q and dq/dr of the edges of an atom, one after the other. A block owns an atom, a thread every 128th unit; units in
 * shared memory. Deterministic. Twin: tensornet_terms_cpu. */
__global__ void __launch_bounds__(TERM_THREADS) tensornet_terms_kernel(terms_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(real, shared, 4 * MLFF_TENSORNET_WIDTH);
  const units even = {shared, shared + MLFF_TENSORNET_WIDTH};
  const units odd = {shared + 2 * MLFF_TENSORNET_WIDTH, shared + 3 * MLFF_TENSORNET_WIDTH};
  const mlff_tensornet_network &net = a.network;
  const int64_t i = a.begin + blockIdx.x, width = net.width[MLFF_TENSORNET_LAYERS - 1];
  const real *first = (const real *) net.first, *second = (const real *) net.second;
  for (int64_t e = a.row[i]; e < a.row[i + 1]; e++) {
    const double r = (double) a.vec[4 * e + 3];
    real *terms = a.terms + (e - a.row[a.begin]) * 2 * width;
    double dfc;
    const double fc = mlff_tensornet_cutoff(r, net.cutoff, &dfc);
    for (int k = (int) threadIdx.x; k < net.n_basis; k += TERM_THREADS) {
      double slope;
      even.value[k] =
          (real) mlff_tensornet_function(net.kind, (double) first[k], second ? (double) second[k] : 0.0, r, &slope);
      even.slope[k] = (real) slope;
    }
    __syncthreads();
    radial_layer(net, 0, net.n_basis, even, odd);
    radial_layer(net, 1, net.width[0], odd, even);
    radial_layer(net, 2, net.width[1], even, odd);
    for (int64_t c = threadIdx.x; c < width; c += TERM_THREADS) {
      terms[c] = odd.value[c] * (real) fc;
      terms[width + c] = odd.slope[c] * (real) fc + odd.value[c] * (real) dfc;
    }
    __syncthreads();
  }
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */

typedef struct moments_arrays {
  const int64_t *row;
  const int32_t *slot;
  const real *lines, *terms;
  real *moments, *edge_grad;
  int64_t begin, ld;
  int n_terms, n_rows, n_slots, accumulate;
} moments_arrays;

/* moments[i][k][column] of an atom, zeros behind the last slot. A block owns an atom, a thread every 128th moment.
 * No shared memory; deterministic. Twin: tensornet_moments_cpu. */
__global__ void __launch_bounds__(MOMENT_THREADS) tensornet_moments_kernel(moments_arrays a)
{
  grid_dependency_wait();
  const int64_t i = a.begin + blockIdx.x, begin = a.row[i], end = a.row[i + 1];
  real *moments = a.moments + (int64_t) blockIdx.x * COMPONENTS * a.ld;
  for (int64_t q = threadIdx.x; q < COMPONENTS * a.ld; q += MOMENT_THREADS) {
    const int k = (int) (q / a.ld), column = (int) (q % a.ld), slot = column / a.n_rows, t = column % a.n_rows;
    real sum = 0;
    for (int64_t e = begin; slot < a.n_slots && e < end; e++) {
      const real *line = a.lines + e * MLFF_PAINN_LINE;
      if (a.slot[line_load_index(line).species] != slot) continue;
      real unit[COMPONENTS], of_k = 0;
      mlff_tensornet_components(line + LINE_UNIT, unit);
#pragma unroll
      for (int c = 0; c < COMPONENTS; c++) of_k = c == k ? unit[c] : of_k;
      sum += of_k * a.terms[e * 2 * a.n_terms + t];
    }
    moments[q] = sum;
  }
}

/* edge_grad of the edges of an atom from the adjoints of its moments. A block owns an atom, a thread every 128th edge.
 * No shared memory; deterministic. Twin: tensornet_moments_backward_cpu. */
__global__ void __launch_bounds__(MOMENT_THREADS) tensornet_moments_backward_kernel(moments_arrays a)
{
  grid_dependency_wait();
  const int64_t i = a.begin + blockIdx.x;
  for (int64_t e = a.row[i] + threadIdx.x; e < a.row[i + 1]; e += MOMENT_THREADS) {
    const real *line = a.lines + e * MLFF_PAINN_LINE, *coef = a.terms + e * 2 * a.n_terms, *slope = coef + a.n_terms;
    const int slot = a.slot[line_load_index(line).species];
    const real *moments = a.moments + (int64_t) blockIdx.x * COMPONENTS * a.ld + (slot < 0 ? 0 : slot) * a.n_rows;
    real unit[COMPONENTS], by_unit[COMPONENTS], g[3], gr = 0;
    mlff_tensornet_components(line + LINE_UNIT, unit);
#pragma unroll
    for (int k = 0; k < COMPONENTS; k++) {
      real sum = 0, by_r = 0;
      for (int t = 0; slot >= 0 && t < a.n_rows; t++) {
        sum += coef[t] * moments[k * a.ld + t];
        by_r += slope[t] * moments[k * a.ld + t];
      }
      by_unit[k] = k ? sum : 0;
      gr += unit[k] * by_r;
    }
    mlff_tensornet_components_backward(line + LINE_UNIT, by_unit, g);
    const real *u = line + LINE_UNIT, inverse = line[LINE_INVERSE];
    const real along = g[0] * u[0] + g[1] * u[1] + g[2] * u[2];
    for (int d = 0; d < 3; d++) {
      const real more = g[d] * inverse + u[d] * (gr - along * inverse);
      a.edge_grad[4 * e + d] = (a.accumulate ? a.edge_grad[4 * e + d] : 0) + more;
    }
    if (!a.accumulate) a.edge_grad[4 * e + 3] = 0;
  }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct message_arrays {
  const int64_t *row;
  const real *lines, *rows, *terms, *y, *grad;
  real *sums, *q_sums, *edge_grad;
  int64_t begin, n, f;
  int accumulate, unused;
} message_arrays;

/* Weights of an edge at channel c, and with SLOPES their slopes. block_start: first edge of the block. */
template <int SLOPES>
MLFF_DEVICE void edge_q(const message_arrays &a, const real *line, int first, int64_t e, int64_t c, real q[3],
                        real slope[3])
{
  const int64_t width = 3 * a.f;
#pragma unroll
  for (int p = 0; p < 3; p++) {
    if (!a.rows) {
      const real *terms = a.terms + (e - a.row[a.begin]) * 2 * width + p * a.f + c;
      q[p] = terms[0];
      if (SLOPES) slope[p] = terms[width];
      continue;
    }
    const real *r = a.rows + first * width + p * a.f + c;
    q[p] = 0;
    if (SLOPES) slope[p] = 0;
#pragma unroll
    for (int t = 0; t < 4; t++) {
      q[p] = real_fma(line[LINE_COEF + t], r[t * width], q[p]);
      if (SLOPES) slope[p] = real_fma(line[LINE_SLOPE + t], r[t * width], slope[p]);
    }
  }
}

/* sums[i] = sum of q y[j] over the edges of an atom. One thread per atom and channel. No shared memory; deterministic.
 * Twin: tensornet_message_cpu. */
__global__ void __launch_bounds__(MESSAGE_THREADS) tensornet_message_kernel(message_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * MESSAGE_THREADS + threadIdx.x, block = q / a.f, c = q % a.f;
  if (block >= a.n) return;
  const int64_t i = a.begin + block, end = a.row[i + 1];
  real sum[COMPONENTS];
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) sum[k] = 0;
  for (int64_t e = a.row[i]; e < end; e++) {
    const real *line = a.lines + e * MLFF_PAINN_LINE;
    const line_index index = line_load_index(line);
    const real *y = a.y + (int64_t) index.node * COMPONENTS * a.f + c;
    real weight[3];
    edge_q<0>(a, line, index.first, e, c, weight, NULL);
#pragma unroll
    for (int k = 0; k < COMPONENTS; k++) sum[k] += weight[component_part(k)] * y[k * a.f];
  }
  row_store(a.sums + block * COMPONENTS * a.f + c, a.f, sum);
}

/* q_sums[i] = sum of q over the edges of an atom, sums[i] = q_sums[i] y[i]. One thread per atom and channel. No shared
 * memory; deterministic. Twin: tensornet_local_cpu. */
__global__ void __launch_bounds__(MESSAGE_THREADS) tensornet_local_kernel(message_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * MESSAGE_THREADS + threadIdx.x, block = q / a.f, c = q % a.f;
  if (block >= a.n) return;
  const int64_t i = a.begin + block, end = a.row[i + 1], row = block * COMPONENTS * a.f + c;
  real sum[3] = {0, 0, 0};
  for (int64_t e = a.row[i]; e < end; e++) {
    const real *line = a.lines + e * MLFF_PAINN_LINE;
    real weight[3];
    edge_q<0>(a, line, line_load_index(line).first, e, c, weight, NULL);
#pragma unroll
    for (int p = 0; p < 3; p++) sum[p] += weight[p];
  }
#pragma unroll
  for (int p = 0; p < 3; p++) a.q_sums[(3 * block + p) * a.f + c] = sum[p];
#pragma unroll
  for (int k = 0; k < COMPONENTS; k++) a.sums[row + k * a.f] = sum[component_part(k)] * a.y[row + k * a.f];
}

/* edge_grad of one edge (+)= gr u */
MLFF_DEVICE void store_radial(const message_arrays &a, int64_t e, real gr, bool add)
{
  const real *u = a.lines + e * MLFF_PAINN_LINE + LINE_UNIT;
  for (int d = 0; d < 3; d++) a.edge_grad[4 * e + d] = (add ? a.edge_grad[4 * e + d] : 0) + gr * u[d];
  if (!add) a.edge_grad[4 * e + 3] = 0;
}

/* sums[i] += sum of q grad[j], or with LOCAL q_sums[i] grad[i]; edge_grad from q' <grad, y>. A block owns an atom, a
 * thread every 128th channel; parts of gradients of a batch of edges, one for each warp, in shared memory.
 * Deterministic. Twins: tensornet_message_backward_cpu, tensornet_local_backward_cpu. */
template <int LOCAL> __global__ void __launch_bounds__(MESSAGE_THREADS) tensornet_backward_kernel(message_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(real, parts, EDGE_BATCH * MESSAGE_WARPS);
  const int thread = (int) threadIdx.x, warp = thread / WARP;
  const int64_t block = blockIdx.x, i = a.begin + block, begin = a.row[i], end = a.row[i + 1];
  const int64_t own = (LOCAL ? block : i) * COMPONENTS * a.f;
  for (int64_t c0 = 0; c0 < a.f; c0 += MESSAGE_THREADS) {
    const bool is_there = c0 + thread < a.f;
    const int64_t c = is_there ? c0 + thread : 0;
    real *to = a.sums + block * COMPONENTS * a.f + c, y[COMPONENTS], sum[COMPONENTS], dot[3] = {0, 0, 0};
    row_load(a.y + own + c, a.f, y);
#pragma unroll
    for (int k = 0; k < COMPONENTS; k++) sum[k] = is_there ? to[k * a.f] : (real) 0;
    if (LOCAL) {
#pragma unroll
      for (int k = 0; k < COMPONENTS; k++) {
        const real g = a.grad[own + k * a.f + c];
        dot[component_part(k)] += g * y[k];
        sum[k] += g * a.q_sums[(3 * block + component_part(k)) * a.f + c];
      }
    }
    for (int64_t first = begin; first < end; first += EDGE_BATCH) {
      const int n = end - first < EDGE_BATCH ? (int) (end - first) : EDGE_BATCH;
      for (int k = 0; k < n; k++) {
        const real *line = a.lines + (first + k) * MLFF_PAINN_LINE;
        const line_index index = line_load_index(line);
        real weight[3], slope[3];
        edge_q<1>(a, line, index.first, first + k, c, weight, slope);
        if (!LOCAL) {
          const real *grad = a.grad + (int64_t) index.node * COMPONENTS * a.f + c;
          dot[0] = dot[1] = dot[2] = 0;
#pragma unroll
          for (int m = 0; m < COMPONENTS; m++) {
            const real g = grad[m * a.f];
            dot[component_part(m)] += g * y[m];
            sum[m] += weight[component_part(m)] * g;
          }
        }
        const real gr = is_there ? slope[0] * dot[0] + slope[1] * dot[1] + slope[2] * dot[2] : (real) 0;
        const real part = warp_sum(gr);
        if (thread % WARP == 0) parts[k * MESSAGE_WARPS + warp] = part;
      }
      __syncthreads();
      if (thread < n) {
        real gr = parts[thread * MESSAGE_WARPS];
        for (int w = 1; w < MESSAGE_WARPS; w++) gr += parts[thread * MESSAGE_WARPS + w];
        store_radial(a, first + thread, gr, a.accumulate || c0 > 0);
      }
      __syncthreads();
    }
    if (is_there) row_store(to, a.f, sum);
  }
}

} // namespace

/* ---- launches ---------------------------------------------------------------------------------------------------- */

void MLFF_CUDA(tensornet_terms_cuda)(mlff_backend *backend, const mlff_tensornet_terms_args *args)
{
  terms_arrays a;
  memset(&a, 0, sizeof a);
  a.network = args->network;
  a.begin = args->begin;
  a.row = (const int64_t *) args->edges->row.data;
  a.vec = (const real *) args->edges->vec.data;
  a.terms = (real *) args->terms;
  MLFF_LAUNCH(backend, tensornet_terms_kernel, (unsigned) (args->end - args->begin), TERM_THREADS, 0, a);
}

static moments_arrays moments_of(const mlff_tensornet_moments_args *args)
{
  moments_arrays a;
  memset(&a, 0, sizeof a);
  a.row = (const int64_t *) args->edges->row.data;
  a.slot = args->slot;
  a.lines = (const real *) args->radial->line.data;
  a.terms = (const real *) args->radial->terms.data;
  a.moments = (real *) args->moments;
  a.edge_grad = (real *) args->edge_grad;
  a.begin = args->begin;
  a.ld = args->ld;
  a.n_terms = args->n_terms;
  a.n_rows = args->n_rows;
  a.n_slots = args->n_slots;
  a.accumulate = args->accumulate;
  return a;
}

void MLFF_CUDA(tensornet_moments_cuda)(mlff_backend *backend, const mlff_tensornet_moments_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_moments_kernel, (unsigned) (args->end - args->begin), MOMENT_THREADS,
                          moments_of(args));
}

void MLFF_CUDA(tensornet_moments_backward_cuda)(mlff_backend *backend, const mlff_tensornet_moments_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_moments_backward_kernel, (unsigned) (args->end - args->begin),
                          MOMENT_THREADS, moments_of(args));
}

static message_arrays message_of(const mlff_tensornet_message_args *args)
{
  message_arrays a;
  memset(&a, 0, sizeof a);
  a.row = (const int64_t *) args->edges->row.data;
  a.lines = (const real *) args->radial->line.data;
  a.rows = (const real *) args->rows;
  a.terms = (const real *) args->terms;
  a.y = (const real *) args->y;
  a.grad = (const real *) args->grad;
  a.sums = (real *) args->sums;
  a.q_sums = (real *) args->q_sums;
  a.edge_grad = (real *) args->edge_grad;
  a.begin = args->begin;
  a.n = args->end - args->begin;
  a.f = args->n_features;
  a.accumulate = args->accumulate;
  return a;
}

void MLFF_CUDA(tensornet_message_cuda)(mlff_backend *backend, const mlff_tensornet_message_args *args)
{
  const message_arrays a = message_of(args);
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_message_kernel, mlff_cuda_blocks(a.n * a.f, MESSAGE_THREADS),
                          MESSAGE_THREADS, a);
}

void MLFF_CUDA(tensornet_message_backward_cuda)(mlff_backend *backend, const mlff_tensornet_message_args *args)
{
  const message_arrays a = message_of(args);
  MLFF_LAUNCH(backend, tensornet_backward_kernel<0>, (unsigned) a.n, MESSAGE_THREADS, 0, a);
}

void MLFF_CUDA(tensornet_local_cuda)(mlff_backend *backend, const mlff_tensornet_message_args *args)
{
  const message_arrays a = message_of(args);
  MLFF_LAUNCH_INDEPENDENT(backend, tensornet_local_kernel, mlff_cuda_blocks(a.n * a.f, MESSAGE_THREADS),
                          MESSAGE_THREADS, a);
}

void MLFF_CUDA(tensornet_local_backward_cuda)(mlff_backend *backend, const mlff_tensornet_message_args *args)
{
  const message_arrays a = message_of(args);
  MLFF_LAUNCH(backend, tensornet_backward_kernel<1>, (unsigned) a.n, MESSAGE_THREADS, 0, a);
}
