/* tensor.h: products of matrices on tensor cores, for `precision mixed`: inputs taken as the sum of two numbers of TF32
 * (10 bits of mantissa, the exponents of float), the rounding of a number and that of what is left; sums in float. The
 * only place that knows of tensor cores; where there are none, and on the simulated device, the same numbers are
 * rounded and summed one by one.
 */
#ifndef MLFF_CUDA_TENSOR_H
#define MLFF_CUDA_TENSOR_H

#include "ops_cuda.h"

#if !MLFF_REAL_IS_DOUBLE

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MLFF_TENSOR_CORES 1
#include <mma.h>
#else
#define MLFF_TENSOR_CORES 0
#endif

enum { TENSOR_SIZE = 16, TENSOR_DEPTH = 8 };

/* TENSOR_SIZE x TENSOR_SIZE sums, spread over the lanes of a warp. */
typedef struct tensor_sum {
#if MLFF_TENSOR_CORES
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, TENSOR_SIZE, TENSOR_SIZE, TENSOR_DEPTH, float> of;
#else
  float of[TENSOR_SIZE * TENSOR_SIZE / WARP]; /* element k is number lane + 32 k of the matrix, row by row */
#endif
} tensor_sum;

MLFF_DEVICE void tensor_zero(tensor_sum *sum)
{
#if MLFF_TENSOR_CORES
  nvcuda::wmma::fill_fragment(sum->of, 0.0f);
#else
  for (int q = 0; q < TENSOR_SIZE * TENSOR_SIZE / WARP; q++) sum->of[q] = 0;
#endif
}

/* To the nearest number with 10 bits of mantissa, ties away from zero, as the device does; NaN and infinity stay. */
MLFF_DEVICE float tensor_round(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  bits = (bits + 0x1000u) & 0xffffe000u;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

/* x = its rounding, rest = the rounding of what is left. */
MLFF_DEVICE void tensor_split(float *x, float *rest)
{
#if MLFF_TENSOR_CORES
  const float high = nvcuda::wmma::__float_to_tf32(*x);
  *rest = nvcuda::wmma::__float_to_tf32(*x - high);
#else
  const float high = tensor_round(*x);
  *rest = tensor_round(*x - high);
#endif
  *x = high;
}

/* sum[r][c] += sum_k x[k][r] w[k][c],  k < TENSOR_DEPTH, as the sum of three products, without that of the rests,
 * which is below rounding. All lanes of a warp call it. x [TENSOR_DEPTH][ldx] and w [TENSOR_DEPTH][ldw] are in shared
 * memory, aligned to 32 bytes; ldx and ldw are multiples of 4. */
MLFF_DEVICE void tensor_add(tensor_sum *sum, const float *x, int ldx, const float *w, int ldw)
{
#if MLFF_TENSOR_CORES
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, TENSOR_SIZE, TENSOR_SIZE, TENSOR_DEPTH, wmma::precision::tf32, wmma::col_major> a, ra;
  wmma::fragment<wmma::matrix_b, TENSOR_SIZE, TENSOR_SIZE, TENSOR_DEPTH, wmma::precision::tf32, wmma::row_major> b, rb;
  wmma::load_matrix_sync(a, x, (unsigned) ldx);
  wmma::load_matrix_sync(b, w, (unsigned) ldw);
  for (int q = 0; q < a.num_elements; q++) tensor_split(&a.x[q], &ra.x[q]);
  for (int q = 0; q < b.num_elements; q++) tensor_split(&b.x[q], &rb.x[q]);
  wmma::mma_sync(sum->of, ra, b, sum->of);
  wmma::mma_sync(sum->of, a, rb, sum->of);
  wmma::mma_sync(sum->of, a, b, sum->of);
#else
  for (int q = 0; q < TENSOR_SIZE * TENSOR_SIZE / WARP; q++) {
    const int at = (int) threadIdx.x % WARP + WARP * q, row = at / TENSOR_SIZE, col = at % TENSOR_SIZE;
    for (int k = 0; k < TENSOR_DEPTH; k++) {
      float a = x[k * ldx + row], b = w[k * ldw + col], ra, rb;
      tensor_split(&a, &ra);
      tensor_split(&b, &rb);
      sum->of[q] += ra * b + a * rb;
      sum->of[q] += a * b;
    }
  }
#endif
}

/* y[r][c] = sum[r][c], y [TENSOR_SIZE][ldy] in shared memory, as in tensor_add. */
MLFF_DEVICE void tensor_store(const tensor_sum *sum, float *y, int ldy)
{
#if MLFF_TENSOR_CORES
  nvcuda::wmma::store_matrix_sync(y, sum->of, (unsigned) ldy, nvcuda::wmma::mem_row_major);
#else
  for (int q = 0; q < TENSOR_SIZE * TENSOR_SIZE / WARP; q++) {
    const int at = (int) threadIdx.x % WARP + WARP * q;
    y[at / TENSOR_SIZE * ldy + at % TENSOR_SIZE] = sum->of[q];
  }
#endif
}

/* y[c][r] = sum[r][c], otherwise as tensor_store. */
MLFF_DEVICE void tensor_store_columns(const tensor_sum *sum, float *y, int ldy)
{
#if MLFF_TENSOR_CORES
  nvcuda::wmma::store_matrix_sync(y, sum->of, (unsigned) ldy, nvcuda::wmma::mem_col_major);
#else
  for (int q = 0; q < TENSOR_SIZE * TENSOR_SIZE / WARP; q++) {
    const int at = (int) threadIdx.x % WARP + WARP * q;
    y[at % TENSOR_SIZE * ldy + at / TENSOR_SIZE] = sum->of[q];
  }
#endif
}

#endif
#endif
