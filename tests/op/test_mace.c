/* test_mace.c: operations of MACE on every backend and kernel path, against plain loops in double that follow the
 * formulas of backend/ops_mace.h literally, and these against differences of themselves. What lies around outputs is
 * checked. */
#include "nequip_scene.h"
#include "slot_atoms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAIL = 5 };

static mlff_nequip_row row_of(int n_orders, int n_channels)
{
  const int n[4] = {n_channels, n_channels, n_channels, n_channels};
  return make_row(n_orders, n);
}

/* Fewer channels in higher orders: 64, 48, 32, 16, times `factor`. */
static mlff_nequip_row falling_row(int n_orders, int factor)
{
  const int n[4] = {64 * factor, 48 * factor, 32 * factor, 16 * factor};
  return make_row(n_orders, n);
}

/* ---- matrices of an element -------------------------------------------------------------------------------------- */

/* wide = x in the columns of the slot, or with `pick` the reverse */
static void plain_select(const mlff_nequip_row *row, const mlff_nequip_row *wide, int64_t n, int pick, double *x,
                         double *w)
{
  memset(pick ? x : w, 0, (size_t) (n * (pick ? row->ld : wide->ld)) * sizeof(double));
  for (int64_t i = 0; i < n; i++)
    for (int l = 0; l < wide->n_orders && slot_of(i) >= 0; l++)
      for (int m = 0; m < 2 * l + 1; m++)
        for (int c = 0; c < row->n[l]; c++) {
          double *one = x + i * row->ld + row->offset[l] + m * row->n[l] + c;
          double *all = w + i * wide->ld + wide->offset[l] + m * wide->n[l] + slot_of(i) * row->n[l] + c;
          if (pick)
            *one = *all;
          else
            *all = *one;
        }
}

static void check_select(mlff_backend *b, test_rng *rng, mlff_nequip_row row, mlff_nequip_row wide, int64_t n)
{
  atoms_case atoms = make_atoms(b, n);
  array x = random_array(b, rng, n * row.ld + TAIL), w = random_array(b, rng, n * wide.ld + TAIL);
  mlff_mace_select_args a = {.atoms = atoms.args, .row = row, .wide = wide, .x = x.buf.data, .wide_x = w.buf.data};
  b->ops->mace_expand(b, &a);
  plain_select(&row, &wide, n, 0, x.host, w.host);
  check_array(b, "wide", &w, 0);
  check_array(b, "x", &x, 0);
  array_free(b, &w);
  w = random_array(b, rng, n * wide.ld + TAIL);
  a.wide_x = w.buf.data;
  b->ops->mace_pick(b, &a);
  plain_select(&row, &wide, n, 1, x.host, w.host);
  check_array(b, "picked", &x, 0);
  free_arrays(b, (array *[]){&x, &w}, 2);
  free_atoms(b, &atoms);
}

START_TEST(select_element)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {21};
  for (int n = 0; n <= N_ATOMS; n += n ? N_ATOMS - 1 : 1) {
    check_select(b, &rng, row_of(1, 16), row_of(1, N_SLOTS * 16), n);
    check_select(b, &rng, row_of(2, 32), row_of(1, N_SLOTS * 32), n);
    check_select(b, &rng, row_of(4, 16), row_of(4, N_SLOTS * 16), n);
    check_select(b, &rng, falling_row(4, 1), falling_row(4, N_SLOTS), n);
    check_select(b, &rng, falling_row(3, 1), falling_row(1, N_SLOTS), n);
  }
  mlff_backend_close(b);
}
END_TEST

START_TEST(start)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {22};
  atoms_case atoms = make_atoms(b, N_ATOMS);
  const mlff_nequip_row row = row_of(2, 16);
  for (int has_bias = 0; has_bias < 2; has_bias++) {
    array x = random_array(b, &rng, N_ATOMS * row.ld + TAIL), bias = random_array(b, &rng, N_SLOTS * 16);
    const mlff_mace_start_args a = {.atoms = atoms.args,
                                    .row = row,
                                    .bias = has_bias ? bias.buf.data : NULL,
                                    .x = x.buf.data};
    b->ops->mace_start(b, &a);
    memset(x.host, 0, (size_t) (N_ATOMS * row.ld) * sizeof(double));
    for (int64_t i = 0; i < N_ATOMS; i++)
      for (int c = 0; c < 16 && has_bias && slot_of(i) >= 0; c++)
        x.host[i * row.ld + c] = bias.host[slot_of(i) * 16 + c];
    check_array(b, "x", &x, 0);
    free_arrays(b, (array *[]){&x, &bias}, 2);
  }
  free_atoms(b, &atoms);
  mlff_backend_close(b);
}
END_TEST

