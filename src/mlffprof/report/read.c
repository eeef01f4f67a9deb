/* read.c: JSON -> report, by the table of its fields. */
#include "document.h"
#include "report/json.h"
#include "report/make.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* State of the reader and its output. */
typedef struct reading {
  mlffprof_document d;
  mlffprof_report *p;
} reading;

static mlffprof_status read_fields(reading *r, const mlff_yaml *m, const mlffprof_kind *block, char *base);

static mlffprof_status no_memory(const reading *r)
{
  return mlffprof_fail(r->d.error, MLFFPROF_E_NOMEM, "%s: out of memory", r->d.path);
}

/* ---- context ----------------------------------------------------------------------------------------------------- */

static mlffprof_status add_entry(reading *r, mlffprof_context_entry *list, const char *key, const mlff_yaml *value)
{
  if (r->p->n_context == MLFFPROF_MAX_CONTEXT)
    return mlffprof_document_fail(&r->d, value, "more than %d entries in the context", (int) MLFFPROF_MAX_CONTEXT);
  mlffprof_context_entry *e = &list[r->p->n_context++];
  *e = (mlffprof_context_entry){.key = mlff_arena_string(r->p->arena, key), .number = NAN};
  if (mlffprof_is_text(value) && !mlff_yaml_number(value, &e->number))
    e->text = mlff_arena_string(r->p->arena, value->text);
  return r->p->arena->failed ? no_memory(r) : MLFFPROF_OK;
}

/* Entries of a block with keys prefix/name; at most as deep as blocks are written. */
static mlffprof_status read_entries(reading *r, const mlff_yaml *block, const char *prefix, int depth,
                                    mlffprof_context_entry *list)
{
  for (const mlff_yaml *value = block->first; value; value = value->next) {
    char path[2 * MLFFPROF_MAX_KEY];
    const char *key = value->key;
    const int n = snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "/" : "", key);
    if (n > MLFFPROF_MAX_KEY || !*key || strchr(key, '/'))
      return mlffprof_document_fail(&r->d, value, "'%.60s' cannot be a key of the context", key);
    if (value->kind == MLFF_YAML_SCALAR) {
      MLFF_TRY(add_entry(r, list, path, value));
    } else if (value->kind == MLFF_YAML_MAPPING && depth < MLFFPROF_MAX_LEVELS) {
      MLFF_TRY(read_entries(r, value, path, depth + 1, list));
    } else {
      return mlffprof_document_fail(&r->d, value, "context: '%.60s' is a list, or nested too deep", path);
    }
  }
  return MLFFPROF_OK;
}

