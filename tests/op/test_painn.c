/* test_painn.c: messages, updates and readout of PaiNN on every backend and kernel path, against plain loops in double
 * that follow the formulas of backend/ops_painn.h literally. Sizes are odd on purpose; what lies around outputs is
 * checked. */
#include "painn_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages --------------------------------------------------------------------------------------------------- */

typedef struct message_case {
  scene *s;
  int f;
  int64_t begin, end;
  int accumulate;
  array rows, state, q_in, q, mu, grad, grad_in, grad_x, edge_grad;
  int64_t ldq;
} message_case;

static void plain_message(message_case *c)
{
  const scene *s = c->s;
  const int f = c->f, n_rows = n_rows_of(&s->basis.basis);
  for (int64_t i = c->begin; i < c->end; i++) {
    for (int k = 0; k < f; k++) {
      double q = c->q_in.host[i * f + k], mu[3];
      for (int d = 0; d < 3; d++) mu[d] = c->state.host[(6 * i + 3 + d) * f + k];
      for (int64_t e = s->row[i]; e < s->row[i + 1]; e++) {
        double part[3] = {0}, slope;
        const double *x = c->state.host + 6 * (int64_t) s->node[e] * f + k;
        for (int t = 0; t < n_rows; t++) {
          const double coef = coef_of(s, e, t, &slope);
          for (int p = 0; p < 3; p++) part[p] += coef * c->rows.host[(3 * t + p) * f + k] * x[p * f];
        }
        q += part[0];
        for (int d = 0; d < 3; d++) mu[d] += part[1] * s->vec[4 * e + d] / s->vec[4 * e + 3] + part[2] * x[(3 + d) * f];
      }
      c->q.host[(i - c->begin) * c->ldq + k] = q;
      for (int d = 0; d < 3; d++) c->mu.host[(3 * (i - c->begin) + d) * f + k] = mu[d];
    }
  }
}

/* One edge of sender j at channel k: adds to grad_x, grad_in and sum = (dE/du, dE/dr), u of the list. */
static void plain_edge_backward(message_case *c, int64_t j, int64_t e, int k, double sum[4])
{
  const scene *s = c->s;
  const int f = c->f, n_rows = n_rows_of(&s->basis.basis);
  const double *x = c->state.host + 6 * j * f + k, *g = c->grad.host + 4 * (int64_t) s->node[e] * f + k;
  double filter[3] = {0}, slopes[3] = {0}, g3[3] = {g[0], 0, 0};
  for (int t = 0; t < n_rows; t++) {
    double slope, coef = coef_of(s, e, t, &slope);
    for (int p = 0; p < 3; p++) {
      filter[p] += coef * c->rows.host[(3 * t + p) * f + k];
      slopes[p] += slope * c->rows.host[(3 * t + p) * f + k];
    }
  }
  for (int d = 0; d < 3; d++) {
    const double gmu = g[(1 + d) * f];
    g3[1] -= gmu * s->vec[4 * e + d] / s->vec[4 * e + 3]; /* from i to j: minus the list's */
    g3[2] += gmu * x[(3 + d) * f];
    sum[d] -= gmu * filter[1] * x[f];
    c->grad_in.host[(4 * (j - c->begin) + 1 + d) * f + k] += gmu * filter[2] * x[2 * f];
  }
  for (int p = 0; p < 3; p++) {
    sum[3] += g3[p] * x[p * f] * slopes[p];
    c->grad_x.host[(3 * (j - c->begin) + p) * f + k] += g3[p] * filter[p];
  }
}

static void plain_message_backward(message_case *c)
{
  const int f = c->f;
  for (int64_t j = c->begin; j < c->end; j++) {
    memcpy(c->grad_in.host + 4 * (j - c->begin) * f, c->grad.host + 4 * j * f, (size_t) (4 * f) * sizeof(double));
    memset(c->grad_x.host + 3 * (j - c->begin) * f, 0, (size_t) (3 * f) * sizeof(double));
    for (int64_t e = c->s->row[j]; e < c->s->row[j + 1]; e++) {
      double sum[4] = {0};
      for (int k = 0; k < f; k++) plain_edge_backward(c, j, e, k, sum);
      for (int d = 0; d < 4; d++)
        c->edge_grad.host[4 * e + d] = sum[d] + (c->accumulate ? c->edge_grad.host[4 * e + d] : 0);
    }
  }
}

