/* test_painn_radial.c: radial data and first-layer moments of PaiNN on every backend and kernel path, against plain
 * loops in double that follow the formulas of backend/ops_painn.h literally. */
#include "painn_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- radial data ------------------------------------------------------------------------------------------------ */

/* Edges of one centre at given distances along a fixed direction. */
static mlff_edges edges_at(mlff_backend *backend, const double *r, int n)
{
  mlff_error error = {0};
  const int64_t row[2] = {0, n};
  mlff_edges e = {.n_local = 1, .n_nodes = 1, .n_edges = n, .n_room = n};
  double *vec = malloc((size_t) n * 4 * sizeof *vec);
  int32_t *index = malloc((size_t) n * sizeof *index);
  for (int k = 0; k < n; k++) {
    const double v[4] = {r[k] * 2 / 7, -r[k] * 3 / 7, r[k] * 6 / 7, r[k]};
    memcpy(vec + 4 * k, v, sizeof v);
    index[k] = 1000 + k;
  }
  array a = array_of(backend, vec, 4 * n);
  e.vec = a.buf;
  test_ok(mlff_buf_reserve(backend, &e.row, sizeof row, &error), error);
  test_ok(backend->ops->upload(backend, e.row.data, row, sizeof row, &error), error);
  test_ok(mlff_buf_reserve(backend, &e.node, (size_t) n * sizeof *index, &error), error);
  test_ok(mlff_buf_reserve(backend, &e.species, (size_t) n * sizeof *index, &error), error);
  test_ok(backend->ops->upload(backend, e.node.data, index, (size_t) n * sizeof *index, &error), error);
  for (int k = 0; k < n; k++) index[k] = k % 3;
  test_ok(backend->ops->upload(backend, e.species.data, index, (size_t) n * sizeof *index, &error), error);
  free(a.host);
  free(vec);
  free(index);
  return e;
}

/* Four int32 behind element 12 of line e. */
static void line_index(mlff_backend *backend, const mlff_painn_radial *radial, int64_t e, int32_t index[4])
{
  mlff_error error = {0};
  const char *at = mlff_at(backend, radial->line.data, e * MLFF_PAINN_LINE + 12);
  test_ok(backend->ops->download(backend, index, at, 4 * sizeof *index, &error), error);
}

/* What a line has of edge e, at re, besides coefficients. */
static void check_line(mlff_backend *backend, const mlff_painn_radial *radial, int e, const double *line, double re,
                       int32_t index[4])
{
  const double expected[4] = {2.0 / 7, -3.0 / 7, 6.0 / 7, 1 / re};
  line_index(backend, radial, e, index);
  ck_assert_int_eq(index[1], 1000 + e);
  ck_assert_int_eq(index[2], e % 3);
  ck_assert_int_eq(index[3], 0); /* all four are loaded as one vector */
  near_all(line + 8, expected, 4, 4 * rounding(backend) * (1 + 1 / re), 0);
}

/* Radial data as moments and messages read them, of a basis CUBIC with lines. bytes: of lines, where there are any. */
static mlff_painn_radial radial_of(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                   size_t bytes)
{
  mlff_error error = {0};
  mlff_painn_radial radial = {0};
  if (basis->kind == MLFF_PAINN_CUBIC) {
    test_ok(backend->ops->edge_lines(backend, basis, edges, &radial, &error), error);
    return radial;
  }
  test_ok(backend->ops->painn_radial(backend, basis, edges, &radial, &error), error);
  if (radial.line.data) { /* half of each is written, and all is read here */
    backend->ops->zero(backend, radial.line.data, bytes);
    test_ok(backend->ops->painn_radial(backend, basis, edges, &radial, &error), error);
  }
  return radial;
}

