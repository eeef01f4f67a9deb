/* testmodel_write.h: the parts of a test model that all architectures have. */
#ifndef MLFF_TEST_TESTMODEL_WRITE_H
#define MLFF_TEST_TESTMODEL_WRITE_H

#include "testmodel.h"

/* A YAML that grows. */
typedef struct test_writer {
  char *text;
  size_t n, capacity;
} test_writer;

void test_put(test_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "KEY: [first, first + step, ...]" */
void test_put_numbers(test_writer *w, const char *key, int n, double first, double step);

/* The options with defaults for what is zero. */
test_model_options test_with_defaults(test_model_options o);
/* What comes before and after an architecture's own block. */
void test_put_head(test_writer *w, const test_model_options *o, const char *architecture);
void test_put_tail(test_writer *w, const test_model_options *o);
/* NAME.weight [n_out][n_in], of size gain/sqrt(n_in), and NAME.bias. */
void test_add_linear(test_weights *w, const char *name, int64_t n_out, int64_t n_in, int has_bias, double gain);
/* Packs both and releases them. */
test_model test_finish(test_writer *w, test_weights *weights, int is_double);

#endif
