/* ops_math.h: scalar formulas that the CPU and CUDA implementations of ops share, so that they exist once.
 *
 * The includer defines first: `real`, the element type; `mlff_value`, a real or a vector of reals (+ - * / work on
 * it, also with a real); MLFF_MATH, what stands before a function, e.g. static inline.
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

/* ---- edges of PaiNN: a line of mlff_painn_radial (ops_painn.h) ---- */

enum { LINE_COEF = 0, LINE_SLOPE = 4, LINE_UNIT = 8, LINE_INVERSE = 11, LINE_INDEX = 12 };

typedef struct line_index {
  int first, node, species, unused; /* int32 */
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

/* Which of two neighbours that are equally far comes first: the one with the lower tag; of images of an atom, which
 * differ by lattice vectors, the one whose vector is smaller in x, then y, then z. */
MLFF_MATH int mlff_orb_is_before(int64_t tag_a, const double a[3], int64_t tag_b, const double b[3])
{
  if (tag_a != tag_b) return tag_a < tag_b;
  for (int c = 0; c < 3; c++)
    if (fabs(a[c] - b[c]) > 1e-6) return a[c] < b[c];
  return 0;
}

/* 1 - 15x^4 + 24x^5 - 10x^6, 0 from x = 1 on */
MLFF_MATH double mlff_orb_envelope(double x)
{
  const double x4 = x * x * x * x;
  return x < 1.0 ? 1.0 - x4 * (15.0 - x * (24.0 - 10.0 * x)) : 0.0;
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
