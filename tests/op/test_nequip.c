/* test_nequip.c: messages of NequIP networks on every backend and kernel path, against plain loops in double that
 * follow the formulas of backend/ops_nequip.h literally, and these against differences of themselves. Sizes are 0, 1
 * and odd; what lies around outputs is checked. Traps of NequIP (tests/README.md) that fail here: N1, N16, N17, N20.
 * First layer, gates, readout and radial networks: test_nequip_nodes.c; couplings and tables:
 * test_nequip_math.c. */
#include "nequip_scene.h"
#include "plain_nequip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATHS = 34, MAX_WEIGHTS = NEQUIP_SCENE_WEIGHTS, DENSE = 32 };

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* From so many atoms on, backends that hold messages of edges have room for those of one atom, at least. */
enum { MANY_ATOMS = 10, FEW_MESSAGES = 64 };

typedef struct message_shape {
  int n_orders, n[4], lmax, is_even, is_last;
} message_shape;

typedef struct message_case {
  scene *s;
  weights_case weights;
  mlff_nequip_row in, out;
  int n_paths, n_coupling[4], accumulate;
  mlff_nequip_path paths[MAX_PATHS];
  int64_t begin, end;
  array rows, coupling, y, sums, g_sums, grad, edge_grad, scratch, messages;
  int64_t n_messages;
  mlff_buf dev_paths;
} message_case;

/* The paths of a layer, sorted by l3, then l1, then l2, and the rows of its sums. */
static void list_paths(message_case *c, const message_shape *shape)
{
  int columns = 0, sums[4] = {0};
  const int n_out = shape->is_last ? 1 : shape->n_orders;
  for (int l3 = 0; l3 < n_out; l3++) {
    for (int l1 = 0; l1 < shape->n_orders; l1++) {
      for (int l2 = 0; l2 <= shape->lmax; l2++) {
        if (l2 < abs(l1 - l3) || l2 > l1 + l3 || (shape->is_even && (l1 + l2 + l3) % 2)) continue;
        c->paths[c->n_paths++] =
            (mlff_nequip_path){.l1 = l1, .l2 = l2, .l3 = l3, .n = shape->n[l1], .column = columns, .out = sums[l3]};
        columns += shape->n[l1];
        sums[l3] += shape->n[l1];
      }
    }
  }
  c->in = make_row(shape->n_orders, shape->n);
  c->out = make_row(n_out, sums);
  for (int p = 0; p < c->n_paths; p++) c->paths[p].out += c->out.offset[c->paths[p].l3];
  c->weights.n_weights = columns;
}

/* Places of K in the couplings of an edge, and the matrices from harmonics to them. */
static array make_couplings(message_case *c)
{
  double *all = calloc(64 * 1024, sizeof *all), *part = all, coefficients[7][7][7];
  for (int l2 = 1, begin = 0; l2 < 4; l2++) {
    int n = 0;
    for (int p = 0; p < c->n_paths; p++) {
      if (c->paths[p].l2 != l2) continue;
      c->paths[p].coupling = begin + n;
      n += (2 * c->paths[p].l1 + 1) * (2 * c->paths[p].l3 + 1);
    }
    c->n_coupling[l2] = n = (n + MLFF_NEQUIP_BLOCK - 1) / MLFF_NEQUIP_BLOCK * MLFF_NEQUIP_BLOCK;
    for (int p = 0; p < c->n_paths; p++) {
      const mlff_nequip_path *path = &c->paths[p];
      const int n3 = 2 * path->l3 + 1;
      if (path->l2 != l2) continue;
      plain_coefficients(path->l1, l2, path->l3, coefficients);
      for (int i = 0; i < 2 * path->l1 + 1; i++)
        for (int j = 0; j < 2 * l2 + 1; j++)
          for (int k = 0; k < n3; k++) part[j * n + path->coupling - begin + i * n3 + k] = coefficients[i][j][k];
    }
    begin += n;
    part += (2 * l2 + 1) * n;
  }
  array a = array_of(c->s->backend, all, part - all);
  free(all);
  return a;
}

