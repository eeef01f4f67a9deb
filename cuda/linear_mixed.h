/* linear_mixed.h: the kernel of products on tensor cores, for `precision mixed`, and its weights. */
#ifndef MLFF_CUDA_LINEAR_MIXED_H
#define MLFF_CUDA_LINEAR_MIXED_H

#include "linear_tile.h"
#include "tensor.h"

#if !MLFF_REAL_IS_DOUBLE

/* Columns of a tile of tensor cores, and its rows; with few blocks fewer. The larger a tile, the less often weights and
 * numbers of x come from the L2 cache, which large tiles wait for no longer than for tensor cores. */
enum { NARROW = 64, WIDE = 128, MIXED_ROWS = 128, MIXED_HALF = 64, MIXED_FEW = 32, SPLIT_THREADS = 128 };

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
__global__ void __launch_bounds__(SPLIT_THREADS) linear_split_kernel(split_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * SPLIT_THREADS + threadIdx.x;
  if (q >= a.n_pieces) return;
  const int col = (int) (q / PIECES % padded_cols(a.n_out));
  const int64_t k0 = q / PIECES / padded_cols(a.n_out) * TENSOR_DEPTH + q % PIECES * PIECE;
  real x[PIECE];
  for (int k = 0; k < PIECE; k++) x[k] = col < a.n_out ? a.weight[(k0 + k) * a.n_out + col] : (real) 0;
  tensor_piece *to = (tensor_piece *) (void *) (a.weight + n_weights(a.n_in, a.n_out));
  to[q] = tensor_split(x);
}

/* Row of x; of those that are not there the last one, whose sums are not kept. */
MLFF_DEVICE const real *row_of_x(const linear_arrays &a, int64_t row)
{
  return a.x + (row < a.n_rows ? row : a.n_rows - 1) * a.ldx;
}

/* Numbers k .. k + PIECE of row `x`. Weights behind n_in are zero: any numbers of the row do there. */
template <int IN_VECTORS> MLFF_DEVICE vector_of<PIECE> load_piece(const linear_arrays &a, const real *x, int k)
{
  vector_of<PIECE> piece;
  if (IN_VECTORS) {
    piece = load_vector<PIECE>(x + (k < a.n_in ? k : 0));
  } else {
#pragma unroll
    for (int q = 0; q < PIECE; q++) piece.of[q] = x[k + q < a.n_in ? k + q : 0];
  }
  return piece;
}

/* Of the tiles of HEIGHT rows and SIZE columns: warps that share out rows and columns, ROWS x COLS tensor_sums of a
 * warp, LAYERS of TENSOR_DEPTH products at a time: of few rows, whose blocks wait for memory, more. Two pairs of tiles
 * are in shared memory, x [LAYERS][HEIGHT / TENSOR_SIZE][2][WARP] words and w [LAYERS][SIZE][PIECES] pieces, and where
 * they were, at last, the sums [HEIGHT][SIZE + PAD]. */
enum { COLS = 2, PAD = 16 };
template <int HEIGHT, int SIZE> struct mixed_sizes {
  enum { ROW_WARPS = 2, COL_WARPS = SIZE / (COLS * TENSOR_SIZE), THREADS = ROW_WARPS * COL_WARPS * WARP };
  enum { ROWS = HEIGHT / TENSOR_SIZE / ROW_WARPS, BLOCKS = ROWS > 2 ? 2 * 128 / THREADS : 3 }; /* 255, 168 registers */
  enum { LAYERS = HEIGHT == MIXED_FEW ? 4 : 2, STEP = LAYERS * TENSOR_DEPTH };
  enum { X_LAYER = HEIGHT * PIECES, W_LAYER = SIZE * PIECES, X_TILE = LAYERS * X_LAYER, W_TILE = LAYERS * W_LAYER };
  enum { OF_TILES = 16 * 2 * (X_TILE + W_TILE), OF_SUMS = 4 * HEIGHT * (SIZE + PAD) };
  enum { BYTES = (int) OF_TILES > (int) OF_SUMS ? (int) OF_TILES : (int) OF_SUMS };
};

