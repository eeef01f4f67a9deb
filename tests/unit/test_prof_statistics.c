/* test_prof_statistics.c: moments, quantiles, the sketch, slopes and their error bars, the rank test. */
#include "profsample.h"

#include "mlffprof/recorder/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- moments and quantiles --------------------------------------------------------------------------------------- */

/* 1..n: mean (n+1)/2, sample variance n(n+1)/12, no skew. */
START_TEST(moments_of_the_first_numbers)
{
  mlffprof_moments m = {.n = 0};
  const int n = 101;
  for (int k = 1; k <= n; k++) mlffprof_moments_add(&m, k);
  near_one(m.mean, 51, 1e-12);
  near_one(mlffprof_moments_std(&m), sqrt(n * (n + 1) / 12.0), 1e-12);
  near_one(mlffprof_moments_skew(&m), 0, 1e-12);
  near_one(m.min, 1, 0);
  near_one(m.max, 101, 0);
  near_one(m.excursion, 100, 0);
}
END_TEST

/* Bernoulli with p = 1/10: skew (1 - 2p) / sqrt(p(1-p)) = 8/3. */
START_TEST(skew_of_bernoulli)
{
  mlffprof_moments m = {.n = 0};
  for (int k = 0; k < 1000; k++) mlffprof_moments_add(&m, k % 10 == 0);
  near_one(mlffprof_moments_skew(&m), 8.0 / 3, 1e-10);
}
END_TEST

START_TEST(few_samples_are_null)
{
  mlffprof_moments m = {.n = 0};
  mlffprof_stats s = mlffprof_moments_stats(&m, 1);
  prof_unmeasured(s.mean);
  prof_unmeasured(s.min);
  prof_unmeasured(s.std);
  mlffprof_moments_add(&m, 3);
  s = mlffprof_moments_stats(&m, 2);
  near_one(s.mean, 6, 0);
  prof_unmeasured(s.std);
  prof_unmeasured(s.cv);
  mlffprof_moments_add(&m, 5);
  s = mlffprof_moments_stats(&m, 1);
  near_one(s.std, sqrt(2), 1e-15);
  prof_unmeasured(mlffprof_moments_skew(&m));
  prof_unmeasured(mlffprof_quantile(NULL, 0, 0.5));
}
END_TEST

/* A spread of 1 on top of 1e9 cancels in the sum of squares, not in Welford's update. */
START_TEST(steady_runs_do_not_cancel)
{
  mlffprof_moments m = {.n = 0};
  for (int k = 0; k < 100000; k++) mlffprof_moments_add(&m, 1e9 + k % 2);
  near_one(mlffprof_moments_std(&m), 0.5 * sqrt(100000.0 / 99999), 1e-9);
}
END_TEST

START_TEST(quantiles_are_linear_between_neighbours)
{
  const double two[] = {1, 3}, four[] = {10, 20, 30, 70};
  near_one(mlffprof_quantile(two, 2, 0.5), 2, 1e-15);
  near_one(mlffprof_quantile(two, 1, 0.99), 1, 0);
  near_one(mlffprof_quantile(four, 4, 0.5), 25, 1e-15);
  near_one(mlffprof_quantile(four, 4, 0.95), 64, 1e-12); /* numpy.percentile([10, 20, 30, 70], 95) */
  near_one(mlffprof_quantile(four, 4, 1), 70, 0);
}
END_TEST

/* ---- sketch ------------------------------------------------------------------------------------------------------ */

static const double levels[] = {0, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1};
enum { N_LEVELS = sizeof levels / sizeof *levels };

static double draw(test_rng *rng, int kind)
{
  if (kind == 0) return 1e-3 * exp(test_normal(rng));     /* log-normal                  */
  if (kind == 1) return test_uniform(rng, 1e-3, 2e-3);    /* uniform                     */
  if (kind == 2) return test_below(rng, 50) ? 1e-6 : 3.0; /* two values, six decades apart */
  return 1e-5 / pow(test_uniform(rng, 1e-6, 1), 1 / 1.5); /* heavy tail                  */
}

/* The bound that is documented holds for every quantile of every distribution; both neighbors of a rank hold it, and
 * so does what lies between them. */
START_TEST(sketch_holds_its_bound)
{
  enum { N = 100000 };
  mlffprof_sketch *s = calloc(1, sizeof *s);
  double *values = malloc(N * sizeof *values), got[N_LEVELS];
  test_rng rng = {(uint64_t) _i + 1};
  ck_assert(s && values);
  for (int k = 0; k < N; k++) {
    values[k] = draw(&rng, _i);
    mlffprof_sketch_add(s, values[k]);
  }
  mlffprof_sort(values, N);
  mlffprof_sketch_quantiles(s, levels, N_LEVELS, got);
  for (int k = 0; k < N_LEVELS; k++) {
    const double exact = mlffprof_quantile(values, N, levels[k]);
    near_one(got[k], exact, MLFFPROF_SKETCH_ERROR * exact * (1 + 1e-9));
  }
  near_one(got[0], values[0], 0);
  near_one(got[N_LEVELS - 1], values[N - 1], 0);
  free(values);
  free(s);
}
END_TEST