/* K of a path at an edge. */
static void couple(const mlff_nequip_path *p, const double harmonic[16], double k[7][7])
{
  double c[7][7][7];
  plain_coefficients(p->l1, p->l2, p->l3, c);
  for (int i = 0; i < 7; i++) {
    for (int o = 0; o < 7; o++) {
      k[i][o] = 0;
      for (int j = 0; j < 2 * p->l2 + 1; j++) k[i][o] += c[i][j][o] * harmonic[p->l2 * p->l2 + j];
    }
  }
}

static void plain_message(message_case *c)
{
  const scene *s = c->s;
  double w[MAX_WEIGHTS], dw[MAX_WEIGHTS], u[3], harmonic[16], k[7][7];
  for (int64_t i = c->begin; i < c->end; i++) {
    double *sums = c->sums.host + (i - c->begin) * c->out.ld;
    memset(sums, 0, (size_t) c->out.ld * sizeof *sums);
    for (int64_t e = s->row[i]; e < s->row[i + 1]; e++) {
      const double *y = c->y.host + s->node[e] * c->in.ld;
      plain_weights(s, &c->weights, c->rows.host, e, w, dw);
      edge_harmonics(s, e, u, harmonic);
      for (const mlff_nequip_path *p = c->paths; p < c->paths + c->n_paths; p++) {
        couple(p, harmonic, k);
        for (int a = 0; a < 2 * p->l1 + 1; a++)
          for (int b = 0; b < 2 * p->l3 + 1; b++)
            for (int q = 0; q < p->n; q++)
              sums[p->out + b * c->out.n[p->l3] + q] +=
                  w[p->column + q] * k[a][b] * y[c->in.offset[p->l1] + a * c->in.n[p->l1] + q];
      }
    }
  }
}

/* One path of an edge: adds to grad of the neighbor, dE/dr and dE/dY. */
static void plain_path_backward(message_case *c, const mlff_nequip_path *p, int64_t node, const double *g,
                                const double *w, const double *dw, const double harmonic[16], double *gr, double *gy)
{
  const int64_t in = node * c->in.ld + c->in.offset[p->l1];
  double k[7][7], gk[7][7] = {{0}}, coefficients[7][7][7];
  couple(p, harmonic, k);
  for (int a = 0; a < 2 * p->l1 + 1; a++) {
    for (int q = 0; q < p->n; q++) {
      const int64_t at = in + a * c->in.n[p->l1] + q;
      double sum = 0;
      for (int b = 0; b < 2 * p->l3 + 1; b++) {
        const double gb = g[p->out + b * c->out.n[p->l3] + q];
        sum += k[a][b] * gb;
        gk[a][b] += w[p->column + q] * c->y.host[at] * gb;
      }
      *gr += dw[p->column + q] * c->y.host[at] * sum;
      c->grad.host[at] += w[p->column + q] * sum;
    }
  }
  plain_coefficients(p->l1, p->l2, p->l3, coefficients);
  for (int a = 0; a < 7; a++)
    for (int j = 0; j < 2 * p->l2 + 1; j++)
      for (int b = 0; b < 7; b++) gy[p->l2 * p->l2 + j] += coefficients[a][j][b] * gk[a][b];
}

static void plain_message_backward(message_case *c)
{
  const scene *s = c->s;
  double w[MAX_WEIGHTS], dw[MAX_WEIGHTS], u[3], harmonic[16];
  for (int64_t i = c->begin; i < c->end; i++) {
    for (int64_t e = s->row[i]; e < s->row[i + 1]; e++) {
      double gy[16] = {0}, gr = 0;
      plain_weights(s, &c->weights, c->rows.host, e, w, dw);
      edge_harmonics(s, e, u, harmonic);
      for (int p = 0; p < c->n_paths; p++)
        plain_path_backward(c, &c->paths[p], s->node[e], c->g_sums.host + (i - c->begin) * c->out.ld, w, dw, harmonic,
                            &gr, gy);
      add_edge_gradient(s, e, u, gy, gr, c->accumulate, c->edge_grad.host);
    }
  }
}

