/* reference.h: reference numbers from *_reference.json files (and any other JSON or YAML): a tree with lookups. */
#ifndef MLFF_TEST_REFERENCE_H
#define MLFF_TEST_REFERENCE_H

#include "support.h"

typedef struct test_json test_json;

/* Reads a whole file; aborts the test when it is not readable. Free with test_json_free. */
test_json *test_json_read(const char *path);
void test_json_free(test_json *file);

/* Node at a path such as "structures.water.forces_ev_per_ang" (keys with a dot in them cannot be named), NULL without
 * one; file and any node may be the start. */
const test_json *test_json_find(const test_json *from, const char *path);
/* Same, but a missing node aborts the test. */
const test_json *test_json_get(const test_json *from, const char *path);

int test_json_length(const test_json *node);                   /* of a list or mapping; 0 for values and null */
const test_json *test_json_item(const test_json *node, int k); /* element k of a list or mapping              */
const char *test_json_key(const test_json *node);              /* of a member of a mapping                    */
const char *test_json_text(const test_json *node);             /* of a value                                  */
int test_json_is_null(const test_json *node);                  /* also when node is NULL                      */
double test_json_number(const test_json *node);
/* All numbers of nested lists in order; *n is their count. Free with free(). */
double *test_json_numbers(const test_json *node, int64_t *n);

/* Atoms of a structure with numbers or symbols, positions, cell (null or 3x3) and pbc. Species are not set. */
test_atoms test_json_atoms(const test_json *structure);

#endif
