/* linear_tile.h: arguments and epilogue that the GEMM kernels of linear.cu and linear_mixed.h share. */
#ifndef MLFF_CUDA_LINEAR_TILE_H
#define MLFF_CUDA_LINEAR_TILE_H

#include "atoms.h"
#include "vectors.h"

using namespace ATOMS;

namespace { /* kernels and their arguments differ between element types */

/* Values of a packed weight matrix. */
static __host__ __device__ __forceinline__ int64_t n_weights(int n_in, int n_out)
{
  return (int64_t) padded_rows(n_in) * n_out;
}

/* The GEMMs of one launch. */
enum { MOST_GEMMS = 32 };
template <int N_GEMMS> struct linear_batch {
  linear_arrays gemms[N_GEMMS];
};

/* finish_value of columns col .. col + 3, those below n_out. */
template <int ACT> MLFF_DEVICE void finish_four(const linear_arrays &a, const vector_of<4> &sum, int64_t row, int col)
{
  if (!a.y_in_vectors || col + 4 > a.n_out) {
#pragma unroll
    for (int q = 0; q < 4; q++)
      if (col + q < a.n_out) finish_value<ACT>(a, sum.v[q], row, col + q);
    return;
  }
  vector_of<4> v = sum, slope;
  real *y = a.y + row * a.ldy + col;
  if ((ACT == MLFF_ACT_NONE || ACT == MLFF_ACT_CELU) && a.scale) {
    const vector_of<4> scale = load_vector<4>(a.scale + row * a.ld_scale + col);
#pragma unroll
    for (int q = 0; q < 4; q++)
      v.v[q] *= ACT == MLFF_ACT_CELU ? celu_slope(scale.v[q], 1 / (real) a.alpha) : scale.v[q];
  } else if (ACT != MLFF_ACT_NONE) {
#pragma unroll
    for (int q = 0; q < 4; q++) v.v[q] = activated<ACT>(ACT, (real) a.alpha, v.v[q], &slope.v[q]);
    if (a.slope) store_vector<4>(a.slope + row * a.ld_slope + col, slope);
  }
  if (a.accumulate) {
    const vector_of<4> previous = load_vector<4>(y);
#pragma unroll
    for (int q = 0; q < 4; q++) v.v[q] += previous.v[q];
  }
  store_vector<4>(y, v);
}

/* Epilogue of one output tile, [ROWS][COLS + PAD] accumulators in shared memory, bias included. A thread owns four
 * columns of some rows. */
template <int ACT, int ROWS, int COLS, int PAD, int THREADS>
MLFF_DEVICE void epilogue(const linear_arrays &a, int64_t row0, int col0, const real *tile)
{
  enum { PER_ROW = COLS / 4, ROW_STEP = THREADS / PER_ROW };
  const int col = (int) threadIdx.x % PER_ROW * 4;
  const int n_rows = a.n_rows - row0 < ROWS ? (int) (a.n_rows - row0) : ROWS;
  __syncthreads();
#pragma unroll 2
  for (int row = (int) threadIdx.x / PER_ROW; row < n_rows; row += ROW_STEP)
    finish_four<ACT>(a, load_vector<4>(tile + row * (COLS + PAD) + col), row0 + row, col0 + col);
}

} // namespace

#endif
