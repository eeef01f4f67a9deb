/* test_tensornet_edges.c: operations of TensorNet on edges, on every backend and kernel path, against plain formulas in
 * double and their derivatives by complex steps. What lies around outputs is checked. */
#include "complex_step.h"
#include "nequip_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAIL = 5 };

static int part_of(int k)
{
  return k == 0 ? 0 : k < 4 ? 1 : 2;
}

static void free_arrays(mlff_backend *b, array **all, size_t n)
{
  for (size_t k = 0; k < n; k++) array_free(b, all[k]);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct message_case {
  scene *s;
  weights_case weights;
  int f;
  int64_t begin, end;
  array rows, terms, y, grad, sums, q_sums, edge_grad;
} message_case;

/* is_table: weights are those of the scene's table, otherwise terms of the block. is_local: y and grad are blocks. */
static message_case make_message(scene *s, test_rng *rng, int f, int is_table, int is_local, int64_t begin, int64_t end)
{
  mlff_backend *b = s->backend;
  message_case c = {.s = s, .f = f, .begin = begin, .end = end};
  const int64_t n = end - begin, n_y = is_local ? n : s->edges.n_nodes;
  c.weights = make_weights(s, rng, 4, 3 * f);
  c.rows = random_array(b, rng, is_table ? (int64_t) c.weights.n_rows * 3 * f : 0);
  c.terms = random_array(b, rng, is_table ? 0 : (s->row[end] - s->row[begin]) * 6 * f);
  c.y = random_array(b, rng, n_y * 9 * f);
  c.grad = random_array(b, rng, n_y * 9 * f);
  c.sums = random_array(b, rng, n * 9 * f + TAIL);
  c.q_sums = random_array(b, rng, n * 3 * f + TAIL);
  c.edge_grad = random_array(b, rng, 4 * s->edges.n_edges + TAIL);
  return c;
}

static void free_message(message_case *c)
{
  free_arrays(c->s->backend,
              (array *[]){&c->rows, &c->terms, &c->y, &c->grad, &c->sums, &c->q_sums, &c->edge_grad, &c->weights.terms},
              8);
}

static mlff_tensornet_message_args message_args(const message_case *c, int accumulate)
{
  return (mlff_tensornet_message_args){.edges = &c->s->edges,
                                       .radial = &c->s->radial,
                                       .rows = c->rows.n ? c->rows.buf.data : NULL,
                                       .terms = c->terms.buf.data,
                                       .n_features = c->f,
                                       .begin = c->begin,
                                       .end = c->end,
                                       .y = c->y.buf.data,
                                       .grad = c->grad.buf.data,
                                       .sums = c->sums.buf.data,
                                       .q_sums = c->q_sums.buf.data,
                                       .edge_grad = c->edge_grad.buf.data,
                                       .accumulate = accumulate};
}

/* Weights [3][f] of edge e and their slopes. */
static void edge_q(const message_case *c, int64_t e, double *q, double *slope)
{
  const int width = 3 * c->f;
  const double *terms = c->terms.host + (e - c->s->row[c->begin]) * 2 * width;
  if (c->rows.n) {
    plain_weights(c->s, &c->weights, c->rows.host, e, q, slope);
    return;
  }
  memcpy(q, terms, (size_t) width * sizeof *q);
  memcpy(slope, terms + width, (size_t) width * sizeof *q);
}

static void set_gradient(message_case *c, int64_t e, double gr, int accumulate)
{
  for (int d = 0; d < 3; d++) {
    double *to = c->edge_grad.host + 4 * e + d;
    *to = gr * c->s->vec[4 * e + d] / c->s->vec[4 * e + 3] + (accumulate ? *to : 0);
  }
}

static void plain_forward(message_case *c, int is_local)
{
  const int f = c->f;
  double q[3 * 160], slope[3 * 160];
  for (int64_t i = c->begin; i < c->end; i++) {
    const int64_t at = i - c->begin;
    double *sums = c->sums.host + at * 9 * f, *q_sums = c->q_sums.host + at * 3 * f;
    memset(sums, 0, (size_t) (9 * f) * sizeof *sums);
    if (is_local) memset(q_sums, 0, (size_t) (3 * f) * sizeof *sums);
    for (int64_t e = c->s->row[i]; e < c->s->row[i + 1]; e++) {
      const double *y = c->y.host + (is_local ? at : c->s->node[e]) * 9 * f;
      edge_q(c, e, q, slope);
      for (int k = 0; k < 9; k++)
        for (int u = 0; u < f; u++) sums[k * f + u] += q[part_of(k) * f + u] * y[k * f + u];
      for (int u = 0; is_local && u < 3 * f; u++) q_sums[u] += q[u];
    }
  }
}

static void plain_backward(message_case *c, int is_local, int accumulate)
{
  const int f = c->f;
  double q[3 * 160], slope[3 * 160];
  for (int64_t i = c->begin; i < c->end; i++) {
    const int64_t at = i - c->begin;
    double *sums = c->sums.host + at * 9 * f;
    const double *y = c->y.host + (is_local ? at : i) * 9 * f;
    for (int64_t e = c->s->row[i]; e < c->s->row[i + 1]; e++) {
      const double *g = c->grad.host + (is_local ? at : c->s->node[e]) * 9 * f;
      double gr = 0;
      edge_q(c, e, q, slope);
      for (int k = 0; k < 9; k++)
        for (int u = 0; u < f; u++) {
          sums[k * f + u] += q[part_of(k) * f + u] * g[k * f + u];
          gr += slope[part_of(k) * f + u] * g[k * f + u] * y[k * f + u];
        }
      set_gradient(c, e, gr, accumulate);
    }
  }
}

static void check_message(scene *s, test_rng *rng, int f, int is_table, int is_local, int64_t begin, int64_t end)
{
  mlff_backend *b = s->backend;
  message_case c = make_message(s, rng, f, is_table, is_local, begin, end);
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    const mlff_tensornet_message_args a = message_args(&c, accumulate);
    plain_forward(&c, is_local);
    (is_local ? b->ops->tensornet_local : b->ops->tensornet_message)(b, &a);
    check_array(b, "sums", &c.sums, 100);
    check_array(b, "q_sums", &c.q_sums, 100);
    plain_backward(&c, is_local, accumulate);
    (is_local ? b->ops->tensornet_local_backward : b->ops->tensornet_message_backward)(b, &a);
    check_array(b, "grad_y", &c.sums, 200);
    check_edge_grad(s, &c.edge_grad, begin, end, 400);
  }
  free_message(&c);
}