static mlffprof_status read_context(reading *r, const mlff_yaml *m, const mlffprof_field *f)
{
  const mlff_yaml *block = NULL;
  MLFF_TRY(mlffprof_get_mapping(&r->d, m, f->name, &block));
  if (!block) return MLFFPROF_OK;
  mlffprof_context_entry *list = mlff_arena_alloc(r->p->arena, MLFFPROF_MAX_CONTEXT, sizeof *list);
  if (!list) return no_memory(r);
  r->p->context = list;
  return read_entries(r, block, "", 1, list);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static mlffprof_status read_number(reading *r, const mlff_yaml *m, const mlffprof_field *f, double *value)
{
  MLFF_TRY(mlffprof_get_number(&r->d, m, f->name, value));
  if (isnan(*value) && f->kind->is_bound) *value = 0;
  return MLFFPROF_OK;
}

static mlffprof_status read_integer(reading *r, const mlff_yaml *m, const mlffprof_field *f, void *member)
{
  const mlffprof_kind *kind = f->kind;
  const int is_wide = kind->size == sizeof(int64_t);
  int64_t value = 0;
  MLFF_TRY(mlffprof_get_integer(&r->d, m, f->name, kind->missing, &value));
  if (value != kind->missing && (value < kind->low || (!is_wide && value > INT_MAX)))
    return mlffprof_document_fail(&r->d, m, "%s is %lld: impossible", f->name, (long long) value);
  if (is_wide)
    *(int64_t *) member = value;
  else
    *(int *) member = (int) value;
  return MLFFPROF_OK;
}

/* Unknown words, of later versions, become the first one. */
static mlffprof_status read_word(reading *r, const mlff_yaml *m, const mlffprof_field *f, int *value)
{
  const char *text = NULL;
  MLFF_TRY(mlffprof_get_text(&r->d, m, f->name, &text));
  *value = f->kind->first;
  for (int k = 0; text && k < f->kind->n_words; k++)
    if (f->kind->words[k] && !strcmp(text, f->kind->words[k])) *value = f->kind->first + k;
  return MLFFPROF_OK;
}

static mlffprof_status read_tags(reading *r, const mlff_yaml *m, const mlffprof_field *f, unsigned *tags)
{
  const mlff_yaml *list = NULL;
  int n = 0;
  *tags = 0;
  MLFF_TRY(mlffprof_get_list(&r->d, m, f->name, &list, &n));
  for (const mlff_yaml *item = list ? list->first : NULL; item; item = item->next) {
    if (!mlffprof_is_text(item)) return mlffprof_document_fail(&r->d, item, "a tag is not a text");
    for (int bit = 0; bit < f->kind->n_words; bit++) /* tags of later versions are left out */
      if (!strcmp(item->text, f->kind->words[bit])) *tags |= 1u << bit;
  }
  return MLFFPROF_OK;
}

static mlffprof_status read_bins(reading *r, const mlff_yaml *m, const mlffprof_field *f, int64_t *bins)
{
  const int64_t *counts = NULL;
  int n = 0;
  MLFF_TRY(mlffprof_get_integers(&r->d, m, f->name, &counts, &n));
  if (n != MLFFPROF_N_BINS)
    return mlffprof_document_fail(&r->d, m, "%d counts instead of %d", n, (int) MLFFPROF_N_BINS);
  memcpy(bins, counts, MLFFPROF_N_BINS * sizeof *bins);
  return MLFFPROF_OK;
}

static mlffprof_status read_value(reading *r, const mlff_yaml *m, const mlffprof_field *f, void *member, char *base)
{
  const mlffprof_kind *kind = f->kind;
  const mlff_yaml *block = NULL;
  if (kind->is_needed && !mlffprof_find(m, f->name)) return mlffprof_document_fail(&r->d, m, "%s is missing", f->name);
  switch (kind->shape) {
  case MLFFPROF_NUMBER: return read_number(r, m, f, member);
  case MLFFPROF_INTEGER: return read_integer(r, m, f, member);
  case MLFFPROF_BOOL: return mlffprof_get_bool(&r->d, m, f->name, (int) kind->missing, member);
  case MLFFPROF_TEXT: return mlffprof_get_text(&r->d, m, f->name, member);
  case MLFFPROF_WORD: return read_word(r, m, f, member);
  case MLFFPROF_TAGS: return read_tags(r, m, f, member);
  case MLFFPROF_BINS: return read_bins(r, m, f, member);
  default:
    MLFF_TRY(mlffprof_get_mapping(&r->d, m, f->name, &block));
    return block ? read_fields(r, block, kind, kind->is_inside ? base : member) : MLFFPROF_OK;
  }
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* A column of a series: as long as the series, or empty where it was not measured, and then all NaN. */
static mlffprof_status read_column(reading *r, const mlff_yaml *series, const char *name, int n_points,
                                   const double **values)
{
  int n = 0;
  MLFF_TRY(mlffprof_get_numbers(&r->d, series, name, values, &n));
  if (n == n_points) return MLFFPROF_OK;
  if (n) return mlffprof_document_fail(&r->d, series, "%s has %d entries, step has %d", name, n, n_points);
  double *none = mlff_arena_alloc(r->p->arena, (size_t) n_points, sizeof *none);
  if (!none) return no_memory(r);
  for (int k = 0; k < n_points; k++) none[k] = NAN;
  *values = none;
  return MLFFPROF_OK;
}

/* The parent of a component is one before it. */
static mlffprof_status check_parent(reading *r, const mlff_yaml *m, const mlffprof_component_result *list, int k)
{
  int i = 0;
  if (!list[k].parent) return MLFFPROF_OK;
  while (i < k && strcmp(list[i].name, list[k].parent)) i++;
  return i < k ? MLFFPROF_OK : mlffprof_document_fail(&r->d, m, "parent '%.60s' is not there", list[k].parent);
}

/* Item k of an array of blocks, or of the arrays at base that are the fields of blocks. */
static mlffprof_status read_item(reading *r, const mlff_yaml *m, const mlffprof_field *f, int k, char *items,
                                 char *base)
{
  const mlffprof_kind *block = f->kind;
  if (m->kind != MLFF_YAML_MAPPING)
    return mlffprof_document_fail(&r->d, m, "entry %d of %s is not a block ({...})", k, f->name);
  if (!block->is_inside) MLFF_TRY(read_fields(r, m, block, items + (size_t) k * block->size));
  for (const mlffprof_field *g = block->fields; block->is_inside && g < block->fields + block->n_fields; g++)
    MLFF_TRY(read_value(r, m, g, (char *) *(void **) (base + g->offset) + (size_t) k * g->kind->size, base));
  return f->offset == offsetof(mlffprof_report, components) && base == (char *) r->p
             ? check_parent(r, m, (mlffprof_component_result *) (void *) items, k)
             : MLFFPROF_OK;
}

static mlffprof_status read_list(reading *r, const mlff_yaml *m, const mlffprof_field *f, char *base)
{
  const mlffprof_kind *block = f->kind;
  const mlff_yaml *list = NULL;
  int n = 0;
  char *items = NULL;
  MLFF_TRY(mlffprof_get_list(&r->d, m, f->name, &list, &n));
  if (block->most && n > block->most) return mlffprof_document_fail(&r->d, list, "%d %s are too many", n, f->name);
  for (const mlffprof_field *g = block->fields; block->is_inside && g < block->fields + block->n_fields; g++) {
    items = mlff_arena_alloc(r->p->arena, (size_t) n, g->kind->size);
    if (!items) return no_memory(r);
    *(void **) (base + g->offset) = items;
  }
  if (!block->is_inside) items = mlff_arena_alloc(r->p->arena, (size_t) n, block->size);
  if (!items) return no_memory(r);
  const mlff_yaml *item = list ? list->first : NULL;
  for (int k = 0; item; k++, item = item->next) MLFF_TRY(read_item(r, item, f, k, items, base));
  if (!block->is_inside) *(void **) (base + f->offset) = items;
  *(int *) (base + f->length_offset) = n;
  return MLFFPROF_OK;
}

static mlffprof_status read_array(reading *r, const mlff_yaml *m, const mlffprof_field *f, char *base)
{
  int *n = (int *) (void *) (base + f->length_offset);
  void *member = base + f->offset;
  switch (f->kind->shape) {
  case MLFFPROF_CONTEXT: return read_context(r, m, f);
  case MLFFPROF_NUMBERS: return mlffprof_get_numbers(&r->d, m, f->name, member, n);
  case MLFFPROF_COLUMN: return read_column(r, m, f->name, *n, member);
  case MLFFPROF_STEPS: return mlffprof_get_integers(&r->d, m, f->name, member, n);
  default: return read_list(r, m, f, base);
  }
}

static mlffprof_status read_fields(reading *r, const mlff_yaml *m, const mlffprof_kind *block, char *base)
{
  for (const mlffprof_field *f = block->fields; f < block->fields + block->n_fields; f++)
    if (f->is_list)
      MLFF_TRY(read_array(r, m, f, base));
    else if (!f->is_derived)
      MLFF_TRY(read_value(r, m, f, base + f->offset, base));
  return MLFFPROF_OK;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Checks format and version. */
static mlffprof_status read_identity(reading *r)
{
  int64_t version = 0;
  int n_latencies = 0;
  const mlff_yaml *latencies = NULL;
  MLFF_TRY(mlffprof_get_integer(&r->d, r->d.root, "schema_version", 0, &version));
  MLFF_TRY(mlffprof_get_list(&r->d, r->d.root, "latencies_ms", &latencies, &n_latencies));
  if (version < 1 || !latencies)
    return mlffprof_document_fail(&r->d, NULL, "not a report of mlffprof: it has no schema_version and latencies_ms");
  if (version > MLFFPROF_SCHEMA_VERSION)
    return mlffprof_fail(r->d.error, MLFFPROF_E_UNSUPPORTED,
                         "%s: schema version %lld; this program reads versions up to %d: use a newer one", r->d.path,
                         (long long) version, (int) MLFFPROF_SCHEMA_VERSION);
  return MLFFPROF_OK;
}

static mlffprof_status read_report(reading *r)
{
  MLFF_TRY(read_identity(r));
  MLFF_TRY(read_fields(r, r->d.root, &mlffprof_report_kind, (char *) r->p));
  r->p->latency.n = r->p->n_steps;
  r->p->warmup.n = r->p->n_warmup;
  return mlffprof_report_consistent(r->p, r->d.path, r->d.error);
}

mlffprof_status mlffprof_report_parse(const char *path, const char *text, size_t size, mlffprof_report **report,
                                      mlffprof_error *error)
{
  reading r = {.p = mlffprof_report_empty()};
  *report = NULL;
  if (!r.p) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "%s: out of memory", path);
  mlffprof_status status = mlffprof_document_parse(path, text, size, &r.d, error);
  if (!status) {
    r.d.arena = r.p->arena;
    status = read_report(&r);
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
  MLFF_TRY(mlffprof_file_read(path, &text, &size, error));
  const mlffprof_status status = mlffprof_report_parse(path, text, size, report, error);
  free(text);
  return status;
}
