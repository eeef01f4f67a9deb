/* test_nequip_nodes.c: first layer, gates, readout and radial networks of NequIP on every backend and kernel path,
 * against plain loops in double that follow the formulas of backend/ops_nequip.h literally, and these against
 * differences of themselves. What lies around outputs is checked. Traps of NequIP (tests/README.md) that fail here:
 * N1, N5, N6, N16, N19, N20. Messages: test_nequip.c. */
#include "nequip_scene.h"
#include "plain_nequip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WEIGHTS = NEQUIP_SCENE_WEIGHTS, DENSE = 48 };

static double silu(double x)
{
  return x / (1 + exp(-x));
}

static double silu_slope(double x)
{
  const double s = 1 / (1 + exp(-x));
  return s * (1 + x * (1 - s));
}

/* ---- the first layer --------------------------------------------------------------------------------------------- */

enum { N_SLOTS = 2 };
static const int32_t slots[3] = {1, -1, 0}; /* the species in between does not occur for this network */

typedef struct first_case {
  scene *s;
  weights_case weights;
  mlff_nequip_row out;
  int64_t begin, end;
  int accumulate;
  array rows, bias, z, grad_z, edge_grad;
  mlff_buf dev_slot;
} first_case;

static const double *rows_of(const first_case *c, int64_t e)
{
  const int32_t slot = slots[c->s->species[e]];
  return slot < 0 ? NULL : c->rows.host + (int64_t) slot * c->weights.n_rows * c->weights.n_weights;
}

static void plain_first(first_case *c)
{
  const scene *s = c->s;
  const mlff_nequip_row *out = &c->out;
  double w[MAX_WEIGHTS], dw[MAX_WEIGHTS], u[3], harmonic[16];
  for (int64_t i = c->begin; i < c->end; i++) {
    double *z = c->z.host + (i - c->begin) * out->ld;
    const int32_t own = slots[s->atoms.species[i]];
    memset(z, 0, (size_t) out->ld * sizeof *z);
    for (int o = 0; o < out->n[0] && own >= 0; o++) z[o] = c->bias.host[own * out->n[0] + o];
    for (int64_t e = s->row[i]; e < s->row[i + 1]; e++) {
      if (!rows_of(c, e)) continue;
      plain_weights(s, &c->weights, rows_of(c, e), e, w, dw);
      edge_harmonics(s, e, u, harmonic);
      for (int l = 0, column = 0; l < out->n_orders; column += out->n[l++])
        for (int m = 0; m < 2 * l + 1; m++)
          for (int o = 0; o < out->n[l]; o++)
            z[out->offset[l] + m * out->n[l] + o] += w[column + o] * harmonic[l * l + m];
    }
  }
}

static void plain_first_backward(first_case *c)
{
  const scene *s = c->s;
  const mlff_nequip_row *out = &c->out;
  double w[MAX_WEIGHTS], dw[MAX_WEIGHTS], u[3], harmonic[16];
  for (int64_t i = c->begin; i < c->end; i++) {
    const double *g = c->grad_z.host + (i - c->begin) * out->ld;
    for (int64_t e = s->row[i]; e < s->row[i + 1]; e++) {
      double gy[16] = {0}, gr = 0;
      edge_harmonics(s, e, u, harmonic);
      if (rows_of(c, e)) plain_weights(s, &c->weights, rows_of(c, e), e, w, dw);
      for (int l = 0, column = 0; l < out->n_orders && rows_of(c, e); column += out->n[l++]) {
        for (int m = 0; m < 2 * l + 1; m++) {
          for (int o = 0; o < out->n[l]; o++) {
            const double gm = g[out->offset[l] + m * out->n[l] + o];
            gy[l * l + m] += w[column + o] * gm;
            gr += dw[column + o] * harmonic[l * l + m] * gm;
          }
        }
      }
      add_edge_gradient(s, e, u, gy, gr, c->accumulate, c->edge_grad.host);
    }
  }
}

