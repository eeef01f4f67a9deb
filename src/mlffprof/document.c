/* document.c: see document.h. */
#include "document.h"

#include "../base/number.h"

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
    if (n < capacity || n > MLFFPROF_MAX_FILE) break;
    char *grown = realloc(data, capacity *= 2);
    if (!grown) free(data);
    data = grown;
  }
  const int failed = ferror(file);
  fclose(file);
  *text = data;
  *size = n;
  if (data && !failed && n <= MLFFPROF_MAX_FILE) return MLFFPROF_OK;
  free(data);
  *text = NULL;
  if (!data) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "%s: out of memory", path);
  if (failed) return mlffprof_fail(error, MLFFPROF_E_IO, "%s: cannot be read (is it a directory?)", path);
  return mlffprof_fail(error, MLFFPROF_E_FORMAT, "%s: larger than %d MB: not a report", path, MLFFPROF_MAX_FILE >> 20);
}

static int hex4(const char *s, const char *end, unsigned *value)
{
  *value = 0;
  if (end - s < 6 || s[0] != '\\' || s[1] != 'u') return 0;
  for (int k = 2; k < 6; k++) {
    const int c = s[k];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return 0;
    *value = *value << 4 | (unsigned) digit;
  }
  return 1;
}

/* JSON escapes characters beyond U+FFFF as two surrogates, which YAML does not know: \uD83D\uDE00 becomes \U0001f600
 * of two bytes less, a lone surrogate U+FFFD. Returns the new size. Backslashes mean escapes wherever JSON has them.
 * */
static size_t join_surrogates(char *text, size_t size)
{
  const char *end = text + size, *from = text;
  char *to = text;
  while (from < end) {
    unsigned high = 0, low = 0;
    if (*from != '\\') {
      *to++ = *from++;
    } else if (!hex4(from, end, &high) || high < 0xd800 || high > 0xdfff) {
      *to++ = *from++;
      if (from < end) *to++ = *from++;
    } else {
      char escape[16];
      const int pair = high < 0xdc00 && hex4(from + 6, end, &low) && low >= 0xdc00 && low <= 0xdfff;
      const unsigned code = pair ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
      const int n = snprintf(escape, sizeof escape, code > 0xffff ? "\\U%08x" : "\\u%04x", code);
      memcpy(to, escape, (size_t) n);
      to += n;
      from += pair ? 12 : 6;
    }
  }
  return (size_t) (to - text);
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

mlffprof_status mlffprof_document_fail(mlffprof_document *d, const mlffprof_node *node, const char *format, ...)
{
  char what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  if (!node) return mlffprof_fail(d->error, MLFFPROF_E_FORMAT, "%s: %s", d->path, what);
  return mlffprof_fail(d->error, MLFFPROF_E_FORMAT, "%s:%lu: %s", d->path, (unsigned long) node->start_mark.line + 1,
                       what);
}

static const char *scalar(const mlffprof_node *node)
{
  return (const char *) node->data.scalar.value;
}

/* Keys are texts, none twice, and not too many; texts have no zero bytes. */
static mlffprof_status check_node(mlffprof_document *d, const mlffprof_node *node)
{
  const int n = node->type == YAML_MAPPING_NODE ? mlffprof_n_pairs(node) : 0;
  if (node->type == YAML_SCALAR_NODE && strlen(scalar(node)) != node->data.scalar.length)
    return mlffprof_document_fail(d, node, "text with a zero byte");
  if (n > MLFFPROF_MAX_KEYS) return mlffprof_document_fail(d, node, "more than %d keys", (int) MLFFPROF_MAX_KEYS);
  for (int k = 0; k < n; k++) {
    mlffprof_node *value = NULL;
    const char *key = mlffprof_pair(d, node, k, &value);
    if (!key) return mlffprof_document_fail(d, node, "keys must be plain text");
    for (int i = 0; i < k; i++)
      if (!strcmp(key, mlffprof_pair(d, node, i, &value)))
        return mlffprof_document_fail(d, value, "key '%.60s' is there twice", key);
  }
  return MLFFPROF_OK;
}

static mlffprof_status check_document(mlffprof_document *d)
{
  const mlffprof_node *root = yaml_document_get_root_node(&d->yaml);
  if (!root) return mlffprof_document_fail(d, NULL, "the file is empty");
  if (root->type != YAML_MAPPING_NODE) return mlffprof_document_fail(d, root, "names and values ({...}) are expected");
  for (const mlffprof_node *node = d->yaml.nodes.start; node < d->yaml.nodes.top; node++)
    MLFFPROF_TRY(check_node(d, node));
  return MLFFPROF_OK;
}

static mlffprof_status parse_error(const mlffprof_document *d, const yaml_parser_t *p)
{
  if (p->error == YAML_MEMORY_ERROR || p->error == YAML_NO_ERROR)
    return mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
  return mlffprof_fail(d->error, MLFFPROF_E_FORMAT, "%s:%lu: not valid JSON or YAML: %s", d->path,
                       (unsigned long) p->problem_mark.line + 1, p->problem ? p->problem : "syntax error");
}

/* A parser of text; free it with yaml_parser_delete, also when memory is out. */
static mlffprof_status parser_on(const mlffprof_document *d, const char *text, size_t size, yaml_parser_t *parser)
{
  if (!yaml_parser_initialize(parser)) return mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
  yaml_parser_set_input_string(parser, (const unsigned char *) text, size);
  yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
  return MLFFPROF_OK;
}

/* Is it one document, and none that is nested deeper than a report? libyaml takes a time that grows with the square of
 * the depth, so this ends where it is too deep, before anything is built. */
static mlffprof_status check_events(mlffprof_document *d, yaml_parser_t *parser)
{
  int depth = 0, n_documents = 0, at_end = 0;
  while (!at_end) {
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event)) return parse_error(d, parser);
    const yaml_event_type_t type = event.type;
    const unsigned long line = (unsigned long) event.start_mark.line + 1;
    yaml_event_delete(&event);
    at_end = type == YAML_STREAM_END_EVENT;
    n_documents += type == YAML_DOCUMENT_START_EVENT;
    depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
    depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
    if (depth > MLFFPROF_MAX_DEPTH)
      return mlffprof_fail(d->error, MLFFPROF_E_FORMAT, "%s:%lu: nested more than %d deep", d->path, line,
                           (int) MLFFPROF_MAX_DEPTH);
    if (n_documents > 1) return mlffprof_document_fail(d, NULL, "more than one document");
  }
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_document_parse(const char *path, const char *text, size_t size, mlffprof_arena *arena,
                                        mlffprof_document *d, mlffprof_error *error)
{
  yaml_parser_t parser;
  *d = (mlffprof_document){.path = path, .error = error, .arena = arena};
  if (size > MLFFPROF_MAX_FILE) return mlffprof_document_fail(d, NULL, "too large");
  char *copy = mlffprof_arena_alloc(arena, size + 1, 1);
  if (!copy) return mlffprof_fail(error, MLFFPROF_E_NOMEM, "%s: out of memory", path);
  if (size) memcpy(copy, text, size);
  size = join_surrogates(copy, size);
  mlffprof_status status = parser_on(d, copy, size, &parser);
  if (!status) status = check_events(d, &parser);
  yaml_parser_delete(&parser);
  if (status) return status;
  status = parser_on(d, copy, size, &parser);
  if (!status && !yaml_parser_load(&parser, &d->yaml)) status = parse_error(d, &parser);
  yaml_parser_delete(&parser);
  if (status) return status;
  status = check_document(d);
  if (status) yaml_document_delete(&d->yaml);
  return status;
}