START_TEST(sketch_of_extremes)
{
  mlffprof_sketch *s = calloc(1, sizeof *s);
  double q[1], half[] = {0.5}, sum = 0;
  int64_t n = 0;
  ck_assert_ptr_nonnull(s);
  mlffprof_sketch_quantiles(s, half, 1, q);
  prof_unmeasured(q[0]);
  mlffprof_sketch_add(s, 0);
  mlffprof_sketch_add(s, 0);
  mlffprof_sketch_add(s, 1e9);
  mlffprof_sketch_quantiles(s, half, 1, q);
  near_one(q[0], 0, 0);
  mlffprof_sketch_above(s, 1, &n, &sum);
  ck_assert_int_eq(n, 1);
  ck_assert_int_eq(s->n, 3);
  free(s);
}
END_TEST

/* ---- slopes ------------------------------------------------------------------------------------------------------ */

START_TEST(student_quantiles)
{
  near_one(mlffprof_t975(1), 12.7062, 1e-3);
  near_one(mlffprof_t975(8), 2.30600, 1e-4);
  near_one(mlffprof_t975(16), 2.11991, 1e-4);
  near_one(mlffprof_t975(30), 2.04227, 1e-4);
  near_one(mlffprof_t975(1000), 1.96234, 1e-4);
  prof_unmeasured(mlffprof_t975(0));
}
END_TEST

enum { N_POINTS = 400 };

typedef struct line {
  double x[N_POINTS], y[N_POINTS];
  int64_t w[N_POINTS];
} line;

/* Noise of AR(1): y_k = phi y_(k-1) + normal. */
static line noisy_line(double slope, double phi, uint64_t seed)
{
  line l;
  test_rng rng = {seed};
  double noise = test_normal(&rng) / sqrt(1 - phi * phi);
  for (int k = 0; k < N_POINTS; k++) {
    noise = phi * noise + test_normal(&rng);
    l.x[k] = 0.1 * k;
    l.y[k] = 3 + slope * l.x[k] + noise;
    l.w[k] = 1;
  }
  return l;
}

START_TEST(slope_of_a_line_is_exact)
{
  line l = noisy_line(0, 0, 1);
  for (int k = 0; k < N_POINTS; k++) l.y[k] = 5 - 0.25 * l.x[k];
  l.w[3] = 0; /* left out, whatever it is */
  l.y[3] = NAN;
  const mlffprof_slope s = mlffprof_regression(l.x, l.y, l.w, N_POINTS);
  near_one(s.slope, -0.25, 1e-14);
  near_one(s.error, 0, 1e-12);
}
END_TEST

START_TEST(slope_of_few_points)
{
  const double x[] = {1, 2, 4}, y[] = {1, 3, 5}, same[] = {1, 1, 1};
  const int64_t w[] = {1, 1, 1};
  prof_unmeasured(mlffprof_regression(x, y, w, 0).slope);
  prof_unmeasured(mlffprof_regression(x, y, w, 1).slope);
  near_one(mlffprof_regression(x, y, w, 2).slope, 2, 1e-15);
  prof_unmeasured(mlffprof_regression(x, y, w, 2).error);
  near_one(mlffprof_regression(x, y, w, 3).slope, 9.0 / 7, 1e-14);
  /* residual variance 2/7, sum of squares 14/3: t(1) sqrt(2/7 / (14/3)) */
  near_one(mlffprof_regression(x, y, w, 3).error, 12.706205 * sqrt(2.0 / 7 / (14.0 / 3)), 1e-5);
  prof_unmeasured(mlffprof_regression(same, y, w, 3).slope);
}
END_TEST

/* How often the 95 % interval holds the true slope: at least 95 % for white noise, and nearly so for noise that is
 * correlated over 20 points, for which an interval from single points would hold it in 36 % only (measured here as
 * the control). */