START_TEST(messages)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {41};
  for (int n = 0; n <= 7; n += n == 1 ? 6 : 1) {
    if (n == 2) continue;
    scene s = make_scene(b, MLFF_PAINN_CUBIC, n);
    for (int k = 0; k < 4; k++) {
      check_message(&s, &rng, 16, k % 2, k / 2, 0, n);
      check_message(&s, &rng, n == 7 ? 160 : 32, k % 2, k / 2, n ? 1 : 0, n);
    }
    free_scene(&s);
  }
  mlff_backend_close(b);
}
END_TEST

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* Components of 1 + [u]x + (u u^T - 1/3), u = v/|v|. */
static void plain_components(const void *context, const double complex *v, double complex *out)
{
  const double complex r = csqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
  double complex m[3][3];
  (void) context;
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 3; b++) {
      m[a][b] = v[a] * v[b] / (r * r) + (a == b ? 2.0 / 3 : 0);
      if (a != b) m[a][b] += ((b - a + 3) % 3 == 1 ? -1 : 1) * v[3 - a - b] / r;
    }
  plain_reduce(m, out);
}

static void check_moments(scene *s, test_rng *rng, int64_t begin, int64_t end, int accumulate)
{
  static const int32_t slots[3] = {1, -1, 0};
  mlff_backend *b = s->backend;
  const int n_rows = s->basis.basis.n + 1, n_slots = 2;
  const int64_t ld = n_slots * n_rows + s->basis.basis.n_terms + 3, n = end - begin;
  array moments = random_array(b, rng, n * 9 * ld + TAIL), g = random_array(b, rng, n * 9 * ld);
  array edge_grad = random_array(b, rng, 4 * s->edges.n_edges + TAIL);
  mlff_buf slot = bytes_to_backend(b, slots, sizeof slots);
  mlff_tensornet_moments_args a = {.edges = &s->edges,
                                   .radial = &s->radial,
                                   .n_terms = s->basis.basis.n_terms,
                                   .n_rows = n_rows,
                                   .n_slots = n_slots,
                                   .slot = slot.data,
                                   .begin = begin,
                                   .end = end,
                                   .moments = moments.buf.data,
                                   .ld = ld,
                                   .edge_grad = edge_grad.buf.data,
                                   .accumulate = accumulate};
  memset(moments.host, 0, (size_t) (n * 9 * ld) * sizeof(double));
  for (int64_t i = begin; i < end; i++)
    for (int64_t e = s->row[i]; e < s->row[i + 1]; e++) {
      const int at_slot = slots[s->species[e]];
      double unit[9], by_unit[9] = {0}, by_vec[3], gr = 0;
      complex_step(plain_components, NULL, 3, s->vec + 4 * e, 9, NULL, unit, NULL);
      for (int k = 0; k < 9 && at_slot >= 0; k++)
        for (int t = 0; t < n_rows; t++) {
          const int64_t column = ((i - begin) * 9 + k) * ld + at_slot * n_rows + t;
          double slope;
          const double coef = coef_of(s, e, t, &slope);
          moments.host[column] += coef * unit[k];
          by_unit[k] += coef * g.host[column];
          gr += slope * unit[k] * g.host[column];
        }
      complex_step(plain_components, NULL, 3, s->vec + 4 * e, 9, by_unit, NULL, by_vec);
      for (int d = 0; d < 3; d++) {
        double *to = edge_grad.host + 4 * e + d;
        *to = by_vec[d] + gr * s->vec[4 * e + d] / s->vec[4 * e + 3] + (accumulate ? *to : 0);
      }
    }
  b->ops->tensornet_moments(b, &a);
  check_array(b, "moments", &moments, 100);
  a.moments = g.buf.data;
  b->ops->tensornet_moments_backward(b, &a);
  check_edge_grad(s, &edge_grad, begin, end, 400);
  mlff_buf_release(b, &slot);
  free_arrays(b, (array *[]){&moments, &g, &edge_grad}, 3);
}

