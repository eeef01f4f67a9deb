/* read.c: JSON -> report: the fields of json.c in the same order. It is longer than 500 lines because
 * each field stands here once with its kind, as it does there. */
#include "document.h"
#include "report/make.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is being read, and what it is read into. */
typedef struct reading {
  mlffprof_document d;
  const mlffprof_node *root;
  mlffprof_report *p;
} reading;

typedef struct number_field {
  const char *key;
  double *value;
} number_field;

static mlffprof_status read_fields(reading *r, const mlffprof_node *m, const number_field *fields, size_t n)
{
  for (size_t k = 0; k < n; k++) MLFFPROF_TRY(mlffprof_get_number(&r->d, m, fields[k].key, fields[k].value));
  return MLFFPROF_OK;
}
#define READ_FIELDS(r, m, fields) read_fields(r, m, fields, sizeof(fields) / sizeof *(fields))

static mlffprof_status read_integer(reading *r, const mlffprof_node *m, const char *key, int64_t otherwise, int64_t low,
                                    int64_t high, int64_t *value)
{
  MLFFPROF_TRY(mlffprof_get_integer(&r->d, m, key, otherwise, value));
  if (*value == otherwise || (*value >= low && *value <= high)) return MLFFPROF_OK;
  return mlffprof_document_fail(&r->d, m, "%s is %lld: impossible", key, (long long) *value);
}

static mlffprof_status read_count(reading *r, const mlffprof_node *m, const char *key, int64_t *value)
{
  return read_integer(r, m, key, 0, 0, INT64_MAX, value);
}

static mlffprof_status read_int(reading *r, const mlffprof_node *m, const char *key, int otherwise, int low, int *value)
{
  int64_t wide = otherwise;
  MLFFPROF_TRY(read_integer(r, m, key, otherwise, low, INT_MAX, &wide));
  *value = (int) wide;
  return MLFFPROF_OK;
}

static void *alloc(reading *r, int n, size_t size)
{
  void *memory = mlffprof_arena_alloc(r->p->arena, (size_t) n, size);
  if (!memory) mlffprof_fail(r->d.error, MLFFPROF_E_NOMEM, "%s: out of memory", r->d.path);
  return memory;
}

