/* consistent.c: whether the numbers of a report that was read fit each other.
 *
 * Checked is only what holds for every report, whoever wrote it: signs, orders, and what follows from a series that is
 * stored in full (stride 1). Published reports have six digits in series and twelve in those of energies, and quantiles
 * of long runs are those of a sketch with a bound of their own: these are the tolerances.
 */
#include "report/make.h"

#include <math.h>
#include <stdlib.h>

#define DIGITS 2e-5         /* relative: two roundings to six digits         */
#define ENERGY_DIGITS 1e-10 /* of the largest value of a series of energies */

#define WHOLE_BYTES 0.5

typedef struct checking {
  const mlffprof_report *p;
  const char *path;
  mlffprof_error *error;
} checking;

static mlffprof_status contradiction(const checking *c, const char *name, double value, const char *relation,
                                     const char *other, double wanted)
{
  return mlffprof_fail(c->error, MLFFPROF_E_FORMAT,
                       "%s: %s is %.9g, %s %s (%.9g): the report contradicts itself, so it was changed or is damaged: "
                       "make it anew",
                       c->path, name, value, relation, other, wanted);
}

static mlffprof_status check_sign(const checking *c, const char *name, double value)
{
  return value < 0 ? contradiction(c, name, value, "below", "the least that is possible", 0) : MLFFPROF_OK;
}

/* low <= high; unknown numbers (NaN) pass. */
static mlffprof_status check_order(const checking *c, const char *low, double a, const char *high, double b,
                                   double tolerance)
{
  return a > b + tolerance * fmax(fabs(a), fabs(b)) ? contradiction(c, low, a, "above", high, b) : MLFFPROF_OK;
}

static mlffprof_status check_equal(const checking *c, const char *name, double value, const char *other, double wanted,
                                   double tolerance)
{
  return fabs(value - wanted) > tolerance ? contradiction(c, name, value, "instead of", other, wanted) : MLFFPROF_OK;
}

/* Number of values if every 2nd, 3rd, ... of n is kept. */
static int64_t n_kept(int64_t n, int64_t stride)
{
  return n / stride + (n % stride != 0);
}

/* ---- latencies --------------------------------------------------------------------------------------------------- */

static mlffprof_status check_signs(const checking *c)
{
  const mlffprof_report *p = c->p;
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"mean_latency_ms", p->latency.mean},
                 {"median_latency_ms", p->latency.median},
                 {"std_latency_ms", p->latency.std},
                 {"min_latency_ms", p->latency.min},
                 {"max_latency_ms", p->latency.max},
                 {"p95_latency_ms", p->latency.p95},
                 {"p99_latency_ms", p->latency.p99},
                 {"cv", p->latency.cv},
                 {"energy_time_ms", p->energy_time_ms},
                 {"forces_time_ms", p->forces_time_ms},
                 {"stress_time_ms", p->stress_time_ms},
                 {"total_time_s", p->total_time_s},
                 {"steps_per_second", p->steps_per_second},
                 {"us_per_atom", p->us_per_atom},
                 {"ns_per_day", p->ns_per_day},
                 {"mean_latency_ms of the warm-up", p->warmup.mean},
                 {"max_latency_ms of the warm-up", p->warmup.max}};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
    MLFF_TRY(check_sign(c, numbers[k].name, numbers[k].value));
  for (int k = 0; k < p->n_latencies; k++) MLFF_TRY(check_sign(c, "a value of latencies_ms", p->latencies_ms[k]));
  for (int k = 0; k < p->n_components; k++) {
    MLFF_TRY(check_sign(c, "mean_ms of a component", p->components[k].mean_ms));
    MLFF_TRY(check_sign(c, "max_ms of a component", p->components[k].max_ms));
  }
  for (int k = 0; k < p->n_slow_steps; k++)
    MLFF_TRY(check_sign(c, "latency_ms of a slow step", p->slow_steps[k].latency_ms));
  return MLFFPROF_OK;
}

