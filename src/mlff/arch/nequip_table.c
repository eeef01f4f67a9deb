/* nequip_table.c: radial networks as cubic splines, so that an edge reads four rows, independent of the network size.
 * Splines are linear: the spline of the weights is the spline of the last hidden layer times its matrix. */
#include "nequip.h"

#include "../model/spline.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef double real;
typedef double mlff_value;
#define MLFF_MATH static inline
#include "../backend/nequip_radial.h"

/* Slopes of a table in floats have an interpolation error of sqrt(3)/216 h^3 times the fourth derivative and a rounding
 * error of eps value/h. The interval h with equal errors is close to the optimum (RMS error of forces of 27 water
 * molecules: 5e-6 eV/A for Nequix with 690 intervals, two to three times that with 500 or 3000). The fourth derivative
 * is estimated from 0.9 A on, by third differences of slopes at distances d that do not cross the onset. */
int nequip_table_intervals(const mlff_nequip_terms_args *in, double r0)
{
  enum { N = 512 };
  const double d = in->basis.cutoff / N;
  const int first = (int) ceil(fmin(0.9 / d, N));
  double value[MLFF_NEQUIP_HIDDEN], slope[4][MLFF_NEQUIP_HIDDEN], most = 0.0, bend = 0.0;
  for (int m = first; m <= N; m++) {
    mlff_nequip_hidden(in, r0, in->pair_bias, m * d, value, slope[m % 4]);
    const double *s0 = slope[m % 4], *s1 = slope[(m + 3) % 4], *s2 = slope[(m + 2) % 4], *s3 = slope[(m + 1) % 4];
    const int has_kink = in->basis.power <= 0 && in->basis.onset > (m - 3) * d && in->basis.onset < m * d;
    for (int c = 0; c < mlff_nequip_n_units(in); c++) {
      most = fmax(most, fabs(value[c]));
      if (m >= first + 3 && !has_kink) bend = fmax(bend, fabs(s0[c] - 3 * s1[c] + 3 * s2[c] - s3[c]));
    }
  }
  return mlff_spline_intervals(bend > 0 ? N * pow(sqrt(3) / 216 * bend * d / (FLT_EPSILON * most), 0.25) : 0.0);
}

/* A cutoff function with an onset has a kink in its second derivative there, which must be a knot. */
void nequip_choose_table(const mlff_nequip_basis *basis, int n, mlff_painn_basis *table)
{
  *table = (mlff_painn_basis){.kind = MLFF_PAINN_CUBIC, .n = n, .n_terms = 4, .cutoff = basis->cutoff};
  if (basis->power > 0) return;
  for (int k = n; k < 2 * n && k <= MLFF_SPLINE_MAX; k++) {
    const double knot = k * basis->onset / basis->cutoff;
    if (fabs(knot - round(knot)) > 1e-9 || knot < 0.5) continue;
    table->n = k;
    table->split = (int) round(knot);
    return;
  }
}

/* The spline through knots `first` to `last`. */
static void spline(const mlff_nequip_terms_args *in, double r0, int first, int last, double h, double *rows)
{
  const int width = mlff_nequip_n_units(in);
  const size_t ld = (size_t) width, bytes = ld * sizeof *rows;
  double value[MLFF_NEQUIP_HIDDEN], slope[MLFF_NEQUIP_HIDDEN];
  for (int m = first; m <= last; m++) {
    mlff_nequip_hidden(in, r0, in->pair_bias, m * h, value, slope);
    memcpy(rows + (size_t) (m - first + 1) * ld, value, bytes);
    if (m == first) memcpy(rows, slope, bytes);
    if (m == last) memcpy(rows + (size_t) (last - first + 2) * ld, slope, bytes);
  }
  mlff_spline_solve(rows, last - first, width, h);
}

void nequip_unit_rows(const mlff_nequip_terms_args *in, double r0, const mlff_painn_basis *table, double *rows)
{
  const int n = table->n, split = table->split;
  const double h = table->cutoff / n;
  if (split) spline(in, r0, 0, split, h, rows);
  spline(in, r0, split, n, h, rows + (size_t) (split ? split + 3 : 0) * (size_t) mlff_nequip_n_units(in));
}
