/* orb.cu: the operations of ops_orb.h on the GPU, except the graph (orb_graph.cu) and the GEMMs (linear.cu). Twin:
 * cpu/orb.c.
 *
 * Rows without an edge pass through the GEMMs, and nothing else reads them. The messages that a node receives are
 * summed over a list of its incoming edges, made with the graph: no atomics.
 */
#include "orb.h"
#include "vectors.h"

/* EDGES_PER_BATCH: edges of a thread whose loads are batched. */
enum { MESSAGE_THREADS = 256, EDGES_PER_BATCH = 4, SUM_THREADS = 256, SUM_COLUMNS = 8 };

/* ---- rows of any width ------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

/* Row of this warp in kernels with a warp for each row. */
MLFF_DEVICE int64_t warp_row()
{
  return (int64_t) blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
}

/* 1/sqrt(variance + epsilon) of a row, to all lanes. */
MLFF_DEVICE real row_scale(const real *x, int64_t width, real mean, double epsilon, int lane)
{
  real square = 0;
#pragma unroll 8
  for (int64_t k = lane; k < width; k += WARP) square += (x[k] - mean) * (x[k] - mean);
  return (real) 1 / real_sqrt(warp_sum(square) / (real) width + (real) epsilon);
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

typedef struct feature_arrays {
  int64_t first, n, n_basis; /* rows first .. first + n */
  const real *vec;
  real *out;
  double spacing;
} feature_arrays;

/* out[r][k] = exp(-(d - k spacing)^2) for k < n_basis, then the unit vector; vec [n_edges][4], out [n][n_basis + 3] A
 * warp owns row r of the block, a lane every 32nd column. Rows without an edge are those of a zero vector. A block has
 * ROW_WARPS warps; no shared memory; deterministic. Twin: orb_features_cpu. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_features_kernel(feature_arrays a)
{
  grid_dependency_wait();
  const int64_t r = warp_row(), edge = a.first + r, n_columns = a.n_basis + 3;
  if (r >= a.n) return;
  for (int64_t k = threadIdx.x % WARP; k < n_columns; k += WARP) {
    const real x = a.vec[4 * edge + 3] - (real) k * (real) a.spacing;
    a.out[r * n_columns + k] = k < a.n_basis ? real_exp(-x * x) : a.vec[4 * edge + k - a.n_basis];
  }
}

typedef struct gather_arrays {
  int64_t first, n, stride, width;
  const int32_t *receiver;
  const real *from_sender, *from_receiver;
  real *y;
} gather_arrays;

/* y[r][k] = ssp(y[r][k] + from_sender[s][k] + from_receiver[b][k]) with the sender s and receiver b of row r;
 * y [n][width], from_sender [n_local][width], from_receiver [n_nodes][width]
 * A warp owns row r of the block, a lane every 32nd k; rows without an edge are not changed. A block has ROW_WARPS
 * warps; no shared memory; deterministic. Twin: orb_gather_cpu. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_gather_kernel(gather_arrays a)
{
  grid_dependency_wait();
  const int64_t r = warp_row(), edge = a.first + r;
  if (r >= a.n || a.receiver[edge] < 0) return;
  const real *sender = a.from_sender + edge / a.stride * a.width;
  const real *receiver = a.from_receiver + a.receiver[edge] * a.width;
  real *y = a.y + r * a.width;
  for (int64_t k = threadIdx.x % WARP; k < a.width; k += WARP) y[k] = real_ssp(y[k] + sender[k] + receiver[k]);
}

typedef struct norm_arrays {
  int64_t n, width;
  const real *x, *gain, *shift;
  real *y;
  double epsilon;
  int64_t accumulate;
} norm_arrays;

/* y[r] (+)= (x[r] - mean_r) scale_r gain + shift, mean_r and 1/scale_r^2 = variance + epsilon over the row; x, y
 * [n][width]
 * A warp owns row r, a lane every 32nd k; sums go through shuffles. A block has ROW_WARPS warps; no shared memory;
 * deterministic. Twin: orb_norm_cpu. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_norm_kernel(norm_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t r = warp_row();
  if (r >= a.n) return;
  const real *x = a.x + r * a.width;
  real *y = a.y + r * a.width, sum = 0;
#pragma unroll 8
  for (int64_t k = lane; k < a.width; k += WARP) sum += x[k];
  const real mean = warp_sum(sum) / (real) a.width, scale = row_scale(x, a.width, mean, a.epsilon, lane);
  for (int64_t k = lane; k < a.width; k += WARP) {
    real v = (x[k] - mean) * scale * a.gain[k] + a.shift[k];
    if (a.accumulate) v += y[k];
    y[k] = v;
  }
}

typedef struct message_arrays {
  int64_t begin, first, end, stride, width; /* first atom; its first row; end of the rows */
  const int64_t *in_row;
  const int32_t *in_edge, *receiver;
  const real *x, *gates, *gain, *shift, *env;
  real *factors, *e, *received, *sent;
  double epsilon, gate_bias[2];
  int64_t last;
} message_arrays;

