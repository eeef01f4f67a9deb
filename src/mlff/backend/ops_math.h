/* ops_math.h: scalar formulas shared by the CPU and CUDA implementations of ops.
 *
 * The includer first defines `real`, the element type; `mlff_value`, a real or a vector of reals (with + - * /, also
 * with a real); MLFF_MATH, the function specifiers, e.g. static inline.
 */
#ifndef MLFF_OPS_MATH_H
#define MLFF_OPS_MATH_H

/* ---- linear: activations ---- */

/* silu(x) = x s and its slope s (1 + x (1 - s)) from s = 1/(1 + exp(-x)) */
MLFF_MATH mlff_value mlff_silu(mlff_value x, mlff_value s, mlff_value *slope)
{
  *slope = s + x * s * ((real) 1 - s);
  return x * s;
}

/* celu(x) = max(0, x) + alpha (e - 1) and its slope e from e = exp(min(0, x)/alpha), which is 1 for x >= 0 */
MLFF_MATH mlff_value mlff_celu(mlff_value max0, mlff_value e, real alpha, mlff_value *slope)
{
  *slope = e;
  return max0 + alpha * (e - (real) 1);
}

/* The same slope from y = celu(x): 1 + min(0, y)/alpha. If it is small it has the rounding error of 1. */
MLFF_MATH mlff_value mlff_celu_slope(mlff_value min0, real inverse_alpha)
{
  return (real) 1 + min0 * inverse_alpha;
}

/* ---- edges of PaiNN: a line of mlff_painn_radial (ops_painn.h) ---- */

enum { LINE_COEF = 0, LINE_SLOPE = 4, LINE_UNIT = 8, LINE_INVERSE = 11, LINE_INDEX = 12 };

typedef struct line_index {
  int first, node, species, pair; /* int32 */
} line_index;

/* Coefficients of the four pieces of the cubic B-spline that are non-zero at t = r/h - first, as polynomials in t:
 * (1-t)^3/6, (3t^3 - 6t^2 + 4)/6, (-3t^3 + 3t^2 + 3t + 1)/6, t^3/6; row k: of t^k. */
#define MLFF_SPLINE_PIECES                                                                                  \
  {                                                                                                         \
    {(real) (1.0 / 6), (real) (4.0 / 6), (real) (1.0 / 6), 0}, {(real) (-3.0 / 6), 0, (real) (3.0 / 6), 0}, \
        {(real) (3.0 / 6), -1, (real) (3.0 / 6), 0},                                                        \
        {(real) (-1.0 / 6), (real) (3.0 / 6), (real) (-3.0 / 6), (real) (1.0 / 6)},                         \
  }

/* ---- graph of Orb: in double ---- */

/* Order of two equally far neighbors: by tag; for images of an atom, which differ by lattice vectors, by x, then y,
 * then z of the vector. */
MLFF_MATH int mlff_orb_is_before(int64_t tag_a, const double a[3], int64_t tag_b, const double b[3])
{
  if (tag_a != tag_b) return tag_a < tag_b;
  for (int c = 0; c < 3; c++)
    if (fabs(a[c] - b[c]) > 1e-6) return a[c] < b[c];
  return 0;
}

/* 1 - 15x^4 + 24x^5 - 10x^6 for x < 1, else 0 */
MLFF_MATH double mlff_orb_envelope(double x)
{
  const double x4 = x * x * x * x;
  return x < 1.0 ? 1.0 - x4 * (15.0 - x * (24.0 - 10.0 * x)) : 0.0;
}

/* ---- NequIP: edges, in scalars ---- */

/* Real spherical harmonics of the unit vector u for l = 0 .. 3, normalised so that sum_m Y_lm^2 = 2l + 1; polar axis y,
 * Y_1 = sqrt(3) (x, y, z). */