/* ---- products ---------------------------------------------------------------------------------------------------- */

enum { MOST_MONOMIALS = 1024 };

/* Monomials of component m, in the order of their coefficients; -1: of lower degree. */
typedef struct monomial {
  int m, i, j, k;
} monomial;

typedef struct product_case {
  atoms_case atoms;
  mlff_nequip_row a_row, p_row;
  int n_channels, n_monomials, n_terms;
  monomial monomials[MOST_MONOMIALS];
  int32_t terms[4 * MOST_MONOMIALS];
  array coef, a, p, grad_p, grad_a, density, grad_density; /* density: one of each row of MLFF_NEQUIP_BLOCK */
  int has_density;
  mlff_buf dev_terms;
} product_case;

static void add_monomial(product_case *c, int m, int i, int j, int k)
{
  ck_assert_int_lt(c->n_monomials, MOST_MONOMIALS);
  c->monomials[c->n_monomials++] = (monomial){m, i, j, k};
}

/* A random choice of monomials of each component, with all that they are multiples of. */
static void choose_terms(product_case *c, test_rng *rng, int n_a, int n_p)
{
  for (int m = 0; m < n_p; m++) {
    int32_t *n_i = &c->terms[c->n_terms++];
    *n_i = 0;
    for (int i = 0; i < n_a; i++) {
      if (test_uniform(rng, 0, 1) < 0.5) continue;
      ++*n_i;
      c->terms[c->n_terms++] = i;
      add_monomial(c, m, i, -1, -1);
      int32_t *n_j = &c->terms[c->n_terms++];
      *n_j = 0;
      for (int j = i; j < n_a; j++) {
        if (test_uniform(rng, 0, 1) < 0.6) continue;
        ++*n_j;
        c->terms[c->n_terms++] = j;
        add_monomial(c, m, i, j, -1);
        int32_t *n_k = &c->terms[c->n_terms++];
        *n_k = 0;
        for (int k = j; k < n_a; k++) {
          if (test_uniform(rng, 0, 1) < 0.8) continue;
          ++*n_k;
          c->terms[c->n_terms++] = k;
          add_monomial(c, m, i, j, k);
        }
      }
    }
  }
}

static product_case *make_product(mlff_backend *b, test_rng *rng, int a_orders, int p_orders, int n_channels, int64_t n)
{
  double densities[N_ATOMS * MLFF_NEQUIP_BLOCK];
  product_case *c = calloc(1, sizeof *c);
  c->atoms = make_atoms(b, n);
  c->a_row = row_of(a_orders, n_channels);
  c->p_row = row_of(p_orders, n_channels);
  c->n_channels = n_channels;
  choose_terms(c, rng, a_orders * a_orders, p_orders * p_orders);
  c->dev_terms = bytes_to_backend(b, c->terms, (size_t) c->n_terms * sizeof *c->terms);
  c->coef = random_array(b, rng, (int64_t) N_SLOTS * c->n_monomials * n_channels);
  c->a = random_array(b, rng, n * c->a_row.ld);
  c->p = random_array(b, rng, n * c->p_row.ld + TAIL);
  c->grad_p = random_array(b, rng, n * c->p_row.ld);
  c->grad_a = random_array(b, rng, n * c->a_row.ld + TAIL);
  for (int64_t k = 0; k < n * MLFF_NEQUIP_BLOCK; k++) densities[k] = test_uniform(rng, 1, 3);
  c->density = array_of(b, densities, n * MLFF_NEQUIP_BLOCK);
  c->grad_density = random_array(b, rng, n * MLFF_NEQUIP_BLOCK + TAIL);
  return c;
}

static void free_product(mlff_backend *b, product_case *c)
{
  free_arrays(b, (array *[]){&c->coef, &c->a, &c->p, &c->grad_p, &c->grad_a, &c->density, &c->grad_density}, 7);
  mlff_buf_release(b, &c->dev_terms);
  free_atoms(b, &c->atoms);
  free(c);
}

