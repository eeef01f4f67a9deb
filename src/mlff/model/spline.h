/* spline.h: tables of smooth functions of a distance as cubic splines, for the rows of CUBIC in ops_painn.h. */
#ifndef MLFF_SPLINE_H
#define MLFF_SPLINE_H

enum { MLFF_SPLINE_MAX = 4096 }; /* intervals */

/* `wanted` intervals as a whole number that a table for floats may have: 64 .. MLFF_SPLINE_MAX. */
int mlff_spline_intervals(double wanted);

/* Makes rows [n + 3][width] of the spline from what stands there: row 0 the slopes at 0, row m + 1 the values at m h
 * for m <= n <= MLFF_SPLINE_MAX, row n + 2 the slopes at n h. */
void mlff_spline_solve(double *rows, int n, int width, double h);

#endif
