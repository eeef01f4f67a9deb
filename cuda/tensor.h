/* tensor.h: products of matrices on tensor cores, for `precision mixed`: a number is the sum of two halves (11 bits
 * each), its rounding and REST_SCALE times what is left; sums in float, those with a rest in one of their own. Numbers
 * above 65504 have no half: what is made of them is not finite. The only place that knows of tensor cores; where there
 * are none, and on the simulated device, the same numbers are multiplied, and sums are cut off as tensor cores do.
 */
#ifndef MLFF_CUDA_TENSOR_H
#define MLFF_CUDA_TENSOR_H

#include "ops_cuda.h"

#if !MLFF_REAL_IS_DOUBLE

#include <cuda_fp16.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MLFF_TENSOR_CORES 1
#else
#define MLFF_TENSOR_CORES 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MLFF_WARPGROUPS 1
#else
#define MLFF_WARPGROUPS 0
#endif

/* Rows and columns of a tensor_sum, products that are added at once, numbers of a piece, pieces of a row of a part */
enum { TENSOR_SIZE = 16, TENSOR_DEPTH = 16, PIECE = 4, PIECES = TENSOR_DEPTH / PIECE };
#define REST_SCALE 2048.0f

/* PIECE numbers that follow one another in a row of x or in a column of w: two halves to a word. */
typedef struct alignas(16) tensor_piece {
  uint32_t of[PIECE / 2], rest[PIECE / 2];
} tensor_piece;

/* Words of the pieces of one kind that a lane has of a part of x, in the order of the instruction: word q of rows
 * lane / 4 and 8 more is of[2 q] and of[2 q + 1]. */
typedef struct alignas(16) tensor_words {
  uint32_t of[PIECE];
} tensor_words;

/* TENSOR_SIZE x TENSOR_SIZE sums, spread over the lanes of a warp: of[r][c] is row lane / 4 + 8 r, column
 * lane % 4 * 4 + c; rest: REST_SCALE times the sums with a rest. */
typedef struct tensor_sum {
  float of[2][4], rest[2][4];
} tensor_sum;

/* The part of a lane of x [2][WARP] (words of the numbers, then of their rests) or of w [TENSOR_SIZE columns][PIECES],
 * in shared memory; without tensor cores, where it is. */
typedef struct tensor_x {
#if MLFF_TENSOR_CORES
  tensor_words of, rest;
#else
  const tensor_words *at;
#endif
} tensor_x;

typedef struct tensor_w {
#if MLFF_TENSOR_CORES
  tensor_piece piece[2];
#else
  const tensor_piece *at;
#endif
} tensor_w;

MLFF_DEVICE void tensor_zero(tensor_sum *sum)
{
#pragma unroll
  for (int q = 0; q < 8; q++) sum->of[q / 4][q % 4] = sum->rest[q / 4][q % 4] = 0;
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
    piece.of[q] = two_halves(pair[0], pair[1]);
    piece.rest[q] = two_halves((pair[0] - one_half(piece.of[q], 0)) * REST_SCALE,
                               (pair[1] - one_half(piece.of[q], 1)) * REST_SCALE);
  }
  return piece;
}

/* A lane's pieces of x: of row lane / 4, and of 8 more. */
MLFF_DEVICE void tensor_store_x(tensor_words *x, const tensor_piece &low, const tensor_piece &high)
{
  const int lane = (int) threadIdx.x % WARP;
  const tensor_words of = {{low.of[0], high.of[0], low.of[1], high.of[1]}};
  const tensor_words rest = {{low.rest[0], high.rest[0], low.rest[1], high.rest[1]}};
  x[lane] = of;
  x[WARP + lane] = rest;
}

#if MLFF_TENSOR_CORES
/* sum[16][8] += x[16][16] w[16][8], columns 2 half and one more of each lane. */
MLFF_DEVICE void tensor_product(float sum[2][4], int half, const uint32_t *x, const uint32_t *w)
{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0][2 * half]), "+f"(sum[0][2 * half + 1]), "+f"(sum[1][2 * half]), "+f"(sum[1][2 * half + 1])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]), "r"(w[1]));
}
#else
/* Towards zero, as tensor cores leave a sum. */
MLFF_DEVICE float tensor_cut(double x)
{
  float cut = (float) x;
  uint32_t bits;
  memcpy(&bits, &cut, sizeof bits);
  if (fabs((double) cut) > fabs(x)) bits--; /* infinity becomes the largest number */
  memcpy(&cut, &bits, sizeof bits);
  return cut;
}
#endif

MLFF_DEVICE void tensor_load_x(tensor_x *part, const tensor_words *x)
{
#if MLFF_TENSOR_CORES
  const int lane = (int) threadIdx.x % WARP;
  part->of = x[lane];
  part->rest = x[WARP + lane];
#else
  part->at = x;
#endif
}