/* p, and grad_a and grad_density from grad_p */
static void plain_product(product_case *c)
{
  const int64_t n = c->atoms.args.n;
  const int channels = c->n_channels;
  memset(c->p.host, 0, (size_t) (n * c->p_row.ld) * sizeof(double));
  memset(c->grad_a.host, 0, (size_t) (n * c->a_row.ld) * sizeof(double));
  for (int64_t i = 0; i < n; i++) {
    const double scale = c->has_density ? 1 / c->density.host[i * MLFF_NEQUIP_BLOCK] : 1;
    double along = 0;
    for (int q = 0; q < c->n_monomials && slot_of(i) >= 0; q++) {
      const monomial *t = &c->monomials[q];
      const int index[3] = {t->i, t->j, t->k};
      for (int u = 0; u < channels; u++) {
        const double *a = c->a.host + i * c->a_row.ld + u, g = c->grad_p.host[i * c->p_row.ld + t->m * channels + u];
        const double coef = c->coef.host[((int64_t) slot_of(i) * c->n_monomials + q) * channels + u];
        double all = coef;
        for (int s = 0; s < 3; s++) all *= index[s] < 0 ? 1 : scale * a[index[s] * channels];
        c->p.host[i * c->p_row.ld + t->m * channels + u] += all;
        for (int s = 0; s < 3; s++) {
          double others = coef * g * scale;
          for (int r = 0; r < 3; r++) others *= r == s || index[r] < 0 ? 1 : scale * a[index[r] * channels];
          if (index[s] < 0) continue;
          c->grad_a.host[i * c->a_row.ld + index[s] * channels + u] += others;
          along += others * a[index[s] * channels];
        }
      }
    }
    if (c->has_density && slot_of(i) >= 0) c->grad_density.host[i * MLFF_NEQUIP_BLOCK] = -along * scale;
  }
}

static void check_product(mlff_backend *b, test_rng *rng, int a_orders, int p_orders, int n_channels, int64_t n,
                          int has_density)
{
  product_case *c = make_product(b, rng, a_orders, p_orders, n_channels, n);
  c->has_density = has_density;
  const mlff_mace_product_args args = {.atoms = c->atoms.args,
                                       .a_row = c->a_row,
                                       .p_row = c->p_row,
                                       .terms = c->dev_terms.data,
                                       .coef = c->coef.buf.data,
                                       .n_coef = c->n_monomials,
                                       .density = has_density ? c->density.buf.data : NULL,
                                       .grad_density = has_density ? c->grad_density.buf.data : NULL,
                                       .a = c->a.buf.data,
                                       .p = c->p.buf.data,
                                       .grad_p = c->grad_p.buf.data,
                                       .grad_a = c->grad_a.buf.data};
  plain_product(c);
  b->ops->mace_product(b, &args);
  check_array(b, "p", &c->p, 20);
  b->ops->mace_product_backward(b, &args);
  check_array(b, "grad_a", &c->grad_a, 20);
  check_array(b, "grad_density", &c->grad_density, 60);
  free_product(b, c);
}

START_TEST(products)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {23};
  for (int n = 0; n <= N_ATOMS; n += n ? N_ATOMS - 1 : 1) {
    check_product(b, &rng, 4, 1, 16, n, 0);
    check_product(b, &rng, 3, 2, 48, n, 1);
    check_product(b, &rng, 2, 3, 16, n, 1);
    check_product(b, &rng, 1, 1, 32, n, 0);
  }
  mlff_backend_close(b);
}
END_TEST

START_TEST(plain_product_is_a_derivative)
{
  mlff_backend *b = open_backend(1);
  if (!b) return;
  test_rng rng = {24};
  product_case *c = make_product(b, &rng, 3, 2, 16, 1);
  c->has_density = 1;
  plain_product(c);
  double *grad = malloc((size_t) c->a_row.ld * sizeof *grad), grad_density = c->grad_density.host[0];
  memcpy(grad, c->grad_a.host, (size_t) c->a_row.ld * sizeof *grad);
  for (int64_t k = -7; k < c->a_row.ld; k += 7) { /* the density, and elements of a */
    double *x = k < 0 ? c->density.host : c->a.host + k;
    const double h = 1e-3, old = *x;
    double e[5] = {0};
    for (int p = -2; p <= 2; p++) {
      *x = old + p * h;
      plain_product(c);
      for (int64_t q = 0; q < c->p_row.ld; q++) e[p + 2] += c->grad_p.host[q] * c->p.host[q];
    }
    *x = old;
    near_one((8 * (e[3] - e[1]) - (e[4] - e[0])) / (12 * h), k < 0 ? grad_density : grad[k], 1e-9);
  }
  free(grad);
  free_product(b, c);
  mlff_backend_close(b);
}
END_TEST

/* ---- densities --------------------------------------------------------------------------------------------------- */

