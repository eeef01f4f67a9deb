/* linear.cu: y = act(x W^T + b) on the GPU, one GEMM or a batch of them. Twin: cpu/linear.c.
 *
 * Weights are packed as [padded_rows(n_in)][n_out]: adjacent threads read adjacent columns. `precision mixed` uses
 * tensor cores (linear_mixed.h).
 */
#include "linear_mixed.h"
#include "linear_tile.h"

#include <cstdlib>

/* A thread computes LARGE x LARGE values of a tile of y, or SMALL x SMALL when large tiles are fewer than BLOCKS_PER_SM
 * per multiprocessor and would leave some idle. */
enum { LARGE = 8, SMALL = 4, SIDE = 8, LINEAR_THREADS = SIDE * SIDE, LINEAR_DEPTH = 16, BLOCKS_PER_SM = 2 };

/* Packs and uploads the weights, with n_bytes of room after them. */
static mlff_status pack_weights(mlff_backend *backend, mlff_linear *linear, const double *weight, const double *bias,
                                int n_out, int n_in, int transpose, size_t n_bytes, mlff_error *error)
{
  const int rows = transpose ? n_out : n_in, cols = transpose ? n_in : n_out; /* x[rows] -> y[cols] */
  const size_t n = (size_t) n_weights(rows, cols);
  MLFF_TRY(mlff_buf_reserve(backend, &linear->packed, n * sizeof(real) + n_bytes, error));
  MLFF_TRY(mlff_buf_reserve(backend, &linear->bias, (size_t) cols * sizeof(real), error));
  linear->n_in = rows;
  linear->n_out = cols;
  double *packed = (double *) calloc(n + (size_t) cols, sizeof *packed);
  if (!packed) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a matrix of %d x %d", rows, cols);
  for (int k = 0; k < rows; k++)
    for (int c = 0; c < cols; c++)
      packed[(size_t) k * (size_t) cols + (size_t) c] =
          transpose ? weight[(size_t) k * (size_t) n_in + (size_t) c] : weight[(size_t) c * (size_t) n_in + (size_t) k];
  for (int c = 0; c < cols; c++) packed[n + (size_t) c] = bias ? bias[c] : 0.0;
  mlff_status status = backend->ops->upload_reals(backend, linear->packed.data, packed, (int64_t) n, error);
  if (!status) status = backend->ops->upload_reals(backend, linear->bias.data, packed + n, cols, error);
  free(packed);
  return status;
}

mlff_status MLFF_CUDA(linear_pack_cuda)(mlff_backend *backend, mlff_linear *linear, const double *weight,
                                        const double *bias, int n_out, int n_in, int transpose, mlff_error *error)
{
  return pack_weights(backend, linear, weight, bias, n_out, n_in, transpose, 0, error);
}

