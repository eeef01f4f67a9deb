/* linear.cu: y = act(x W^T + b) on the GPU, one GEMM or a batch of them. Twin: cpu/linear.c.
 *
 * Weights are packed as [padded_rows(n_in)][n_out], so that neighbouring threads read neighbouring columns. With
 * `precision mixed` products go through tensor cores (tensor.h).
 */
#include "atoms.h"
#include "tensor.h"
#include "vectors.h"

#include <cstdlib>

using namespace ATOMS;

/* A thread owns OWN x OWN values of a tile of y, with few blocks FEW x FEW, for more of them. */
enum { OWN = 8, FEW = 4, SIDE = 8, LINEAR_THREADS = SIDE * SIDE, LINEAR_DEPTH = 16 };
enum { MIXED_TILE = 64, MIXED_THREADS = 128, MIXED_DEPTH = 32 }; /* products that tensor cores sum up: MIXED_DEPTH */
enum { BLOCKS_PER_SM = 2 }; /* with fewer blocks of OWN x OWN values multiprocessors would be idle */

mlff_status MLFF_CUDA(linear_pack_cuda)(mlff_backend *backend, mlff_linear *linear, const double *weight,
                                        const double *bias, int n_out, int n_in, int transpose, mlff_error *error)
{
  const int rows = transpose ? n_out : n_in, cols = transpose ? n_in : n_out; /* of the product x[rows] -> y[cols] */
  const size_t n_weights = (size_t) padded_rows(rows) * (size_t) cols;
  MLFF_TRY(mlff_buf_reserve(backend, &linear->packed, n_weights * sizeof(real), error));
  MLFF_TRY(mlff_buf_reserve(backend, &linear->bias, (size_t) cols * sizeof(real), error));
  linear->n_in = rows;
  linear->n_out = cols;
  double *packed = (double *) calloc(n_weights + (size_t) cols, sizeof *packed);
  if (!packed) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a matrix of %d x %d", rows, cols);
  for (int k = 0; k < rows; k++)
    for (int c = 0; c < cols; c++)
      packed[(size_t) k * (size_t) cols + (size_t) c] =
          transpose ? weight[(size_t) k * (size_t) n_in + (size_t) c] : weight[(size_t) c * (size_t) n_in + (size_t) k];
  for (int c = 0; c < cols; c++) packed[n_weights + (size_t) c] = bias ? bias[c] : 0.0;
  mlff_status status = backend->ops->upload_reals(backend, linear->packed.data, packed, (int64_t) n_weights, error);
  if (!status) status = backend->ops->upload_reals(backend, linear->bias.data, packed + n_weights, cols, error);
  free(packed);
  return status;
}

