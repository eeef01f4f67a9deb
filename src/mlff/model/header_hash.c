/* header_hash.c: SHA-256 of the YAML values that affect results, independent of the layout.
 *
 * The hashed text is JSON without blanks: keys sorted by their bytes, numbers with 17 significant digits, everything
 * else as text. The Python twin is python/mlff_tools/model/header.py; docs/model_file.md describes the format.
 */
#include "modelfile_impl.h"

#include "../../base/number.h"
#include "sha256.h"

#include <stdlib.h>
#include <string.h>

typedef struct canonical_text {
  char *data;
  size_t size, capacity;
  int failed; /* out of memory */
} canonical_text;

static void put(canonical_text *t, const char *bytes, size_t n)
{
  if (t->failed) return;
  if (n > t->capacity - t->size) {
    const size_t capacity = 2 * (t->size + n) + 4096;
    char *data = realloc(t->data, capacity);
    if (!data) {
      t->failed = 1;
      return;
    }
    t->data = data;
    t->capacity = capacity;
  }
  memcpy(t->data + t->size, bytes, n);
  t->size += n;
}

static void put_quoted(canonical_text *t, const char *text)
{
  put(t, "\"", 1);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') put(t, "\\", 1);
    put(t, text, 1);
  }
  put(t, "\"", 1);
}

static void put_scalar(canonical_text *t, const mlff_yaml *node)
{
  double value = 0;
  char number[MLFF_NUMBER_SIZE];
  if (mlff_yaml_number(node, &value)) {
    mlff_number_format(value, 17, number);
    put(t, number, strlen(number));
  } else {
    put_quoted(t, node->text);
  }
}

/* Keys without effect on results, of the root and of the blocks weights and domain. */
static int is_left_out(const mlff_yaml *node)
{
  static const char *const root[] = {"header_sha256", "name", "description", "provenance", "accuracy", "self_test"};
  const mlff_yaml *parent = node->parent;
  if (parent->parent)
    return !parent->parent->parent && parent->key &&
           ((!strcmp(parent->key, "weights") && !strcmp(node->key, "file")) ||
            (!strcmp(parent->key, "domain") && !strcmp(node->key, "description")));
  for (size_t k = 0; k < sizeof root / sizeof *root; k++)
    if (!strcmp(node->key, root[k])) return 1;
  return 0;
}

static int by_key(const void *a, const void *b)
{
  return strcmp((*(const mlff_yaml *const *) a)->key, (*(const mlff_yaml *const *) b)->key);
}

static void put_node(canonical_text *t, const mlff_yaml *node);

static void put_mapping(canonical_text *t, const mlff_yaml *node)
{
  const mlff_yaml **sorted = malloc(((size_t) node->n_children + 1) * sizeof(*sorted));
  size_t n = 0;
  if (!sorted) {
    t->failed = 1;
    return;
  }
  for (const mlff_yaml *c = node->first; c; c = c->next)
    if (!is_left_out(c)) sorted[n++] = c;
  qsort(sorted, n, sizeof *sorted, by_key);
  put(t, "{", 1);
  for (size_t k = 0; k < n; k++) {
    if (k) put(t, ",", 1);
    put_quoted(t, sorted[k]->key);
    put(t, ":", 1);
    put_node(t, sorted[k]);
  }
  put(t, "}", 1);
  free(sorted);
}

/* Recursion is bounded by MLFF_YAML_MAX_DEPTH. */
static void put_node(canonical_text *t, const mlff_yaml *node)
{
  if (node->kind == MLFF_YAML_SCALAR) {
    put_scalar(t, node);
  } else if (node->kind == MLFF_YAML_MAPPING) {
    put_mapping(t, node);
  } else {
    put(t, "[", 1);
    for (const mlff_yaml *c = node->first; c; c = c->next) {
      if (c != node->first) put(t, ",", 1);
      put_node(t, c);
    }
    put(t, "]", 1);
  }
}

mlff_status mlff_header_hash(const mlff_modelfile *file, char hex[65], mlff_error *error)
{
  canonical_text text = {0};
  put_mapping(&text, file->root);
  if (!text.failed) mlff_sha256_hex(text.data, text.size, hex);
  free(text.data);
  return text.failed ? mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", file->path) : MLFF_OK;
}

mlff_status mlff_header_check(mlff_modelfile *file, mlff_error *error)
{
  const char *expected = NULL;
  char hex[65];
  MLFF_TRY(mlff_header_hash(file, hex, error));
  file->head.header_sha256 = mlff_arena_string(file->arena, hex);
  if (!file->head.header_sha256) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", file->path);
  if (!mlff_yaml_has(file->root, "header_sha256")) return MLFF_OK;
  MLFF_TRY(mlff_yaml_string(file, file->root, "header_sha256", &expected, error));
  if (strcmp(expected, hex))
    return mlff_fail(error, MLFF_E_FORMAT,
                     "%s:%d: header_sha256: is %.64s, but the header has hash %s: a value was changed after the file "
                     "was written. Copy the file again, or after a deliberate edit run `python -m mlff_tools selftest "
                     "%s --header` [mlff-27]",
                     file->path, mlff_yaml_find(file->root, "header_sha256")->line, expected, hex, file->path);
  file->head.header_is_hashed = 1;
  return MLFF_OK;
}
