/* vectors.h: numbers that are read and written at once, and copies to shared memory that are waited for later. */
#ifndef MLFF_CUDA_VECTORS_H
#define MLFF_CUDA_VECTORS_H

#include "ops_cuda.h"

#include <cuda_pipeline_primitives.h>

#define VECTORS MLFF_CUDA(vectors)

namespace VECTORS { /* structures differ between element types */

template <int N> struct alignas(N * sizeof(real) < 16 ? N * sizeof(real) : 16) vector_of {
  real of[N];
};

/* x is a multiple of the alignment of N numbers. */
template <int N> MLFF_DEVICE vector_of<N> load_vector(const real *x)
{
  return *(const vector_of<N> *) (const void *) x;
}

template <int N> MLFF_DEVICE void store_vector(real *x, const vector_of<N> &v)
{
  *(vector_of<N> *) (void *) x = v;
}

/* Starts copying N numbers to shared memory; nothing is there before they were waited for. */
template <int N> MLFF_DEVICE void copy_ahead(real *shared, const real *global)
{
  __pipeline_memcpy_async(shared, global, N * sizeof(real));
}

} // namespace VECTORS

using namespace VECTORS;

#endif
