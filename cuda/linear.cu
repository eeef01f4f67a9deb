/* linear.cu: y = act(x W^T + b) on the GPU, one GEMM or a batch of them. Twin: cpu/linear.c.
 *
 * Weights are packed as [n_in][n_out], so that neighbouring threads read neighbouring columns. With `precision mixed`
 * products go through tensor cores (tensor.h).
 */
#include "atoms.h"
#include "tensor.h"

#include <cstdlib>

using namespace ATOMS;

enum { TILE_ROWS = 32, TILE_COLS = 64, TILE_DEPTH = 16, THREAD_ROWS = 4, THREAD_COLS = 4 };
enum { LINEAR_THREADS = TILE_ROWS / THREAD_ROWS * (TILE_COLS / THREAD_COLS) };

mlff_status MLFF_CUDA(linear_pack_cuda)(mlff_backend *backend, mlff_linear *linear, const double *weight,
                                        const double *bias, int n_out, int n_in, int transpose, mlff_error *error)
{
  const int rows = transpose ? n_out : n_in, cols = transpose ? n_in : n_out; /* of the product x[rows] -> y[cols] */
  const size_t n_weights = (size_t) rows * (size_t) cols;
  MLFF_TRY(mlff_buf_reserve(backend, &linear->packed, n_weights * sizeof(real), error));
  MLFF_TRY(mlff_buf_reserve(backend, &linear->bias, (size_t) cols * sizeof(real), error));
  linear->n_in = rows;
  linear->n_out = cols;
  double *packed = (double *) malloc((n_weights + (size_t) cols) * sizeof *packed);
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

/* sum[r][c] += sum_k x[k][r] w[k][c] for this thread's rows and columns, from the tiles in shared memory. */
MLFF_DEVICE void add_products(const real *x_tile, const real *w_tile, real sum[THREAD_ROWS][THREAD_COLS])
{
#pragma unroll
  for (int k = 0; k < TILE_DEPTH; k++) {
    real x[THREAD_ROWS], w[THREAD_COLS];
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) x[r] = x_tile[k * (TILE_ROWS + 1) + r];
#pragma unroll
    for (int c = 0; c < THREAD_COLS; c++) w[c] = w_tile[k * TILE_COLS + c * (TILE_COLS / THREAD_COLS)];
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
      for (int c = 0; c < THREAD_COLS; c++) sum[r][c] += x[r] * w[c];
  }
}

/* Part k0 .. k0 + TILE_DEPTH of the tiles of x and w at (row0, col0) to shared memory, zeros outside: x_tile [k][ldx]
 * of TILE_ROWS rows, w_tile [k][ldw] of TILE_COLS columns. */
MLFF_DEVICE void load_tiles(const linear_arrays &a, int64_t row0, int col0, int k0, real *x_tile, int ldx, real *w_tile,
                            int ldw)
{
  for (int q = (int) threadIdx.x; q < TILE_ROWS * TILE_DEPTH; q += LINEAR_THREADS) {
    const int k = q % TILE_DEPTH, r = q / TILE_DEPTH;
    const bool inside = k0 + k < a.n_in && row0 + r < a.n_rows;
    x_tile[k * ldx + r] = inside ? a.x[(row0 + r) * a.ldx + k0 + k] : (real) 0;
  }
  for (int q = (int) threadIdx.x; q < TILE_COLS * TILE_DEPTH; q += LINEAR_THREADS) {
    const int c = q % TILE_COLS, k = q / TILE_COLS;
    const bool inside = k0 + k < a.n_in && col0 + c < a.n_out;
    w_tile[k * ldw + c] = inside ? a.weight[(int64_t) (k0 + k) * a.n_out + col0 + c] : (real) 0;
  }
}

