/* test_tensornet.c: node-local operations of TensorNet on every backend and kernel path, against plain formulas in
 * double and their derivatives by complex steps. What lies around outputs is checked. Those of edges are in
 * test_tensornet_edges.c. */
#include "complex_step.h"
#include "slot_atoms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAIL = 5 };
static const int64_t counts[] = {0, 1, N_ATOMS};
enum { N_COUNTS = sizeof counts / sizeof *counts };

/* Nine components of channel c of atom i in rows of f channels. */
static void get(const double *rows, int64_t i, int f, int c, double x[9])
{
  for (int k = 0; k < 9; k++) x[k] = rows[(i * 9 + k) * f + c];
}

static void put(double *rows, int64_t i, int f, int c, const double x[9])
{
  for (int k = 0; k < 9; k++) rows[(i * 9 + k) * f + c] = x[k];
}

static int part_of(int k)
{
  return k == 0 ? 0 : k < 4 ? 1 : 2;
}

/* out = x/(||x||^2 + 1) */
static void normalized(const double complex x[9], double complex out[9])
{
  double complex s = 1;
  for (int k = 0; k < 9; k++) s += x[k] * x[k];
  for (int k = 0; k < 9; k++) out[k] = x[k] / s;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static void check_pair(mlff_backend *b, test_rng *rng, int f, int64_t n)
{
  atoms_case atoms = make_atoms(b, n);
  array vu = random_array(b, rng, n * 18 * f + TAIL), t = random_array(b, rng, n * 9 * f + TAIL);
  array z = random_array(b, rng, N_SLOTS * f);
  const mlff_tensornet_pair_args a = {.atoms = atoms.args,
                                      .n_features = f,
                                      .vu = vu.buf.data,
                                      .t = t.buf.data,
                                      .z = z.buf.data};
  for (int64_t row = 0; row < 9 * n; row++)
    for (int c = 0; c < f; c++) {
      const int slot = slot_of(row / 9);
      t.host[row * f + c] =
          slot < 0 ? 0 : vu.host[row * 2 * f + c] + z.host[slot * f + c] * vu.host[(row * 2 + 1) * f + c];
    }
  b->ops->tensornet_pair(b, &a);
  check_array(b, "t", &t, 4);
  array_free(b, &t);
  t = random_array(b, rng, n * 9 * f + TAIL);
  mlff_tensornet_pair_args back = a;
  back.t = t.buf.data;
  for (int64_t row = 0; row < 9 * n; row++)
    for (int c = 0; c < f; c++) {
      const int slot = slot_of(row / 9);
      vu.host[row * 2 * f + c] = slot < 0 ? 0 : t.host[row * f + c];
      vu.host[(row * 2 + 1) * f + c] = slot < 0 ? 0 : z.host[slot * f + c] * t.host[row * f + c];
    }
  b->ops->tensornet_pair_backward(b, &back);
  check_array(b, "vu", &vu, 4);
  free_arrays(b, (array *[]){&vu, &t, &z}, 3);
  free_atoms(b, &atoms);
}

START_TEST(pairs)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {31};
  for (int k = 0; k < N_COUNTS; k++) {
    check_pair(b, &rng, 16, counts[k]);
    check_pair(b, &rng, 48, counts[k]);
  }
  mlff_backend_close(b);
}
END_TEST

/* ---- norms ------------------------------------------------------------------------------------------------------- */

typedef struct norm_case {
  int f, n_channels, n_groups;
  double epsilon;
} norm_case;

/* in: [9][n_channels]; out: [n_groups][n_channels] */
static void plain_norm(const void *context, const double complex *in, double complex *out)
{
  const norm_case *c = context;
  const int n = c->n_channels, width = c->n_groups * n;
  double complex mean = 0, variance = 0;
  memset(out, 0, (size_t) width * sizeof *out);
  for (int k = 0; k < 9; k++)
    for (int q = 0; q < n; q++) out[(c->n_groups == 1 ? 0 : part_of(k)) * n + q] += in[k * n + q] * in[k * n + q];
  for (int q = 0; q < width; q++) mean += out[q] / width;
  for (int q = 0; q < width; q++) variance += (out[q] - mean) * (out[q] - mean) / width;
  for (int q = 0; q < width; q++) out[q] = (out[q] - mean) / csqrt(variance + c->epsilon);
}