/* Of 16 columns those that become, of a lane of products of 16 x 8, number 2 q and 2 q + 1 of four. */
MLFF_DEVICE void tensor_load_w(tensor_w *part, const tensor_piece *w)
{
#if MLFF_TENSOR_CORES
  const int lane = (int) threadIdx.x % WARP, col = lane / PIECES;
  for (int q = 0; q < 2; q++) part->piece[q] = w[(col / 2 * 4 + col % 2 + 2 * q) * PIECES + lane % PIECES];
#else
  part->at = w;
#endif
}

/* sum[r][c] += sum_k x[r][k] w[k][c],  k < TENSOR_DEPTH, as the sum of three products, without that of the rests,
 * which is below rounding. All lanes of a warp call it. */
MLFF_DEVICE void tensor_add(tensor_sum *sum, const tensor_x &x, const tensor_w &w)
{
#if MLFF_TENSOR_CORES
#pragma unroll
  for (int q = 0; q < 2; q++) {
    tensor_product(sum->rest, q, x.rest.of, w.piece[q].of);
    tensor_product(sum->rest, q, x.of.of, w.piece[q].rest);
    tensor_product(sum->of, q, x.of.of, w.piece[q].of);
  }
#else
  const int lane = (int) threadIdx.x % WARP;
  float xs[2][2][TENSOR_DEPTH]; /* of two rows; their rests */
  for (int k = 0; k < TENSOR_DEPTH; k++)
    for (int r = 0; r < 2; r++) {
      const int owner = lane / PIECES * PIECES + k / PIECE, word = 2 * (k % PIECE / 2) + r;
      xs[r][0][k] = one_half(x.at[owner].of[word], k % 2);
      xs[r][1][k] = one_half(x.at[WARP + owner].of[word], k % 2);
    }
  for (int c = 0; c < 4; c++) {
    double of[2] = {0, 0}, rest_x[2] = {0, 0}, rest_w[2] = {0, 0};
    for (int k = 0; k < TENSOR_DEPTH; k++) {
      const tensor_piece &piece = w.at[(lane % 4 * 4 + c) * PIECES + k / PIECE];
      const double high = one_half(piece.of[k % PIECE / 2], k % 2), rest = one_half(piece.rest[k % PIECE / 2], k % 2);
      for (int r = 0; r < 2; r++) {
        of[r] += xs[r][0][k] * high;
        rest_x[r] += xs[r][1][k] * high;
        rest_w[r] += xs[r][0][k] * rest;
      }
    }
    for (int r = 0; r < 2; r++) {
      sum->rest[r][c] = tensor_cut(tensor_cut(sum->rest[r][c] + rest_x[r]) + rest_w[r]);
      sum->of[r][c] = tensor_cut(sum->of[r][c] + of[r]);
    }
  }
#endif
}

/* Of a sum and that with a rest. */
MLFF_DEVICE float tensor_total(float of, float rest)
{
  return of + rest * (1 / REST_SCALE);
}

/* ---- warpgroups: sm_90a alone ------------------------------------------------------------------------------------ */

/* Four warps multiply what lies in shared memory, while they do something else. A tile of `rows` rows (of x, or columns
 * of w) is [products / EIGHT][rows] of EIGHT halves; those of numbers and of rests are apart. */
enum { GROUP_WARPS = 4, GROUP_ROWS = 64, EIGHT = 8 };
typedef struct alignas(8) tensor_four {
  uint32_t of[PIECE / 2];
} tensor_four;

typedef struct alignas(16) tensor_eight {
  tensor_four of[EIGHT / PIECE];
} tensor_eight;

/* GROUP_ROWS x SIZE sums of a warpgroup: of[4 c + 2 r + q] is row 16 warp + lane / 4 + 8 r, column
 * 8 c + lane % 4 * 2 + q; rest: REST_SCALE times the sums with a rest. */
template <int SIZE> struct group_sum {
  float of[SIZE / 2], rest[SIZE / 2];
};

/* Where the numbers of piece p of a row are in a tile, or their rests. */
MLFF_DEVICE tensor_four *group_piece(tensor_eight *tile, int rows, int row, int p)
{
  return &tile[p / 2 * rows + row].of[p % 2];
}

MLFF_DEVICE float group_half(const tensor_eight &of, int k)
{
  return one_half(of.of[k / PIECE].of[k % PIECE / 2], k % 2);
}

/* Where a tile begins, as tensor cores want it: 16 bytes from row to row, and `rows` of them from EIGHT to EIGHT. One
 * more is the next row. */
#if MLFF_WARPGROUPS
typedef uint64_t group_tile;
#else
typedef const tensor_eight *group_tile;
#endif

MLFF_DEVICE group_tile group_tile_at(const tensor_eight *tile, int rows)
{
#if MLFF_WARPGROUPS
  return (uint64_t) __cvta_generic_to_shared(tile) / 16 | (uint64_t) rows << 16 | (uint64_t) EIGHT << 32;
#else
  (void) rows;
  return tile;
#endif
}