/* Item k of a list, which must be a block. */
static mlffprof_status item_block(reading *r, const mlffprof_node *list, int k, const char *key,
                                  const mlffprof_node **item)
{
  *item = mlffprof_item(&r->d, list, k);
  if ((*item)->type == YAML_MAPPING_NODE) return MLFFPROF_OK;
  return mlffprof_document_fail(&r->d, *item, "entry %d of %s is not a block ({...})", k, key);
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

/* What makes a file a report of a version that is known. */
static mlffprof_status read_identity(reading *r)
{
  int64_t version = 0;
  int n_latencies = 0;
  mlffprof_node *latencies = NULL;
  MLFFPROF_TRY(mlffprof_get_integer(&r->d, r->root, "schema_version", 0, &version));
  MLFFPROF_TRY(mlffprof_get_list(&r->d, r->root, "latencies_ms", &latencies, &n_latencies));
  if (version < 1 || !latencies)
    return mlffprof_document_fail(&r->d, NULL, "not a report of mlffprof: it has no schema_version and latencies_ms");
  if (version > MLFFPROF_SCHEMA_VERSION)
    return mlffprof_fail(r->d.error, MLFFPROF_E_UNSUPPORTED,
                         "%s: schema version %lld; this program knows versions up to %d: use a newer one", r->d.path,
                         (long long) version, (int) MLFFPROF_SCHEMA_VERSION);
  r->p->schema_version = (int) version;
  return MLFFPROF_OK;
}

static mlffprof_status read_texts(reading *r)
{
  mlffprof_report *p = r->p;
  const struct {
    const char *key, **value;
  } texts[] = {{"name", &p->name},         {"model_name", &p->model_name}, {"device", &p->device},
               {"ensemble", &p->ensemble}, {"notes", &p->notes},           {"timestamp", &p->timestamp},
               {"drift_of", &p->drift_of}};
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
    MLFFPROF_TRY(mlffprof_get_text(&r->d, r->root, texts[k].key, texts[k].value));
  return MLFFPROF_OK;
}

static mlffprof_status read_steps(reading *r)
{
  mlffprof_report *p = r->p;
  const number_field fields[] = {
      {"mean_latency_ms", &p->latency.mean},
      {"median_latency_ms", &p->latency.median},
      {"std_latency_ms", &p->latency.std},
      {"min_latency_ms", &p->latency.min},
      {"max_latency_ms", &p->latency.max},
      {"p95_latency_ms", &p->latency.p95},
      {"p99_latency_ms", &p->latency.p99},
      {"cv", &p->latency.cv},
      {"energy_time_ms", &p->energy_time_ms},
      {"forces_time_ms", &p->forces_time_ms},
      {"stress_time_ms", &p->stress_time_ms},
      {"total_time_s", &p->total_time_s},
      {"steps_per_second", &p->steps_per_second},
      {"us_per_atom", &p->us_per_atom},
      {"ns_per_day", &p->ns_per_day},
      {"drift", &p->drift},
      {"slow_share", &p->slow_share},
  };
  MLFFPROF_TRY(READ_FIELDS(r, r->root, fields));
  MLFFPROF_TRY(read_count(r, r->root, "n_steps", &p->n_steps));
  MLFFPROF_TRY(read_integer(r, r->root, "n_atoms", MLFFPROF_UNKNOWN, 0, INT64_MAX, &p->n_atoms));
  MLFFPROF_TRY(read_int(r, r->root, "n_ranks", 1, 1, &p->n_ranks));
  MLFFPROF_TRY(read_count(r, r->root, "n_slow_steps", &p->n_slow));
  MLFFPROF_TRY(read_integer(r, r->root, "latencies_stride", 1, 1, INT64_MAX, &p->latencies_stride));
  MLFFPROF_TRY(mlffprof_get_numbers(&r->d, r->root, "latencies_ms", &p->latencies_ms, &p->n_latencies));
  p->latency.n = p->n_steps;
  return MLFFPROF_OK;
}

static mlffprof_status read_warmup(reading *r)
{
  mlffprof_report *p = r->p;
  mlffprof_node *warmup = NULL, *quantiles = NULL;
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, r->root, "warmup", &warmup));
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, r->root, "quantiles", &quantiles));
  if (warmup) {
    MLFFPROF_TRY(read_count(r, warmup, "n_steps", &p->n_warmup));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, warmup, "mean_latency_ms", &p->warmup.mean));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, warmup, "max_latency_ms", &p->warmup.max));
    p->warmup.n = p->n_warmup;
  }
  if (!quantiles) return MLFFPROF_OK;
  MLFFPROF_TRY(mlffprof_get_bool(&r->d, quantiles, "exact", 1, &p->quantiles_exact));
  MLFFPROF_TRY(mlffprof_get_number(&r->d, quantiles, "relative_error", &p->quantile_error));
  if (isnan(p->quantile_error)) p->quantile_error = 0;
  return MLFFPROF_OK;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static mlffprof_status read_role(reading *r, const mlffprof_node *m, mlffprof_role *role)
{
  static const char *const names[] = {"energy", "forces", "stress"};
  const char *text = NULL;
  *role = MLFFPROF_ROLE_NONE;
  MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "role", &text));
  for (int k = 0; k < 3; k++)
    if (text && !strcmp(text, names[k])) *role = (mlffprof_role) (k + 1);
  return MLFFPROF_OK;
}

/* The parent of a component is one before it. */
static mlffprof_status check_parent(reading *r, const mlffprof_node *m, const mlffprof_component_result *list, int k)
{
  int i = 0;
  if (!list[k].parent) return MLFFPROF_OK;
  while (i < k && strcmp(list[i].name, list[k].parent)) i++;
  return i < k ? MLFFPROF_OK : mlffprof_document_fail(&r->d, m, "parent '%.60s' is not there", list[k].parent);
}

