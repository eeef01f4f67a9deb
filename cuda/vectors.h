/* vectors.h: how memory is read: several numbers at once, copies to shared memory that are waited for later, pointers
 * from shared memory. */
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
template <int N> MLFF_DEVICE void copy_async(real *shared, const real *global)
{
  __pipeline_memcpy_async(shared, global, N * sizeof(real));
}

/* Pointers that come from shared memory point to global memory, which the compiler could not know. */
template <typename T> MLFF_DEVICE void set_global(T *&p)
{
#if MLFF_CUDASIM
  (void) p;
#else
  __builtin_assume(__isGlobal(p));
#endif
}

} // namespace VECTORS

using namespace VECTORS;

#endif
