/* record.c: one step, one sample of memory, energy or accuracy; and the moments that they add to. */
#include "recorder/recorder.h"

#include <math.h>

/* ---- moments ----------------------------------------------------------------------------------------------------- */

void mlffprof_moments_add(mlffprof_moments *m, double x)
{
  const double n = (double) (m->n + 1), d = x - m->mean, part = d / n, spread = d * part * (n - 1);
  if (m->n == 0) m->first = m->min = m->max = x;
  m->n++;
  m->last = x;
  m->min = fmin(m->min, x);
  m->max = fmax(m->max, x);
  m->excursion = fmax(m->excursion, fabs(x - m->first));
  m->m3 += spread * part * (n - 2) - 3 * part * m->m2;
  m->m2 += spread;
  m->mean += part;
}

double mlffprof_moments_std(const mlffprof_moments *m)
{
  return m->n > 1 ? sqrt(m->m2 / (double) (m->n - 1)) : NAN;
}

double mlffprof_moments_skew(const mlffprof_moments *m)
{
  const double n = (double) m->n;
  return m->n > 2 && m->m2 > 0 ? m->m3 / n / pow(m->m2 / n, 1.5) : NAN;
}

mlffprof_stats mlffprof_moments_stats(const mlffprof_moments *m, double factor)
{
  mlffprof_stats s = {.n = m->n, .median = NAN, .p95 = NAN, .p99 = NAN};
  const int any = m->n > 0;
  s.mean = any ? factor * m->mean : NAN;
  s.min = any ? factor * m->min : NAN;
  s.max = any ? factor * m->max : NAN;
  s.std = factor * mlffprof_moments_std(m);
  s.cv = s.mean > 0 ? s.std / s.mean : NAN;
  return s;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

mlffprof_status mlffprof_recorder_warmup(mlffprof_recorder *r, int64_t n, mlffprof_error *error)
{
  if (n < 0) return mlffprof_fail(error, MLFFPROF_E_ARG, "a warm-up of %lld steps", (long long) n);
  if (n > r->warmup_left) r->warmup_left = n;
  return MLFFPROF_OK;
}

void mlffprof_recorder_outside(mlffprof_recorder *r, const mlffprof_outside *more)
{
#define ADD(S, FIELD, KIND, member, ...) r->outside.member += more->member;
  MLFFPROF_OUTSIDE_FIELDS(ADD, )
#undef ADD
}

/* Timers read one after the other may disagree by their resolution. */
static const double smallest_seconds = -1e-6;

static mlffprof_status check_step(const mlffprof_recorder *r, const mlffprof_step *s, mlffprof_error *error)
{
  const long long step = (long long) s->step;
  if (!(s->seconds >= 0) || !isfinite(s->seconds))
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld took %g s: not a time", step, s->seconds);
  if (!(s->dt_ps >= 0) || !isfinite(s->dt_ps))
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld simulated %g ps: not a time", step, s->dt_ps);
  if (s->n_atoms < 0)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld has %lld atoms", step, (long long) s->n_atoms);
  if (s->tags >> MLFFPROF_N_TAGS)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld has unknown tags: 0x%x", step, s->tags);
  if (s->slowest_rank < MLFFPROF_UNKNOWN || s->slowest_rank >= r->n_ranks)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld: rank %d of %d", step, s->slowest_rank, r->n_ranks);
  if (!(s->busy_mean >= 0) || !(s->busy_most >= s->busy_mean) || !isfinite(s->busy_most) || s->atoms_most < 0)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld: ranks worked %g s on average and %g s at most: not times",
                         step, s->busy_mean, s->busy_most);
  if (!(s->cpu_seconds >= 0) || !isfinite(s->cpu_seconds))
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld took %g s of the processor: not a time", step,
                         s->cpu_seconds);
  for (int k = 0; s->components && k < r->n_components; k++)
    if (s->components[k] < smallest_seconds || isinf(s->components[k]))
      return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld: component '%s' took %g s: not a time", step,
                           r->components[k].name, s->components[k]);
  for (int k = 0; s->flop && s->bytes && k < r->n_components; k++)
    if (!(s->flop[k] >= 0) || !(s->bytes[k] >= 0) || isinf(s->flop[k]) || isinf(s->bytes[k]))
      return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld: component '%s' has %g operations on %g bytes", step,
                           r->components[k].name, s->flop[k], s->bytes[k]);
  return MLFFPROF_OK;
}

