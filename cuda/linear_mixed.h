/* linear_mixed.h: the GEMM on tensor cores, for `precision mixed`, and its weights.
 *
 * A value x is split into two halves (11 bits each): x = high + low / LOW_SCALE. Then
 *   x w = high_x high_w + (low_x high_w + high_x low_w) / LOW_SCALE,
 * without low_x low_w, which is below rounding. The two terms have float accumulators of their own. Values above 65504
 * have no half: results are not finite. Without tensor cores, as on the simulator, the same halves are multiplied and
 * accumulators are truncated, as tensor cores do.
 */
#ifndef MLFF_CUDA_LINEAR_MIXED_H
#define MLFF_CUDA_LINEAR_MIXED_H

#include "linear_tile.h"

#if !MLFF_REAL_IS_DOUBLE

#include <cuda_fp16.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MLFF_TENSOR_CORES 1
#else
#define MLFF_TENSOR_CORES 0
#endif

/* TENSOR_SIZE: rows and columns of a warp's accumulators. TENSOR_DEPTH: k of one mma. PIECE: consecutive values of a
 * row of x or a column of w that a lane owns. PIECES: of TENSOR_DEPTH. */
enum { TENSOR_SIZE = 16, TENSOR_DEPTH = 16, PIECE = 4, PIECES = TENSOR_DEPTH / PIECE };
#define LOW_SCALE 2048.0f

namespace { /* kernels and their arguments differ between element types */

/* ---- mma --------------------------------------------------------------------------------------------------------- */

/* PIECE split values, two halves to a word. */
typedef struct alignas(16) tensor_piece {
  uint32_t high[PIECE / 2], low[PIECE / 2];
} tensor_piece;

/* High or low halves of x that a lane has of one mma, in the order of the instruction: word q of rows lane / 4 and
 * lane / 4 + 8 is word[2 q] and word[2 q + 1]. */
typedef struct alignas(16) tensor_words {
  uint32_t word[PIECE];
} tensor_words;

/* TENSOR_SIZE x TENSOR_SIZE accumulators of a warp: [r][c] is row lane / 4 + 8 r, column lane % 4 * 4 + c. low: times
 * LOW_SCALE. */
typedef struct tensor_sum {
  float high[2][4], low[2][4];
} tensor_sum;

/* A lane's part of x, in shared memory [2][WARP] (high, low), and of w, [TENSOR_SIZE columns][PIECES]. Without tensor
 * cores: a pointer to it. */
typedef struct tensor_x {
#if MLFF_TENSOR_CORES
  tensor_words high, low;
#else
  const tensor_words *words;
#endif
} tensor_x;

typedef struct tensor_w {
#if MLFF_TENSOR_CORES
  tensor_piece piece[2];
#else
  const tensor_piece *pieces;
#endif
} tensor_w;

MLFF_DEVICE void tensor_zero(tensor_sum *sum)
{
#pragma unroll
  for (int q = 0; q < 8; q++) sum->high[q / 4][q % 4] = sum->low[q / 4][q % 4] = 0;
}

MLFF_DEVICE uint32_t two_halves(float a, float b)
{
  const __half pair[2] = {__float2half(a), __float2half(b)};
  uint32_t bits;
  memcpy(&bits, pair, sizeof bits);
  return bits;
}

MLFF_DEVICE float one_half(uint32_t pair, int which)
{
  __half halves[2];
  memcpy(halves, &pair, sizeof pair);
  return __half2float(halves[which]);
}

MLFF_DEVICE tensor_piece tensor_split(const float *x)
{
  tensor_piece piece;
#pragma unroll
  for (int q = 0; q < PIECE / 2; q++) {
    const float *pair = x + 2 * q;
    piece.high[q] = two_halves(pair[0], pair[1]);
    piece.low[q] = two_halves((pair[0] - one_half(piece.high[q], 0)) * LOW_SCALE,
                              (pair[1] - one_half(piece.high[q], 1)) * LOW_SCALE);
  }
  return piece;
}

/* Stores a lane's pieces of rows lane / 4 and lane / 4 + 8 of x. */
MLFF_DEVICE void tensor_store_x(tensor_words *x, const tensor_piece &row, const tensor_piece &row8)
{
  const int lane = (int) threadIdx.x % WARP;
  const tensor_words high = {{row.high[0], row8.high[0], row.high[1], row8.high[1]}};
  const tensor_words low = {{row.low[0], row8.low[0], row.low[1], row8.low[1]}};
  x[lane] = high;
  x[WARP + lane] = low;
}

#if MLFF_TENSOR_CORES
/* sum[16][8] += x[16][16] w[16][8], columns 2 half and 2 half + 1 of each lane. */
MLFF_DEVICE void tensor_mma(float sum[2][4], int half, const uint32_t *x, const uint32_t *w)
{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0][2 * half]), "+f"(sum[0][2 * half + 1]), "+f"(sum[1][2 * half]), "+f"(sum[1][2 * half + 1])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]), "r"(w[1]));
}
#else
/* Rounds towards zero, as tensor cores do. */
MLFF_DEVICE float tensor_truncate(double x)
{
  float truncated = (float) x;
  uint32_t bits;
  memcpy(&bits, &truncated, sizeof bits);
  if (fabs((double) truncated) > fabs(x)) bits--; /* infinity becomes the largest float */
  memcpy(&truncated, &bits, sizeof bits);
  return truncated;
}
#endif

