/* linear_mixed.h: the kernel of products on tensor cores, for `precision mixed`, and its weights. */
#ifndef MLFF_CUDA_LINEAR_MIXED_H
#define MLFF_CUDA_LINEAR_MIXED_H

#include "linear_tile.h"
#include "tensor.h"

#if !MLFF_REAL_IS_DOUBLE

/* Columns of a tile of tensor cores, and its rows; with few blocks fewer. */
enum { NARROW = 64, WIDE = 128, MIXED_ROWS = 64, MIXED_FEW = 32, MIXED_THREADS = 128 };

namespace { /* kernels and their arguments differ between element types */

/* Weights of tensor cores lie behind the others: pieces [padded_rows(n_in) / TENSOR_DEPTH][padded_cols(n_out)][PIECES]
 * of columns, zeros behind n_out. */
static __host__ __device__ __forceinline__ int padded_cols(int n_out)
{
  return (n_out + NARROW - 1) / NARROW * NARROW;
}

MLFF_DEVICE const tensor_piece *split_weights(const linear_arrays &a)
{
  return (const tensor_piece *) (const void *) (a.weight + n_weights(a.n_in, a.n_out));
}

typedef struct split_arrays {
  int64_t n_pieces;
  real *weight;
  int n_in, n_out;
} split_arrays;

/* Fills the weights of tensor cores from the others. A thread owns a piece; no shared memory. */
__global__ void __launch_bounds__(MIXED_THREADS) linear_split_kernel(split_arrays a)
{
  const int64_t q = (int64_t) blockIdx.x * MIXED_THREADS + threadIdx.x;
  if (q >= a.n_pieces) return;
  const int col = (int) (q / PIECES % padded_cols(a.n_out));
  const int64_t k0 = q / PIECES / padded_cols(a.n_out) * TENSOR_DEPTH + q % PIECES * PIECE;
  real x[PIECE];
  for (int k = 0; k < PIECE; k++) x[k] = col < a.n_out ? a.weight[(k0 + k) * a.n_out + col] : (real) 0;
  tensor_piece *to = (tensor_piece *) (void *) (a.weight + n_weights(a.n_in, a.n_out));
  to[q] = tensor_split(x);
}

/* Numbers k .. k + PIECE of row `x`. Weights behind n_in are zero: any numbers of the row do there. */
MLFF_DEVICE vector_of<PIECE> load_piece(const linear_arrays &a, const real *x, int k)
{
  if (a.x_in_vectors) return load_vector<PIECE>(x + (k < a.n_in ? k : 0));
  vector_of<PIECE> piece;
#pragma unroll
  for (int q = 0; q < PIECE; q++) piece.of[q] = x[k + q < a.n_in ? k + q : 0];
  return piece;
}

/* Two pairs of tiles, x [LAYERS][HEIGHT / TENSOR_SIZE][2][WARP] words and w [LAYERS][SIZE][PIECES] pieces, of which one
 * is read while the other one is filled: weights by copies, numbers of x through registers, where they are split. Of
 * rows that are not there the last one is taken: their sums are not kept. */
enum { LAYERS = 2, MIXED_STEP = LAYERS * TENSOR_DEPTH };
template <int HEIGHT, int SIZE> struct mixed_tiles {
  enum { X_LAYER = HEIGHT * PIECES, W_LAYER = SIZE * PIECES, X_TILE = LAYERS * X_LAYER, W_TILE = LAYERS * W_LAYER };
  enum { PAIRS = X_LAYER / 2, OWN_PAIRS = LAYERS * PAIRS / MIXED_THREADS }; /* of pieces, rows 8 apart */
  static_assert(OWN_PAIRS * MIXED_THREADS == LAYERS * PAIRS, "whole pairs");
  const linear_arrays &a;
  tensor_words *shared; /* [2][X_TILE], [2][W_TILE] */
  int64_t row0, layer;  /* layer: pieces of TENSOR_DEPTH rows of all weights */
  int col0, my_k;       /* my_k: of the thread's first pair */
  const tensor_piece *w;
  const real *x[2];
  vector_of<PIECE> ahead[OWN_PAIRS][2];

  __device__ __forceinline__ mixed_tiles(const linear_arrays &arrays, tensor_words *memory)
      : a(arrays), shared(memory), row0((int64_t) blockIdx.y * HEIGHT), col0((int) blockIdx.x * SIZE)
  {
    const int t = (int) threadIdx.x, lane = t % WARP;
    layer = (int64_t) padded_cols(a.n_out) * PIECES;
    my_k = t / PAIRS * TENSOR_DEPTH + lane % PIECES * PIECE;
    w = split_weights(a) + col0 * PIECES + t;
    for (int q = 0; q < 2; q++) {
      const int64_t row = row0 + t % PAIRS / WARP * TENSOR_SIZE + q * (TENSOR_SIZE / 2) + lane / PIECES;
      x[q] = a.x + (row < a.n_rows ? row : a.n_rows - 1) * a.ldx;
    }
  }

  __device__ __forceinline__ tensor_words *x_tile(int k0) const { return shared + k0 / MIXED_STEP % 2 * X_TILE; }
  __device__ __forceinline__ tensor_piece *w_tile(int k0) const
  {
    return (tensor_piece *) (void *) (shared + 2 * X_TILE) + k0 / MIXED_STEP % 2 * W_TILE;
  }

  __device__ __forceinline__ void start(int k0)
  {
    tensor_piece *to = w_tile(k0) + threadIdx.x;
#pragma unroll
    for (int d = 0; d < LAYERS; d++)
#pragma unroll
      for (int q = 0; q < W_LAYER; q += MIXED_THREADS)
        __pipeline_memcpy_async(to + d * W_LAYER + q, w + d * layer + q, sizeof *to);
    __pipeline_commit();
    w += LAYERS * layer;
#pragma unroll
    for (int d = 0; d < OWN_PAIRS; d++)
#pragma unroll
      for (int q = 0; q < 2; q++) ahead[d][q] = load_piece(a, x[q], k0 + d * TENSOR_DEPTH + my_k);
  }

  /* Those of k0 are there, and those of k0 + MIXED_STEP on their way. */
  __device__ __forceinline__ void wait(int k0)
  {
    tensor_words *to = x_tile(k0) + threadIdx.x / WARP * 2 * WARP;
#pragma unroll
    for (int d = 0; d < OWN_PAIRS; d++)
      tensor_store_x(to + d * 2 * MIXED_THREADS, tensor_split(ahead[d][0].of), tensor_split(ahead[d][1].of));
    __pipeline_wait_prior(0);
    __syncthreads();
    if (k0 + MIXED_STEP < a.n_in) start(k0 + MIXED_STEP);
  }
};

/* The same on tensor cores; bias, activation and everything behind in float. Grid as in linear_kernel, with tiles of
 * HEIGHT rows and SIZE columns; a warp owns all rows of a quarter of the columns, or half of them of half the columns.
 * Twin: linear_cpu; deterministic. */
template <int ACT, int HEIGHT, int SIZE, int N_PRODUCTS>
__global__ void __launch_bounds__(MIXED_THREADS, SIZE == WIDE ? 2 : 3)
    linear_mixed_kernel(linear_group<N_PRODUCTS> group)
{
  typedef mixed_tiles<HEIGHT, SIZE> tiles_of;
  enum { COLS = 2, ROW_WARPS = SIZE == WIDE ? 1 : 2, ROWS = HEIGHT / TENSOR_SIZE / ROW_WARPS, PAD = 16 };
  enum { WORDS = 2 * (tiles_of::X_TILE + tiles_of::W_TILE) };
  static_assert(COLS * TENSOR_SIZE * 4 == SIZE * ROW_WARPS && 4 * WORDS >= HEIGHT * (SIZE + PAD), "sums fit, too");
  MLFF_SHARED(tensor_words, shared, WORDS);
  const linear_arrays &a = group.of[N_PRODUCTS == 1 ? 0 : blockIdx.z];
  if ((int64_t) blockIdx.y * HEIGHT >= a.n_rows || (int) blockIdx.x * SIZE >= a.n_out) return;
  tiles_of tiles(a, shared);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int my_tile = warp % ROW_WARPS * ROWS, my_col = warp / ROW_WARPS * COLS * TENSOR_SIZE;
  const bool has_rows = tiles.row0 + my_tile * TENSOR_SIZE < a.n_rows; /* of few rows, some warps have none */
  tensor_sum sum[ROWS][COLS];
#pragma unroll
  for (int q = 0; q < ROWS * COLS; q++) tensor_zero(&sum[q / COLS][q % COLS]);
  tiles.start(0);
  for (int k0 = 0; k0 < a.n_in; k0 += MIXED_STEP) {
    tiles.wait(k0);
    if (!has_rows) continue;
    const tensor_words *x_tile = tiles.x_tile(k0) + my_tile * 2 * WARP;
    const tensor_piece *w_tile = tiles.w_tile(k0) + my_col * PIECES;
#pragma unroll
    for (int d = 0; d < LAYERS; d++) {
      tensor_w w[COLS];
      tensor_x part;
#pragma unroll
      for (int c = 0; c < COLS; c++) tensor_load_w(&w[c], w_tile + d * tiles_of::W_LAYER + c * TENSOR_SIZE * PIECES);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        tensor_load_x(&part, x_tile + d * tiles_of::X_LAYER + r * 2 * WARP);
#pragma unroll
        for (int c = 0; c < COLS; c++) tensor_add(&sum[r][c], part, w[c]);
      }
    }
  }
  real *y_tile = (real *) (void *) shared;
  __syncthreads(); /* all have read x and w */
#pragma unroll
  for (int c = 0; c < COLS; c++) {
    const int col = my_col + c * TENSOR_SIZE + lane % 4 * 4;
    real bias[4];
#pragma unroll
    for (int q = 0; q < 4; q++) bias[q] = tiles.col0 + col + q < a.n_out ? a.bias[tiles.col0 + col + q] : (real) 0;
#pragma unroll
    for (int r = 0; r < 2 * ROWS; r++) {
      const int row = my_tile * TENSOR_SIZE + r * (TENSOR_SIZE / 2) + lane / 4;
      vector_of<4> v;
#pragma unroll
      for (int q = 0; q < 4; q++) v.of[q] = bias[q] + tensor_total(sum[r / 2][c], r % 2, q);
      store_vector<4>(y_tile + row * (SIZE + PAD) + col, v);
    }
  }
  finish_tile<ACT, HEIGHT, SIZE, PAD, MIXED_THREADS>(a, tiles.row0, tiles.col0, y_tile);
}

} // namespace

#endif
#endif
