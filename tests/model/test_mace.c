/* test_mace.c: MACE networks as a whole. Properties of all architectures are in test_properties.c, reference numbers of
 * mace-torch in tests/python/test_mace.py. */
#include "testmodel.h"

static test_model_options options_of(int k)
{
  test_model_options o = test_three_elements();
  o.n_interactions = 1 + k % 3;
  o.n_features = k == 1 ? 19 : 8;
  o.n_basis = 6;
  o.n_readout = k % 2 ? 6 : -1;
  o.lmax = 1 + k % 3;
  o.n_orders = 1 + k % 2;
  o.selects = k / 2 % 2;
  o.densities = k == 3 ? 1 : k == 4 ? 2 : 0;
  o.transform = k < 3 || k > 4 ? 0 : k - 2;
  o.is_nonlinear = o.is_common = k == 5;
  o.cutoff = 3.6;
  o.seed = (uint64_t) k;
  return o;
}

enum { N_SHAPES = 6 };

/* Elements that are not in use change nothing, though fan-in counts them. */
START_TEST(elements_in_use)
{
  test_model file = test_model_mace(options_of(_i));
  test_elements_in_use(&file);
  test_model_free(&file);
}
END_TEST

START_TEST(tables)
{
  test_model file = test_model_mace(options_of(_i));
  test_radial_tables(&file, 1e-6);
  test_model_free(&file);
}
END_TEST

static const struct {
  const char *old, *changed, *text;
} damages[] = {
    {"n_layers: 3", "n_layers: 17", "n_layers: is 17, expected 1 to 16"},
    {"lmax: 3", "lmax: 4", "lmax: is 4, expected 0 to 3"},
    {"n_orders: 1", "n_orders: 5", "n_orders: is 5, expected 1 to 4"},
    {"n_channels: 8", "n_channels: 257", "n_channels: is 257, expected 1 to 256"},
    {"degree: [", "degree: [4, ", "degree: expected 3 to 3 integers from 1 to 3"},
    {"skip: [messages", "skip: [none", "skip: 'none': use features or messages"},
    {"skip: [messages", "skip: [messages, messages", "skip: expected 3 words"},
    {"products: [", "products: [-1, ", "mace.products: -1 rows with 1 weights"},
    {"avg_num_neighbors: [12", "avg_num_neighbors: [0", "avg_num_neighbors: 0 is not positive"},
    {"kind: polynomial", "kind: cosine", "expected one of: polynomial, xplor"},
    {"n_readout: 0", "n_readout: 65", "n_readout: is 65, expected 0 to 64"},
    {"bessel, n: 6", "bessel, n: 7", "tensor 'radial_frequencies' has shape [6], expected [7]"},
    {"bessel, n: 6", "bessel, n: 6, prefactor: 2", "radial_basis.prefactor: unknown key"},
    {"kind: bessel", "kind: chebyshev", "kind: is 'chebyshev', expected one of: bessel, gaussian"},
    {"kind: bessel", "kind: gaussian", "key 'coefficient' is missing"},
    {"kind: none", "kind: agnesi, a: 1, p: 4, q: 3.5", "p: is 4, expected 4.5 to 64"},
    {"kind: none", "kind: soft, a: 4", "tensor 'covalent_radii' is missing"},
    {"divisor: [average", "divisor: [number", "mace.divisor: 'number': use average or density"},
    {"divisor: [average", "divisor: [density", "tensor 'layers.0.density' is missing"},
    {"activation: silu", "activation: relu", "activation: is 'relu', expected one of: silu, tanh"},
    {"\nprovenance:",
     "\nrepulsion: {kind: mace, p: 5, exponent: 0.3, prefactor: 0.4, scale: 1, radii: {H: 1, C: 1}}"
     "\nprovenance:",
     "radii: key 'O' is missing"},
};

START_TEST(damaged_blocks)
{
  test_model file = test_model_mace(options_of(2));
  test_damage(&file, damages[_i].old, damages[_i].changed, damages[_i].text);
  test_model_free(&file);
}
END_TEST

static const struct {
  const char *old, *changed, *text;
} nonlinear_damages[] = {
    {"skip: [features", "skip: [messages", "layer 0 has skip messages and divisor density, needs features and density"},
    {"divisor: [density", "divisor: [average", "layer 0 has skip features and divisor average"},
    {"fan_in: none", "fan_in: sqrt", "radial_network must have fan_in none and a last width below 128"},
    {"hidden: [20, 21]", "hidden: [20, 128]", "a last width below 128"},
    {"n_edge: [", "n_edge: [0, ", "n_edge: expected 2 to 2 integers from 1 to 256"},
    {"n_edge_first: 7", "n_edge_first: 6", "tensor 'layers.0.linear_up.l0' has shape [7, 8], expected [6, 8]"},
    {"n_density: 23", "n_density: 22", "tensor 'layers.0.density.0' has shape [23, 22], expected [22, 22]"},
    {"n_density: 23", "n_density: 128", "n_density: is 128, expected 1 to 127"},
    {"product_weights: common", "product_weights: element", "has shape [1, "},
    {"product_weights: common", "readouts: first", "is 'first', expected one of: all, last"},
    {"product_weights: common", "n_readout_layers: 3", "n_readout_layers: is 3, expected 1 to 2"},
};

START_TEST(damaged_nonlinear_blocks)
{
  test_model file = test_model_mace(options_of(5));
  test_damage(&file, nonlinear_damages[_i].old, nonlinear_damages[_i].changed, nonlinear_damages[_i].text);
  test_model_free(&file);
}
END_TEST

static Suite *mace_suite(void)
{
  Suite *suite = suite_create("mace models");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, elements_in_use, 0, N_SHAPES);
  tcase_add_loop_test(tcase, tables, 0, N_SHAPES);
  tcase_add_loop_test(tcase, damaged_blocks, 0, sizeof damages / sizeof *damages);
  tcase_add_loop_test(tcase, damaged_nonlinear_blocks, 0, sizeof nonlinear_damages / sizeof *nonlinear_damages);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(mace_suite);
}
