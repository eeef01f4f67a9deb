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

MLFF_DEVICE float tensor_total(const tensor_sum &sum, int r, int c)
{
  return sum.of[r][c] + sum.rest[r][c] * (1 / REST_SCALE);
}

#endif
#endif