static message_case make_message(scene *s, test_rng *rng, const message_shape *shape, int n_terms, int64_t begin,
                                 int64_t end, int accumulate)
{
  mlff_backend *b = s->backend;
  message_case c = {.s = s, .begin = begin, .end = end, .accumulate = accumulate};
  list_paths(&c, shape);
  c.weights = make_weights(s, rng, n_terms, c.weights.n_weights);
  c.coupling = make_couplings(&c);
  c.dev_paths = bytes_to_backend(b, c.paths, (size_t) c.n_paths * sizeof *c.paths);
  c.rows = random_array(b, rng, (int64_t) c.weights.n_rows * c.weights.n_weights);
  c.y = random_array(b, rng, s->edges.n_nodes * c.in.ld);
  c.sums = random_array(b, rng, (end - begin) * c.out.ld + 5);
  c.g_sums = random_array(b, rng, (end - begin) * c.out.ld);
  c.grad = random_array(b, rng, s->edges.n_nodes * c.in.ld + 5);
  c.edge_grad = random_array(b, rng, s->edges.n_edges * 4 + 5);
  c.scratch = random_array(b, rng,
                           MLFF_NEQUIP_SCRATCH * (2 * (int64_t) c.weights.n_weights + c.n_coupling[1] +
                                                  c.n_coupling[2] + c.n_coupling[3]));
  c.n_messages = s->edges.n_local > MANY_ATOMS ? FEW_MESSAGES : s->edges.n_room;
  c.messages = random_array(b, rng, c.n_messages * c.in.ld);
  return c;
}

static void free_message(message_case *c)
{
  array *all[] = {&c->rows, &c->coupling,  &c->y,       &c->sums,          &c->g_sums,
                  &c->grad, &c->edge_grad, &c->scratch, &c->weights.terms, &c->messages};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) array_free(c->s->backend, all[k]);
  mlff_buf_release(c->s->backend, &c->dev_paths);
}

static mlff_nequip_message_args message_args(const message_case *c)
{
  mlff_nequip_message_args a = {.edges = &c->s->edges,
                                .radial = radial_of(c->s, &c->weights),
                                .rows = c->rows.buf.data,
                                .in = c->in,
                                .out = c->out,
                                .n_paths = c->n_paths,
                                .paths = c->dev_paths.data,
                                .coupling = c->coupling.buf.data,
                                .begin = c->begin,
                                .end = c->end,
                                .y = c->y.buf.data,
                                .sums = c->sums.buf.data,
                                .grad = c->grad.buf.data,
                                .edge_grad = c->edge_grad.buf.data,
                                .accumulate = c->accumulate,
                                .scratch = c->scratch.buf.data,
                                .messages = c->messages.buf.data,
                                .n_messages = c->n_messages};
  memcpy(a.n_coupling, c->n_coupling, sizeof a.n_coupling);
  return a;
}

static void check_message(scene *s, test_rng *rng, const message_shape *shape, int n_terms, int64_t begin, int64_t end,
                          int accumulate)
{
  message_case c = make_message(s, rng, shape, n_terms, begin, end, accumulate);
  mlff_nequip_message_args a = message_args(&c);
  s->backend->ops->nequip_message(s->backend, &a);
  a.sums = c.g_sums.buf.data;
  s->backend->ops->nequip_message_backward(s->backend, &a);
  plain_message(&c);
  plain_message_backward(&c);
  check_array(s->backend, "sums", &c.sums, 30);
  check_array(s->backend, "adjoints of sums", &c.g_sums, 0);
  check_array(s->backend, "grad", &c.grad, 30);
  check_edge_grad(s, &c.edge_grad, begin, end, 30);
  free_message(&c);
}

