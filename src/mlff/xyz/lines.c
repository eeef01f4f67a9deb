/* lines.c: see xyz_impl.h. */
#include "../../base/utf8.h"
#include "xyz_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16, LONGEST_LINE = 1 << 20 };

mlff_status mlff_xyz_fail(const xyz_lines *l, mlff_error *error, const char *format, ...)
{
  char what[600];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return mlff_fail(error, MLFF_E_FORMAT, "%s:%lld: %s", l->path, (long long) l->number, what);
}

static mlff_status fail_memory(mlff_error *error)
{
  return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a line of an XYZ file");
}

mlff_status mlff_xyz_lines_open(xyz_lines *l, const char *path, const void *data, size_t size, mlff_error *error)
{
  *l = (xyz_lines){.bytes = data, .n_bytes = data ? size : 0};
  const size_t n = strlen(path) + 1;
  l->path = malloc(n);
  if (!data) l->chunk = malloc(CHUNK);
  if (!l->path || (!data && !l->chunk)) return fail_memory(error);
  memcpy(l->path, path, n);
  if (data) return MLFF_OK;
  l->file = fopen(path, "rb");
  if (!l->file) return mlff_fail(error, MLFF_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
  return MLFF_OK;
}

void mlff_xyz_lines_close(xyz_lines *l)
{
  if (l->file) fclose(l->file);
  free(l->path);
  free(l->chunk);
  free(l->line);
}

/* Reads the next chunk if needed; 0 at the end of the file. */
static int refill(xyz_lines *l)
{
  if (l->next < l->n_bytes) return 1;
  if (!l->file) return 0;
  l->chunk_offset += (int64_t) l->n_bytes;
  l->n_bytes = fread(l->chunk, 1, CHUNK, l->file);
  l->bytes = l->chunk;
  l->next = 0;
  return l->n_bytes > 0;
}

static mlff_status append(xyz_lines *l, const unsigned char *bytes, size_t n, mlff_error *error)
{
  if (l->length + n > LONGEST_LINE)
    return mlff_xyz_fail(l, error, "the line has more than %d bytes", (int) LONGEST_LINE);
  if (l->length + n >= l->capacity) {
    const size_t capacity = 2 * (l->length + n) + 128;
    char *line = realloc(l->line, capacity);
    if (!line) return fail_memory(error);
    l->line = line;
    l->capacity = capacity;
  }
  memcpy(l->line + l->length, bytes, n);
  l->length += n;
  l->line[l->length] = 0;
  return MLFF_OK;
}

static mlff_status check_text(const xyz_lines *l, mlff_error *error)
{
  const unsigned char *s = (const unsigned char *) l->line;
  for (size_t k = 0; k < l->length;) {
    unsigned code;
    const int n = mlff_utf8_decode(s + k, &code);
    if (!n) return mlff_xyz_fail(l, error, "byte %zu of the line (0x%02x) is not UTF-8 text", k + 1, (unsigned) s[k]);
    k += (size_t) n;
  }
  return MLFF_OK;
}

mlff_status mlff_xyz_lines_next(xyz_lines *l, int *found, mlff_error *error)
{
  int any = 0, ended = 0;
  l->number++;
  l->length = 0;
  MLFF_TRY(append(l, (const unsigned char *) "", 0, error));
  while (!ended && refill(l)) {
    const unsigned char *first = l->bytes + l->next, *last = l->bytes + l->n_bytes, *p = first;
    while (p < last && *p != '\n' && *p != '\r' && *p) p++;
    if (p < last && !*p) return mlff_xyz_fail(l, error, "the line contains a NUL byte; the file is not text");
    MLFF_TRY(append(l, first, (size_t) (p - first), error));
    ended = p < last;
    const int is_cr = ended && *p == '\r';
    l->next += (size_t) (p - first) + (size_t) ended;
    if (is_cr && refill(l) && l->bytes[l->next] == '\n') l->next++;
    any = 1;
  }
  if (l->file && ferror(l->file))
    return mlff_fail(error, MLFF_E_IO, "%s:%lld: read error: %s", l->path, (long long) l->number, strerror(errno));
  if (l->number == 1 && l->length >= 3 && !memcmp(l->line, "\xef\xbb\xbf", 3)) {
    memmove(l->line, l->line + 3, l->length - 2);
    l->length -= 3;
  }
  *found = any;
  if (!any) l->number--;
  return check_text(l, error);
}
