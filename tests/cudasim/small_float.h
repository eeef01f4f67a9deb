/* small_float.h: 16-bit floating-point numbers with EXPONENT and MANTISSA bits, subnormal numbers, infinity and NaN;
 * round to nearest even. */
#ifndef MLFF_CUDASIM_SMALL_FLOAT_H
#define MLFF_CUDASIM_SMALL_FLOAT_H

#include <cmath>
#include <cstdint>
#include <cstring>

template <int EXPONENT, int MANTISSA> struct cudasim_small_float {
  uint16_t bits;

  static constexpr int bias = (1 << (EXPONENT - 1)) - 1;
  static constexpr uint16_t infinity = ((1 << EXPONENT) - 1) << MANTISSA;

  cudasim_small_float() = default;
  explicit cudasim_small_float(double x)
  {
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) {
      bits = 0x7fff;
      return;
    }
    const double size = std::fabs(x);
    int exponent = 0;
    if (size > 0 && std::isfinite(size)) std::frexp(size, &exponent); /* size = f 2^exponent, 1/2 <= f < 1 */
    const int smallest = 1 - bias;                                    /* exponent of the normal number 1.0 2^smallest */
    const int e = size == 0 || exponent - 1 < smallest ? smallest : exponent - 1;
    const double steps = std::isfinite(size) ? std::nearbyint(std::ldexp(size, MANTISSA - e)) : INFINITY;
    if (e > bias || !std::isfinite(steps)) {
      bits = sign | infinity;
      return;
    }
    /* steps may be 2 << MANTISSA: the carry increments the exponent, at the top to infinity */
    const int field = e - smallest;
    bits = (uint16_t) (sign | (uint16_t) ((field << MANTISSA) + (int) steps));
  }
  explicit operator float() const
  {
    const int field = (bits >> MANTISSA) & ((1 << EXPONENT) - 1), fraction = bits & ((1 << MANTISSA) - 1);
    float x = NAN;
    if (field > 0 && field < (1 << EXPONENT) - 1) { /* a float has the same fraction, and a wider exponent */
      const uint32_t wide = (uint32_t) (field - bias + 127) << 23 | (uint32_t) fraction << (23 - MANTISSA);
      std::memcpy(&x, &wide, sizeof x);
    } else if (field == 0) {
      x = (float) fraction * __builtin_ldexpf(1, 1 - bias - MANTISSA);
    } else if (fraction == 0) {
      x = INFINITY;
    }
    return bits & 0x8000 ? -x : x;
  }
};

#define CUDASIM_SMALL_OPERATOR(op)                                                                              \
  template <int E, int M>                                                                                       \
  static inline cudasim_small_float<E, M> operator op(cudasim_small_float<E, M> a, cudasim_small_float<E, M> b) \
  {                                                                                                             \
    return cudasim_small_float<E, M>((float) a op(float) b);                                                    \
  }
CUDASIM_SMALL_OPERATOR(+)
CUDASIM_SMALL_OPERATOR(-)
CUDASIM_SMALL_OPERATOR(*)
CUDASIM_SMALL_OPERATOR(/)

#endif