void mlffprof_document_free(mlffprof_document *d)
{
  yaml_document_delete(&d->yaml);
}

mlffprof_node *mlffprof_document_root(mlffprof_document *d)
{
  return yaml_document_get_root_node(&d->yaml);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

int mlffprof_n_pairs(const mlffprof_node *m)
{
  return (int) (m->data.mapping.pairs.top - m->data.mapping.pairs.start);
}

const char *mlffprof_pair(mlffprof_document *d, const mlffprof_node *m, int k, mlffprof_node **value)
{
  const yaml_node_pair_t *pair = m->data.mapping.pairs.start + k;
  const mlffprof_node *key = yaml_document_get_node(&d->yaml, pair->key);
  *value = yaml_document_get_node(&d->yaml, pair->value);
  return key && key->type == YAML_SCALAR_NODE ? scalar(key) : NULL;
}

mlffprof_node *mlffprof_item(mlffprof_document *d, const mlffprof_node *list, int k)
{
  return yaml_document_get_node(&d->yaml, list->data.sequence.items.start[k]);
}

int mlffprof_node_is_null(const mlffprof_node *node)
{
  if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return 0;
  return !strcmp(scalar(node), "null") || !strcmp(scalar(node), "~") || !*scalar(node);
}

int mlffprof_node_is_text(const mlffprof_node *node)
{
  return node->type == YAML_SCALAR_NODE && !mlffprof_node_is_null(node);
}

int mlffprof_node_number(const mlffprof_node *node, double *value)
{
  return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
         mlff_number_parse(scalar(node), value);
}

static int node_integer(const mlffprof_node *node, int64_t *value)
{
  return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
         mlff_integer_parse(scalar(node), value);
}

mlffprof_node *mlffprof_find(mlffprof_document *d, const mlffprof_node *m, const char *key)
{
  for (int k = 0; k < mlffprof_n_pairs(m); k++) {
    mlffprof_node *value = NULL;
    const char *name = mlffprof_pair(d, m, k, &value);
    if (name && !strcmp(name, key)) return value && !mlffprof_node_is_null(value) ? value : NULL;
  }
  return NULL;
}

/* ---- getters ----------------------------------------------------------------------------------------------------- */

mlffprof_status mlffprof_get_number(mlffprof_document *d, const mlffprof_node *m, const char *key, double *value)
{
  const mlffprof_node *node = mlffprof_find(d, m, key);
  *value = NAN;
  if (!node || mlffprof_node_number(node, value)) return MLFFPROF_OK;
  return mlffprof_document_fail(d, node, "%s is not a finite number", key);
}

mlffprof_status mlffprof_get_integer(mlffprof_document *d, const mlffprof_node *m, const char *key, int64_t otherwise,
                                     int64_t *value)
{
  const mlffprof_node *node = mlffprof_find(d, m, key);
  *value = otherwise;
  if (!node || node_integer(node, value)) return MLFFPROF_OK;
  return mlffprof_document_fail(d, node, "%s is not an integer", key);
}

mlffprof_status mlffprof_get_bool(mlffprof_document *d, const mlffprof_node *m, const char *key, int otherwise,
                                  int *value)
{
  const mlffprof_node *node = mlffprof_find(d, m, key);
  *value = otherwise;
  if (!node) return MLFFPROF_OK;
  if (node->type == YAML_SCALAR_NODE && (!strcmp(scalar(node), "true") || !strcmp(scalar(node), "false"))) {
    *value = scalar(node)[0] == 't';
    return MLFFPROF_OK;
  }
  return mlffprof_document_fail(d, node, "%s is neither true nor false", key);
}

mlffprof_status mlffprof_get_text(mlffprof_document *d, const mlffprof_node *m, const char *key, const char **value)
{
  const mlffprof_node *node = mlffprof_find(d, m, key);
  *value = NULL;
  if (!node) return MLFFPROF_OK;
  if (node->type != YAML_SCALAR_NODE) return mlffprof_document_fail(d, node, "%s is not a text", key);
  *value = mlffprof_arena_text(d->arena, scalar(node));
  return *value ? MLFFPROF_OK : mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
}

mlffprof_status mlffprof_get_mapping(mlffprof_document *d, const mlffprof_node *m, const char *key,
                                     mlffprof_node **value)
{
  *value = mlffprof_find(d, m, key);
  if (!*value || (*value)->type == YAML_MAPPING_NODE) return MLFFPROF_OK;
  return mlffprof_document_fail(d, *value, "%s is not a block ({...})", key);
}

mlffprof_status mlffprof_get_list(mlffprof_document *d, const mlffprof_node *m, const char *key, mlffprof_node **list,
                                  int *n)
{
  *list = mlffprof_find(d, m, key);
  *n = 0;
  if (!*list) return MLFFPROF_OK;
  if ((*list)->type != YAML_SEQUENCE_NODE) return mlffprof_document_fail(d, *list, "%s is not a list ([...])", key);
  *n = (int) ((*list)->data.sequence.items.top - (*list)->data.sequence.items.start);
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_get_numbers(mlffprof_document *d, const mlffprof_node *m, const char *key,
                                     const double **values, int *n)
{
  mlffprof_node *list = NULL;
  *values = NULL;
  MLFFPROF_TRY(mlffprof_get_list(d, m, key, &list, n));
  double *copy = mlffprof_arena_alloc(d->arena, (size_t) *n, sizeof *copy);
  if (!copy) return mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
  for (int k = 0; k < *n; k++) {
    const mlffprof_node *item = mlffprof_item(d, list, k);
    copy[k] = NAN;
    if (!mlffprof_node_is_null(item) && !mlffprof_node_number(item, &copy[k]))
      return mlffprof_document_fail(d, item, "entry %d of %s is not a finite number", k, key);
  }
  *values = copy;
  return MLFFPROF_OK;
}

mlffprof_status mlffprof_get_integers(mlffprof_document *d, const mlffprof_node *m, const char *key,
                                      const int64_t **values, int *n)
{
  mlffprof_node *list = NULL;
  *values = NULL;
  MLFFPROF_TRY(mlffprof_get_list(d, m, key, &list, n));
  int64_t *copy = mlffprof_arena_alloc(d->arena, (size_t) *n, sizeof *copy);
  if (!copy) return mlffprof_fail(d->error, MLFFPROF_E_NOMEM, "%s: out of memory", d->path);
  for (int k = 0; k < *n; k++) {
    const mlffprof_node *item = mlffprof_item(d, list, k);
    if (!node_integer(item, &copy[k]))
      return mlffprof_document_fail(d, item, "entry %d of %s is not an integer", k, key);
  }
  *values = copy;
  return MLFFPROF_OK;
}