static void check_norm(mlff_backend *b, test_rng *rng, norm_case c, int64_t n, int accumulate)
{
  const int f = c.f, m = c.n_channels;
  array x = random_array(b, rng, n * 9 * f), out = random_array(b, rng, n * c.n_groups * f + TAIL);
  array inverse = random_array(b, rng, n + TAIL), g = random_array(b, rng, n * c.n_groups * f);
  array grad = random_array(b, rng, n * 9 * f + TAIL);
  for (int64_t q = 0; q < n * 9 * f; q++)
    if (q % f >= m) x.host[q] = 0;
  for (int64_t q = 0; q < n * c.n_groups * f; q++)
    if (q % f >= m) g.host[q] = 0;
  mlff_buf x_buf = reals_to_backend(b, x.host, n * 9 * f), g_buf = reals_to_backend(b, g.host, n * c.n_groups * f);
  mlff_tensornet_norm_args a = {.n = n,
                                .n_features = f,
                                .n_channels = m,
                                .n_groups = c.n_groups,
                                .epsilon = c.epsilon,
                                .x = x_buf.data,
                                .out = out.buf.data,
                                .inverse = inverse.buf.data,
                                .grad_out = g_buf.data,
                                .grad = grad.buf.data,
                                .accumulate = accumulate};
  for (int64_t i = 0; i < n; i++) {
    double in[9 * 48], value[3 * 48], g_in[3 * 48], slope[9 * 48];
    for (int k = 0; k < 9; k++) memcpy(in + k * m, x.host + (i * 9 + k) * f, (size_t) m * sizeof *in);
    for (int k = 0; k < c.n_groups; k++)
      memcpy(g_in + k * m, g.host + (i * c.n_groups + k) * f, (size_t) m * sizeof *in);
    complex_step(plain_norm, &c, 9 * m, in, c.n_groups * m, g_in, value, slope);
    for (int q = 0; q < c.n_groups * f; q++)
      out.host[i * c.n_groups * f + q] = q % f < m ? value[q / f * m + q % f] : 0;
    for (int q = 0; q < 9 * f; q++) {
      double *to = grad.host + i * 9 * f + q;
      *to = (accumulate ? *to : 0) + (q % f < m ? slope[q / f * m + q % f] : 0);
    }
  }
  b->ops->tensornet_norm(b, &a);
  check_array(b, "out", &out, 40);
  b->ops->tensornet_norm_backward(b, &a);
  check_array(b, "grad", &grad, 100);
  mlff_buf_release(b, &x_buf);
  mlff_buf_release(b, &g_buf);
  free_arrays(b, (array *[]){&x, &out, &inverse, &g, &grad}, 5);
}

START_TEST(norms)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {32};
  for (int k = 0; k < N_COUNTS; k++)
    for (int n_groups = 1; n_groups <= 3; n_groups += 2) {
      check_norm(b, &rng, (norm_case){16, 16, n_groups, 1e-5}, counts[k], 0);
      check_norm(b, &rng, (norm_case){48, 37, n_groups, 1e-2}, counts[k], 1);
      check_norm(b, &rng, (norm_case){16, 3, n_groups, 1e-2}, counts[k], 0);
    }
  mlff_backend_close(b);
}
END_TEST

/* ---- activations ------------------------------------------------------------------------------------------------- */

static void plain_activation(const void *context, const double complex *x, double complex *out)
{
  const double complex s = 1 / (1 + cexp(-*x));
  switch (*(const mlff_tensornet_act *) context) {
  case MLFF_TENSORNET_SILU: *out = *x * s; break;
  case MLFF_TENSORNET_TANH: *out = ctanh(*x); break;
  case MLFF_TENSORNET_SIGMOID: *out = s; break;
  case MLFF_TENSORNET_SOFTPLUS: *out = clog(1 + cexp(*x)) - log(2); break;
  }
}