static void check_message(scene *s, test_rng *rng, int f, int64_t begin, int64_t end, int accumulate)
{
  mlff_backend *b = s->backend;
  const int64_t n = end - begin, n_nodes = s->edges.n_nodes, n_rows = n_rows_of(&s->basis.basis);
  message_case c = {.s = s,
                    .f = f,
                    .begin = begin,
                    .end = end,
                    .accumulate = accumulate,
                    .ldq = f + 16,
                    .rows = random_array(b, rng, n_rows * 3 * f),
                    .state = random_array(b, rng, n_nodes * 6 * f),
                    .q_in = random_array(b, rng, n_nodes * f),
                    .q = random_array(b, rng, n * (f + 16) + 5),
                    .mu = random_array(b, rng, n * 3 * f + 5),
                    .grad = random_array(b, rng, n_nodes * 4 * f),
                    .grad_in = random_array(b, rng, n * 4 * f + 5),
                    .grad_x = random_array(b, rng, n * 3 * f + 5),
                    .edge_grad = random_array(b, rng, s->edges.n_edges * 4 + 5)};
  const mlff_painn_message_args a = {.edges = &s->edges,
                                     .radial = &s->radial,
                                     .n_terms = s->basis.basis.n_terms,
                                     .n_features = f,
                                     .rows = c.rows.buf.data,
                                     .begin = begin,
                                     .end = end,
                                     .state = c.state.buf.data,
                                     .q_in = c.q_in.buf.data,
                                     .q = c.q.buf.data,
                                     .ldq = c.ldq,
                                     .mu = c.mu.buf.data,
                                     .grad = c.grad.buf.data,
                                     .grad_in = c.grad_in.buf.data,
                                     .grad_x = c.grad_x.buf.data,
                                     .edge_grad = c.edge_grad.buf.data,
                                     .accumulate = accumulate};
  b->ops->painn_message(b, &a);
  b->ops->painn_message_backward(b, &a);
  plain_message(&c);
  plain_message_backward(&c);
  check_array(b, "q", &c.q, 100);
  check_array(b, "mu", &c.mu, 100);
  check_array(b, "grad_in", &c.grad_in, 100);
  check_array(b, "grad_x", &c.grad_x, 100);
  check_array(b, "edge_grad", &c.edge_grad, 100);
  array *all[] = {&c.rows, &c.state, &c.q_in, &c.q, &c.mu, &c.grad, &c.grad_in, &c.grad_x, &c.edge_grad};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) array_free(b, all[k]);
}

/* Too many atoms to split the edges of each across threads on the simulated GPU, which has two multiprocessors. */
static void check_many_atoms(mlff_backend *backend, test_rng *rng)
{
  static const int widths[] = {16, 48, 64, 80, 128, 160};
  for (int kind = 0; kind < 2; kind++) {
    scene s = make_scene(backend, (mlff_painn_kind) kind, 37);
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) check_message(&s, rng, widths[k], (int) k, 37, 0);
    free_scene(&s);
  }
}

START_TEST(messages)
{
  static const int widths[] = {16, 32, 48, 64, 80, 112, 128, 512};
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {9};
  for (int kind = 0; kind < 3; kind++) {
    scene s = make_scene(backend, (mlff_painn_kind) kind, 7);
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
      if (widths[k] > 128 && kind > 0) continue;
      check_message(&s, &rng, widths[k], 0, 7, 0);
      check_message(&s, &rng, widths[k], 2, 5, 1);
    }
    check_message(&s, &rng, 16, 3, 3, 0);
    free_scene(&s);
  }
  check_many_atoms(backend, &rng);
  mlff_backend_close(backend);
}
END_TEST

/* ---- updates of atoms ------------------------------------------------------------------------------------------- */

typedef struct mix_case {
  int64_t n;
  int f, last;
  double epsilon;
  array vw, qn, inv_norm, y, mu, q_out, state_out, grad, grad_y, grad_qn, grad_vw, grad_m, grad_q_out, grad_mu_out;
  int64_t ld_q, ld_mu;
} mix_case;

