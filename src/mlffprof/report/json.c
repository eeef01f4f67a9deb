/* json.c: see json.h; writes a report by that table. */
#include "report/json.h"

#include "../../base/writer.h"
#include "recorder/recorder.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- words ------------------------------------------------------------------------------------------------------- */

static const char *const tags[] = {"neighbor_rebuild", "box_change",    "buffer_growth", "output",
                                   "other_rank",       "graph_capture", "preempted",     "untagged"};
static const char *const quantities[] = {"potential",   "kinetic",  "total", "conserved",
                                         "temperature", "pressure", "volume"};
static const char *const verdicts[] = {"unknown", "stable", "growing", "leak"};
static const char *const roles[] = {NULL, "energy", "forces", "stress"};
static const char *const statuses[] = {"not measured", "fail", "pass"};
static const char *const units[] = {"metal", "lj"};
static const char *const relations[] = {"<", ">"};
static const char *const drift_of[] = {"conserved", "total", NULL};
static const char *const memory_of[] = {"device", "host", NULL};

const char *mlffprof_tag_name(int bit)
{
  return bit >= 0 && bit < MLFFPROF_N_TAGS ? tags[bit] : NULL;
}

const char *mlffprof_quantity_name(mlffprof_quantity_id id)
{
  return (int) id >= 0 && id < MLFFPROF_N_QUANTITIES ? quantities[id] : NULL;
}