static first_case make_first(scene *s, test_rng *rng, int n_orders, const int *n, int n_terms, int64_t begin,
                             int64_t end, int accumulate)
{
  mlff_backend *b = s->backend;
  first_case c = {.s = s, .out = make_row(n_orders, n), .begin = begin, .end = end, .accumulate = accumulate};
  int n_weights = 0;
  for (int l = 0; l < n_orders; l++) n_weights += n[l];
  c.weights = make_weights(s, rng, n_terms, n_weights);
  c.rows = random_array(b, rng, N_SLOTS * (int64_t) c.weights.n_rows * n_weights);
  c.bias = random_array(b, rng, N_SLOTS * n[0]);
  c.z = random_array(b, rng, (end - begin) * c.out.ld + 5);
  c.grad_z = random_array(b, rng, (end - begin) * c.out.ld);
  c.edge_grad = random_array(b, rng, s->edges.n_edges * 4 + 5);
  c.dev_slot = bytes_to_backend(b, slots, sizeof slots);
  return c;
}

static void free_first(first_case *c)
{
  array *all[] = {&c->weights.terms, &c->rows, &c->bias, &c->z, &c->grad_z, &c->edge_grad};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) array_free(c->s->backend, all[k]);
  mlff_buf_release(c->s->backend, &c->dev_slot);
}

static void check_first(scene *s, test_rng *rng, int n_orders, const int *n, int n_terms, int64_t begin, int64_t end,
                        int accumulate)
{
  mlff_backend *b = s->backend;
  first_case c = make_first(s, rng, n_orders, n, n_terms, begin, end, accumulate);
  mlff_nequip_first_args a = {.edges = &s->edges,
                              .radial = radial_of(s, &c.weights),
                              .rows = c.rows.buf.data,
                              .bias = c.bias.buf.data,
                              .n_rows = c.weights.n_rows,
                              .slot = c.dev_slot.data,
                              .out = c.out,
                              .begin = begin,
                              .end = end,
                              .z = c.z.buf.data,
                              .edge_grad = c.edge_grad.buf.data,
                              .accumulate = accumulate};
  b->ops->nequip_first(b, &a);
  a.z = c.grad_z.buf.data;
  b->ops->nequip_first_backward(b, &a);
  plain_first(&c);
  plain_first_backward(&c);
  check_array(b, "z", &c.z, 20);
  check_array(b, "adjoint of z", &c.grad_z, 0);
  check_edge_grad(s, &c.edge_grad, begin, end, 20);
  free_first(&c);
}

/* Channels of order 0 are those of the gates, too. */
static const struct {
  int n_orders, n[4];
} rows[] = {{4, {96, 16, 48, 16}}, {3, {64, 16, 32}}, {2, {48, 16}}, {1, {80}}, {1, {16}}};
enum { N_ROWS = sizeof rows / sizeof *rows };

START_TEST(first_layer)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {9};
  scene s = make_scene(backend, MLFF_PAINN_CUBIC, 13), split = split_scene(backend, 3);
  for (int k = 0; k < N_ROWS; k++) {
    check_first(&s, &rng, rows[k].n_orders, rows[k].n, 4, 0, 13, k % 2);
    check_first(&s, &rng, rows[k].n_orders, rows[k].n, DENSE, 4, 9, 1 - k % 2);
    check_first(&split, &rng, rows[k].n_orders, rows[k].n, 4, 0, 3, k % 2);
  }
  check_first(&s, &rng, 4, rows[0].n, 4, 3, 3, 0);
  free_scene(&s);
  free_scene(&split);
  for (int n = 0; n < 2; n++) {
    s = make_scene(backend, MLFF_PAINN_CUBIC, n);
    check_first(&s, &rng, 4, rows[0].n, 4, 0, n, 0);
    free_scene(&s);
  }
  mlff_backend_close(backend);
}
END_TEST

static double energy_of_first(void *context)
{
  first_case *c = context;
  double sum = 0;
  plain_first(c);
  for (int64_t k = 0; k < c->grad_z.n; k++) sum += c->grad_z.host[k] * c->z.host[k];
  return sum;
}

START_TEST(plain_first_layer_is_a_derivative)
{
  mlff_backend *backend = open_backend(1);
  if (!backend) return;
  test_rng rng = {10};
  scene s = split_scene(backend, 3);
  for (int k = 0; k < N_ROWS; k++) {
    first_case c = make_first(&s, &rng, rows[k].n_orders, rows[k].n, 4, 0, 3, 0);
    plain_first_backward(&c);
    for (int64_t e = 0; e < s.edges.n_edges; e++) {
      double g[3];
      difference_of_edge(&s, e, energy_of_first, &c, g);
      near_all(g, c.edge_grad.host + 4 * e, 3, 1e-8, 1e-9);
    }
    free_first(&c);
  }
  free_scene(&s);
  mlff_backend_close(backend);
}
END_TEST

