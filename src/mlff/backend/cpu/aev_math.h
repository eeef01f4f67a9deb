/* aev_math.h: vector functions that only the AEV needs. */
#ifndef MLFF_AEV_MATH_H
#define MLFF_AEV_MATH_H

#include "simd.h"

/* ln(1 - q) for 0 <= q < 1, which must not be so close to 1 that 1 - q is subnormal; relative error 2e-7 (float), 5e-16
 * (double), also for small q.
 * 1 - q = 2^n m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m-1)/(m+1), |s| < 0.172, by its series. */
MLFF_INLINE vreal vlog1m(vreal q)
{
#if MLFF_REAL_IS_DOUBLE
  enum { TERMS = 11, MANTISSA = 52 };
  const mlff_vint_lane sqrt_half = 0x3fe6a09e667f3bcd;
  const real ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
#else
  enum { TERMS = 5, MANTISSA = 23 };
  const mlff_vint_lane sqrt_half = 0x3f3504f3;
  const real ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
#endif
  static const double odd[11] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                                 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  const vmask bits = (vmask) ((real) 1 - q), n = (bits - sqrt_half) >> MANTISSA;
  const vreal m = (vreal) (bits - (n << MANTISSA)), exponent = __builtin_convertvector(n, vreal);
  const vreal s = vselect(n == 0, -q, m - (real) 1) / (m + (real) 1), s2 = s * s; /* -q: what 1 - q has rounded off */
  vreal p = vset((real) odd[TERMS - 1]);
#pragma GCC unroll 16
  for (int k = TERMS - 2; k >= 0; k--) p = p * s2 + (real) odd[k];
  return exponent * ln2_high + (p * s + exponent * ln2_low);
}

/* exp(x) for x <= 0; 0 below e^-40 (float), e^-300 (double), so that products of two of them are never subnormal
 * numbers, which cost a hundred times more than others. NaN gives NaN. Method: vexp; the exponent is added as an
 * integer. */
MLFF_INLINE vreal vexp_or_zero(vreal x)
{
#if MLFF_REAL_IS_DOUBLE
  enum { DEGREE = 13, MANTISSA = 52 };
  const real low = -300.0, magic = 6755399441055744.0; /* 1.5 * 2^52: its low bits are 0 */
  const real ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
#else
  enum { DEGREE = 7, MANTISSA = 23 };
  const real low = -40.0f, magic = 12582912.0f; /* 1.5 * 2^23 */
  const real ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
#endif
  static const double inverse_factorial[14] =
      {1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
       1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  const vreal shifted = x * (real) 1.4426950408889634 + magic;
  const vreal n = shifted - magic;
  const vreal r = (x - n * ln2_high) - n * ln2_low;
  vreal p = vset((real) inverse_factorial[DEGREE]);
#pragma GCC unroll 16
  for (int k = DEGREE - 1; k >= 0; k--) p = p * r + (real) inverse_factorial[k];
  const vreal y = (vreal) ((vbits) p + ((vbits) shifted << MANTISSA));
  return vselect(x < low, vset(0), y);
}

/* A constant as the sum of two reals: in float a rounded constant would bias every atom the same way. */
typedef struct split {
  real high, low;
} split;

static inline split split_of(double x)
{
  return (split){(real) x, (real) (x - (double) (real) x)};
}

/* A cutoff function fc(r) = (cos(pi r / rc) + 1) / 2. */
typedef struct cutoff {
  split rc, factor; /* pi / (2 rc) */
  real slope;       /* -pi / rc */
} cutoff;

static inline cutoff cutoff_of(double rc)
{
  const double pi = 3.14159265358979323846;
  return (cutoff){split_of(rc), split_of(pi / (2 * rc)), (real) (-pi / rc)};
}

/* fc(r) = sin(y)^2 with y = pi (rc - r) / (2 rc), which is exact to rounding also close to rc, and its derivative
 * -(pi / rc) sin(y) cos(y); both 0 from rc on. */
MLFF_INLINE vreal vcutoff(vreal r, cutoff c, vreal *slope)
{
  enum { ORDER = MLFF_REAL_IS_DOUBLE ? 22 : 14 };
  static const double inverse_factorial[24] = {1.0,
                                               1.0,
                                               1.0 / 2,
                                               1.0 / 6,
                                               1.0 / 24,
                                               1.0 / 120,
                                               1.0 / 720,
                                               1.0 / 5040,
                                               1.0 / 40320,
                                               1.0 / 362880,
                                               1.0 / 3628800,
                                               1.0 / 39916800,
                                               1.0 / 479001600.0,
                                               1.0 / 6227020800.0,
                                               1.0 / 87178291200.0,
                                               1.0 / 1307674368000.0,
                                               1.0 / 20922789888000.0,
                                               1.0 / 355687428096000.0,
                                               1.0 / 6402373705728000.0,
                                               1.0 / 121645100408832000.0,
                                               1.0 / 2432902008176640000.0,
                                               1.0 / 51090942171709440000.0,
                                               1.0 / 1124000727777607680000.0,
                                               1.0 / 25852016738884976640000.0};
  const vreal inside = vmax((c.rc.high - r) + c.rc.low, vset(0));
  const vreal y = inside * c.factor.high + inside * c.factor.low, y2 = y * y;
  vreal sine = vset((real) inverse_factorial[ORDER + 1]), cosine = vset((real) inverse_factorial[ORDER]);
#pragma GCC unroll 16
  for (int k = ORDER - 2; k >= 0; k -= 2) {
    sine = (real) inverse_factorial[k + 1] - sine * y2;
    cosine = (real) inverse_factorial[k] - cosine * y2;
  }
  sine *= y;
  *slope = sine * cosine * c.slope;
  return sine * sine;
}

#endif
