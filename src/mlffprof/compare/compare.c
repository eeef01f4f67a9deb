/* compare.c: one report against another. */
#include "compare/blocks.h"
#include "compare/sides.h"
#include "../../base/number.h"
#include "recorder/statistics.h"
#include "report/make.h"

#include <math.h>
#include <string.h>

enum { N_RESAMPLES = 1000 };

/* The quantile of the latencies that a metric is; -1: the mean, NaN: none. */
static double statistic_of(const char *metric)
{
  static const struct {
    const char *name;
    double q;
  } known[] = {{"mean_latency_ms", -1}, {"median_latency_ms", 0.5}, {"p95_latency_ms", 0.95}, {"p99_latency_ms", 0.99}};
  for (int k = 0; k < 4; k++)
    if (!strcmp(known[k].name, metric)) return known[k].q;
  return NAN;
}

static double quotient(double a, double b)
{
  return a > 0 && b >= 0 ? b / a : NAN;
}

static void fill_interval(const mlffprof_blocks *a, const mlffprof_blocks *b, double q, mlffprof_ratio *ratio)
{
  double values[N_RESAMPLES];
  uint64_t random = 20200531;
  for (int k = 0; k < N_RESAMPLES; k++) {
    const double from = mlffprof_blocks_resample(a, q, &random);
    values[k] = quotient(from, mlffprof_blocks_resample(b, q, &random));
  }
  mlffprof_sort(values, N_RESAMPLES);
  ratio->low = mlffprof_quantile(values, N_RESAMPLES, 0.025);
  ratio->high = mlffprof_quantile(values, N_RESAMPLES, 0.975);
}

mlffprof_status mlffprof_compare_latency(const mlffprof_report *a, const mlffprof_report *b, const char *metric,
                                         mlffprof_ratio *ratio, mlffprof_error *error)
{
  mlffprof_blocks of_a, of_b;
  double value_a = NAN, value_b = NAN;
  const double q = statistic_of(metric);
  if (isnan(q))
    return mlffprof_fail(error, MLFFPROF_E_ARG, "'%s' is not one of mean_, median_, p95_ and p99_latency_ms", metric);
  mlffprof_report_metric(a, metric, &value_a);
  mlffprof_report_metric(b, metric, &value_b);
  *ratio = (mlffprof_ratio){.ratio = quotient(value_a, value_b), .low = NAN, .high = NAN, .p = NAN};
  const int made_a = mlffprof_blocks_make(a, &of_a), made_b = mlffprof_blocks_make(b, &of_b);
  if (made_a && made_b) {
    ratio->n_a = of_a.n_blocks;
    ratio->n_b = of_b.n_blocks;
    if (of_a.n_blocks >= MLFFPROF_MIN_BLOCKS && of_b.n_blocks >= MLFFPROF_MIN_BLOCKS) {
      fill_interval(&of_a, &of_b, q, ratio);
      ratio->p = mlffprof_mann_whitney(of_a.median, of_a.n_blocks, of_b.median, of_b.n_blocks);
    }
  }
  if (made_a) mlffprof_blocks_free(&of_a);
  if (made_b) mlffprof_blocks_free(&of_b);
  return made_a && made_b ? MLFFPROF_OK : mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for a comparison");
}

/* ---- table ------------------------------------------------------------------------------------------------------- */

/* Numbers of one line as text. */
typedef struct cells {
  char text[8][MLFF_NUMBER_SIZE];
  int next;
} cells;

static const char *cell(cells *c, double value, int digits)
{
  return isfinite(value) ? mlff_number_format(value, digits, c->text[c->next++ % 8]) : "-";
}

static char letter_of(int k)
{
  return (char) (k < 26 ? 'A' + k : '+');
}

void mlffprof_print_report_line(FILE *out, char letter, const mlffprof_report *p)
{
  fprintf(out, "%c  %s: %s on %s", letter, p->name ? p->name : "-", p->model_name ? p->model_name : "-",
          p->device ? p->device : "-");
  if (p->n_atoms >= 0) fprintf(out, ", %lld atoms", (long long) p->n_atoms);
  fprintf(out, ", %d rank%s, %lld steps%s%s\n", p->n_ranks, p->n_ranks == 1 ? "" : "s", (long long) p->n_steps,
          p->timestamp ? ", " : "", p->timestamp ? p->timestamp : "");
}

void mlffprof_print_differences(FILE *out, const mlffprof_report *a, const mlffprof_report *b)
{
  static const char *const keys[] = {"host", "cpu", "gpu", "model_sha256", "model_header_sha256"};
  const int same_name = a->model_name && b->model_name && !strcmp(a->model_name, b->model_name);
  if (a->n_atoms != b->n_atoms)
    fprintf(out, "   note: %lld and %lld atoms\n", (long long) a->n_atoms, (long long) b->n_atoms);
  if (a->n_ranks != b->n_ranks) fprintf(out, "   note: %d and %d ranks\n", a->n_ranks, b->n_ranks);
  for (int k = 0; k < (same_name ? 5 : 3); k++) { /* models of one name, but not one model */
    const char *x = mlffprof_context_text(a, keys[k]), *y = mlffprof_context_text(b, keys[k]);
    if (x && y && strcmp(x, y)) fprintf(out, "   note: %s differs: %s, %s\n", keys[k], x, y);
  }
}