START_TEST(error_bars_cover)
{
  enum { N_TRIALS = 1000 };
  const double phi = _i ? 0.9 : 0;
  int n_covered = 0, n_naive = 0;
  for (int k = 0; k < N_TRIALS; k++) {
    const line l = noisy_line(0.02, phi, 1000u + (uint64_t) k);
    const mlffprof_slope s = mlffprof_regression(l.x, l.y, l.w, N_POINTS);
    double rest = 0, sxx = 0, mean_x = 0, mean_y = 0;
    for (int i = 0; i < N_POINTS; i++) mean_x += l.x[i] / N_POINTS, mean_y += l.y[i] / N_POINTS;
    for (int i = 0; i < N_POINTS; i++) {
      const double r = l.y[i] - mean_y - s.slope * (l.x[i] - mean_x);
      rest += r * r;
      sxx += (l.x[i] - mean_x) * (l.x[i] - mean_x);
    }
    n_covered += fabs(s.slope - 0.02) <= s.error;
    n_naive += fabs(s.slope - 0.02) <= 1.966 * sqrt(rest / (N_POINTS - 2) / sxx);
  }
  ck_assert_int_ge(n_covered, _i ? 900 : 950);
  if (_i)
    ck_assert_int_lt(n_naive, 600);
  else
    ck_assert_int_ge(n_naive, 930);
}
END_TEST

/* How often the interval of a drift holds the true one, 0.02 per unit of x: noise, a random walk, and their sum, in
 * which the walk is what matters and cannot be seen in neighboring points. The interval of the regression, as the
 * control, holds it in a third for a walk. */
START_TEST(drifts_of_walks_are_covered)
{
  enum { N_TRIALS = 1000 };
  const double walk = _i ? 1 : 0, noise = (const double[]){1, 0, 10}[_i];
  int n_covered = 0, n_control = 0;
  for (int k = 0; k < N_TRIALS; k++) {
    line l = noisy_line(0, 0, 5000u + (uint64_t) k);
    test_rng rng = {77000u + (uint64_t) k};
    double sum = 0;
    for (int i = 0; i < N_POINTS; i++) {
      sum += walk * test_normal(&rng);
      l.y[i] = noise * (l.y[i] - 3) + sum + 0.02 * l.x[i];
    }
    const mlffprof_slope s = mlffprof_drift(l.x, l.y, l.w, N_POINTS);
    n_covered += fabs(s.slope - 0.02) <= s.error;
    n_control += fabs(s.slope - 0.02) <= mlffprof_regression(l.x, l.y, l.w, N_POINTS).error;
  }
  ck_assert_int_ge(n_covered, 900);
  if (_i == 1) ck_assert_int_lt(n_control, 600);
}
END_TEST

/* The twin in Python gives the same, of the same numbers. */
START_TEST(drift_is_that_of_python)
{
  double x[60], y[60];
  int64_t w[60];
  for (int k = 0; k < 60; k++) {
    x[k] = 0.5 * k;
    y[k] = sin(1.7 * k * k) + 0.05 * k + 0.3 * sin(0.11 * k);
    w[k] = 1;
  }
  const mlffprof_slope s = mlffprof_drift(x, y, w, 60);
  near_one(s.slope, 0.07196341, 1e-7);
  near_one(s.error, 0.05538416, 1e-5);
  for (int k = 0; k < 60; k++) y[k] = 5 - 0.25 * x[k];
  w[3] = 0; /* left out */
  y[3] = NAN;
  near_one(mlffprof_drift(x, y, w, 60).slope, -0.25, 1e-14);
  near_one(mlffprof_drift(x, y, w, 60).error, 0, 1e-12);
  prof_unmeasured(mlffprof_drift(x, y, w, 19).error);
}
END_TEST

/* A random walk has no trend: it is taken for growth in the 2.5 % that a two-sided 95 % interval allows, and a trend
 * is still seen. */
START_TEST(walks_have_no_trend)
{
  enum { N_TRIALS = 1000 };
  double scratch[N_POINTS];
  int n_accused = 0, n_found = 0;
  for (int k = 0; k < N_TRIALS; k++) {
    line l = noisy_line(0, 0, 77u + (uint64_t) k);
    for (int i = 1; i < N_POINTS; i++) l.y[i] = l.y[i - 1] + l.y[i] - 3;
    mlffprof_slope walk = mlffprof_walk(l.x, l.y, l.w, N_POINTS, scratch);
    n_accused += walk.slope > walk.error;
    for (int i = 0; i < N_POINTS; i++) l.y[i] += 0.5 * i;
    walk = mlffprof_walk(l.x, l.y, l.w, N_POINTS, scratch);
    n_found += walk.slope > walk.error;
  }
  ck_assert_int_le(n_accused, 40);
  ck_assert_int_ge(n_found, 950);
}
END_TEST

/* ---- series ------------------------------------------------------------------------------------------------------ */