static void check_radial(mlff_backend *backend, const mlff_edges *edges, const double *r, int n, basis_setup *s)
{
  mlff_error error = {0};
  const mlff_painn_basis *basis = &s->basis;
  const int dense = basis->kind != MLFF_PAINN_CUBIC;
  mlff_painn_radial radial = radial_of(backend, basis, edges, (size_t) n * MLFF_PAINN_LINE * backend->real_size);
  const int has_lines = radial.line.data != NULL; /* GPUs make those of a dense basis where they use them */
  double *line = malloc((size_t) n * MLFF_PAINN_LINE * sizeof *line);
  double *terms = malloc((size_t) n * 2 * (size_t) basis->n_terms * sizeof *terms);
  if (has_lines)
    test_ok(backend->ops->download_reals(backend, line, radial.line.data, (int64_t) n * MLFF_PAINN_LINE, &error),
            error);
  if (dense)
    test_ok(backend->ops->download_reals(backend, terms, radial.terms.data, 2 * (int64_t) n * basis->n_terms, &error),
            error);
  for (int e = 0; e < n; e++) {
    const double re = backend->real_size == sizeof(float) ? (double) (float) r[e] : r[e],
                 *l = line + e * MLFF_PAINN_LINE;
    int32_t index[4] = {0};
    if (has_lines) check_line(backend, &radial, e, l, re, index);
    if (dense) ck_assert_int_eq(index[0], 0);
    for (int k = 0; k < n_rows_of(basis); k++) {
      double slope, phi = radial_function(basis, s->first.host, s->second.host, k, re, &slope);
      double got = 0, got_slope = 0,
             sharp = basis->n / basis->cutoff; /* how fast functions vary: error of r n/cutoff */
      if (dense) {
        got = terms[2 * e * basis->n_terms + k];
        got_slope = terms[(2 * e + 1) * basis->n_terms + k];
        sharp =
            1 + (k < basis->n ? s->first.host[k] * (basis->kind == MLFF_PAINN_BESSEL ? 1 : 0) + s->second.host[k] : 0);
      } else if (k >= index[0] && k < index[0] + 4) {
        got = l[k - index[0]];
        got_slope = l[4 + k - index[0]];
      }
      const double size = 1 + (basis->kind == MLFF_PAINN_BESSEL ? 1 / re : 0),
                   tolerance = 8 * rounding(backend) * (1 + sharp * re) * size;
      near_one(got, phi, tolerance);
      near_one(got_slope, slope, tolerance * (1 + sharp) * size);
    }
  }
  free(line);
  free(terms);
  mlff_buf_release(backend, &radial.line);
  mlff_buf_release(backend, &radial.terms);
}

START_TEST(radial_functions)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  const double cutoff = 4.5;
  double r[29] = {0.05,
                  1e-3,
                  nextafter(cutoff, 0),
                  cutoff / 20,
                  3 * cutoff / 20,
                  cutoff / 2,
                  19 * cutoff / 20,
                  7.5 * cutoff / 20,
                  13.5 * cutoff / 20};
  test_rng rng = {4};
  for (int k = 9; k < 29; k++) r[k] = test_uniform(&rng, 0.3, cutoff);
  const struct {
    mlff_painn_kind kind;
    int n, split;
  } cases[] = {{MLFF_PAINN_CUBIC, 1, 0},    {MLFF_PAINN_CUBIC, 20, 0},    {MLFF_PAINN_CUBIC, 512, 0},
               {MLFF_PAINN_CUBIC, 20, 7},   {MLFF_PAINN_CUBIC, 20, 13},   {MLFF_PAINN_CUBIC, 512, 401},
               {MLFF_PAINN_GAUSSIAN, 7, 0}, {MLFF_PAINN_GAUSSIAN, 20, 0}, {MLFF_PAINN_BESSEL, 20, 0},
               {MLFF_PAINN_BESSEL, 15, 0}};
  mlff_edges edges = edges_at(backend, r, 29);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    basis_setup s = make_basis(backend, cases[c].kind, cases[c].n, cutoff);
    s.basis.split = cases[c].split;
    check_radial(backend, &edges, r, 29, &s);
    free_basis(backend, &s);
  }
  release_edges(backend, &edges);
  mlff_backend_close(backend);
}
END_TEST

/* Centre of edge e. */
static int64_t center_of(const scene *s, int64_t e)
{
  int64_t i = 0;
  while (s->row[i + 1] <= e) i++;
  return i;
}

/* ---- moments ---------------------------------------------------------------------------------------------------- */

typedef struct moments_case {
  const int32_t *slot;
  int64_t begin, end, ld_q, ld_mu;
  int n_rows, n_columns, n_slots, accumulate;
  array *q, *mu, *gq, *gmu, *grad;
} moments_case;

/* The same by plain loops, forward into q and mu, backward into grad. */
static void plain_moments(const scene *s, const moments_case *m)
{
  for (int64_t i = 0; i < m->end - m->begin; i++) {
    for (int c = 0; c < m->n_columns; c++) m->q->host[i * m->ld_q + c] = 0;
    for (int d = 0; d < 3; d++)
      for (int c = 0; c < m->n_columns; c++) m->mu->host[(3 * i + d) * m->ld_mu + c] = 0;
    const int32_t own = m->slot[s->atoms.species[m->begin + i]];
    for (int k = 0; k < m->n_slots; k++) m->q->host[i * m->ld_q + m->n_columns + k] = own == k;
  }
  for (int64_t e = s->row[m->begin]; e < s->row[m->end]; e++) {
    const int64_t i = center_of(s, e) - m->begin;
    const double r = s->vec[4 * e + 3], u[3] = {s->vec[4 * e] / r, s->vec[4 * e + 1] / r, s->vec[4 * e + 2] / r};
    double du[3] = {0}, dr = 0, *g = m->grad->host + 4 * e;
    for (int k = 0; k < m->n_rows && m->slot[s->species[e]] >= 0; k++) {
      const int64_t c = m->slot[s->species[e]] * m->n_rows + k;
      double slope, coef = coef_of(s, e, k, &slope);
      m->q->host[i * m->ld_q + c] += coef;
      dr += slope * m->gq->host[i * m->ld_q + c];
      for (int d = 0; d < 3; d++) {
        m->mu->host[(3 * i + d) * m->ld_mu + c] += coef * u[d];
        du[d] += coef * m->gmu->host[(3 * i + d) * m->ld_mu + c];
        dr += slope * u[d] * m->gmu->host[(3 * i + d) * m->ld_mu + c];
      }
    }
    if (m->accumulate) {
      for (int d = 0; d < 3; d++) du[d] += g[d];
      dr += g[3];
    }
    const double along = u[0] * du[0] + u[1] * du[1] + u[2] * du[2];
    for (int d = 0; d < 3; d++) g[d] = dr * u[d] + (du[d] - u[d] * along) / r;
  }
}