const char *mlffprof_verdict_name(mlffprof_verdict verdict)
{
  return verdicts[(int) verdict >= 0 && (int) verdict < 4 ? (int) verdict : 0];
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* Digits in long lists; all of energies, because a drift is a small difference of energies. */
enum { SHORT = 9, ALL_DIGITS = 0 };

#define KIND(name, shape_of, ...) static const mlffprof_kind name = {.shape = MLFFPROF_##shape_of, __VA_ARGS__}
#define INT64 .size = sizeof(int64_t)
#define INT .size = sizeof(int)
#define WORDS(list) .words = list, .n_words = (int) (sizeof(list) / sizeof *(list))
#define ITEMS(factor, n) .scale = factor, .digits = n

KIND(NUMBER, NUMBER, .is_nullable = 1);
KIND(METRIC, NUMBER, .is_nullable = 1, .is_metric = 1);
KIND(REAL, NUMBER, .size = sizeof(double));
KIND(BOUND, NUMBER, .is_bound = 1);
KIND(COUNT, INTEGER, INT64);
KIND(MAYBE_COUNT, INTEGER, INT64, .is_nullable = 1);
KIND(ATOMS, INTEGER, INT64, .missing = MLFFPROF_UNKNOWN, .is_nullable = 1);
KIND(STRIDE, INTEGER, INT64, .low = 1, .missing = 1);
KIND(STEP, INTEGER, INT64, .low = INT64_MIN);
KIND(MAYBE_STEP, INTEGER, INT64, .low = INT64_MIN, .missing = MLFFPROF_UNKNOWN, .is_nullable = 1);
KIND(VERSION, INTEGER, INT, .low = 1, .most = MLFFPROF_SCHEMA_VERSION, .missing = MLFFPROF_SCHEMA_VERSION);
KIND(RANKS, INTEGER, INT, .low = 1, .missing = 1);
KIND(RANK, INTEGER, INT);
KIND(MAYBE_RANK, INTEGER, INT, .missing = MLFFPROF_UNKNOWN, .is_nullable = 1);
KIND(YES, BOOL, .missing = 1);
KIND(NO, BOOL, .missing = 0);
KIND(TEXT, TEXT, .is_nullable = 1);
KIND(TITLE, TEXT, .title = "profile");
KIND(NAME, TEXT, .is_needed = 1);
KIND(RELATION, TEXT, .is_needed = 1, WORDS(relations));
KIND(TAG, TEXT, .is_needed = 1, WORDS(tags));
KIND(DRIFT_OF, TEXT, .is_nullable = 1, WORDS(drift_of));
KIND(MEMORY_OF, TEXT, .is_nullable = 1, WORDS(memory_of));
KIND(ROLE, WORD, WORDS(roles));
KIND(VERDICT, WORD, WORDS(verdicts));
KIND(STATUS, WORD, WORDS(statuses), .first = -1, .is_needed = 1);
KIND(UNITS, WORD, WORDS(units));
KIND(TAGS, TAGS, .words = tags, .n_words = MLFFPROF_N_TAGS);
KIND(NUMBERS, NUMBERS, ITEMS(1, SHORT));
KIND(SERIES_GB, NUMBERS, ITEMS(1 / 1e9, SHORT));
KIND(COLUMN, COLUMN, ITEMS(1, SHORT));
KIND(LATER_COLUMN, COLUMN, ITEMS(1, SHORT), .is_left_out = 1);
KIND(SAMPLES, COLUMN, ITEMS(1, ALL_DIGITS));
KIND(QUANTITY_SAMPLES, COLUMN, ITEMS(1, ALL_DIGITS), .is_left_out = 1);
KIND(STEPS, STEPS, INT64);
KIND(BINS, BINS, INT64);
KIND(CONTEXT, CONTEXT, .name = "context");

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

#define ROW(S, how, ...) ROW_##how(S, __VA_ARGS__)
#define ROW_IN(S, k, member, key, of_unit, text) \
  .name = #key, .unit = of_unit, .meaning = text, .kind = &k, .offset = offsetof(S, member)
#define ROW_AT(...) {ROW_IN(__VA_ARGS__)},
#define ROW_FIELD(...) {ROW_IN(__VA_ARGS__)},
#define ROW_LATER(...) {ROW_IN(__VA_ARGS__), .is_later = 1},
#define ROW_LIST(S, k, member, length, whose, ...) \
  {ROW_IN(S, k, member, __VA_ARGS__), .length_offset = offsetof(S, length), .is_list = 1, WHOSE_##whose},
#define ROW_DERIVED(S, ...) \
  {ROW_IN(mlffprof_derived, __VA_ARGS__), .length_offset = offsetof(mlffprof_derived, n_points), .is_derived = 1},
#define WHOSE_ALL .presence = NULL
#define WHOSE_OF(S, k, member) .presence = &k, .presence_offset = offsetof(S, member)

#define FIELDS(id) .fields = id##_fields, .n_fields = (int) (sizeof id##_fields / sizeof *id##_fields)
#define BLOCK(id, S, of_name, ...)                                              \
  static const mlffprof_field id##_fields[] = {MLFFPROF_##id##_FIELDS(ROW, S)}; \
  static const mlffprof_kind id = {.shape = MLFFPROF_BLOCK, .size = sizeof(S), .name = of_name, FIELDS(id), __VA_ARGS__}
#define KEY(shape, S, member) .key_shape = MLFFPROF_##shape, .key = offsetof(S, member)

BLOCK(COMPONENT, mlffprof_component_result, "component", .most = 2 * MLFFPROF_MAX_COMPONENTS);
BLOCK(SLOW_STEP, mlffprof_slow_step, "slow_step");
BLOCK(TAG_RESULT, mlffprof_tag_result, "tag_result");
BLOCK(SLOWEST_RANK, mlffprof_report, "slowest_rank", .is_inside = 1);
BLOCK(TARGET, mlffprof_target, "target");
BLOCK(HOTSPOT, mlffprof_hotspot, "hotspot");
BLOCK(BALANCE, mlffprof_balance, "balance", KEY(INTEGER, mlffprof_balance, n));
BLOCK(WORK, mlffprof_work, "work", KEY(INTEGER, mlffprof_work, n));
BLOCK(OUTSIDE, mlffprof_outside, "outside", KEY(INTEGER, mlffprof_outside, n));
BLOCK(MEMORY_KIND, mlffprof_memory_result, "memory_kind", KEY(NUMBER, mlffprof_memory_result, final_bytes));
BLOCK(MEMORY_SERIES, mlffprof_memory_report, "memory_series", .is_inside = 1, .is_needed = 1);
BLOCK(MEMORY, mlffprof_memory_report, "memory", KEY(BOOL, mlffprof_memory_report, n_points));
BLOCK(HISTOGRAM, mlffprof_quantity, "histogram", .is_inside = 1, KEY(NUMBER, mlffprof_quantity, bin_low));
BLOCK(QUANTITY, mlffprof_quantity, "quantity", KEY(INTEGER, mlffprof_quantity, n));
BLOCK(ENERGY_SERIES, mlffprof_energy_report, "energy_series", .is_inside = 1, .is_needed = 1);
BLOCK(ENERGY, mlffprof_energy_report, "energy", KEY(INTEGER, mlffprof_energy_report, n_samples));
BLOCK(ELEMENT, mlffprof_element_result, "element");
BLOCK(ACCURACY_SERIES, mlffprof_accuracy_report, "accuracy_series", .is_inside = 1, .is_needed = 1);
BLOCK(ACCURACY, mlffprof_accuracy_report, "accuracy", KEY(INTEGER, mlffprof_accuracy_report, n_samples));
BLOCK(WARMUP, mlffprof_report, "warmup", .is_inside = 1);
BLOCK(QUANTILES, mlffprof_report, "quantiles", .is_inside = 1);

static const mlffprof_field REPORT_fields[] = {MLFFPROF_REPORT_FIELDS(ROW, mlffprof_report)};
const mlffprof_kind mlffprof_report_kind = {.shape = MLFFPROF_BLOCK, .size = sizeof(mlffprof_report), FIELDS(REPORT)};

int mlffprof_block_is_shown(const mlffprof_kind *block, const void *base)
{
  const void *key = (const char *) base + block->key;
  switch (block->key_shape) {
  case MLFFPROF_NUMBER: return !isnan(*(const double *) key);
  case MLFFPROF_INTEGER: return *(const int64_t *) key != 0;
  case MLFFPROF_BOOL: return *(const int *) key != 0;
  default: return 1;
  }
}

void mlffprof_block_clear(const mlffprof_kind *block, void *base)
{
  for (const mlffprof_field *f = block->fields; f < block->fields + block->n_fields; f++) {
    void *member = (char *) base + f->offset;
    const mlffprof_kind *kind = f->kind;
    if (f->is_list || f->is_derived) continue;
    if (kind->shape == MLFFPROF_NUMBER)
      *(double *) member = kind->is_bound ? 0 : NAN;
    else if (kind->shape == MLFFPROF_INTEGER && kind->size == sizeof(int64_t))
      *(int64_t *) member = kind->missing;
    else if (kind->shape == MLFFPROF_INTEGER || kind->shape == MLFFPROF_BOOL)
      *(int *) member = (int) kind->missing;
    else if (kind->shape == MLFFPROF_WORD)
      *(int *) member = kind->first;
    else if (kind->shape == MLFFPROF_BLOCK)
      mlffprof_block_clear(kind, kind->is_inside ? base : member);
  }
}

/* ---- derived fields ---------------------------------------------------------------------------------------------- */

void mlffprof_derive(const mlffprof_report *p, mlffprof_derived *d)
{
  static const double bytes_per_gb = 1e9, ms_per_s = 1e3;
  const mlffprof_memory_report *m = &p->memory;
  const int device = !isnan(m->device.final_bytes), host = !isnan(m->host.final_bytes);
  const mlffprof_memory_result *headline = device ? &m->device : &m->host;
  d->memory_initial_gb = headline->initial_bytes / bytes_per_gb;
  d->memory_final_gb = headline->final_bytes / bytes_per_gb;
  d->memory_peak_gb = headline->peak_bytes / bytes_per_gb;
  d->memory_of = device ? "device" : host ? "host" : NULL;
  d->memory_per_step_gb = device ? m->device_bytes : m->host_bytes;
  d->n_points = d->memory_of ? m->n_points : 0;
  d->warmup_time_s = p->warmup.mean * (double) p->n_warmup / ms_per_s;
  d->system_size = p->n_atoms < 0 ? NULL : d->text;
  snprintf(d->text, sizeof d->text, "%lld atoms", (long long) p->n_atoms);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* What is written, and where. */
typedef struct writing {
  mlff_writer w;
  const mlffprof_report *report;
  mlffprof_derived derived;
} writing;

static void write_field(writing *o, const mlffprof_field *f, const char *base);
static void write_block(writing *o, const char *name, const mlffprof_kind *block, const char *base);

/* First entry before k in the block `prefix` of length n, where the block of k was written. */
static int written_before(const mlffprof_report *p, int k, const char *prefix, size_t n)
{
  for (int i = 0; i < k; i++)
    if (!strncmp(p->context[i].key, prefix, n)) return 1;
  return 0;
}

/* Writes entries whose key begins with prefix[n] (empty, or ends in /), and each block at its first entry. */
static void write_context(mlff_writer *w, const mlffprof_report *p, const char *prefix, size_t n)
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
      mlff_write_object(w, part);
      write_context(w, p, e->key, n + length + 1); // NOLINT: at most four levels
      mlff_write_end(w);
    } else if (e->text) {
      mlff_write_text(w, part, e->text);
    } else {
      mlff_write_number(w, part, e->number);
    }
  }
}