/* ---- gates ------------------------------------------------------------------------------------------------------- */

typedef struct gate_case {
  int64_t n;
  mlff_nequip_row in, out;
  int has_norm;
  double epsilon, gain, gate_gain; /* gate_gain: sigmoid, 0: silu */
  array z, weight, scale, x, grad_x, grad_z;
} gate_case;

/* Factor of channel c of order l: g/sqrt(s). */
static double factor_of(const gate_case *g, int l, int c, double s)
{
  int first = 0;
  for (int k = 0; k < l; k++) first += g->in.n[k];
  return g->has_norm ? g->weight.host[first + c] / sqrt(s) : 1.0;
}

static double norm_of(const gate_case *g, const double *z)
{
  double s = g->epsilon;
  for (int l = 0; l < g->in.n_orders; l++)
    for (int c = 0; c < (2 * l + 1) * g->in.n[l]; c++)
      s += z[g->in.offset[l] + c] * z[g->in.offset[l] + c] / ((2 * l + 1) * (2 * l + 1) * g->in.n_orders);
  return s;
}

/* Gate of q with its gain, and its slope. */
static double gate_of(const gate_case *g, double q, double *slope)
{
  const double s = 1 / (1 + exp(-q));
  *slope = g->gate_gain != 0 ? g->gate_gain * s * (1 - s) : g->gain * silu_slope(q);
  return g->gate_gain != 0 ? g->gate_gain * s : g->gain * silu(q);
}

/* x of one atom; z is not that of the case when derivatives are taken. */
static void plain_gate(const gate_case *g, const double *z, double *x)
{
  const double s = norm_of(g, z);
  double slope;
  for (int c = 0; c < g->out.n[0]; c++) x[c] = g->gain * silu(z[c] * factor_of(g, 0, c, s));
  for (int l = 1, gate = g->out.n[0]; l < g->out.n_orders; gate += g->out.n[l++])
    for (int m = 0; m < 2 * l + 1; m++)
      for (int c = 0; c < g->out.n[l]; c++)
        x[g->out.offset[l] + m * g->out.n[l] + c] = z[g->in.offset[l] + m * g->in.n[l] + c] * factor_of(g, l, c, s) *
                                                    gate_of(g, z[gate + c] * factor_of(g, 0, gate + c, s), &slope);
}

/* The same backward: dE/dq first, then through q = g z/sqrt(s). */
static void plain_gate_backward(const gate_case *g, const double *z, const double *grad_x, double *grad_z)
{
  const double s = norm_of(g, z);
  double gs = 0; /* dE/ds */
  for (int c = 0; c < g->out.n[0]; c++) grad_z[c] = g->gain * grad_x[c] * silu_slope(z[c] * factor_of(g, 0, c, s));
  for (int l = 1, gate = g->out.n[0]; l < g->out.n_orders; gate += g->out.n[l++]) {
    for (int c = 0; c < g->out.n[l]; c++) {
      double slope;
      const double value = gate_of(g, z[gate + c] * factor_of(g, 0, gate + c, s), &slope);
      grad_z[gate + c] = 0;
      for (int m = 0; m < 2 * l + 1; m++) {
        const int column = g->in.offset[l] + m * g->in.n[l] + c;
        const double gx = grad_x[g->out.offset[l] + m * g->out.n[l] + c];
        grad_z[gate + c] += gx * z[column] * factor_of(g, l, c, s) * slope;
        grad_z[column] = gx * value;
      }
    }
  }
  for (int l = 0; l < g->in.n_orders; l++) {
    for (int c = 0; c < (2 * l + 1) * g->in.n[l]; c++) {
      double *gq = grad_z + g->in.offset[l] + c;
      const double factor = factor_of(g, l, c % g->in.n[l], s);
      gs -= 0.5 * *gq * factor * z[g->in.offset[l] + c] / s;
      *gq *= factor;
    }
  }
  for (int l = 0; l < g->in.n_orders && g->has_norm; l++)
    for (int c = 0; c < (2 * l + 1) * g->in.n[l]; c++)
      grad_z[g->in.offset[l] + c] += 2 * gs * z[g->in.offset[l] + c] / ((2 * l + 1) * (2 * l + 1) * g->in.n_orders);
}

