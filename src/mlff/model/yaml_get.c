/* yaml_get.c: typed getters of a model file. Each marks its key as used; errors have file, line and key. */
#include "modelfile_impl.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Writes the path of a node, "a.b.c". */
static void path_of(const mlff_yaml *node, char *text, size_t size)
{
  const mlff_yaml *chain[MLFF_YAML_MAX_DEPTH + 1];
  size_t length = 0;
  int n = 0;
  for (; node && node->parent && n <= MLFF_YAML_MAX_DEPTH; node = node->parent) chain[n++] = node;
  text[0] = 0;
  while (n-- && length + 1 < size) {
    int index = 0;
    if (!chain[n]->key)
      for (const mlff_yaml *c = chain[n]->parent->first; c != chain[n]; c = c->next) index++;
    const int wrote = chain[n]->key
                          ? snprintf(text + length, size - length, "%s%.60s", length ? "." : "", chain[n]->key)
                          : snprintf(text + length, size - length, "[%d]", index);
    length += wrote > 0 ? (size_t) wrote : 0;
  }
}

mlff_status mlff_yaml_fail(const mlff_modelfile *file, const mlff_yaml *node, mlff_error *error, const char *format,
                           ...)
{
  char where[256], what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  path_of(node, where, sizeof where);
  return mlff_fail(error, MLFF_E_FORMAT, "%s:%d: %s%s%s", file->path, node ? node->line : 1, where, *where ? ": " : "",
                   what);
}

static void mark(const mlff_modelfile *file, const mlff_yaml *node)
{
  file->used[node->id] = 1;
}

int mlff_yaml_has(const mlff_yaml *parent, const char *key)
{
  return mlff_yaml_find(parent, key) != NULL;
}

static mlff_status get(const mlff_modelfile *file, const mlff_yaml *parent, const char *key, mlff_yaml_kind kind,
                       const mlff_yaml **child, mlff_error *error)
{
  const mlff_yaml *node = mlff_yaml_find(parent, key);
  if (!node) return mlff_yaml_fail(file, parent, error, "key '%s' is missing", key);
  if (node->kind != kind)
    return mlff_yaml_fail(file, node, error, "must be a %s, not a %s", mlff_yaml_kind_name(kind),
                          mlff_yaml_kind_name(node->kind));
  mark(file, node);
  *child = node;
  return MLFF_OK;
}

mlff_status mlff_yaml_map(const mlff_modelfile *file, const mlff_yaml *parent, const char *key, const mlff_yaml **child,
                          mlff_error *error)
{
  return get(file, parent, key, MLFF_YAML_MAPPING, child, error);
}

mlff_status mlff_yaml_sequence(const mlff_modelfile *file, const mlff_yaml *parent, const char *key,
                               const mlff_yaml **child, mlff_error *error)
{
  return get(file, parent, key, MLFF_YAML_SEQUENCE, child, error);
}

mlff_status mlff_yaml_optional(const mlff_modelfile *file, const mlff_yaml *parent, const char *key,
                               const mlff_yaml **child_or_null)
{
  *child_or_null = mlff_yaml_find(parent, key);
  if (*child_or_null) mark(file, *child_or_null);
  return MLFF_OK;
}

static mlff_status to_double(const mlff_modelfile *file, const mlff_yaml *node, double *value, mlff_error *error)
{
  if (node->kind != MLFF_YAML_SCALAR)
    return mlff_yaml_fail(file, node, error, "must be a number, not a %s", mlff_yaml_kind_name(node->kind));
  if (!mlff_yaml_number(node, value))
    return mlff_yaml_fail(file, node, error, "'%.40s' is not a finite number", node->text);
  return MLFF_OK;
}

mlff_status mlff_yaml_int(const mlff_modelfile *file, const mlff_yaml *parent, const char *key, int low, int high,
                          int *value, mlff_error *error)
{
  const mlff_yaml *node = NULL;
  int64_t v = 0;
  MLFF_TRY(get(file, parent, key, MLFF_YAML_SCALAR, &node, error));
  if (!mlff_yaml_integer(node, &v))
    return mlff_yaml_fail(file, node, error, "'%.40s' is not a whole number", node->text);
  if (v < low || v > high)
    return mlff_yaml_fail(file, node, error, "is %lld, expected %d to %d", (long long) v, low, high);
  *value = (int) v;
  return MLFF_OK;
}

mlff_status mlff_yaml_double(const mlff_modelfile *file, const mlff_yaml *parent, const char *key, double low,
                             double high, double *value, mlff_error *error)
{
  const mlff_yaml *node = NULL;
  double v = 0;
  MLFF_TRY(get(file, parent, key, MLFF_YAML_SCALAR, &node, error));
  MLFF_TRY(to_double(file, node, &v, error));
  if (!(v >= low && v <= high)) return mlff_yaml_fail(file, node, error, "is %g, expected %g to %g", v, low, high);
  *value = v;
  return MLFF_OK;
}