#if MLFF_WARPGROUPS
#define FOUR(s, q) "+f"(s[q]), "+f"(s[(q) + 1]), "+f"(s[(q) + 2]), "+f"(s[(q) + 3])
#define SIXTEEN(s, q) FOUR(s, q), FOUR(s, (q) + 4), FOUR(s, (q) + 8), FOUR(s, (q) + 12)

/* sum[64][SIZE] += x[64][16] w[16][SIZE], started. */
MLFF_DEVICE void group_product(float (&s)[32], uint64_t x, uint64_t w)
{
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
               "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
               "%32, %33, 1, 1, 1, 0, 0;"
               : SIXTEEN(s, 0), SIXTEEN(s, 16)
               : "l"(x), "l"(w));
}

MLFF_DEVICE void group_product(float (&s)[64], uint64_t x, uint64_t w)
{
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
               "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
               "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
               : SIXTEEN(s, 0), SIXTEEN(s, 16), SIXTEEN(s, 32), SIXTEEN(s, 48)
               : "l"(x), "l"(w));
}
#undef FOUR
#undef SIXTEEN
#endif

/* False, and the end of the kernel as a failure, in code for other GPUs. */
MLFF_DEVICE bool group_can_run()
{
#if MLFF_WARPGROUPS || MLFF_CUDASIM
  return true;
#else
  __trap();
  return false;
#endif
}

/* What threads have written to shared memory is there for tensor cores, behind the next barrier. */
MLFF_DEVICE void group_publish()
{
#if MLFF_WARPGROUPS
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* Starts sum[r][c] += sum_k x[r][k] w[k][c], k < TENSOR_DEPTH, as tensor_add does. x [2][GROUP_ROWS of x_rows],
 * w [2][SIZE]: tiles of numbers, and x_tile and w_tile behind them of rests. All threads of a warpgroup call it. */
template <int SIZE>
MLFF_DEVICE void group_add(group_sum<SIZE> *sum, group_tile x, int x_tile, int x_rows, group_tile w, int w_tile)
{
#if MLFF_WARPGROUPS
  (void) x_rows;
  group_product(sum->rest, x + (uint64_t) x_tile, w);
  group_product(sum->rest, x, w + (uint64_t) w_tile);
  group_product(sum->of, x, w);
#elif MLFF_CUDASIM
  const int t = (int) threadIdx.x;
  cudasim_product([sum, x, w, x_tile, x_rows, w_tile, t] {
    double of_x[2][TENSOR_DEPTH], rest_x[2][TENSOR_DEPTH]; /* of two rows */
    for (int k = 0; k < TENSOR_DEPTH; k++)
      for (int r = 0; r < 2; r++) {
        const tensor_eight *at = x + k / EIGHT * x_rows + 16 * (t / WARP % GROUP_WARPS) + t % WARP / 4 + 8 * r;
        of_x[r][k] = group_half(*at, k % EIGHT);
        rest_x[r][k] = group_half(at[x_tile], k % EIGHT);
      }
    for (int c = 0; c < SIZE / 4; c++) {
      double of[2] = {0, 0}, of_rest_x[2] = {0, 0}, of_rest_w[2] = {0, 0};
      for (int k = 0; k < TENSOR_DEPTH; k++) {
        const tensor_eight *at = w + k / EIGHT * SIZE + c / 2 * 8 + t % 4 * 2 + c % 2;
        const double of_w = group_half(*at, k % EIGHT), rest_w = group_half(at[w_tile], k % EIGHT);
        for (int r = 0; r < 2; r++) {
          of[r] += of_x[r][k] * of_w;
          of_rest_x[r] += rest_x[r][k] * of_w;
          of_rest_w[r] += of_x[r][k] * rest_w;
        }
      }
      for (int r = 0; r < 2; r++) {
        float *const own = &sum->of[c / 2 * 4 + 2 * r + c % 2], *const rest = &sum->rest[c / 2 * 4 + 2 * r + c % 2];
        *rest = tensor_cut(tensor_cut(*rest + of_rest_x[r]) + of_rest_w[r]);
        *own = tensor_cut(*own + of[r]);
      }
    }
  });
#else
  (void) sum, (void) x, (void) x_tile, (void) x_rows, (void) w, (void) w_tile;
#endif
}

/* Registers of sums are tensor cores' from here on; and a group of products ends. */
MLFF_DEVICE void group_begin()
{
#if MLFF_WARPGROUPS
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

MLFF_DEVICE void group_commit()
{
#if MLFF_WARPGROUPS
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#elif MLFF_CUDASIM
  cudasim_commit_products();
#endif
}

/* All groups of products but the last N are done. */
template <int N> MLFF_DEVICE void group_wait()
{
#if MLFF_WARPGROUPS
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#elif MLFF_CUDASIM
  cudasim_wait_for_products(N);
#endif
}

#endif
#endif
