/* json.c: a report as JSON, by the table of its fields. */
#include "../../base/writer.h"
#include "report/fields.h"
#include "status.h"

#include <errno.h>
#include <string.h>

/* What is written, and where. */
typedef struct writing {
  mlff_writer w;
  const mlffprof_report *report;
  mlffprof_derived derived;
} writing;

static void write_field(writing *o, const mlffprof_field *f, const char *base);
static void write_block(writing *o, const char *name, const mlffprof_kind *block, const char *base);

/* First entry before k that lies in the block `prefix` of length n: the block of k was written there. */
static int written_before(const mlffprof_report *p, int k, const char *prefix, size_t n)
{
  for (int i = 0; i < k; i++)
    if (!strncmp(p->context[i].key, prefix, n)) return 1;
  return 0;
}

/* Entries whose key begins with prefix[n], a path that is empty or ends in /; blocks where their first entry stands. */
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

static void write_integer(mlff_writer *w, const mlffprof_field *f, const void *at)
{
  const int64_t value = f->kind->size == sizeof(int64_t) ? *(const int64_t *) at : *(const int *) at;
  if (f->kind->is_nullable && value < 0)
    mlff_write_null(w, f->name);
  else
    mlff_write_integer(w, f->name, value);
}

static void write_tags(mlff_writer *w, const mlffprof_field *f, unsigned tags)
{
  mlff_write_array(w, f->name);
  for (int bit = 0; bit < f->kind->n_words; bit++)
    if (tags >> bit & 1) mlff_write_text(w, NULL, f->kind->words[bit]);
  mlff_write_end(w);
}

/* A field that is no array; base is the struct that it is in. */
static void write_value(writing *o, const mlffprof_field *f, const void *at, const char *base)
{
  const mlffprof_kind *kind = f->kind;
  mlff_writer *w = &o->w;
  switch (kind->shape) {
  case MLFFPROF_NUMBER: mlff_write_number(w, f->name, *(const double *) at); break;
  case MLFFPROF_INTEGER: write_integer(w, f, at); break;
  case MLFFPROF_BOOL: mlff_write_bool(w, f->name, *(const int *) at); break;
  case MLFFPROF_TEXT: {
    const char *text = *(const char *const *) at;
    mlff_write_text(w, f->name, text ? text : kind->title);
    break;
  }
  case MLFFPROF_WORD: mlff_write_text(w, f->name, kind->words[*(const int *) at - kind->first]); break;
  case MLFFPROF_TAGS: write_tags(w, f, *(const unsigned *) at); break;
  case MLFFPROF_BINS: mlff_write_integers(w, f->name, at, MLFFPROF_N_BINS); break;
  default: write_block(o, f->name, kind, kind->is_inside ? base : at);
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
        write_value(o, g, (const char *) *(const void *const *) (base + g->at) + (size_t) k * g->kind->size, base);
      else
        write_field(o, g, items + (size_t) k * block->size);
    mlff_write_end(&o->w);
  }
  mlff_write_end(&o->w);
}

static void write_array(writing *o, const mlffprof_field *f, const void *items, int n, const char *base)
{
  const mlffprof_kind *kind = f->kind;
  const int measured = !f->of || mlffprof_block_is_shown(f->of, base + f->of_at);
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
    write_array(o, f, *(const void *const *) (from + f->at), *(const int *) (from + f->length_at), base);
  else
    write_value(o, f, from + f->at, base);
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
  if (fflush(out) || ferror(out))
    return mlffprof_fail(error, MLFFPROF_E_IO, "a report cannot be written: %s", strerror(errno));
  return MLFFPROF_OK;
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
