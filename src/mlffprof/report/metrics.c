/* metrics.c: metrics of a report by name, for rules, targets and tables: fields, and values derived from several
 * fields. */
#include "report/json.h"

#include <math.h>
#include <string.h>

static double ratio(double a, double b)
{
  return b > 0 ? a / b : NAN;
}

/* The worse of host and device, MB; NaN when neither was measured. */
static double worse_mb(double a, double b)
{
  return fmax(a, b) / 1e6;
}

static double of(const mlffprof_quantity *q, double value)
{
  return q->n ? value : NAN;
}

/* Name and value by the report p, its headline energy e, temperature t and pressure q. */
#define DERIVED(X)                                                                                  \
  X(n_steps, (double) p->n_steps)                                                                   \
  X(p95_over_mean, ratio(p->latency.p95, p->latency.mean))                                          \
  X(p99_over_mean, ratio(p->latency.p99, p->latency.mean))                                          \
  X(max_over_median, ratio(p->latency.max, p->latency.median))                                      \
  X(memory_delta_mb, worse_mb(p->memory.host.delta_bytes, p->memory.device.delta_bytes))            \
  X(memory_growth_mb_per_1000_steps,                                                                \
    worse_mb(p->memory.host.growth_per_1000_steps, p->memory.device.growth_per_1000_steps))         \
  X(memory_verdict, p->memory.verdict ? (double) p->memory.verdict - MLFFPROF_VERDICT_STABLE : NAN) \
  X(drift_abs, fabs(p->drift))                                                                      \
  X(drift_percent, of(e, fabs(e->drift_percent)))                                                   \
  X(energy_change_percent, of(e, fabs(e->change_percent)))                                          \
  X(energy_fluctuation, of(e, e->fluctuation))                                                      \
  X(energy_max_excursion, of(e, e->max_excursion))                                                  \
  X(temperature_mean, of(t, t->mean))                                                               \
  X(temperature_std, of(t, t->std))                                                                 \
  X(pressure_mean, of(q, q->mean))                                                                  \
  X(pressure_std, of(q, q->std))                                                                    \
  X(pressure_bias_abs, fabs(p->accuracy.pressure_bias))                                             \
  X(exploded, p->energy.n_samples ? (double) p->energy.exploded : NAN)

#define NAME(name, value) #name,
#define VALUE(name, value) value,
static const char *const names[] = {DERIVED(NAME)};
enum { N_DERIVED = sizeof names / sizeof *names };

static double derived(const mlffprof_report *p, int k)
{
  const mlffprof_quantity *values = p->energy.value, *t = &values[MLFFPROF_TEMPERATURE],
                          *q = &values[MLFFPROF_PRESSURE];
  const mlffprof_quantity *e = &values[values[MLFFPROF_CONSERVED].n ? MLFFPROF_CONSERVED : MLFFPROF_TOTAL];
  const double list[N_DERIVED] = {DERIVED(VALUE)};
  return list[k];
}

/* Metric *k of the block at base and of those in it, with its place, NULL where it is in a block that was not measured;
 * NULL and *k less their number when it is behind the last. */
static const mlffprof_field *find(const mlffprof_kind *block, const void *base, int *k, const double **value)
{
  for (const mlffprof_field *f = block->fields; f < block->fields + block->n_fields; f++) {
    const char *here = (const char *) base + (f->kind->is_inside ? 0 : f->offset);
    if (f->kind->is_metric && (*k)-- == 0) {
      *value = (const void *) here;
      return f;
    }
    if (f->kind->shape != MLFFPROF_BLOCK || f->is_list) continue;
    const mlffprof_field *found = find(f->kind, here, k, value);
    if (found && !mlffprof_block_is_shown(f->kind, here)) *value = NULL;
    if (found) return found;
  }
  return NULL;
}

const char *mlffprof_metric_name(int k)
{
  static const mlffprof_report none;
  const double *value = NULL;
  const mlffprof_field *f = k < 0 ? NULL : find(&mlffprof_report_kind, &none, &k, &value);
  return f ? f->name : k >= 0 && k < N_DERIVED ? names[k] : NULL;
}

static double value_of(const mlffprof_report *p, int k)
{
  mlffprof_derived d;
  const double *value = NULL;
  const mlffprof_field *f = find(&mlffprof_report_kind, p, &k, &value);
  if (!f) return derived(p, k);
  mlffprof_derive(p, &d);
  if (f->is_derived) value = (const void *) ((const char *) &d + f->offset);
  return value ? *value : NAN;
}

int mlffprof_report_metric(const mlffprof_report *report, const char *name, double *value)
{
  for (int k = 0; mlffprof_metric_name(k); k++) {
    if (strcmp(mlffprof_metric_name(k), name)) continue;
    *value = value_of(report, k);
    return 1;
  }
  return 0;
}
