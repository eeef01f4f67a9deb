/* nequip_table.c: radial networks as cubic splines, so that an edge costs four rows whatever their size. Splines are
 * linear: those through weights are those through the units of the last hidden layer, times its matrix. */
#include "nequip.h"

#include "../model/spline.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef double real;
typedef double mlff_value;
#define MLFF_MATH static inline
#include "../backend/nequip_radial.h"

/* Slopes of a table in floats are off by sqrt(3)/216 h^3 times the fourth derivative, and by eps value/h from rounding.
 * Intervals h where both are alike are about the best: measured (root mean square errors of forces in single precision,
 * 27 molecules of water), 5e-6 eV/A with 700 intervals, where Nequix has 690, and 4e-6 with 1000, where SevenNet-0 has
 * 1030; with 500 and 3000 two to three times that. Looked at from 0.9 A on, where atoms are; the fourth derivative is
 * the third difference of slopes at distances d apart, where no onset is among them. */
int nequip_table_intervals(const mlff_nequip_terms_args *in)
{
  enum { N = 512 };
  const double d = in->basis.cutoff / N;
  const int first = (int) ceil(fmin(0.9 / d, N));
  double value[MLFF_NEQUIP_HIDDEN], slope[4][MLFF_NEQUIP_HIDDEN], most = 0.0, bend = 0.0;
  for (int m = first; m <= N; m++) {
    mlff_nequip_hidden(in, m * d, value, slope[m % 4]);
    const double *s0 = slope[m % 4], *s1 = slope[(m + 3) % 4], *s2 = slope[(m + 2) % 4], *s3 = slope[(m + 1) % 4];
    const int has_kink = in->basis.power <= 0 && in->basis.onset > (m - 3) * d && in->basis.onset < m * d;
    for (int c = 0; c < in->width[in->n_hidden - 1]; c++) {
      most = fmax(most, fabs(value[c]));
      if (m >= first + 3 && !has_kink) bend = fmax(bend, fabs(s0[c] - 3 * s1[c] + 3 * s2[c] - s3[c]));
    }
  }
  return mlff_spline_intervals(bend > 0 ? N * pow(sqrt(3) / 216 * bend * d / (FLT_EPSILON * most), 0.25) : 0.0);
}

/* A cutoff function that begins at an onset has a kink in its second derivative there, which has to be a knot. */
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

/* The spline through knots `from` to `to`. */
static void spline(const mlff_nequip_terms_args *in, int first, int last, double h, double *rows)
{
  const int width = in->width[in->n_hidden - 1];
  const size_t ld = (size_t) width, bytes = ld * sizeof *rows;
  double value[MLFF_NEQUIP_HIDDEN], slope[MLFF_NEQUIP_HIDDEN];
  for (int m = first; m <= last; m++) {
    mlff_nequip_hidden(in, m * h, value, slope);
    memcpy(rows + (size_t) (m - first + 1) * ld, value, bytes);
    if (m == first) memcpy(rows, slope, bytes);
    if (m == last) memcpy(rows + (size_t) (last - first + 2) * ld, slope, bytes);
  }
  mlff_spline_solve(rows, last - first, width, h);
}

void nequip_unit_rows(const mlff_nequip_terms_args *in, const mlff_painn_basis *table, double *rows)
{
  const int n = table->n, split = table->split;
  const double h = table->cutoff / n;
  if (split) spline(in, 0, split, h, rows);
  spline(in, split, n, h, rows + (size_t) (split ? split + 3 : 0) * (size_t) in->width[in->n_hidden - 1]);
}
