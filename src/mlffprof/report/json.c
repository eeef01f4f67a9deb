/* json.c: a report as JSON, docs/profile.schema.json. */
#include "status.h"
#include "writer.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "atomic_file.h"

/* Digits of numbers in long lists: of energies all, because a drift is a small difference of them. */
enum { SHORT = 9, ALL_DIGITS = 0 };
static const double ms_per_s = 1e3, bytes_per_gb = 1e9;

static void write_count(mlffprof_writer *w, const char *key, int64_t value)
{
  if (value < 0)
    mlffprof_write_null(w, key);
  else
    mlffprof_write_integer(w, key, value);
}

/* The kind of memory that the memory_..._gb are about: the device when it was measured. */
static const mlffprof_memory_result *headline_memory(const mlffprof_report *p, const char **name)
{
  const mlffprof_memory_report *m = &p->memory;
  const int device = !isnan(m->device.final_bytes), host = !isnan(m->host.final_bytes);
  *name = device ? "device" : host ? "host" : NULL;
  return device ? &m->device : &m->host;
}

static void write_latencies(mlffprof_writer *w, const mlffprof_report *p)
{
  mlffprof_write_numbers(w, "latencies_ms", p->latencies_ms, p->n_latencies, 1, SHORT);
  mlffprof_write_integer(w, "latencies_stride", p->latencies_stride);
  mlffprof_write_number(w, "mean_latency_ms", p->latency.mean);
  mlffprof_write_number(w, "median_latency_ms", p->latency.median);
  mlffprof_write_number(w, "std_latency_ms", p->latency.std);
  mlffprof_write_number(w, "min_latency_ms", p->latency.min);
  mlffprof_write_number(w, "max_latency_ms", p->latency.max);
  mlffprof_write_number(w, "p95_latency_ms", p->latency.p95);
  mlffprof_write_number(w, "p99_latency_ms", p->latency.p99);
  mlffprof_write_number(w, "cv", p->latency.cv);
  mlffprof_write_number(w, "energy_time_ms", p->energy_time_ms);
  mlffprof_write_number(w, "forces_time_ms", p->forces_time_ms);
  mlffprof_write_number(w, "stress_time_ms", p->stress_time_ms);
}

static void write_memory_gb(mlffprof_writer *w, const mlffprof_report *p)
{
  const char *of = NULL;
  const mlffprof_memory_result *m = headline_memory(p, &of);
  const double *series = m == &p->memory.device ? p->memory.device_bytes : p->memory.host_bytes;
  mlffprof_write_number(w, "memory_initial_gb", m->initial_bytes / bytes_per_gb);
  mlffprof_write_number(w, "memory_final_gb", m->final_bytes / bytes_per_gb);
  mlffprof_write_number(w, "memory_peak_gb", m->peak_bytes / bytes_per_gb);
  mlffprof_write_numbers(w, "memory_per_step_gb", series, of ? p->memory.n_points : 0, 1 / bytes_per_gb, SHORT);
  mlffprof_write_text(w, "memory_of", of);
}

static void write_run(mlffprof_writer *w, const mlffprof_report *p)
{
  char size[48];
  write_count(w, "n_atoms", p->n_atoms);
  snprintf(size, sizeof size, "%lld atoms", (long long) p->n_atoms);
  mlffprof_write_text(w, "system_size", p->n_atoms < 0 ? NULL : size);
  mlffprof_write_number(w, "total_time_s", p->total_time_s);
  mlffprof_write_number(w, "steps_per_second", p->steps_per_second);
  mlffprof_write_text(w, "timestamp", p->timestamp);
  mlffprof_write_text(w, "notes", p->notes);
  mlffprof_write_number(w, "us_per_atom", p->us_per_atom);
  mlffprof_write_number(w, "ns_per_day", p->ns_per_day);
  mlffprof_write_number(w, "drift", p->drift);
  mlffprof_write_text(w, "drift_of", p->drift_of);
  mlffprof_write_text(w, "ensemble", p->ensemble);
  mlffprof_write_integer(w, "n_ranks", p->n_ranks);
  mlffprof_write_object(w, "warmup");
  mlffprof_write_integer(w, "n_steps", p->n_warmup);
  mlffprof_write_number(w, "mean_latency_ms", p->warmup.mean);
  mlffprof_write_number(w, "max_latency_ms", p->warmup.max);
  mlffprof_write_number(w, "total_time_s", p->warmup.mean * (double) p->n_warmup / ms_per_s);
  mlffprof_write_end(w);
  mlffprof_write_object(w, "quantiles");
  mlffprof_write_bool(w, "exact", p->quantiles_exact);
  mlffprof_write_number(w, "relative_error", p->quantile_error);
  mlffprof_write_end(w);
}