static mlffprof_status read_components(reading *r)
{
  mlffprof_node *list = NULL;
  int n = 0;
  MLFFPROF_TRY(mlffprof_get_list(&r->d, r->root, "components", &list, &n));
  if (n > 2 * MLFFPROF_MAX_COMPONENTS) return mlffprof_document_fail(&r->d, list, "%d components are too many", n);
  mlffprof_component_result *out = alloc(r, n, sizeof *out);
  for (int k = 0; k < n; k++) {
    const mlffprof_node *m = NULL;
    if (!out) return MLFFPROF_E_NOMEM;
    MLFFPROF_TRY(item_block(r, list, k, "components", &m));
    const number_field fields[] = {{"mean_ms", &out[k].mean_ms}, {"max_ms", &out[k].max_ms}, {"share", &out[k].share}};
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "name", &out[k].name));
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "parent", &out[k].parent));
    if (!out[k].name) return mlffprof_document_fail(&r->d, m, "a component without a name");
    MLFFPROF_TRY(check_parent(r, m, out, k));
    MLFFPROF_TRY(read_role(r, m, &out[k].role));
    MLFFPROF_TRY(read_count(r, m, "n_steps", &out[k].n));
    MLFFPROF_TRY(READ_FIELDS(r, m, fields));
  }
  r->p->components = out;
  r->p->n_components = n;
  return MLFFPROF_OK;
}

static mlffprof_status read_tag_names(reading *r, const mlffprof_node *m, unsigned *tags)
{
  mlffprof_node *list = NULL;
  int n = 0;
  *tags = 0;
  MLFFPROF_TRY(mlffprof_get_list(&r->d, m, "tags", &list, &n));
  for (int k = 0; k < n; k++) {
    const mlffprof_node *item = mlffprof_item(&r->d, list, k);
    if (!mlffprof_node_is_text(item)) return mlffprof_document_fail(&r->d, item, "a tag is not a text");
    for (int bit = 0; bit < MLFFPROF_N_TAGS; bit++) /* tags of later versions are left out */
      if (!strcmp((const char *) item->data.scalar.value, mlffprof_tag_name(bit))) *tags |= 1u << bit;
  }
  return MLFFPROF_OK;
}

static mlffprof_status read_slow_steps(reading *r)
{
  mlffprof_node *list = NULL;
  int n = 0;
  MLFFPROF_TRY(mlffprof_get_list(&r->d, r->root, "slow_steps", &list, &n));
  mlffprof_slow_step *out = alloc(r, n, sizeof *out);
  for (int k = 0; k < n; k++) {
    const mlffprof_node *m = NULL;
    if (!out) return MLFFPROF_E_NOMEM;
    MLFFPROF_TRY(item_block(r, list, k, "slow_steps", &m));
    MLFFPROF_TRY(read_integer(r, m, "step", 0, INT64_MIN, INT64_MAX, &out[k].step));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "latency_ms", &out[k].latency_ms));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "times_median", &out[k].times_median));
    MLFFPROF_TRY(read_tag_names(r, m, &out[k].tags));
    MLFFPROF_TRY(read_int(r, m, "slowest_rank", MLFFPROF_UNKNOWN, 0, &out[k].slowest_rank));
  }
  r->p->slow_steps = out;
  r->p->n_slow_steps = n;
  return MLFFPROF_OK;
}

static mlffprof_status read_tags(reading *r)
{
  mlffprof_node *list = NULL;
  int n = 0;
  MLFFPROF_TRY(mlffprof_get_list(&r->d, r->root, "tags", &list, &n));
  mlffprof_tag_result *out = alloc(r, n, sizeof *out);
  for (int k = 0; k < n; k++) {
    const mlffprof_node *m = NULL;
    if (!out) return MLFFPROF_E_NOMEM;
    MLFFPROF_TRY(item_block(r, list, k, "tags", &m));
    const number_field fields[] = {{"mean_latency_ms", &out[k].mean_latency_ms},
                                   {"share", &out[k].share},
                                   {"times_untagged", &out[k].times_untagged}};
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "name", &out[k].name));
    if (!out[k].name) return mlffprof_document_fail(&r->d, m, "a tag without a name");
    MLFFPROF_TRY(read_count(r, m, "n_steps", &out[k].n_steps));
    MLFFPROF_TRY(READ_FIELDS(r, m, fields));
  }
  r->p->tags = out;
  r->p->n_tags = n;
  return MLFFPROF_OK;
}

static mlffprof_status read_balance(reading *r)
{
  mlffprof_balance *b = &r->p->balance;
  mlffprof_node *m = NULL;
  const number_field fields[] = {{"busy_most_ms", &b->busy_most_ms},
                                 {"busy_mean_ms", &b->busy_mean_ms},
                                 {"imbalance", &b->imbalance},
                                 {"waiting", &b->waiting},
                                 {"atoms_imbalance", &b->atoms_imbalance}};
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, r->root, "balance", &m));
  if (!m) return MLFFPROF_OK;
  MLFFPROF_TRY(read_count(r, m, "n_steps", &b->n));
  return READ_FIELDS(r, m, fields);
}

