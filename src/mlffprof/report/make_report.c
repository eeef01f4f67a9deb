/* make_report.c: recorder -> report: latencies, components, slow steps, tags, ranks, context. */
#include "report/json.h"
#include "report/make.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { N_SLOWEST_RANKS = 16 };
static const double slow_factor = 2;

/* ---- memory of a report ------------------------------------------------------------------------------------------ */

static mlffprof_stats no_stats(void)
{
  return (mlffprof_stats){0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
}

mlffprof_report *mlffprof_report_empty(void)
{
  mlffprof_report *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->arena = calloc(1, sizeof *p->arena);
  if (!p->arena) {
    free(p);
    return NULL;
  }
  mlffprof_block_clear(&mlffprof_report_kind, p);
  p->warmup = p->latency = no_stats();
  return p;
}

void mlffprof_report_free(mlffprof_report *report)
{
  if (!report) return;
  mlff_arena_free(report->arena);
  free(report->arena);
  free(report);
}

const char *mlffprof_arena_printf(mlff_arena *arena, const char *format, ...)
{
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return mlff_arena_string(arena, text);
}

/* ---- latencies --------------------------------------------------------------------------------------------------- */

static void make_quantiles(const mlffprof_recorder *r, mlffprof_report *p)
{
  static const double q[3] = {0.5, 0.95, 0.99};
  double values[3];
  p->quantiles_exact = r->kept_stride == 1;
  p->quantile_error = p->quantiles_exact ? 0 : MLFFPROF_SKETCH_ERROR;
  mlffprof_sketch_quantiles(&r->sketch, q, 3, values);
  mlffprof_sketch_above(&r->sketch, slow_factor * values[0], &p->n_slow, &p->slow_share);
  p->slow_share = r->total_seconds > 0 ? p->slow_share / r->total_seconds : NAN;
  if (p->quantiles_exact) {
    double *sorted = mlff_arena_copy(p->arena, r->kept, (size_t) r->n_kept, sizeof *r->kept);
    if (!sorted) return;
    mlffprof_sort(sorted, r->n_kept);
    for (int k = 0; k < 3; k++) values[k] = mlffprof_quantile(sorted, r->n_kept, q[k]);
  }
  p->latency.median = 1e3 * values[0];
  p->latency.p95 = 1e3 * values[1];
  p->latency.p99 = 1e3 * values[2];
}

/* Keeps every 2nd, 4th, ... step, so that the report does not exceed its bound. */
static void make_latencies(const mlffprof_recorder *r, mlffprof_report *p)
{
  int64_t every = 1;
  while ((r->n_kept + every - 1) / every > r->n_latencies) every *= 2;
  const int n = (int) ((r->n_kept + every - 1) / every);
  double *ms = mlff_arena_alloc(p->arena, (size_t) n, sizeof *ms);
  if (!ms) return;
  for (int k = 0; k < n; k++) ms[k] = 1e3 * r->kept[k * every];
  p->latencies_ms = ms;
  p->n_latencies = n;
  p->latencies_stride = every * r->kept_stride;
}

static void make_steps(const mlffprof_recorder *r, mlffprof_report *p)
{
  mlffprof_summary s;
  mlffprof_recorder_summary(r, &s);
  p->n_steps = r->latency.n;
  p->n_warmup = r->warmup.n;
  p->warmup = mlffprof_moments_stats(&r->warmup, 1e3);
  p->latency = mlffprof_moments_stats(&r->latency, 1e3);
  p->n_atoms = r->n_atoms > 0 ? r->n_atoms : MLFFPROF_UNKNOWN;
  p->n_ranks = r->n_ranks;
  p->total_time_s = p->n_steps ? r->total_seconds : NAN;
  p->steps_per_second = s.steps_per_second;
  p->ns_per_day = r->lj_units ? NAN : s.ns_per_day;
  p->us_per_atom = s.us_per_atom;
  p->cpu_share = r->cpu_wall > 0 ? r->cpu_seconds / r->cpu_wall : NAN;
  p->cpu_ms = p->cpu_share * p->latency.mean;
  make_quantiles(r, p);
  make_latencies(r, p);
}

/* ---- components, slow steps, tags, ranks ------------------------------------------------------------------------- */

static void make_components(const mlffprof_recorder *r, mlffprof_report *p)
{
  const mlffprof_component_sum *other = &r->components[r->n_components];
  mlffprof_component_result *list = mlff_arena_alloc(p->arena, (size_t) r->n_components + 1, sizeof *list);
  double role_ms[MLFFPROF_ROLE_STRESS + 1] = {NAN, NAN, NAN, NAN};
  if (!list) return;
  for (int k = 0; k <= r->n_components; k++) {
    const mlffprof_component_sum *c = &r->components[k];
    const double n = (double) c->n;
    if (c == other && !c->n) continue;
    list[p->n_components++] = (mlffprof_component_result){
        .name = c == other ? "other" : mlff_arena_string(p->arena, c->name),
        .parent = c->parent >= 0 ? list[c->parent].name : NULL,
        .role = c->role,
        .n = c->n,
        .mean_ms = c->n ? 1e3 * c->seconds / n : NAN,
        .max_ms = c->n ? 1e3 * c->max : NAN,
        .share = c->wall > 0 ? c->seconds / c->wall : NAN,
        .gflop = c->flop > 0 ? 1e-9 * c->flop / n : NAN,
        .gbyte = c->bytes > 0 ? 1e-9 * c->bytes / n : NAN,
    };
    if (c->n) role_ms[c->role] = (isnan(role_ms[c->role]) ? 0 : role_ms[c->role]) + 1e3 * c->seconds / n;
  }
  p->components = list;
  p->energy_time_ms = role_ms[MLFFPROF_ROLE_ENERGY];
  p->forces_time_ms = role_ms[MLFFPROF_ROLE_FORCES];
  p->stress_time_ms = role_ms[MLFFPROF_ROLE_STRESS];
}

static void make_slow_steps(const mlffprof_recorder *r, mlffprof_report *p)
{
  mlffprof_slow_step *list = mlff_arena_alloc(p->arena, (size_t) r->n_slow, sizeof *list);
  if (!list) return;
  for (int k = 0; k < r->n_slow; k++) {
    const double ms = 1e3 * r->slow[k].seconds;
    list[k] = (mlffprof_slow_step){r->slow[k].step, ms, p->latency.median > 0 ? ms / p->latency.median : NAN,
                                   r->slow[k].tags, r->slow[k].rank};
  }
  p->slow_steps = list;
  p->n_slow_steps = r->n_slow;
}

static void make_tags(const mlffprof_recorder *r, mlffprof_report *p)
{
  const mlffprof_tag_sum *none = &r->tags[MLFFPROF_N_TAGS];
  const double plain_ms = none->n ? 1e3 * none->seconds / (double) none->n : NAN;
  mlffprof_tag_result *list = mlff_arena_alloc(p->arena, MLFFPROF_N_TAGS + 1, sizeof *list);
  if (!list) return;
  for (int bit = 0; bit <= MLFFPROF_N_TAGS; bit++) {
    const mlffprof_tag_sum *t = &r->tags[bit];
    if (!t->n) continue;
    const double ms = 1e3 * t->seconds / (double) t->n;
    list[p->n_tags++] = (mlffprof_tag_result){t == none ? "untagged" : mlffprof_tag_name(bit), t->n, ms,
                                              r->total_seconds > 0 ? t->seconds / r->total_seconds : NAN,
                                              plain_ms > 0 ? ms / plain_ms : NAN};
  }
  p->tags = list;
}

static void make_ranks(const mlffprof_recorder *r, mlffprof_report *p)
{
  int *rank = mlff_arena_alloc(p->arena, N_SLOWEST_RANKS, sizeof *rank);
  int64_t *steps = mlff_arena_alloc(p->arena, N_SLOWEST_RANKS, sizeof *steps);
  int n = 0;
  if (!rank || !steps || r->n_ranks == 1) return;
  for (int k = 0; k < r->n_ranks; k++) {
    const int64_t here = r->rank_steps[k];
    if (!here || (n == N_SLOWEST_RANKS && here <= steps[n - 1])) continue;
    int place = n < N_SLOWEST_RANKS ? n++ : n - 1;
    for (; place > 0 && steps[place - 1] < here; place--) {
      steps[place] = steps[place - 1];
      rank[place] = rank[place - 1];
    }
    steps[place] = here;
    rank[place] = k;
  }
  p->slowest_rank = rank;
  p->slowest_rank_steps = steps;
  p->n_slowest_ranks = n;
}

static void make_balance(const mlffprof_recorder *r, mlffprof_report *p)
{
  const double n = (double) r->n_busy;
  if (!r->n_busy) return;
  p->balance.n = r->n_busy;
  p->balance.busy_most_ms = 1e3 * r->busy_most / n;
  p->balance.busy_mean_ms = 1e3 * r->busy_mean / n;
  if (r->busy_mean > 0) p->balance.imbalance = r->busy_most / r->busy_mean;
  if (r->busy_wall > 0) p->balance.waiting = (r->busy_most - r->busy_mean) / r->busy_wall;
  if (r->n_counted) p->balance.atoms_imbalance = r->atoms_ratio / (double) r->n_counted;
}

const char *mlffprof_context_text(const mlffprof_report *p, const char *key)
{
  for (int k = 0; k < p->n_context; k++)
    if (!strcmp(p->context[k].key, key)) return p->context[k].text;
  return NULL;
}

double mlffprof_context_number(const mlffprof_report *p, const char *key)
{
  for (int k = 0; k < p->n_context; k++)
    if (!strcmp(p->context[k].key, key)) return p->context[k].text ? NAN : p->context[k].number;
  return NAN;
}

static void make_context(const mlffprof_recorder *r, mlffprof_report *p)
{
  mlffprof_context_entry *list = mlff_arena_alloc(p->arena, (size_t) r->n_context, sizeof *list);
  if (!list) return;
  for (int k = 0; k < r->n_context; k++)
    list[k] = (mlffprof_context_entry){mlff_arena_string(p->arena, r->context[k].key),
                                       mlff_arena_string(p->arena, r->context[k].text), r->context[k].number};
  p->context = list;
  p->n_context = r->n_context;
}

static void make_texts(const mlffprof_recorder *r, mlffprof_report *p)
{
  p->name = mlff_arena_string(p->arena, r->text.name);
  p->model_name = mlff_arena_string(p->arena, r->text.model_name);
  p->device = mlff_arena_string(p->arena, r->text.device);
  p->ensemble = mlff_arena_string(p->arena, r->text.ensemble);
  p->notes = mlff_arena_string(p->arena, r->text.notes);
  p->timestamp = mlff_arena_string(p->arena, r->text.timestamp);
}

mlffprof_status mlffprof_recorder_report(const mlffprof_recorder *r, mlffprof_report **report, mlffprof_error *error)
{
  mlffprof_report *p = mlffprof_report_empty();
  *report = NULL;
  if (!p) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for a report");
  make_texts(r, p);
  make_steps(r, p);
  make_components(r, p);
  make_slow_steps(r, p);
  make_tags(r, p);
  make_ranks(r, p);
  make_balance(r, p);
  p->outside = r->outside;
  make_context(r, p);
  mlffprof_make_memory(r, p);
  mlffprof_make_energy(r, p);
  mlffprof_make_accuracy(r, p);
  mlffprof_make_hotspots(p);
  if (p->arena->failed) {
    mlffprof_report_free(p);
    return mlffprof_fail(error, MLFFPROF_E_NOMEM, "out of memory for a report");
  }
  *report = p;
  return mlffprof_report_targets(p, NULL, error);
}