/* Even ones are Nequix', all are SevenNet's; orders that messages have and edges have not, and the reverse. */
static const message_shape shapes[] = {
    {4, {32, 16, 48, 16}, 3, 1, 0},
    {4, {16, 16, 16, 16}, 3, 0, 0},
    {4, {48, 32, 16, 16}, 3, 1, 1},
    {3, {16, 32, 16}, 2, 0, 0},
    {3, {16, 16, 32}, 3, 1, 0},
    {3, {32, 16, 16}, 2, 0, 1},
    {2, {16, 48}, 1, 0, 0},
    {2, {48, 16}, 3, 0, 0},
    {1, {80}, 0, 1, 0},
    {1, {16}, 2, 1, 1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

START_TEST(messages)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {9};
  scene s = make_scene(backend, MLFF_PAINN_CUBIC, 7), split = split_scene(backend, 3);
  for (int k = 0; k < N_SHAPES; k++) {
    check_message(&s, &rng, &shapes[k], k % 2 ? 4 : DENSE, 2, 5, k % 3 == 0);
    check_message(&split, &rng, &shapes[k], k % 2 ? DENSE : 4, 0, 3, k % 3 == 1);
  }
  check_message(&s, &rng, &shapes[0], 4, 0, 7, 0);
  check_message(&s, &rng, &shapes[3], 4, 3, 3, 0);
  free_scene(&s);
  free_scene(&split);
  s = make_scene(backend, MLFF_PAINN_CUBIC, MANY_ATOMS + 2);
  check_message(&s, &rng, &shapes[0], 4, 0, MANY_ATOMS + 2, 0);
  check_message(&s, &rng, &shapes[4], 4, 1, MANY_ATOMS + 1, 1);
  free_scene(&s);
  for (int n = 0; n < 2; n++) {
    s = make_scene(backend, MLFF_PAINN_CUBIC, n);
    check_message(&s, &rng, &shapes[0], 4, 0, n, 0);
    free_scene(&s);
  }
  mlff_backend_close(backend);
}
END_TEST

/* ---- the plain loops themselves ---------------------------------------------------------------------------------- */

/* sum of adjoints times sums */
static double energy_of(void *context)
{
  message_case *c = context;
  double sum = 0;
  plain_message(c);
  for (int64_t k = 0; k < c->g_sums.n; k++) sum += c->g_sums.host[k] * c->sums.host[k];
  return sum;
}

/* Relative to the largest: the error of differences of fourth order, of functions whose third derivative jumps. */
START_TEST(plain_loops_are_derivatives)
{
  mlff_backend *backend = open_backend(1);
  if (!backend) return;
  test_rng rng = {10};
  for (int k = 0; k < N_SHAPES; k++) {
    scene s = k % 2 ? make_scene(backend, MLFF_PAINN_CUBIC, 3) : split_scene(backend, 3);
    message_case c = make_message(&s, &rng, &shapes[k], 4, 0, 3, 0);
    memset(c.grad.host, 0, (size_t) c.grad.n * sizeof(double));
    plain_message_backward(&c);
    for (int64_t e = 0; e < s.edges.n_edges; e += 5) {
      double g[3];
      difference_of_edge(&s, e, energy_of, &c, g);
      near_all(g, c.edge_grad.host + 4 * e, 3, 1e-8, 1e-9);
    }
    for (int64_t q = 0; q < s.edges.n_nodes * c.in.ld; q += 37) {
      const double old = c.y.host[q];
      c.y.host[q] = old + 1;
      const double high = energy_of(&c);
      c.y.host[q] = old - 1;
      near_one((high - energy_of(&c)) / 2, c.grad.host[q], 1e-10); /* linear in y */
      c.y.host[q] = old;
    }
    free_message(&c);
    free_scene(&s);
  }
  mlff_backend_close(backend);
}
END_TEST

static Suite *nequip_suite(void)
{
  Suite *suite = suite_create("nequip messages");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, messages, 0, n_backends());
  tcase_add_test(tcase, plain_loops_are_derivatives);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(nequip_suite);
}
