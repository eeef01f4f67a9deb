/* test_last_features.c: the ops last_features and weight_rows on every backend and kernel path, against plain loops in
 * double: rows in order and by an index, networks with fewer features than the block, atoms without an element. */
#include "backends.h"
#include "painn_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_SPECIES = 3, N_ATOMS = 9, LD = 37 };
static const int32_t species[N_ATOMS] = {0, 2, -1, 1, 0, 2, 2, 1, 0};
static const int32_t shuffled[] = {6, 0, 2, 8, 3};

typedef struct rows_case {
  int width, n_features, first, n;
  const int32_t *atoms;
} rows_case;
static const rows_case cases[] = {
    {1, 1, 0, N_ATOMS, NULL}, {16, 16, 2, 5, NULL},     {32, 32, 0, N_ATOMS, NULL}, {37, 37, 1, 8, NULL},
    {33, 20, 0, 5, shuffled}, {32, 32, 0, 5, shuffled}, {17, 9, 4, 1, NULL},        {16, 16, 0, 0, NULL},
};

static double plain_length(const rows_case *c, const double *f, const double *weights)
{
  double total = 0;
  for (int r = 0; r < c->width; r++) {
    double sum = weights[c->width * c->width + r];
    for (int k = 0; k < c->n_features; k++) sum += f[k] * weights[k * c->width + r];
    total += sum * sum;
  }
  return sqrt(total);
}

static void check_case(mlff_backend *b, test_rng *rng, const rows_case *c)
{
  const int size = (c->width + 1) * c->width;
  array features = random_array(b, rng, c->n * LD + 1), weights = random_array(b, rng, N_SPECIES * size);
  array u = random_array(b, rng, N_ATOMS + 1), rows = random_array(b, rng, N_ATOMS * c->width + 1);
  mlff_buf dev_species = bytes_to_backend(b, species, sizeof species);
  mlff_buf dev_atoms = bytes_to_backend(b, shuffled, sizeof shuffled);
  const mlff_last_features last = {.width = c->width,
                                   .weights = weights.buf.data,
                                   .uncertainty = u.buf.data,
                                   .rows = rows.buf.data};
  b->ops->last_features(b, &(mlff_last_features_args){.last = &last,
                                                      .n = c->n,
                                                      .first = c->first,
                                                      .width = c->n_features,
                                                      .ld = LD,
                                                      .atoms = c->atoms ? dev_atoms.data : NULL,
                                                      .center_species = dev_species.data,
                                                      .features = features.buf.data});
  for (int k = 0; k < c->n; k++) {
    const int i = c->atoms ? c->atoms[k] : c->first + k, s = species[i];
    const double *f = features.host + k * LD;
    u.host[i] = s < 0 ? 0 : plain_length(c, f, weights.host + s * size);
    for (int r = 0; r < c->width; r++) rows.host[i * c->width + r] = s >= 0 && r < c->n_features ? f[r] : 0;
  }
  check_array(b, "uncertainty", &u, 30);
  check_array(b, "rows", &rows, 0);
  array *all[] = {&features, &weights, &u, &rows};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) array_free(b, all[k]);
  mlff_buf_release(b, &dev_species);
  mlff_buf_release(b, &dev_atoms);
}

START_TEST(distances_and_rows)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {31};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) check_case(b, &rng, &cases[k]);
  mlff_backend_close(b);
}
END_TEST

/* y = w x in place and elsewhere, and y += w x; columns beyond the width stay. */
START_TEST(weighted_rows)
{
  enum { N = 7, WIDTH = 33 };
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {32};
  array x = random_array(b, &rng, N * LD), y = random_array(b, &rng, N * LD), w = random_array(b, &rng, N);
  for (int step = 0; step < 3; step++) {
    array *from = step == 2 ? &y : &x;
    const int accumulate = step == 1;
    for (int n = 0; n <= N; n += N)
      b->ops->weight_rows(b, &(mlff_weight_rows_args){.n = n,
                                                      .width = WIDTH,
                                                      .ld = LD,
                                                      .weight = w.buf.data,
                                                      .x = from->buf.data,
                                                      .y = y.buf.data,
                                                      .accumulate = accumulate});
    for (int i = 0; i < N; i++)
      for (int k = 0; k < WIDTH; k++)
        y.host[i * LD + k] = (accumulate ? y.host[i * LD + k] : 0) + w.host[i] * from->host[i * LD + k];
    check_array(b, "weighted rows", &y, 4);
  }
  array_free(b, &x);
  array_free(b, &y);
  array_free(b, &w);
  mlff_backend_close(b);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("last features");
  TCase *tc = tcase_create("all");
  tcase_set_timeout(tc, 300);
  tcase_add_loop_test(tc, distances_and_rows, 0, n_backends());
  tcase_add_loop_test(tc, weighted_rows, 0, n_backends());
  suite_add_tcase(suite, tc);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