START_TEST(activations)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {33};
  const double one = 1;
  for (mlff_tensornet_act act = MLFF_TENSORNET_SILU; act <= MLFF_TENSORNET_SOFTPLUS; act++)
    for (int64_t n = 0; n <= 37; n += n ? 36 : 1) {
      double x[64];
      for (int64_t q = 0; q < n + TAIL; q++) x[q] = 6 * test_uniform(&rng, -1, 1);
      array in = array_of(b, x, n + TAIL), slope = random_array(b, &rng, n + TAIL);
      const mlff_tensornet_activate_args a = {.n = n, .act = act, .x = in.buf.data, .slope = slope.buf.data};
      for (int64_t q = 0; q < n; q++) {
        const double before = in.host[q];
        complex_step(plain_activation, &act, 1, &before, 1, &one, in.host + q, slope.host + q);
      }
      b->ops->tensornet_activate(b, &a);
      check_array(b, "act(x)", &in, 10);
      check_array(b, "slope", &slope, 10);
      free_arrays(b, (array *[]){&in, &slope}, 2);
    }
  mlff_backend_close(b);
}
END_TEST

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* in: s of three parts, t */
static void plain_gate(const void *context, const double complex *in, double complex *out)
{
  double complex x[9];
  (void) context;
  for (int k = 0; k < 9; k++) x[k] = in[part_of(k)] * in[3 + k];
  normalized(x, out);
}

static void check_gate(mlff_backend *b, test_rng *rng, int f, int64_t n)
{
  array s = random_array(b, rng, n * 3 * f), t = random_array(b, rng, n * 9 * f);
  array slope = random_array(b, rng, n * 3 * f), grad = random_array(b, rng, n * 9 * f + TAIL);
  array x = random_array(b, rng, n * 9 * f + TAIL), inverse = random_array(b, rng, n * f + TAIL);
  array grad_s = random_array(b, rng, n * 3 * f + TAIL);
  const mlff_tensornet_gate_args a = {.n = n,
                                      .n_features = f,
                                      .s = s.buf.data,
                                      .t = t.buf.data,
                                      .slope = slope.buf.data,
                                      .x = x.buf.data,
                                      .inverse = inverse.buf.data,
                                      .grad = grad.buf.data,
                                      .grad_s = grad_s.buf.data};
  for (int64_t i = 0; i < n; i++)
    for (int c = 0; c < f; c++) {
      double in[12], g[9], value[9], back[12], square = 1;
      for (int p = 0; p < 3; p++) in[p] = s.host[(3 * i + p) * f + c];
      get(t.host, i, f, c, in + 3);
      get(grad.host, i, f, c, g);
      complex_step(plain_gate, NULL, 12, in, 9, g, value, back);
      put(x.host, i, f, c, value);
      put(grad.host, i, f, c, back + 3);
      for (int p = 0; p < 3; p++) grad_s.host[(3 * i + p) * f + c] = back[p] * slope.host[(3 * i + p) * f + c];
      for (int k = 0; k < 9; k++) square += pow(in[part_of(k)] * in[3 + k], 2);
      inverse.host[i * f + c] = 1 / square;
    }
  b->ops->tensornet_gate(b, &a);
  check_array(b, "x", &x, 10);
  check_array(b, "inverse", &inverse, 10);
  b->ops->tensornet_gate_backward(b, &a);
  check_array(b, "grad", &grad, 20);
  check_array(b, "grad_s", &grad_s, 20);
  free_arrays(b, (array *[]){&s, &t, &slope, &grad, &x, &inverse, &grad_s}, 7);
}

START_TEST(gates)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {34};
  for (int k = 0; k < N_COUNTS; k++) {
    check_gate(b, &rng, 16, counts[k]);
    check_gate(b, &rng, 48, counts[k]);
  }
  mlff_backend_close(b);
}
END_TEST

/* ---- products ---------------------------------------------------------------------------------------------------- */

static void add_product(double complex a[3][3], double complex b[3][3], double complex out[3][3])
{
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++)
      for (int k = 0; k < 3; k++) out[i][j] += a[i][k] * b[k][j];
}

/* in: y, m */
static void plain_product(const void *context, const double complex *in, double complex *out)
{
  const int is_o3 = *(const int *) context;
  double complex y[3][3], m[3][3], q[3][3] = {{0}}, x[9];
  plain_expand(in, y);
  plain_expand(in + 9, m);
  add_product(y, m, q);
  add_product(is_o3 ? m : y, is_o3 ? y : m, q);
  plain_reduce(q, x);
  normalized(x, out);
}