/* The two pairs of tiles, of which one is read while the other one is filled: weights by copies, numbers of x through
 * registers, where they are split. */
template <int HEIGHT, int SIZE> struct mixed_tiles {
  typedef mixed_sizes<HEIGHT, SIZE> sizes;
  enum { THREADS = sizes::THREADS, LAYERS = sizes::LAYERS, X_LAYER = sizes::X_LAYER, W_LAYER = sizes::W_LAYER };
  /* Pairs of pieces, rows 8 apart: of a layer, of a thread, of those the ones that are in one layer; and layers that
   * threads fill at once. */
  enum {
    PAIRS = X_LAYER / 2,
    OWN_PAIRS = LAYERS * PAIRS / THREADS,
    IN_LAYER = (int) PAIRS > (int) THREADS ? PAIRS / THREADS : 1
  };
  enum { AT_ONCE = (int) PAIRS < (int) THREADS ? THREADS / PAIRS : 1 };
  static_assert(OWN_PAIRS * THREADS == LAYERS * PAIRS && OWN_PAIRS % IN_LAYER == 0, "whole pairs");
  const linear_arrays &a;
  tensor_words *shared; /* [2][X_TILE], [2][W_TILE] */
  int64_t row0, layer;  /* layer: pieces of TENSOR_DEPTH rows of all weights */
  int col0, my_k;       /* my_k: of the thread's first pair */
  const tensor_piece *w;
  const real *x[IN_LAYER][2];
  vector_of<PIECE> ahead[OWN_PAIRS][2];

  __device__ __forceinline__ mixed_tiles(const linear_arrays &arrays, tensor_words *memory)
      : a(arrays), shared(memory), row0((int64_t) blockIdx.y * HEIGHT), col0((int) blockIdx.x * SIZE)
  {
    const int t = (int) threadIdx.x, lane = t % WARP;
    layer = (int64_t) padded_cols(a.n_out) * PIECES;
    my_k = t / PAIRS * TENSOR_DEPTH + lane % PIECES * PIECE;
    w = split_weights(a) + col0 * PIECES + t;
#pragma unroll
    for (int q = 0; q < 2 * IN_LAYER; q++) {
      const int pair = (t + q / 2 * THREADS) % PAIRS;
      const int64_t row = row0 + pair / WARP * TENSOR_SIZE + q % 2 * (TENSOR_SIZE / 2) + lane / PIECES;
      x[q / 2][q % 2] = row_of_x(a, row);
    }
  }

  __device__ __forceinline__ tensor_words *x_tile(int k0) const
  {
    return shared + k0 / sizes::STEP % 2 * sizes::X_TILE;
  }
  __device__ __forceinline__ tensor_piece *w_tile(int k0) const
  {
    return (tensor_piece *) (void *) (shared + 2 * sizes::X_TILE) + k0 / sizes::STEP % 2 * sizes::W_TILE;
  }

  /* Whether there are products from k on; weights are padded to two layers. */
  __device__ __forceinline__ bool has_layer(int k) const
  {
    return LAYERS * TENSOR_DEPTH == PADDED_ROWS || k < a.n_in;
  }

  /* What comes from global memory for k0 is on its way. */
  __device__ __forceinline__ void start(int k0)
  {
    tensor_piece *to = w_tile(k0) + threadIdx.x;
#pragma unroll
    for (int d = 0; d < LAYERS; d++)
#pragma unroll
      for (int q = 0; q < W_LAYER; q += THREADS)
        if (has_layer(k0 + d * TENSOR_DEPTH))
          __pipeline_memcpy_async(to + d * W_LAYER + q, w + d * layer + q, sizeof *to);
    __pipeline_commit();
    w += LAYERS * layer;
    if (a.x_in_vectors)
      load<1>(k0 + my_k);
    else
      load<0>(k0 + my_k);
  }

  template <int IN_VECTORS> __device__ __forceinline__ void load(int k)
  {
#pragma unroll
    for (int d = 0; d < OWN_PAIRS; d++)
#pragma unroll
      for (int q = 0; q < 2; q++)
        ahead[d][q] = load_piece<IN_VECTORS>(a, x[d % IN_LAYER][q], k + d / IN_LAYER * AT_ONCE * TENSOR_DEPTH);
  }

  /* Everything for k0 is there, as far as this thread brings it. */
  __device__ __forceinline__ void finish(int k0)
  {
    tensor_words *to = x_tile(k0) + threadIdx.x / WARP * 2 * WARP;
#pragma unroll
    for (int d = 0; d < OWN_PAIRS; d++)
      tensor_store_x(to + d * 2 * THREADS, tensor_split(ahead[d][0].of), tensor_split(ahead[d][1].of));
    __pipeline_wait_prior(0);
  }
};

