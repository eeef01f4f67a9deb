/* recorder.c: making and freeing a recorder. */
#define _POSIX_C_SOURCE 200809L

#include "recorder/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int mlffprof_text_set(char **to, const char *text)
{
  if (!text) return 1;
  char *copy = strdup(text);
  if (!copy) return 0;
  free(*to);
  *to = copy;
  return 1;
}

static int set_now(char **to)
{
  char text[64];
  struct tm t;
  const time_t now = time(NULL);
  if (!gmtime_r(&now, &t)) return 1;
  snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d:%02d", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
           t.tm_min, t.tm_sec);
  return mlffprof_text_set(to, text);
}

static int copy_texts(mlffprof_recorder *r, const mlffprof_options *o)
{
  mlffprof_texts *t = &r->text;
  return mlffprof_text_set(&t->name, o->name && *o->name ? o->name : "profile") &&
         mlffprof_text_set(&t->model_name, o->model_name) && mlffprof_text_set(&t->device, o->device) &&
         mlffprof_text_set(&t->ensemble, o->ensemble) && mlffprof_text_set(&t->notes, o->notes) &&
         mlffprof_text_set(&t->reference, o->reference) &&
         (o->timestamp ? mlffprof_text_set(&t->timestamp, o->timestamp) : set_now(&t->timestamp));
}

/* Position of a component among the first n; -1: missing. */
static int find_component(const mlffprof_component *list, int n, const char *name)
{
  for (int k = 0; k < n; k++)
    if (!strcmp(list[k].name, name)) return k;
  return -1;
}

static mlffprof_status check_components(const mlffprof_options *o, mlffprof_error *error)
{
  for (int k = 0; k < o->n_components; k++) {
    const mlffprof_component *c = &o->components[k];
    if (!c->name || !*c->name) return mlffprof_fail(error, MLFFPROF_E_ARG, "component %d has no name", k);
    if (!strcmp(c->name, "other"))
      return mlffprof_fail(error, MLFFPROF_E_ARG, "component %d is called 'other', which the report adds by itself", k);
    if (find_component(o->components, k, c->name) >= 0)
      return mlffprof_fail(error, MLFFPROF_E_ARG, "component '%s' is there twice", c->name);
    if (c->parent && find_component(o->components, k, c->parent) < 0)
      return mlffprof_fail(error, MLFFPROF_E_ARG, "parent '%s' of component '%s' does not come before it", c->parent,
                           c->name);
    if ((int) c->role < 0 || c->role > MLFFPROF_ROLE_STRESS)
      return mlffprof_fail(error, MLFFPROF_E_ARG, "component '%s' has no such role: %d", c->name, (int) c->role);
  }
  return MLFFPROF_OK;
}

static mlffprof_status check_count(const char *name, int64_t value, int64_t largest, mlffprof_error *error)
{
  if (value >= 0 && value <= largest) return MLFFPROF_OK;
  return mlffprof_fail(error, MLFFPROF_E_ARG, "%s is %lld; 0 to %lld is possible", name, (long long) value,
                       (long long) largest);
}

static mlffprof_status check_options(const mlffprof_options *o, mlffprof_error *error)
{
  MLFF_TRY(check_count("n_atoms", o->n_atoms, INT64_MAX, error));
  MLFF_TRY(check_count("n_warmup", o->n_warmup, INT64_MAX, error));
  MLFF_TRY(check_count("n_ranks", o->n_ranks, MLFFPROF_MAX_RANKS, error));
  MLFF_TRY(check_count("n_exact", o->n_exact, 100000000, error));
  MLFF_TRY(check_count("n_latencies", o->n_latencies, 1000000, error));
  MLFF_TRY(check_count("n_series", o->n_series, 100000, error));
  MLFF_TRY(check_count("n_slow_steps", o->n_slow_steps, 10000, error));
  MLFF_TRY(check_count("n_components", o->n_components, MLFFPROF_MAX_COMPONENTS, error));
  MLFF_TRY(check_count("n_elements", o->n_elements, MLFFPROF_MAX_ELEMENTS, error));
  if (o->n_components && !o->components) return mlffprof_fail(error, MLFFPROF_E_ARG, "components is NULL");
  for (int k = 0; k < o->n_elements; k++)
    if (!o->elements || !o->elements[k]) return mlffprof_fail(error, MLFFPROF_E_ARG, "element %d has no name", k);
  if (!(o->memory_tolerance_mb >= 0) || isnan(o->explosion_energy) || isnan(o->explosion_temperature))
    return mlffprof_fail(error, MLFFPROF_E_ARG, "a bound is negative or not a number");
  return check_components(o, error);
}

/* Bound of an option where 0 = default and negative = never. */
static double bound(double value, double otherwise)
{
  return value > 0 ? value : value < 0 ? INFINITY : otherwise;
}