/* The factors of one edge, by a warp. Twin: edge_message. */
MLFF_DEVICE void make_factors(const message_arrays &a, int64_t edge, int lane)
{
  const real *x = a.x + (edge - a.first) * a.width, *e = a.e + edge * a.width;
  real receive = 0, send = 0, sum = 0;
#pragma unroll 8
  for (int64_t k = lane; k < a.width; k += WARP) {
    receive += a.gates[k] * e[k];
    send += a.gates[a.width + k] * e[k];
    sum += x[k];
  }
  receive = warp_sum(receive);
  send = warp_sum(send);
  const real mean = warp_sum(sum) / (real) a.width, scale = row_scale(x, a.width, mean, a.epsilon, lane);
  if (lane) return;
  vector_of<N_FACTORS> factors;
  factors.v[FACTOR_MEAN] = mean;
  factors.v[FACTOR_SCALE] = scale;
  factors.v[FACTOR_RECEIVE] = a.env[edge] * real_sigmoid(receive + (real) a.gate_bias[0]);
  factors.v[FACTOR_SEND] = a.env[edge] * real_sigmoid(send + (real) a.gate_bias[1]);
  store_vector<N_FACTORS>(a.factors + edge * N_FACTORS, factors);
}

/* Loads what channel k of the message of an edge needs. */
MLFF_DEVICE void load_message(const message_arrays &a, int64_t edge, int64_t k, vector_of<N_FACTORS> *factors, real *x)
{
  *factors = load_vector<N_FACTORS>(a.factors + edge * N_FACTORS);
  *x = a.x[(edge - a.first) * a.width + k];
}

/* m[edge][k] */
MLFF_DEVICE real message_of(const vector_of<N_FACTORS> &factors, real x, real gain, real shift)
{
  return (x - factors.v[FACTOR_MEAN]) * factors.v[FACTOR_SCALE] * gain + shift;
}

/* For the edges of sender i:  a_receive and a_send = env sigmoid(gate . e + bias) and the moments of x into factors;
 * with m = norm(x):  sent[i][k] = sum m[k] a_send,  e[k] += m[k] (unless `last`)
 *   x [end - first][width], e [n_edges][width], factors [n_edges][N_FACTORS], gates [2][width], sent [n_local][width]
 * A block owns sender i: first a warp every MESSAGE_THREADS/32-th edge, for its factors, by shuffles; then, after a
 * barrier, a thread every MESSAGE_THREADS-th channel, summed over the edges in order. Factors pass through global
 * memory, where orb_receive_kernel reads them too. Deterministic. Twin: orb_message_cpu. */
