/* yaml.h: a YAML or JSON document as a tree with line numbers.
 *
 * A subset of YAML: one document, mappings with plain keys, sequences and scalars. Duplicate keys, aliases, anchors and
 * tags are errors, and size and depth are limited. JSON is included (docs/decisions/0005-reports-are-read-as-yaml.md).
 */
#ifndef MLFF_BASE_YAML_H
#define MLFF_BASE_YAML_H

#include "arena.h"
#include "status.h"

#include <stdint.h>

enum {
  MLFF_YAML_MAX_BYTES = 64 << 20,
  MLFF_YAML_MAX_NODES = 4 << 20,
  MLFF_YAML_MAX_DEPTH = 32,
  MLFF_YAML_MAX_KEYS = 1000
};

typedef enum mlff_yaml_kind { MLFF_YAML_SCALAR = 0, MLFF_YAML_SEQUENCE, MLFF_YAML_MAPPING } mlff_yaml_kind;

typedef struct mlff_yaml {
  mlff_yaml_kind kind;
  int line;   /* 1 = first                                    */
  int quoted; /* scalar in quotes, so certainly not a number  */
  int id;     /* 0..n_nodes-1                                 */
  int n_children;
  const char *key;  /* in the parent mapping, NULL in a sequence    */
  const char *text; /* of a scalar                                  */
  struct mlff_yaml *parent, *first, *last, *next;
} mlff_yaml;

/* Parses text[size]; nodes live in the arena. `path` is used in error texts. Returns 0 or the code of the fault. */
int mlff_yaml_parse(const char *path, const char *text, size_t size, mlff_arena *arena, mlff_yaml **root, int *n_nodes,
                    mlff_fault *fault);

/* Child of a mapping, or NULL. */
const mlff_yaml *mlff_yaml_find(const mlff_yaml *mapping, const char *key);

/* 1 if a scalar without quotes is a number, or an integer. */
int mlff_yaml_number(const mlff_yaml *node, double *value);
int mlff_yaml_integer(const mlff_yaml *node, int64_t *value);

/* "mapping", "sequence" or "value", for error texts. */
const char *mlff_yaml_kind_name(mlff_yaml_kind kind);

#endif