static mlffprof_status check_orders(const checking *c)
{
  const mlffprof_report *p = c->p;
  const mlffprof_stats *s = &p->latency;
  const double of_sketch = DIGITS + 2 * p->quantile_error;
  MLFF_TRY(check_order(c, "min_latency_ms", s->min, "mean_latency_ms", s->mean, DIGITS));
  MLFF_TRY(check_order(c, "mean_latency_ms", s->mean, "max_latency_ms", s->max, DIGITS));
  MLFF_TRY(check_order(c, "min_latency_ms", s->min, "median_latency_ms", s->median, of_sketch));
  MLFF_TRY(check_order(c, "median_latency_ms", s->median, "p95_latency_ms", s->p95, of_sketch));
  MLFF_TRY(check_order(c, "p95_latency_ms", s->p95, "p99_latency_ms", s->p99, of_sketch));
  MLFF_TRY(check_order(c, "p99_latency_ms", s->p99, "max_latency_ms", s->max, of_sketch));
  for (int k = 0; k < p->n_latencies; k++) {
    MLFF_TRY(check_order(c, "min_latency_ms", s->min, "a value of latencies_ms", p->latencies_ms[k], DIGITS));
    MLFF_TRY(check_order(c, "a value of latencies_ms", p->latencies_ms[k], "max_latency_ms", s->max, DIGITS));
  }
  for (int k = 0; k < p->n_slow_steps; k++)
    MLFF_TRY(
        check_order(c, "latency_ms of a slow step", p->slow_steps[k].latency_ms, "max_latency_ms", s->max, DIGITS));
  for (int k = 0; k < p->n_components; k++)
    MLFF_TRY(check_order(c, "mean_ms of a component", p->components[k].mean_ms, "its max_ms", p->components[k].max_ms,
                         DIGITS));
  return MLFFPROF_OK;
}

static mlffprof_status check_rates(const checking *c)
{
  const mlffprof_report *p = c->p;
  const double n = (double) p->n_steps, total = 1e-3 * n * p->latency.mean;
  MLFF_TRY(check_equal(c, "total_time_s", p->total_time_s, "n_steps x mean_latency_ms", total, DIGITS * total));
  MLFF_TRY(check_equal(c, "steps_per_second", p->steps_per_second, "n_steps / total_time_s", n / p->total_time_s,
                       DIGITS * n / p->total_time_s));
  const double cv = p->latency.std / p->latency.mean;
  return check_equal(c, "cv", p->latency.cv, "std / mean", cv, DIGITS * cv);
}