namespace { /* kernels and their arguments differ between element types */

/* The products of one launch. */
enum { MANY = 32 };
template <int N> struct linear_group {
  linear_arrays of[N];
};

/* Starts copying part k0 .. k0 + DEPTH of x and w at (row0, col0) to x_tile [k][X_LD] of TILE rows and w_tile
 * [k][W_LD] of TILE columns; zeros outside. IS_WHOLE: nothing is outside. */
template <int TILE, int DEPTH, int X_LD, int W_LD, int THREADS, int IS_WHOLE>
MLFF_DEVICE void copy_tiles(const linear_arrays &a, int64_t row0, int col0, int k0, real *x_tile, real *w_tile)
{
  enum { SECTOR = 8, ROWS = THREADS / SECTOR, DEPTHS = THREADS / TILE }; /* of x that neighbouring threads read */
  static_assert(ROWS * SECTOR == THREADS && DEPTHS * TILE == THREADS && DEPTH % SECTOR == 0, "whole rows at a time");
  const int t = (int) threadIdx.x, my_k = t % SECTOR, my_row = t / SECTOR, my_col = t % TILE, my_depth = t / TILE;
  const real *x = a.x + (row0 + my_row) * a.ldx + k0 + my_k;
#pragma unroll IS_WHOLE ? TILE : 1
  for (int r = 0; r < TILE; r += ROWS, x += ROWS * a.ldx)
#pragma unroll IS_WHOLE ? DEPTH : 1
    for (int k = 0; k < DEPTH; k += SECTOR) {
      real *to = x_tile + (my_k + k) * X_LD + my_row + r;
      if (IS_WHOLE || (k0 + my_k + k < a.n_in && row0 + my_row + r < a.n_rows))
        copy_ahead<1>(to, x + k);
      else
        *to = 0;
    }
  const real *w = a.weight + (int64_t) (k0 + my_depth) * a.n_out + col0 + my_col;
#pragma unroll IS_WHOLE ? TILE : 1
  for (int k = 0; k < DEPTH; k += DEPTHS, w += DEPTHS * a.n_out) {
    real *to = w_tile + (my_depth + k) * W_LD + my_col;
    if (IS_WHOLE || (k0 + my_depth + k < a.n_in && col0 + my_col < a.n_out))
      copy_ahead<1>(to, w);
    else
      *to = 0;
  }
}

/* Two pairs of tiles: one is read while the other one is filled. */
template <int TILE, int DEPTH, int X_LD, int W_LD, int THREADS> struct linear_tiles {
  const linear_arrays &a;
  int64_t row0;
  int col0, unused;
  real *x, *w; /* [2][DEPTH][X_LD], [2][DEPTH][W_LD] */

  __device__ __forceinline__ real *x_tile(int k0) const { return x + (k0 / DEPTH) % 2 * (DEPTH * X_LD); }
  __device__ __forceinline__ real *w_tile(int k0) const { return w + (k0 / DEPTH) % 2 * (DEPTH * W_LD); }

  __device__ __forceinline__ void start(int k0) const
  {
    if (row0 + TILE <= a.n_rows && col0 + TILE <= a.n_out && k0 + DEPTH <= a.n_in)
      copy_tiles<TILE, DEPTH, X_LD, W_LD, THREADS, 1>(a, row0, col0, k0, x_tile(k0), w_tile(k0));
    else if (k0 < a.n_in)
      copy_tiles<TILE, DEPTH, X_LD, W_LD, THREADS, 0>(a, row0, col0, k0, x_tile(k0), w_tile(k0));
    __pipeline_commit();
  }

  /* That of k0 is there, and that of k0 + DEPTH on its way. */
  __device__ __forceinline__ void wait(int k0) const
  {
    __pipeline_wait_prior(0);
    __syncthreads();
    start(k0 + DEPTH);
  }
};

/* y[i][o] = act(b[o] + sum_k x[i][k] w[k][o]) (+ y[i][o]), slope[i][o] = act', or y[i][o] = (...) scale[i][o].
 *   x [n_rows][ldx], w [n_in][n_out], b [n_out], y slope scale [n_rows][ld]
 * Grid: x over tiles of SIDE N columns, y over tiles of as many rows, z over the products; blocks outside of the y of
 * theirs do nothing. A block owns one tile of y and walks through k in steps of LINEAR_DEPTH, whose parts of x and w
 * are copied to shared memory one step ahead. A thread owns N x N values: N rows that follow one another, and columns
 * in vectors of four, SIDE vectors apart; summed over k in order: deterministic. Twin: linear_cpu. */
template <int ACT, int N, int N_PRODUCTS>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_kernel(linear_group<N_PRODUCTS> group)
{
  enum { TILE = SIDE * N, X_LD = TILE + 4, VECTOR = 4, N_VECTORS = N / VECTOR };
  typedef vector_of<VECTOR> vector;
  MLFF_SHARED(vector, x_shared, 2 * LINEAR_DEPTH * X_LD / VECTOR);
  MLFF_SHARED(vector, w_shared, 2 * LINEAR_DEPTH * TILE / VECTOR);
  const linear_arrays &a = group.of[N_PRODUCTS == 1 ? 0 : blockIdx.z];
  const int64_t row0 = (int64_t) blockIdx.y * TILE;
  const int col0 = (int) blockIdx.x * TILE;
  if (row0 >= a.n_rows || col0 >= a.n_out) return;
  const linear_tiles<TILE, LINEAR_DEPTH, X_LD, TILE, LINEAR_THREADS> tiles = {a, row0,           col0,
                                                                              0, x_shared[0].of, w_shared[0].of};
  const int my_col = (int) threadIdx.x % SIDE * VECTOR, my_row = (int) threadIdx.x / SIDE * N;
  const bool has_rows = row0 + my_row < a.n_rows; /* of few rows, some warps have none */
  real sum[N][N];
#pragma unroll
  for (int c = 0; c < N; c++) {
    const int col = col0 + my_col + c / VECTOR * (SIDE * VECTOR) + c % VECTOR;
    const real start = col < a.n_out ? a.bias[col] : (real) 0;
#pragma unroll
    for (int r = 0; r < N; r++) sum[r][c] = start;
  }
  tiles.start(0);
  for (int k0 = 0; k0 < a.n_in; k0 += LINEAR_DEPTH) {
    tiles.wait(k0);
    if (!has_rows) continue;
    const real *x_tile = tiles.x_tile(k0) + my_row, *w_tile = tiles.w_tile(k0) + my_col;
#pragma unroll
    for (int k = 0; k < LINEAR_DEPTH; k++) {
      vector x[N_VECTORS], w[N_VECTORS];
#pragma unroll
      for (int v = 0; v < N_VECTORS; v++) {
        x[v] = load_vector<VECTOR>(x_tile + k * X_LD + v * VECTOR);
        w[v] = load_vector<VECTOR>(w_tile + k * TILE + v * (SIDE * VECTOR));
      }
#pragma unroll
      for (int r = 0; r < N; r++)
#pragma unroll
        for (int c = 0; c < N; c++) sum[r][c] += x[r / VECTOR].of[r % VECTOR] * w[c / VECTOR].of[c % VECTOR];
    }
  }
#pragma unroll
  for (int r = 0; r < N; r++)
#pragma unroll
    for (int c = 0; c < N; c++) {
      const int col = col0 + my_col + c / VECTOR * (SIDE * VECTOR) + c % VECTOR;
      if (col < a.n_out && row0 + my_row + r < a.n_rows) finish_value<ACT>(a, sum[r][c], row0 + my_row + r, col);
    }
}

#if !MLFF_REAL_IS_DOUBLE
/* The same on tensor cores, x and w being sums of two numbers of TF32; bias, activation and everything behind in float.
 * Grid as in linear_kernel, with tiles of MIXED_TILE; a warp owns a quarter of the tile as 2 x 2 sums of 16 x 16. The
 * tile of y goes through the memory of the others from the sums to the threads. Twin: linear_cpu; deterministic. */
template <int ACT, int N_PRODUCTS>
__global__ void __launch_bounds__(MIXED_THREADS) linear_mixed_kernel(linear_group<N_PRODUCTS> group)
{
  enum { LD = MIXED_TILE + 8, TILES = 2 * MIXED_DEPTH * LD, HALF = MIXED_TILE / 2 };
  static_assert(2 * TILES >= MIXED_TILE * LD && HALF == 2 * TENSOR_SIZE && MIXED_DEPTH % TENSOR_DEPTH == 0, "fits");
  MLFF_SHARED(float, shared, 2 * TILES);
  const linear_arrays &a = group.of[N_PRODUCTS == 1 ? 0 : blockIdx.z];
  const int64_t row0 = (int64_t) blockIdx.y * MIXED_TILE;
  const int col0 = (int) blockIdx.x * MIXED_TILE, warp = (int) threadIdx.x / WARP;
  if (row0 >= a.n_rows || col0 >= a.n_out) return;
  const linear_tiles<MIXED_TILE, MIXED_DEPTH, LD, LD, MIXED_THREADS> tiles = {a, row0, col0, 0, shared, shared + TILES};
  const int my_row = warp / 2 * HALF, my_col = warp % 2 * HALF;
  const bool has_rows = row0 + my_row < a.n_rows, has_more = row0 + my_row + TENSOR_SIZE < a.n_rows;
  tensor_sum sum[2][2], part[2][2];
  for (int q = 0; q < 4; q++) {
    tensor_zero(&sum[q / 2][q % 2]);
    tensor_zero(&part[q / 2][q % 2]);
  }
  tiles.start(0);
  for (int k0 = 0; k0 < a.n_in; k0 += MIXED_DEPTH) {
    tiles.wait(k0);
    const float *x_tile = tiles.x_tile(k0) + my_row, *w_tile = tiles.w_tile(k0) + my_col;
#pragma unroll
    for (int k = 0; has_rows && k < MIXED_DEPTH; k += TENSOR_DEPTH) {
      tensor_part w[2];
      for (int c = 0; c < 2; c++) tensor_load_w(&w[c], w_tile + k * LD + c * TENSOR_SIZE, LD);
#pragma unroll
      for (int r = 0; r < 2; r++) {
        if (r > 0 && !has_more) continue;
        tensor_part x;
        tensor_load_x(&x, x_tile + k * LD + r * TENSOR_SIZE, LD);
        for (int c = 0; c < 2; c++) tensor_add(&part[r][c], x, w[c]);
      }
    }
#pragma unroll
    for (int q = 0; q < 4; q++) tensor_gather(&sum[q / 2][q % 2], &part[q / 2][q % 2]);
  }
  __syncthreads(); /* all have read the tiles */
  for (int q = 0; q < 4; q++)
    tensor_store(&sum[q / 2][q % 2], shared + (my_row + q / 2 * TENSOR_SIZE) * LD + my_col + q % 2 * TENSOR_SIZE, LD);
  __syncthreads();
  for (int q = (int) threadIdx.x; q < MIXED_TILE * MIXED_TILE; q += MIXED_THREADS) {
    const int r = q / MIXED_TILE, c = q % MIXED_TILE;
    if (col0 + c < a.n_out && row0 + r < a.n_rows)
      finish_value<ACT>(a, a.bias[col0 + c] + shared[r * LD + c], row0 + r, col0 + c);
  }
}
#endif

} // namespace

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* Kernels for one product and for many, by activation. */
typedef struct linear_kernels {
  const char *name;
  int tile, n_threads;
  void (*one[4])(linear_group<1>);
  void (*many[4])(linear_group<MANY>);
} linear_kernels;