START_TEST(moments)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {42};
  for (int kind = MLFF_PAINN_GAUSSIAN; kind <= MLFF_PAINN_BESSEL; kind++)
    for (int n = 0; n <= 7; n += 7) {
      scene s = make_scene(b, (mlff_painn_kind) kind, n);
      mlff_error error = {.code = MLFF_OK};
      const mlff_painn_basis cubic = {.kind = MLFF_PAINN_CUBIC, .n = 64, .n_terms = 4, .cutoff = 3.5};
      test_ok(b->ops->edge_lines(b, &cubic, &s.edges, &s.radial, &error), error);
      check_moments(&s, &rng, 0, n, 0);
      check_moments(&s, &rng, n ? 2 : 0, n, 1);
      free_scene(&s);
    }
  mlff_backend_close(b);
}
END_TEST

/* ---- radial networks --------------------------------------------------------------------------------------------- */

static double complex activation(mlff_tensornet_act act, double complex x)
{
  switch (act) {
  case MLFF_TENSORNET_TANH: return ctanh(x);
  case MLFF_TENSORNET_SIGMOID: return 1 / (1 + cexp(-x));
  case MLFF_TENSORNET_SOFTPLUS: return clog(1 + cexp(x)) - log(2);
  default: return x / (1 + cexp(-x));
  }
}