static void write_integer(mlff_writer *w, const mlffprof_field *f, const void *member)
{
  const int64_t value = f->kind->size == sizeof(int64_t) ? *(const int64_t *) member : *(const int *) member;
  if (f->kind->is_nullable && value < 0)
    mlff_write_null(w, f->name);
  else
    mlff_write_integer(w, f->name, value);
}

static void write_tags(mlff_writer *w, const mlffprof_field *f, unsigned bits)
{
  mlff_write_array(w, f->name);
  for (int bit = 0; bit < f->kind->n_words; bit++)
    if (bits >> bit & 1) mlff_write_text(w, NULL, f->kind->words[bit]);
  mlff_write_end(w);
}

/* Writes a field that is not an array; base: its struct. */
static void write_value(writing *o, const mlffprof_field *f, const void *member, const char *base)
{
  const mlffprof_kind *kind = f->kind;
  mlff_writer *w = &o->w;
  switch (kind->shape) {
  case MLFFPROF_NUMBER: mlff_write_number(w, f->name, *(const double *) member); break;
  case MLFFPROF_INTEGER: write_integer(w, f, member); break;
  case MLFFPROF_BOOL: mlff_write_bool(w, f->name, *(const int *) member); break;
  case MLFFPROF_TEXT: {
    const char *text = *(const char *const *) member;
    mlff_write_text(w, f->name, text ? text : kind->title);
    break;
  }
  case MLFFPROF_WORD: mlff_write_text(w, f->name, kind->words[*(const int *) member - kind->first]); break;
  case MLFFPROF_TAGS: write_tags(w, f, *(const unsigned *) member); break;
  case MLFFPROF_BINS: mlff_write_integers(w, f->name, member, MLFFPROF_N_BINS); break;
  default: write_block(o, f->name, kind, kind->is_inside ? base : member);
  }
}

