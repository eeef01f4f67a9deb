/* statistics.c: see statistics.h. */
#include "recorder/statistics.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

void mlffprof_sort(double *values, int64_t n)
{
  if (n > 1) qsort(values, (size_t) n, sizeof *values, by_value);
}

double mlffprof_quantile(const double *sorted, int64_t n, double q)
{
  if (n < 1) return NAN;
  const double at = q * (double) (n - 1);
  const int64_t low = (int64_t) at, high = low + 1 < n ? low + 1 : low;
  return sorted[low] + (at - (double) low) * (sorted[high] - sorted[low]);
}

double mlffprof_t975(int64_t degrees)
{
  static const double table[] = {NAN,      12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624,
                                 2.306004, 2.262157,  2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450};
  const double z = 1.959963985, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  const double n = (double) degrees;
  if (degrees < 16) return degrees < 1 ? NAN : table[degrees];
  /* Cornish-Fisher, within 1e-4 from here on */
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

double mlffprof_normal_tail(double z)
{
  return 0.5 * erfc(z / sqrt(2.0));
}

/* A slope and the half-width of its 95 % interval if the points were independent. */
typedef struct fit {
  double slope, error;
} fit;

typedef struct mean_point {
  double x, y, w;
} mean_point;

/* Mean of the points [begin, end). */
static mean_point block(const double *x, const double *y, const int64_t *w, int begin, int end)
{
  mean_point p = {0, 0, 0};
  for (int k = begin; k < end; k++) {
    const double weight = (double) w[k];
    if (w[k] == 0) continue;
    p.x += weight * x[k];
    p.y += weight * y[k];
    p.w += weight;
  }
  if (p.w > 0) {
    p.x /= p.w;
    p.y /= p.w;
  }
  return p;
}

/* Line through the means of `size` neighboring points each. */
static fit fit_blocks(const double *x, const double *y, const int64_t *w, int n, int size)
{
  const mean_point all = block(x, y, w, 0, n);
  double sxx = 0, sxy = 0, rest = 0;
  int m = 0;
  for (int k = 0; k < n; k += size) {
    const mean_point p = block(x, y, w, k, k + size < n ? k + size : n);
    sxx += p.w * (p.x - all.x) * (p.x - all.x);
    sxy += p.w * (p.x - all.x) * (p.y - all.y);
    m += p.w > 0;
  }
  if (m < 2 || !(sxx > 0)) return (fit){NAN, NAN};
  const double slope = sxy / sxx;
  for (int k = 0; k < n; k += size) {
    const mean_point p = block(x, y, w, k, k + size < n ? k + size : n);
    const double r = p.y - all.y - slope * (p.x - all.x);
    rest += p.w * r * r;
  }
  return (fit){slope, m > 2 ? mlffprof_t975(m - 2) * sqrt(rest / (m - 2) / sxx) : NAN};
}

double mlffprof_regression_slope(const double *x, const double *y, const int64_t *w, int n)
{
  const mean_point all = block(x, y, w, 0, n);
  double sxx = 0, sxy = 0;
  for (int k = 0; k < n; k++) {
    if (w[k] == 0) continue;
    sxx += (double) w[k] * (x[k] - all.x) * (x[k] - all.x);
    sxy += (double) w[k] * (x[k] - all.x) * (y[k] - all.y);
  }
  return sxx > 0 ? sxy / sxx : NAN;
}

mlffprof_slope mlffprof_regression(const double *x, const double *y, const int64_t *w, int n)
{
  const fit all = fit_blocks(x, y, w, n, 1);
  mlffprof_slope s = {all.slope, all.error};
  for (int size = 2; n / size >= 10; size *= 2) s.error = fmax(s.error, fit_blocks(x, y, w, n, size).error);
  return s;
}

enum { DRIFT_BLOCKS = 20, N_STEPS = DRIFT_BLOCKS - 1, N_RATIOS = 34 };

/* Increments of the means of blocks in the basis of sines: themselves, those of a line with slope one, the weights of
 * the slope by least squares, and the variance of noise. */
typedef struct increments {
  double z[N_STEPS], line[N_STEPS], weight[N_STEPS], noise[N_STEPS], spacing;
} increments;

/* Increments of y less the line with this slope. */
static increments increments_of(const double *x, const double *y, const int64_t *w, int n, double slope)
{
  const int m = N_STEPS;
  const double pi = 3.14159265358979323846;
  increments out = {{0}, {0}, {0}, {0}, 0};
  mean_point mean[DRIFT_BLOCKS];
  int n_known = 0, seen = 0, begin = 0;
  for (int k = 0; k < n; k++) n_known += w[k] > 0;
  for (int k = 0; k <= m; k++) {
    int end = begin;
    while (end < n && (seen < (int64_t) n_known * (k + 1) / (m + 1) || w[end] == 0)) seen += w[end++] > 0;
    mean[k] = block(x, y, w, begin, end);
    mean[k].y -= slope * mean[k].x;
    begin = end;
  }
  if (n_known < DRIFT_BLOCKS) return out;
  out.spacing = (mean[m].x - mean[0].x) / m;
  for (int a = 0; a < m; a++) {
    out.noise[a] = 2 - 2 * cos(pi * (a + 1) / (m + 1));
    for (int k = 0; k < m; k++) {
      const double sine = sqrt(2.0 / (m + 1)) * sin(pi * (a + 1) * (k + 1) / (m + 1));
      out.z[a] += sine * (mean[k + 1].y - mean[k].y);
      out.line[a] += sine;
      out.weight[a] += sine * 6.0 * (k + 1) * (m - k) / ((m + 1) * ((m + 1) * (m + 1) - 1.0));
    }
  }
  return out;
}

/* Standard deviation of the slope (per block) where walk and noise have this ratio of variances, and the logarithm of
 * its restricted likelihood. */
static double deviation_of(const increments *d, double ratio, double *likelihood)
{
  double v[N_STEPS], information = 0, slope = 0, square = 0, logs = 0, sum = 0;
  for (int a = 0; a < N_STEPS; a++) {
    v[a] = d->noise[a] + ratio * (1 - d->noise[a] / 6); /* of means over blocks of a walk */
    information += d->line[a] * d->line[a] / v[a];
    slope += d->line[a] * d->z[a] / v[a];
  }
  slope /= information;
  for (int a = 0; a < N_STEPS; a++) {
    const double rest = d->z[a] - slope * d->line[a];
    square += rest * rest / v[a] / (N_STEPS - 1);
    sum += d->weight[a] * d->weight[a] * v[a];
    logs += log(v[a]);
  }
  *likelihood = -0.5 * (logs + (N_STEPS - 1) * log(square) + log(information));
  return sqrt(square * sum);
}

mlffprof_slope mlffprof_drift(const double *x, const double *y, const int64_t *w, int n)
{
  double deviation[N_RATIOS], likelihood[N_RATIOS], best = -INFINITY, total = 0, low = 0, high = 0;
  mlffprof_slope s = {mlffprof_regression_slope(x, y, w, n), NAN};
  const increments d = increments_of(x, y, w, n, s.slope);
  if (!(d.spacing > 0)) return s;
  for (int r = 0; r < N_RATIOS; r++) {
    deviation[r] = deviation_of(&d, r ? pow(10, -4 + (r - 1) / 4.0) : 0, &likelihood[r]);
    if (!(deviation[r] > 1e-15 * fabs(s.slope) * d.spacing)) return (mlffprof_slope){s.slope, deviation[r]};
    deviation[r] *= mlffprof_t975(N_STEPS - 1) / mlffprof_t975(INT32_MAX);
    best = fmax(best, likelihood[r]);
    high = fmax(high, 10 * deviation[r]);
  }
  for (int r = 0; r < N_RATIOS; r++) total += likelihood[r] = exp(likelihood[r] - best);
  for (int step = 0; step < 50; step++) {
    const double middle = 0.5 * (low + high);
    double inside = 0;
    for (int r = 0; r < N_RATIOS; r++) inside += likelihood[r] * erf(middle / (sqrt(2.0) * deviation[r]));
    *(inside < 0.95 * total ? &low : &high) = middle;
  }
  s.error = high / d.spacing;
  return s;
}

/* Median of the points [begin, end) with w > 0, by a copy in scratch; NaN when there are none. */
static double block_median(const double *y, const int64_t *w, int begin, int end, double *scratch)
{
  int n = 0;
  for (int k = begin; k < end; k++)
    if (w[k] > 0) scratch[n++] = y[k];
  mlffprof_sort(scratch, n);
  return mlffprof_quantile(scratch, n, 0.5);
}

mlffprof_slope mlffprof_walk(const double *x, const double *y, const int64_t *w, int n, double *scratch)
{
  enum { N_BLOCKS = 10 };
  double at[N_BLOCKS], middle[N_BLOCKS], mean = 0, square = 0;
  if (n < N_BLOCKS) return (mlffprof_slope){NAN, NAN};
  for (int k = 0; k < N_BLOCKS; k++) {
    const int begin = (int) ((int64_t) n * k / N_BLOCKS), end = (int) ((int64_t) n * (k + 1) / N_BLOCKS);
    at[k] = block(x, y, w, begin, end).x;
    middle[k] = block_median(y, w, begin, end, scratch);
  }
  const double spacing = (at[N_BLOCKS - 1] - at[0]) / (N_BLOCKS - 1);
  for (int k = 1; k < N_BLOCKS; k++) mean += (middle[k] - middle[k - 1]) / (N_BLOCKS - 1);
  for (int k = 1; k < N_BLOCKS; k++) square += pow(middle[k] - middle[k - 1] - mean, 2) / (N_BLOCKS - 2);
  if (!(spacing > 0)) return (mlffprof_slope){NAN, NAN};
  const double error = mlffprof_t975(N_BLOCKS - 2) * sqrt(square / (N_BLOCKS - 1));
  return (mlffprof_slope){mean / spacing, error / spacing};
}
