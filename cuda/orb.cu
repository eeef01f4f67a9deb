/* orb.cu: the operations of ops_orb.h on the GPU, but for the graph and messages. Twin: cpu/orb.c. Products are
 * linear.cu's.
 *
 * Rows without an edge (of the graph) go through the products and are read by nothing else.
 */
#include "orb.h"

enum { SUM_THREADS = 256, SUM_COLUMNS = 8 };

/* ---- rows of any width ------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

/* Row of this thread's warp in kernels with a warp for each row. */
MLFF_DEVICE int64_t own_row()
{
  return (int64_t) blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */

typedef struct feature_arrays {
  int64_t first, n, n_basis; /* rows first .. first + n */
  const real *vec;
  real *out;
  double spacing;
} feature_arrays;

/* out[r][k] = exp(-(d - k spacing)^2) for k < n_basis, then the unit vector; vec [n_edges][4], out [n][n_basis + 3]
 * A warp owns row r of the block, a lane every 32nd column; those of rows without an edge are of a vector of
 * zeros. A block has ROW_WARPS warps; no shared memory; deterministic. Twin: orb_features_cpu. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_features_kernel(feature_arrays a)
{
  grid_dependency_wait();
  const int64_t r = own_row(), edge = a.first + r, n_columns = a.n_basis + 3;
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
 * A warp owns row r of the block, a lane every 32nd k; rows without an edge are left as they are. A block has ROW_WARPS
 * warps; no shared memory; deterministic. Twin: orb_gather_cpu. */
__global__ void __launch_bounds__(WARP *ROW_WARPS) orb_gather_kernel(gather_arrays a)
{
  grid_dependency_wait();
  const int64_t r = own_row(), edge = a.first + r;
  if (r >= a.n || a.receiver[edge] < 0) return;
  const real *sender = a.from_sender + edge / a.stride * a.width;
  const real *receiver = a.from_receiver + a.receiver[edge] * a.width;
  real *y = a.y + r * a.width;
  for (int64_t k = threadIdx.x % WARP; k < a.width; k += WARP) y[k] = real_ssp(y[k] + sender[k] + receiver[k]);
}

typedef struct norm_arrays {
  int64_t n;
  const real *x, *gain, *shift;
  real *y;
  double epsilon;
  int width, accumulate;
} norm_arrays;

/* y[r] (+)= (x[r] - mean_r) scale_r gain + shift, mean_r and 1/scale_r^2 = variance + epsilon over the row; x, y
 * [n][width]
 * A warp owns row r, a lane every 32nd N numbers; sums go through shuffles. A block has ROW_WARPS warps; no shared
 * memory; deterministic. Twin: orb_norm_cpu. */
template <int N> __global__ void __launch_bounds__(WARP *ROW_WARPS) orb_norm_kernel(norm_arrays a)
{
  grid_dependency_wait();
  const int lane = (int) threadIdx.x % WARP;
  const int64_t r = own_row();
  if (r >= a.n) return;
  const real *x = a.x + r * a.width;
  real *y = a.y + r * a.width, mean, scale;
  row_moments<N>(x, a.width, a.epsilon, lane, &mean, &scale);
  for (int k = lane * N; k < a.width; k += WARP * N) {
    const vector_of<N> gain = load_vector<N>(a.gain + k), shift = load_vector<N>(a.shift + k);
    vector_of<N> v = load_vector<N>(x + k), before = {};
    if (a.accumulate) before = load_vector<N>(y + k);
#pragma unroll
    for (int c = 0; c < N; c++) v.of[c] = (v.of[c] - mean) * scale * gain.of[c] + shift.of[c] + before.of[c];
    store_vector<N>(y + k, v);
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
  a.width = (int) args->width;
  a.x = (const real *) args->x;
  a.gain = (const real *) args->norm->gain.data;
  a.shift = (const real *) args->norm->shift.data;
  a.y = (real *) args->y;
  a.epsilon = args->norm->epsilon;
  a.accumulate = args->accumulate;
  mlff_cuda_launch(backend, "orb_norm_kernel", 0, is_in_vectors(a.width) ? orb_norm_kernel<VECTOR> : orb_norm_kernel<1>,
                   mlff_cuda_blocks(a.n, ROW_WARPS), WARP * ROW_WARPS, 0, a);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

typedef struct concat_arrays {
  int64_t n, width;
  const real *part[3];
  real *out;
} concat_arrays;

/* out[i] = (a[i], b[i], c[i]); parts [n][width], out [n][3 width]
 * Grid: x over rows, y over parts. A warp owns a row of a part, a lane every 32nd N numbers. A block has ROW_WARPS
 * warps; no shared memory; deterministic. Twin: orb_concat_cpu. */
template <int N> __global__ void __launch_bounds__(WARP *ROW_WARPS) orb_concat_kernel(concat_arrays a)
{
  grid_dependency_wait();
  const int64_t i = own_row(), p = blockIdx.y;
  if (i >= a.n) return;
  const real *part = (p == 0 ? a.part[0] : p == 1 ? a.part[1] : a.part[2]) + i * a.width;
  real *out = a.out + (3 * i + p) * a.width;
  for (int64_t k = (int64_t) threadIdx.x % WARP * N; k < a.width; k += WARP * N)
    store_vector<N>(out + k, load_vector<N>(part + k));
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
  const int64_t i = own_row();
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
  mlff_cuda_launch(backend, "orb_concat_kernel", 1,
                   is_in_vectors(a.width) ? orb_concat_kernel<VECTOR> : orb_concat_kernel<1>,
                   dim3(mlff_cuda_blocks(a.n, ROW_WARPS), 3), WARP * ROW_WARPS, 0, a);
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