#define LINEAR_KERNELS(kernel, tile, n_threads, ...)                                                                   \
  {                                                                                                                    \
#kernel, tile, n_threads,                                                                                          \
        {kernel < MLFF_ACT_NONE, ##__VA_ARGS__, 1>, kernel < MLFF_ACT_SILU, ##__VA_ARGS__, 1>, kernel < MLFF_ACT_CELU, \
         ##__VA_ARGS__, 1>, kernel < MLFF_ACT_SSP, ##__VA_ARGS__, 1> },                                                \
    {                                                                                                                  \
      kernel<MLFF_ACT_NONE, ##__VA_ARGS__, MANY>, kernel<MLFF_ACT_SILU, ##__VA_ARGS__, MANY>,                          \
          kernel<MLFF_ACT_CELU, ##__VA_ARGS__, MANY>, kernel<MLFF_ACT_SSP, ##__VA_ARGS__, MANY>                        \
    }                                                                                                                  \
  }
static const linear_kernels plain = LINEAR_KERNELS(linear_kernel, SIDE *OWN, LINEAR_THREADS, OWN);
static const linear_kernels narrow = LINEAR_KERNELS(linear_kernel, SIDE *FEW, LINEAR_THREADS, FEW);
#if !MLFF_REAL_IS_DOUBLE
static const linear_kernels mixed = LINEAR_KERNELS(linear_mixed_kernel, MIXED_TILE, MIXED_THREADS);
#endif

enum { MOST_TILES = 65535 }; /* in y of a grid: more rows take more launches */

static unsigned n_tiles(const linear_kernels &kernels, const mlff_linear *linear, const mlff_linear_args *args)
{
  return mlff_cuda_blocks(linear->n_out, kernels.tile) * mlff_cuda_blocks(args->n_rows, kernels.tile);
}

/* Those with the larger tiles, if they fill the GPU. */
static const linear_kernels &fitting(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                     const mlff_linear_args *args)
{
  int64_t n_blocks = 0;
  for (int k = 0; k < n; k++) n_blocks += n_tiles(plain, linears[k], &args[k]);
  return n_blocks < (int64_t) BLOCKS_PER_SM * mlff_cuda_of(backend)->n_multiprocessors ? narrow : plain;
}

/* Rows row .. row + n of a product. */
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
  return a;
}

