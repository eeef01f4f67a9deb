/* testmodel_mace.c: random MACE networks: see testmodel.h. Polynomials are made of Clebsch-Gordan coefficients, so that
 * the models are equivariant. */
#include "testmodel_write.h"

#include "backend/nequip_cg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 4096, ORDERS = 4 };

/* Rows (M, i_1 <= .. <= i_degree, weight, value) of one polynomial. */
typedef struct row_list {
  int degree, n, n_weights;
  double rows[MOST_ROWS][6];
} row_list;

static int by_size(const void *a, const void *b)
{
  return *(const int *) a - *(const int *) b;
}

static void add_row(row_list *list, int component, const int *index, double value)
{
  int sorted[3];
  double *row = list->rows[list->n++];
  if (list->n == MOST_ROWS) abort();
  memcpy(sorted, index, sizeof sorted);
  qsort(sorted, (size_t) list->degree, sizeof *sorted, by_size);
  row[0] = component;
  for (int q = 0; q < list->degree; q++) row[1 + q] = sorted[q];
  row[list->degree + 1] = list->n_weights;
  row[list->degree + 2] = value;
}

static const mlff_cg_entry *coefficients(int l1, int l2, int l3, int *n)
{
#define ENTRY(a, b, c, count) \
  if (l1 == (a) && l2 == (b) && l3 == (c)) return *n = (count), mlff_cg_##a##b##c;
  MLFF_CG_TRIPLES(ENTRY)
#undef ENTRY
  *n = 0;
  return NULL;
}

