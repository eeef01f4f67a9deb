/* simd.h: one vector type for all instruction sets and two element types.
 *
 * Every op file of this folder is compiled several times: MLFF_REAL_IS_DOUBLE in {0, 1} times one of
 * MLFF_KERNELS_GENERIC, on x86-64 MLFF_KERNELS_AVX2 and MLFF_KERNELS_AVX512, on aarch64 MLFF_KERNELS_NEON,
 * MLFF_KERNELS_SVE256 and MLFF_KERNELS_SVE512. Code is written once with `real`, `vreal` (MLFF_VLEN reals) and the
 * helpers below; MLFF_CPU(f) gives each function its own name in each compilation. Vectors are GCC/Clang vector
 * extensions, so + - * / and comparisons work on them; a comparison gives a `vmask` (all bits set where true). For NEON
 * and SVE of a known length they are all that is needed: compilers make single instructions of these functions.
 */
#ifndef MLFF_SIMD_H
#define MLFF_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if MLFF_KERNELS_AVX512
#define MLFF_VBYTES 64
#if MLFF_KERNELS_AMX
#define MLFF_KERNELS_NAME amx
#elif MLFF_KERNELS_AVX512_BF16
#define MLFF_KERNELS_NAME avx512_bf16
#else
#define MLFF_KERNELS_NAME avx512
#endif
#elif MLFF_KERNELS_AVX2
#define MLFF_VBYTES 32
#define MLFF_KERNELS_NAME avx2
#elif MLFF_KERNELS_SVE512
#define MLFF_VBYTES 64
#define MLFF_KERNELS_NAME sve512
#elif MLFF_KERNELS_SVE256
#define MLFF_VBYTES 32
#define MLFF_KERNELS_NAME sve256
#elif MLFF_KERNELS_NEON
#define MLFF_VBYTES 16
#define MLFF_KERNELS_NAME neon
#else
#define MLFF_VBYTES 16
#define MLFF_KERNELS_NAME generic
#endif
/* Vector registers: 32, or 16 of x86-64 before AVX-512. */
#define MLFF_32_REGISTERS (MLFF_KERNELS_AVX512 || MLFF_KERNELS_NEON || MLFF_KERNELS_SVE256 || MLFF_KERNELS_SVE512)
#if MLFF_KERNELS_AVX512 || MLFF_KERNELS_AVX2
#include <immintrin.h>
#endif

#if MLFF_REAL_IS_DOUBLE
typedef double real;
typedef int64_t mlff_vint_lane;
typedef uint64_t mlff_vbits_lane;
#define MLFF_REAL_NAME f64
#else
typedef float real;
typedef int32_t mlff_vint_lane;
typedef uint32_t mlff_vbits_lane;
#define MLFF_REAL_NAME f32
#endif

#define MLFF_PASTE4_(a, b, c, d) a##b##c##d
#define MLFF_PASTE_(name, r, k) MLFF_PASTE4_(name##_, r, _, k)
#define MLFF_CPU(name) MLFF_PASTE_(name, MLFF_REAL_NAME, MLFF_KERNELS_NAME)

#define MLFF_VLEN ((int) (MLFF_VBYTES / sizeof(real)))
#define MLFF_INLINE static inline __attribute__((always_inline))

typedef real vreal __attribute__((vector_size(MLFF_VBYTES)));
typedef mlff_vint_lane vmask __attribute__((vector_size(MLFF_VBYTES)));
typedef mlff_vbits_lane vbits __attribute__((vector_size(MLFF_VBYTES))); /* wraps around when it overflows */
typedef real mlff_vreal_unaligned __attribute__((vector_size(MLFF_VBYTES), aligned(sizeof(real)), may_alias));

MLFF_INLINE vreal vload(const real *p)
{
  return *(const mlff_vreal_unaligned *) p;
}

MLFF_INLINE void vstore(real *p, vreal v)
{
  *(mlff_vreal_unaligned *) p = v;
}

MLFF_INLINE vreal vset(real x)
{
  return x - (vreal){0}; /* x - 0 is x, also for -0 and NaN, so compilers make this one broadcast; 0 + x is not */
}

/* First n (0..MLFF_VLEN) lanes from p, zeros after; p need not be readable behind them. */
MLFF_INLINE vreal vload_part(const real *p, int n)
{
  vreal v = {0};
  memcpy(&v, p, (size_t) n * sizeof(real));
  return v;
}

MLFF_INLINE void vstore_part(real *p, vreal v, int n)
{
  memcpy(p, &v, (size_t) n * sizeof(real));
}

MLFF_INLINE vreal vselect(vmask mask, vreal a, vreal b)
{
  return (vreal) (((vmask) a & mask) | ((vmask) b & ~mask));
}