static void start_one(mlff_backend *backend, const linear_kernels &kernels, const mlff_linear *linear,
                      const mlff_linear_args *args)
{
  const int64_t most_rows = (int64_t) MOST_TILES * kernels.tile;
  for (int64_t row = 0; row < args->n_rows; row += most_rows) {
    const int64_t n = args->n_rows - row < most_rows ? args->n_rows - row : most_rows;
    const linear_group<1> group = {{arrays_of(linear, args, row, n)}};
    const dim3 grid(mlff_cuda_blocks(linear->n_out, kernels.tile), mlff_cuda_blocks(n, kernels.tile));
    mlff_cuda_launch(backend, kernels.name, 0, kernels.one[args->act], grid, kernels.n_threads, 0, group);
  }
}

static void start_many(mlff_backend *backend, const linear_kernels &kernels, int n, const mlff_linear *const *linears,
                       const mlff_linear_args *args)
{
  if (n == 1) {
    start_one(backend, kernels, linears[0], args);
    return;
  }
  for (int begin = 0; begin < n; begin += MANY) {
    linear_group<MANY> group;
    dim3 grid(0, 0, 0);
    memset(&group, 0, sizeof group);
    for (int k = begin; k < n && k < begin + MANY; k++) {
      if (args[k].n_rows > (int64_t) MOST_TILES * kernels.tile || args[k].act != args[begin].act) {
        start_one(backend, kernels, linears[k], &args[k]);
        continue;
      }
      const unsigned x = mlff_cuda_blocks(linears[k]->n_out, kernels.tile),
                     y = mlff_cuda_blocks(args[k].n_rows, kernels.tile);
      group.of[grid.z++] = arrays_of(linears[k], &args[k], 0, args[k].n_rows);
      grid.x = x > grid.x ? x : grid.x;
      grid.y = y > grid.y ? y : grid.y;
    }
    if (grid.z)
      mlff_cuda_launch(backend, kernels.name, 0, kernels.many[args[begin].act], grid, kernels.n_threads, 0, group);
  }
}