/* y[i][o] = act(b[o] + sum_k x[i][k] w[k][o]) (+ y[i][o]), slope[i][o] = act', or y[i][o] = (...) scale[i][o].
 *   x [n_rows][ldx], w [n_in][n_out], b [n_out], y slope scale [n_rows][ld]
 * Grid: x over tiles of TILE_COLS columns, y over tiles of TILE_ROWS rows, z over the products; blocks outside of the
 * y of theirs do nothing. A block owns one tile of y and walks through k in steps of TILE_DEPTH, whose parts of x and w
 * it keeps in shared memory (TILE_DEPTH (TILE_ROWS + 1 + TILE_COLS) reals). A thread owns THREAD_ROWS x THREAD_COLS
 * values, summed over k in order: deterministic. Twin: linear_cpu. */
template <int N> __global__ void __launch_bounds__(LINEAR_THREADS) linear_kernel(linear_group<N> group)
{
  MLFF_SHARED(real, x_tile, TILE_DEPTH * (TILE_ROWS + 1)); /* [k][row], a column of padding against bank conflicts */
  MLFF_SHARED(real, w_tile, TILE_DEPTH * TILE_COLS);       /* [k][col] */
  const linear_arrays &a = group.of[N == 1 ? 0 : blockIdx.z];
  const int t = (int) threadIdx.x, col0 = (int) blockIdx.x * TILE_COLS;
  const int64_t row0 = (int64_t) blockIdx.y * TILE_ROWS;
  if (row0 >= a.n_rows || col0 >= a.n_out) return;
  const int my_col = t % (TILE_COLS / THREAD_COLS), my_row = t / (TILE_COLS / THREAD_COLS) * THREAD_ROWS;
  const bool has_rows = row0 + my_row < a.n_rows; /* of few atoms, most warps have none */
  real sum[THREAD_ROWS][THREAD_COLS];
#pragma unroll
  for (int c = 0; c < THREAD_COLS; c++) {
    const int col = col0 + my_col + c * (TILE_COLS / THREAD_COLS);
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) sum[r][c] = col < a.n_out ? a.bias[col] : (real) 0;
  }
  for (int k0 = 0; k0 < a.n_in; k0 += TILE_DEPTH) {
    load_tiles(a, row0, col0, k0, x_tile, TILE_ROWS + 1, w_tile, TILE_COLS);
    __syncthreads();
    if (has_rows) add_products(x_tile + my_row, w_tile + my_col, sum);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
    for (int c = 0; c < THREAD_COLS; c++) {
      const int col = col0 + my_col + c * (TILE_COLS / THREAD_COLS);
      if (col < a.n_out && row0 + my_row + r < a.n_rows) finish_value<1>(a, sum[r][c], row0 + my_row + r, col);
    }
}

#if !MLFF_REAL_IS_DOUBLE
enum { X_LD = TILE_ROWS + 4, W_LD = TILE_COLS + 4 };
static_assert(LINEAR_THREADS / WARP * TENSOR_SIZE == TILE_COLS && TILE_ROWS == 2 * TENSOR_SIZE,
              "a warp owns 16 columns");
static_assert(TILE_DEPTH % TENSOR_DEPTH == 0, "whole steps");

/* The same on tensor cores, x and w being sums of two numbers of TF32; bias, activation and everything behind in float.
 * Grid and tiles as in linear_kernel; a warp owns 16 columns of the tile as two sums of 16 x 16. Shared memory: both
 * tiles, and the tile of y on its way from the sums to the threads. Twin: linear_cpu; deterministic. */
