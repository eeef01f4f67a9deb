/* writer.c: see writer.h. */
#include "writer.h"

#include "number.h"

#include <math.h>

enum { NUMBERS_PER_LINE = 16 };

mlffprof_writer mlffprof_writer_on(FILE *out, int breaks)
{
  return (mlffprof_writer){.out = out, .breaks = breaks};
}

int mlffprof_utf8_decode(const unsigned char *s, unsigned *code)
{
  static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const int n = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;
  if (n <= 1) {
    *code = *s;
    return n;
  }
  *code = *s & (0xffu >> (n + 1));
  for (int k = 1; k < n; k++) {
    if ((s[k] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (s[k] & 0x3fu);
  }
  return *code < smallest[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

/* Controls, and what YAML readers take for line breaks or refuse (they read JSON too). */
static int needs_escape(unsigned code)
{
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
         (code & 0xfffe) == 0xfffe;
}

static void write_escape(FILE *out, unsigned code)
{
  if (code == '\n')
    fputs("\\n", out);
  else if (code == '\t')
    fputs("\\t", out);
  else if (code < 0x10000)
    fprintf(out, "\\u%04x", code);
  else
    fprintf(out, "\\u%04x\\u%04x", 0xd7c0u + (code >> 10), 0xdc00u + (code & 0x3ff));
}

void mlffprof_write_quoted(FILE *out, const char *text)
{
  fputc('"', out);
  for (const unsigned char *s = (const unsigned char *) text; *s;) {
    unsigned code = 0;
    const int n = mlffprof_utf8_decode(s, &code);
    if (n == 0)
      fputs("\xef\xbf\xbd", out);
    else if (code == '"' || code == '\\')
      fprintf(out, "\\%c", (int) code);
    else if (needs_escape(code))
      write_escape(out, code);
    else
      fwrite(s, 1, (size_t) n, out);
    s += n ? n : 1;
  }
  fputc('"', out);
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
  mlffprof_write_quoted(w->out, key);
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

static void write_digits(FILE *out, double value, int digits)
{
  char text[MLFFPROF_NUMBER_SIZE];
  fputs(isfinite(value) ? mlffprof_number_format(value, digits, text) : "null", out);
}

void mlffprof_write_number(mlffprof_writer *w, const char *key, double value)
{
  begin_value(w, key);
  write_digits(w->out, value, 0);
}

void mlffprof_write_text(mlffprof_writer *w, const char *key, const char *text)
{
  begin_value(w, key);
  if (text)
    mlffprof_write_quoted(w->out, text);
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
    write_digits(w->out, values[k] * factor, digits);
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