static mlffprof_status print_latencies(const mlffprof_report *a, const mlffprof_report *b, FILE *out,
                                       mlffprof_error *error)
{
  static const char *const metrics[] = {"mean_latency_ms", "median_latency_ms", "p95_latency_ms", "p99_latency_ms"};
  mlffprof_ratio ratio = {.p = NAN};
  fprintf(out, "\n%-32s%12s%12s%10s   %s\n", "", "A", "B", "B / A", "95 % interval");
  for (int k = 0; k < 4; k++) {
    cells c = {.next = 0};
    double x = NAN, y = NAN;
    mlffprof_report_metric(a, metrics[k], &x);
    mlffprof_report_metric(b, metrics[k], &y);
    MLFF_TRY(mlffprof_compare_latency(a, b, metrics[k], &ratio, error));
    fprintf(out, "%-32s%12s%12s%10s", metrics[k], cell(&c, x, 5), cell(&c, y, 5), cell(&c, ratio.ratio, 4));
    if (isnan(ratio.low))
      fputs("   -\n", out);
    else
      fprintf(out, "   %s to %s\n", cell(&c, ratio.low, 4), cell(&c, ratio.high, 4));
  }
  cells c = {.next = 0};
  if (isnan(ratio.p)) {
    fprintf(out, "not enough samples for intervals and a test: %d and %d, %d are needed\n", ratio.n_a, ratio.n_b,
            (int) MLFFPROF_MIN_BLOCKS);
    return MLFFPROF_OK;
  }
  fprintf(out, "Mann-Whitney test on the medians of %d and %d blocks of steps: p = %s, %s\n", ratio.n_a, ratio.n_b,
          cell(&c, ratio.p, 2), ratio.p < 0.05 ? "the medians of these two runs differ" : "no difference is shown");
  return MLFFPROF_OK;
}

/* Prints the metrics that at least one report has. */
static void print_side_by_side(const mlffprof_report *a, const mlffprof_report *b, FILE *out)
{
  static const struct {
    const char *metric, *unit, *lj_unit;
  } rows[] = {{"cpu_ms", "", ""},
              {"cv", "", ""},
              {"us_per_atom", "", ""},
              {"steps_per_second", "", ""},
              {"ns_per_day", "", ""},
              {"memory_initial_gb", "", ""},
              {"memory_peak_gb", "", ""},
              {"memory_delta_mb", "", ""},
              {"memory_growth_mb_per_1000_steps", "", ""},
              {"drift", ", eV/atom/ps", ", eps/atom/tau"},
              {"drift_percent", "", ""},
              {"energy_change_percent", "", ""},
              {"energy_fluctuation", ", relative", ", relative"},
              {"temperature_mean", ", K", ", eps"},
              {"temperature_std", ", K", ", eps"},
              {"pressure_mean", ", bar", ", eps/sigma^3"},
              {"pressure_std", ", bar", ", eps/sigma^3"},
              {"energy_mae", ", eV/atom", ""},
              {"force_rmse", ", eV/A", ""},
              {"force_max", ", eV/A", ""},
              {"force_cosine", "", ""},
              {"stress_rmse", ", GPa", ""},
              {"pressure_bias", ", bar", ""}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    cells c = {.next = 0};
    char name[64];
    double x = NAN, y = NAN;
    mlffprof_report_metric(a, rows[k].metric, &x);
    mlffprof_report_metric(b, rows[k].metric, &y);
    if (isnan(x) && isnan(y)) continue;
    snprintf(name, sizeof name, "%s%s", rows[k].metric, a->energy.lj_units ? rows[k].lj_unit : rows[k].unit);
    fprintf(out, "%-32s%12s%12s%10s\n", name, cell(&c, x, 5), cell(&c, y, 5), cell(&c, quotient(x, y), 4));
  }
  if (a->memory.n_points || b->memory.n_points)
    fprintf(out, "%-32s%12s%12s\n", "memory verdict", mlffprof_verdict_name(a->memory.verdict),
            mlffprof_verdict_name(b->memory.verdict));
  if (a->energy.n_samples || b->energy.n_samples)
    fprintf(out, "%-32s%12s%12s\n", "exploded",
            a->energy.exploded    ? "YES"
            : a->energy.n_samples ? "no"
                                  : "-",
            b->energy.exploded    ? "YES"
            : b->energy.n_samples ? "no"
                                  : "-");
}