/* Control characters of terminals, except newline and tab. */
static int has_control(const char *text)
{
  for (const unsigned char *c = (const unsigned char *) text; *c; c++)
    if ((*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f || (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0))
      return 1;
  return 0;
}

mlff_status mlff_yaml_string(const mlff_modelfile *file, const mlff_yaml *parent, const char *key, const char **value,
                             mlff_error *error)
{
  const mlff_yaml *node = NULL;
  MLFF_TRY(get(file, parent, key, MLFF_YAML_SCALAR, &node, error));
  if (!*node->text) return mlff_yaml_fail(file, node, error, "is empty");
  if (has_control(node->text)) return mlff_yaml_fail(file, node, error, "has a control character");
  *value = node->text;
  return MLFF_OK;
}

mlff_status mlff_yaml_choice(const mlff_modelfile *file, const mlff_yaml *parent, const char *key,
                             const char *const *choices, int *value, mlff_error *error)
{
  const mlff_yaml *node = NULL;
  char list[256] = "";
  MLFF_TRY(get(file, parent, key, MLFF_YAML_SCALAR, &node, error));
  for (int k = 0; choices[k]; k++) {
    if (!strcmp(choices[k], node->text)) {
      *value = k;
      return MLFF_OK;
    }
    const size_t length = strlen(list);
    snprintf(list + length, sizeof list - length, "%s%s", k ? ", " : "", choices[k]);
  }
  return mlff_yaml_fail(file, node, error, "is '%.40s', expected one of: %s", node->text, list);
}

mlff_status mlff_yaml_doubles(const mlff_modelfile *file, const mlff_yaml *parent, const char *key, int n_expected,
                              const double **values, int *n, mlff_error *error)
{
  const mlff_yaml *node = NULL;
  int count = 0;
  MLFF_TRY(get(file, parent, key, MLFF_YAML_SEQUENCE, &node, error));
  if (n_expected >= 0 && node->n_children != n_expected)
    return mlff_yaml_fail(file, node, error, "has %d numbers, expected %d", node->n_children, n_expected);
  double *v = mlff_arena_alloc(file->arena, (size_t) node->n_children, sizeof *v);
  if (!v) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", file->path);
  for (const mlff_yaml *c = node->first; c; c = c->next) MLFF_TRY(to_double(file, c, &v[count++], error));
  *values = v;
  if (n) *n = node->n_children;
  return MLFF_OK;
}

mlff_status mlff_yaml_strings(const mlff_modelfile *file, const mlff_yaml *parent, const char *key,
                              const char *const **values, int *n, mlff_error *error)
{
  const mlff_yaml *node = NULL;
  int count = 0;
  MLFF_TRY(get(file, parent, key, MLFF_YAML_SEQUENCE, &node, error));
  const char **v = mlff_arena_alloc(file->arena, (size_t) node->n_children, sizeof *v);
  if (!v) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", file->path);
  for (const mlff_yaml *c = node->first; c; c = c->next) {
    if (c->kind != MLFF_YAML_SCALAR || !*c->text)
      return mlff_yaml_fail(file, c, error, "must be text, not %s",
                            c->kind == MLFF_YAML_SCALAR ? "empty" : mlff_yaml_kind_name(c->kind));
    v[count++] = c->text;
  }
  *values = v;
  if (n) *n = node->n_children;
  return MLFF_OK;
}

mlff_status mlff_yaml_table(const mlff_modelfile *file, const mlff_yaml *parent, const char *key, int n_columns,
                            int *n_rows, const double **values, mlff_error *error)
{
  const mlff_yaml *node = NULL;
  MLFF_TRY(get(file, parent, key, MLFF_YAML_SEQUENCE, &node, error));
  if (*n_rows >= 0 && node->n_children != *n_rows)
    return mlff_yaml_fail(file, node, error, "has %d rows, expected %d", node->n_children, *n_rows);
  double *v = mlff_arena_alloc(file->arena, (size_t) node->n_children, (size_t) n_columns * sizeof *v);
  if (!v) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", file->path);
  *values = v;
  *n_rows = node->n_children;
  for (const mlff_yaml *row = node->first; row; row = row->next) {
    if (row->kind != MLFF_YAML_SEQUENCE || row->n_children != n_columns)
      return mlff_yaml_fail(file, row, error, "must be a sequence of %d numbers", n_columns);
    for (const mlff_yaml *c = row->first; c; c = c->next) MLFF_TRY(to_double(file, c, v++, error));
  }
  return MLFF_OK;
}