/* Every kept_stride-th step stays in `kept`. */
static void keep(mlffprof_recorder *r, double seconds)
{
  const int64_t number = r->latency.n; /* of this step, from 0 */
  if (number % r->kept_stride) return;
  if (r->n_kept == r->n_kept_max) {
    for (int64_t k = 0; k < r->n_kept / 2; k++) r->kept[k] = r->kept[2 * k];
    r->n_kept /= 2;
    r->kept_stride *= 2;
    if (number % r->kept_stride) return;
  }
  r->kept[r->n_kept++] = seconds;
}

/* Inserts a step into the list of the slowest; the earlier of equal ones comes first. */
static void keep_slow(mlffprof_recorder *r, const mlffprof_step *s)
{
  const int full = r->n_slow == r->n_slow_max;
  if (full && s->seconds <= r->slow[r->n_slow - 1].seconds) return;
  int k = full ? r->n_slow - 1 : r->n_slow++;
  for (; k > 0 && r->slow[k - 1].seconds < s->seconds; k--) r->slow[k] = r->slow[k - 1];
  r->slow[k] = (mlffprof_slow){s->step, s->seconds, s->tags, s->slowest_rank};
}

static void add_tags(mlffprof_recorder *r, const mlffprof_step *s)
{
  for (int bit = 0; bit <= MLFFPROF_N_TAGS; bit++) {
    const int here = bit < MLFFPROF_N_TAGS ? (int) (s->tags >> bit & 1) : s->tags == 0;
    r->tags[bit].n += here;
    r->tags[bit].seconds += here ? s->seconds : 0;
  }
}

static void add_component(mlffprof_component_sum *c, double seconds, double wall)
{
  const double t = seconds > 0 ? seconds : 0;
  c->n++;
  c->seconds += t;
  c->wall += wall;
  c->max = fmax(c->max, t);
}

static void add_components(mlffprof_recorder *r, const mlffprof_step *s)
{
  double rest = s->seconds;
  int n_top = 0;
  for (int k = 0; k < r->n_components; k++) {
    if (isnan(s->components[k])) continue;
    add_component(&r->components[k], s->components[k], s->seconds);
    r->components[k].flop += s->flop ? s->flop[k] : 0;
    r->components[k].bytes += s->bytes ? s->bytes[k] : 0;
    if (r->components[k].parent >= 0) continue;
    rest -= s->components[k];
    n_top++;
  }
  if (n_top) add_component(&r->components[r->n_components], rest, s->seconds);
}

/* Balance of the ranks; no effect on one rank. */
static void add_balance(mlffprof_recorder *r, const mlffprof_step *s)
{
  if (r->n_ranks < 2 || s->busy_most <= 0) return;
  r->n_busy++;
  r->busy_most += s->busy_most;
  r->busy_mean += s->busy_mean;
  r->busy_wall += s->seconds;
  if (s->atoms_most <= 0 || r->n_atoms <= 0) return;
  r->n_counted++;
  r->atoms_ratio += (double) s->atoms_most * r->n_ranks / (double) r->n_atoms;
}

