/* test_tensornet.c: TensorNet networks as a whole. Properties of all architectures are in test_properties.c, reference
 * numbers of matgl in tests/python/test_tensornet.py. */
#include "testmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

static test_model_options options_of(int k)
{
  static const char *const activations[] = {"silu", "tanh", "sigmoid", "softplus"};
  test_model_options o = test_three_elements();
  o.n_interactions = 1 + k % 3;
  o.n_features = k == 1 ? 19 : 8;
  o.n_basis = 3 + k;
  o.basis = k % 2 ? "gaussian" : "bessel";
  o.activation = activations[k % 4];
  o.is_so3 = k % 3 == 1;
  o.from_center = k / 2 % 2;
  o.cutoff = 3.6;
  o.seed = (uint64_t) k;
  return o;
}

enum { N_SHAPES = 5 };

/* Elements that are not in use change nothing. */
START_TEST(elements_in_use)
{
  test_model file = test_model_tensornet(options_of(_i));
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
  test_model file = test_model_tensornet(options_of(_i));
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
    ck_assert_msg(k ? off < 1e-9 : off > 1e-8, "%s intervals: %g", options.radial_intervals, off);
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
    {"n_features: 8", "n_features: 257", "n_features: is 257, expected 1 to 256"},
    {"n_layers: 3", "n_layers: 17", "n_layers: is 17, expected 1 to 16"},
    {"kind: bessel_smooth", "kind: bessel", "expected one of: bessel_smooth, gaussian"},
    {"kind: bessel_smooth", "kind: gaussian", "key 'exponent' is missing"},
    {"n: 5", "n: 33", "radial_basis.n: is 33, expected 1 to 32"},
    {"activation: sigmoid", "activation: relu", "expected one of: silu, tanh, sigmoid, softplus"},
    {"group: o3", "group: o2", "expected one of: o3, so3"},
    {"message_from: center", "message_from: both", "expected one of: neighbor, center"},
    {"norm_epsilon: 1.0e-5", "norm_epsilon: 0.0", "norm_epsilon: is 0, expected 1e-30 to 1"},
    {"n_layers: 3", "n_layers: 2", "tensor 'layers.2.mix_1.A'"},
    {"n_features: 8", "n_features: 9", "has shape"},
    {"group: o3", "group: o3\n  n_heads: 2", "tensornet.n_heads: unknown key"},
};

START_TEST(damaged_blocks)
{
  test_model file = test_model_tensornet(options_of(2));
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

static Suite *tensornet_suite(void)
{
  Suite *suite = suite_create("tensornet models");
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
  return test_main(tensornet_suite);
}