/* Forward with a bias, backward with the adjoint of the density; the density is one of many in its row. */
static void check_divide(mlff_backend *b, test_rng *rng, int64_t ld, int64_t n, int backward)
{
  enum { N_BIAS = 16 };
  double densities[N_ATOMS * MLFF_NEQUIP_BLOCK];
  for (int64_t k = 0; k < n * MLFF_NEQUIP_BLOCK; k++) densities[k] = test_uniform(rng, 1, 3);
  atoms_case atoms = make_atoms(b, n);
  array in = random_array(b, rng, n * ld), z = random_array(b, rng, n * ld), out = random_array(b, rng, n * ld + TAIL);
  array density = array_of(b, densities, n * MLFF_NEQUIP_BLOCK), bias = random_array(b, rng, N_SLOTS * N_BIAS);
  array grad = random_array(b, rng, n * MLFF_NEQUIP_BLOCK + TAIL);
  const mlff_mace_divide_args a = {.atoms = atoms.args,
                                   .ld = ld,
                                   .n_bias = N_BIAS,
                                   .in = in.buf.data,
                                   .density = ld == 304 ? mlff_at(b, density.buf.data, n ? 2 : 0) : NULL,
                                   .bias = backward ? NULL : bias.buf.data,
                                   .z = z.buf.data,
                                   .out = out.buf.data,
                                   .grad_density = backward ? mlff_at(b, grad.buf.data, n ? 2 : 0) : NULL};
  for (int64_t i = 0; i < n; i++) {
    const double d = ld == 304 ? density.host[i * MLFF_NEQUIP_BLOCK + 2] : 1;
    double sum = 0;
    for (int64_t c = 0; c < ld; c++) {
      double *x = &out.host[i * ld + c];
      *x = slot_of(i) < 0 ? 0 : in.host[i * ld + c] / d;
      if (!backward && slot_of(i) >= 0 && c < N_BIAS) *x += bias.host[slot_of(i) * N_BIAS + c];
      sum -= *x * z.host[i * ld + c] / d;
    }
    if (backward && slot_of(i) >= 0) grad.host[i * MLFF_NEQUIP_BLOCK + 2] = sum;
  }
  b->ops->mace_divide(b, &a);
  check_array(b, "out", &out, 10);
  check_array(b, "grad_density", &grad, 40);
  free_arrays(b, (array *[]){&in, &z, &out, &density, &bias, &grad}, 6);
  free_atoms(b, &atoms);
}

START_TEST(divide)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {26};
  for (int n = 0; n <= N_ATOMS; n += n ? N_ATOMS - 1 : 1)
    for (int backward = 0; backward < 2; backward++) {
      check_divide(b, &rng, 16, n, backward);
      check_divide(b, &rng, 304, n, backward);
    }
  mlff_backend_close(b);
}
END_TEST

/* ---- readout ----------------------------------------------------------------------------------------------------- */

/* silu or tanh times the gain, and its slope */
static double plain_activation(const mlff_mace_readout_args *a, double v, double *slope)
{
  const double s = 1 / (1 + exp(-v)), t = tanh(v);
  *slope = a->gain * (a->is_tanh ? 1 - t * t : s * (1 + v * (1 - s)));
  return a->gain * (a->is_tanh ? t : v * s);
}

/* The same as plain_readout with two hidden layers. */
static double plain_readout_twice(const mlff_mace_readout_args *a, const double *weight, const double *middle,
                                  const double *bias, const double *last, const double *x, double *grad)
{
  const int n = a->n_channels, n_hidden = a->n_hidden;
  double v[MLFF_MACE_HIDDEN], slope[MLFF_MACE_HIDDEN], sum = 0;
  for (int h = 0; h < n_hidden; h++) {
    double u = 0;
    for (int c = 0; c < n; c++) u += weight[h * n + c] * x[c];
    v[h] = plain_activation(a, u, &slope[h]);
  }
  memset(grad, 0, (size_t) n * sizeof *grad);
  for (int k = 0; k < n_hidden; k++) {
    double u = bias[k], d;
    for (int h = 0; h < n_hidden; h++) u += middle[k * n_hidden + h] * v[h];
    sum += last[k] * plain_activation(a, u, &d);
    for (int h = 0; h < n_hidden; h++)
      for (int c = 0; c < n; c++) grad[c] += last[k] * d * middle[k * n_hidden + h] * slope[h] * weight[h * n + c];
  }
  return sum;
}