namespace { /* kernels and their arguments differ between element types */

enum { VECTOR = 4, CHUNK = 16 / sizeof(real) }; /* values per load, and per asynchronous copy */

/* Double-buffered tiles x [TILE][X_LD] and w [LINEAR_DEPTH][TILE]. Rows from n_rows on are copies of the last row,
 * whose results are not stored. */
template <int N> struct linear_tiles {
  enum { TILE = SIDE * N, X_LD = LINEAR_DEPTH + VECTOR, X_TILE = TILE * X_LD, W_TILE = LINEAR_DEPTH * TILE };
  enum { X_ROWS = LINEAR_THREADS * CHUNK / LINEAR_DEPTH, W_ROWS = LINEAR_THREADS * CHUNK / TILE };
  enum { CHUNKS = TILE / X_ROWS };
  static_assert(CHUNKS * W_ROWS == LINEAR_DEPTH && W_ROWS * TILE == LINEAR_THREADS * CHUNK, "whole rows at a time");
  const linear_arrays &a;
  real *shared; /* [2][X_TILE], [2][W_TILE] */
  int64_t row0;
  int col0, in_vectors, x_row, x_k, w_row, w_col; /* rows and columns of the thread's first chunk */
  int x_offset[CHUNKS];

  __device__ __forceinline__ linear_tiles(const linear_arrays &arrays, real *memory)
      : a(arrays), shared(memory), row0((int64_t) blockIdx.y * TILE), col0((int) blockIdx.x * TILE)
  {
    const int first = (int) threadIdx.x * CHUNK;
    in_vectors = a.x_in_vectors && a.n_out % VECTOR == 0;
    x_row = first / LINEAR_DEPTH;
    x_k = first % LINEAR_DEPTH;
    w_row = first / TILE;
    w_col = first % TILE;
#pragma unroll
    for (int q = 0; q < CHUNKS; q++) {
      const int64_t row = x_row + q * X_ROWS, last = a.n_rows - 1 - row0;
      x_offset[q] = (int) (row < last ? row : last) * (int) a.ldx;
    }
  }

  __device__ __forceinline__ real *x_tile(int k0) const
  {
    return shared + k0 / LINEAR_DEPTH % 2 * X_TILE;
  }
  __device__ __forceinline__ real *w_tile(int k0) const
  {
    return shared + 2 * X_TILE + k0 / LINEAR_DEPTH % 2 * W_TILE;
  }

  __device__ __forceinline__ void copy_vectors(int k0) const
  {
    real *tile_x = x_tile(k0) + x_row * X_LD + x_k, *tile_w = w_tile(k0) + w_row * TILE + w_col;
    const int k = k0 + x_k, col = col0 + w_col;
    const real *x = a.x + row0 * a.ldx + (k < a.n_in ? k : 0); /* weights from n_in on are 0 */
    const real *w = a.weight + (int64_t) (k0 + w_row) * a.n_out + (col < a.n_out ? col : 0);
#pragma unroll
    for (int q = 0; q < CHUNKS; q++) {
      copy_async<CHUNK>(tile_x + q * X_ROWS * X_LD, x + x_offset[q]);
      copy_async<CHUNK>(tile_w + q * W_ROWS * TILE, w + (int64_t) (q * W_ROWS) * a.n_out);
    }
  }

  __device__ __forceinline__ void copy_values(int k0) const
  {
#pragma unroll 1
    for (int q = (int) threadIdx.x; q < TILE * LINEAR_DEPTH; q += LINEAR_THREADS) {
      const int64_t row = row0 + q / LINEAR_DEPTH;
      const int k = k0 + q % LINEAR_DEPTH, col = col0 + q % TILE;
      x_tile(k0)[q / LINEAR_DEPTH * X_LD + q % LINEAR_DEPTH] =
          row < a.n_rows && k < a.n_in ? a.x[row * a.ldx + k] : (real) 0;
      w_tile(k0)[q] = col < a.n_out ? a.weight[(int64_t) (k0 + q / TILE) * a.n_out + col] : (real) 0;
    }
  }

  __device__ __forceinline__ void start(int k0) const
  {
    if (k0 < a.n_in && in_vectors)
      copy_vectors(k0);
    else if (k0 < a.n_in)
      copy_values(k0);
    __pipeline_commit();
  }

  /* Waits for the tiles of k0 and starts the copy of the next ones. */
  __device__ __forceinline__ void wait_tile(int k0) const
  {
    __pipeline_wait_prior(0);
    __syncthreads();
    start(k0 + LINEAR_DEPTH);
  }
};

/* y[i][o] = act(b[o] + sum_k x[i][k] w[k][o]) (+ y[i][o]), slope[i][o] = act', or y[i][o] = (...) scale[i][o]; with
 * CELU, scale is its value, from which the slope is made.
 *   x [n_rows][ldx], w [n_in][n_out], b [n_out], y slope scale [n_rows][ld]
 * Grid: x over tiles of SIDE N columns, y over tiles of as many rows, z over the GEMMs. A block owns one tile of y and
 * walks through k in steps of LINEAR_DEPTH, whose tiles of x and w are copied asynchronously one step ahead. A thread
 * owns N x N values: every fourth row of half a tile, and columns in vectors of four, SIDE vectors apart. Adjacent
 * lanes share columns, the next ones rows, so that half a warp is served by one access. Summed over k in order:
 * deterministic. Twin: linear_cpu. */
template <int ACT, int N, int N_GEMMS>
__global__ void __launch_bounds__(LINEAR_THREADS, 1) linear_kernel(linear_batch<N_GEMMS> batch)
{
  grid_dependency_wait();
  typedef linear_tiles<N> sizes;
  typedef vector_of<VECTOR> vector;
  enum { TILE = sizes::TILE, N_VECTORS = N / VECTOR, ROW_STEP = 4, PAD = 8 };
  enum { SIZE = 2 * (sizes::X_TILE + sizes::W_TILE) };
  static_assert(SIZE >= TILE * (TILE + PAD), "accumulators reuse the memory of x and w");
  MLFF_SHARED(vector, vectors, SIZE / VECTOR);
  real *const shared = (real *) (void *) vectors;
  const linear_arrays &a = batch.gemms[N_GEMMS == 1 ? 0 : blockIdx.z];
  if ((int64_t) blockIdx.y * TILE >= a.n_rows || (int) blockIdx.x * TILE >= a.n_out) return;
  const sizes tiles(a, shared);
  const int lane = (int) threadIdx.x % WARP, half = (int) threadIdx.x / WARP * (TILE / 2);
  const int my_row = half + lane / 16 * 2 + lane % 2, my_col = lane / 2 % SIDE * VECTOR;
  const bool has_rows = tiles.row0 + half < a.n_rows;
  real sum[N][N];
#pragma unroll
  for (int c = 0; c < N; c++) {
    const int col = tiles.col0 + my_col + c / VECTOR * (SIDE * VECTOR) + c % VECTOR;
    const real first = col < a.n_out ? a.bias[col] : (real) 0;
#pragma unroll
    for (int r = 0; r < N; r++) sum[r][c] = first;
  }
  tiles.start(0);
  for (int k0 = 0; k0 < a.n_in; k0 += LINEAR_DEPTH) {
    tiles.wait_tile(k0);
    if (!has_rows) continue;
    const real *x_tile = tiles.x_tile(k0) + my_row * sizes::X_LD, *w_tile = tiles.w_tile(k0) + my_col;
#pragma unroll
    for (int k = 0; k < LINEAR_DEPTH; k += VECTOR) {
      vector x[N], w[N_VECTORS];
#pragma unroll
      for (int r = 0; r < N; r++) x[r] = load_vector<VECTOR>(x_tile + r * ROW_STEP * sizes::X_LD + k);
#pragma unroll
      for (int q = 0; q < VECTOR; q++) {
#pragma unroll
        for (int v = 0; v < N_VECTORS; v++) w[v] = load_vector<VECTOR>(w_tile + (k + q) * TILE + v * (SIDE * VECTOR));
#pragma unroll
        for (int r = 0; r < N; r++)
#pragma unroll
          for (int c = 0; c < N; c++) sum[r][c] += x[r].v[q] * w[c / VECTOR].v[c % VECTOR];
      }
    }
  }
  __syncthreads(); /* x and w are no longer read */
#pragma unroll
  for (int r = 0; r < N; r++)
#pragma unroll
    for (int c = 0; c < N_VECTORS; c++) {
      vector v;
#pragma unroll
      for (int q = 0; q < VECTOR; q++) v.v[q] = sum[r][c * VECTOR + q];
      store_vector<VECTOR>(shared + (my_row + r * ROW_STEP) * (TILE + PAD) + my_col + c * (SIDE * VECTOR), v);
    }
  epilogue<ACT, TILE, TILE, PAD, LINEAR_THREADS>(a, tiles.row0, tiles.col0, shared);
}

} // namespace

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* A kernel and its sizes, for one GEMM and for a batch, by activation. */
typedef struct linear_kernels {
  const char *name;
  int rows, cols, n_threads, shared; /* of a tile of y; threads and bytes of dynamic shared memory of a block */
  void (*one[4])(linear_batch<1>);
  void (*many[4])(linear_batch<MOST_GEMMS>);
} linear_kernels;

