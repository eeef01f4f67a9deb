/* testmodel_tensornet.c: random TensorNet networks: see testmodel.h. */
#include "testmodel_write.h"

#include <math.h>
#include <string.h>

static void put_block(test_writer *w, const test_model_options *o)
{
  const int is_gaussian = !strcmp(o->basis, "gaussian");
  test_put(w, "tensornet:\n  n_features: %d\n  n_layers: %d\n", o->n_features, o->n_interactions);
  test_put(w, "  radial_basis: {kind: %s, n: %d%s}\n", is_gaussian ? "gaussian" : "bessel_smooth", o->n_basis,
           is_gaussian ? ", exponent: 0.7" : "");
  test_put(w, "  activation: %s\n  group: %s\n  message_from: %s\n  norm_epsilon: 1.0e-5\n  energy_scale: 0.7\n",
           o->activation ? o->activation : "silu", o->is_so3 ? "so3" : "o3", o->from_center ? "center" : "neighbor");
}

/* NAME.I, NAME.A and NAME.S */
static void add_mix(test_weights *t, int f, const char *name)
{
  const int64_t shape[2] = {f, f};
  for (const char *part = "IAS"; *part; part++)
    test_weights_add(t, 1.0 / sqrt(f), NULL, 2, shape, "%s.%c", name, *part);
}

static void add_norm(test_weights *t, int n, const char *name)
{
  const int64_t shape = n;
  double *gain = test_weights_add(t, 0.2, NULL, 1, &shape, "%s.weight", name);
  for (int k = 0; k < n; k++) gain[k] += 1.0;
  test_weights_add(t, 0.2, NULL, 1, &shape, "%s.bias", name);
}

static void add_embedding(test_weights *t, const test_model_options *o)
{
  const int f = o->n_features;
  const int64_t species[2] = {o->n_elements, f}, square[2] = {f, f};
  char name[64];
  test_weights_add(t, 1.0, NULL, 2, species, "embedding.species");
  test_weights_add(t, 1.0 / sqrt(f), NULL, 2, square, "embedding.pair.center");
  test_weights_add(t, 1.0 / sqrt(f), NULL, 2, square, "embedding.pair.neighbor");
  test_weights_add(t, 0.3, NULL, 1, square, "embedding.pair.bias");
  for (const char *part = "IAS"; *part; part++) {
    snprintf(name, sizeof name, "embedding.radial.%c", *part);
    test_add_linear(t, name, f, o->n_basis, 1, 0.7);
  }
  add_norm(t, f, "embedding.norm");
  test_add_linear(t, "embedding.scalar.0", 2 * f, f, 1, 1.2);
  test_add_linear(t, "embedding.scalar.1", 3 * f, 2 * f, 1, 1.2);
  add_mix(t, f, "embedding.mix");
}

static void add_layer(test_weights *t, const test_model_options *o, int layer)
{
  const int f = o->n_features, widths[4] = {o->n_basis, f, 2 * f, 3 * f};
  char name[64];
  for (int k = 0; k < 3; k++) {
    snprintf(name, sizeof name, "layers.%d.radial.%d", layer, k);
    test_add_linear(t, name, widths[k + 1], widths[k], 1, 1.2);
  }
  for (int k = 1; k <= 2; k++) {
    snprintf(name, sizeof name, "layers.%d.mix_%d", layer, k);
    add_mix(t, f, name);
  }
}

test_model test_model_tensornet(test_model_options options)
{
  const test_model_options o = test_with_defaults(options);
  const int f = o.n_features;
  const int64_t n = o.n_basis;
  test_writer w = {.text = NULL};
  test_weights t = {.rng = {o.seed + 1}};
  char name[64];
  test_put_head(&w, &o, "tensornet");
  put_block(&w, &o);
  test_put_tail(&w, &o);
  if (!strcmp(o.basis, "gaussian")) {
    double *centers = test_weights_add(&t, 0.1, NULL, 1, &n, "radial.centers");
    for (int k = 0; k < n; k++) centers[k] += (o.cutoff + 1) * k / (double) n;
  }
  add_embedding(&t, &o);
  for (int layer = 0; layer < o.n_interactions; layer++) add_layer(&t, &o, layer);
  add_norm(&t, 3 * f, "out.norm");
  test_add_linear(&t, "out.linear", f, 3 * f, 1, 1.2);
  for (int branch = 0; branch < 2; branch++) {
    for (int k = 0; k < 4; k++) {
      snprintf(name, sizeof name, "readout.%s.%d", branch ? "gate" : "value", k);
      test_add_linear(&t, name, k < 3 ? f : 1, f, 1, 1.6);
    }
  }
  return test_finish(&w, &t, o.is_double);
}
