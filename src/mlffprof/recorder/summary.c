/* summary.c: current statistics, without sorting. */
#include "recorder/recorder.h"

#include <math.h>

static void summarise_steps(const mlffprof_recorder *r, mlffprof_summary *s)
{
  static const double q[3] = {0.5, 0.95, 0.99};
  const mlffprof_stats latency = mlffprof_moments_stats(&r->latency, 1e3);
  double values[3];
  mlffprof_sketch_quantiles(&r->sketch, q, 3, values);
  s->n_steps = r->latency.n;
  s->n_warmup = r->warmup.n;
  s->last_ms = 1e3 * r->last_seconds;
  s->mean_ms = latency.mean;
  s->std_ms = latency.std;
  s->min_ms = latency.min;
  s->max_ms = latency.max;
  s->cv = latency.cv;
  s->median_ms = 1e3 * values[0];
  s->p95_ms = 1e3 * values[1];
  s->p99_ms = 1e3 * values[2];
  s->us_per_atom = r->n_per_atom ? 1e6 * r->seconds_per_atom / (double) r->n_per_atom : NAN;
  s->steps_per_second = r->total_seconds > 0 ? (double) r->latency.n / r->total_seconds : NAN;
  s->ns_per_day = r->total_seconds > 0 && r->simulated_ps > 0 ? 86.4 * r->simulated_ps / r->total_seconds : NAN;
}

static void summarise_energy(const mlffprof_recorder *r, mlffprof_summary *s)
{
  const mlffprof_quantity_id id = mlffprof_drift_quantity(r);
  const mlffprof_moments *t = &r->quantity[MLFFPROF_TEMPERATURE];
  s->drift = s->drift_percent = s->excursion = NAN;
  s->temperature = t->n ? t->last : NAN;
  s->finite = r->finite;
  s->exploded = r->exploded;
  if (id == MLFFPROF_N_QUANTITIES) return;
  const mlffprof_moments *e = &r->quantity[id];
  const mlffprof_series *series = &r->energy;
  const double slope = mlffprof_regression_slope(series->mean_x[id], series->mean[id], series->count[id], series->n);
  if (r->n_atoms > 0) {
    s->drift = slope / (double) r->n_atoms;
    s->excursion = e->excursion / (double) r->n_atoms;
  }
  if (fabs(e->first) > 0)
    s->drift_percent = 100 * slope * (r->energy_last_time - r->energy_first_time) / fabs(e->first);
}

int mlffprof_recorder_exploded(const mlffprof_recorder *r, int *finite)
{
  if (finite) *finite = r->finite;
  return r->exploded;
}

void mlffprof_recorder_summary(const mlffprof_recorder *r, mlffprof_summary *s)
{
  summarise_steps(r, s);
  summarise_energy(r, s);
  s->host_mb = r->memory_last[0] / 1e6;
  s->device_mb = r->memory_last[1] / 1e6;
  s->host_growth_mb = r->memory_settled[0].n ? (r->memory_settled[0].last - r->memory_settled[0].first) / 1e6 : NAN;
  s->device_growth_mb = r->memory_settled[1].n ? (r->memory_settled[1].last - r->memory_settled[1].first) / 1e6 : NAN;
  s->force_rmse = r->last_force_rmse;
  s->force_max = r->last_force_max;
  s->energy_error = r->last_energy_error;
  s->stress_rmse = r->last_stress_rmse;
  s->pressure_error = r->last_pressure_error;
}