/* Instances of a kernel; kernel<ACT, N_GEMMS>() is one of them. */
template <int N> struct plain_instances {
  template <int ACT, int N_GEMMS> static constexpr auto kernel() { return linear_kernel<ACT, N, N_GEMMS>; }
};

template <typename T>
static constexpr linear_kernels table_of(const char *name, int rows, int cols, int n_threads, int shared)
{
  return {name,
          rows,
          cols,
          n_threads,
          shared,
          {T::template kernel<MLFF_ACT_NONE, 1>(), T::template kernel<MLFF_ACT_SILU, 1>(),
           T::template kernel<MLFF_ACT_CELU, 1>(), T::template kernel<MLFF_ACT_SSP, 1>()},
          {T::template kernel<MLFF_ACT_NONE, MOST_GEMMS>(), T::template kernel<MLFF_ACT_SILU, MOST_GEMMS>(),
           T::template kernel<MLFF_ACT_CELU, MOST_GEMMS>(), T::template kernel<MLFF_ACT_SSP, MOST_GEMMS>()}};
}

template <int N> static constexpr linear_kernels plain_table()
{
  return table_of<plain_instances<N>>("linear_kernel", SIDE * N, SIDE * N, LINEAR_THREADS, 0);
}

static const linear_kernels large_tiles = plain_table<LARGE>(), small_tiles = plain_table<SMALL>();