static const char *role_name(mlffprof_role role)
{
  static const char *const names[] = {NULL, "energy", "forces", "stress"};
  return names[role];
}

static void write_components(mlffprof_writer *w, const mlffprof_report *p)
{
  mlffprof_write_array(w, "components");
  for (int k = 0; k < p->n_components; k++) {
    const mlffprof_component_result *c = &p->components[k];
    mlffprof_write_object(w, NULL);
    mlffprof_write_text(w, "name", c->name);
    mlffprof_write_text(w, "parent", c->parent);
    mlffprof_write_text(w, "role", role_name(c->role));
    mlffprof_write_integer(w, "n_steps", c->n);
    mlffprof_write_number(w, "mean_ms", c->mean_ms);
    mlffprof_write_number(w, "max_ms", c->max_ms);
    mlffprof_write_number(w, "share", c->share);
    mlffprof_write_end(w);
  }
  mlffprof_write_end(w);
}

static void write_slow_steps(mlffprof_writer *w, const mlffprof_report *p)
{
  mlffprof_write_integer(w, "n_slow_steps", p->n_slow);
  mlffprof_write_number(w, "slow_share", p->slow_share);
  mlffprof_write_array(w, "slow_steps");
  for (int k = 0; k < p->n_slow_steps; k++) {
    const mlffprof_slow_step *s = &p->slow_steps[k];
    mlffprof_write_object(w, NULL);
    mlffprof_write_integer(w, "step", s->step);
    mlffprof_write_number(w, "latency_ms", s->latency_ms);
    mlffprof_write_number(w, "times_median", s->times_median);
    mlffprof_write_array(w, "tags");
    for (int bit = 0; bit < MLFFPROF_N_TAGS; bit++)
      if (s->tags >> bit & 1) mlffprof_write_text(w, NULL, mlffprof_tag_name(bit));
    mlffprof_write_end(w);
    write_count(w, "slowest_rank", s->slowest_rank);
    mlffprof_write_end(w);
  }
  mlffprof_write_end(w);
}

static void write_tags(mlffprof_writer *w, const mlffprof_report *p)
{
  mlffprof_write_array(w, "tags");
  for (int k = 0; k < p->n_tags; k++) {
    const mlffprof_tag_result *t = &p->tags[k];
    mlffprof_write_object(w, NULL);
    mlffprof_write_text(w, "name", t->name);
    mlffprof_write_integer(w, "n_steps", t->n_steps);
    mlffprof_write_number(w, "mean_latency_ms", t->mean_latency_ms);
    mlffprof_write_number(w, "share", t->share);
    mlffprof_write_number(w, "times_untagged", t->times_untagged);
    mlffprof_write_end(w);
  }
  mlffprof_write_end(w);
  const mlffprof_balance *b = &p->balance;
  if (b->n) {
    mlffprof_write_object(w, "balance");
    mlffprof_write_integer(w, "n_steps", b->n);
    mlffprof_write_number(w, "busy_most_ms", b->busy_most_ms);
    mlffprof_write_number(w, "busy_mean_ms", b->busy_mean_ms);
    mlffprof_write_number(w, "imbalance", b->imbalance);
    mlffprof_write_number(w, "waiting", b->waiting);
    mlffprof_write_number(w, "atoms_imbalance", b->atoms_imbalance);
    mlffprof_write_end(w);
  } else
    mlffprof_write_null(w, "balance");
  mlffprof_write_array(w, "slowest_ranks");
  for (int k = 0; k < p->n_slowest_ranks; k++) {
    mlffprof_write_object(w, NULL);
    mlffprof_write_integer(w, "rank", p->slowest_rank[k]);
    mlffprof_write_integer(w, "n_steps", p->slowest_rank_steps[k]);
    mlffprof_write_end(w);
  }
  mlffprof_write_end(w);
}