static void set_bounds(mlffprof_recorder *r, const mlffprof_options *o)
{
  r->n_ranks = o->n_ranks ? o->n_ranks : 1;
  r->lj_units = o->lj_units != 0;
  r->n_latencies = o->n_latencies ? o->n_latencies : 10000;
  r->n_kept_max = o->n_exact ? (o->n_exact + 1) & ~(int64_t) 1 : 100000;
  r->n_slow_max = o->n_slow_steps ? o->n_slow_steps : 20;
  r->explosion_temperature = bound(o->explosion_temperature, o->lj_units ? INFINITY : 20000);
  r->explosion_energy = bound(o->explosion_energy, o->lj_units ? INFINITY : 1);
  r->memory_tolerance_mb = o->memory_tolerance_mb > 0 ? o->memory_tolerance_mb : 10;
  r->n_atoms = o->n_atoms;
  r->warmup_left = o->n_warmup;
  r->kept_stride = 1;
  r->finite = 1;
  r->first_bad_step = r->worst_step = MLFFPROF_UNKNOWN;
  r->memory_peak[0] = r->memory_peak[1] = r->memory_last[0] = r->memory_last[1] = NAN;
  r->memory_reference[0] = r->memory_reference[1] = NAN;
  r->last_seconds = r->last_force_rmse = r->last_force_max = r->last_energy_error = NAN;
  r->last_stress_rmse = r->last_pressure_error = NAN;
}

/* Allocates arrays of steps and writes to them, so that their pages are mapped before the first step. */
static int take_memory(mlffprof_recorder *r, const mlffprof_options *o)
{
  const int n_series = o->n_series ? o->n_series : 2000;
  r->kept = malloc((size_t) r->n_kept_max * sizeof *r->kept);
  r->slow = malloc((size_t) r->n_slow_max * sizeof *r->slow);
  r->rank_steps = malloc((size_t) r->n_ranks * sizeof *r->rank_steps);
  r->components = calloc((size_t) o->n_components + 1, sizeof *r->components);
  r->elements = calloc((size_t) o->n_elements + 1, sizeof *r->elements);
  if (!r->kept || !r->slow || !r->rank_steps || !r->components || !r->elements) return 0;
  for (int64_t k = 0; k < r->n_kept_max; k++) r->kept[k] = NAN;
  for (int k = 0; k < r->n_slow_max; k++) r->slow[k] = (mlffprof_slow){.step = MLFFPROF_UNKNOWN};
  for (int k = 0; k < r->n_ranks; k++) r->rank_steps[k] = 0;
  return mlffprof_series_create(&r->memory, MLFFPROF_N_MEMORY, n_series) &&
         mlffprof_series_create(&r->energy, MLFFPROF_N_QUANTITIES, n_series) &&
         mlffprof_series_create(&r->accuracy, MLFFPROF_N_ACCURACY, n_series);
}

static int copy_lists(mlffprof_recorder *r, const mlffprof_options *o)
{
  for (int k = 0; k < o->n_components; k++) {
    const mlffprof_component *c = &o->components[k];
    r->n_components = k + 1;
    r->components[k].parent = c->parent ? find_component(o->components, k, c->parent) : -1;
    r->components[k].role = c->role;
    if (!mlffprof_text_set(&r->components[k].name, c->name)) return 0;
  }
  r->components[o->n_components].parent = -1;
  for (int k = 0; k < o->n_elements; k++) {
    r->n_elements = k + 1;
    if (!mlffprof_text_set(&r->elements[k].name, o->elements[k])) return 0;
  }
  return 1;
}

mlffprof_status mlffprof_recorder_create(const mlffprof_options *options, mlffprof_recorder **recorder,
                                         mlffprof_error *error)
{
  const mlffprof_options none = {.name = NULL}, *o = options ? options : &none;
  if (!recorder) return mlffprof_fail(error, MLFFPROF_E_ARG, "no place for the recorder (NULL)");
  *recorder = NULL;
  MLFF_TRY(check_options(o, error));
  mlffprof_recorder *r = calloc(1, sizeof *r);
  if (!r) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for a recorder");
  set_bounds(r, o);
  if (!take_memory(r, o) || !copy_texts(r, o) || !copy_lists(r, o)) {
    mlffprof_recorder_free(r);
    return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for a recorder of %lld exact steps",
                         (long long) o->n_exact);
  }
  *recorder = r;
  return MLFFPROF_OK;
}

void mlffprof_recorder_free(mlffprof_recorder *r)
{
  if (!r) return;
  char *texts[] = {r->text.name,  r->text.model_name, r->text.device,   r->text.ensemble,
                   r->text.notes, r->text.timestamp,  r->text.reference};
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) free(texts[k]);
  for (int k = 0; k < r->n_components; k++) free(r->components[k].name);
  for (int k = 0; k < r->n_elements; k++) free(r->elements[k].name);
  for (int k = 0; k < r->n_context; k++) {
    free(r->context[k].key);
    free(r->context[k].text);
  }
  mlffprof_series_free(&r->memory);
  mlffprof_series_free(&r->energy);
  mlffprof_series_free(&r->accuracy);
  free(r->kept);
  free(r->slow);
  free(r->rank_steps);
  free(r->components);
  free(r->elements);
  free(r->context);
  free(r);
}

mlffprof_status mlffprof_recorder_names(mlffprof_recorder *r, const char *name, const char *model_name,
                                        const char *device, const char *notes, mlffprof_error *error)
{
  if (mlffprof_text_set(&r->text.name, name && *name ? name : NULL) &&
      mlffprof_text_set(&r->text.model_name, model_name) && mlffprof_text_set(&r->text.device, device) &&
      mlffprof_text_set(&r->text.notes, notes))
    return MLFFPROF_OK;
  return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for the names of a recorder");
}