/* a < b ? a : b and a > b ? a : b: b when either is NaN, as the processor's own instructions have it. */
#if MLFF_KERNELS_AVX512 && MLFF_REAL_IS_DOUBLE
#define MLFF_VMINMAX(op) (vreal) _mm512_##op##_pd((__m512d) a, (__m512d) b)
#elif MLFF_KERNELS_AVX512
#define MLFF_VMINMAX(op) (vreal) _mm512_##op##_ps((__m512) a, (__m512) b)
#elif MLFF_KERNELS_AVX2 && MLFF_REAL_IS_DOUBLE
#define MLFF_VMINMAX(op) (vreal) _mm256_##op##_pd((__m256d) a, (__m256d) b)
#elif MLFF_KERNELS_AVX2
#define MLFF_VMINMAX(op) (vreal) _mm256_##op##_ps((__m256) a, (__m256) b)
#else
#define MLFF_VMINMAX(op) MLFF_VMINMAX_##op
#define MLFF_VMINMAX_min vselect(a < b, a, b)
#define MLFF_VMINMAX_max vselect(a > b, a, b)
#endif

MLFF_INLINE vreal vmin(vreal a, vreal b)
{
  return MLFF_VMINMAX(min);
}

MLFF_INLINE vreal vmax(vreal a, vreal b)
{
  return MLFF_VMINMAX(max);
}

/* Sum of all lanes, always in the same order. */
MLFF_INLINE real vsum(vreal v)
{
#if MLFF_KERNELS_AVX512 && MLFF_REAL_IS_DOUBLE
  return _mm512_reduce_add_pd((__m512d) v);
#elif MLFF_KERNELS_AVX512
  return _mm512_reduce_add_ps((__m512) v);
#else
  real lane[MLFF_VLEN];
  memcpy(lane, &v, sizeof v);
  for (int n = MLFF_VLEN / 2; n > 0; n /= 2)
    for (int k = 0; k < n; k++) lane[k] += lane[k + n];
  return lane[0];
#endif
}

MLFF_INLINE vreal vsqrt(vreal v)
{
#if MLFF_KERNELS_AVX512 && MLFF_REAL_IS_DOUBLE
  return (vreal) _mm512_sqrt_pd((__m512d) v);
#elif MLFF_KERNELS_AVX512
  return (vreal) _mm512_sqrt_ps((__m512) v);
#elif MLFF_KERNELS_AVX2 && MLFF_REAL_IS_DOUBLE
  return (vreal) _mm256_sqrt_pd((__m256d) v);
#elif MLFF_KERNELS_AVX2
  return (vreal) _mm256_sqrt_ps((__m256) v);
#else
  vreal y;
  for (int k = 0; k < MLFF_VLEN; k++)
    y[k] = MLFF_REAL_IS_DOUBLE ? (real) sqrt((double) v[k]) : (real) sqrtf((float) v[k]);
  return y;
#endif
}

/* exp(x): x is clamped to where the result is a normal number; relative error 1e-7 (float), 3e-16 (double).
 * x = n ln 2 + r with |r| <= ln(2)/2, exp(r) by its Taylor series, 2^n through the exponent bits. NaN stays NaN. */
MLFF_INLINE vreal vexp(vreal x)
{
#if MLFF_REAL_IS_DOUBLE
  enum { DEGREE = 13, MANTISSA = 52, BIAS = 1023 };
  const real low = -708.0, high = 709.0, magic = 6755399441055744.0; /* 1.5 * 2^52 */
  const real ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
#else
  enum { DEGREE = 7, MANTISSA = 23, BIAS = 127 };
  const real low = -87.0f, high = 88.0f, magic = 12582912.0f; /* 1.5 * 2^23 */
  const real ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
#endif
  static const double inverse_factorial[14] =
      {1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
       1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  const vreal y = vmin(vset(high), vmax(vset(low), x));
  const vreal shifted = y * (real) 1.4426950408889634 + magic; /* n in the low bits of the mantissa */
  const vreal n = shifted - magic;
  const vreal r = (y - n * ln2_high) - n * ln2_low;
  vreal p = vset((real) inverse_factorial[DEGREE]);
#pragma GCC unroll 16
  for (int k = DEGREE - 1; k >= 0; k--) p = p * r + (real) inverse_factorial[k];
  const vbits exponent = ((vbits) shifted - (vbits) vset(magic) + BIAS) << MANTISSA;
  return p * (vreal) exponent;
}

/* 1 / (1 + exp(-x)) */
MLFF_INLINE vreal vsigmoid(vreal x)
{
  return (real) 1 / ((real) 1 + vexp(-x));
}

/* log(1 + y) for 0 <= y <= 1: 2 artanh(y/(2 + y)) by its series in s^2 <= 1/9; to rounding, also for small y. */
MLFF_INLINE vreal vlog1p(vreal y)
{
#if MLFF_REAL_IS_DOUBLE
  enum { TERMS = 17 };
#else
  enum { TERMS = 8 };
#endif
  const vreal s = y / (y + (real) 2), s2 = s * s;
  vreal p = vset((real) (2.0 / (2 * TERMS - 1)));
#pragma GCC unroll 17
  for (int k = TERMS - 2; k >= 0; k--) p = p * s2 + (real) (2.0 / (2 * k + 1));
  return p * s;
}

/* Shifted softplus log(1 + exp(x)) - ln 2, with x - ln 2 above 20 as in PyTorch (a step of 2e-9). NaN stays NaN. */
MLFF_INLINE vreal vssp(vreal x)
{
  const real ln2 = (real) 0.69314718055994530942;
  const vreal smooth = vmax(vset(0), x) + vlog1p(vexp(vmin(x, -x)));
  return vselect(x > (real) 20, x, smooth) - ln2;
}

#endif
