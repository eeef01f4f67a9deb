/* published.h: published parameters, in the safetensors files of the shared directory. */
#ifndef MLFF_TEST_PUBLISHED_H
#define MLFF_TEST_PUBLISHED_H

#include "support.h"

#include "base/arena.h"
#include "model/safetensors.h"

typedef struct published {
  char *bytes;
  size_t size;
  mlff_arena arena;
  mlff_tensor *tensors;
  int n;
} published;

/* Aborts the test when the file cannot be read. */
published published_read(const char *path);
void published_free(published *p);
/* Values of a float32 tensor in double, and its number of rows; the caller frees. */
double *published_values(const published *p, const char *name, int64_t *n_rows);

#endif
