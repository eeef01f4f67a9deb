/* writer.c: see writer.h. */
#include "writer.h"

#include "../base/text.h"

enum { NUMBERS_PER_LINE = 16 };

mlffprof_writer mlffprof_writer_on(FILE *out, int breaks)
{
  return (mlffprof_writer){.out = out, .breaks = breaks};
}

static void begin_line(mlffprof_writer *w)
{
  fputc('\n', w->out);
  for (int k = 0; k < w->depth; k++) fputc(' ', w->out);
}

static void begin_value(mlffprof_writer *w, const char *key)
{
  if (w->depth > 0) {
    if (w->n_items[w->depth]++) fputs(w->depth > w->breaks ? ", " : ",", w->out);
    if (w->depth <= w->breaks) begin_line(w);
  }
  if (!key) return;
  mlff_json_text(w->out, key);
  fputs(": ", w->out);
}

static void open_level(mlffprof_writer *w, const char *key, char opening, char closing)
{
  begin_value(w, key);
  fputc(opening, w->out);
  if (w->depth + 1 < MLFFPROF_WRITER_DEPTH) w->depth++;
  w->n_items[w->depth] = 0;
  w->closing[w->depth] = closing;
}

void mlffprof_write_object(mlffprof_writer *w, const char *key)
{
  open_level(w, key, '{', '}');
}

void mlffprof_write_array(mlffprof_writer *w, const char *key)
{
  open_level(w, key, '[', ']');
}

void mlffprof_write_end(mlffprof_writer *w)
{
  const int breaks = w->depth <= w->breaks && w->n_items[w->depth] > 0;
  const char closing = w->closing[w->depth--];
  if (breaks) begin_line(w);
  fputc(closing, w->out);
  if (w->depth == 0) fputc('\n', w->out);
}

void mlffprof_write_null(mlffprof_writer *w, const char *key)
{
  begin_value(w, key);
  fputs("null", w->out);
}

void mlffprof_write_bool(mlffprof_writer *w, const char *key, int value)
{
  begin_value(w, key);
  fputs(value ? "true" : "false", w->out);
}

void mlffprof_write_integer(mlffprof_writer *w, const char *key, int64_t value)
{
  begin_value(w, key);
  fprintf(w->out, "%lld", (long long) value);
}

void mlffprof_write_number(mlffprof_writer *w, const char *key, double value)
{
  begin_value(w, key);
  mlff_json_number(w->out, value, 0);
}

void mlffprof_write_text(mlffprof_writer *w, const char *key, const char *text)
{
  begin_value(w, key);
  if (text)
    mlff_json_text(w->out, text);
  else
    fputs("null", w->out);
}

static void begin_item(mlffprof_writer *w, int64_t k)
{
  if (k) fputs(k % NUMBERS_PER_LINE ? ", " : ",", w->out);
  if (k && k % NUMBERS_PER_LINE == 0) begin_line(w);
}

void mlffprof_write_numbers(mlffprof_writer *w, const char *key, const double *values, int64_t n, double factor,
                            int digits)
{
  begin_value(w, key);
  fputc('[', w->out);
  for (int64_t k = 0; k < n; k++) {
    begin_item(w, k);
    mlff_json_number(w->out, values[k] * factor, digits);
  }
  fputc(']', w->out);
}

void mlffprof_write_integers(mlffprof_writer *w, const char *key, const int64_t *values, int64_t n)
{
  begin_value(w, key);
  fputc('[', w->out);
  for (int64_t k = 0; k < n; k++) {
    begin_item(w, k);
    fprintf(w->out, "%lld", (long long) values[k]);
  }
  fputc(']', w->out);
}
