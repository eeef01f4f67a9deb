/* tensornet_math.h: components of TensorNet's features and its radial functions, which the CPU, CUDA and the loader
 * share. The includer defines `real`, `mlff_value` and MLFF_MATH first, as for ops_math.h.
 */
#ifndef MLFF_TENSORNET_MATH_H
#define MLFF_TENSORNET_MATH_H

#include "ops_tensornet.h"

#include <math.h>

/* ---- components -------------------------------------------------------------------------------------------------- */

#define TENSORNET_R2 ((real) 0.70710678118654752440) /* 1/sqrt 2 */
#define TENSORNET_R3 ((real) 0.57735026918962576451) /* 1/sqrt 3 */
#define TENSORNET_R6 ((real) 0.40824829046386301637) /* 1/sqrt 6 */

/* The matrix m, row-major, of components x. Basis: 1/sqrt 3; [e_x]x, [e_y]x, [e_z]x over sqrt 2; (xx - yy)/sqrt 2,
 * (2 zz - xx - yy)/sqrt 6, (xy + yx)/sqrt 2, (xz + zx)/sqrt 2, (yz + zy)/sqrt 2. */
MLFF_MATH void mlff_tensornet_expand(const mlff_value x[9], mlff_value m[9])
{
  const mlff_value i = x[0] * TENSORNET_R3, d1 = x[4] * TENSORNET_R2, d2 = x[5] * TENSORNET_R6;
  m[0] = i - d2 + d1;
  m[4] = i - d2 - d1;
  m[8] = i + d2 + d2;
  m[1] = (x[6] - x[3]) * TENSORNET_R2;
  m[3] = (x[6] + x[3]) * TENSORNET_R2;
  m[2] = (x[7] + x[2]) * TENSORNET_R2;
  m[6] = (x[7] - x[2]) * TENSORNET_R2;
  m[5] = (x[8] - x[1]) * TENSORNET_R2;
  m[7] = (x[8] + x[1]) * TENSORNET_R2;
}

/* The components of m: the reverse, and the transpose, of mlff_tensornet_expand. */
MLFF_MATH void mlff_tensornet_reduce(const mlff_value m[9], mlff_value x[9])
{
  x[0] = (m[0] + m[4] + m[8]) * TENSORNET_R3;
  x[1] = (m[7] - m[5]) * TENSORNET_R2;
  x[2] = (m[2] - m[6]) * TENSORNET_R2;
  x[3] = (m[3] - m[1]) * TENSORNET_R2;
  x[4] = (m[0] - m[4]) * TENSORNET_R2;
  x[5] = (m[8] + m[8] - m[0] - m[4]) * TENSORNET_R6;
  x[6] = (m[1] + m[3]) * TENSORNET_R2;
  x[7] = (m[2] + m[6]) * TENSORNET_R2;
  x[8] = (m[5] + m[7]) * TENSORNET_R2;
}

/* c = A B, A a or its transpose (ta), B b or its transpose (tb); += with `add`. The flags are constants. */
MLFF_MATH void mlff_tensornet_multiply(const mlff_value a[9], const int ta, const mlff_value b[9], const int tb,
                                       const int add, mlff_value c[9])
{
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      mlff_value sum =
          add ? c[3 * i + j] + a[ta ? i : 3 * i] * b[tb ? 3 * j : j] : a[ta ? i : 3 * i] * b[tb ? 3 * j : j];
      for (int k = 1; k < 3; k++) sum = sum + a[ta ? 3 * k + i : 3 * i + k] * b[tb ? 3 * j + k : 3 * k + j];
      c[3 * i + j] = sum;
    }
  }
}

MLFF_MATH mlff_value mlff_tensornet_dot(const mlff_value a[9], const mlff_value b[9])
{
  mlff_value sum = a[0] * b[0];
  for (int k = 1; k < 9; k++) sum = sum + a[k] * b[k];
  return sum;
}

/* Components of 1 + [u]x + (u u^T - 1/3), u a unit vector. */
MLFF_MATH void mlff_tensornet_components(const real u[3], real e[9])
{
  const real r2 = (real) 1.41421356237309504880;
  e[0] = (real) 1.73205080756887729353;
  e[1] = r2 * u[0];
  e[2] = r2 * u[1];
  e[3] = r2 * u[2];
  e[4] = TENSORNET_R2 * (u[0] * u[0] - u[1] * u[1]);
  e[5] = TENSORNET_R6 * (2 * u[2] * u[2] - u[0] * u[0] - u[1] * u[1]);
  e[6] = r2 * u[0] * u[1];
  e[7] = r2 * u[0] * u[2];
  e[8] = r2 * u[1] * u[2];
}

/* g += ge . de/du of the polynomials above */
MLFF_MATH void mlff_tensornet_components_backward(const real u[3], const real ge[9], real g[3])
{
  const real r2 = (real) 1.41421356237309504880, r6 = 2 * TENSORNET_R6;
  g[0] = r2 * (ge[1] + u[0] * ge[4] + u[1] * ge[6] + u[2] * ge[7]) - r6 * u[0] * ge[5];
  g[1] = r2 * (ge[2] - u[1] * ge[4] + u[0] * ge[6] + u[2] * ge[8]) - r6 * u[1] * ge[5];
  g[2] = r2 * (ge[3] + u[0] * ge[7] + u[1] * ge[8]) + 2 * r6 * u[2] * ge[5];
}

/* ---- radial part, in double -------------------------------------------------------------------------------------- */

/* phi_k(r) and its slope; finite at r = 0. second: NULL for BESSEL. */
MLFF_MATH double mlff_tensornet_function(mlff_painn_kind kind, double first, double second, double r, double *slope)
{
  if (kind == MLFF_PAINN_GAUSSIAN) {
    const double x = r - first, phi = exp(-0.5 * x * x * second);
    *slope = -x * second * phi;
    return phi;
  }
  const double phi = r > 0 ? sin(first * r) / r : first;
  *slope = r > 0 ? (first * cos(first * r) - phi) / r : 0.0;
  return phi;
}

/* (cos(pi r/cutoff) + 1)/2 and its slope */
MLFF_MATH double mlff_tensornet_cutoff(double r, double cutoff, double *slope)
{
  const double k = 3.14159265358979323846 / cutoff;
  *slope = -0.5 * k * sin(k * r);
  return 0.5 * cos(k * r) + 0.5;
}

MLFF_MATH double mlff_tensornet_activation(mlff_tensornet_act act, double x, double *slope)
{
  const double s = 1.0 / (1.0 + exp(-x));
  if (act == MLFF_TENSORNET_TANH) {
    const double t = tanh(x);
    *slope = 1.0 - t * t;
    return t;
  }
  if (act == MLFF_TENSORNET_SIGMOID) {
    *slope = s * (1.0 - s);
    return s;
  }
  if (act == MLFF_TENSORNET_SOFTPLUS) {
    *slope = s;
    return (x > 0 ? x : 0.0) + log1p(exp(x > 0 ? -x : x)) - 0.69314718055994530942;
  }
  *slope = s * (1.0 + x * (1.0 - s));
  return x * s;
}

#endif