static mlffprof_status read_ranks(reading *r)
{
  mlffprof_node *list = NULL;
  int n = 0;
  MLFFPROF_TRY(mlffprof_get_list(&r->d, r->root, "slowest_ranks", &list, &n));
  int *rank = alloc(r, n, sizeof *rank);
  int64_t *steps = alloc(r, n, sizeof *steps);
  for (int k = 0; k < n; k++) {
    const mlffprof_node *m = NULL;
    if (!rank || !steps) return MLFFPROF_E_NOMEM;
    MLFFPROF_TRY(item_block(r, list, k, "slowest_ranks", &m));
    MLFFPROF_TRY(read_int(r, m, "rank", 0, 0, &rank[k]));
    MLFFPROF_TRY(read_count(r, m, "n_steps", &steps[k]));
  }
  r->p->slowest_rank = rank;
  r->p->slowest_rank_steps = steps;
  r->p->n_slowest_ranks = n;
  return MLFFPROF_OK;
}

static mlffprof_status read_targets(reading *r)
{
  mlffprof_node *list = NULL;
  int n = 0;
  MLFFPROF_TRY(mlffprof_get_list(&r->d, r->root, "targets", &list, &n));
  mlffprof_target *out = alloc(r, n, sizeof *out);
  for (int k = 0; k < n; k++) {
    const mlffprof_node *m = NULL;
    const char *status = NULL;
    if (!out) return MLFFPROF_E_NOMEM;
    MLFFPROF_TRY(item_block(r, list, k, "targets", &m));
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "metric", &out[k].metric));
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "relation", &out[k].relation));
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "status", &status));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "bound", &out[k].bound));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "value", &out[k].value));
    if (!out[k].metric || !out[k].relation || !status)
      return mlffprof_document_fail(&r->d, m, "a target without metric, relation or status");
    out[k].passed = !strcmp(status, "pass") ? 1 : !strcmp(status, "fail") ? 0 : -1;
  }
  r->p->targets = out;
  r->p->n_targets = n;
  return MLFFPROF_OK;
}

static mlffprof_status read_hotspots(reading *r)
{
  mlffprof_node *list = NULL;
  int n = 0;
  MLFFPROF_TRY(mlffprof_get_list(&r->d, r->root, "hotspots", &list, &n));
  mlffprof_hotspot *out = alloc(r, n, sizeof *out);
  for (int k = 0; k < n; k++) {
    const mlffprof_node *m = NULL;
    if (!out) return MLFFPROF_E_NOMEM;
    MLFFPROF_TRY(item_block(r, list, k, "hotspots", &m));
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "component", &out[k].component));
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "advice", &out[k].advice));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "share", &out[k].share));
    if (!out[k].component || !out[k].advice)
      return mlffprof_document_fail(&r->d, m, "a hotspot without component or advice");
  }
  r->p->hotspots = out;
  r->p->n_hotspots = n;
  return MLFFPROF_OK;
}

/* ---- memory, energy, accuracy ------------------------------------------------------------------------------------ */

/* A column of a series: as long as the series, or empty where it was not measured, and then all NaN. */
static mlffprof_status read_column(reading *r, const mlffprof_node *series, const char *key, int n_points,
                                   const double **values)
{
  int n = 0;
  MLFFPROF_TRY(mlffprof_get_numbers(&r->d, series, key, values, &n));
  if (n == n_points) return MLFFPROF_OK;
  if (n) return mlffprof_document_fail(&r->d, series, "%s has %d entries, step has %d", key, n, n_points);
  double *none = alloc(r, n_points, sizeof *none);
  if (!none) return MLFFPROF_E_NOMEM;
  for (int k = 0; k < n_points; k++) none[k] = NAN;
  *values = none;
  return MLFFPROF_OK;
}

static mlffprof_status read_series(reading *r, const mlffprof_node *block, mlffprof_node **series, int64_t *stride,
                                   const int64_t **step, int *n_points)
{
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, block, "series", series));
  if (!*series) return mlffprof_document_fail(&r->d, block, "series is missing");
  MLFFPROF_TRY(read_integer(r, *series, "stride", 1, 1, INT64_MAX, stride));
  return mlffprof_get_integers(&r->d, *series, "step", step, n_points);
}

