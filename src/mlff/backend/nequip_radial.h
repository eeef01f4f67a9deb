/* nequip_radial.h: the radial network of NequIP at one distance, which the CPU, CUDA and the loader share.
 *
 * The includer defines `real` and MLFF_MATH first, as for ops_math.h.
 */
#ifndef MLFF_NEQUIP_RADIAL_H
#define MLFF_NEQUIP_RADIAL_H

#include "ops_nequip.h"

#include <math.h>

/* The cutoff function of mlff_nequip_basis at r < cutoff, and its slope. */
MLFF_MATH double mlff_nequip_cutoff(const mlff_nequip_basis *b, double r, double *slope)
{
  if (b->power > 0) {
    const double p = b->power, x = r / b->cutoff, xp = pow(x, p - 1);
    *slope = -0.5 * p * (p + 1) * (p + 2) * xp * (1 - x) * (1 - x) / b->cutoff;
    return 1 - xp * x * (0.5 * (p + 1) * (p + 2) - x * (p * (p + 2) - 0.5 * x * p * (p + 1)));
  }
  const double c2 = b->cutoff * b->cutoff, o2 = b->onset * b->onset, r2 = r * r;
  const double w = (c2 - o2) * (c2 - o2) * (c2 - o2);
  *slope = r < b->onset ? 0.0 : 12 * r * (c2 - r2) * (o2 - r2) / w;
  return r < b->onset ? 1.0 : (c2 - r2) * (c2 - r2) * (c2 + 2 * r2 - 3 * o2) / w;
}

/* t of mlff_nequip_transform at r, and its slope. */
MLFF_MATH double mlff_nequip_argument(const mlff_nequip_basis *b, double r0, double r, double *slope)
{
  if (b->transform == MLFF_NEQUIP_AGNESI) {
    const double x = r / r0, xp = pow(x, b->p - 1), xs = pow(x, b->p - b->q), w = 1 / (1 + xs);
    const double t = 1 / (1 + b->a * xp * x * w);
    *slope = -b->a * xp * (b->p + b->q * xs) * w * w * t * t / r0;
    return t;
  }
  if (b->transform == MLFF_NEQUIP_SOFT) {
    const double r1 = 0.75 * r0, r2 = 4.0 / 3.0 * r0, c = b->a / (r2 - r1), w = tanh(c * (r - 0.5 * (r1 + r2)));
    *slope = 0.5 * (1 + w) + 0.5 * (r - r1) * (1 - w * w) * c;
    return r1 + 0.5 * (r - r1) * (1 + w);
  }
  *slope = 1;
  return r;
}

/* The radial function with frequency or center k at t, dt = dt/dr, times the cutoff function f, and its slope by r;
 * finite at 0. */
MLFF_MATH double mlff_nequip_function(const mlff_nequip_basis *b, double k, double t, double dt, double f, double df,
                                      double *slope)
{
  double value, d;
  if (b->coefficient != 0) {
    value = exp(b->coefficient * (t - k) * (t - k));
    d = 2 * b->coefficient * (t - k) * value;
  } else {
    value = t > 0 ? sin(k * t) / t : k;
    d = t > 0 ? (k * cos(k * t) - value) / t : 0.0;
  }
  *slope = b->prefactor * (d * dt * f + value * df);
  return b->prefactor * value * f;
}

/* act(x) = gain silu(x) and its slope */
MLFF_MATH double mlff_nequip_silu(double x, double gain, double *slope)
{
  const double s = 1.0 / (1.0 + exp(-x));
  *slope = gain * s * (1 + x * (1 - s));
  return gain * x * s;
}

/* act of a radial network and its slope */
MLFF_MATH double mlff_nequip_activation(int is_density, double x, double gain, double *slope)
{
  if (!is_density) return mlff_nequip_silu(x, gain, slope);
  const double y = tanh(x * x);
  *slope = 2 * x * (1 - y * y);
  return y;
}

/* h of layer k without its biases, and its slope: units and their slopes. pair_bias: of layer 0, else NULL. */
MLFF_MATH void mlff_nequip_normed_layer(const mlff_nequip_terms_args *a, int k, const real *pair_bias, real *value,
                                        real *slope)
{
  const int n = a->width[k], has_norm = !a->is_density || k + 1 < a->n_hidden;
  const real *bias = (const real *) a->affine[k], *weight = bias + n, *shift = weight + n;
  const double share = 1.0 / n;
  double mean = 0, d_mean = 0, square = 0, product = 0, d;
  for (int o = 0; o < n; o++) {
    value[o] += bias[o] + (pair_bias ? pair_bias[o] : 0);
    mean += share * (double) value[o];
    d_mean += share * (double) slope[o];
  }
  for (int o = 0; o < n; o++) {
    const double v = (double) value[o] - mean;
    square += share * v * v;
    product += share * v * ((double) slope[o] - d_mean);
  }
  const double s = 1 / sqrt(square + a->epsilon);
  for (int o = 0; o < n; o++) {
    const double v = (double) value[o] - mean, dv = (double) slope[o] - d_mean, w = (double) weight[o];
    const double h = has_norm ? w * v * s + (double) shift[o] : (double) value[o];
    value[o] = (real) mlff_nequip_activation(!has_norm, h, a->gain, &d);
    slope[o] = (real) (d * (has_norm ? w * s * (dv - v * s * s * product) : (double) slope[o]));
  }
}

/* Units of the last hidden layer at r < cutoff (mlff_nequip_terms_args): value and slope [MLFF_NEQUIP_HIDDEN], of which
 * the first mlff_nequip_n_units are written. r0, pair_bias: of the pair. */
MLFF_MATH void mlff_nequip_hidden(const mlff_nequip_terms_args *a, double r0, const real *pair_bias, double r,
                                  real *value, real *slope)
{
  real in[MLFF_NEQUIP_HIDDEN], d_in[MLFF_NEQUIP_HIDDEN];
  double df, d = 0, dt;
  const double f = mlff_nequip_cutoff(&a->basis, r, &df), t = mlff_nequip_argument(&a->basis, r0, r, &dt);
  const double fb = a->is_normed ? 1 : f, dfb = a->is_normed ? 0 : df;
  for (int n = 0; n < a->basis.n; n++) {
    value[n] = (real) mlff_nequip_function(&a->basis, (double) ((const real *) a->frequency)[n], t, dt, fb, dfb, &d);
    slope[n] = (real) d;
  }
  for (int k = 0, n_in = a->basis.n; k < a->n_hidden; n_in = a->width[k++]) {
    const real *w = (const real *) a->weight[k];
    for (int c = 0; c < n_in; c++) {
      in[c] = value[c];
      d_in[c] = slope[c];
    }
    for (int o = 0; o < a->width[k]; o++, w += n_in) {
      real x = 0, dx = 0;
      for (int c = 0; c < n_in; c++) {
        x += w[c] * in[c];
        dx += w[c] * d_in[c];
      }
      value[o] = a->is_normed ? x : (real) mlff_nequip_activation(a->is_density, (double) x, a->gain, &d);
      slope[o] = a->is_normed ? dx : (real) d * dx;
    }
    if (a->is_normed) mlff_nequip_normed_layer(a, k, k ? NULL : pair_bias, value, slope);
  }
  const int width = a->width[a->n_hidden - 1];
  /* as mlff_nequip_n_units, which a device cannot call */
  for (int o = 0; a->is_normed && o < width + !a->is_density; o++) {
    const real v = o < width ? value[o] : 1, dv = o < width ? slope[o] : 0;
    value[o] = v * (real) f;
    slope[o] = dv * (real) f + v * (real) df;
  }
}

#endif
