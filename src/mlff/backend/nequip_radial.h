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

/* prefactor sin(k r)/r times the cutoff function f, and its slope; finite at 0. */
MLFF_MATH double mlff_nequip_function(const mlff_nequip_basis *b, double k, double r, double f, double df,
                                      double *slope)
{
  const double s = sin(k * r), value = r > 0 ? s / r : k, d = r > 0 ? (k * cos(k * r) - value) / r : 0.0;
  *slope = b->prefactor * (d * f + value * df);
  return b->prefactor * value * f;
}

/* act(x) = gain silu(x) and its slope */
MLFF_MATH double mlff_nequip_silu(double x, double gain, double *slope)
{
  const double s = 1.0 / (1.0 + exp(-x));
  *slope = gain * s * (1 + x * (1 - s));
  return gain * x * s;
}

/* Units of the last hidden layer at r < cutoff (mlff_nequip_terms_args): value and slope [MLFF_NEQUIP_HIDDEN], of which
 * the first width[n_hidden - 1] are written. */
MLFF_MATH void mlff_nequip_hidden(const mlff_nequip_terms_args *a, double r, real *value, real *slope)
{
  real in[MLFF_NEQUIP_HIDDEN], d_in[MLFF_NEQUIP_HIDDEN];
  double df, d;
  const double f = mlff_nequip_cutoff(&a->basis, r, &df);
  for (int n = 0; n < a->basis.n; n++) {
    value[n] = (real) mlff_nequip_function(&a->basis, (double) ((const real *) a->frequency)[n], r, f, df, &d);
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
      value[o] = (real) mlff_nequip_silu((double) x, a->gain, &d);
      slope[o] = (real) d * dx;
    }
  }
}

#endif
