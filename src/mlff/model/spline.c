/* spline.c: see spline.h.
 *
 * At n + 1 points and with the slopes at both ends:
 *   (row_m + 4 row_{m+1} + row_{m+2})/6 = value(m h),   (row_2 - row_0)/(2h) = slope(0), and so at the end.
 * The first and last row are eliminated; what remains is tridiagonal with 1, 4, 1 and a 2 at either end.
 */
#include "spline.h"

#include <math.h>
#include <stddef.h>

int mlff_spline_intervals(double wanted)
{
  const double n = ceil(wanted);
  return n < 64 ? 64 : n < MLFF_SPLINE_MAX ? (int) n : MLFF_SPLINE_MAX;
}

void mlff_spline_solve(double *rows, int n, int width, double h)
{
  double ratio[MLFF_SPLINE_MAX + 1];
  double *row0 = rows, *row_end = rows + (size_t) (n + 2) * (size_t) width;
  for (int m = 0; m <= n; m++) {
    double *row = rows + (size_t) (m + 1) * (size_t) width, *before = row - width;
    const double lower = m == 0 ? 0.0 : m == n ? 2.0 : 1.0, upper = m == 0 ? 2.0 : 1.0;
    const double pivot = 4.0 - (m ? lower * ratio[m - 1] : 0.0);
    ratio[m] = upper / pivot;
    for (int c = 0; c < width; c++) {
      const double right = 6.0 * row[c] + (m == 0 ? 2.0 * h * row0[c] : 0.0) - (m == n ? 2.0 * h * row_end[c] : 0.0);
      row[c] = (right - (m ? lower * before[c] : 0.0)) / pivot;
    }
  }
  for (int m = n - 1; m >= 0; m--) {
    double *row = rows + (size_t) (m + 1) * (size_t) width;
    for (int c = 0; c < width; c++) row[c] -= ratio[m] * row[c + width];
  }
  for (int c = 0; c < width; c++) {
    row0[c] = rows[2 * (size_t) width + (size_t) c] - 2.0 * h * row0[c];
    row_end[c] = rows[(size_t) n * (size_t) width + (size_t) c] + 2.0 * h * row_end[c];
  }
}