/* V (w = 0) or W (w = 1) of atom i, component d, channel k. */
static double vw_of(const mix_case *c, int64_t i, int d, int w, int k)
{
  return c->vw.host[((3 * i + d) * 2 + w) * c->f + k];
}

static void plain_mix_channel(mix_case *c, int64_t i, int k)
{
  const int f = c->f, parts = c->last ? 2 : 3;
  const double *y = c->y.host + parts * i * f + k, t = y[(parts - 1) * f], v = c->last ? 0 : y[f];
  const double *grad = c->grad.host + (c->last ? 1 : 4) * i * f + k, gq = grad[0],
               inverse = c->inv_norm.host[i * f + k];
  double dot = 0, vv = c->epsilon, gv = 0;
  for (int d = 0; d < 3; d++) {
    dot += vw_of(c, i, d, 0, k) * vw_of(c, i, d, 1, k);
    vv += vw_of(c, i, d, 0, k) * vw_of(c, i, d, 0, k);
    gv += c->last ? 0 : grad[(1 + d) * f] * vw_of(c, i, d, 1, k);
  }
  c->q_out.host[i * f + k] = c->qn.host[2 * i * f + k] + y[0] + t * dot;
  const double gn = c->grad_qn.host[(2 * i + 1) * f + k];
  for (int d = 0; d < 3; d++) {
    const double gmu = c->last ? 0 : grad[(1 + d) * f], V = vw_of(c, i, d, 0, k), W = vw_of(c, i, d, 1, k);
    if (!c->last) c->state_out.host[(6 * i + 3 + d) * f + k] = c->mu.host[(3 * i + d) * f + k] + v * W;
    c->grad_vw.host[((3 * i + d) * 2) * f + k] = gq * t * W + gn * inverse * V;
    c->grad_vw.host[((3 * i + d) * 2 + 1) * f + k] = gmu * v + gq * t * V;
    c->grad_mu_out.host[i * c->ld_mu + d * f + k] = gmu + c->grad_m.host[(3 * i + d) * f + k];
  }
  double *gy = c->grad_y.host + parts * i * f + k;
  gy[0] = gq;
  gy[(parts - 1) * f] = gq * dot;
  if (!c->last) gy[f] = gv;
  c->grad_q_out.host[i * c->ld_q + k] = gq + c->grad_qn.host[2 * i * f + k];
  c->qn.host[(2 * i + 1) * f + k] = sqrt(vv);
}

static mlff_painn_mix_args arguments_of(const mix_case *c)
{
  return (mlff_painn_mix_args){.n = c->n,
                               .n_features = c->f,
                               .last = c->last,
                               .epsilon = c->epsilon,
                               .vw = c->vw.buf.data,
                               .qn = c->qn.buf.data,
                               .inv_norm = c->inv_norm.buf.data,
                               .y = c->y.buf.data,
                               .mu = c->mu.buf.data,
                               .q_out = c->q_out.buf.data,
                               .state_out = c->last ? NULL : c->state_out.buf.data,
                               .grad = c->grad.buf.data,
                               .grad_y = c->grad_y.buf.data,
                               .grad_qn = c->grad_qn.buf.data,
                               .grad_vw = c->grad_vw.buf.data,
                               .grad_m = c->grad_m.buf.data,
                               .grad_q_out = c->grad_q_out.buf.data,
                               .grad_mu_out = c->grad_mu_out.buf.data,
                               .ld_grad_q = c->ld_q,
                               .ld_grad_mu = c->ld_mu};
}

