/* document.c: see document.h. */
#include "document.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */

mlffprof_status mlffprof_file_read(const char *path, char **text, size_t *size, mlffprof_error *error)
{
  FILE *file = fopen(path, "rb");
  if (!file) return mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
  size_t n = 0, capacity = 1 << 16;
  char *data = malloc(capacity);
  while (data) {
    n += fread(data + n, 1, capacity - n, file);
    if (n < capacity || n > MLFF_YAML_MAX_BYTES) break;
    char *grown = realloc(data, capacity *= 2);
    if (!grown) free(data);
    data = grown;
  }
  const int failed = ferror(file);
  fclose(file);
  *text = data;
  *size = n;
  if (data && !failed && n <= MLFF_YAML_MAX_BYTES) return MLFFPROF_OK;
  free(data);
  *text = NULL;
  if (!data) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "%s: out of memory", path);
  if (failed) return mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be read (is it a directory?)", path);
  return mlffprof_fail(error, MLFFPROF_E_FORMAT, "%s: larger than %d MB: not a report", path,
                       MLFF_YAML_MAX_BYTES >> 20);
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

mlffprof_status mlffprof_document_fail(mlffprof_document *d, const mlff_yaml *node, const char *format, ...)
{
  char what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  if (!node) return mlffprof_fail(d->error, MLFFPROF_E_FORMAT, "%s: %s", d->path, what);
  return mlffprof_fail(d->error, MLFFPROF_E_FORMAT, "%s:%d: %s", d->path, node->line, what);
}

mlffprof_status mlffprof_document_parse(const char *path, const char *text, size_t size, mlffprof_document *d,
                                        mlffprof_error *error)
{
  mlff_fault fault;
  mlff_yaml *root = NULL;
  *d = (mlffprof_document){.path = path, .error = error, .arena = &d->tree};
  const int failed = mlff_yaml_parse(path, text, size, &d->tree, &root, NULL, &fault);
  d->root = root;
  mlffprof_status status = failed ? mlffprof_fail_as(error, &fault) : MLFFPROF_OK;
  if (!status && root->kind != MLFF_YAML_MAPPING)
    status = mlffprof_document_fail(d, root, "names and values ({...}) are expected");
  if (status) mlffprof_document_free(d);
  return status;
}

mlffprof_status mlffprof_document_read(const char *path, mlffprof_document *d, mlffprof_error *error)
{
  char *text = NULL;
  size_t size = 0;
  MLFF_TRY(mlffprof_file_read(path, &text, &size, error));
  const mlffprof_status status = mlffprof_document_parse(path, text, size, d, error);
  free(text);
  return status;
}

void mlffprof_document_free(mlffprof_document *d)
{
  mlff_arena_free(&d->tree);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static int is_null(const mlff_yaml *node)
{
  return node->kind == MLFF_YAML_SCALAR && !node->quoted &&
         (!strcmp(node->text, "null") || !strcmp(node->text, "~") || !*node->text);
}

int mlffprof_is_text(const mlff_yaml *node)
{
  return node->kind == MLFF_YAML_SCALAR && !is_null(node);
}

const mlff_yaml *mlffprof_find(const mlff_yaml *m, const char *key)
{
  const mlff_yaml *node = mlff_yaml_find(m, key);
  return node && !is_null(node) ? node : NULL;
}

/* ---- getters ----------------------------------------------------------------------------------------------------- */

mlffprof_status mlffprof_get_number(mlffprof_document *d, const mlff_yaml *m, const char *key, double *value)
{
  const mlff_yaml *node = mlffprof_find(m, key);
  *value = NAN;
  if (!node || mlff_yaml_number(node, value)) return MLFFPROF_OK;
  return mlffprof_document_fail(d, node, "%s is not a finite number", key);
}

mlffprof_status mlffprof_get_integer(mlffprof_document *d, const mlff_yaml *m, const char *key, int64_t otherwise,
                                     int64_t *value)
{
  const mlff_yaml *node = mlffprof_find(m, key);
  *value = otherwise;
  if (!node || mlff_yaml_integer(node, value)) return MLFFPROF_OK;
  return mlffprof_document_fail(d, node, "%s is not an integer", key);
}

mlffprof_status mlffprof_get_bool(mlffprof_document *d, const mlff_yaml *m, const char *key, int otherwise, int *value)
{
  const mlff_yaml *node = mlffprof_find(m, key);
  *value = otherwise;
  if (!node) return MLFFPROF_OK;
  if (node->kind == MLFF_YAML_SCALAR && (!strcmp(node->text, "true") || !strcmp(node->text, "false"))) {
    *value = node->text[0] == 't';
    return MLFFPROF_OK;
  }
  return mlffprof_document_fail(d, node, "%s is neither true nor false", key);
}

mlffprof_status mlffprof_get_text(mlffprof_document *d, const mlff_yaml *m, const char *key, const char **value)
{
  const mlff_yaml *node = mlffprof_find(m, key);
  *value = NULL;
  if (!node) return MLFFPROF_OK;
  if (node->kind != MLFF_YAML_SCALAR) return mlffprof_document_fail(d, node, "%s is not a text", key);
  *value = mlff_arena_string(d->arena, node->text);
  return *value ? MLFFPROF_OK : mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
}

mlffprof_status mlffprof_get_mapping(mlffprof_document *d, const mlff_yaml *m, const char *key, const mlff_yaml **value)
{
  *value = mlffprof_find(m, key);
  if (!*value || (*value)->kind == MLFF_YAML_MAPPING) return MLFFPROF_OK;
  return mlffprof_document_fail(d, *value, "%s is not a block ({...})", key);
}

mlffprof_status mlffprof_get_list(mlffprof_document *d, const mlff_yaml *m, const char *key, const mlff_yaml **list,
                                  int *n)
{
  *list = mlffprof_find(m, key);
  *n = 0;
  if (!*list) return MLFFPROF_OK;
  if ((*list)->kind != MLFF_YAML_SEQUENCE) return mlffprof_document_fail(d, *list, "%s is not a list ([...])", key);
  *n = (*list)->n_children;
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_get_numbers(mlffprof_document *d, const mlff_yaml *m, const char *key, const double **values,
                                     int *n)
{
  const mlff_yaml *list = NULL;
  *values = NULL;
  MLFF_TRY(mlffprof_get_list(d, m, key, &list, n));
  double *copy = mlff_arena_alloc(d->arena, (size_t) *n, sizeof *copy);
  if (!copy) return mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
  const mlff_yaml *item = list ? list->first : NULL;
  for (int k = 0; item; k++, item = item->next) {
    copy[k] = NAN;
    if (!is_null(item) && !mlff_yaml_number(item, &copy[k]))
      return mlffprof_document_fail(d, item, "entry %d of %s is not a finite number", k, key);
  }
  *values = copy;
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_get_integers(mlffprof_document *d, const mlff_yaml *m, const char *key, const int64_t **values,
                                      int *n)
{
  const mlff_yaml *list = NULL;
  *values = NULL;
  MLFF_TRY(mlffprof_get_list(d, m, key, &list, n));
  int64_t *copy = mlff_arena_alloc(d->arena, (size_t) *n, sizeof *copy);
  if (!copy) return mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
  const mlff_yaml *item = list ? list->first : NULL;
  for (int k = 0; item; k++, item = item->next)
    if (!mlff_yaml_integer(item, &copy[k]))
      return mlffprof_document_fail(d, item, "entry %d of %s is not an integer", k, key);
  *values = copy;
  return MLFFPROF_OK;
}