static void check_product(mlff_backend *b, test_rng *rng, int is_o3, int f, int64_t n, int is_in_place)
{
  array y = random_array(b, rng, n * 9 * f), m = random_array(b, rng, n * 9 * f);
  array r = random_array(b, rng, n * 9 * f + TAIL), grad_r = random_array(b, rng, n * 9 * f + TAIL);
  array grad_m = random_array(b, rng, n * 9 * f + TAIL), grad_y = random_array(b, rng, n * 9 * f + TAIL);
  array *to = is_in_place ? &grad_r : &grad_m;
  const mlff_tensornet_product_args a = {.n = n,
                                         .n_features = f,
                                         .is_o3 = is_o3,
                                         .y = y.buf.data,
                                         .m = m.buf.data,
                                         .r = r.buf.data,
                                         .grad_r = grad_r.buf.data,
                                         .grad_m = to->buf.data,
                                         .grad_y = grad_y.buf.data};
  for (int64_t i = 0; i < n; i++)
    for (int c = 0; c < f; c++) {
      double in[18], g[9], value[9], back[18];
      get(y.host, i, f, c, in);
      get(m.host, i, f, c, in + 9);
      get(grad_r.host, i, f, c, g);
      complex_step(plain_product, &is_o3, 18, in, 9, g, value, back);
      put(r.host, i, f, c, value);
      put(grad_y.host, i, f, c, back);
      put(to->host, i, f, c, back + 9);
    }
  b->ops->tensornet_product(b, &a);
  check_array(b, "r", &r, 20);
  b->ops->tensornet_product_backward(b, &a);
  check_array(b, "grad_m", to, 40);
  check_array(b, "grad_y", &grad_y, 40);
  free_arrays(b, (array *[]){&y, &m, &r, &grad_r, &grad_m, &grad_y}, 6);
}

START_TEST(products)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {35};
  for (int k = 0; k < N_COUNTS; k++)
    for (int is_o3 = 0; is_o3 < 2; is_o3++) {
      check_product(b, &rng, is_o3, 16, counts[k], 0);
      check_product(b, &rng, is_o3, 48, counts[k], 1);
    }
  mlff_backend_close(b);
}
END_TEST

/* ---- updates ----------------------------------------------------------------------------------------------------- */

/* in: x, d */
static void plain_update(const void *context, const double complex *in, double complex *out)
{
  double complex d[3][3], dd[3][3] = {{0}}, x[9];
  plain_expand(in + 9, d);
  add_product(d, d, dd);
  plain_reduce(dd, x);
  for (int k = 0; k < 9; k++) x[k] += in[k] + in[9 + k];
  if (*(const int *) context)
    normalized(x, out);
  else
    memcpy(out, x, sizeof x);
}

static void check_update(mlff_backend *b, test_rng *rng, int is_normalized, int f, int64_t n)
{
  array x = random_array(b, rng, n * 9 * f), d = random_array(b, rng, n * 9 * f);
  array out = random_array(b, rng, n * 9 * f + TAIL), inverse = random_array(b, rng, n * f + TAIL);
  array grad = random_array(b, rng, n * 9 * f + TAIL), grad_d = random_array(b, rng, n * 9 * f + TAIL);
  const mlff_tensornet_update_args a = {.n = n,
                                        .n_features = f,
                                        .x = x.buf.data,
                                        .d = d.buf.data,
                                        .out = out.buf.data,
                                        .inverse = is_normalized ? inverse.buf.data : NULL,
                                        .grad = grad.buf.data,
                                        .grad_d = grad_d.buf.data};
  const int plain = 0;
  for (int64_t i = 0; i < n; i++)
    for (int c = 0; c < f; c++) {
      double in[18], g[9], value[9], back[18], square = 1;
      get(x.host, i, f, c, in);
      get(d.host, i, f, c, in + 9);
      get(grad.host, i, f, c, g);
      complex_step(plain_update, &plain, 18, in, 9, g, value, NULL);
      for (int k = 0; k < 9; k++) square += value[k] * value[k];
      if (is_normalized) inverse.host[i * f + c] = 1 / square;
      complex_step(plain_update, &is_normalized, 18, in, 9, g, value, back);
      put(out.host, i, f, c, value);
      put(grad.host, i, f, c, back);
      put(grad_d.host, i, f, c, back + 9);
    }
  b->ops->tensornet_update(b, &a);
  check_array(b, "out", &out, 10);
  check_array(b, "inverse", &inverse, 10);
  b->ops->tensornet_update_backward(b, &a);
  check_array(b, "grad", &grad, 20);
  check_array(b, "grad_d", &grad_d, 20);
  free_arrays(b, (array *[]){&x, &d, &out, &inverse, &grad, &grad_d}, 6);
}