mlffprof_status mlffprof_recorder_step(mlffprof_recorder *r, const mlffprof_step *s, mlffprof_error *error)
{
  MLFF_TRY(check_step(r, s, error));
  if (s->n_atoms > 0) r->n_atoms = s->n_atoms;
  r->last_seconds = s->seconds;
  if (r->warmup_left > 0) {
    r->warmup_left--;
    r->warmup_seconds += s->seconds;
    mlffprof_moments_add(&r->warmup, s->seconds);
    return MLFFPROF_OK;
  }
  keep(r, s->seconds);
  keep_slow(r, s);
  mlffprof_moments_add(&r->latency, s->seconds);
  mlffprof_sketch_add(&r->sketch, s->seconds);
  r->total_seconds += s->seconds;
  r->simulated_ps += s->dt_ps;
  if (r->n_atoms > 0) {
    r->seconds_per_atom += s->seconds / (double) r->n_atoms;
    r->n_per_atom++;
  }
  if (s->cpu_seconds > 0) {
    r->cpu_seconds += s->cpu_seconds;
    r->cpu_wall += s->seconds;
  }
  add_tags(r, s);
  if (s->components) add_components(r, s);
  if (s->slowest_rank >= 0) r->rank_steps[s->slowest_rank]++;
  add_balance(r, s);
  return MLFFPROF_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

mlffprof_status mlffprof_recorder_memory(mlffprof_recorder *r, const mlffprof_memory_sample *s, mlffprof_error *error)
{
  const int64_t reference[2] = {s->host_reference_bytes, s->device_reference_bytes};
  if (s->host_bytes < MLFFPROF_UNKNOWN || s->device_bytes < MLFFPROF_UNKNOWN)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld: %lld bytes of the host, %lld of the device",
                         (long long) s->step, (long long) s->host_bytes, (long long) s->device_bytes);
  if (reference[0] < 0 || reference[1] < 0)
    return mlffprof_fail(error, MLFFPROF_E_ARG,
                         "step %lld: the reference has %lld bytes of the host, %lld of the device", (long long) s->step,
                         (long long) reference[0], (long long) reference[1]);
  const int64_t bytes[2] = {s->host_bytes, s->device_bytes};
  double values[MLFFPROF_N_MEMORY] = {NAN, NAN, NAN, NAN};
  for (int k = 0; k < 2; k++) {
    if (bytes[k] < 0) continue;
    values[k] = r->memory_last[k] = (double) bytes[k];
    r->memory_peak[k] = fmax(r->memory_peak[k], values[k]);
    if (reference[k] > 0) r->memory_reference[k] = (double) reference[k];
    if (r->warmup_left > 0) continue;
    values[2 + k] = values[k];
    mlffprof_moments_add(&r->memory_settled[k], values[k]);
  }
  if (s->host_peak_bytes > 0) r->memory_peak[0] = fmax(r->memory_peak[0], (double) s->host_peak_bytes);
  mlffprof_series_add(&r->memory, s->step, (double) s->step, values);
  r->n_memory++;
  return MLFFPROF_OK;
}

/* ---- energy ------------------------------------------------------------------------------------------------------ */

mlffprof_quantity_id mlffprof_drift_quantity(const mlffprof_recorder *r)
{
  if (r->quantity[MLFFPROF_CONSERVED].n) return MLFFPROF_CONSERVED;
  return r->quantity[MLFFPROF_TOTAL].n ? MLFFPROF_TOTAL : MLFFPROF_N_QUANTITIES;
}

mlffprof_slope mlffprof_quantity_slope(const mlffprof_recorder *r, mlffprof_quantity_id id, double divide_by)
{
  const mlffprof_series *s = &r->energy;
  mlffprof_slope slope = mlffprof_drift(s->mean_x[id], s->mean[id], s->count[id], s->n);
  slope.slope /= divide_by;
  slope.error /= divide_by;
  return slope;
}

static int is_nve(const mlffprof_recorder *r)
{
  const char *e = r->text.ensemble;
  return e && (e[0] == 'n' || e[0] == 'N') && (e[1] == 'v' || e[1] == 'V') && (e[2] == 'e' || e[2] == 'E') && !e[3];
}

static int is_explosion(const mlffprof_recorder *r)
{
  const mlffprof_moments *t = &r->quantity[MLFFPROF_TEMPERATURE], *c = &r->quantity[MLFFPROF_CONSERVED];
  const mlffprof_moments *e = c->n ? c : &r->quantity[MLFFPROF_TOTAL];
  if (!r->finite || (t->n && t->last > r->explosion_temperature)) return 1;
  if (!e->n || !r->n_atoms || (e != c && !is_nve(r))) return 0;
  return fabs(e->last - e->first) / (double) r->n_atoms > r->explosion_energy;
}

