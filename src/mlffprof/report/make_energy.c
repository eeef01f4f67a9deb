/* make_energy.c: statistics of energies, temperature, pressure, and of errors against another model. */
#include "report/make.h"

#include <math.h>

static void make_histogram(const double *values, int n, mlffprof_quantity *q)
{
  double low = INFINITY, high = -INFINITY;
  q->bin_low = q->bin_high = NAN;
  for (int k = 0; k < n; k++) {
    if (isnan(values[k])) continue;
    low = fmin(low, values[k]);
    high = fmax(high, values[k]);
  }
  if (!(high >= low)) return;
  q->bin_low = low;
  q->bin_high = high;
  for (int k = 0; k < n; k++) {
    if (isnan(values[k])) continue;
    const int bin = high > low ? (int) ((values[k] - low) / (high - low) * MLFFPROF_N_BINS) : 0;
    q->bins[bin < MLFFPROF_N_BINS ? bin : MLFFPROF_N_BINS - 1]++;
  }
}

static int is_energy(mlffprof_quantity_id id)
{
  return id <= MLFFPROF_CONSERVED;
}

static mlffprof_quantity make_quantity(const mlffprof_recorder *r, mlffprof_quantity_id id, double time_ps)
{
  const mlffprof_moments *m = &r->quantity[id];
  const double zero = m->n ? fabs(m->first) : 0, atoms = r->n_atoms > 0 ? (double) r->n_atoms : NAN;
  const mlffprof_slope slope = mlffprof_quantity_slope(r, id, 1);
  mlffprof_quantity q = {.n = m->n};
  q.initial = m->n ? m->first : NAN;
  q.final = m->n ? m->last : NAN;
  q.mean = m->n ? m->mean : NAN;
  q.min = m->n ? m->min : NAN;
  q.max = m->n ? m->max : NAN;
  q.std = mlffprof_moments_std(m);
  q.skew = mlffprof_moments_skew(m);
  q.fluctuation = m->n && fabs(m->mean) > 0 ? q.std / fabs(m->mean) : NAN;
  q.max_excursion = m->n ? m->excursion : NAN;
  q.change_percent = zero > 0 && m->n > 1 ? 100 * (m->last - m->first) / zero : NAN;
  q.drift = slope.slope / (is_energy(id) ? atoms : 1);
  q.drift_error = slope.error / (is_energy(id) ? atoms : 1);
  q.drift_percent = zero > 0 ? 100 * slope.slope * time_ps / zero : NAN;
  q.drift_percent_error = zero > 0 ? 100 * slope.error * time_ps / zero : NAN;
  make_histogram(r->energy.value[id], r->energy.n, &q);
  return q;
}

void mlffprof_make_energy(const mlffprof_recorder *r, mlffprof_report *report)
{
  mlffprof_energy_report *e = &report->energy;
  const mlffprof_series *s = &r->energy;
  const mlffprof_quantity_id drift = mlffprof_drift_quantity(r);
  e->n_samples = r->n_energy;
  e->lj_units = r->lj_units;
  e->finite = r->finite;
  e->exploded = r->exploded;
  e->first_bad_step = r->first_bad_step;
  e->time_ps = r->n_energy ? r->energy_last_time - r->energy_first_time : NAN;
  e->first_step = r->energy_first_step;
  e->last_step = r->energy_last_step;
  e->stride = s->stride;
  e->step = mlff_arena_copy(report->arena, s->step, (size_t) s->n, sizeof *s->step);
  e->time = mlff_arena_copy(report->arena, s->x, (size_t) s->n, sizeof *s->x);
  e->n_points = s->n;
  for (int k = 0; k < MLFFPROF_N_QUANTITIES; k++) {
    e->value[k] = make_quantity(r, (mlffprof_quantity_id) k, e->time_ps);
    e->series[k] = mlff_arena_copy(report->arena, s->value[k], (size_t) s->n, sizeof(double));
  }
  if (drift == MLFFPROF_N_QUANTITIES) return;
  report->drift_of = mlffprof_quantity_name(drift);
  report->drift = r->lj_units ? NAN : e->value[drift].drift;
}

static double root_mean_square(const mlffprof_error_sum *e)
{
  return e->n ? sqrt(e->square / (double) e->n) : NAN;
}

static const double *column(const mlffprof_recorder *r, int k, mlff_arena *arena)
{
  return mlff_arena_copy(arena, r->accuracy.value[k], (size_t) r->accuracy.n, sizeof(double));
}

void mlffprof_make_accuracy(const mlffprof_recorder *r, mlffprof_report *report)
{
  mlffprof_accuracy_report *a = &report->accuracy;
  const mlffprof_series *s = &r->accuracy;
  const double n_energy = (double) r->energy_error.n, n_force = (double) r->force.n;
  mlffprof_element_result *list = mlff_arena_alloc(report->arena, (size_t) r->n_elements, sizeof *list);
  a->reference = mlff_arena_string(report->arena, r->text.reference);
  a->n_samples = r->n_accuracy;
  a->energy_mae = r->energy_error.n ? r->energy_error.absolute / n_energy : NAN;
  a->energy_rmse = root_mean_square(&r->energy_error);
  a->energy_bias = r->energy_error.n ? r->energy_error.sum / n_energy : NAN;
  a->energy_max = r->energy_error.n ? r->energy_error.max : NAN;
  a->force_rmse = root_mean_square(&r->force);
  a->force_mae = r->force.n ? r->force.absolute / n_force : NAN;
  a->force_max = r->worst_step == MLFFPROF_UNKNOWN ? NAN : r->force.max;
  a->worst_step = r->worst_step;
  a->force_cosine = r->cosine.n ? r->cosine.mean : NAN;
  a->force_cosine_min = r->cosine.n ? r->cosine.min : NAN;
  a->stress_rmse = root_mean_square(&r->stress);
  a->pressure_rmse = root_mean_square(&r->pressure_error);
  a->pressure_bias = r->pressure_error.n ? r->pressure_error.sum / (double) r->pressure_error.n : NAN;
  a->stride = s->stride;
  a->step = mlff_arena_copy(report->arena, s->step, (size_t) s->n, sizeof *s->step);
  a->energy_error = column(r, MLFFPROF_ENERGY_ERROR, report->arena);
  a->force_rmse_series = column(r, MLFFPROF_FORCE_RMSE, report->arena);
  a->force_max_series = column(r, MLFFPROF_FORCE_MAX, report->arena);
  a->cosine_series = column(r, MLFFPROF_COSINE, report->arena);
  a->stress_rmse_series = column(r, MLFFPROF_STRESS_RMSE, report->arena);
  a->pressure_error = column(r, MLFFPROF_PRESSURE_ERROR, report->arena);
  a->n_points = s->n;
  if (!list) return;
  for (int k = 0; k < r->n_elements; k++) {
    const mlffprof_element_sum *e = &r->elements[k];
    const double n = (double) e->n;
    list[k] = (mlffprof_element_result){mlff_arena_string(report->arena, e->name), e->n,
                                        e->n ? sqrt(e->square / n) : NAN, e->n ? e->absolute / n : NAN};
  }
  a->elements = list;
  a->n_elements = r->n_elements;
}