static void check_moments(scene *s, test_rng *rng, int64_t begin, int64_t end, int accumulate)
{
  enum { N_SLOTS = 2 };
  static const int32_t slot[3] = {1, -1, 0}; /* the species in between does not occur for this network */
  mlff_backend *backend = s->backend;
  const int n_rows = n_rows_of(&s->basis.basis), n_columns = N_SLOTS * n_rows;
  const int64_t n = end - begin, ld_q = n_columns + N_SLOTS + 3, ld_mu = n_columns + 5;
  array q = random_array(backend, rng, n * ld_q + 7), mu = random_array(backend, rng, 3 * n * ld_mu + 7);
  array gq = random_array(backend, rng, n * ld_q), gmu = random_array(backend, rng, 3 * n * ld_mu);
  array grad = random_array(backend, rng, 4 * s->edges.n_edges + 4);
  mlff_buf dev_slot = bytes_to_backend(backend, slot, sizeof slot);
  mlff_painn_moments_args a = {.edges = &s->edges,
                               .radial = &s->radial,
                               .n_terms = s->basis.basis.n_terms,
                               .n_rows = n_rows,
                               .n_slots = N_SLOTS,
                               .slot = dev_slot.data,
                               .begin = begin,
                               .end = end,
                               .moments_q = q.buf.data,
                               .moments_mu = mu.buf.data,
                               .ld_q = ld_q,
                               .ld_mu = ld_mu,
                               .edge_grad = grad.buf.data,
                               .accumulate = accumulate};
  backend->ops->painn_moments(backend, &a);
  a.moments_q = gq.buf.data;
  a.moments_mu = gmu.buf.data;
  backend->ops->painn_moments_backward(backend, &a);

  plain_moments(s, &(moments_case){.slot = slot,
                                   .begin = begin,
                                   .end = end,
                                   .ld_q = ld_q,
                                   .ld_mu = ld_mu,
                                   .n_rows = n_rows,
                                   .n_columns = n_columns,
                                   .n_slots = N_SLOTS,
                                   .accumulate = accumulate,
                                   .q = &q,
                                   .mu = &mu,
                                   .gq = &gq,
                                   .gmu = &gmu,
                                   .grad = &grad});
  double *got = malloc((size_t) (grad.n + 1) * sizeof *got); /* the fourth element means nothing */
  mlff_error error = {0};
  test_ok(backend->ops->download_reals(backend, got, grad.buf.data, grad.n, &error), error);
  for (int64_t e = s->row[begin]; e < s->row[end]; e++) grad.host[4 * e + 3] = got[4 * e + 3];
  free(got);
  check_array(backend, "moments_q", &q, 60);
  check_array(backend, "moments_mu", &mu, 60);
  check_array(backend, "edge_grad", &grad, 200);
  array_free(backend, &q);
  array_free(backend, &mu);
  array_free(backend, &gq);
  array_free(backend, &gmu);
  array_free(backend, &grad);
  mlff_buf_release(backend, &dev_slot);
}

START_TEST(moments)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {8};
  for (int kind = 0; kind < 3; kind++) {
    scene s = make_scene(backend, (mlff_painn_kind) kind, 13);
    check_moments(&s, &rng, 0, 13, 0);
    check_moments(&s, &rng, 5, 12, 1);
    check_moments(&s, &rng, 4, 4, 0);
    free_scene(&s);
    s = make_scene(backend, (mlff_painn_kind) kind, 37); /* of a large system, for a GPU of two multiprocessors */
    check_moments(&s, &rng, 0, 37, 0);
    free_scene(&s);
  }
  mlff_backend_close(backend);
}
END_TEST

static Suite *painn_suite(void)
{
  Suite *suite = suite_create("painn radial");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, radial_functions, 0, n_backends());
  tcase_add_loop_test(tcase, moments, 0, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(painn_suite);
}