enum { SIGMOID = 2 }; /* of has_norm: no norm, gates of MACE */

static gate_case make_gate(mlff_backend *b, test_rng *rng, int n_orders, const int *n, int64_t n_atoms, int has_norm)
{
  int before[4] = {0};
  gate_case g = {.n = n_atoms, .has_norm = has_norm == 1, .epsilon = 0.375, .gain = 1.6, .out = make_row(n_orders, n)};
  if (has_norm == SIGMOID) g.gate_gain = 1.9;
  int n_weights = 0;
  for (int l = 0; l < n_orders; l++) {
    before[0] += n[l];
    if (l) before[l] = n[l];
  }
  for (int l = 0; l < n_orders; l++) n_weights += before[l];
  g.in = make_row(n_orders, before);
  g.z = random_array(b, rng, n_atoms * g.in.ld + 5);
  g.weight = random_array(b, rng, n_weights);
  g.scale = random_array(b, rng, n_atoms + 5);
  g.x = random_array(b, rng, n_atoms * g.out.ld + 5);
  g.grad_x = random_array(b, rng, n_atoms * g.out.ld);
  g.grad_z = random_array(b, rng, n_atoms * g.in.ld + 5);
  return g;
}

static void free_gate(mlff_backend *b, gate_case *g)
{
  array *all[] = {&g->z, &g->weight, &g->scale, &g->x, &g->grad_x, &g->grad_z};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) array_free(b, all[k]);
}

/* in_place: grad_z is z. */
static void check_gate(mlff_backend *b, test_rng *rng, int n_orders, const int *n, int64_t n_atoms, int has_norm,
                       int in_place)
{
  gate_case g = make_gate(b, rng, n_orders, n, n_atoms, has_norm);
  array *grad_z = in_place ? &g.z : &g.grad_z;
  const mlff_nequip_gate_args a = {.n = n_atoms,
                                   .in = g.in,
                                   .out = g.out,
                                   .z = g.z.buf.data,
                                   .weight = g.has_norm ? g.weight.buf.data : NULL,
                                   .epsilon = g.epsilon,
                                   .gain = g.gain,
                                   .gate_gain = g.gate_gain,
                                   .scale = g.scale.buf.data,
                                   .x = g.x.buf.data,
                                   .grad_x = g.grad_x.buf.data,
                                   .grad_z = grad_z->buf.data};
  b->ops->nequip_gate(b, &a);
  b->ops->nequip_gate_backward(b, &a);
  for (int64_t i = 0; i < n_atoms; i++) {
    double z[1024];
    ck_assert_int_le(g.in.ld, 1024);
    memcpy(z, g.z.host + i * g.in.ld, (size_t) g.in.ld * sizeof *z);
    plain_gate(&g, z, g.x.host + i * g.out.ld);
    plain_gate_backward(&g, z, g.grad_x.host + i * g.out.ld, grad_z->host + i * g.in.ld);
    if (g.has_norm) g.scale.host[i] = 1 / sqrt(norm_of(&g, z));
  }
  check_array(b, "x", &g.x, 10);
  check_array(b, "scale", &g.scale, 10);
  check_array(b, "z", &g.z, in_place ? 10 : 0);
  check_array(b, "grad_z", &g.grad_z, 10);
  free_gate(b, &g);
}

static const struct {
  int n_orders, n[4];
} features[] = {{4, {32, 16, 48, 16}}, {3, {16, 16, 32}}, {2, {64, 16}}, {1, {80}}, {1, {16}}};
enum { N_FEATURES = sizeof features / sizeof *features };

START_TEST(gates)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {11};
  for (int k = 0; k < N_FEATURES; k++)
    for (int how = 0; how < 6; how++)
      for (int64_t n = 0; n < 8; n += n ? 6 : 1)
        check_gate(backend, &rng, features[k].n_orders, features[k].n, n, how % 3, how / 3);
  mlff_backend_close(backend);
}
END_TEST