mlffprof_status mlffprof_compare_print(const mlffprof_report *a, const mlffprof_report *b, FILE *out,
                                       mlffprof_error *error)
{
  cells c = {.next = 0};
  const double ratio = quotient(a->latency.median, b->latency.median);
  mlffprof_print_report_line(out, 'A', a);
  mlffprof_print_report_line(out, 'B', b);
  mlffprof_print_differences(out, a, b);
  MLFF_TRY(print_latencies(a, b, out, error));
  fputc('\n', out);
  print_side_by_side(a, b, out);
  if (ratio > 0)
    fprintf(out, "\nB takes %s times as long as A per step (median): %s times the speed\n", cell(&c, ratio, 4),
            cell(&c, 1 / ratio, 4));
  mlffprof_print_disturbance(out, (const mlffprof_report *const[]){a, b}, 2);
  fputs(
      "\nOne run each: how much runs of the same program differ from each other is not known from them, so this "
      "proves\n"
      "nothing about the programs. Several runs a side: mlff compare A1.json A2.json ... --with B1.json B2.json ...\n",
      out);
  return mlffprof_flushed(out, "a comparison", error);
}

/* ---- many reports against the first ------------------------------------------------------------------------------ */

int mlffprof_is_disturbed(const mlffprof_report *p)
{
  if (p->device && strcmp(p->device, "cpu")) return 0; /* waits for the device */
  for (int k = 0; k < p->n_tags; k++)
    if (!strcmp(p->tags[k].name, "preempted") && p->tags[k].share > 0.05) return 1;
  return p->cpu_share < 0.9;
}

void mlffprof_print_disturbance(FILE *out, const mlffprof_report *const *reports, int n)
{
  char text[2][MLFF_NUMBER_SIZE];
  int n_disturbed = 0;
  for (int k = 0; k < n; k++) n_disturbed += mlffprof_is_disturbed(reports[k]);
  if (!n_disturbed) return;
  fprintf(out, "\nDISTURBED: other programs had the processor in %d of %d runs; compare processor times (cpu_ms)\n",
          n_disturbed, n);
  const double ratio = quotient(reports[0]->cpu_ms, reports[n - 1]->cpu_ms);
  if (n == 2 && ratio > 0)
    fprintf(out, "B takes %s times the processor time of A per step: %s times the speed\n",
            mlff_number_format(ratio, 4, text[0]), mlff_number_format(1 / ratio, 4, text[1]));
}

double mlffprof_speed_up(const mlffprof_report *a, const mlffprof_report *b)
{
  const double atoms = a->n_atoms > 0 && b->n_atoms > 0 ? (double) b->n_atoms / (double) a->n_atoms : 1;
  return atoms * quotient(b->latency.median, a->latency.median);
}

/* Prints a line of the table; "-": not measured, or the first report, to which the others are compared. */
static mlffprof_status print_speed_up(FILE *out, char letter, const mlffprof_report *a, const mlffprof_report *b,
                                      mlffprof_error *error)
{
  cells c = {.next = 0};
  mlffprof_ratio ratio = {.low = NAN, .p = NAN};
  const double speed_up = mlffprof_speed_up(a, b);
  double rmse = NAN, memory = NAN;
  mlffprof_report_metric(b, "force_rmse", &rmse);
  mlffprof_report_metric(b, "memory_peak_gb", &memory);
  if (b != a) MLFF_TRY(mlffprof_compare_latency(a, b, "median_latency_ms", &ratio, error));
  fprintf(out, "%c%11s%11s%11s%10s", letter, cell(&c, b->latency.median, 4), cell(&c, b->us_per_atom, 4),
          cell(&c, memory, 4), cell(&c, speed_up, 4));
  if (isnan(ratio.low))
    fprintf(out, "%20s%10s", "-", "-");
  else {
    const double scale = speed_up * ratio.ratio;
    char interval[2 * MLFF_NUMBER_SIZE + 8];
    snprintf(interval, sizeof interval, "%s to %s", cell(&c, scale / ratio.high, 4), cell(&c, scale / ratio.low, 4));
    fprintf(out, "%20s%10s", interval, cell(&c, ratio.p, 2));
  }
  fprintf(out, "%12s\n", cell(&c, rmse, 4));
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_compare_all_print(const mlffprof_report *const *reports, int n_reports, FILE *out,
                                           mlffprof_error *error)
{
  const mlffprof_report *a = reports[0];
  for (int k = 0; k < n_reports; k++) {
    mlffprof_print_report_line(out, letter_of(k), reports[k]);
    if (k) mlffprof_print_differences(out, a, reports[k]);
  }
  fprintf(out, "\n%12s%11s%11s%10s%20s%10s%12s\n", "median, ms", "us/atom", "peak, GB", "speed-up", "95 % interval",
          "p", "force RMSE");
  for (int k = 0; k < n_reports; k++) MLFF_TRY(print_speed_up(out, letter_of(k), a, reports[k], error));
  fputs("\nspeed-up: median time of a step for an atom, against A; p: Mann-Whitney test on medians of blocks of steps;"
        "\nforce RMSE: eV/A, against the reference model of that run\n",
        out);
  mlffprof_print_disturbance(out, reports, n_reports);
  return mlffprof_flushed(out, "a comparison", error);
}