/* The same on tensor cores; bias, activation and everything behind in float. Grid as in linear_kernel, with tiles of
 * HEIGHT rows and SIZE columns; a warp owns half of the rows of COLS TENSOR_SIZE columns. Dynamic shared memory:
 * mixed_sizes::BYTES. Twin: linear_cpu; deterministic. */
template <int ACT, int HEIGHT, int SIZE, int N_PRODUCTS>
__global__ void __launch_bounds__(mixed_sizes<HEIGHT, SIZE>::THREADS, mixed_sizes<HEIGHT, SIZE>::BLOCKS)
    linear_mixed_kernel(linear_group<N_PRODUCTS> group)
{
  grid_dependency_wait();
  typedef mixed_sizes<HEIGHT, SIZE> sizes;
  enum { ROWS = sizes::ROWS, ROW_WARPS = sizes::ROW_WARPS, LAYERS = sizes::LAYERS, STEP = sizes::STEP };
  MLFF_SHARED_DYNAMIC(tensor_words, shared);
  const linear_arrays &a = group.of[N_PRODUCTS == 1 ? 0 : blockIdx.z];
  if ((int64_t) blockIdx.y * HEIGHT >= a.n_rows || (int) blockIdx.x * SIZE >= a.n_out) return;
  mixed_tiles<HEIGHT, SIZE> tiles(a, shared);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int my_tile = warp % ROW_WARPS * ROWS, my_col = warp / ROW_WARPS * COLS * TENSOR_SIZE;
  const bool has_rows = tiles.row0 + my_tile * TENSOR_SIZE < a.n_rows; /* of few rows, some warps have none */
  tensor_sum sum[ROWS][COLS];
#pragma unroll
  for (int q = 0; q < ROWS * COLS; q++) tensor_zero(&sum[q / COLS][q % COLS]);
  tiles.start(0);
  tiles.finish(0);
  __syncthreads();
  for (int k0 = 0; k0 < a.n_in; k0 += STEP) {
    const bool has_more = k0 + STEP < a.n_in;
    if (has_more) tiles.start(k0 + STEP);
    const tensor_words *x_tile = tiles.x_tile(k0) + my_tile * 2 * WARP;
    const tensor_piece *w_tile = tiles.w_tile(k0) + my_col * PIECES;
#pragma unroll
    for (int d = 0; d < LAYERS && has_rows && tiles.has_layer(k0 + d * TENSOR_DEPTH); d++) {
      tensor_w w[COLS];
      tensor_x part;
#pragma unroll
      for (int c = 0; c < COLS; c++) tensor_load_w(&w[c], w_tile + d * sizes::W_LAYER + c * TENSOR_SIZE * PIECES);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        tensor_load_x(&part, x_tile + d * sizes::X_LAYER + r * 2 * WARP);
#pragma unroll
        for (int c = 0; c < COLS; c++) tensor_add(&sum[r][c], part, w[c]);
      }
    }
    if (has_more) tiles.finish(k0 + STEP); /* while tensor cores are at work */
    __syncthreads();
  }
  real *y_tile = (real *) (void *) shared;
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
      for (int q = 0; q < 4; q++)
        v.of[q] = bias[q] + tensor_total(sum[r / 2][c], r % 2, q);
      store_vector<4>(y_tile + row * (SIZE + PAD) + col, v);
    }
  }
  finish_tile<ACT, HEIGHT, SIZE, PAD, sizes::THREADS>(group, a, tiles.row0, tiles.col0, y_tile);
}

} // namespace

#endif
#endif