START_TEST(updates)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {36};
  for (int k = 0; k < N_COUNTS; k++)
    for (int is_normalized = 0; is_normalized < 2; is_normalized++) {
      check_update(b, &rng, is_normalized, 16, counts[k]);
      check_update(b, &rng, is_normalized, 48, counts[k]);
    }
  mlff_backend_close(b);
}
END_TEST

/* ---- readout ----------------------------------------------------------------------------------------------------- */

typedef struct readout_case {
  int f;
  const double *weight, *bias;
  double scale;
} readout_case;

static void plain_readout(const void *context, const double complex *h, double complex *out)
{
  const readout_case *c = context;
  double complex a = c->bias[0], b = c->bias[1];
  for (int k = 0; k < c->f; k++) {
    a += c->weight[k] * h[k];
    b += c->weight[c->f + k] * h[c->f + k];
  }
  *out = c->scale * a / (1 + cexp(-b));
}

static void check_readout(mlff_backend *b, test_rng *rng, int f, int64_t n, int is_in_place)
{
  atoms_case atoms = make_atoms(b, n);
  array h = random_array(b, rng, n * 2 * f), slope = random_array(b, rng, n * 2 * f + TAIL);
  array weight = random_array(b, rng, 2 * f), energy = random_array(b, rng, n + TAIL);
  array grad = random_array(b, rng, n * 2 * f + TAIL), *to = is_in_place ? &slope : &grad;
  const double bias[2] = {0.3, -0.2}, one = 1;
  const readout_case c = {f, weight.host, bias, 3.1};
  const mlff_tensornet_readout_args a = {.atoms = atoms.args,
                                         .n_features = f,
                                         .bias = {bias[0], bias[1]},
                                         .scale = c.scale,
                                         .h = h.buf.data,
                                         .slope = slope.buf.data,
                                         .weight = weight.buf.data,
                                         .energy = energy.buf.data,
                                         .grad = to->buf.data};
  for (int64_t i = 0; i < n; i++) {
    double back[2 * 48];
    complex_step(plain_readout, &c, 2 * f, h.host + i * 2 * f, 1, &one, energy.host + i, back);
    if (slot_of(i) < 0) energy.host[i] = 0;
    for (int k = 0; k < 2 * f; k++) to->host[i * 2 * f + k] = slot_of(i) < 0 ? 0 : back[k] * slope.host[i * 2 * f + k];
  }
  b->ops->tensornet_readout(b, &a);
  check_array(b, "energy", &energy, 20);
  check_array(b, "grad", to, 20);
  free_arrays(b, (array *[]){&h, &slope, &weight, &energy, &grad}, 5);
  free_atoms(b, &atoms);
}

START_TEST(readout)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {37};
  for (int k = 0; k < N_COUNTS; k++) {
    check_readout(b, &rng, 16, counts[k], 0);
    check_readout(b, &rng, 48, counts[k], 1);
  }
  mlff_backend_close(b);
}
END_TEST

static Suite *tensornet_suite(void)
{
  Suite *suite = suite_create("tensornet");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, pairs, 0, n_backends());
  tcase_add_loop_test(tcase, norms, 0, n_backends());
  tcase_add_loop_test(tcase, activations, 0, n_backends());
  tcase_add_loop_test(tcase, gates, 0, n_backends());
  tcase_add_loop_test(tcase, products, 0, n_backends());
  tcase_add_loop_test(tcase, updates, 0, n_backends());
  tcase_add_loop_test(tcase, readout, 0, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(tensornet_suite);
}
