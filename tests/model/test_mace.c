/* test_mace.c: MACE networks as a whole. Properties of all architectures are in test_properties.c, reference numbers of
 * mace-torch in tests/python/test_mace.py. */
#include "testmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

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
  o.transform = k < 3 ? 0 : k - 2;
  o.cutoff = 3.6;
  o.seed = (uint64_t) k;
  return o;
}

enum { N_SHAPES = 5 };

/* Elements that are not in use change nothing, though fan-in counts them. */
START_TEST(elements_in_use)
{
  test_model file = test_model_mace(options_of(_i));
  test_atoms water = test_water();
  test_atoms_species(&water, hco, 3);
  mlff_model *all = test_model_open(&file, "fp64"), *two = test_model_open_for(&file, "fp64", NULL, &water);
  test_answer a = test_evaluate(all, &water), b = test_evaluate(two, &water);
  ck_assert_double_gt(fabs(a.result.forces[1][1]) + fabs(a.result.forces[1][2]), 1e-3);
  near_all(b.result.atom_energy, a.result.atom_energy, water.n, 1e-13, 1e-13);
  near_all(b.result.forces[0], a.result.forces[0], 3 * water.n, 1e-12, 1e-12);
  test_answer_free(&a);
  test_answer_free(&b);
  mlff_model_close(all);
  mlff_model_close(two);
  test_atoms_free(&water);
  test_model_free(&file);
}
END_TEST

/* Tables of the radial networks come close to the networks themselves. */
START_TEST(tables)
{
  test_model file = test_model_mace(options_of(_i));
  test_atoms water = test_water();
  test_atoms_species(&water, hco, 3);
  mlff_model *exact = test_model_open(&file, "fp64");
  const double energy = test_energy(exact, &water);
  for (int k = 0; k < 2; k++) {
    const mlff_options options = {.radial_intervals = k ? "4096" : "8", .precision = "fp64", .skip_self_test = 1};
    mlff_model *model = NULL;
    mlff_error error = {.code = MLFF_OK};
    test_ok(test_model_try(&file, &options, &model, &error), error);
    const double off = fabs(test_energy(model, &water) - energy);
    ck_assert_msg(k ? off < 1e-9 : off > 1e-6, "%s intervals: %g", options.radial_intervals, off);
    mlff_model_close(model);
  }
  mlff_model_close(exact);
  test_atoms_free(&water);
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
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  test_model_edit(&file, damages[_i].old, damages[_i].changed);
  const mlff_status status = test_model_try(&file, NULL, &model, &error);
  ck_assert_int_ne(status, MLFF_OK);
  ck_assert_msg(strstr(error.text, damages[_i].text) != NULL, "%s: %s", damages[_i].changed, error.text);
  ck_assert_ptr_null(model);
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
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(mace_suite);
}