START_TEST(plain_gate_is_a_derivative)
{
  mlff_backend *backend = open_backend(1);
  if (!backend) return;
  test_rng rng = {12};
  for (int k = 0; k < 3 * N_FEATURES; k++) {
    gate_case g = make_gate(backend, &rng, features[k / 3].n_orders, features[k / 3].n, 1, k % 3);
    plain_gate_backward(&g, g.z.host, g.grad_x.host, g.grad_z.host);
    for (int64_t c = 0; c < g.in.ld; c += 3) {
      const double h = 1e-3, old = g.z.host[c];
      double e[5] = {0};
      for (int p = -2; p <= 2; p++) {
        g.z.host[c] = old + p * h;
        plain_gate(&g, g.z.host, g.x.host);
        for (int64_t q = 0; q < g.out.ld; q++) e[p + 2] += g.grad_x.host[q] * g.x.host[q];
      }
      g.z.host[c] = old;
      near_one((8 * (e[3] - e[1]) - (e[4] - e[0])) / (12 * h), g.grad_z.host[c], 1e-10);
    }
    free_gate(backend, &g);
  }
  mlff_backend_close(backend);
}
END_TEST

/* ---- radial networks --------------------------------------------------------------------------------------------- */

typedef struct network_case {
  mlff_nequip_basis basis;
  double gain; /* 0: that of a density */
  int n_hidden, width[4];
  double epsilon; /* of layer norms */
} network_case;

/* Pairs of species of the scene's edges, as lines have them. */
enum { N_PAIR_SLOTS = 3, PAIR_ROWS = 17 };
static const int32_t pair_slots[3] = {1, 2, 0};

static int64_t center_of(const scene *s, int64_t e)
{
  int64_t i = 0;
  while (e >= s->row[i + 1]) i++;
  return i;
}

static int pair_of(const scene *s, int64_t e)
{
  return pair_slots[s->atoms.species[center_of(s, e)]] * N_PAIR_SLOTS + pair_slots[s->species[e]];
}

/* Lines of the scene's edges with slots. */
static mlff_painn_radial pair_lines(const scene *s, const mlff_buf *slot, int pair_rows)
{
  mlff_painn_radial radial = {.spline = {0}};
  mlff_painn_basis basis = s->basis.basis;
  mlff_error error = {.code = MLFF_OK};
  basis.slot = slot->data;
  basis.n_slots = N_PAIR_SLOTS;
  basis.pair_rows = pair_rows;
  test_ok(s->backend->ops->edge_lines(s->backend, &basis, &s->edges, &radial, &error), error);
  return radial;
}

static void check_pairs(const scene *s, const int32_t *slot)
{
  mlff_backend *b = s->backend;
  mlff_error error = {.code = MLFF_OK};
  mlff_buf dev_slot = bytes_to_backend(b, slot, 3 * sizeof *slot);
  mlff_painn_radial radial = pair_lines(s, &dev_slot, PAIR_ROWS);
  for (int64_t e = 0; e < s->edges.n_edges; e++) {
    const int center = slot[s->atoms.species[center_of(s, e)]], neighbor = slot[s->species[e]];
    const int pair = center < 0 || neighbor < 0 ? 0 : center * N_PAIR_SLOTS + neighbor;
    int32_t with[4], without[4];
    test_ok(b->ops->download(b, with, mlff_at(b, radial.line.data, e * MLFF_PAINN_LINE + 12), sizeof with, &error),
            error);
    test_ok(b->ops->download(b, without, mlff_at(b, s->radial.line.data, e * MLFF_PAINN_LINE + 12), sizeof without,
                             &error),
            error);
    ck_assert_int_eq(with[0], without[0] + pair * PAIR_ROWS);
    ck_assert_int_eq(with[1], without[1]);
    ck_assert_int_eq(with[2], without[2]);
    ck_assert_int_eq(with[3], pair);
    ck_assert_int_eq(without[3], 0);
  }
  mlff_buf_release(b, &radial.line);
  mlff_buf_release(b, &dev_slot);
}

START_TEST(pairs)
{
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  for (int n = 0; n < 14; n += n ? 12 : 1) {
    scene s = make_scene(backend, MLFF_PAINN_CUBIC, n);
    check_pairs(&s, pair_slots);
    check_pairs(&s, (int32_t[3]){1, -1, 0});
    free_scene(&s);
  }
  mlff_backend_close(backend);
}
END_TEST

