/* linear_groups.h: the kernel of products on tensor cores where warpgroups can have them (sm_90a): the large tiles of
 * linear_mixed.h, of the same weights. */
#ifndef MLFF_CUDA_LINEAR_GROUPS_H
#define MLFF_CUDA_LINEAR_GROUPS_H

#include "linear_mixed.h"

#if !MLFF_REAL_IS_DOUBLE

namespace { /* kernels and their arguments differ between element types */

/* Of tiles of MIXED_ROWS rows and SIZE columns: STEP products at a time. Copies of numbers of x start X_AHEAD steps
 * before these are multiplied, those of weights W_AHEAD. In shared memory: tiles of x and of w, each of numbers and
 * then of rests, of X_STAGES and W_STAGES steps; numbers of x as they came, of RAW_STAGES; and where they were, at
 * last, the sums [MIXED_ROWS][SIZE + SUM_PAD]. */
enum { N_GROUPS = MIXED_ROWS / GROUP_ROWS, GROUPS_THREADS = N_GROUPS * GROUP_WARPS * WARP };
enum { STEP = PADDED_ROWS, LAYERS = STEP / TENSOR_DEPTH, X_STAGES = 3, X_AHEAD = 3, RAW_STAGES = 2, SUM_PAD = 8 };
template <int SIZE> struct group_sizes {
  enum { BLOCKS = SIZE > NARROW ? 1 : 2 };                                              /* of a multiprocessor */
  enum { W_STAGES = BLOCKS == 1 ? 5 : 4, W_AHEAD = W_STAGES - 2, UNTIL = W_AHEAD - 2 }; /* UNTIL: groups of copies */
  enum { X_TILE = STEP / EIGHT * MIXED_ROWS, W_TILE = STEP / EIGHT * SIZE, RAW = MIXED_ROWS * STEP / PIECE };
  enum { W_AT = X_STAGES * 2 * X_TILE, RAW_AT = W_AT + W_STAGES * 2 * W_TILE, END = RAW_AT + RAW_STAGES * RAW };
  enum { BYTES = 16 * END };
  static_assert(4 * MIXED_ROWS * (SIZE + SUM_PAD) <= (int) BYTES, "sums fit where x and w were");
};

/* What comes to shared memory. Each thread copies weights, and of OWN rows of its warp's 16 what it splits later. */
template <int SIZE> struct group_tiles {
  typedef group_sizes<SIZE> sizes;
  enum { ROWS = WARP / PIECES, OWN = TENSOR_SIZE / ROWS, OF_LAYER = SIZE * PIECES };
  static_assert(GROUPS_THREADS / WARP * TENSOR_SIZE == MIXED_ROWS && OF_LAYER % GROUPS_THREADS == 0, "whole rows");
  const linear_arrays &a;
  tensor_eight *shared;
  int64_t layer; /* pieces of TENSOR_DEPTH rows of all weights */
  int my_row, my_piece;
  const tensor_piece *w;
  const real *x[OWN];

  __device__ __forceinline__ group_tiles(const linear_arrays &arrays, tensor_eight *memory)
      : a(arrays), shared(memory), layer((int64_t) padded_cols(a.n_out) * PIECES)
  {
    const int t = (int) threadIdx.x;
    my_row = t / WARP * TENSOR_SIZE + t % WARP / PIECES;
    my_piece = t % PIECES;
    w = split_weights(a) + (int64_t) blockIdx.x * OF_LAYER + t;
#pragma unroll
    for (int q = 0; q < OWN; q++) x[q] = row_of_x(a, (int64_t) blockIdx.y * MIXED_ROWS + my_row + q * ROWS);
  }

  __device__ __forceinline__ tensor_eight *x_tile(int k0) const
  {
    return shared + k0 / STEP % X_STAGES * 2 * sizes::X_TILE;
  }
  __device__ __forceinline__ tensor_eight *w_tile(int k0) const
  {
    return shared + sizes::W_AT + k0 / STEP % sizes::W_STAGES * 2 * sizes::W_TILE;
  }
  __device__ __forceinline__ real *raw(int k0, int d, int q) const /* of the thread */
  {
    const int at = k0 / STEP % RAW_STAGES * sizes::RAW + (d * OWN + q) * GROUPS_THREADS + (int) threadIdx.x;
    return (real *) (void *) (shared + sizes::RAW_AT + at);
  }

  __device__ __forceinline__ void copy_w(int k0) const
  {
    if (k0 >= a.n_in) return;
#pragma unroll
    for (int d = 0; d < LAYERS; d++)
#pragma unroll
      for (int q = 0; q < OF_LAYER; q += GROUPS_THREADS) {
        const tensor_piece *from = w + (k0 / TENSOR_DEPTH + d) * layer + q;
        tensor_eight *to = w_tile(k0) + d * (TENSOR_DEPTH / EIGHT) * SIZE;
        tensor_four *of = group_piece(to, SIZE, (q + (int) threadIdx.x) / PIECES, my_piece);
        tensor_four *rest = group_piece(to + sizes::W_TILE, SIZE, (q + (int) threadIdx.x) / PIECES, my_piece);
        __pipeline_memcpy_async(of, from->of, sizeof *of);
        __pipeline_memcpy_async(rest, from->rest, sizeof *rest);
      }
  }

  __device__ __forceinline__ void copy_x(int k0) const
  {
    if (k0 >= a.n_in) return;
    if (a.x_in_vectors)
      copy_pieces<PIECE>(k0);
    else
      copy_pieces<1>(k0);
  }

  /* N numbers at a time. Weights behind n_in are zero: any numbers of the row do there. */
  template <int N> __device__ __forceinline__ void copy_pieces(int k0) const
  {
#pragma unroll
    for (int d = 0; d < LAYERS; d++)
#pragma unroll
      for (int n = 0; n < PIECE; n += N) {
        const int k = k0 + d * TENSOR_DEPTH + my_piece * PIECE + n, at = k < a.n_in ? k : 0;
#pragma unroll
        for (int q = 0; q < OWN; q++) copy_ahead<N>(raw(k0, d, q) + n, x[q] + at);
      }
  }

  /* Splits what has come of x into its tiles. */
  __device__ __forceinline__ void split_x(int k0) const
  {
    if (k0 >= a.n_in) return;
#pragma unroll
    for (int d = 0; d < LAYERS; d++)
#pragma unroll
      for (int q = 0; q < OWN; q++) {
        const vector_of<PIECE> numbers = load_vector<PIECE>(raw(k0, d, q));
        const tensor_piece piece = tensor_split(numbers.of);
        tensor_eight *to = x_tile(k0) + d * (TENSOR_DEPTH / EIGHT) * MIXED_ROWS;
        *group_piece(to, MIXED_ROWS, my_row + q * ROWS, my_piece) = {{piece.of[0], piece.of[1]}};
        *group_piece(to + sizes::X_TILE, MIXED_ROWS, my_row + q * ROWS, my_piece) = {{piece.rest[0], piece.rest[1]}};
      }
  }
};

/* As linear_mixed_kernel, with tiles of MIXED_ROWS rows and SIZE columns, of which a warpgroup owns GROUP_ROWS rows.
 * While products of a step are at work, numbers of x of the next one are split, and those of later ones are on their
 * way. A place is filled again when all have passed the barrier behind a wait for its products. Dynamic shared memory:
 * group_sizes::BYTES. Twin: linear_cpu; deterministic. */
template <int ACT, int SIZE, int N_PRODUCTS>
__global__ void __launch_bounds__(GROUPS_THREADS, group_sizes<SIZE>::BLOCKS)
    linear_groups_kernel(linear_group<N_PRODUCTS> group)
{
  mlff_after_others();
  if (!group_can_run()) return;
  typedef group_sizes<SIZE> sizes;
  MLFF_SHARED_DYNAMIC(tensor_eight, shared);
  const linear_arrays &a = group.of[N_PRODUCTS == 1 ? 0 : blockIdx.z];
  const int64_t row0 = (int64_t) blockIdx.y * MIXED_ROWS;
  const int col0 = (int) blockIdx.x * SIZE;
  if (row0 >= a.n_rows || col0 >= a.n_out) return;
  const group_tiles<SIZE> tiles(a, shared);
  const int lane = (int) threadIdx.x % WARP, my_group = (int) threadIdx.x / WARP / GROUP_WARPS;
  group_sum<SIZE> sum;
#pragma unroll
  for (int q = 0; q < SIZE / 2; q++) sum.of[q] = sum.rest[q] = 0;
  tiles.copy_x(0), tiles.copy_w(0);
  __pipeline_commit();
  tiles.copy_x(STEP), tiles.copy_w(STEP);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  tiles.split_x(0);
  group_publish();
  for (int k = 2; k < sizes::W_AHEAD; k++) tiles.copy_w(k * STEP);
  tiles.copy_x(2 * STEP);
  __pipeline_commit();
  for (int k0 = 0; k0 < a.n_in; k0 += STEP) {
    __syncthreads();
    const tensor_eight *x_tile = tiles.x_tile(k0) + my_group * GROUP_ROWS, *w_tile = tiles.w_tile(k0);
    group_begin();
#pragma unroll
    for (int d = 0; d < STEP / EIGHT; d += TENSOR_DEPTH / EIGHT)
      group_add<SIZE>(&sum, x_tile + d * MIXED_ROWS, sizes::X_TILE, MIXED_ROWS, w_tile + d * SIZE, sizes::W_TILE);
    group_commit();
    __pipeline_wait_prior(sizes::UNTIL);
    tiles.split_x(k0 + STEP);
    group_publish();
    tiles.copy_w(k0 + sizes::W_AHEAD * STEP), tiles.copy_x(k0 + X_AHEAD * STEP);
    __pipeline_commit();
    group_wait<1>();
  }
  group_wait<0>();
  __syncthreads(); /* all have read x and w */
  real *y_tile = (real *) (void *) shared;
  const int row = (int) threadIdx.x / WARP * TENSOR_SIZE + lane / 4;
#pragma unroll
  for (int c = 0; c < SIZE / EIGHT; c++) {
    const int col = c * EIGHT + lane % 4 * 2, n = a.n_out - col0 - col;
    const real bias[2] = {n > 0 ? a.bias[col0 + col] : (real) 0, n > 1 ? a.bias[col0 + col + 1] : (real) 0};
#pragma unroll
    for (int r = 0; r < 2; r++) {
      vector_of<2> v;
#pragma unroll
      for (int q = 0; q < 2; q++)
        v.of[q] = bias[q] + tensor_total(sum.of[4 * c + 2 * r + q], sum.rest[4 * c + 2 * r + q]);
      store_vector<2>(y_tile + (row + r * EIGHT) * (SIZE + SUM_PAD) + col, v);
    }
  }
  finish_tile<ACT, MIXED_ROWS, SIZE, SUM_PAD, GROUPS_THREADS>(group, a, row0, col0, y_tile);
}

} // namespace

#endif
#endif
