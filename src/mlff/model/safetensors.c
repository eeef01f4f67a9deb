/* safetensors.c: see safetensors.h. A scanner for the JSON of such a header. */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

typedef struct scanner {
  const char *path;
  const char *start, *next, *end; /* of the JSON */
  mlff_arena *arena;
  mlff_error *error;
} scanner;

static mlff_status fail_at(const scanner *s, const char *what)
{
  return mlff_fail(s->error, MLFF_E_FORMAT, "%s: header of the weights, byte %ld: %s; the file is damaged", s->path,
                   (long) (s->next - s->start) + 8, what);
}

static void skip_space(scanner *s)
{
  while (s->next < s->end && (*s->next == ' ' || *s->next == '\t' || *s->next == '\n' || *s->next == '\r')) s->next++;
}

static int accept(scanner *s, char c)
{
  skip_space(s);
  if (s->next >= s->end || *s->next != c) return 0;
  s->next++;
  return 1;
}

static mlff_status expect(scanner *s, char c)
{
  if (accept(s, c)) return MLFF_OK;
  char what[32];
  snprintf(what, sizeof what, "'%c' is missing", c);
  return fail_at(s, what);
}

/* Reads a string. Escapes and control characters are errors in names (text != NULL) and skipped in metadata (NULL). */
static mlff_status scan_text(scanner *s, const char **text)
{
  MLFF_TRY(expect(s, '"'));
  const char *first = s->next;
  while (s->next < s->end && *s->next != '"') {
    const unsigned char c = (unsigned char) *s->next;
    if (c < 0x20) return fail_at(s, "control character in a string");
    if (c == '\\') {
      if (text) return fail_at(s, "escape sequence in a name");
      if (++s->next >= s->end) break;
    }
    s->next++;
  }
  if (s->next >= s->end) return fail_at(s, "a string does not end");
  if (text) {
    *text = mlff_arena_text(s->arena, first, (size_t) (s->next - first));
    if (!*text) return mlff_fail(s->error, MLFF_E_NOMEM, "%s: out of memory", s->path);
  }
  s->next++;
  return MLFF_OK;
}

/* Reads an integer 0 .. 2^53. */
static mlff_status scan_count(scanner *s, int64_t *value)
{
  const int64_t most = (int64_t) 1 << 53;
  skip_space(s);
  if (s->next >= s->end || *s->next < '0' || *s->next > '9') return fail_at(s, "a whole number is missing");
  for (*value = 0; s->next < s->end && *s->next >= '0' && *s->next <= '9'; s->next++) {
    *value = *value * 10 + (*s->next - '0');
    if (*value > most) return fail_at(s, "a number is too large");
  }
  return MLFF_OK;
}

static mlff_status scan_counts(scanner *s, int max, int64_t *values, int *n)
{
  MLFF_TRY(expect(s, '['));
  *n = 0;
  if (accept(s, ']')) return MLFF_OK;
  do {
    if (*n == max) return fail_at(s, "too many numbers in a list");
    MLFF_TRY(scan_count(s, &values[(*n)++]));
  } while (accept(s, ','));
  return expect(s, ']');
}

static mlff_status scan_metadata(scanner *s)
{
  MLFF_TRY(expect(s, '{'));
  if (accept(s, '}')) return MLFF_OK;
  do {
    MLFF_TRY(scan_text(s, NULL));
    MLFF_TRY(expect(s, ':'));
    MLFF_TRY(scan_text(s, NULL));
  } while (accept(s, ','));
  return expect(s, '}');
}

static int size_of_dtype(const char *dtype)
{
  static const struct {
    const char *name;
    int size;
  } types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},  {"I32", 4},     {"I16", 2},    {"I8", 1},
               {"U64", 8}, {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (size_t k = 0; k < sizeof types / sizeof *types; k++)
    if (!strcmp(types[k].name, dtype)) return types[k].size;
  return 0;
}

/* Checks shape, type and offsets of a tensor against each other and the size of the data. */
static mlff_status check_tensor(const scanner *s, mlff_tensor *t, const int64_t offsets[2], size_t data_start,
                                size_t size)
{
  const int64_t element = size_of_dtype(t->dtype);
  const int64_t n_data = (int64_t) (size - data_start);
  if (!element)
    return mlff_fail(s->error, MLFF_E_FORMAT, "%s: tensor '%.80s' has unknown type '%.16s'", s->path, t->name,
                     t->dtype);
  t->n = 1;
  for (int k = 0; k < t->rank; k++) {
    if (t->shape[k] && t->n > ((int64_t) 1 << 53) / t->shape[k])
      return mlff_fail(s->error, MLFF_E_FORMAT, "%s: tensor '%.80s' is too large", s->path, t->name);
    t->n *= t->shape[k];
  }
  if (offsets[0] > offsets[1] || offsets[1] > n_data)
    return mlff_fail(s->error, MLFF_E_FORMAT,
                     "%s: tensor '%.80s' is at bytes %lld to %lld, but the data have %lld bytes; the file is truncated "
                     "or damaged, copy it again",
                     s->path, t->name, (long long) offsets[0], (long long) offsets[1], (long long) n_data);
  if (t->n > INT64_MAX / 8 || offsets[1] - offsets[0] != t->n * element)
    return mlff_fail(s->error, MLFF_E_FORMAT, "%s: tensor '%.80s' has %lld bytes, but its shape and type need %lld",
                     s->path, t->name, (long long) (offsets[1] - offsets[0]), (long long) (t->n * element));
  t->begin = data_start + (size_t) offsets[0];
  t->end = data_start + (size_t) offsets[1];
  return MLFF_OK;
}

