/* cuda_bf16.h: bfloat16 of the simulated device; see cuda_fp16.h. */
#ifndef MLFF_CUDASIM_CUDA_BF16_H
#define MLFF_CUDASIM_CUDA_BF16_H

#include "small_float.h"

typedef cudasim_small_float<8, 7> __nv_bfloat16;

static inline __nv_bfloat16 __float2bfloat16(float x)
{
  return __nv_bfloat16(x);
}
static inline float __bfloat162float(__nv_bfloat16 x)
{
  return (float) x;
}

#endif