MLFF_DEVICE void tensor_load_x(tensor_x *part, const tensor_words *x)
{
#if MLFF_TENSOR_CORES
  const int lane = (int) threadIdx.x % WARP;
  part->high = x[lane];
  part->low = x[WARP + lane];
#else
  part->words = x;
#endif
}

/* Loads the columns that make values 2 q and 2 q + 1 of a lane's four adjacent ones those of mma q. */
MLFF_DEVICE void tensor_load_w(tensor_w *part, const tensor_piece *w)
{
#if MLFF_TENSOR_CORES
  const int lane = (int) threadIdx.x % WARP, col = lane / PIECES;
  for (int q = 0; q < 2; q++) part->piece[q] = w[(col / 2 * 4 + col % 2 + 2 * q) * PIECES + lane % PIECES];
#else
  part->pieces = w;
#endif
}

/* sum[r][c] += sum_k x[r][k] w[k][c],  k < TENSOR_DEPTH. Called by all lanes of a warp. */
MLFF_DEVICE void tensor_add(tensor_sum *sum, const tensor_x &x, const tensor_w &w)
{
#if MLFF_TENSOR_CORES
#pragma unroll
  for (int q = 0; q < 2; q++) {
    tensor_mma(sum->low, q, x.low.word, w.piece[q].high);
    tensor_mma(sum->low, q, x.high.word, w.piece[q].low);
    tensor_mma(sum->high, q, x.high.word, w.piece[q].high);
  }
#else
  const int lane = (int) threadIdx.x % WARP;
  float high_x[2][TENSOR_DEPTH], low_x[2][TENSOR_DEPTH]; /* of two rows */
  for (int k = 0; k < TENSOR_DEPTH; k++)
    for (int r = 0; r < 2; r++) {
      const int owner = lane / PIECES * PIECES + k / PIECE, word = 2 * (k % PIECE / 2) + r;
      high_x[r][k] = one_half(x.words[owner].word[word], k % 2);
      low_x[r][k] = one_half(x.words[WARP + owner].word[word], k % 2);
    }
  for (int c = 0; c < 4; c++) {
    double high[2] = {0, 0}, low_high[2] = {0, 0}, high_low[2] = {0, 0};
    for (int k = 0; k < TENSOR_DEPTH; k++) {
      const tensor_piece &piece = w.pieces[(lane % 4 * 4 + c) * PIECES + k / PIECE];
      const double high_w = one_half(piece.high[k % PIECE / 2], k % 2),
                   low_w = one_half(piece.low[k % PIECE / 2], k % 2);
      for (int r = 0; r < 2; r++) {
        high[r] += high_x[r][k] * high_w;
        low_high[r] += low_x[r][k] * high_w;
        high_low[r] += high_x[r][k] * low_w;
      }
    }
    for (int r = 0; r < 2; r++) {
      sum->low[r][c] = tensor_truncate(tensor_truncate(sum->low[r][c] + low_high[r]) + high_low[r]);
      sum->high[r][c] = tensor_truncate(sum->high[r][c] + high[r]);
    }
  }
#endif
}

