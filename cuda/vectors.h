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
template <int N> MLFF_DEVICE void copy_ahead(real *shared, const real *global)
{
  __pipeline_memcpy_async(shared, global, N * sizeof(real));
}

/* The same of numbers that other warps of the multiprocessor are likely to want: they stay in its cache, which copies
 * of 16 bytes go past otherwise. */
template <int N> MLFF_DEVICE void copy_shared_ahead(real *shared, const real *global)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((unsigned) __cvta_generic_to_shared(shared)),
               "l"(global), "n"(N * sizeof(real))
               : "memory");
#else
  copy_ahead<N>(shared, global);
#endif
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