static mlffprof_status read_verdict(reading *r, const mlffprof_node *m, mlffprof_verdict *verdict)
{
  const char *text = NULL;
  MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "verdict", &text));
  *verdict = MLFFPROF_VERDICT_UNKNOWN;
  for (int k = MLFFPROF_VERDICT_STABLE; text && k <= MLFFPROF_VERDICT_LEAK; k++)
    if (!strcmp(text, mlffprof_verdict_name((mlffprof_verdict) k))) *verdict = (mlffprof_verdict) k;
  return MLFFPROF_OK;
}

static mlffprof_status read_memory_kind(reading *r, const mlffprof_node *block, const char *key,
                                        mlffprof_memory_result *out)
{
  mlffprof_node *m = NULL;
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, block, key, &m));
  if (!m) return MLFFPROF_OK;
  const number_field fields[] = {{"initial_bytes", &out->initial_bytes},
                                 {"peak_bytes", &out->peak_bytes},
                                 {"final_bytes", &out->final_bytes},
                                 {"delta_bytes", &out->delta_bytes},
                                 {"growth_bytes", &out->growth_bytes},
                                 {"growth_per_1000_steps_bytes", &out->growth_per_1000_steps},
                                 {"growth_error_bytes", &out->growth_error}};
  MLFFPROF_TRY(READ_FIELDS(r, m, fields));
  MLFFPROF_TRY(read_count(r, m, "n_samples", &out->n));
  MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "reason", &out->reason));
  return read_verdict(r, m, &out->verdict);
}

static mlffprof_status read_memory(reading *r)
{
  mlffprof_memory_report *out = &r->p->memory;
  mlffprof_node *m = NULL, *series = NULL;
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, r->root, "memory", &m));
  if (!m) return MLFFPROF_OK;
  MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "tolerance_mb", &out->tolerance_mb));
  MLFFPROF_TRY(read_verdict(r, m, &out->verdict));
  MLFFPROF_TRY(read_memory_kind(r, m, "host", &out->host));
  MLFFPROF_TRY(read_memory_kind(r, m, "device", &out->device));
  MLFFPROF_TRY(read_series(r, m, &series, &out->stride, &out->step, &out->n_points));
  MLFFPROF_TRY(read_column(r, series, "host_bytes", out->n_points, &out->host_bytes));
  return read_column(r, series, "device_bytes", out->n_points, &out->device_bytes);
}

static mlffprof_status read_histogram(reading *r, const mlffprof_node *m, mlffprof_quantity *q)
{
  mlffprof_node *h = NULL;
  const int64_t *counts = NULL;
  int n = 0;
  q->bin_low = q->bin_high = NAN;
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, m, "histogram", &h));
  if (!h) return MLFFPROF_OK;
  MLFFPROF_TRY(mlffprof_get_number(&r->d, h, "low", &q->bin_low));
  MLFFPROF_TRY(mlffprof_get_number(&r->d, h, "high", &q->bin_high));
  MLFFPROF_TRY(mlffprof_get_integers(&r->d, h, "counts", &counts, &n));
  if (n != MLFFPROF_N_BINS)
    return mlffprof_document_fail(&r->d, h, "%d counts instead of %d", n, (int) MLFFPROF_N_BINS);
  memcpy(q->bins, counts, sizeof q->bins);
  return MLFFPROF_OK;
}

static mlffprof_status read_quantity(reading *r, const mlffprof_node *block, const char *key, mlffprof_quantity *q)
{
  mlffprof_node *m = NULL;
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, block, key, &m));
  if (!m) return MLFFPROF_OK;
  const number_field fields[] = {{"initial", &q->initial},
                                 {"final", &q->final},
                                 {"mean", &q->mean},
                                 {"std", &q->std},
                                 {"min", &q->min},
                                 {"max", &q->max},
                                 {"skew", &q->skew},
                                 {"fluctuation", &q->fluctuation},
                                 {"max_excursion", &q->max_excursion},
                                 {"change_percent", &q->change_percent},
                                 {"drift", &q->drift},
                                 {"drift_error", &q->drift_error},
                                 {"drift_percent", &q->drift_percent},
                                 {"drift_percent_error", &q->drift_percent_error}};
  MLFFPROF_TRY(READ_FIELDS(r, m, fields));
  MLFFPROF_TRY(read_count(r, m, "n_samples", &q->n));
  return read_histogram(r, m, q);
}