__global__ void __launch_bounds__(MESSAGE_THREADS) orb_send_kernel(message_arrays a)
{
  grid_dependency_wait();
  const int64_t i = a.begin + blockIdx.x, begin = i * a.stride, end = begin + a.stride;
  const int warp = (int) threadIdx.x / WARP, lane = (int) threadIdx.x % WARP;
  for (int64_t edge = begin + warp; edge < end && a.receiver[edge] >= 0; edge += MESSAGE_THREADS / WARP)
    make_factors(a, edge, lane);
  __syncthreads();
  for (int64_t k = threadIdx.x; k < a.width; k += MESSAGE_THREADS) {
    const real gain = a.gain[k], shift = a.shift[k];
    real sum = 0;
    for (int64_t edge = begin; edge < end; edge += EDGES_PER_BATCH) {
      vector_of<N_FACTORS> factors[EDGES_PER_BATCH] = {};
      real x[EDGES_PER_BATCH] = {}, e[EDGES_PER_BATCH] = {};
      bool is_edge[EDGES_PER_BATCH];
#pragma unroll
      for (int q = 0; q < EDGES_PER_BATCH; q++) {
        is_edge[q] = edge + q < end && a.receiver[edge + q] >= 0;
        if (!is_edge[q]) continue;
        load_message(a, edge + q, k, &factors[q], &x[q]);
        if (!a.last) e[q] = a.e[(edge + q) * a.width + k];
      }
#pragma unroll
      for (int q = 0; q < EDGES_PER_BATCH; q++) {
        if (!is_edge[q]) continue;
        const real m = message_of(factors[q], x[q], gain, shift);
        sum += m * factors[q].v[FACTOR_SEND];
        if (!a.last) a.e[(edge + q) * a.width + k] = e[q] + m;
      }
    }
    a.sent[i * a.width + k] = sum;
  }
}

/* received[b][k] += sum m[edge][k] a_receive over the edges in first .. end that end at node b, in their order
 *   in_row [n_nodes][2], in_edge: of the graph; received [n_nodes][width]
 * A block owns node b, a thread every MESSAGE_THREADS-th channel. After orb_send_kernel, which makes the factors. No
 * shared memory; deterministic. Twin: orb_message_cpu. */
__global__ void __launch_bounds__(MESSAGE_THREADS) orb_receive_kernel(message_arrays a)
{
  grid_dependency_wait();
  const int64_t b = blockIdx.x, q_begin = a.in_row[2 * b], q_end = a.in_row[2 * b + 1];
  if (q_begin == q_end || a.in_edge[q_begin] >= a.end || a.in_edge[q_end - 1] < a.first) return;
  for (int64_t k = threadIdx.x; k < a.width; k += MESSAGE_THREADS) {
    const real gain = a.gain[k], shift = a.shift[k], previous = a.received[b * a.width + k];
    real sum = 0;
    for (int64_t q0 = q_begin; q0 < q_end; q0 += EDGES_PER_BATCH) {
      vector_of<N_FACTORS> factors[EDGES_PER_BATCH] = {};
      real x[EDGES_PER_BATCH] = {};
      bool is_edge[EDGES_PER_BATCH];
#pragma unroll
      for (int q = 0; q < EDGES_PER_BATCH; q++) {
        const int64_t edge = q0 + q < q_end ? a.in_edge[q0 + q] : -1;
        is_edge[q] = edge >= a.first && edge < a.end;
        if (is_edge[q]) load_message(a, edge, k, &factors[q], &x[q]);
      }
#pragma unroll
      for (int q = 0; q < EDGES_PER_BATCH; q++)
        if (is_edge[q]) sum += message_of(factors[q], x[q], gain, shift) * factors[q].v[FACTOR_RECEIVE];
    }
    a.received[b * a.width + k] = previous + sum;
  }
}

} // namespace

void MLFF_CUDA(orb_features_cuda)(mlff_backend *backend, const mlff_orb_features_args *args)
{
  feature_arrays a;
  memset(&a, 0, sizeof a);
  a.first = mlff_orb_first_row(args->graph, args->begin);
  a.n = mlff_orb_first_row(args->graph, args->end) - a.first;
  a.n_basis = args->n_basis;
  a.vec = (const real *) args->graph->vec.data;
  a.out = (real *) args->out;
  a.spacing = args->spacing;
  MLFF_LAUNCH_INDEPENDENT(backend, orb_features_kernel, mlff_cuda_blocks(a.n, ROW_WARPS), WARP * ROW_WARPS, a);
}

