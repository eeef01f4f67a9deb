/* linear_groups.h: the kernel of products on tensor cores where warpgroups can have them (sm_90a): the large tiles of
 * linear_mixed.h, of the same weights. */
#ifndef MLFF_CUDA_LINEAR_GROUPS_H
#define MLFF_CUDA_LINEAR_GROUPS_H

#include "linear_mixed.h"

#if !MLFF_REAL_IS_DOUBLE

namespace { /* kernels and their arguments differ between element types */

/* Of tiles of ROWS rows and SIZE columns: STEP products at a time. Copies of numbers of x start X_AHEAD steps before
 * these are multiplied, those of weights W_AHEAD. In shared memory: tiles of x and of w, each of numbers and then of
 * rests, of X_STAGES and W_STAGES steps; and numbers of x as they came, of RAW_STAGES. Where tiles of x were, each warp
 * has OF_SUMS of the sums, at last. */
enum { STEP = PADDED_ROWS, LAYERS = STEP / TENSOR_DEPTH, X_STAGES = 3, X_AHEAD = 3, RAW_STAGES = 2 };
enum { SUM_ROWS = TENSOR_SIZE / 2, SUM_PAD = 8 };
template <int ROWS, int SIZE> struct group_sizes {
  enum { THREADS = ROWS / GROUP_ROWS * GROUP_WARPS * WARP };
  enum { BLOCKS = ROWS * SIZE > MIXED_ROWS *NARROW ? 1 : 2 }; /* of a multiprocessor */
  enum { W_STAGES = ROWS * SIZE == MIXED_ROWS * NARROW ? 4 : 5, W_AHEAD = W_STAGES - 2 };
  enum { UNTIL = W_AHEAD - 2 }; /* groups of copies that may be on their way when numbers of x are split */
  enum { X_TILE = STEP / EIGHT * ROWS, W_TILE = STEP / EIGHT * SIZE, RAW = ROWS * STEP / PIECE };
  enum { W_AT = X_STAGES * 2 * X_TILE, RAW_AT = W_AT + W_STAGES * 2 * W_TILE, END = RAW_AT + RAW_STAGES * RAW };
  enum { BYTES = 16 * END, OF_SUMS = SUM_ROWS * (SIZE + SUM_PAD) };
  static_assert(THREADS / WARP * 4 * OF_SUMS <= 16 * W_AT, "sums fit where x was");
  static_assert(BLOCKS * (BYTES + 1024) <= 227 * 1024, "so many blocks have a multiprocessor");
};

/* The tile of a block, and what comes of it to shared memory. A thread copies weights, and of OWN rows of its warp's 16
 * what it splits later. */
template <int ROWS, int SIZE, int N_PRODUCTS> struct group_tiles {
  typedef group_sizes<ROWS, SIZE> sizes;
  enum { THREADS = sizes::THREADS, OF_WARP = WARP / PIECES, OWN = TENSOR_SIZE / OF_WARP };
  /* Of weights: copies of a thread for a step, and EIGHTs of a column that threads copy at a time. */
  enum { COPIES = 2 * sizes::W_TILE / THREADS, AT_ONCE = THREADS / SIZE };
  static_assert(COPIES * THREADS == 2 * sizes::W_TILE && AT_ONCE * SIZE == THREADS, "whole columns");
  const linear_group<N_PRODUCTS> &group;
  tensor_eight *shared;
  int64_t row0;
  int product, col0, my_row, my_group;
  const tensor_eight *w; /* those that are copied next */
  const real *x[OWN];

  __device__ __forceinline__ group_tiles(const linear_group<N_PRODUCTS> &products, tensor_eight *memory)
      : group(products), shared(memory), row0(), product(), col0(), w(), x()
  {
    const int t = (int) threadIdx.x;
    my_row = t / WARP * TENSOR_SIZE + t % WARP / PIECES;
    my_group = __shfl_sync(FULL_WARP, t / WARP / GROUP_WARPS, 0); /* of a whole warp, which the compiler sees now */
  }

  __device__ __forceinline__ static int my_piece() { return (int) threadIdx.x % PIECES; }

  __device__ __forceinline__ const linear_arrays &arrays(int of) const { return group.of[N_PRODUCTS == 1 ? 0 : of]; }

  /* Whether there is such a tile of all products, which follow one another; of each, columns of a row of tiles do. */
  __device__ __forceinline__ bool move_to(int tile)
  {
    for (product = 0; product < N_PRODUCTS; product++) {
      const linear_arrays &a = arrays(product);
      const int n_cols = (a.n_out + SIZE - 1) / SIZE;
      const int n = (int) ((a.n_rows + ROWS - 1) / ROWS) * n_cols;
      if (tile >= n) {
        tile -= n;
        continue;
      }
      row0 = (int64_t) (tile / n_cols) * ROWS;
      col0 = tile % n_cols * SIZE;
      w = group_weights(a) + (int) threadIdx.x / SIZE * padded_cols(a.n_out) + col0 + (int) threadIdx.x % SIZE;
#pragma unroll
      for (int q = 0; q < OWN; q++) x[q] = row_of_x(a, row0 + my_row + q * OF_WARP);
      return true;
    }
    return false;
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
    const int at = k0 / STEP % RAW_STAGES * sizes::RAW + (d * OWN + q) * THREADS + (int) threadIdx.x;
    return (real *) (void *) (shared + sizes::RAW_AT + at);
  }
  __device__ __forceinline__ real *sums() const /* of the warp, [SUM_ROWS][SIZE + SUM_PAD] */
  {
    return (real *) (void *) shared + (int) threadIdx.x / WARP * sizes::OF_SUMS;
  }

  /* Of steps that follow one another. */
  __device__ __forceinline__ void copy_w(int k0)
  {
    const linear_arrays &a = arrays(product);
    if (k0 >= a.n_in) return;
    const int n_cols = padded_cols(a.n_out), rests = padded_rows(a.n_in) / EIGHT * n_cols;
    tensor_eight *to = w_tile(k0) + threadIdx.x;
#pragma unroll
    for (int q = 0; q < COPIES; q++) {
      const tensor_eight *from = w + q * AT_ONCE % (STEP / EIGHT) * n_cols + (q * THREADS < sizes::W_TILE ? 0 : rests);
      __pipeline_memcpy_async(to + q * THREADS, from, sizeof *from);
    }
    w += STEP / EIGHT * n_cols;
  }

  /* Weights behind n_in are zero: any numbers of the row do there. */
  __device__ __forceinline__ void copy_x(int k0) const
  {
    const linear_arrays &a = arrays(product);
    if (k0 >= a.n_in) return;
    if (a.x_in_vectors) {
#pragma unroll
      for (int d = 0; d < LAYERS; d++) {
        const int k = k0 + d * TENSOR_DEPTH + my_piece() * PIECE, at = k < a.n_in ? k : 0;
#pragma unroll
        for (int q = 0; q < OWN; q++) copy_ahead<PIECE>(raw(k0, d, q), x[q] + at);
      }
    } else {
#pragma unroll 1
      for (int n = 0; n < LAYERS * PIECE; n++) {
        const int d = n / PIECE, k = k0 + d * TENSOR_DEPTH + my_piece() * PIECE + n % PIECE, at = k < a.n_in ? k : 0;
#pragma unroll
        for (int q = 0; q < OWN; q++) copy_ahead<1>(raw(k0, d, q) + n % PIECE, x[q] + at);
      }
    }
  }

  /* What comes first, in two groups of copies. */
  __device__ __forceinline__ void start()
  {
    for (int k0 = 0; k0 < 2 * STEP; k0 += STEP) {
      copy_x(k0), copy_w(k0);
      __pipeline_commit();
    }
  }

  /* Splits what has come of x into its tiles. */
  __device__ __forceinline__ void split_x(int k0) const
  {
    if (k0 >= arrays(product).n_in) return;
#pragma unroll
    for (int d = 0; d < LAYERS; d++)
#pragma unroll
      for (int q = 0; q < OWN; q++) {
        const vector_of<PIECE> numbers = load_vector<PIECE>(raw(k0, d, q));
        const tensor_piece piece = tensor_split(numbers.of);
        tensor_eight *to = x_tile(k0) + d * (TENSOR_DEPTH / EIGHT) * ROWS;
        *group_piece(to, ROWS, my_row + q * OF_WARP, my_piece()) = {{piece.of[0], piece.of[1]}};
        *group_piece(to + sizes::X_TILE, ROWS, my_row + q * OF_WARP, my_piece()) = {{piece.rest[0], piece.rest[1]}};
      }
  }

  /* The sums of the tile. While products of a step are at work, numbers of x of the next one are split, and those of
   * later ones are on their way. A place is filled again when all have passed the barrier behind a wait for its
   * products. After start; at last nothing is on its way, and all have read x and w. */
  __device__ __forceinline__ void add(group_sum<SIZE> *sum)
  {
    const linear_arrays &a = arrays(product);
#pragma unroll
    for (int q = 0; q < SIZE / 2; q++) sum->of[q] = sum->rest[q] = 0;
    __pipeline_wait_prior(1);
    split_x(0);
    group_publish();
    for (int k = 2; k < sizes::W_AHEAD; k++) copy_w(k * STEP);
    copy_x(2 * STEP);
    __pipeline_commit();
    for (int k0 = 0; k0 < a.n_in; k0 += STEP) {
      __syncthreads();
      const group_tile x_of = group_tile_at(x_tile(k0) + my_group * GROUP_ROWS, ROWS);
      const group_tile w_of = group_tile_at(w_tile(k0), SIZE);
      group_begin();
#pragma unroll
      for (int d = 0; d < STEP / EIGHT; d += TENSOR_DEPTH / EIGHT)
        group_add<SIZE>(sum, x_of + d * ROWS, sizes::X_TILE, ROWS, w_of + d * SIZE, sizes::W_TILE);
      group_commit();
      __pipeline_wait_prior(sizes::UNTIL);
      split_x(k0 + STEP);
      group_publish();
      copy_w(k0 + sizes::W_AHEAD * STEP), copy_x(k0 + X_AHEAD * STEP);
      __pipeline_commit();
      group_wait<1>();
    }
    group_wait<0>();
    __syncthreads();
  }
};

/* Does what comes behind the sums of a tile, bias included: a warp for its 16 rows, half of them at a time. */
template <int ACT, int SIZE, int N_PRODUCTS>
MLFF_DEVICE void finish_group(const linear_group<N_PRODUCTS> &group, const linear_arrays &a, int64_t row0, int col0,
                              const group_sum<SIZE> &sum, real *tile)
{
  const int lane = (int) threadIdx.x % WARP;
  row0 += (int) threadIdx.x / WARP * TENSOR_SIZE;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    __syncwarp(); /* all have read the others */
#pragma unroll
    for (int c = 0; c < SIZE / EIGHT; c++) {
      const int col = c * EIGHT + lane % 4 * 2, n = a.n_out - col0 - col;
      const real bias[2] = {n > 0 ? a.bias[col0 + col] : (real) 0, n > 1 ? a.bias[col0 + col + 1] : (real) 0};
      vector_of<2> v;
#pragma unroll
      for (int q = 0; q < 2; q++)
        v.of[q] = bias[q] + tensor_total(sum.of[4 * c + 2 * r + q], sum.rest[4 * c + 2 * r + q]);
      store_vector<2>(tile + lane / 4 * (SIZE + SUM_PAD) + col, v);
    }
    finish_tile<ACT, SUM_ROWS, SIZE, SUM_PAD, WARP>(group, a, row0 + r * SUM_ROWS, col0, tile);
  }
}