static mlffprof_status read_energy(reading *r)
{
  mlffprof_energy_report *e = &r->p->energy;
  mlffprof_node *m = NULL, *series = NULL;
  const char *units = NULL;
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, r->root, "energy", &m));
  if (!m) return MLFFPROF_OK;
  MLFFPROF_TRY(read_count(r, m, "n_samples", &e->n_samples));
  MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "units", &units));
  e->lj_units = units && !strcmp(units, "lj");
  MLFFPROF_TRY(read_integer(r, m, "first_step", 0, INT64_MIN, INT64_MAX, &e->first_step));
  MLFFPROF_TRY(read_integer(r, m, "last_step", 0, INT64_MIN, INT64_MAX, &e->last_step));
  MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "time_ps", &e->time_ps));
  MLFFPROF_TRY(mlffprof_get_bool(&r->d, m, "finite", 1, &e->finite));
  MLFFPROF_TRY(mlffprof_get_bool(&r->d, m, "exploded", 0, &e->exploded));
  MLFFPROF_TRY(read_integer(r, m, "first_bad_step", MLFFPROF_UNKNOWN, INT64_MIN, INT64_MAX, &e->first_bad_step));
  MLFFPROF_TRY(read_series(r, m, &series, &e->stride, &e->step, &e->n_points));
  MLFFPROF_TRY(read_column(r, series, "time_ps", e->n_points, &e->time));
  for (int k = 0; k < MLFFPROF_N_QUANTITIES; k++) {
    const char *name = mlffprof_quantity_name((mlffprof_quantity_id) k);
    MLFFPROF_TRY(read_quantity(r, m, name, &e->value[k]));
    MLFFPROF_TRY(read_column(r, series, name, e->n_points, &e->series[k]));
  }
  return MLFFPROF_OK;
}

static mlffprof_status read_elements(reading *r, const mlffprof_node *block)
{
  mlffprof_node *list = NULL;
  int n = 0;
  MLFFPROF_TRY(mlffprof_get_list(&r->d, block, "elements", &list, &n));
  mlffprof_element_result *out = alloc(r, n, sizeof *out);
  for (int k = 0; k < n; k++) {
    const mlffprof_node *m = NULL;
    if (!out) return MLFFPROF_E_NOMEM;
    MLFFPROF_TRY(item_block(r, list, k, "elements", &m));
    MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "name", &out[k].name));
    MLFFPROF_TRY(read_count(r, m, "n_samples", &out[k].n));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "force_rmse", &out[k].force_rmse));
    MLFFPROF_TRY(mlffprof_get_number(&r->d, m, "force_mae", &out[k].force_mae));
    if (!out[k].name) return mlffprof_document_fail(&r->d, m, "an element without a name");
  }
  r->p->accuracy.elements = out;
  r->p->accuracy.n_elements = n;
  return MLFFPROF_OK;
}

static mlffprof_status read_accuracy(reading *r)
{
  mlffprof_accuracy_report *a = &r->p->accuracy;
  mlffprof_node *m = NULL, *series = NULL;
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, r->root, "accuracy", &m));
  if (!m) return MLFFPROF_OK;
  const number_field fields[] =
      {{"energy_mae", &a->energy_mae}, {"energy_rmse", &a->energy_rmse},   {"energy_bias", &a->energy_bias},
       {"energy_max", &a->energy_max}, {"force_rmse", &a->force_rmse},     {"force_mae", &a->force_mae},
       {"force_max", &a->force_max},   {"force_cosine", &a->force_cosine}, {"force_cosine_min", &a->force_cosine_min}};
  MLFFPROF_TRY(READ_FIELDS(r, m, fields));
  MLFFPROF_TRY(mlffprof_get_text(&r->d, m, "reference", &a->reference));
  MLFFPROF_TRY(read_count(r, m, "n_samples", &a->n_samples));
  MLFFPROF_TRY(read_integer(r, m, "worst_step", MLFFPROF_UNKNOWN, INT64_MIN, INT64_MAX, &a->worst_step));
  MLFFPROF_TRY(read_elements(r, m));
  MLFFPROF_TRY(read_series(r, m, &series, &a->stride, &a->step, &a->n_points));
  MLFFPROF_TRY(read_column(r, series, "energy_error", a->n_points, &a->energy_error));
  MLFFPROF_TRY(read_column(r, series, "force_rmse", a->n_points, &a->force_rmse_series));
  MLFFPROF_TRY(read_column(r, series, "force_max", a->n_points, &a->force_max_series));
  return read_column(r, series, "force_cosine", a->n_points, &a->cosine_series);
}