mlffprof_status mlffprof_recorder_energy(mlffprof_recorder *r, const mlffprof_energy_sample *s, mlffprof_error *error)
{
  double values[MLFFPROF_N_QUANTITIES];
  if (!isfinite(s->time_ps) || (r->n_energy && s->time_ps < r->energy_last_time))
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld: time %g ps after %g ps; call restart_energy for a new one",
                         (long long) s->step, s->time_ps, r->energy_last_time);
  if (s->has >> MLFFPROF_N_QUANTITIES)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld has unknown quantities: 0x%x", (long long) s->step, s->has);
  for (int k = 0; k < MLFFPROF_N_QUANTITIES; k++) {
    const int here = s->has >> k & 1, good = here && isfinite(s->value[k]);
    values[k] = good ? s->value[k] : NAN;
    if (good) mlffprof_moments_add(&r->quantity[k], s->value[k]);
    if (here && !good) r->finite = 0;
  }
  if (!r->n_energy) {
    r->energy_first_step = s->step;
    r->energy_first_time = s->time_ps;
  }
  r->n_energy++;
  r->energy_last_step = s->step;
  r->energy_last_time = s->time_ps;
  mlffprof_series_add(&r->energy, s->step, s->time_ps, values);
  if (!r->exploded && is_explosion(r)) {
    r->exploded = 1;
    r->first_bad_step = s->step;
  }
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_recorder_restart_energy(mlffprof_recorder *r, const char *ensemble, mlffprof_error *error)
{
  if (!mlffprof_text_set(&r->text.ensemble, ensemble)) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory");
  mlffprof_series_clear(&r->energy);
  for (int k = 0; k < MLFFPROF_N_QUANTITIES; k++) r->quantity[k] = (mlffprof_moments){.n = 0};
  r->n_energy = 0;
  return MLFFPROF_OK;
}

/* ---- accuracy ---------------------------------------------------------------------------------------------------- */

/* NaN is no sample. */
static void add_error(mlffprof_error_sum *sum, double e)
{
  if (isnan(e)) return;
  sum->n++;
  sum->sum += e;
  sum->absolute += fabs(e);
  sum->square += e * e;
  sum->max = fmax(sum->max, fabs(e));
}

mlffprof_status mlffprof_recorder_accuracy(mlffprof_recorder *r, const mlffprof_accuracy_sample *s,
                                           mlffprof_error *error)
{
  const double e = s->energy_error, stress = s->has_stress ? s->stress_rmse : NAN,
               pressure = s->has_stress ? s->pressure_error : NAN;
  if (s->force_rmse < 0 || s->force_mae < 0 || s->force_max < 0 || stress < 0 || fabs(s->force_cosine) > 1.000001)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "step %lld: a negative error, or a cosine beyond 1",
                         (long long) s->step);
  add_error(&r->energy_error, e);
  add_error(&r->stress, stress);
  add_error(&r->pressure_error, pressure);
  if (!isnan(s->force_rmse)) {
    r->force.n++;
    r->force.absolute += s->force_mae;
    r->force.square += s->force_rmse * s->force_rmse;
  }
  if (!isnan(s->force_max) && (r->worst_step == MLFFPROF_UNKNOWN || s->force_max > r->force.max)) {
    r->force.max = s->force_max;
    r->worst_step = s->step;
  }
  if (!isnan(s->force_cosine)) mlffprof_moments_add(&r->cosine, s->force_cosine);
  for (int k = 0; k < r->n_elements; k++) {
    if (!s->element_rmse || isnan(s->element_rmse[k])) continue;
    r->elements[k].n++;
    r->elements[k].square += s->element_rmse[k] * s->element_rmse[k];
    r->elements[k].absolute += s->element_mae ? s->element_mae[k] : NAN;
  }
  r->n_accuracy++;
  r->last_energy_error = e;
  r->last_force_rmse = s->force_rmse;
  r->last_force_max = s->force_max;
  r->last_stress_rmse = stress;
  r->last_pressure_error = pressure;
  mlffprof_series_add(&r->accuracy, s->step, (double) s->step,
                      (const double[MLFFPROF_N_ACCURACY]){e, s->force_rmse, s->force_max, s->force_cosine, stress,
                                                          pressure});
  return MLFFPROF_OK;
}
