/* cuda_fp16.h: half precision of the simulated device. Operations are computed in float and rounded to nearest even,
 * which gives the bits of a device for + - * / and fma. */
#ifndef MLFF_CUDASIM_CUDA_FP16_H
#define MLFF_CUDASIM_CUDA_FP16_H

#include "small_float.h"

typedef cudasim_small_float<5, 10> __half;
typedef __half half;

static inline __half __float2half(float x)
{
  return __half(x);
}
static inline float __half2float(__half x)
{
  return (float) x;
}
static inline __half __hadd(__half a, __half b)
{
  return a + b;
}
static inline __half __hmul(__half a, __half b)
{
  return a * b;
}
/* One rounding: the product of two halves is exact in double. */
static inline __half __hfma(__half a, __half b, __half c)
{
  return __half((double) (float) a * (double) (float) b + (double) (float) c);
}

#endif
