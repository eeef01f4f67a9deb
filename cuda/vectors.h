/* vectors.h: vectorised loads and stores, asynchronous copies to shared memory, pointers loaded from shared memory. */
#ifndef MLFF_CUDA_VECTORS_H
#define MLFF_CUDA_VECTORS_H

#include "ops_cuda.h"

#include <cuda_pipeline_primitives.h>

#define VECTORS MLFF_CUDA(vectors)

namespace VECTORS { /* structures differ between element types */

template <int N> struct alignas(N * sizeof(real) < 16 ? N * sizeof(real) : 16) vector_of {
  real v[N];
};

/* x: aligned to vector_of<N>. */
template <int N> MLFF_DEVICE vector_of<N> load_vector(const real *x)
{
  return *(const vector_of<N> *) (const void *) x;
}

template <int N> MLFF_DEVICE void store_vector(real *x, const vector_of<N> &v)
{
  *(vector_of<N> *) (void *) x = v;
}

/* Asynchronous copy of N elements to shared memory, valid after a wait. */
template <int N> MLFF_DEVICE void copy_async(real *shared, const real *global)
{
  __pipeline_memcpy_async(shared, global, N * sizeof(real));
}

/* Tells the compiler that a pointer loaded from shared memory points to global memory. */
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