MLFF_MATH void mlff_nequip_harmonics(const real u[3], real y[16])
{
  const real a = u[0], b = u[1], c = u[2], aa = a * a, bb = b * b, cc = c * c;
  const real r3 = (real) 1.7320508075688772, r5 = (real) 2.23606797749979, r15 = (real) 3.872983346207417,
             r7 = (real) 2.6457513110645907, r105 = (real) 10.246950765959598, r35_8 = (real) 2.091650066335189,
             r21_8 = (real) 1.6201851746019651;
  y[0] = 1;
  y[1] = r3 * a;
  y[2] = r3 * b;
  y[3] = r3 * c;
  y[4] = r15 * a * c;
  y[5] = r15 * a * b;
  y[6] = r5 * (bb - (real) 0.5 * (aa + cc));
  y[7] = r15 * b * c;
  y[8] = (real) 0.5 * r15 * (cc - aa);
  y[9] = r35_8 * a * (3 * cc - aa);
  y[10] = r105 * a * b * c;
  y[11] = r21_8 * a * (4 * bb - aa - cc);
  y[12] = (real) 0.5 * r7 * b * (2 * bb - 3 * (aa + cc));
  y[13] = r21_8 * c * (4 * bb - aa - cc);
  y[14] = (real) 0.5 * r105 * b * (cc - aa);
  y[15] = r35_8 * c * (cc - 3 * aa);
}

/* g = sum_lm g_y[lm] dY_lm/du, of the polynomials above */
MLFF_MATH void mlff_nequip_harmonics_backward(const real u[3], const real gy[16], real g[3])
{
  const real a = u[0], b = u[1], c = u[2], aa = a * a, bb = b * b, cc = c * c;
  const real r3 = (real) 1.7320508075688772, r5 = (real) 2.23606797749979, r15 = (real) 3.872983346207417,
             r7 = (real) 2.6457513110645907, r105 = (real) 10.246950765959598, r35_8 = (real) 2.091650066335189,
             r21_8 = (real) 1.6201851746019651;
  const real g10 = r105 * gy[10], g11 = r21_8 * gy[11], g12 = r7 * gy[12], g13 = r21_8 * gy[13], g14 = r105 * gy[14];
  const real g9 = 3 * r35_8 * gy[9], g15 = 3 * r35_8 * gy[15];
  g[0] = r3 * gy[1] + r15 * (c * gy[4] + b * gy[5] - a * gy[8]) - r5 * a * gy[6] + g9 * (cc - aa) + g10 * b * c +
         g11 * (4 * bb - 3 * aa - cc) - 3 * g12 * a * b - 2 * g13 * a * c - g14 * a * b - 2 * g15 * a * c;
  g[1] = r3 * gy[2] + r15 * (a * gy[5] + c * gy[7]) + 2 * r5 * b * gy[6] + g10 * a * c + 8 * g11 * a * b +
         (real) 1.5 * g12 * (2 * bb - aa - cc) + 8 * g13 * b * c + (real) 0.5 * g14 * (cc - aa);
  g[2] = r3 * gy[3] + r15 * (a * gy[4] + b * gy[7] + c * gy[8]) - r5 * c * gy[6] + 2 * g9 * a * c + g10 * a * b -
         2 * g11 * a * c - 3 * g12 * b * c + g13 * (4 * bb - aa - 3 * cc) + g14 * b * c + g15 * (cc - aa);
}

/* dE/d(x_j - x_i) of an edge along the unit vector u from dE/dY, dE/dr and 1/r */
MLFF_MATH void mlff_nequip_edge_gradient(const real u[3], real inverse_r, const real gy[16], real gr, real g[3])
{
  mlff_nequip_harmonics_backward(u, gy, g);
  const real along = u[0] * g[0] + u[1] * g[1] + u[2] * g[2];
  for (int d = 0; d < 3; d++) g[d] = gr * u[d] + (g[d] - u[d] * along) * inverse_r;
}

/* ---- repulsion: in double ---- */

/* The universal repulsion of Ziegler, Biersack and Littmark (1985) with a switch that ends with two continuous
 * derivatives at the cutoff: V = factor/r phi(r inverse) s(r/cutoff), phi(y) = sum of c_k exp(-b_k y), for
 * 0 < r < cutoff. s(x) = (1-x)^3 (1 + 3x + 6x^2), or with a power p
 * s(x) = 1 - (p+1)(p+2)/2 x^p + p(p+2) x^(p+1) - p(p+1)/2 x^(p+2). is_mace: c and b of MACE. Returns V; *slope: dV/dr.
 */
