/* test_tensornet.c: TensorNet networks as a whole. Properties of all architectures are in test_properties.c, reference
 * numbers of matgl in tests/python/test_tensornet.py. */
#include "testmodel.h"

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
  test_elements_in_use(&file);
  test_model_free(&file);
}
END_TEST

START_TEST(tables)
{
  test_model file = test_model_tensornet(options_of(_i));
  test_radial_tables(&file, 1e-8);
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
  test_damage(&file, damages[_i].old, damages[_i].changed, damages[_i].text);
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