#if !MLFF_REAL_IS_DOUBLE
template <int ROWS, int COLS> struct mixed_instances {
  template <int ACT, int N_GEMMS> static constexpr auto kernel()
  {
    return linear_mixed_kernel<ACT, ROWS, COLS, N_GEMMS>;
  }
};

template <int ROWS, int COLS> static constexpr linear_kernels mixed_table()
{
  typedef mixed_sizes<ROWS, COLS> sizes;
  return table_of<mixed_instances<ROWS, COLS>>("linear_mixed_kernel", ROWS, COLS, sizes::THREADS, sizes::BYTES);
}

/* The largest tiles first. */
static const linear_kernels mixed_kernels[] = {mixed_table<128, 128>(), mixed_table<128, 64>(), mixed_table<64, 64>(),
                                               mixed_table<32, 64>()};
enum { N_MIXED = sizeof mixed_kernels / sizeof *mixed_kernels };
#endif

enum { MOST_TILES = 65535 }; /* in y of a grid: more rows take more launches */

/* Tiles of all GEMMs. */
static int64_t n_tiles(const linear_kernels &kernels, int n, const mlff_linear *const *linears,
                       const mlff_linear_args *args)
{
  int64_t n_all = 0;
  for (int k = 0; k < n; k++)
    n_all += mlff_cuda_blocks(linears[k]->n_out, kernels.cols) * mlff_cuda_blocks(args[k].n_rows, kernels.rows);
  return n_all;
}

static const linear_kernels &fitting(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                     const mlff_linear_args *args)
{
  const int64_t enough = (int64_t) BLOCKS_PER_SM * mlff_cuda_of(backend)->n_multiprocessors;
  return n_tiles(large_tiles, n, linears, args) >= enough ? large_tiles : small_tiles;
}

#if !MLFF_REAL_IS_DOUBLE
/* Whether the padded weights are whole tiles of this kernel and a block can have its shared memory. */
static bool can_run(const mlff_cuda_backend *cuda, const linear_kernels &kernels, int n,
                    const mlff_linear *const *linears)
{
  bool are_whole = true;
  for (int k = 0; k < n; k++) are_whole = are_whole && padded_cols(linears[k]->n_out) % kernels.cols == 0;
  return are_whole && kernels.shared <= cuda->most_shared_mixed;
}

/* The kernel with the least work on the most loaded multiprocessor. The work of a tile is its accumulators, and the
 * loads of its rows and columns from the L2 cache, each of which costs about L2_COST accumulators. */