template <int N> __global__ void __launch_bounds__(LINEAR_THREADS) linear_mixed_kernel(linear_group<N> group)
{
  MLFF_SHARED(float4, x_shared, TILE_DEPTH * X_LD / 4);
  MLFF_SHARED(float4, w_shared, TILE_DEPTH * W_LD / 4);
  MLFF_SHARED(float4, y_shared, TILE_ROWS * W_LD / 4);
  float *x_tile = (float *) x_shared, *w_tile = (float *) w_shared, *y_tile = (float *) y_shared;
  const linear_arrays &a = group.of[N == 1 ? 0 : blockIdx.z];
  const int col0 = (int) blockIdx.x * TILE_COLS, my_col = (int) threadIdx.x / WARP * TENSOR_SIZE;
  const int64_t row0 = (int64_t) blockIdx.y * TILE_ROWS;
  if (row0 >= a.n_rows || col0 >= a.n_out) return;
  tensor_sum low, high; /* rows 0-15 and 16-31 */
  tensor_zero(&low);
  tensor_zero(&high);
  for (int k0 = 0; k0 < a.n_in; k0 += TILE_DEPTH) {
    load_tiles(a, row0, col0, k0, x_tile, X_LD, w_tile, W_LD);
    __syncthreads();
    for (int k = 0; k < TILE_DEPTH; k += TENSOR_DEPTH) {
      tensor_add(&low, x_tile + k * X_LD, X_LD, w_tile + k * W_LD + my_col, W_LD);
      if (row0 + TENSOR_SIZE < a.n_rows)
        tensor_add(&high, x_tile + k * X_LD + TENSOR_SIZE, X_LD, w_tile + k * W_LD + my_col, W_LD);
    }
    __syncthreads();
  }
  tensor_store(&low, y_tile + my_col, W_LD);
  tensor_store(&high, y_tile + TENSOR_SIZE * W_LD + my_col, W_LD);
  __syncthreads();
  for (int q = (int) threadIdx.x; q < TILE_ROWS * TILE_COLS; q += LINEAR_THREADS) {
    const int r = q / TILE_COLS, c = q % TILE_COLS;
    if (col0 + c < a.n_out && row0 + r < a.n_rows)
      finish_value<1>(a, a.bias[col0 + c] + y_tile[r * W_LD + c], row0 + r, col0 + c);
  }
}
#endif

} // namespace

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* Kernels for one product and for many. */
typedef struct linear_kernels {
  const char *name;
  void (*one)(linear_group<1>);
  void (*many)(linear_group<MANY>);
} linear_kernels;

enum { MOST_TILES = 65535 }; /* in y of a grid: more rows take more launches */
static const int64_t most_rows = (int64_t) MOST_TILES * TILE_ROWS;

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
  for (int64_t row = 0; row < args->n_rows; row += most_rows) {
    const int64_t n = args->n_rows - row < most_rows ? args->n_rows - row : most_rows;
    const linear_group<1> group = {{arrays_of(linear, args, row, n)}};
    const dim3 grid(mlff_cuda_blocks(linear->n_out, TILE_COLS), mlff_cuda_blocks(n, TILE_ROWS));
    mlff_cuda_launch(backend, kernels.name, 0, kernels.one, grid, LINEAR_THREADS, 0, group);
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
      if (args[k].n_rows > most_rows) {
        start_one(backend, kernels, linears[k], &args[k]);
        continue;
      }
      const unsigned x = mlff_cuda_blocks(linears[k]->n_out, TILE_COLS),
                     y = mlff_cuda_blocks(args[k].n_rows, TILE_ROWS);
      group.of[grid.z++] = arrays_of(linears[k], &args[k], 0, args[k].n_rows);
      grid.x = x > grid.x ? x : grid.x;
      grid.y = y > grid.y ? y : grid.y;
    }
    if (grid.z) mlff_cuda_launch(backend, kernels.name, 0, kernels.many, grid, LINEAR_THREADS, 0, group);
  }
}

static const linear_kernels plain = {"linear_kernel", linear_kernel<1>, linear_kernel<MANY>};

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
  if (!put_off(backend, linear, args)) start_one(backend, plain, linear, args);
}

void MLFF_CUDA(linear_many_cuda)(mlff_backend *backend, int n, const mlff_linear *const *linears,
                                 const mlff_linear_args *args)
{
  start_many(backend, plain, n, linears, args);
}

#if !MLFF_REAL_IS_DOUBLE
static const linear_kernels mixed = {"linear_mixed_kernel", linear_mixed_kernel<1>, linear_mixed_kernel<MANY>};

static void linear_mixed_cuda(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  start_one(backend, mixed, linear, args);
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
