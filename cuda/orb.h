/* orb.h: what the files of Orb share. */
#ifndef MLFF_CUDA_ORB_H
#define MLFF_CUDA_ORB_H

#include "vectors.h"

enum { ROW_WARPS = 4 }; /* of a block, in kernels with a warp for each row */

/* Kernels that are templates read N numbers of a row at once: 4 where widths are multiples of that, else 1. */
enum { VECTOR = 4 };
static inline bool is_in_vectors(int64_t width)
{
  return width % VECTOR == 0;
}

namespace { /* functions differ between element types */

/* Mean and 1/sqrt(variance + epsilon) of a row, to all lanes. */
template <int N>
MLFF_DEVICE void row_moments(const real *x, int width, double epsilon, int lane, real *mean, real *scale)
{
  real sum = 0, square = 0;
#pragma unroll 8 / N
  for (int k = lane * N; k < width; k += WARP * N) {
    const vector_of<N> v = load_vector<N>(x + k);
#pragma unroll
    for (int c = 0; c < N; c++) sum += v.of[c];
  }
  *mean = warp_sum(sum) / (real) width;
#pragma unroll 8 / N
  for (int k = lane * N; k < width; k += WARP * N) {
    const vector_of<N> v = load_vector<N>(x + k);
#pragma unroll
    for (int c = 0; c < N; c++) square += (v.of[c] - *mean) * (v.of[c] - *mean);
  }
  *scale = (real) 1 / real_sqrt(warp_sum(square) / (real) width + (real) epsilon);
}

} // namespace

/* Of an edge, in mlff_orb_graph.scratch: mean and 1/sqrt(variance + epsilon) of the row that its message is made of,
 * and a_receive and a_send. */
enum { FACTOR_MEAN = 0, FACTOR_SCALE, FACTOR_RECEIVE, FACTOR_SEND, N_FACTORS };

#endif
