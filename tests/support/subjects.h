/* subjects.h: random models of every architecture in the registry, chosen by what they promise, on every backend. */
#ifndef MLFF_TEST_SUBJECTS_H
#define MLFF_TEST_SUBJECTS_H

#include "backends.h"
#include "testmodel.h"

/* A random model of an architecture. */
typedef struct subject {
  const test_arch *arch;
  int variant;
  unsigned traits;
} subject;

/* The row of test_archs, or NULL. */
const test_arch *arch_named(const char *name);
/* How many models promise all of these traits. The first call opens them all on the CPU. Architectures without a row in
 * test_archs have none. */
int n_with(unsigned traits);
/* Number `which` of them; prints which it is, for when its test fails. */
const subject *nth_with(unsigned traits, int which);

/* Opens a model on backend number `which`; NULL, and a visible skip, when this machine lacks it. */
mlff_model *open_on_backend(const test_model *file, int which);

/* Model number `which` of those with all of these traits times backends, opened. */
typedef struct target {
  const subject *s;
  test_model file;
  mlff_model *model; /* NULL when this machine lacks the backend */
} target;

/* 0 <= which < n_with(traits) * n_backends(). */
target open_target(unsigned traits, int which);
void close_target(target *t);

#endif