/* Arguments of the op and of plain loops, but for the arrays. */
static void describe_network(const network_case *in, int first, mlff_nequip_terms_args *a, plain_network *plain)
{
  const int is_density = in->gain == 0, is_normed = in->epsilon > 0;
  const int end = first + in->width[in->n_hidden - 1] + (is_normed && !is_density);
  *a = (mlff_nequip_terms_args){.basis = in->basis,
                                .n_hidden = in->n_hidden,
                                .gain = is_density ? 1 : in->gain,
                                .is_density = is_density,
                                .is_normed = is_normed,
                                .epsilon = in->epsilon,
                                .first = first,
                                .n_terms = (end + MLFF_NEQUIP_BLOCK - 1) / MLFF_NEQUIP_BLOCK * MLFF_NEQUIP_BLOCK};
  *plain = (plain_network){.basis = in->basis,
                           .n_hidden = in->n_hidden,
                           .gain = a->gain,
                           .is_density = is_density,
                           .is_normed = is_normed,
                           .epsilon = in->epsilon};
  for (int k = 0; k < in->n_hidden; k++) a->width[k] = plain->width[k] = in->width[k];
}

static void check_terms(const scene *s, test_rng *rng, const network_case *in)
{
  enum { TAIL = 5 };
  mlff_backend *b = s->backend;
  const int first = in->epsilon > 0 && in->gain == 0 ? 3 : 0;
  mlff_nequip_terms_args a;
  plain_network plain;
  describe_network(in, first, &a, &plain);
  array frequency = random_array(b, rng, in->basis.n), weight[4], affine[4];
  array pair_bias = random_array(b, rng, (int64_t) N_PAIR_SLOTS * N_PAIR_SLOTS * in->width[0]);
  array terms = random_array(b, rng, 2 * a.n_terms * s->edges.n_edges + TAIL);
  double radii[N_PAIR_SLOTS * N_PAIR_SLOTS];
  for (int k = 0; k < N_PAIR_SLOTS * N_PAIR_SLOTS; k++) radii[k] = test_uniform(rng, 0.7, 2.5);
  array radius = array_of(b, radii, N_PAIR_SLOTS * N_PAIR_SLOTS);
  mlff_buf slot = bytes_to_backend(b, pair_slots, sizeof pair_slots);
  mlff_painn_radial lines = pair_lines(s, &slot, 0);
  plain.frequency = frequency.host;
  a.edges = &s->edges;
  if (in->basis.transform || in->epsilon > 0) a.lines = &lines;
  if (in->basis.transform) a.radius = radius.buf.data;
  if (in->epsilon > 0) a.pair_bias = pair_bias.buf.data;
  for (int k = 0; k < in->n_hidden; k++) {
    weight[k] = random_array(b, rng, (int64_t) in->width[k] * (k ? in->width[k - 1] : in->basis.n));
    a.weight[k] = weight[k].buf.data;
    plain.weight[k] = weight[k].host;
    affine[k] = random_array(b, rng, 3 * in->width[k]);
    a.affine[k] = affine[k].buf.data;
    plain.affine[k] = affine[k].host;
  }
  a.frequency = frequency.buf.data;
  a.terms = terms.buf.data;
  b->ops->nequip_terms(b, &a);
  for (int64_t q = 0; q < terms.n - TAIL; q++)
    if (q % a.n_terms >= first) terms.host[q] = 0;
  for (int64_t e = 0; e < s->edges.n_edges; e++) {
    plain.r0 = radius.host[pair_of(s, e)];
    plain.pair_bias = pair_bias.host + pair_of(s, e) * (int64_t) in->width[0];
    plain_hidden(&plain, s->vec[4 * e + 3], terms.host + 2 * a.n_terms * e + first,
                 terms.host + (2 * e + 1) * a.n_terms + first);
  }
  check_array(b, "terms", &terms, 30);
  array_free(b, &frequency);
  array_free(b, &terms);
  array_free(b, &radius);
  mlff_buf_release(b, &slot);
  mlff_buf_release(b, &lines.line);
  array_free(b, &pair_bias);
  for (int k = 0; k < in->n_hidden; k++) {
    array_free(b, &weight[k]);
    array_free(b, &affine[k]);
  }
}