static void write_memory_kind(mlffprof_writer *w, const char *key, const mlffprof_memory_result *m)
{
  if (isnan(m->final_bytes)) {
    mlffprof_write_null(w, key);
    return;
  }
  mlffprof_write_object(w, key);
  mlffprof_write_integer(w, "n_samples", m->n);
  mlffprof_write_number(w, "initial_bytes", m->initial_bytes);
  mlffprof_write_number(w, "peak_bytes", m->peak_bytes);
  mlffprof_write_number(w, "final_bytes", m->final_bytes);
  mlffprof_write_number(w, "delta_bytes", m->delta_bytes);
  mlffprof_write_number(w, "growth_bytes", m->growth_bytes);
  mlffprof_write_number(w, "growth_per_1000_steps_bytes", m->growth_per_1000_steps);
  mlffprof_write_number(w, "growth_error_bytes", m->growth_error);
  mlffprof_write_text(w, "verdict", mlffprof_verdict_name(m->verdict));
  mlffprof_write_text(w, "reason", m->reason);
  mlffprof_write_end(w);
}

static void write_memory(mlffprof_writer *w, const mlffprof_report *p)
{
  const mlffprof_memory_report *m = &p->memory;
  if (m->n_points == 0) {
    mlffprof_write_null(w, "memory");
    return;
  }
  mlffprof_write_object(w, "memory");
  mlffprof_write_number(w, "tolerance_mb", m->tolerance_mb);
  mlffprof_write_text(w, "verdict", mlffprof_verdict_name(m->verdict));
  write_memory_kind(w, "host", &m->host);
  write_memory_kind(w, "device", &m->device);
  mlffprof_write_object(w, "series");
  mlffprof_write_integer(w, "stride", m->stride);
  mlffprof_write_integers(w, "step", m->step, m->n_points);
  mlffprof_write_numbers(w, "host_bytes", m->host_bytes, isnan(m->host.final_bytes) ? 0 : m->n_points, 1, ALL_DIGITS);
  mlffprof_write_numbers(w, "device_bytes", m->device_bytes, isnan(m->device.final_bytes) ? 0 : m->n_points, 1,
                         ALL_DIGITS);
  mlffprof_write_end(w);
  mlffprof_write_end(w);
}

static void write_quantity(mlffprof_writer *w, const char *key, const mlffprof_quantity *q)
{
  if (q->n == 0) {
    mlffprof_write_null(w, key);
    return;
  }
  const double values[] = {q->initial,       q->final,
                           q->mean,          q->std,
                           q->min,           q->max,
                           q->skew,          q->fluctuation,
                           q->max_excursion, q->change_percent,
                           q->drift,         q->drift_error,
                           q->drift_percent, q->drift_percent_error};
  static const char *const names[] = {"initial",       "final",
                                      "mean",          "std",
                                      "min",           "max",
                                      "skew",          "fluctuation",
                                      "max_excursion", "change_percent",
                                      "drift",         "drift_error",
                                      "drift_percent", "drift_percent_error"};
  mlffprof_write_object(w, key);
  mlffprof_write_integer(w, "n_samples", q->n);
  for (size_t k = 0; k < sizeof values / sizeof *values; k++) mlffprof_write_number(w, names[k], values[k]);
  if (isnan(q->bin_low)) {
    mlffprof_write_null(w, "histogram");
  } else {
    mlffprof_write_object(w, "histogram");
    mlffprof_write_number(w, "low", q->bin_low);
    mlffprof_write_number(w, "high", q->bin_high);
    mlffprof_write_integers(w, "counts", q->bins, MLFFPROF_N_BINS);
    mlffprof_write_end(w);
  }
  mlffprof_write_end(w);
}