/* ---- context ----------------------------------------------------------------------------------------------------- */

static mlffprof_status add_entry(reading *r, mlffprof_context_entry *list, const char *key, const mlffprof_node *value)
{
  if (r->p->n_context == MLFFPROF_MAX_CONTEXT)
    return mlffprof_document_fail(&r->d, value, "more than %d entries in the context", (int) MLFFPROF_MAX_CONTEXT);
  mlffprof_context_entry *e = &list[r->p->n_context++];
  *e = (mlffprof_context_entry){.key = mlffprof_arena_text(r->p->arena, key), .number = NAN};
  if (mlffprof_node_is_text(value) && !mlffprof_node_number(value, &e->number))
    e->text = mlffprof_arena_text(r->p->arena, (const char *) value->data.scalar.value);
  return mlffprof_arena_failed(r->p->arena) ? MLFFPROF_E_NOMEM : MLFFPROF_OK;
}

/* Entries of a block with keys prefix/name; at most as deep as blocks are written. */
static mlffprof_status read_block(reading *r, const mlffprof_node *block, const char *prefix, int depth,
                                  mlffprof_context_entry *list)
{
  for (int k = 0; k < mlffprof_n_pairs(block); k++) {
    mlffprof_node *value = NULL;
    char path[2 * MLFFPROF_MAX_KEY];
    const char *key = mlffprof_pair(&r->d, block, k, &value);
    const int n = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "/" : "", key);
    if (n > MLFFPROF_MAX_KEY || !*key || strchr(key, '/'))
      return mlffprof_document_fail(&r->d, value, "'%.60s' cannot be a key of the context", key);
    if (value->type == YAML_SCALAR_NODE) {
      MLFFPROF_TRY(add_entry(r, list, path, value));
    } else if (value->type == YAML_MAPPING_NODE && depth < MLFFPROF_MAX_LEVELS) {
      MLFFPROF_TRY(read_block(r, value, path, depth + 1, list));
    } else {
      return mlffprof_document_fail(&r->d, value, "context: '%.60s' is a list, or nested too deep", path);
    }
  }
  return MLFFPROF_OK;
}

static mlffprof_status read_context(reading *r)
{
  mlffprof_node *m = NULL;
  MLFFPROF_TRY(mlffprof_get_mapping(&r->d, r->root, "context", &m));
  if (!m) return MLFFPROF_OK;
  mlffprof_context_entry *list = alloc(r, MLFFPROF_MAX_CONTEXT, sizeof *list);
  if (!list) return MLFFPROF_E_NOMEM;
  r->p->context = list;
  return read_block(r, m, "", 1, list);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static mlffprof_status read_all(reading *r)
{
  static mlffprof_status (*const parts[])(reading *) = {read_identity,   read_texts,      read_steps,  read_warmup,
                                                        read_components, read_slow_steps, read_tags,   read_balance,
                                                        read_ranks,      read_memory,     read_energy, read_accuracy,
                                                        read_targets,    read_hotspots,   read_context};
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) MLFFPROF_TRY(parts[k](r));
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_report_parse(const char *path, const char *text, size_t size, mlffprof_report **report,
                                      mlffprof_error *error)
{
  reading r = {.p = mlffprof_report_empty()};
  *report = NULL;
  if (!r.p) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "%s: out of memory", path);
  mlffprof_status status = mlffprof_document_parse(path, text, size, r.p->arena, &r.d, error);
  if (!status) {
    r.root = mlffprof_document_root(&r.d);
    status = read_all(&r);
    mlffprof_document_free(&r.d);
  }
  if (status)
    mlffprof_report_free(r.p);
  else
    *report = r.p;
  return status;
}

mlffprof_status mlffprof_report_read(const char *path, mlffprof_report **report, mlffprof_error *error)
{
  char *text = NULL;
  size_t size = 0;
  *report = NULL;
  MLFFPROF_TRY(mlffprof_file_read(path, &text, &size, error));
  const mlffprof_status status = mlffprof_report_parse(path, text, size, report, error);
  free(text);
  return status;
}