static const linear_kernels &fitting_mixed(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                           const mlff_linear_args *args)
{
  enum { L2_COST = 16 };
  const mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  int64_t least = INT64_MAX;
  int best = N_MIXED - 1;
  for (int which = 0; which < N_MIXED; which++) {
    const linear_kernels &kernels = mixed_kernels[which];
    const int64_t most = (n_tiles(kernels, n, linears, args) + cuda->n_multiprocessors - 1) / cuda->n_multiprocessors;
    const int64_t work = most * (kernels.rows * kernels.cols + L2_COST * (kernels.rows + kernels.cols));
    if (work >= least || !can_run(cuda, kernels, n, linears)) continue;
    least = work;
    best = which;
  }
  return mixed_kernels[best];
}
#endif

/* Whether rows allow aligned loads of four values. */
static int is_in_vectors(const void *x, int64_t ld)
{
  return (uintptr_t) x % alignof(vector_of<4>) == 0 && (!x || ld % 4 == 0);
}

/* Rows row .. row + n of a GEMM. */
static linear_arrays arrays_of(const mlff_linear *linear, const mlff_linear_args *args, int64_t row, int64_t n)
{
  linear_arrays a;
  memset(&a, 0, sizeof a);
  a.n_rows = n;
  a.x = (const real *) args->x + row * args->ldx;
  a.ldx = args->ldx;
  a.y = (real *) args->y + row * args->ldy;
  a.ldy = args->ldy;
  a.slope = args->slope ? (real *) args->slope + row * args->ld_slope : NULL;
  a.ld_slope = args->ld_slope;
  a.scale = args->scale ? (const real *) args->scale + row * args->ld_scale : NULL;
  a.ld_scale = args->ld_scale;
  a.weight = (const real *) linear->packed.data;
  a.bias = (const real *) linear->bias.data;
  a.alpha = args->alpha;
  a.n_in = linear->n_in;
  a.n_out = linear->n_out;
  a.act = (int) args->act;
  a.accumulate = args->accumulate;
  a.x_in_vectors = is_in_vectors(a.x, a.ldx) && a.n_in % 4 == 0;
  a.y_in_vectors =
      is_in_vectors(a.y, a.ldy) && is_in_vectors(a.slope, a.ld_slope) && is_in_vectors(a.scale, a.ld_scale);
  return a;
}

static void launch_one(mlff_backend *backend, const linear_kernels &kernels, const mlff_linear *linear,
                       const mlff_linear_args *args)
{
  const int64_t most_rows = (int64_t) MOST_TILES * kernels.rows;
  for (int64_t row = 0; row < args->n_rows; row += most_rows) {
    const int64_t n = args->n_rows - row < most_rows ? args->n_rows - row : most_rows;
    const linear_batch<1> batch = {{arrays_of(linear, args, row, n)}};
    const dim3 grid(mlff_cuda_blocks(linear->n_out, kernels.cols), mlff_cuda_blocks(n, kernels.rows));
    mlff_cuda_launch(backend, kernels.name, 0, kernels.one[args->act], grid, kernels.n_threads, kernels.shared, batch);
  }
}

static void launch_many(mlff_backend *backend, const linear_kernels &kernels, int n, const mlff_linear *const *linears,
                        const mlff_linear_args *args)
{
  if (n == 1) {
    launch_one(backend, kernels, linears[0], args);
    return;
  }
  for (int begin = 0; begin < n; begin += MOST_GEMMS) {
    linear_batch<MOST_GEMMS> batch;
    dim3 grid(0, 0, 0);
    memset(&batch, 0, sizeof batch);
    for (int k = begin; k < n && k < begin + MOST_GEMMS; k++) {
      if (args[k].n_rows > (int64_t) MOST_TILES * kernels.rows || args[k].act != args[begin].act) {
        launch_one(backend, kernels, linears[k], &args[k]);
        continue;
      }
      const unsigned x = mlff_cuda_blocks(linears[k]->n_out, kernels.cols),
                     y = mlff_cuda_blocks(args[k].n_rows, kernels.rows);
      batch.gemms[grid.z++] = arrays_of(linears[k], &args[k], 0, args[k].n_rows);
      grid.x = x > grid.x ? x : grid.x;
      grid.y = y > grid.y ? y : grid.y;
    }
    if (grid.z)
      mlff_cuda_launch(backend, kernels.name, 0, kernels.many[args[begin].act], grid, kernels.n_threads, kernels.shared,
                       batch);
  }
}