static void write_energy(mlffprof_writer *w, const mlffprof_report *p)
{
  const mlffprof_energy_report *e = &p->energy;
  if (e->n_samples == 0) {
    mlffprof_write_null(w, "energy");
    return;
  }
  mlffprof_write_object(w, "energy");
  mlffprof_write_integer(w, "n_samples", e->n_samples);
  mlffprof_write_text(w, "units", e->lj_units ? "lj" : "metal");
  mlffprof_write_integer(w, "first_step", e->first_step);
  mlffprof_write_integer(w, "last_step", e->last_step);
  mlffprof_write_number(w, "time_ps", e->time_ps);
  mlffprof_write_bool(w, "finite", e->finite);
  mlffprof_write_bool(w, "exploded", e->exploded);
  write_count(w, "first_bad_step", e->first_bad_step);
  for (int k = 0; k < MLFFPROF_N_QUANTITIES; k++)
    write_quantity(w, mlffprof_quantity_name((mlffprof_quantity_id) k), &e->value[k]);
  mlffprof_write_object(w, "series");
  mlffprof_write_integer(w, "stride", e->stride);
  mlffprof_write_integers(w, "step", e->step, e->n_points);
  mlffprof_write_numbers(w, "time_ps", e->time, e->n_points, 1, ALL_DIGITS);
  for (int k = 0; k < MLFFPROF_N_QUANTITIES; k++)
    if (e->value[k].n)
      mlffprof_write_numbers(w, mlffprof_quantity_name((mlffprof_quantity_id) k), e->series[k], e->n_points, 1,
                             ALL_DIGITS);
  mlffprof_write_end(w);
  mlffprof_write_end(w);
}

static void write_elements(mlffprof_writer *w, const mlffprof_accuracy_report *a)
{
  mlffprof_write_array(w, "elements");
  for (int k = 0; k < a->n_elements; k++) {
    mlffprof_write_object(w, NULL);
    mlffprof_write_text(w, "name", a->elements[k].name);
    mlffprof_write_integer(w, "n_samples", a->elements[k].n);
    mlffprof_write_number(w, "force_rmse", a->elements[k].force_rmse);
    mlffprof_write_number(w, "force_mae", a->elements[k].force_mae);
    mlffprof_write_end(w);
  }
  mlffprof_write_end(w);
}

static void write_accuracy(mlffprof_writer *w, const mlffprof_report *p)
{
  const mlffprof_accuracy_report *a = &p->accuracy;
  if (a->n_samples == 0) {
    mlffprof_write_null(w, "accuracy");
    return;
  }
  mlffprof_write_object(w, "accuracy");
  mlffprof_write_text(w, "reference", a->reference);
  mlffprof_write_integer(w, "n_samples", a->n_samples);
  mlffprof_write_number(w, "energy_mae", a->energy_mae);
  mlffprof_write_number(w, "energy_rmse", a->energy_rmse);
  mlffprof_write_number(w, "energy_bias", a->energy_bias);
  mlffprof_write_number(w, "energy_max", a->energy_max);
  mlffprof_write_number(w, "force_rmse", a->force_rmse);
  mlffprof_write_number(w, "force_mae", a->force_mae);
  mlffprof_write_number(w, "force_max", a->force_max);
  mlffprof_write_number(w, "force_cosine", a->force_cosine);
  mlffprof_write_number(w, "force_cosine_min", a->force_cosine_min);
  write_count(w, "worst_step", a->worst_step);
  write_elements(w, a);
  mlffprof_write_object(w, "series");
  mlffprof_write_integer(w, "stride", a->stride);
  mlffprof_write_integers(w, "step", a->step, a->n_points);
  mlffprof_write_numbers(w, "energy_error", a->energy_error, a->n_points, 1, SHORT);
  mlffprof_write_numbers(w, "force_rmse", a->force_rmse_series, a->n_points, 1, SHORT);
  mlffprof_write_numbers(w, "force_max", a->force_max_series, a->n_points, 1, SHORT);
  mlffprof_write_numbers(w, "force_cosine", a->cosine_series, a->n_points, 1, SHORT);
  mlffprof_write_end(w);
  mlffprof_write_end(w);
}