static void plain_network(const void *context, const double complex *r, double complex *out)
{
  const mlff_tensornet_network *net = context;
  const double *first = net->first, *second = net->second;
  double complex in[64], x = acos(-1.0) * *r / net->cutoff;
  for (int k = 0; k < net->n_basis; k++)
    in[k] = net->kind == MLFF_PAINN_GAUSSIAN ? cexp(-0.5 * (*r - first[k]) * (*r - first[k]) * second[k])
                                             : csin(first[k] * *r) / *r;
  for (int layer = 0, n_in = net->n_basis; layer < 3; n_in = net->width[layer++]) {
    const double *w = net->weight[layer], *bias = net->bias[layer];
    for (int o = 0; o < net->width[layer]; o++) {
      out[o] = bias[o];
      for (int c = 0; c < n_in; c++) out[o] += w[c * net->width[layer] + o] * in[c];
      out[o] = activation(net->act, out[o]);
    }
    memcpy(in, out, (size_t) net->width[layer] * sizeof *in);
  }
  for (int o = 0; o < net->width[2]; o++) out[o] *= 0.5 * (ccos(x) + 1);
}

static void check_terms(scene *s, test_rng *rng, mlff_tensornet_act act, int64_t begin, int64_t end)
{
  static const int widths[4] = {9, 5, 10, 16};
  mlff_backend *b = s->backend;
  array weight[3], bias[3];
  mlff_tensornet_network host = {.kind = s->basis.basis.kind, .act = act, .n_basis = 9, .cutoff = 3.5};
  host.first = s->basis.first.host;
  host.second = s->basis.second.host;
  mlff_tensornet_network device = host;
  device.first = s->basis.first.buf.data;
  device.second = s->basis.second.buf.data;
  for (int k = 0; k < 3; k++) {
    weight[k] = random_array(b, rng, widths[k] * widths[k + 1]);
    bias[k] = random_array(b, rng, widths[k + 1]);
    host.width[k] = device.width[k] = widths[k + 1];
    host.weight[k] = weight[k].host;
    host.bias[k] = bias[k].host;
    device.weight[k] = weight[k].buf.data;
    device.bias[k] = bias[k].buf.data;
  }
  const int64_t first = s->row[begin], n_edges = s->row[end] - first;
  array terms = random_array(b, rng, n_edges * 2 * widths[3] + TAIL);
  const mlff_tensornet_terms_args a = {.edges = &s->edges,
                                       .network = device,
                                       .begin = begin,
                                       .end = end,
                                       .terms = terms.buf.data};
  for (int64_t e = 0; e < n_edges; e++)
    for (int o = 0; o < widths[3]; o++) {
      double g[16] = {0}, value[16];
      g[o] = 1;
      complex_step(plain_network, &host, 1, s->vec + 4 * (first + e) + 3, widths[3], g, value,
                   terms.host + (2 * e + 1) * widths[3] + o);
      terms.host[2 * e * widths[3] + o] = value[o];
    }
  b->ops->tensornet_terms(b, &a);
  check_array(b, "terms", &terms, 200);
  for (int k = 0; k < 3; k++) free_arrays(b, (array *[]){&weight[k], &bias[k]}, 2);
  array_free(b, &terms);
}

START_TEST(terms)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {43};
  for (int kind = MLFF_PAINN_GAUSSIAN; kind <= MLFF_PAINN_BESSEL; kind++)
    for (int n = 0; n <= 4; n += 4) {
      scene s = make_scene(b, (mlff_painn_kind) kind, n);
      for (int act = MLFF_TENSORNET_SILU; act <= MLFF_TENSORNET_SOFTPLUS; act++) {
        check_terms(&s, &rng, (mlff_tensornet_act) act, 0, n);
        check_terms(&s, &rng, (mlff_tensornet_act) act, n ? 1 : 0, n);
      }
      free_scene(&s);
    }
  mlff_backend_close(b);
}
END_TEST

static Suite *edges_suite(void)
{
  Suite *suite = suite_create("tensornet edges");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, messages, 0, n_backends());
  tcase_add_loop_test(tcase, moments, 0, n_backends());
  tcase_add_loop_test(tcase, terms, 0, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(edges_suite);
}