/* As linear_mixed_kernel, with tiles of ROWS rows and SIZE columns, of which a warpgroup owns GROUP_ROWS rows. A block
 * of a grid of any length takes every gridDim.x-th tile of all products; what comes first of the next one is on its way
 * while numbers are written. Dynamic shared memory: group_sizes::BYTES. Twin: linear_cpu; deterministic. */
template <int ACT, int ROWS, int SIZE, int N_PRODUCTS>
__global__ void __launch_bounds__(group_sizes<ROWS, SIZE>::THREADS, group_sizes<ROWS, SIZE>::BLOCKS)
    linear_groups_kernel(linear_group<N_PRODUCTS> group)
{
  grid_dependency_wait();
  if (!group_can_run()) return;
  MLFF_SHARED_DYNAMIC(tensor_eight, shared);
  group_tiles<ROWS, SIZE, N_PRODUCTS> tiles(group, shared);
  int tile = (int) blockIdx.x;
  bool has_tile = tiles.move_to(tile);
  if (has_tile) tiles.start();
  while (has_tile) {
    group_sum<SIZE> sum;
    tiles.add(&sum);
    const linear_arrays &a = tiles.arrays(tiles.product);
    const int64_t row0 = tiles.row0;
    const int col0 = tiles.col0;
    has_tile = tiles.move_to(tile += (int) gridDim.x);
    if (has_tile) tiles.start();
    finish_group<ACT>(group, a, row0, col0, sum, tiles.sums());
    __syncthreads(); /* where sums were, tiles of x come */
  }
}

} // namespace

#endif
#endif
