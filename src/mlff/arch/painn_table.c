/* painn_table.c: filters of Gaussian and Bessel functions as cubic splines, so that an edge reads four rows. */
#include "painn.h"

#include "../model/spline.h"

#include <math.h>
#include <string.h>

/* phi(r) and its slope, exactly; r = 0 is the limit. */
static double radial_function(const painn_filter *in, int k, double r, double *slope)
{
  const double f = in->first[k];
  if (in->kind == MLFF_PAINN_GAUSSIAN) {
    const double x = r - f, phi = exp(-0.5 * x * x * in->second[k]);
    *slope = -x * in->second[k] * phi;
    return phi;
  }
  *slope = r > 0 ? (f * cos(f * r) - sin(f * r) / r) / r : 0.0;
  return r > 0 ? sin(f * r) / r : f;
}

void painn_exact_filter(const painn_filter *in, double r, int want_slope, double *filter)
{
  const double x = 3.14159265358979323846 * r / in->cutoff;
  const double fc = 0.5 * cos(x) + 0.5, dfc = -0.5 * 3.14159265358979323846 / in->cutoff * sin(x);
  for (int c = 0; c < in->width; c++) filter[c] = in->bias[c] * (want_slope ? dfc : fc);
  for (int k = 0; k < in->n_basis; k++) {
    double slope, phi = radial_function(in, k, r, &slope);
    const double term = want_slope ? slope * fc + phi * dfc : phi * fc;
    for (int c = 0; c < in->width; c++) filter[c] += in->weight[(size_t) c * (size_t) in->n_basis + (size_t) k] * term;
  }
}

/* The fourth derivative is at most 3/width^4 for Gaussians, freq^4 (over r) for Bessel functions. The interpolation
 * error of the slope is of third order in h freq, the rounding error in float, about eps value/h, of order -1: with 20
 * intervals per 1/freq they are equal. RMS errors relative to the filter, random weights, in double: Gaussian n = 20, 5
 * A (512 intervals) value 6e-9, slope 1.1e-6; Bessel n = 20, 5 A (1288) value 3e-9, slope 4e-7. */
int painn_table_intervals(const painn_filter *in)
{
  double freq = 0.0;
  for (int k = 0; k < in->n_basis; k++) {
    const double f = in->kind == MLFF_PAINN_GAUSSIAN ? 1.316 * sqrt(in->second[k]) : fabs(in->first[k]);
    if (f > freq) freq = f;
  }
  return mlff_spline_intervals(20.5 * freq * in->cutoff);
}

/* Value and slope at the cutoff are zero. */
void painn_spline_rows(const painn_filter *in, int n, double *rows)
{
  const size_t width = (size_t) in->width;
  const double h = in->cutoff / n;
  painn_exact_filter(in, 0.0, 1, rows);
  for (int m = 0; m < n; m++) painn_exact_filter(in, m * h, 0, rows + (size_t) (m + 1) * width);
  memset(rows + (size_t) (n + 1) * width, 0, 2 * width * sizeof *rows);
  mlff_spline_solve(rows, n, in->width, h);
}