static int compare_numbers(const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

/* Numbers that follow from all latencies. */
static mlffprof_status check_statistics(const checking *c, double *sorted)
{
  const mlffprof_report *p = c->p;
  const mlffprof_stats *s = &p->latency;
  const int n = p->n_latencies;
  double mean = 0, square = 0;
  for (int k = 0; k < n; k++) mean += p->latencies_ms[k] / n;
  for (int k = 0; k < n; k++) {
    sorted[k] = p->latencies_ms[k];
    square += (sorted[k] - mean) * (sorted[k] - mean);
    if (!isfinite(sorted[k])) return MLFFPROF_OK;
  }
  qsort(sorted, (size_t) n, sizeof *sorted, compare_numbers);
  const double most = sorted[n - 1], tolerance = DIGITS * most, quantiles = tolerance + p->quantile_error * most;
  MLFF_TRY(check_equal(c, "mean_latency_ms", s->mean, "that of latencies_ms", mean, tolerance));
  MLFF_TRY(check_equal(c, "min_latency_ms", s->min, "that of latencies_ms", sorted[0], tolerance));
  MLFF_TRY(check_equal(c, "max_latency_ms", s->max, "that of latencies_ms", most, tolerance));
  if (n > 1)
    MLFF_TRY(check_equal(c, "std_latency_ms", s->std, "that of latencies_ms", sqrt(square / (n - 1)), tolerance));
  static const char *const names[] = {"median_latency_ms", "p95_latency_ms", "p99_latency_ms"};
  const double found[] = {s->median, s->p95, s->p99}, q[] = {0.5, 0.95, 0.99};
  for (int k = 0; k < 3 && p->quantiles_exact; k++)
    MLFF_TRY(check_equal(c, names[k], found[k], "that of latencies_ms", mlffprof_quantile(sorted, n, q[k]), quantiles));
  return MLFFPROF_OK;
}

static mlffprof_status check_latencies(const checking *c)
{
  const mlffprof_report *p = c->p;
  if (!p->n_latencies) return MLFFPROF_OK; /* left out */
  const int64_t n = n_kept(p->n_steps, p->latencies_stride);
  if (p->n_latencies != n)
    return contradiction(c, "the number of latencies_ms", p->n_latencies, "instead of", "n_steps / latencies_stride",
                         (double) n);
  if (p->latencies_stride > 1) return MLFFPROF_OK;
  double *sorted = malloc((size_t) p->n_latencies * sizeof *sorted);
  if (!sorted) return mlffprof_fail(c->error, MLFFPROF_E_NOMEM, "%s: out of memory", c->path);
  const mlffprof_status status = check_statistics(c, sorted);
  free(sorted);
  return status;
}

/* ---- memory, energy, accuracy ------------------------------------------------------------------------------------ */

static mlffprof_status check_memory(const checking *c, const mlffprof_memory_result *m)
{
  MLFF_TRY(check_sign(c, "initial_bytes", m->initial_bytes));
  MLFF_TRY(check_sign(c, "final_bytes", m->final_bytes));
  MLFF_TRY(check_order(c, "initial_bytes", m->initial_bytes, "peak_bytes", m->peak_bytes, DIGITS));
  MLFF_TRY(check_order(c, "final_bytes", m->final_bytes, "peak_bytes", m->peak_bytes, DIGITS));
  return check_equal(c, "delta_bytes", m->delta_bytes, "final_bytes - initial_bytes", m->final_bytes - m->initial_bytes,
                     WHOLE_BYTES);
}

static mlffprof_status check_quantity(const checking *c, int id)
{
  const mlffprof_energy_report *e = &c->p->energy;
  const mlffprof_quantity *q = &e->value[id];
  const double *y = e->series[id], scale = fmax(fabs(q->min), fabs(q->max)), tolerance = ENERGY_DIGITS * scale;
  char name[80];
  snprintf(name, sizeof name, "of energy.%s", mlffprof_quantity_name((mlffprof_quantity_id) id));
  if (!q->n || !isfinite(scale)) return MLFFPROF_OK;
  const double inside[] = {q->mean, q->initial, q->final};
  for (int k = 0; k < 3; k++) {
    MLFF_TRY(check_order(c, "min", q->min, name, inside[k], DIGITS));
    MLFF_TRY(check_order(c, name, inside[k], "max", q->max, DIGITS));
  }
  if (!y || e->stride != 1 || e->n_points != q->n) return MLFFPROF_OK;
  double mean = 0, low = INFINITY, high = -INFINITY;
  for (int k = 0; k < e->n_points; k++) {
    mean += y[k] / e->n_points;
    low = fmin(low, y[k]);
    high = fmax(high, y[k]);
  }
  if (!isfinite(mean)) return MLFFPROF_OK;
  MLFF_TRY(check_equal(c, "initial", q->initial, name, y[0], tolerance));
  MLFF_TRY(check_equal(c, "final", q->final, name, y[e->n_points - 1], tolerance));
  MLFF_TRY(check_equal(c, "mean", q->mean, name, mean, tolerance));
  MLFF_TRY(check_equal(c, "min", q->min, name, low, tolerance));
  return check_equal(c, "max", q->max, name, high, tolerance);
}

static mlffprof_status check_accuracy(const checking *c)
{
  const mlffprof_accuracy_report *a = &c->p->accuracy;
  const double errors[] = {a->energy_mae, a->energy_rmse, a->energy_max,  a->force_rmse,
                           a->force_mae,  a->force_max,   a->stress_rmse, a->pressure_rmse};
  for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
    MLFF_TRY(check_sign(c, "an error of accuracy", errors[k]));
  MLFF_TRY(check_order(c, "energy_mae", a->energy_mae, "energy_rmse", a->energy_rmse, DIGITS));
  MLFF_TRY(check_order(c, "energy_rmse", a->energy_rmse, "energy_max", a->energy_max, DIGITS));
  MLFF_TRY(check_order(c, "force_mae", a->force_mae, "force_rmse", a->force_rmse, DIGITS));
  MLFF_TRY(check_order(c, "force_rmse", a->force_rmse, "force_max", a->force_max, DIGITS));
  if (!a->energy_error || a->stride != 1 || !a->n_points || a->n_points != a->n_samples) return MLFFPROF_OK;
  double sum = 0, square = 0, most = 0;
  for (int k = 0; k < a->n_points; k++) {
    sum += fabs(a->energy_error[k]);
    square += a->energy_error[k] * a->energy_error[k];
    most = fmax(most, fabs(a->energy_error[k]));
  }
  if (!isfinite(sum)) return MLFFPROF_OK;
  const double n = a->n_points, rmse = sqrt(square / n);
  MLFF_TRY(check_equal(c, "energy_mae", a->energy_mae, "that of energy_error", sum / n, DIGITS * most));
  return check_equal(c, "energy_rmse", a->energy_rmse, "that of energy_error", rmse, DIGITS * most);
}

mlffprof_status mlffprof_report_consistent(const mlffprof_report *p, const char *path, mlffprof_error *error)
{
  const checking c = {p, path, error};
  MLFF_TRY(check_signs(&c));
  MLFF_TRY(check_orders(&c));
  MLFF_TRY(check_rates(&c));
  MLFF_TRY(check_latencies(&c));
  MLFF_TRY(check_memory(&c, &p->memory.host));
  MLFF_TRY(check_memory(&c, &p->memory.device));
  for (int id = 0; id < MLFFPROF_N_QUANTITIES; id++) MLFF_TRY(check_quantity(&c, id));
  return check_accuracy(&c);
}