static void check_mix(mlff_backend *b, test_rng *rng, int64_t n, int f, int last)
{
  const int parts = last ? 2 : 3, width = last ? 1 : 4;
  mix_case c = {.n = n,
                .f = f,
                .last = last,
                .epsilon = 1e-8,
                .ld_q = f + 16,
                .ld_mu = 4 * f,
                .vw = random_array(b, rng, 6 * n * f),
                .qn = random_array(b, rng, 2 * n * f + 3),
                .inv_norm = random_array(b, rng, n * f + 3),
                .y = random_array(b, rng, parts * n * f),
                .mu = random_array(b, rng, 3 * n * f),
                .q_out = random_array(b, rng, n * f + 3),
                .state_out = random_array(b, rng, 6 * n * f + 3),
                .grad = random_array(b, rng, width * n * f),
                .grad_y = random_array(b, rng, parts * n * f + 3),
                .grad_qn = random_array(b, rng, 2 * n * f),
                .grad_vw = random_array(b, rng, 6 * n * f + 3),
                .grad_m = random_array(b, rng, 3 * n * f),
                .grad_q_out = random_array(b, rng, n * (f + 16) + 3),
                .grad_mu_out = random_array(b, rng, 4 * n * f + 3)};
  const mlff_painn_mix_args a = arguments_of(&c);
  const mlff_ops *ops = b->ops;
  /* everything but the norms first, with an arbitrary 1/n */
  ops->painn_mix_update(b, &a);
  ops->painn_mix_backward_gates(b, &a);
  ops->painn_mix_backward_vectors(b, &a);
  ops->painn_mix_backward_sum(b, &a);
  ops->painn_mix_norm(b, &a);
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < f; k++) plain_mix_channel(&c, i, k);
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < f; k++) c.inv_norm.host[i * f + k] = 1 / c.qn.host[(2 * i + 1) * f + k];
  array *const out[] = {&c.qn,      &c.q_out,      &c.state_out,   &c.grad_y,
                        &c.grad_vw, &c.grad_q_out, &c.grad_mu_out, &c.inv_norm};
  static const char *const names[] = {"qn",      "q_out",      "state_out",   "grad_y",
                                      "grad_vw", "grad_q_out", "grad_mu_out", "inv_norm"};
  for (size_t k = 0; k < sizeof out / sizeof *out; k++) check_array(b, names[k], out[k], 10);
  array *const in[] = {&c.vw, &c.y, &c.mu, &c.grad, &c.grad_qn, &c.grad_m};
  for (size_t k = 0; k < sizeof out / sizeof *out; k++) array_free(b, out[k]);
  for (size_t k = 0; k < sizeof in / sizeof *in; k++) array_free(b, in[k]);
}

START_TEST(updates)
{
  static const int widths[] = {16, 64, 112};
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {10};
  for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
    for (int last = 0; last < 2; last++)
      for (int64_t n = 0; n < 6; n += 5) check_mix(backend, &rng, n, widths[k], last);
  mlff_backend_close(backend);
}
END_TEST

START_TEST(readout)
{
  enum { N = 5, WIDTH = 48 };
  static const int32_t species[N] = {0, 2, -1, 1, 0};
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {12};
  array h = random_array(b, &rng, N * WIDTH), slope = random_array(b, &rng, N * WIDTH + 3),
        weight = random_array(b, &rng, WIDTH);
  array energy = random_array(b, &rng, N + 3);
  mlff_buf dev_species = bytes_to_backend(b, species, sizeof species);
  const mlff_painn_readout_args a = {.n = N,
                                     .width = WIDTH,
                                     .h = h.buf.data,
                                     .slope = slope.buf.data,
                                     .weight = weight.buf.data,
                                     .bias = -0.75,
                                     .species = dev_species.data,
                                     .energy = energy.buf.data,
                                     .grad_h = slope.buf.data};
  b->ops->painn_readout(b, &a);
  for (int i = 0; i < N; i++) {
    energy.host[i] = species[i] < 0 ? 0 : a.bias;
    for (int k = 0; k < WIDTH; k++) {
      if (species[i] >= 0) energy.host[i] += weight.host[k] * h.host[i * WIDTH + k];
      slope.host[i * WIDTH + k] *= weight.host[k];
    }
  }
  check_array(b, "energy", &energy, 30);
  check_array(b, "grad_h", &slope, 2);
  mlff_buf_release(b, &dev_species);
  array *all[] = {&h, &slope, &weight, &energy};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) array_free(b, all[k]);
  mlff_backend_close(b);
}
END_TEST

static Suite *painn_suite(void)
{
  Suite *suite = suite_create("painn ops");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, messages, 0, n_backends());
  tcase_add_loop_test(tcase, updates, 0, n_backends());
  tcase_add_loop_test(tcase, readout, 0, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(painn_suite);
}
