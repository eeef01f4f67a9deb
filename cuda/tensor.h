/* tensor.h: products of matrices on tensor cores, for `precision mixed`: inputs taken as the sum of two numbers of TF32
 * (10 bits of mantissa, the exponents of float), the rounding of a number and the upper bits of what is left; sums in
 * float. Tensor cores cut sums off where others round, so that long sums become too small: a few products are summed
 * there, and these sums are added up as all others (tensor_gather). The only place that knows of tensor cores; where
 * there are none, and on the simulated device, the same numbers are rounded, summed one by one and cut off.
 */
#ifndef MLFF_CUDA_TENSOR_H
#define MLFF_CUDA_TENSOR_H

#include "ops_cuda.h"

#if !MLFF_REAL_IS_DOUBLE

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MLFF_TENSOR_CORES 1
#else
#define MLFF_TENSOR_CORES 0
#endif

enum { TENSOR_SIZE = 16, TENSOR_DEPTH = 8 };

/* TENSOR_SIZE x TENSOR_SIZE sums, spread over the lanes of a warp as two products of 16 x 8 have them: of half h, rows
 * lane / 4 and 8 more, columns 8 h + lane % 4 * 2 and one more. Without tensor cores, number q is element lane + 32 q,
 * row by row. */
typedef struct tensor_sum {
  float of[TENSOR_SIZE * TENSOR_SIZE / WARP];
} tensor_sum;

/* The part of a lane of x [TENSOR_DEPTH][ld] or w [TENSOR_DEPTH][ld] with its rests; without tensor cores, where it is
 * in shared memory. */
typedef struct tensor_part {
#if MLFF_TENSOR_CORES
  uint32_t of[4], rest[4];
#else
  const float *at;
  int ld, unused;
#endif
} tensor_part;

MLFF_DEVICE void tensor_zero(tensor_sum *sum)
{
#pragma unroll
  for (int q = 0; q < TENSOR_SIZE * TENSOR_SIZE / WARP; q++) sum->of[q] = 0;
}

/* total += sum, and sum = 0 */
MLFF_DEVICE void tensor_gather(tensor_sum *total, tensor_sum *sum)
{
#pragma unroll
  for (int q = 0; q < TENSOR_SIZE * TENSOR_SIZE / WARP; q++) total->of[q] += sum->of[q];
  tensor_zero(sum);
}

/* To the nearest number with 10 bits of mantissa, ties away from zero; infinity stays, NaN may become zero. */
MLFF_DEVICE float tensor_round(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x1000u) & 0xffffe000u;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

/* x = its rounding, rest = what tensor cores take of what is left: its upper 19 bits. NaN stays in one of them. */
MLFF_DEVICE void tensor_split(float *x, float *rest)
{
  const float high = tensor_round(*x), left = *x - high;
  uint32_t bits;
  memcpy(&bits, &left, sizeof bits);
  bits = left == left ? bits & 0xffffe000u : bits;
  memcpy(rest, &bits, sizeof bits);
  *x = high;
}

#if !MLFF_TENSOR_CORES
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

#if MLFF_TENSOR_CORES
/* As tensor_split; tensor cores leave the lower bits away. */
MLFF_DEVICE void tensor_take(tensor_part *part, int q, float x)
{
  const float high = tensor_round(x);
  part->of[q] = __float_as_uint(high);
  part->rest[q] = __float_as_uint(x - high);
}

/* sum[16][8] += x[16][8] w[8][8] */
MLFF_DEVICE void tensor_product(float *sum, const uint32_t *x, const uint32_t *w)
{
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]), "r"(w[1]));
}
#endif

/* The part of a lane of x[k][r], r < TENSOR_SIZE, k < TENSOR_DEPTH, in shared memory. */
MLFF_DEVICE void tensor_load_x(tensor_part *part, const float *x, int ld)
{
#if MLFF_TENSOR_CORES
  const int lane = (int) threadIdx.x % WARP;
#pragma unroll
  for (int q = 0; q < 4; q++) tensor_take(part, q, x[(lane % 4 + q / 2 * 4) * ld + lane / 4 + q % 2 * 8]);
#else
  part->at = x;
  part->ld = ld;
#endif
}

/* The part of a lane of w[k][c], c < TENSOR_SIZE, k < TENSOR_DEPTH, in shared memory. */
MLFF_DEVICE void tensor_load_w(tensor_part *part, const float *w, int ld)
{
#if MLFF_TENSOR_CORES
  const int lane = (int) threadIdx.x % WARP;
#pragma unroll
  for (int q = 0; q < 4; q++) tensor_take(part, q, w[(lane % 4 + q % 2 * 4) * ld + lane / 4 + q / 2 * 8]);
#else
  part->at = w;
  part->ld = ld;
#endif
}

/* sum[r][c] += sum_k x[k][r] w[k][c],  k < TENSOR_DEPTH, as the sum of three products, without that of the rests,
 * which is below rounding. All lanes of a warp call it. */
MLFF_DEVICE void tensor_add(tensor_sum *sum, const tensor_part &x, const tensor_part &w)
{
#if MLFF_TENSOR_CORES
#pragma unroll
  for (int half = 0; half < 2; half++) {
    tensor_product(sum->of + 4 * half, x.rest, w.of + 2 * half);
    tensor_product(sum->of + 4 * half, x.of, w.rest + 2 * half);
    tensor_product(sum->of + 4 * half, x.of, w.of + 2 * half);
  }
#else
  for (int q = 0; q < TENSOR_SIZE * TENSOR_SIZE / WARP; q++) {
    const int at = (int) threadIdx.x % WARP + WARP * q, row = at / TENSOR_SIZE, col = at % TENSOR_SIZE;
    double rests_x = 0, rests_w = 0, of = 0;
    for (int k = 0; k < TENSOR_DEPTH; k++) {
      float a = x.at[k * x.ld + row], b = w.at[k * w.ld + col], ra, rb;
      tensor_split(&a, &ra);
      tensor_split(&b, &rb);
      rests_x += (double) ra * b;
      rests_w += (double) a * rb;
      of += (double) a * b;
    }
    sum->of[q] = tensor_cut(tensor_cut(tensor_cut(sum->of[q] + rests_x) + rests_w) + of);
  }
#endif
}

/* y[r ld + c] = sum[r][c], in shared memory. */
MLFF_DEVICE void tensor_store(const tensor_sum *sum, float *y, int ld)
{
  const int lane = (int) threadIdx.x % WARP;
#pragma unroll
  for (int q = 0; q < TENSOR_SIZE * TENSOR_SIZE / WARP; q++) {
#if MLFF_TENSOR_CORES
    const int row = lane / 4 + q / 2 % 2 * 8, col = q / 4 * 8 + lane % 4 * 2 + q % 2;
#else
    const int row = (lane + WARP * q) / TENSOR_SIZE, col = (lane + WARP * q) % TENSOR_SIZE;
#endif
    y[row * ld + col] = sum->of[q];
  }
}

#endif
#endif
