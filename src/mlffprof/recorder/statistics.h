/* statistics.h: quantiles of an array, slopes with error bars, and the distributions that they need. */
#ifndef MLFFPROF_STATISTICS_H
#define MLFFPROF_STATISTICS_H

#include <stdint.h>

void mlffprof_sort(double *values, int64_t n);
/* Quantile of sorted values, linear between neighbors; NaN for n = 0. */
double mlffprof_quantile(const double *sorted, int64_t n, double q);

/* 97.5 % point of Student's distribution, for two-sided 95 % intervals. */
double mlffprof_t975(int64_t degrees);
/* P(Z > z) of the normal distribution. */
double mlffprof_normal_tail(double z);

/* A slope with the half-width of its 95 % interval; NaN where there are too few points. */
typedef struct mlffprof_slope {
  double slope, error;
} mlffprof_slope;

/* Least squares of y over x, weights w. The points are means of w samples each, in order of x; points with w = 0 are
 * left out. The error takes autocorrelation into account by blocking (H. Flyvbjerg, H. G. Petersen, J. Chem. Phys.
 * 91, 461, 1989): the line is fitted again to means of 1, 2, 4, ... neighboring points, as long as ten means are
 * left, and the largest error of all is taken. NaN slope for fewer than 2 points or equal x, NaN error for fewer than
 * 3. */
mlffprof_slope mlffprof_regression(const double *x, const double *y, const int64_t *w, int n);
/* The same slope with an error that holds where y is a random walk, as the energy of NVE, or noise, or the sum of both.
 * Increments of the means of 20 blocks have the covariance  noise * (2, -1 next to the diagonal) + walk,  which sines
 * diagonalise; the interval is that of the mixture over all ratios of walk and noise, weighted by their restricted
 * likelihood. NaN error for fewer than 20 points. Twin: drift in python/mlff_tools/ensemble/statistics.py. */
mlffprof_slope mlffprof_drift(const double *x, const double *y, const int64_t *w, int n);
/* Its slope alone, which costs a hundredth. */
double mlffprof_regression_slope(const double *x, const double *y, const int64_t *w, int n);

/* The slope and its error if y is a random walk: from the differences between the medians of ten blocks. A few jumps
 * of a quantity that is otherwise constant are such a walk, and give no significant slope. NaN for n < 10. scratch
 * [n]. */
mlffprof_slope mlffprof_walk(const double *x, const double *y, const int64_t *w, int n, double *scratch);

#endif
