/* linear.cu: y = act(x W^T + b) on the GPU. Twin: cpu/linear.c.
 *
 * Weights are packed as [n_in][n_out], so that neighbouring threads read neighbouring columns.
 */
#include "ops_cuda.h"

#include <cstdlib>

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

typedef struct linear_arrays {
  int64_t n_rows, ldx, ldy, ld_slope, ld_scale;
  const real *x, *weight, *bias, *scale;
  real *y, *slope;
  double alpha;
  int n_in, n_out, act, accumulate;
} linear_arrays;

/* Twin: finish_vector of cpu/linear.c. */
MLFF_DEVICE void finish_value(const linear_arrays &a, real v, int64_t row, int col)
{
  real *y = a.y + row * a.ldy + col;
  if (a.act != MLFF_ACT_NONE) {
    real slope;
    if (a.act == MLFF_ACT_SILU)
      v = mlff_silu(v, real_sigmoid(v), &slope);
    else
      v = mlff_celu(v < 0 ? (real) 0 : v, v > 0 ? (real) 1 : real_exp(v / (real) a.alpha), (real) a.alpha, &slope);
    if (a.slope) a.slope[row * a.ld_slope + col] = slope;
  } else if (a.scale) {
    v *= a.scale[row * a.ld_scale + col];
  }
  if (a.accumulate) v += *y;
  *y = v;
}

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

/* y[i][o] = act(b[o] + sum_k x[i][k] w[k][o]) (+ y[i][o]), slope[i][o] = act', or y[i][o] = (...) scale[i][o].
 *   x [n_rows][ldx], w [n_in][n_out], b [n_out], y slope scale [n_rows][ld]
 * Grid: x over tiles of TILE_COLS columns, y over tiles of TILE_ROWS rows. A block owns one tile of y and walks
 * through k in steps of TILE_DEPTH, whose parts of x and w it keeps in shared memory (TILE_DEPTH (TILE_ROWS + 1 +
 * TILE_COLS) reals). A thread owns THREAD_ROWS x THREAD_COLS values, summed over k in order: deterministic.
 * Twin: linear_cpu. */
__global__ void __launch_bounds__(LINEAR_THREADS) linear_kernel(linear_arrays a)
{
  MLFF_SHARED(real, x_tile, TILE_DEPTH * (TILE_ROWS + 1)); /* [k][row], a column of padding against bank conflicts */
  MLFF_SHARED(real, w_tile, TILE_DEPTH * TILE_COLS);       /* [k][col] */
  const int t = (int) threadIdx.x, col0 = (int) blockIdx.x * TILE_COLS;
  const int64_t row0 = (int64_t) blockIdx.y * TILE_ROWS;
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
    for (int q = t; q < TILE_ROWS * TILE_DEPTH; q += LINEAR_THREADS) {
      const int k = q % TILE_DEPTH, r = q / TILE_DEPTH;
      const bool inside = k0 + k < a.n_in && row0 + r < a.n_rows;
      x_tile[k * (TILE_ROWS + 1) + r] = inside ? a.x[(row0 + r) * a.ldx + k0 + k] : (real) 0;
    }
    for (int q = t; q < TILE_COLS * TILE_DEPTH; q += LINEAR_THREADS) {
      const int c = q % TILE_COLS, k = q / TILE_COLS;
      const bool inside = k0 + k < a.n_in && col0 + c < a.n_out;
      w_tile[k * TILE_COLS + c] = inside ? a.weight[(int64_t) (k0 + k) * a.n_out + col0 + c] : (real) 0;
    }
    __syncthreads();
    if (has_rows) add_products(x_tile + my_row, w_tile + my_col, sum);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
    for (int c = 0; c < THREAD_COLS; c++) {
      const int col = col0 + my_col + c * (TILE_COLS / THREAD_COLS);
      if (col < a.n_out && row0 + my_row + r < a.n_rows) finish_value(a, sum[r][c], row0 + my_row + r, col);
    }
}

} // namespace

void MLFF_CUDA(linear_cuda)(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  enum { MOST_TILES = 65535 }; /* in y of a grid: more rows take more launches */
  for (int64_t row = 0; row < args->n_rows; row += (int64_t) MOST_TILES * TILE_ROWS) {
    const int64_t left = args->n_rows - row, most = (int64_t) MOST_TILES * TILE_ROWS;
    linear_arrays a;
    memset(&a, 0, sizeof a);
    a.n_rows = left < most ? left : most;
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
    const dim3 grid(mlff_cuda_blocks(a.n_out, TILE_COLS), mlff_cuda_blocks(a.n_rows, TILE_ROWS));
    MLFF_LAUNCH(backend, linear_kernel, grid, LINEAR_THREADS, 0, a);
  }
}