/* An array of blocks, or arrays in the struct at base that are the fields of blocks. */
static void write_list(writing *o, const mlffprof_field *f, const char *items, int n, const char *base)
{
  const mlffprof_kind *block = f->kind;
  mlff_write_array(&o->w, f->name);
  for (int k = 0; k < n; k++) {
    mlff_write_object(&o->w, NULL);
    for (const mlffprof_field *g = block->fields; g < block->fields + block->n_fields; g++)
      if (block->is_inside)
        write_value(o, g, (const char *) *(const void *const *) (base + g->offset) + (size_t) k * g->kind->size, base);
      else
        write_field(o, g, items + (size_t) k * block->size);
    mlff_write_end(&o->w);
  }
  mlff_write_end(&o->w);
}

static void write_array(writing *o, const mlffprof_field *f, const void *items, int n, const char *base)
{
  const mlffprof_kind *kind = f->kind;
  const int measured = !f->presence || mlffprof_block_is_shown(f->presence, base + f->presence_offset);
  if (kind->shape == MLFFPROF_BLOCK) {
    write_list(o, f, items, n, base);
  } else if (kind->shape == MLFFPROF_CONTEXT) {
    mlff_write_object(&o->w, f->name);
    write_context(&o->w, o->report, "", 0);
    mlff_write_end(&o->w);
  } else if (kind->shape == MLFFPROF_STEPS) {
    mlff_write_integers(&o->w, f->name, items, n);
  } else if (measured || !kind->is_left_out) {
    mlff_write_numbers(&o->w, f->name, items, measured ? n : 0, kind->scale, kind->digits);
  }
}

/* A field of the struct at base. */
static void write_field(writing *o, const mlffprof_field *f, const char *base)
{
  const char *from = f->is_derived ? (const char *) &o->derived : base;
  if (f->is_list || f->kind->shape == MLFFPROF_NUMBERS)
    write_array(o, f, *(const void *const *) (from + f->offset), *(const int *) (from + f->length_offset), base);
  else
    write_value(o, f, from + f->offset, base);
}

static void write_block(writing *o, const char *name, const mlffprof_kind *block, const char *base)
{
  if (!mlffprof_block_is_shown(block, base)) {
    mlff_write_null(&o->w, name);
    return;
  }
  mlff_write_object(&o->w, name);
  for (const mlffprof_field *f = block->fields; f < block->fields + block->n_fields; f++) write_field(o, f, base);
  mlff_write_end(&o->w);
}

mlffprof_status mlffprof_report_json(const mlffprof_report *p, FILE *out, mlffprof_error *error)
{
  writing o = {.w = mlff_writer_on(out, 2), .report = p};
  mlffprof_derive(p, &o.derived);
  write_block(&o, NULL, &mlffprof_report_kind, (const char *) p);
  return mlffprof_flushed(out, "a report", error);
}

typedef struct saving {
  const mlffprof_report *report;
  mlffprof_error *error;
} saving;

static int write_json(FILE *out, const void *user)
{
  const saving *s = user;
  return mlffprof_report_json(s->report, out, s->error);
}

mlffprof_status mlffprof_report_write(const mlffprof_report *report, const char *path, mlffprof_error *error)
{
  const saving s = {report, error};
  mlff_fault fault = {.code = 0};
  const int status = mlff_atomic_write(path, write_json, &s, &fault);
  return fault.code ? mlffprof_fail_as(error, &fault) : (mlffprof_status) status;
}