/* True: deferred, as a GEMM with up to three rows for each atom. */
static bool defer(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  atom_step step;
  if (args->act == MLFF_ACT_SSP || (args->act != MLFF_ACT_NONE && args->scale)) return false;
  memset(&step, 0, sizeof step);
  step.kind = STEP_LINEAR;
  step.args.linear = arrays_of(linear, args, 0, args->n_rows);
  return MLFF_CUDA(defer)(backend, &step, args->n_rows, 3);
}

void MLFF_CUDA(linear_cuda)(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  if (!defer(backend, linear, args)) launch_one(backend, fitting(backend, 1, &linear, args), linear, args);
}

void MLFF_CUDA(linear_many_cuda)(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                 const mlff_linear_args *args)
{
  launch_many(backend, fitting(backend, n, linears, args), n, linears, args);
}

#if !MLFF_REAL_IS_DOUBLE
static mlff_status ask_for_shared_memory(mlff_backend *backend, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (cuda->most_shared_mixed) return MLFF_OK;
  cudaError_t failed = cudaSuccess;
  for (int which = 0; which < N_MIXED && failed == cudaSuccess; which++) {
    const linear_kernels &k = mixed_kernels[which];
    failed = mlff_cuda_opt_in_shared(cuda, &cuda->most_shared_mixed, k.one[0], k.one[1], k.one[2], k.one[3], k.many[0],
                                     k.many[1], k.many[2], k.many[3]);
  }
  return mlff_cuda_check(cuda, failed, "shared memory of linear_mixed_kernel", error);
}

static mlff_status linear_pack_mixed_cuda(mlff_backend *backend, mlff_linear *linear, const double *weight,
                                          const double *bias, int n_out, int n_in, int transpose, mlff_error *error)
{
  split_arrays a;
  MLFF_TRY(ask_for_shared_memory(backend, error));
  memset(&a, 0, sizeof a);
  a.n_in = transpose ? n_out : n_in;
  a.n_out = transpose ? n_in : n_out;
  a.n_pieces = (int64_t) padded_rows(a.n_in) / PIECE * padded_cols(a.n_out);
  const size_t n_bytes = (size_t) a.n_pieces * sizeof(tensor_piece);
  MLFF_TRY(pack_weights(backend, linear, weight, bias, n_out, n_in, transpose, n_bytes, error));
  a.weight = (real *) linear->packed.data;
  MLFF_LAUNCH_INDEPENDENT(backend, linear_split_kernel, mlff_cuda_blocks(a.n_pieces, SPLIT_THREADS), SPLIT_THREADS, a);
  return MLFF_OK;
}

static void linear_mixed_cuda(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  if (!defer(backend, linear, args)) launch_one(backend, fitting_mixed(backend, 1, &linear, args), linear, args);
}

static void linear_many_mixed_cuda(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                   const mlff_linear_args *args)
{
  launch_many(backend, fitting_mixed(backend, n, linears, args), n, linears, args);
}

/* painn_block: atoms whose intermediate arrays exist at the same time. 33,792 are two tiles of 128 rows for each of 132
 * multiprocessors, 5 % faster than 24,576 (PaiNN 128/3, 98,304 atoms, H200, 2026-11-28). */
void mlff_cuda_ops_mixed(mlff_ops *ops)
{
  ops->linear_pack = linear_pack_mixed_cuda;
  ops->linear = linear_mixed_cuda;
  ops->linear_many = linear_many_mixed_cuda;
  ops->painn_block = 33792;
}
#endif
