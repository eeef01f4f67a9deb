/* spline.h: tables of smooth functions as cubic splines, for the rows of CUBIC in ops_painn.h. */
#ifndef MLFF_SPLINE_H
#define MLFF_SPLINE_H

enum { MLFF_SPLINE_MAX = 4096 }; /* intervals */

/* Rounds `wanted` to a valid number of intervals of a table for floats: 64 .. MLFF_SPLINE_MAX. */
int mlff_spline_intervals(double wanted);

/* Solves for the rows [n + 3][width] of the spline, in place. Input: row 0 the slopes at 0, row m + 1 the values at m h
 * for m <= n <= MLFF_SPLINE_MAX, row n + 2 the slopes at n h. */
void mlff_spline_solve(double *rows, int n, int width, double h);

#endif