START_TEST(terms)
{
  static const network_case cases[] = {
      {{.n = 8, .cutoff = 3.5, .prefactor = 2 / 3.5, .power = 6}, 1.0, 2, {64, 64}, 0},
      {{.n = 6, .cutoff = 3.5, .prefactor = 0.4, .onset = 2.9}, 1.7, 3, {8, 20, 7}, 0},
      {{.n = 5, .cutoff = 3.6, .prefactor = 0.5, .power = 2.5}, 0.6, 1, {16}, 0},
      {{.n = 1, .cutoff = 3.5, .prefactor = 0.5, .onset = 0}, 0.6, 4, {3, 1, 128, 33}, 0},
      {{.n = 128, .cutoff = 3.5, .prefactor = 0.1, .power = 12}, 1.0, 1, {1}, 0},
      {{.n = 7,
        .cutoff = 3.5,
        .prefactor = 0.5,
        .power = 5,
        .transform = MLFF_NEQUIP_AGNESI,
        .a = 1.1,
        .p = 4.6,
        .q = 0.9},
       1.2,
       2,
       {9, 16},
       0},
      {{.n = 5, .cutoff = 3.5, .prefactor = 1, .coefficient = -1.3, .power = 5, .transform = MLFF_NEQUIP_SOFT, .a = 4},
       1.2,
       2,
       {9, 16},
       0},
      {{.n = 5, .cutoff = 3.5, .prefactor = 0.5, .power = 5}, 0, 1, {3}, 0},
      {{.n = 6, .cutoff = 3.5, .prefactor = 0.7, .power = 3}, 1.0, 3, {11, 1, 7}, 0.5},
      {{.n = 6, .cutoff = 3.5, .prefactor = 0.7, .power = 3}, 1.3, 2, {64, 127}, 0.5},
      {{.n = 6, .cutoff = 3.5, .prefactor = 0.7, .power = 3}, 0, 2, {64, 1}, 0.5},
  };
  mlff_backend *backend = open_backend(_i);
  if (!backend) return;
  test_rng rng = {13};
  for (int n = 0; n < 14; n += n ? 12 : 1) {
    scene s = make_scene(backend, MLFF_PAINN_CUBIC, n);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) check_terms(&s, &rng, &cases[k]);
    free_scene(&s);
  }
  mlff_backend_close(backend);
}
END_TEST

/* ---- readout ----------------------------------------------------------------------------------------------------- */

START_TEST(readout)
{
  enum { N = 7, WIDTH = 48 };
  static const int32_t species[N] = {0, 2, -1, 1, 0, 2, 2};
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {12};
  mlff_buf dev_species = bytes_to_backend(b, species, sizeof species),
           dev_slot = bytes_to_backend(b, slots, sizeof slots);
  for (int n = 0; n <= N; n += n ? N - 1 : 1) {
    array x = random_array(b, &rng, n * WIDTH), weight = random_array(b, &rng, N_SLOTS * WIDTH);
    array energy = random_array(b, &rng, n + 3), grad = random_array(b, &rng, n * WIDTH + 3);
    b->ops->nequip_readout(b, &(mlff_nequip_readout_args){.n = n,
                                                          .width = WIDTH,
                                                          .x = x.buf.data,
                                                          .weight = weight.buf.data,
                                                          .slot = dev_slot.data,
                                                          .species = dev_species.data,
                                                          .energy = energy.buf.data,
                                                          .grad = grad.buf.data});
    for (int i = 0; i < n; i++) {
      const int32_t slot = species[i] < 0 ? -1 : slots[species[i]];
      energy.host[i] = 0;
      for (int k = 0; k < WIDTH; k++) {
        grad.host[i * WIDTH + k] = slot < 0 ? 0 : weight.host[slot * WIDTH + k];
        energy.host[i] += grad.host[i * WIDTH + k] * x.host[i * WIDTH + k];
      }
    }
    check_array(b, "energy", &energy, 10);
    check_array(b, "grad", &grad, 0);
    array *all[] = {&x, &weight, &energy, &grad};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) array_free(b, all[k]);
  }
  mlff_buf_release(b, &dev_species);
  mlff_buf_release(b, &dev_slot);
  mlff_backend_close(b);
}
END_TEST

static Suite *nequip_suite(void)
{
  Suite *suite = suite_create("nequip nodes");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, first_layer, 0, n_backends());
  tcase_add_test(tcase, plain_first_layer_is_a_derivative);
  tcase_add_loop_test(tcase, gates, 0, n_backends());
  tcase_add_test(tcase, plain_gate_is_a_derivative);
  tcase_add_loop_test(tcase, pairs, 0, n_backends());
  tcase_add_loop_test(tcase, terms, 0, n_backends());
  tcase_add_loop_test(tcase, readout, 0, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(nequip_suite);
}