void MLFF_CUDA(orb_gather_cuda)(mlff_backend *backend, const mlff_orb_gather_args *args)
{
  gather_arrays a;
  memset(&a, 0, sizeof a);
  a.first = mlff_orb_first_row(args->graph, args->begin);
  a.n = mlff_orb_first_row(args->graph, args->end) - a.first;
  a.stride = args->graph->stride;
  a.width = args->width;
  a.receiver = (const int32_t *) args->graph->node.data;
  a.from_sender = (const real *) args->from_sender;
  a.from_receiver = (const real *) args->from_receiver;
  a.y = (real *) args->y;
  MLFF_LAUNCH_INDEPENDENT(backend, orb_gather_kernel, mlff_cuda_blocks(a.n, ROW_WARPS), WARP * ROW_WARPS, a);
}

void MLFF_CUDA(orb_norm_cuda)(mlff_backend *backend, const mlff_orb_norm_args *args)
{
  norm_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.width = args->width;
  a.x = (const real *) args->x;
  a.gain = (const real *) args->norm->gain.data;
  a.shift = (const real *) args->norm->shift.data;
  a.y = (real *) args->y;
  a.epsilon = args->norm->epsilon;
  a.accumulate = args->accumulate;
  MLFF_LAUNCH(backend, orb_norm_kernel, mlff_cuda_blocks(a.n, ROW_WARPS), WARP * ROW_WARPS, 0, a);
}

void MLFF_CUDA(orb_message_cuda)(mlff_backend *backend, const mlff_orb_message_args *args)
{
  const mlff_orb_graph *graph = args->graph;
  message_arrays a;
  memset(&a, 0, sizeof a);
  a.begin = args->begin;
  a.first = mlff_orb_first_row(graph, args->begin);
  a.end = mlff_orb_first_row(graph, args->end);
  a.stride = graph->stride;
  a.width = args->width;
  a.in_row = (const int64_t *) graph->in_row.data;
  a.in_edge = (const int32_t *) graph->in_edge.data;
  a.receiver = (const int32_t *) graph->node.data;
  a.x = (const real *) args->x;
  a.gates = (const real *) args->gates;
  a.gain = (const real *) args->norm->gain.data;
  a.shift = (const real *) args->norm->shift.data;
  a.env = (const real *) graph->env.data;
  a.factors = (real *) graph->scratch.data;
  a.e = (real *) args->e;
  a.received = (real *) args->received;
  a.sent = (real *) args->sent;
  a.epsilon = args->norm->epsilon;
  for (int k = 0; k < 2; k++) a.gate_bias[k] = args->gate_bias[k];
  a.last = args->last;
  MLFF_LAUNCH(backend, orb_send_kernel, (unsigned) (args->end - args->begin), MESSAGE_THREADS, 0, a);
  MLFF_LAUNCH_INDEPENDENT(backend, orb_receive_kernel, (unsigned) graph->n_nodes, MESSAGE_THREADS, a);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

typedef struct concat_arrays {
  int64_t n, width;
  const real *part[3];
  real *out;
} concat_arrays;

/* out[i] = (a[i], b[i], c[i]); parts [n][width], out [n][3 width]. A warp owns a row of out, a lane every 32nd column.
 * A block has ROW_WARPS warps; no shared memory; deterministic. Twin: orb_concat_cpu. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_concat_kernel(concat_arrays a)
{
  grid_dependency_wait();
  const int64_t i = warp_row();
  if (i >= a.n) return;
  for (int p = 0; p < 3; p++) {
    const real *part = a.part[p] + i * a.width;
    real *out = a.out + (3 * i + p) * a.width;
    for (int64_t k = threadIdx.x % WARP; k < a.width; k += WARP) out[k] = part[k];
  }
}

typedef struct embed_arrays {
  int64_t n, width;
  const int32_t *species;
  const real *table;
  real *out;
} embed_arrays;

/* out[i] = table[species[i]], zeros for species -1; out [n][width]. A warp owns row i, a lane every 32nd column. A
 * block has ROW_WARPS warps; no shared memory; deterministic. Twin: orb_embed_cpu. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_embed_kernel(embed_arrays a)
{
  grid_dependency_wait();
  const int64_t i = warp_row();
  if (i >= a.n) return;
  const int32_t s = a.species[i];
  for (int64_t k = threadIdx.x % WARP; k < a.width; k += WARP)
    a.out[i * a.width + k] = s < 0 ? (real) 0 : a.table[s * a.width + k];
}

typedef struct sum_arrays {
  int64_t n, width;
  const real *x;
  const int32_t *species;
  double *sum;
} sum_arrays;

/* sum[k] = sum over i with species[i] >= 0 of x[i][k], in double; x [n][width]
 * A block owns SUM_COLUMNS columns, a thread every SUM_THREADS/SUM_COLUMNS-th row of one of them; then a tree in shared
 * memory (a double per thread). Deterministic. Twin: orb_sum_cpu. */
__global__ void __launch_bounds__(SUM_THREADS) orb_sum_kernel(sum_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(double, sums, SUM_THREADS);
  const int t = (int) threadIdx.x;
  const int64_t k = (int64_t) blockIdx.x * SUM_COLUMNS + t % SUM_COLUMNS;
  double sum = 0;
  for (int64_t i = t / SUM_COLUMNS; i < a.n && k < a.width; i += SUM_THREADS / SUM_COLUMNS)
    if (a.species[i] >= 0) sum += (double) a.x[i * a.width + k];
  sums[t] = sum;
  for (int n = SUM_THREADS / 2; n >= SUM_COLUMNS; n /= 2) {
    __syncthreads();
    if (t < n) sums[t] += sums[t + n];
  }
  if (t < SUM_COLUMNS && k < a.width) a.sum[k] = sums[t];
}

} // namespace