/* 100,000 samples of a line with gaps in 64 points: bounded, evenly spaced, and every sample is in the slope. */
START_TEST(series_is_bounded_and_loses_nothing)
{
  mlffprof_series s;
  int64_t n_counted = 0, n_measured = 0;
  ck_assert(mlffprof_series_create(&s, 2, 64));
  for (int k = 0; k < 100000; k++) {
    const double values[2] = {2.5 * k + 1, k % 3 ? NAN : (double) k};
    mlffprof_series_add(&s, k, k, values);
    n_measured += k % 3 == 0;
  }
  ck_assert_int_le(s.n, 64);
  ck_assert_int_ge(s.n, 32);
  for (int k = 0; k < s.n; k++) {
    ck_assert_int_eq(s.step[k], k * s.stride);
    near_one(s.value[0][k], 2.5 * (double) s.step[k] + 1, 0);
    n_counted += s.count[1][k];
  }
  ck_assert_int_eq(n_counted, n_measured);
  near_one(mlffprof_regression(s.mean_x[0], s.mean[0], s.count[0], s.n).slope, 2.5, 1e-10);
  near_one(mlffprof_regression(s.mean_x[1], s.mean[1], s.count[1], s.n).slope, 1, 1e-10);
  mlffprof_series_free(&s);
}
END_TEST

/* ---- rank test --------------------------------------------------------------------------------------------------- */

START_TEST(rank_test_values)
{
  const double a[] = {1, 2, 3}, b[] = {4, 5, 6}, same[] = {7, 7, 7, 7};
  const double x[] = {19, 22, 16, 29, 24}, y[] = {20, 11, 17, 12};
  near_one(mlffprof_mann_whitney(a, 3, b, 3), 0.1, 1e-12);    /* 2 of the 20 orders                        */
  near_one(mlffprof_mann_whitney(x, 5, y, 4), 1.0 / 9, 1e-9); /* U = 17 of 20: 14 of the 126 orders        */
  near_one(mlffprof_mann_whitney(y, 4, x, 5), 1.0 / 9, 1e-9);
  near_one(mlffprof_mann_whitney(same, 4, same, 4), 1, 0);
  prof_unmeasured(mlffprof_mann_whitney(a, 0, b, 3));
}
END_TEST

/* With ties: (mean - U - 1/2) / sigma with the variance corrected, by hand for 1 2 2 3 against 2 3 4 4 5 5:
 * U = 2.5, mean = 12, ties 3^3-3 + 2^3-2 + 2^3-2 + 2^3-2 = 42, variance 24/12 (11 - 42/90). */
START_TEST(rank_test_with_ties)
{
  const double x[] = {1, 2, 2, 3}, y[] = {2, 3, 4, 4, 5, 5};
  const double z = (12 - 2.5 - 0.5) / sqrt(2 * (11 - 42.0 / 90));
  near_one(mlffprof_mann_whitney(x, 4, y, 6), erfc(z / sqrt(2)), 1e-12);
}
END_TEST

/* Two samples of one distribution differ at the 5 % level in at most 5 % of the cases; shifted ones nearly always. */
START_TEST(rank_test_levels)
{
  enum { N = 12, N_TRIALS = 2000 };
  int n_wrong = 0, n_found = 0;
  test_rng rng = {5};
  for (int k = 0; k < N_TRIALS; k++) {
    double x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = test_normal(&rng), y[i] = test_normal(&rng);
    n_wrong += mlffprof_mann_whitney(x, N, y, N) < 0.05;
    for (int i = 0; i < N; i++) y[i] += 2;
    n_found += mlffprof_mann_whitney(x, N, y, N) < 0.05;
  }
  ck_assert_int_le(n_wrong, 120);
  ck_assert_int_ge(n_wrong, 50);
  ck_assert_int_ge(n_found, 1900);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("prof_statistics");
  TCase *t = tcase_create("statistics");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, moments_of_the_first_numbers);
  tcase_add_test(t, skew_of_bernoulli);
  tcase_add_test(t, few_samples_are_null);
  tcase_add_test(t, steady_runs_do_not_cancel);
  tcase_add_test(t, quantiles_are_linear_between_neighbours);
  tcase_add_loop_test(t, sketch_holds_its_bound, 0, 4);
  tcase_add_test(t, sketch_of_extremes);
  tcase_add_test(t, student_quantiles);
  tcase_add_test(t, slope_of_a_line_is_exact);
  tcase_add_test(t, slope_of_few_points);
  tcase_add_loop_test(t, error_bars_cover, 0, 2);
  tcase_add_loop_test(t, drifts_of_walks_are_covered, 0, 3);
  tcase_add_test(t, drift_is_that_of_python);
  tcase_add_test(t, walks_have_no_trend);
  tcase_add_test(t, series_is_bounded_and_loses_nothing);
  tcase_add_test(t, rank_test_values);
  tcase_add_test(t, rank_test_with_ties);
  tcase_add_test(t, rank_test_levels);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