/* A_l1 A_l2 coupled to order l; times the scalar A_00 if the degree is 3, and for l = 0 all A_l1 A_l2 A_l3. */
static void list_rows(row_list *list, int degree, int lmax, int l)
{
  *list = (row_list){.degree = degree};
  if (degree == 1) {
    for (int m = 0; m < 2 * l + 1; m++) add_row(list, m, (int[3]){l * l + m}, 1.0);
    list->n_weights = 1;
    return;
  }
  for (int l1 = 0; l1 <= lmax; l1++) {
    for (int l2 = l1; l2 <= lmax; l2++) {
      for (int l3 = 0; l3 <= lmax; l3++) {
        int n;
        const mlff_cg_entry *c = coefficients(l1, l2, l3, &n);
        const int is_triple = degree == 3 && l == 0;
        if (n == 0 || (l1 + l2 + l3) % 2 || (is_triple ? l3 < l2 : l3 != l)) continue;
        for (int q = 0; q < n; q++)
          add_row(list, is_triple ? 0 : c[q].k,
                  (int[3]){l1 * l1 + c[q].i, l2 * l2 + c[q].j, is_triple ? l3 * l3 + c[q].k : 0}, c[q].c);
        list->n_weights++;
      }
    }
  }
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static int is_last(const test_model_options *o, int t)
{
  return t == o->n_interactions - 1;
}

static int orders_out(const test_model_options *o, int t)
{
  return is_last(o, t) ? 1 : o->n_orders;
}

static int has_selector(const test_model_options *o, int t)
{
  return o->selects && t % 2 == 0;
}

static int has_density(const test_model_options *o, int t)
{
  return o->densities >> t & 1;
}

/* Channels of the features that neighbors receive. */
static int n_sent(const test_model_options *o, int t, int l)
{
  const int n = o->n_features - (t ? 2 + l : 1);
  return !o->is_nonlinear ? o->n_features : n > 1 ? n : 1;
}

static int degree_of(const test_model_options *o, int t)
{
  return 1 + (t + (int) o->seed) % 3;
}

/* Calls add for every polynomial, in the order of the key `products`. */
static void for_products(const test_model_options *o, row_list *list,
                         void (*add)(void *, const test_model_options *, int t, int l, const row_list *), void *to)
{
  for (int t = 0; t < o->n_interactions; t++)
    for (int l = 0; l < orders_out(o, t); l++)
      for (int degree = 1; degree <= degree_of(o, t); degree++) {
        list_rows(list, degree, o->lmax, l);
        add(to, o, t, l, list);
      }
}

static void put_shape(void *to, const test_model_options *o, int t, int l, const row_list *list)
{
  (void) o;
  test_put(to, "%s%d, %d", t + l + list->degree > 1 ? ", " : "", list->n, list->n_weights);
}

static void add_product(void *to, const test_model_options *o, int t, int l, const row_list *list)
{
  const int width = list->degree + 3;
  const int64_t rows[2] = {list->n, width},
                weights[3] = {o->is_common ? 1 : o->n_elements, list->n_weights, o->n_features};
  double *values = test_weights_add(to, 1.0, NULL, 2, rows, "layers.%d.product.l%d.degree_%d.rows", t, l, list->degree);
  for (int r = 0; r < list->n; r++) memcpy(values + r * width, list->rows[r], (size_t) width * sizeof *values);
  test_weights_add(to, 0.4, NULL, 3, weights, "layers.%d.product.l%d.degree_%d.weight", t, l, list->degree);
}

static void put_optional(test_writer *w, const test_model_options *o)
{
  if (o->is_common) test_put(w, "  product_weights: common\n");
  if (o->reads_last) test_put(w, "  readouts: last\n");
  if (o->reads_twice) test_put(w, "  n_readout_layers: 2\n");
  if (!o->is_nonlinear) return;
  test_put(w, "  nonlinear:\n    n_edge_first: %d\n    n_edge: [", n_sent(o, 0, 0));
  for (int l = 0; l < o->n_orders; l++) test_put(w, "%s%d", l ? ", " : "", n_sent(o, 1, l));
  test_put(w, "]\n    n_density: %d\n    norm_epsilon: 1.0e-5\n    activation_norm: 0.5955\n    gate_norm: 0.5415\n",
           o->width + 3);
}

static void put_block(test_writer *w, const test_model_options *o, row_list *list)
{
  static const char *const transforms[] = {"kind: none", "kind: agnesi, a: 1.0805, p: 4.5791, q: 0.9183",
                                           "kind: soft, a: 4.0"};
  test_put(w, "mace:\n  n_layers: %d\n  lmax: %d\n  n_orders: %d\n  n_channels: %d\n  degree: [", o->n_interactions,
           o->lmax, o->n_orders, o->n_features);
  for (int t = 0; t < o->n_interactions; t++) test_put(w, "%s%d", t ? ", " : "", degree_of(o, t));
  test_put(w, "]\n  skip: [");
  for (int t = 0; t < o->n_interactions; t++)
    test_put(w, "%s%s", t ? ", " : "", has_selector(o, t) ? "messages" : "features");
  test_put(w, "]\n  products: [");
  for_products(o, list, put_shape, w);
  test_put(w, "]\n  divisor: [");
  for (int t = 0; t < o->n_interactions; t++)
    test_put(w, "%s%s", t ? ", " : "", has_density(o, t) || o->is_nonlinear ? "density" : "average");
  test_put(w, "]\n  ");
  test_put_numbers(w, "avg_num_neighbors", o->n_interactions, 12.0, 0.5);
  test_put(w, "\n  radial_basis: {kind: %s, n: %d%s}\n  cutoff_function: {kind: polynomial, p: 5.0}\n",
           o->transform == 2 ? "gaussian" : "bessel", o->n_basis, o->transform == 2 ? ", coefficient: -1.2" : "");
  test_put(w, "  distance_transform: {%s}\n", transforms[o->transform]);
  test_put(w, "  radial_network: {hidden: [%d, %d], activation_norm: %s}\n", o->width, o->width + 1,
           o->is_nonlinear ? "1.0, fan_in: none" : "0.5955, fan_in: sqrt");
  put_optional(w, o);
  test_put(w, "  n_readout: %d\n  activation: %s\n  activation_norm: 0.5955\n", o->n_readout,
           o->transform == 2 ? "tanh" : "silu");
}

static void add_maps(test_weights *t, const test_model_options *o, int n_orders, int n_in, const char *name, int layer)
{
  for (int l = 0; l < n_orders; l++) {
    const int64_t shape[2] = {o->n_features, n_in};
    test_weights_add(t, 1.0, NULL, 2, shape, "layers.%d.%s.l%d", layer, name, l);
  }
}

/* A network with biases and layer norms. */
static void add_normed(test_weights *t, int n_matrices, const int *widths, const char *name, int layer)
{
  for (int k = 0; k < n_matrices; k++) {
    const int64_t shape[2] = {widths[k + 1], widths[k]};
    test_weights_add(t, 1 / sqrt(widths[k]), NULL, 2, shape, "layers.%d.%s.%d", layer, name, k);
    test_weights_add(t, 0.2, NULL, 1, shape, "layers.%d.%s.%d.bias", layer, name, k);
    if (k + 1 == n_matrices) continue;
    double *norm = test_weights_add(t, 0.2, NULL, 1, shape, "layers.%d.%s.%d.norm", layer, name, k);
    for (int q = 0; q < widths[k + 1]; q++) norm[q] += 1;
    test_weights_add(t, 0.2, NULL, 1, shape, "layers.%d.%s.%d.norm_bias", layer, name, k);
  }
}

/* What non-linear blocks have beyond plain ones. */
static void add_nonlinear(test_weights *t, const test_model_options *o, int layer, int n_weights)
{
  const int n = o->n_features, n_in = o->n_basis + 2 * n;
  const int64_t elements[2] = {n, o->n_elements}, square[2] = {n, n}, one = 1;
  test_weights_add(t, 1.0, NULL, 2, elements, "layers.%d.source", layer);
  test_weights_add(t, 1.0, NULL, 2, elements, "layers.%d.target", layer);
  add_normed(t, 3, (int[]){n_in, o->width, o->width + 1, n_weights}, "radial_mlp", layer);
  add_normed(t, 2, (int[]){n_in, o->width + 3, 1}, "density", layer);
  test_weights_add(t, 0.1, NULL, 1, &one, "layers.%d.alpha", layer)[0] += 3.0;
  test_weights_add(t, 0.1, NULL, 1, &one, "layers.%d.beta", layer)[0] += 1.0;
  for (int l = 0; l <= o->lmax; l++) test_weights_add(t, 0.4, NULL, 2, square, "layers.%d.linear_2.l%d", layer, l);
  for (int l = 0; l < (layer ? o->n_orders : 1); l++) {
    const int64_t shape[2] = {l ? n : n * (o->lmax + 1), n_sent(o, layer, l)};
    test_weights_add(t, 0.5, NULL, 2, shape, "layers.%d.linear_res.l%d", layer, l);
  }
}

static void add_messages(test_weights *t, const test_model_options *o, int layer)
{
  const int n_in = layer ? o->n_orders : 1;
  int n_rows[ORDERS] = {0}, n_all = 0;
  for (int l3 = 0; l3 <= o->lmax; l3++)
    for (int l1 = 0; l1 < n_in; l1++)
      for (int l2 = abs(l1 - l3); l2 <= l1 + l3 && l2 <= o->lmax; l2++)
        if ((l1 + l2 + l3) % 2 == 0) n_rows[l3] += n_sent(o, layer, l1), n_all += n_sent(o, layer, l1);
  const int widths[4] = {o->n_basis, o->width, o->width + 1, n_all};
  if (o->is_nonlinear) add_nonlinear(t, o, layer, n_all);
  for (int k = 0; k < 3 && !o->is_nonlinear; k++) {
    const int64_t shape[2] = {widths[k + 1], widths[k]};
    test_weights_add(t, k ? 1.2 : 3.0, NULL, 2, shape, "layers.%d.radial_mlp.%d", layer, k);
  }
  const int64_t density[2] = {1, o->n_basis};
  if (has_density(o, layer) && !o->is_nonlinear) test_weights_add(t, 2.0, NULL, 2, density, "layers.%d.density", layer);
  for (int l = 0; l < n_in; l++) {
    const int64_t shape[2] = {n_sent(o, layer, l), o->n_features};
    test_weights_add(t, 1.0, NULL, 2, shape, "layers.%d.linear_up.l%d", layer, l);
  }
  for (int l = 0; l <= o->lmax; l++) {
    const int64_t shape[2] = {o->is_nonlinear && l == 0 ? o->n_features * (o->lmax + 1) : o->n_features, n_rows[l]};
    test_weights_add(t,
                     o->is_nonlinear         ? 1.0
                     : has_density(o, layer) ? 0.07
                                             : 1.0,
                     NULL, 2, shape, "layers.%d.linear.l%d", layer, l);
  }
}

static void add_layer(test_weights *t, const test_model_options *o, int layer)
{
  const int n_in = layer ? o->n_orders : 1, n_out = orders_out(o, layer);
  const int n_skips = has_selector(o, layer) ? o->lmax + 1 : n_in < n_out ? n_in : n_out;
  const int64_t selector[3] = {o->n_elements, o->n_features, o->n_features};
  add_messages(t, o, layer);
  for (int l = 0; l < n_skips; l++)
    test_weights_add(t, o->is_nonlinear ? 1.0 : sqrt(o->n_elements), NULL, o->is_nonlinear ? 2 : 3,
                     selector + o->is_nonlinear, "layers.%d.skip.l%d", layer, l);
  add_maps(t, o, n_out, o->n_features, "product.linear", layer);
  const int n_hidden = is_last(o, layer) ? o->n_readout : 0;
  const int64_t first[2] = {n_hidden ? n_hidden : 1, o->n_features}, last[2] = {1, n_hidden};
  if (o->reads_last && !is_last(o, layer)) return;
  test_weights_add(t, 1.0, NULL, 2, first, "readout.%d.0", layer);
  if (n_hidden && o->reads_twice) {
    const int64_t middle[2] = {n_hidden, n_hidden};
    test_weights_add(t, 1.0, NULL, 2, middle, "readout.%d.1", layer);
    test_weights_add(t, 0.5, NULL, 1, middle, "readout.%d.1.bias", layer);
  }
  if (n_hidden) test_weights_add(t, 1.0, NULL, 2, last, "readout.%d.%d", layer, 1 + o->reads_twice);
}

test_model test_model_mace(test_model_options options)
{
  test_model_options o = test_with_defaults(options);
  if (!o.width) o.width = 20;
  if (!o.n_orders) o.n_orders = 1;
  if (o.n_readout < 0) o.n_readout = 0;
  if (o.is_nonlinear) o.selects = 0;
  test_writer w = {.text = NULL};
  test_weights t = {.rng = {o.seed + 1}};
  row_list *list = malloc(sizeof *list);
  test_put_head(&w, &o, "mace");
  put_block(&w, &o, list);
  test_put_tail(&w, &o);
  const int64_t embedding[2] = {o.n_features, o.n_elements}, n = o.n_basis, one = 1;
  const int is_gaussian = o.transform == 2;
  double *k = test_weights_add(&t, 0.05, NULL, 1, &n, is_gaussian ? "radial_centers" : "radial_frequencies");
  for (int b = 0; b < n; b++) k[b] += is_gaussian ? o.cutoff * b / o.n_basis : 3.141592653589793 * (b + 1) / o.cutoff;
  const int64_t n_elements = o.n_elements;
  double *radius = o.transform ? test_weights_add(&t, 0.05, NULL, 1, &n_elements, "covalent_radii") : NULL;
  for (int s = 0; radius && s < o.n_elements; s++) radius[s] += 0.5 + 0.2 * s;
  test_weights_add(&t, sqrt(o.n_elements), NULL, 2, embedding, "embedding");
  for (int layer = 0; layer < o.n_interactions; layer++) add_layer(&t, &o, layer);
  for_products(&o, list, add_product, &t);
  test_weights_add(&t, 0.1, NULL, 1, &one, "energy_scale")[0] += 1.0;
  free(list);
  return test_finish(&w, &t, o.is_double);
}
