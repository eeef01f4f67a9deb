/* ops_cuda.h: declarations of the ops of the CUDA backend. Every file of ops is compiled twice, with
 * MLFF_REAL_IS_DOUBLE=0 (names *_f32) and 1 (*_f64). Twin: src/mlff/backend/cpu/cpu.h and simd.h. */
#ifndef MLFF_OPS_CUDA_H
#define MLFF_OPS_CUDA_H

#include "launch.h"

#if MLFF_REAL_IS_DOUBLE
typedef double real;
#define MLFF_CUDA(name) name##_f64
#else
typedef float real;
#define MLFF_CUDA(name) name##_f32
#endif

typedef real mlff_value;
#define MLFF_MATH static __host__ __device__ __forceinline__
#define MLFF_DEVICE static __device__ __forceinline__

#include "../src/mlff/backend/ops_math.h"

enum { WARP = 32 };
#define FULL_WARP 0xffffffffu

/* Math functions of the element type. */
#if MLFF_REAL_IS_DOUBLE
#define REAL_FUNCTION(name)            \
  MLFF_DEVICE real real_##name(real x) \
  {                                    \
    return name(x);                    \
  }
#else
#define REAL_FUNCTION(name)            \
  MLFF_DEVICE real real_##name(real x) \
  {                                    \
    return name##f(x);                 \
  }
#endif
REAL_FUNCTION(exp)
REAL_FUNCTION(log)
REAL_FUNCTION(log1p)
REAL_FUNCTION(sqrt)
REAL_FUNCTION(sin)
REAL_FUNCTION(cos)

/* 1/(1 + exp(-x)); saturates at 0 and 1, propagates NaN */
MLFF_DEVICE real real_sigmoid(real x)
{
  return (real) 1 / ((real) 1 + real_exp(-x));
}

/* Shifted softplus log(1 + exp(x)) - ln 2, with x - ln 2 above 20 as in PyTorch; NaN stays NaN. The shift by ln 2 makes
 * log1p unnecessary. Twin: vssp of cpu/simd.h. */
MLFF_DEVICE real real_ssp(real x)
{
  const real smooth = (x < 0 ? (real) 0 : x) + real_log((real) 1 + real_exp(x < 0 ? x : -x));
  return (x > (real) 20 ? x : smooth) - (real) 0.69314718055994530942;
}

/* Sum over the 32 lanes, in a fixed order, in all of them. */
template <typename T> MLFF_DEVICE T warp_sum(T x)
{
  for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(FULL_WARP, x, offset);
  return x;
}

#define OP(name, returns, parameters, arguments, span, forecast, bodies) returns MLFF_CUDA(name##_cuda) parameters;
#define OP_HOST(...)
#include "../src/mlff/backend/op_list.h"

#endif