/* Whether the product (a GEMM) was deferred: its rows are those of atoms, one or some for each. */
static bool put_off(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  atom_step step;
  if (args->act == MLFF_ACT_SSP) return false;
  memset(&step, 0, sizeof step);
  step.kind = STEP_LINEAR;
  step.of.linear = arrays_of(linear, args, 0, args->n_rows);
  return MLFF_CUDA(put_off)(backend, &step, args->n_rows, 3);
}

void MLFF_CUDA(linear_cuda)(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  if (!put_off(backend, linear, args)) start_one(backend, fitting(backend, 1, &linear, args), linear, args);
}

void MLFF_CUDA(linear_many_cuda)(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                 const mlff_linear_args *args)
{
  start_many(backend, fitting(backend, n, linears, args), n, linears, args);
}

#if !MLFF_REAL_IS_DOUBLE
static void linear_mixed_cuda(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  if (!put_off(backend, linear, args)) start_one(backend, mixed, linear, args);
}

static void linear_many_mixed_cuda(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                   const mlff_linear_args *args)
{
  start_many(backend, mixed, n, linears, args);
}

/* Arrays that one step of an atom leaves to the next are those of a block of atoms, also in large systems: more
 * launches, less memory. In float and double, a PaiNN takes all atoms at once. */
void mlff_cuda_ops_mixed(mlff_ops *ops)
{
  ops->linear = linear_mixed_cuda;
  ops->linear_many = linear_many_mixed_cuda;
  ops->painn_block = 16384;
  ops->ani_block = 4096; /* with eight members 2048 atoms, 16384 rows of products */
}
#endif
