/* testmodel_nequip.c: random NequIP networks: see testmodel.h. */
#include "testmodel_write.h"

#include <math.h>
#include <stdlib.h>

enum { N_EMBEDDING = 5 };

/* Channels of order l: odd numbers, none a multiple of another. */
static int channels(const test_model_options *o, int l)
{
  return l == 0 ? o->n_features : o->n_features / (2 * l) + 2;
}

/* Radial weights of the paths to order l3, which are the inputs of its linear_2. */
static int n_inputs(const test_model_options *o, int lmax_in, int n_first, int l3)
{
  int n = 0;
  for (int l1 = 0; l1 <= lmax_in; l1++)
    for (int l2 = abs(l1 - l3); l2 <= l1 + l3 && l2 <= o->lmax; l2++)
      if (o->is_sevennet || (l1 + l2 + l3) % 2 == 0) n += lmax_in || !n_first ? channels(o, l1) : n_first;
  return n;
}

/* Neither is as in Nequix. */
static int is_scaled(const test_model_options *o)
{
  return o->is_sevennet || o->is_package;
}

/* Keys of the package nequip. */
static void put_elements(test_writer *w, const test_model_options *o)
{
  test_put(w, "  n_embedding: %d\n  self_connection: element\n  readout_activation_norm: 0.7\n  ", N_EMBEDDING);
  test_put_numbers(w, "neighbor_divisor", o->n_elements, 0.5, 0.25);
  test_put(w, "\n");
}

static void put_block(test_writer *w, const test_model_options *o)
{
  test_put(w, "nequip:\n  n_layers: %d\n  n_channels: [", o->n_interactions);
  for (int l = 0; l <= o->lmax; l++) test_put(w, "%s%d", l ? ", " : "", channels(o, l));
  test_put(w, "]\n  lmax: %d\n  paths: %s\n  embedding: %s\n  ", o->lmax, o->is_sevennet ? "all" : "even",
           o->is_package    ? "element"
           : o->is_sevennet ? "linear"
                            : "one_hot");
  test_put_numbers(w, "message_divisor", o->n_interactions, o->is_sevennet ? 9.0 : 4.0, 0.5);
  test_put(w, "\n  radial_basis: {kind: %s, n: %d}\n", is_scaled(o) ? "trained" : "bessel", o->n_basis);
  if (o->is_sevennet)
    test_put(w, "  cutoff_function: {kind: xplor, onset: %.17g}\n", 0.75 * o->cutoff);
  else
    test_put(w, "  cutoff_function: {kind: polynomial, p: 5.0}\n");
  test_put(w, "  radial_network: {hidden: [%d, %d], activation_norm: %g, fan_in: %s}\n", o->width, o->width + 1,
           is_scaled(o) ? 0.5955 : 1.0, is_scaled(o) ? "sqrt" : "none");
  test_put(w, "  norm: {kind: %s}\n  activation_norm: 0.5964\n  n_readout: [%s]\n",
           is_scaled(o) ? "none" : "rms, epsilon: 1.0e-12", is_scaled(o) ? "5" : "");
  if (o->is_package) put_elements(w, o);
}

/* Normal random numbers of size `scale`, [n_out][n_in], or a vector. */
static void add(test_weights *t, double scale, int64_t n_out, int64_t n_in, const char *format, int layer, int k)
{
  const int64_t shape[2] = {n_out, n_in};
  char name[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(name, sizeof name, format, layer, k);
#pragma GCC diagnostic pop
  test_weights_add(t, scale, NULL, n_in ? 2 : 1, shape, "%s", name);
}

static void add_network(test_weights *t, const test_model_options *o, int layer, int n_weights)
{
  const int widths[4] = {o->n_basis, o->width, o->width + 1, n_weights};
  for (int k = 0; k < 3; k++) /* the first sees a basis of sine waves and what is left of it beyond the first shell */
    add(t, (k ? 1.5 : 4.0) / (is_scaled(o) ? 1.0 : sqrt(widths[k])), widths[k + 1], widths[k],
        "layers.%d.radial_mlp.%d", layer, k);
}

/* In the package a matrix for each element, and none in layer 0. */
static void add_skip(test_weights *t, const test_model_options *o, int layer, int l, int n_out, int n_in)
{
  const int64_t shape[3] = {n_out, n_in, N_EMBEDDING};
  if (!o->is_package)
    add(t, 0.7, n_out, n_in, "layers.%d.skip.l%d", layer, l);
  else if (layer)
    test_weights_add(t, 0.7, NULL, 3, shape, "layers.%d.skip.l%d", layer, l);
}

static void add_layer(test_weights *t, const test_model_options *o, int layer)
{
  const int is_last = layer == o->n_interactions - 1, lmax_in = layer ? o->lmax : 0;
  const int n_embedding = o->is_package ? N_EMBEDDING : o->is_sevennet ? o->n_features : o->n_elements;
  const int n_first = layer ? 0 : n_embedding;
  int n_weights = 0, n_gates = 0;
  for (int l = 0; l <= (is_last ? 0 : o->lmax); l++) {
    n_weights += n_inputs(o, lmax_in, n_first, l);
    if (l) n_gates += channels(o, l);
  }
  add_network(t, o, layer, n_weights);
  for (int l = 0; l <= lmax_in; l++) {
    const int n = n_first ? n_first : channels(o, l);
    add(t, 1.0, n, n, "layers.%d.linear_1.l%d", layer, l);
  }
  for (int l = 0; l <= (is_last ? 0 : o->lmax); l++) {
    const int n_out = channels(o, l) + (l ? 0 : n_gates), n_in = n_first ? n_first : channels(o, l);
    add(t, 1.0, n_out, n_inputs(o, lmax_in, n_first, l), "layers.%d.linear_2.l%d", layer, l);
    if (l <= lmax_in) add_skip(t, o, layer, l, n_out, n_in);
    if (!is_scaled(o)) add(t, 1.5, n_out, 0, "layers.%d.norm.l%d", layer, l);
  }
}

test_model test_model_nequip(test_model_options options)
{
  test_model_options o = test_with_defaults(options);
  if (!o.width) o.width = 20;
  test_writer w = {.text = NULL};
  test_weights t = {.rng = {o.seed + 1}};
  test_put_head(&w, &o, "nequip");
  put_block(&w, &o);
  test_put_tail(&w, &o);
  if (is_scaled(&o)) {
    const int64_t embedding[2] = {o.is_package ? N_EMBEDDING : o.n_features, o.n_elements}, n = o.n_basis;
    double *k = test_weights_add(&t, 0.05, NULL, 1, &n, "radial_frequencies");
    for (int b = 0; b < n; b++) k[b] += 3.141592653589793 * (b + 1) / o.cutoff;
    test_weights_add(&t, 1.0, NULL, 2, embedding, "embedding");
  }
  for (int layer = 0; layer < o.n_interactions; layer++) add_layer(&t, &o, layer);
  add(&t, 1.0, is_scaled(&o) ? 5 : 1, o.n_features, "readout.%d", 0, 0);
  if (is_scaled(&o)) add(&t, 1.0, 1, 5, "readout.%d", 1, 0);
  const int64_t n_elements = o.n_elements;
  double *scale = test_weights_add(&t, 0.1, NULL, 1, &n_elements, "energy_scale");
  for (int s = 0; s < o.n_elements; s++) scale[s] += 1.0;
  return test_finish(&w, &t, o.is_double);
}