/* {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, in any order, each once. */
static mlff_status scan_tensor(scanner *s, mlff_tensor *t, size_t data_start, size_t size)
{
  int64_t offsets[2] = {0, 0};
  int seen = 0, n = 0;
  MLFF_TRY(expect(s, '{'));
  do {
    const char *key = NULL;
    MLFF_TRY(scan_text(s, &key));
    MLFF_TRY(expect(s, ':'));
    const int which = !strcmp(key, "dtype") ? 1 : !strcmp(key, "shape") ? 2 : !strcmp(key, "data_offsets") ? 4 : 0;
    if (!which || seen & which) return fail_at(s, "an unknown or repeated key of a tensor");
    seen |= which;
    if (which == 1) MLFF_TRY(scan_text(s, &t->dtype));
    if (which == 2) MLFF_TRY(scan_counts(s, MLFF_TENSOR_MAX_RANK, t->shape, &t->rank));
    if (which == 4) {
      MLFF_TRY(scan_counts(s, 2, offsets, &n));
      if (n != 2) return fail_at(s, "data_offsets must be two numbers");
    }
  } while (accept(s, ','));
  MLFF_TRY(expect(s, '}'));
  if (seen != 7) return fail_at(s, "a tensor lacks dtype, shape or data_offsets");
  return check_tensor(s, t, offsets, data_start, size);
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const mlff_tensor *) a)->name, ((const mlff_tensor *) b)->name);
}

static int by_begin(const void *a, const void *b)
{
  const mlff_tensor *s = a, *t = b;
  if (s->begin != t->begin) return s->begin < t->begin ? -1 : 1;
  return s->end < t->end ? -1 : s->end > t->end;
}

/* Checks for duplicates, overlaps and gaps. Sorts the tensors by name. */
static mlff_status check_layout(const scanner *s, mlff_tensor *tensors, int n, size_t data_start, size_t size)
{
  size_t end = data_start;
  if (n) qsort(tensors, (size_t) n, sizeof *tensors, by_begin);
  for (int k = 0; k < n; k++) {
    if (tensors[k].begin != end)
      return mlff_fail(s->error, MLFF_E_FORMAT, "%s: tensor '%.80s' %s the one before it: the file is damaged", s->path,
                       tensors[k].name, tensors[k].begin < end ? "overlaps" : "leaves a gap after");
    end = tensors[k].end;
  }
  if (end != size)
    return mlff_fail(s->error, MLFF_E_FORMAT, "%s: %zu bytes after the last tensor: the file is damaged", s->path,
                     size - end);
  if (n) qsort(tensors, (size_t) n, sizeof *tensors, by_name);
  for (int k = 1; k < n; k++)
    if (!strcmp(tensors[k - 1].name, tensors[k].name))
      return mlff_fail(s->error, MLFF_E_FORMAT, "%s: tensor '%.80s' is there twice", s->path, tensors[k].name);
  return MLFF_OK;
}

static mlff_status scan_header(scanner *s, size_t data_start, size_t size, mlff_tensor **tensors, int *n_tensors)
{
  enum { SHORTEST = 40 }; /* bytes of the shortest description of a tensor */
  const size_t most = (size_t) (s->end - s->start) / SHORTEST;
  int n = 0, has_metadata = 0;
  mlff_tensor *list = mlff_arena_alloc(s->arena, most + 1, sizeof *list);
  if (!list) return mlff_fail(s->error, MLFF_E_NOMEM, "%s: out of memory", s->path);
  MLFF_TRY(expect(s, '{'));
  if (!accept(s, '}')) {
    do {
      const char *name = NULL;
      MLFF_TRY(scan_text(s, &name));
      MLFF_TRY(expect(s, ':'));
      if (!strcmp(name, "__metadata__")) {
        if (has_metadata++) return fail_at(s, "__metadata__ is there twice");
        MLFF_TRY(scan_metadata(s));
      } else {
        if ((size_t) n >= most) return fail_at(s, "a tensor is not described");
        list[n].name = name;
        MLFF_TRY(scan_tensor(s, &list[n++], data_start, size));
      }
    } while (accept(s, ','));
    MLFF_TRY(expect(s, '}'));
  }
  skip_space(s);
  if (s->next != s->end) return fail_at(s, "text after the end");
  MLFF_TRY(check_layout(s, list, n, data_start, size));
  *tensors = list;
  *n_tensors = n;
  return MLFF_OK;
}

mlff_status mlff_safetensors_parse(const char *path, const void *data, size_t size, mlff_arena *arena,
                                   mlff_tensor **tensors, int *n_tensors, mlff_error *error)
{
  const unsigned char *bytes = data;
  uint64_t n_header = 0;
  if (size < 8)
    return mlff_fail(error, MLFF_E_FORMAT, "%s: %zu bytes are not a safetensors file; copy it again", path, size);
  for (int k = 7; k >= 0; k--) n_header = n_header << 8 | bytes[k];
  if (n_header > MLFF_TENSOR_MAX_HEADER || n_header > size - 8)
    return mlff_fail(error, MLFF_E_FORMAT,
                     "%s: header of %llu bytes in a file of %zu (at most %d are allowed): the file is truncated, "
                     "damaged or not safetensors",
                     path, (unsigned long long) n_header, size, MLFF_TENSOR_MAX_HEADER);
  const char *start = (const char *) data + 8;
  scanner s = {.path = path, .start = start, .next = start, .end = start + n_header, .arena = arena, .error = error};
  return scan_header(&s, 8 + (size_t) n_header, size, tensors, n_tensors);
}
