/* document.h: reading JSON and YAML by libyaml, with typed getters that name file, line and key in their errors.
 *
 * JSON is read by the YAML parser (docs/decisions/0005-reports-are-read-as-yaml.md). A key that is missing and one
 * that is null are the same: not measured.
 */
#ifndef MLFFPROF_DOCUMENT_H
#define MLFFPROF_DOCUMENT_H

#include "arena.h"
#include "status.h"

#include <yaml.h>

enum { MLFFPROF_MAX_FILE = 64 << 20, MLFFPROF_MAX_KEYS = 1000, MLFFPROF_MAX_DEPTH = 32 };

typedef struct mlffprof_document {
  const char *path;
  mlffprof_error *error;
  mlffprof_arena *arena; /* texts and arrays that getters return */
  yaml_document_t yaml;
} mlffprof_document;

typedef yaml_node_t mlffprof_node;

/* Whole file; free with free(). */
mlffprof_status mlffprof_file_read(const char *path, char **text, size_t *size, mlffprof_error *error);

/* Parses one document whose outermost value is a mapping. `error` and `path` are kept for the getters. Free with
 * mlffprof_document_free when it succeeded. */
mlffprof_status mlffprof_document_parse(const char *path, const char *text, size_t size, mlffprof_arena *arena,
                                        mlffprof_document *document, mlffprof_error *error);
void mlffprof_document_free(mlffprof_document *document);
mlffprof_node *mlffprof_document_root(mlffprof_document *document);

/* Fails with the place of a node (NULL: only the file). */
mlffprof_status mlffprof_document_fail(mlffprof_document *d, const mlffprof_node *node, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Value of a key, NULL when it is missing or null. */
mlffprof_node *mlffprof_find(mlffprof_document *d, const mlffprof_node *mapping, const char *key);
/* Pair k of a mapping: its key as text and its value. */
const char *mlffprof_pair(mlffprof_document *d, const mlffprof_node *mapping, int k, mlffprof_node **value);
int mlffprof_n_pairs(const mlffprof_node *mapping);
/* Item k of a sequence. */
mlffprof_node *mlffprof_item(mlffprof_document *d, const mlffprof_node *sequence, int k);

/* Values of nodes. A scalar in quotes is a text, never a number. */
int mlffprof_node_is_null(const mlffprof_node *node);
int mlffprof_node_is_text(const mlffprof_node *node);
int mlffprof_node_number(const mlffprof_node *node, double *value);

/* Missing: NaN, `otherwise`, NULL, or no items. */
mlffprof_status mlffprof_get_number(mlffprof_document *d, const mlffprof_node *m, const char *key, double *value);
mlffprof_status mlffprof_get_integer(mlffprof_document *d, const mlffprof_node *m, const char *key, int64_t otherwise,
                                     int64_t *value);
mlffprof_status mlffprof_get_bool(mlffprof_document *d, const mlffprof_node *m, const char *key, int otherwise,
                                  int *value);
mlffprof_status mlffprof_get_text(mlffprof_document *d, const mlffprof_node *m, const char *key, const char **value);
mlffprof_status mlffprof_get_mapping(mlffprof_document *d, const mlffprof_node *m, const char *key,
                                     mlffprof_node **value);
mlffprof_status mlffprof_get_list(mlffprof_document *d, const mlffprof_node *m, const char *key, mlffprof_node **list,
                                  int *n);
mlffprof_status mlffprof_get_numbers(mlffprof_document *d, const mlffprof_node *m, const char *key,
                                     const double **values, int *n);
mlffprof_status mlffprof_get_integers(mlffprof_document *d, const mlffprof_node *m, const char *key,
                                      const int64_t **values, int *n);

#endif
