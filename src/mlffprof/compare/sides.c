/* sides.c: several runs a side. Runs differ by more than their steps do (their start, the machine, its neighbors), so
 * the runs are the samples here: the ratio of B to A is the median of all ratios of a run of B to one of A (J. L.
 * Hodges, E. L. Lehmann, Ann. Math. Stat. 34, 598, 1963), its interval the ratios at the ranks that the Mann-Whitney
 * test does not reject. */
#include "../../base/number.h"
#include "compare/sides.h"
#include "recorder/statistics.h"
#include "errors.h"

#include <math.h>
#include <string.h>

enum { MOST = MLFFPROF_MOST_RUNS };

/* Finite values of a metric, sorted; their number. */
static int values_of(const mlffprof_report *const *side, int n_runs, const char *metric, double *values)
{
  int n = 0;
  for (int k = 0; k < n_runs; k++) {
    double value = NAN;
    mlffprof_report_metric(side[k], metric, &value);
    if (isfinite(value)) values[n++] = value;
  }
  mlffprof_sort(values, n);
  return n;
}

mlffprof_ratio mlffprof_sides_ratio(const double *a, int n_a, const double *b, int n_b)
{
  double ratios[MOST * MOST];
  const int n = n_a * n_b;
  int n_outside = 0; /* ratios below the interval, and as many above */
  mlffprof_ratio found = {.ratio = NAN, .low = NAN, .high = NAN, .p = NAN, .n_a = n_a, .n_b = n_b};
  for (int i = 0; i < n_a; i++)
    for (int k = 0; k < n_b; k++) {
      if (!(a[i] > 0) || !(b[k] >= 0)) return found;
      ratios[i * n_b + k] = b[k] / a[i];
    }
  if (!n) return found;
  mlffprof_sort(ratios, n);
  found.ratio = mlffprof_quantile(ratios, n, 0.5);
  found.p = mlffprof_mann_whitney(a, n_a, b, n_b);
  while (2 * n_outside < n && 2 * mlffprof_mann_whitney_tail(n_a, n_b, n_outside) <= 0.05) n_outside++;
  if (!n_outside) return found;
  found.low = ratios[n_outside - 1];
  found.high = ratios[n - n_outside];
  return found;
}

/* ---- table ------------------------------------------------------------------------------------------------------- */

static const char *format(double value, int digits, char text[MLFF_NUMBER_SIZE])
{
  return isfinite(value) ? mlff_number_format(value, digits, text) : "-";
}

/* Median, and from the least to the largest. */
static void print_values(FILE *out, const double *values, int n)
{
  char text[3][MLFF_NUMBER_SIZE], all[3 * MLFF_NUMBER_SIZE];
  if (n)
    snprintf(all, sizeof all, "%s (%s to %s)", format(mlffprof_quantile(values, n, 0.5), 4, text[0]),
             format(values[0], 4, text[1]), format(values[n - 1], 4, text[2]));
  else
    strcpy(all, "-");
  fprintf(out, "%32s", all);
}

static void print_metric(FILE *out, const char *metric, const mlffprof_report *const *a, int n_a,
                         const mlffprof_report *const *b, int n_b)
{
  double of_a[MOST], of_b[MOST];
  char text[4][MLFF_NUMBER_SIZE], interval[2 * MLFF_NUMBER_SIZE + 8] = "-";
  const int found_a = values_of(a, n_a, metric, of_a), found_b = values_of(b, n_b, metric, of_b);
  if (!found_a && !found_b) return;
  const mlffprof_ratio ratio = mlffprof_sides_ratio(of_a, found_a, of_b, found_b);
  fprintf(out, "%-18s", metric);
  print_values(out, of_a, found_a);
  print_values(out, of_b, found_b);
  if (isfinite(ratio.low))
    snprintf(interval, sizeof interval, "%s to %s", format(ratio.low, 4, text[0]), format(ratio.high, 4, text[1]));
  fprintf(out, "%9s%20s%9s\n", format(ratio.ratio, 4, text[2]), interval, format(ratio.p, 2, text[3]));
}

static void print_side(FILE *out, char letter, const mlffprof_report *const *side, int n)
{
  for (int k = 0; k < n; k++) mlffprof_print_report_line(out, k ? ' ' : letter, side[k]);
}

mlffprof_status mlffprof_compare_sides_print(const mlffprof_report *const *a, int n_a, const mlffprof_report *const *b,
                                             int n_b, FILE *out, mlffprof_error *error)
{
  static const char *const metrics[] = {"median_latency_ms", "mean_latency_ms", "cpu_ms",         "p95_latency_ms",
                                        "p99_latency_ms",    "us_per_atom",     "memory_peak_gb", "force_rmse"};
  if (n_a < 1 || n_b < 1 || n_a > MOST || n_b > MOST)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "%d and %d runs: 1 to %d a side can be compared", n_a, n_b, (int) MOST);
  print_side(out, 'A', a, n_a);
  print_side(out, 'B', b, n_b);
  for (int k = 1; k < n_a; k++) mlffprof_print_differences(out, a[0], a[k]);
  mlffprof_print_differences(out, a[0], b[0]);
  for (int k = 1; k < n_b; k++) mlffprof_print_differences(out, b[0], b[k]);
  fprintf(out, "\n%-18s%32s%32s%9s%20s%9s\n", "", "A: median (range)", "B: median (range)", "B / A", "95 % interval",
          "p");
  for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) print_metric(out, metrics[k], a, n_a, b, n_b);
  fputs("\nratio: median of the ratios of each run of B to each of A; interval and p: Mann-Whitney test on the runs\n",
        out);
  if (2 * mlffprof_mann_whitney_tail(n_a, n_b, 0) > 0.05)
    fprintf(out,
            "%d and %d runs are too few for an interval and for p < 0.05, whatever they say: 4 a side are enough\n",
            n_a, n_b);
  return mlffprof_flushed(out, "a comparison", error);
}
