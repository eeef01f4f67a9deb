/* rank_test.c: the Mann-Whitney U test. H. B. Mann, D. R. Whitney, Ann. Math. Stat. 18, 50 (1947). */
#include "compare/sides.h"
#include "recorder/statistics.h"

#include <math.h>
#include <string.h>

enum { EXACT_MAX = MLFFPROF_MOST_RUNS };

/* U of x against y: pairs with x > y, ties counted half. */
static double u_statistic(const double *x, int n_x, const double *y, int n_y)
{
  double u = 0;
  for (int i = 0; i < n_x; i++)
    for (int j = 0; j < n_y; j++) u += x[i] > y[j] ? 1 : x[i] < y[j] ? 0 : 0.5;
  return u;
}

/* Sum of t^3 - t over groups of t equal values of both samples together. */
static double tie_term(const double *x, int n_x, const double *y, int n_y)
{
  double sum = 0;
  for (int i = 0; i < n_x + n_y; i++) { /* a group of t values is counted t times: each time adds t^2 - 1 */
    const double v = i < n_x ? x[i] : y[i - n_x];
    double t = 0;
    for (int k = 0; k < n_x; k++) t += !(x[k] < v) && !(x[k] > v);
    for (int k = 0; k < n_y; k++) t += !(y[k] < v) && !(y[k] > v);
    sum += t * t - 1;
  }
  return sum;
}

/* Counts of the orders with each U, by the recursion over the largest value. */
double mlffprof_mann_whitney_tail(int n_x, int n_y, int u)
{
  /* ways[j][v]: orders of i x-values and j y-values with U = v */
  static const int size = EXACT_MAX * EXACT_MAX + 1;
  double ways[EXACT_MAX + 1][EXACT_MAX * EXACT_MAX + 1], below = 0, all = 0;
  for (int j = 0; j <= n_y; j++)
    for (int v = 0; v < size; v++) ways[j][v] = v == 0;
  for (int i = 1; i <= n_x; i++)
    for (int j = 1; j <= n_y; j++) /* the largest is an x, above all j; or a y */
      for (int v = n_x * n_y; v >= 0; v--) ways[j][v] = (v >= j ? ways[j][v - j] : 0) + ways[j - 1][v];
  for (int v = 0; v <= n_x * n_y; v++) {
    all += ways[n_y][v];
    below += v <= u ? ways[n_y][v] : 0;
  }
  return below / all;
}

double mlffprof_mann_whitney(const double *x, int n_x, const double *y, int n_y)
{
  if (n_x < 1 || n_y < 1) return NAN;
  const double nx = n_x, ny = n_y, n = nx + ny, mean = nx * ny / 2;
  const double u = u_statistic(x, n_x, y, n_y), ties = tie_term(x, n_x, y, n_y), low = fmin(u, nx * ny - u);
  if (ties <= 0 && n_x <= EXACT_MAX && n_y <= EXACT_MAX)
    return fmin(1, 2 * mlffprof_mann_whitney_tail(n_x, n_y, (int) low));
  const double variance = nx * ny / 12 * (n + 1 - ties / (n * (n - 1)));
  if (!(variance > 0)) return 1; /* all values are equal */
  return fmin(1, 2 * mlffprof_normal_tail((mean - low - 0.5) / sqrt(variance)));
}