MLFF_DEVICE float tensor_total(const tensor_sum &sum, int r, int c)
{
  return sum.high[r][c] + sum.low[r][c] * (1 / LOW_SCALE);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

enum { SPLIT_THREADS = 128, PADDED_COLS = 64 };

/* Split weights follow the plain ones: pieces [padded_rows(n_in) / TENSOR_DEPTH][padded_cols(n_out)][PIECES] of
 * columns, zeros from column n_out on. */
static __host__ __device__ __forceinline__ int padded_cols(int n_out)
{
  return (n_out + PADDED_COLS - 1) / PADDED_COLS * PADDED_COLS;
}

typedef struct split_arrays {
  int64_t n_pieces;
  real *weight;
  int n_in, n_out;
} split_arrays;

/* Splits the packed weights. A thread owns a piece; no shared memory. */
__global__ void __launch_bounds__(SPLIT_THREADS) linear_split_kernel(split_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * SPLIT_THREADS + threadIdx.x;
  if (q >= a.n_pieces) return;
  const int col = (int) (q / PIECES % padded_cols(a.n_out));
  const int64_t k0 = q / PIECES / padded_cols(a.n_out) * TENSOR_DEPTH + q % PIECES * PIECE;
  real x[PIECE];
  for (int k = 0; k < PIECE; k++) x[k] = col < a.n_out ? a.weight[(k0 + k) * a.n_out + col] : (real) 0;
  tensor_piece *pieces = (tensor_piece *) (void *) (a.weight + n_weights(a.n_in, a.n_out));
  pieces[q] = tensor_split(x);
}

/* ---- GEMM -------------------------------------------------------------------------------------------------------- */

/* Values k .. k + PIECE of row x. Weights from n_in on are 0, so any values of the row do there. */
template <int IN_VECTORS> MLFF_DEVICE vector_of<PIECE> load_piece(const linear_arrays &a, const real *x, int k)
{
  vector_of<PIECE> piece;
  if (IN_VECTORS) {
    piece = load_vector<PIECE>(x + (k < a.n_in ? k : 0));
  } else {
#pragma unroll
    for (int q = 0; q < PIECE; q++) piece.v[q] = x[k + q < a.n_in ? k + q : 0];
  }
  return piece;
}

/* Tiles of y of HEIGHT rows and SIZE columns. A warp has ROWS x COLS tensor_sums and half of the rows. A step of k is
 * LAYERS x TENSOR_DEPTH; tiles of 32 rows, whose blocks wait for memory, take longer steps. Two buffers of x
 * [LAYERS][HEIGHT / TENSOR_SIZE][2][WARP] words and w [LAYERS][SIZE][PIECES] pieces are in shared memory, reused by the
 * accumulators [HEIGHT][SIZE + PAD]. */
enum { COLS = 2, PAD = 16 };
template <int HEIGHT, int SIZE> struct mixed_sizes {
  enum { ROW_WARPS = 2, COL_WARPS = SIZE / (COLS * TENSOR_SIZE), THREADS = ROW_WARPS * COL_WARPS * WARP };
  enum { ROWS = HEIGHT / TENSOR_SIZE / ROW_WARPS, BLOCKS = ROWS > 2 ? 2 * 128 / THREADS : 3 }; /* 255, 168 registers */
  enum { LAYERS = HEIGHT == 32 ? 4 : 2, STEP = LAYERS * TENSOR_DEPTH };
  enum { X_LAYER = HEIGHT * PIECES, W_LAYER = SIZE * PIECES, X_TILE = LAYERS * X_LAYER, W_TILE = LAYERS * W_LAYER };
  enum { TILE_BYTES = 16 * 2 * (X_TILE + W_TILE), SUM_BYTES = 4 * HEIGHT * (SIZE + PAD) };
  enum { BYTES = (int) TILE_BYTES > (int) SUM_BYTES ? (int) TILE_BYTES : (int) SUM_BYTES };
};

/* The double-buffered tiles: weights by asynchronous copies, x through registers, where it is split. Rows from n_rows
 * on are copies of the last row, whose results are not stored. */
template <int HEIGHT, int SIZE> struct mixed_tiles {
  typedef mixed_sizes<HEIGHT, SIZE> sizes;
  enum { THREADS = sizes::THREADS, LAYERS = sizes::LAYERS, X_LAYER = sizes::X_LAYER, W_LAYER = sizes::W_LAYER };
  /* Pairs of pieces, rows 8 apart: of a layer, of a thread, of a thread in one layer; and layers per pass of the
   * block. */
  enum {
    PAIRS = X_LAYER / 2,
    THREAD_PAIRS = LAYERS * PAIRS / THREADS,
    PAIRS_IN_LAYER = (int) PAIRS > (int) THREADS ? PAIRS / THREADS : 1,
    LAYERS_PER_PASS = (int) PAIRS < (int) THREADS ? THREADS / PAIRS : 1
  };
  static_assert(THREAD_PAIRS * THREADS == LAYERS * PAIRS && THREAD_PAIRS % PAIRS_IN_LAYER == 0, "whole pairs");
  const linear_arrays &a;
  tensor_words *shared; /* [2][X_TILE], [2][W_TILE] */
  int64_t row0, layer;  /* layer: pieces of TENSOR_DEPTH rows of all weights */
  int col0, my_k;       /* my_k: of the thread's first pair */
  const tensor_piece *w;
  const real *x[PAIRS_IN_LAYER][2];
  vector_of<PIECE> next[THREAD_PAIRS][2];

  __device__ __forceinline__ mixed_tiles(const linear_arrays &arrays, tensor_words *memory)
      : a(arrays), shared(memory), row0((int64_t) blockIdx.y * HEIGHT), col0((int) blockIdx.x * SIZE)
  {
    const int t = (int) threadIdx.x, lane = t % WARP;
    layer = (int64_t) padded_cols(a.n_out) * PIECES;
    my_k = t / PAIRS * TENSOR_DEPTH + lane % PIECES * PIECE;
    w = (const tensor_piece *) (const void *) (a.weight + n_weights(a.n_in, a.n_out)) + col0 * PIECES + t;
#pragma unroll
    for (int q = 0; q < 2 * PAIRS_IN_LAYER; q++) {
      const int pair = (t + q / 2 * THREADS) % PAIRS;
      const int64_t row = row0 + pair / WARP * TENSOR_SIZE + q % 2 * (TENSOR_SIZE / 2) + lane / PIECES;
      x[q / 2][q % 2] = a.x + (row < a.n_rows ? row : a.n_rows - 1) * a.ldx;
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

  /* Whether the layer of k exists; weights are padded to two layers. */
  __device__ __forceinline__ bool has_layer(int k) const
  {
    return LAYERS * TENSOR_DEPTH == PADDED_ROWS || k < a.n_in;
  }

  /* Starts the loads of step k0. */
  __device__ __forceinline__ void start(int k0)
  {
    tensor_piece *tile = w_tile(k0) + threadIdx.x;
#pragma unroll
    for (int d = 0; d < LAYERS; d++)
#pragma unroll
      for (int q = 0; q < W_LAYER; q += THREADS)
        if (has_layer(k0 + d * TENSOR_DEPTH))
          __pipeline_memcpy_async(tile + d * W_LAYER + q, w + d * layer + q, sizeof *tile);
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
    for (int d = 0; d < THREAD_PAIRS; d++)
#pragma unroll
      for (int q = 0; q < 2; q++)
        next[d][q] = load_piece<IN_VECTORS>(a, x[d % PAIRS_IN_LAYER][q],
                                            k + d / PAIRS_IN_LAYER * LAYERS_PER_PASS * TENSOR_DEPTH);
  }

  /* Stores x of step k0 and waits for this thread's copies. */
  __device__ __forceinline__ void finish(int k0)
  {
    tensor_words *tile = x_tile(k0) + threadIdx.x / WARP * 2 * WARP;
#pragma unroll
    for (int d = 0; d < THREAD_PAIRS; d++)
      tensor_store_x(tile + d * 2 * THREADS, tensor_split(next[d][0].v), tensor_split(next[d][1].v));
    __pipeline_wait_prior(0);
  }
};

/* linear_kernel on tensor cores; bias, activation and the rest of the epilogue in float. Grid as there, with tiles of
 * HEIGHT rows and SIZE columns; a warp owns half of the rows of COLS TENSOR_SIZE columns. Dynamic shared memory:
 * mixed_sizes::BYTES. Deterministic. Twin: linear_cpu. */
template <int ACT, int HEIGHT, int SIZE, int N_GEMMS>
__global__ void __launch_bounds__(mixed_sizes<HEIGHT, SIZE>::THREADS, mixed_sizes<HEIGHT, SIZE>::BLOCKS)
    linear_mixed_kernel(linear_batch<N_GEMMS> batch)
{
  grid_dependency_wait();
  typedef mixed_sizes<HEIGHT, SIZE> sizes;
  enum { ROWS = sizes::ROWS, ROW_WARPS = sizes::ROW_WARPS, LAYERS = sizes::LAYERS, STEP = sizes::STEP };
  MLFF_SHARED_DYNAMIC(tensor_words, shared);
  const linear_arrays &a = batch.gemms[N_GEMMS == 1 ? 0 : blockIdx.z];
  if ((int64_t) blockIdx.y * HEIGHT >= a.n_rows || (int) blockIdx.x * SIZE >= a.n_out) return;
  mixed_tiles<HEIGHT, SIZE> tiles(a, shared);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int my_tile = warp % ROW_WARPS * ROWS, my_col = warp / ROW_WARPS * COLS * TENSOR_SIZE;
  const bool has_rows = tiles.row0 + my_tile * TENSOR_SIZE < a.n_rows;
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
    if (has_more) tiles.finish(k0 + STEP); /* overlaps with the tensor cores */
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
      for (int q = 0; q < 4; q++) v.v[q] = bias[q] + tensor_total(sum[r / 2][c], r % 2, q);
      store_vector<4>(y_tile + row * (SIZE + PAD) + col, v);
    }
  }
  epilogue<ACT, HEIGHT, SIZE, PAD, sizes::THREADS>(a, tiles.row0, tiles.col0, y_tile);
}

} // namespace

#endif
#endif