static void write_targets(mlffprof_writer *w, const mlffprof_report *p)
{
  mlffprof_write_array(w, "targets");
  for (int k = 0; k < p->n_targets; k++) {
    const mlffprof_target *t = &p->targets[k];
    mlffprof_write_object(w, NULL);
    mlffprof_write_text(w, "metric", t->metric);
    mlffprof_write_text(w, "relation", t->relation);
    mlffprof_write_number(w, "bound", t->bound);
    mlffprof_write_number(w, "value", t->value);
    mlffprof_write_text(w, "status", t->passed > 0 ? "pass" : t->passed == 0 ? "fail" : "not measured");
    mlffprof_write_end(w);
  }
  mlffprof_write_end(w);
  mlffprof_write_array(w, "hotspots");
  for (int k = 0; k < p->n_hotspots; k++) {
    mlffprof_write_object(w, NULL);
    mlffprof_write_text(w, "component", p->hotspots[k].component);
    mlffprof_write_number(w, "share", p->hotspots[k].share);
    mlffprof_write_text(w, "advice", p->hotspots[k].advice);
    mlffprof_write_end(w);
  }
  mlffprof_write_end(w);
}

/* First entry before k that lies in the block `prefix` of length n: the block of k was written there. */
static int written_before(const mlffprof_report *p, int k, const char *prefix, size_t n)
{
  for (int i = 0; i < k; i++)
    if (!strncmp(p->context[i].key, prefix, n)) return 1;
  return 0;
}

/* Entries whose key begins with prefix[n], a path that is empty or ends in /; blocks where their first entry stands.
 * */
static void write_block(mlffprof_writer *w, const mlffprof_report *p, const char *prefix, size_t n)
{
  for (int k = 0; k < p->n_context; k++) {
    const mlffprof_context_entry *e = &p->context[k];
    if (strncmp(e->key, prefix, n)) continue;
    const char *slash = strchr(e->key + n, '/');
    char part[128];
    const size_t length = slash ? (size_t) (slash - e->key) - n : strlen(e->key + n);
    snprintf(part, sizeof part, "%.*s", (int) length, e->key + n);
    if (slash) {
      if (written_before(p, k, e->key, n + length + 1)) continue;
      mlffprof_write_object(w, part);
      write_block(w, p, e->key, n + length + 1); // NOLINT: at most four levels
      mlffprof_write_end(w);
    } else if (e->text) {
      mlffprof_write_text(w, part, e->text);
    } else {
      mlffprof_write_number(w, part, e->number);
    }
  }
}

mlffprof_status mlffprof_report_json(const mlffprof_report *p, FILE *out, mlffprof_error *error)
{
  mlffprof_writer writer = mlffprof_writer_on(out, 2), *w = &writer;
  mlffprof_write_object(w, NULL);
  mlffprof_write_integer(w, "schema_version", p->schema_version);
  mlffprof_write_text(w, "name", p->name ? p->name : "profile");
  mlffprof_write_text(w, "model_name", p->model_name);
  mlffprof_write_integer(w, "n_steps", p->n_steps);
  mlffprof_write_text(w, "device", p->device);
  write_latencies(w, p);
  write_memory_gb(w, p);
  write_run(w, p);
  write_components(w, p);
  write_slow_steps(w, p);
  write_tags(w, p);
  write_memory(w, p);
  write_energy(w, p);
  write_accuracy(w, p);
  write_targets(w, p);
  mlffprof_write_object(w, "context");
  write_block(w, p, "", 0);
  mlffprof_write_end(w);
  mlffprof_write_end(w);
  if (fflush(out) || ferror(out))
    return mlffprof_fail(error, MLFFPROF_E_IO, "a report cannot be written: %s", strerror(errno));
  return MLFFPROF_OK;
}

static mlffprof_status write_json(FILE *out, const void *report, mlffprof_error *error)
{
  return mlffprof_report_json(report, out, error);
}

mlffprof_status mlffprof_report_write(const mlffprof_report *report, const char *path, mlffprof_error *error)
{
  return mlffprof_atomic_write(path, write_json, report, error);
}