/* o of scalars x, and do/dx in grad */
static double plain_readout(const mlff_mace_readout_args *a, const double *weight, const double *last, const double *x,
                            double *grad)
{
  double sum = 0;
  memset(grad, 0, (size_t) a->n_channels * sizeof *grad);
  for (int h = 0; h < (a->n_hidden ? a->n_hidden : 1); h++) {
    const double *w = weight + h * a->n_channels;
    double v = 0, slope = 1;
    for (int c = 0; c < a->n_channels; c++) v += w[c] * x[c];
    if (a->n_hidden) {
      v = last[h] * plain_activation(a, v, &slope);
      slope *= last[h];
    }
    sum += v;
    for (int c = 0; c < a->n_channels; c++) grad[c] += slope * w[c];
  }
  return sum;
}

static void check_readout(mlff_backend *b, test_rng *rng, int n_hidden, int64_t n, int add, int wanted, int n_layers)
{
  enum { CHANNELS = 32, LD = 48 };
  atoms_case atoms = make_atoms(b, n);
  array x = random_array(b, rng, n * LD), weight = random_array(b, rng, (n_hidden ? n_hidden : 1) * CHANNELS);
  const int64_t ld_last = n_hidden == 16 && n_layers == 1 ? 19 : 0; /* 0: one for all elements */
  array last = random_array(b, rng, n_hidden + 1 + (N_SLOTS - 1) * ld_last), energy = random_array(b, rng, n + TAIL);
  array grad = random_array(b, rng, n * LD + TAIL), middle = random_array(b, rng, n_hidden * n_hidden + 1);
  array bias = random_array(b, rng, n_hidden + 1);
  const mlff_mace_readout_args a = {.atoms = atoms.args,
                                    .n_channels = CHANNELS,
                                    .n_hidden = n_hidden,
                                    .ld = LD,
                                    .x = x.buf.data,
                                    .weight = weight.buf.data,
                                    .middle = n_layers == 2 ? middle.buf.data : NULL,
                                    .bias = n_layers == 2 ? bias.buf.data : NULL,
                                    .last = last.buf.data,
                                    .ld_last = ld_last,
                                    .gain = 1.7,
                                    .is_tanh = n_hidden == 5,
                                    .energy = wanted & 1 ? energy.buf.data : NULL,
                                    .grad = wanted & 2 ? grad.buf.data : NULL,
                                    .add_energy = add,
                                    .add_grad = add};
  for (int64_t i = 0; i < n; i++) {
    double slope[CHANNELS] = {0}, e = 0;
    if (slot_of(i) >= 0 && n_layers == 2)
      e = plain_readout_twice(&a, weight.host, middle.host, bias.host, last.host, x.host + i * LD, slope);
    else if (slot_of(i) >= 0)
      e = plain_readout(&a, weight.host, last.host + slot_of(i) * ld_last, x.host + i * LD, slope);
    if (wanted & 1) energy.host[i] = (add ? energy.host[i] : 0) + e;
    for (int c = 0; c < LD && wanted & 2; c++)
      grad.host[i * LD + c] = (add ? grad.host[i * LD + c] : 0) + (c < CHANNELS ? slope[c] : 0);
  }
  b->ops->mace_readout(b, &a);
  check_array(b, "energy", &energy, 20);
  check_array(b, "grad", &grad, 20);
  free_arrays(b, (array *[]){&x, &weight, &last, &energy, &grad, &middle, &bias}, 7);
  free_atoms(b, &atoms);
}

START_TEST(readout)
{
  mlff_backend *b = open_backend(_i);
  if (!b) return;
  test_rng rng = {25};
  for (int n = 0; n <= N_ATOMS; n += n ? N_ATOMS - 1 : 1)
    for (int add = 0; add < 2; add++)
      for (int wanted = 1; wanted < 4; wanted++) {
        check_readout(b, &rng, 0, n, add, wanted, 1);
        for (int n_layers = 1; n_layers < 3; n_layers++) {
          check_readout(b, &rng, 16, n, add, wanted, n_layers);
          check_readout(b, &rng, 5, n, add, wanted, n_layers);
          check_readout(b, &rng, 33, n, add, wanted, n_layers);
        }
      }
  mlff_backend_close(b);
}
END_TEST

static Suite *mace_suite(void)
{
  Suite *suite = suite_create("mace");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, select_element, 0, n_backends());
  tcase_add_loop_test(tcase, start, 0, n_backends());
  tcase_add_loop_test(tcase, products, 0, n_backends());
  tcase_add_test(tcase, plain_product_is_a_derivative);
  tcase_add_loop_test(tcase, divide, 0, n_backends());
  tcase_add_loop_test(tcase, readout, 0, n_backends());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(mace_suite);
}
