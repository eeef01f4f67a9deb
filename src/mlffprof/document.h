/* document.h: reading JSON and YAML with typed getters that name file, line and key in their errors.
 *
 * JSON is read by the YAML parser (docs/decisions/0005-reports-are-read-as-yaml.md). A key that is missing and one
 * that is null are the same: not measured.
 */
#ifndef MLFFPROF_DOCUMENT_H
#define MLFFPROF_DOCUMENT_H

#include "../base/yaml.h"
#include "errors.h"

typedef struct mlffprof_document {
  const char *path;
  mlffprof_error *error;
  const mlff_yaml *root;
  mlff_arena tree;   /* of the nodes                                                                   */
  mlff_arena *arena; /* of texts and arrays that getters return; by default that of the document */
} mlffprof_document;

/* Whole file; free with free(). */
mlffprof_status mlffprof_file_read(const char *path, char **text, size_t *size, mlffprof_error *error);

/* Parses one document whose outermost value is a mapping. `error` and `path` are kept for the getters. Free with
 * mlffprof_document_free when it succeeded. */
mlffprof_status mlffprof_document_parse(const char *path, const char *text, size_t size, mlffprof_document *document,
                                        mlffprof_error *error);
/* The same of a file. */
mlffprof_status mlffprof_document_read(const char *path, mlffprof_document *document, mlffprof_error *error);
void mlffprof_document_free(mlffprof_document *document);

/* Fails with the place of a node (NULL: only the file). */
mlffprof_status mlffprof_document_fail(mlffprof_document *d, const mlff_yaml *node, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Value of a key, NULL when it is missing or null. */
const mlff_yaml *mlffprof_find(const mlff_yaml *mapping, const char *key);
/* A scalar that is not null. One in quotes is a text, never a number. */
int mlffprof_is_text(const mlff_yaml *node);

/* Missing: NaN, `otherwise`, NULL, or no items. */
mlffprof_status mlffprof_get_number(mlffprof_document *d, const mlff_yaml *m, const char *key, double *value);
mlffprof_status mlffprof_get_integer(mlffprof_document *d, const mlff_yaml *m, const char *key, int64_t otherwise,
                                     int64_t *value);
mlffprof_status mlffprof_get_bool(mlffprof_document *d, const mlff_yaml *m, const char *key, int otherwise, int *value);
mlffprof_status mlffprof_get_text(mlffprof_document *d, const mlff_yaml *m, const char *key, const char **value);
mlffprof_status mlffprof_get_mapping(mlffprof_document *d, const mlff_yaml *m, const char *key,
                                     const mlff_yaml **value);
mlffprof_status mlffprof_get_list(mlffprof_document *d, const mlff_yaml *m, const char *key, const mlff_yaml **list,
                                  int *n);
mlffprof_status mlffprof_get_numbers(mlffprof_document *d, const mlff_yaml *m, const char *key, const double **values,
                                     int *n);
mlffprof_status mlffprof_get_integers(mlffprof_document *d, const mlff_yaml *m, const char *key, const int64_t **values,
                                      int *n);

#endif
