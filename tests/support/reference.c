/* reference.c: see reference.h. */
#include "reference.h"

#include "base/number.h"
#include "base/yaml.h"

#include <stdlib.h>
#include <string.h>

/* A test_json is an mlff_yaml node; the file's is the first member of what was allocated. */
struct test_json {
  mlff_yaml node;
};

typedef struct json_file {
  test_json root;
  mlff_arena arena;
  char *text;
} json_file;

test_json *test_json_read(const char *path)
{
  FILE *stream = fopen(path, "rb");
  json_file *file = calloc(1, sizeof *file);
  mlff_yaml *root = NULL;
  mlff_fault fault;
  if (!stream || !file || fseek(stream, 0, SEEK_END)) ck_abort_msg("%s: cannot be read", path);
  const long size = ftell(stream);
  rewind(stream);
  file->text = malloc((size_t) size + 1);
  if (!file->text || fread(file->text, 1, (size_t) size, stream) != (size_t) size)
    ck_abort_msg("%s: cannot be read", path);
  fclose(stream);
  if (mlff_yaml_parse(path, file->text, (size_t) size, &file->arena, &root, NULL, &fault))
    ck_abort_msg("%s", fault.text);
  file->root.node = *root;
  return &file->root;
}

void test_json_free(test_json *file)
{
  if (!file) return;
  json_file *whole = (json_file *) file;
  mlff_arena_free(&whole->arena);
  free(whole->text);
  free(whole);
}

const test_json *test_json_find(const test_json *from, const char *path)
{
  const mlff_yaml *node = from ? &from->node : NULL;
  while (node && *path) {
    char key[128];
    const size_t n = strcspn(path, ".");
    if (n >= sizeof key) return NULL;
    memcpy(key, path, n);
    key[n] = 0;
    node = mlff_yaml_find(node, key);
    path += n + (path[n] == '.');
  }
  return (const test_json *) node;
}

const test_json *test_json_get(const test_json *from, const char *path)
{
  const test_json *node = test_json_find(from, path);
  if (!node) ck_abort_msg("the reference file has no '%s'", path);
  return node;
}

int test_json_length(const test_json *node)
{
  return node->node.n_children;
}

const test_json *test_json_item(const test_json *node, int k)
{
  const mlff_yaml *child = node->node.first;
  while (child && k-- > 0) child = child->next;
  if (!child) ck_abort_msg("the reference file has no element %d in line %d", k, node->node.line);
  return (const test_json *) child;
}

const char *test_json_key(const test_json *node)
{
  return node->node.key;
}

const char *test_json_text(const test_json *node)
{
  if (node->node.kind != MLFF_YAML_SCALAR) ck_abort_msg("reference line %d is no value", node->node.line);
  return node->node.text;
}

int test_json_is_null(const test_json *node)
{
  return !node || (node->node.kind == MLFF_YAML_SCALAR && !node->node.quoted && !strcmp(node->node.text, "null"));
}

double test_json_number(const test_json *node)
{
  double value = 0;
  if (node->node.kind != MLFF_YAML_SCALAR || !mlff_number_parse(node->node.text, &value))
    ck_abort_msg("reference line %d: '%s' is no number", node->node.line, node->node.text ? node->node.text : "list");
  return value;
}

static int64_t count_values(const mlff_yaml *node)
{
  int64_t n = 0;
  if (node->kind == MLFF_YAML_SCALAR) return 1;
  for (const mlff_yaml *c = node->first; c; c = c->next) n += count_values(c);
  return n;
}

static double *fill_values(const mlff_yaml *node, double *values)
{
  if (node->kind == MLFF_YAML_SCALAR) {
    *values = test_json_number((const test_json *) node);
    return values + 1;
  }
  for (const mlff_yaml *c = node->first; c; c = c->next) values = fill_values(c, values);
  return values;
}

double *test_json_numbers(const test_json *node, int64_t *n)
{
  const int64_t count = count_values(&node->node);
  double *values = malloc(((size_t) count + 1) * sizeof *values);
  if (!values) ck_abort_msg("out of memory");
  fill_values(&node->node, values);
  if (n) *n = count;
  return values;
}

test_atoms test_json_atoms(const test_json *structure)
{
  const test_json *symbols = test_json_get(structure, "symbols"), *cell = test_json_find(structure, "cell");
  test_atoms atoms = test_atoms_new(test_json_length(symbols));
  int64_t n = 0;
  double *x = test_json_numbers(test_json_get(structure, "positions"), &n);
  ck_assert_int_eq(n, 3 * atoms.n);
  memcpy(atoms.pos, x, (size_t) n * sizeof *x);
  free(x);
  const mlff_yaml *symbol = symbols->node.first;
  for (int i = 0; i < atoms.n; i++, symbol = symbol->next) atoms.number[i] = test_number(symbol->text);
  if (!test_json_is_null(cell)) {
    x = test_json_numbers(cell, &n);
    ck_assert_int_eq(n, 9);
    memcpy(atoms.cell, x, sizeof atoms.cell);
    free(x);
    const test_json *pbc = test_json_find(structure, "pbc");
    for (int k = 0; k < 3; k++) {
      const test_json *of = pbc && test_json_length(pbc) ? test_json_item(pbc, k) : pbc; /* one for all, or a list */
      atoms.pbc[k] = !of || strcmp(test_json_text(of), "false") != 0;
    }
  }
  return atoms;
}