void MLFF_CUDA(orb_concat_cuda)(mlff_backend *backend, const mlff_orb_concat_args *args)
{
  concat_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.width = args->width;
  a.part[0] = (const real *) args->a;
  a.part[1] = (const real *) args->b;
  a.part[2] = (const real *) args->c;
  a.out = (real *) args->out;
  MLFF_LAUNCH_INDEPENDENT(backend, orb_concat_kernel, mlff_cuda_blocks(a.n, ROW_WARPS), WARP * ROW_WARPS, a);
}

void MLFF_CUDA(orb_embed_cuda)(mlff_backend *backend, const mlff_orb_embed_args *args)
{
  embed_arrays a;
  memset(&a, 0, sizeof a);
  a.n = args->n;
  a.width = args->width;
  a.species = args->species;
  a.table = (const real *) args->table;
  a.out = (real *) args->out;
  MLFF_LAUNCH_INDEPENDENT(backend, orb_embed_kernel, mlff_cuda_blocks(a.n, ROW_WARPS), WARP * ROW_WARPS, a);
}

mlff_status MLFF_CUDA(orb_sum_cuda)(mlff_backend *backend, const void *x, int64_t n, int64_t width,
                                    const int32_t *species, double *sum, mlff_error *error)
{
  mlff_buf *buf = &mlff_cuda_of(backend)->sums;
  const size_t bytes = (size_t) width * sizeof *sum;
  sum_arrays a;
  MLFF_TRY(mlff_buf_reserve(backend, buf, bytes, error));
  memset(&a, 0, sizeof a);
  a.n = n;
  a.width = width;
  a.x = (const real *) x;
  a.species = species;
  a.sum = (double *) buf->data;
  MLFF_LAUNCH(backend, orb_sum_kernel, mlff_cuda_blocks(width, SUM_COLUMNS), SUM_THREADS, 0, a);
  return download_cuda(backend, sum, a.sum, bytes, error);
}