MLFF_MATH double mlff_zbl(int is_mace, double power, double r, double cutoff, double inverse, double factor,
                          double *slope)
{
  const double c[2][4] = {{0.18175, 0.50986, 0.28022, 0.02817}, {0.1818, 0.5099, 0.2802, 0.02817}};
  const double b[2][4] = {{3.19980, 0.94229, 0.40290, 0.20162}, {3.2, 0.9423, 0.4028, 0.2016}};
  const double x = r / cutoff, y = 1.0 - x, p = power;
  double s = y * y * y * (1.0 + x * (3.0 + 6.0 * x)), ds = -30.0 * x * x * y * y / cutoff;
  if (power > 0) {
    const double xp = pow(x, p - 1);
    s = 1 - xp * x * (0.5 * (p + 1) * (p + 2) - x * (p * (p + 2) - 0.5 * x * p * (p + 1)));
    ds = -0.5 * p * (p + 1) * (p + 2) * xp * y * y / cutoff;
  }
  double phi = 0.0, dphi = 0.0;
  for (int k = 0; k < 4; k++) {
    const double term = c[is_mace][k] * exp(-b[is_mace][k] * r * inverse);
    phi += term;
    dphi -= b[is_mace][k] * inverse * term;
  }
  const double v = factor / r;
  *slope = v * (dphi * s + phi * (ds - s / r));
  return v * phi * s;
}

/* Length of an edge for the network, of a pair r < cutoff apart: cutoff (1 - w (t - t^3 + t^4/2)) with w = 0.1 and
 * t = min(1, (1 - r/cutoff)/w). It is r at the cutoff, with two continuous derivatives, and 0.95 cutoff from
 * 0.9 cutoff on. *slope: its derivative by r. */
MLFF_MATH double mlff_clamp(double r, double cutoff, double *slope)
{
  const double w = 0.1, far = (1.0 - r / cutoff) / w, t = far < 1.0 ? far : 1.0;
  *slope = (1.0 - t) * (1.0 - t) * (1.0 + 2.0 * t);
  return cutoff * (1.0 - w * t * (1.0 + t * t * (0.5 * t - 1.0)));
}

/* dE/dv from g = dE/dv' of the clamped vector v' = v clamped/r */
MLFF_MATH void mlff_clamp_gradient(double r, double cutoff, const double v[3], double g[3])
{
  double slope;
  const double scale = mlff_clamp(r, cutoff, &slope) / r;
  const double radial = (slope - scale) * (v[0] * g[0] + v[1] * g[1] + v[2] * g[2]) / (r * r);
  for (int c = 0; c < 3; c++) g[c] = scale * g[c] + radial * v[c];
}

/* ---- forces: signs and component order, in double ---- */

/* w = -scale d g^T of one edge, d = x_j - x_i, g = dE/dd; order xx yy zz xy xz yz yx zx zy */
MLFF_MATH void mlff_edge_virial(double scale, const double d[3], const double g[3], double w[9])
{
  w[0] = -scale * d[0] * g[0];
  w[1] = -scale * d[1] * g[1];
  w[2] = -scale * d[2] * g[2];
  w[3] = -scale * d[0] * g[1];
  w[4] = -scale * d[0] * g[2];
  w[5] = -scale * d[1] * g[2];
  w[6] = -scale * d[1] * g[0];
  w[7] = -scale * d[2] * g[0];
  w[8] = -scale * d[2] * g[1];
}

/* Six components from nine: off-diagonal ones are means. */
MLFF_MATH void mlff_virial_six(const double w[9], double six[6])
{
  for (int c = 0; c < 3; c++) {
    six[c] = w[c];
    six[3 + c] = 0.5 * (w[3 + c] + w[6 + c]);
  }
}

#endif
