/* test_nequip_files.c: model files of NequIP networks that do not fit together, and option radial_intervals: one clear
 * error each. Numbers and tensors are those of what a converter that stopped halfway leaves. */
#include "testmodel.h"

#include "base/arena.h"
#include "model/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEQUIX, SEVENNET, PACKAGE };

static test_model make_model(int kind)
{
  test_model_options o = test_three_elements();
  o.n_features = 11;
  o.n_interactions = 3;
  o.n_basis = 6;
  o.lmax = 3;
  o.is_sevennet = kind == SEVENNET;
  o.is_package = kind == PACKAGE;
  return test_model_nequip(o);
}

/* ---- the block --------------------------------------------------------------------------------------------------- */

static const struct {
  int kind;
  const char *old, *changed, *text;
} damages[] = {
    {0, "message_divisor: [4, 4.5, 5]", "message_divisor: [4, 4.5]", "message_divisor: has 2 numbers, expected 3"},
    {0, "message_divisor: [4, 4.5, 5]", "message_divisor: [4, 4.5, 5, 6]", "has 4 numbers, expected 3"},
    {0, "message_divisor: [4, 4.5, 5]", "message_divisor: [4, 0, 5]", "message_divisor: 0 is not positive"},
    {0, "message_divisor: [4, 4.5, 5]", "message_divisor: [4, 4.5, -5]", "message_divisor: -5 is not positive"},
    {0, "message_divisor: [4, 4.5, 5]", "message_divisor: [.nan, 4.5, 5]", "message_divisor[0]: '.nan'"},
    {0, "n_channels: [11, 7, 4, 3]", "n_channels: [11, 7, 4, 3, 2]",
     "n_channels: expected 1 to 4 integers from 1 to 256"},
    {0, "lmax: 3", "lmax: 2", "n_channels: expected 1 to 3 integers"},
    {0, "lmax: 3", "lmax: 4", "lmax: is 4, expected 0 to 3"},
    {0, "n_channels: [11, 7, 4, 3]", "n_channels: []", "n_channels: expected 1 to 4 integers"},
    {0, "n_channels: [11, 7, 4, 3]", "n_channels: [11, 0, 4, 3]", "n_channels: expected 1 to 4 integers"},
    {0, "n_channels: [11, 7, 4, 3]", "n_channels: [257, 7, 4, 3]", "n_channels: expected 1 to 4 integers"},
    {0, "n_channels: [11, 7, 4, 3]", "n_channels: [11, 7.5, 4, 3]", "n_channels: expected 1 to 4 integers"},
    {0, "n_channels: [11, 7, 4, 3]", "n_channels: [256, 256, 256, 256]", "at most 4096 are supported"},
    {0, "n_layers: 3", "n_layers: 17", "n_layers: is 17, expected 1 to 16"},
    {0, "n_layers: 3", "n_layers: 2", "has 3 numbers, expected 2"},
    {0, "paths: even", "paths: odd", "paths: is 'odd', expected one of: all, even"},
    {0, "embedding: one_hot", "embedding: table", "expected one of: linear, one_hot, element"},
    {0, "kind: bessel", "kind: gaussian", "expected one of: bessel, trained"},
    {0, "kind: polynomial", "kind: cosine", "expected one of: polynomial, xplor"},
    {0, "kind: polynomial, p: 5.0", "kind: xplor, p: 5.0", "key 'onset' is missing"},
    {0, "p: 5.0", "p: 1.5", "p: is 1.5, expected 2 to 64"},
    {0, "p: 5.0", "p: 5.0, onset: 3.0", "onset: unknown key"},
    {1, "onset: 3", "onset: 4", "onset: is 4, expected 0 to"},
    {0, "hidden: [20, 21]", "hidden: []", "hidden: expected 1 to 4 integers from 1 to 128"},
    {0, "hidden: [20, 21]", "hidden: [20, 129]", "hidden: expected 1 to 4 integers from 1 to 128"},
    {0, "hidden: [20, 21]", "hidden: [1, 1, 1, 1, 1]", "hidden: expected 1 to 4 integers from 1 to 128"},
    {0, "fan_in: none", "fan_in: cubic", "expected one of: none, sqrt"},
    {0, "norm: {kind: rms, epsilon: 1.0e-12}", "norm: {kind: layer}", "expected one of: none, rms"},
    {0, "norm: {kind: rms, epsilon: 1.0e-12}", "norm: {kind: rms}", "key 'epsilon' is missing"},
    {0, "activation_norm: 0.5964", "activation_norm: 0", "activation_norm: is 0, expected 0.001 to 1000"},
    {0, "n_readout: []", "n_readout: [1, 1, 1, 1, 1]", "n_readout: expected 0 to 4 integers"},
    {0, "n_readout: []", "n_readout: []\n  n_heads: 1", "nequip.n_heads: unknown key"},
    {0, "n_readout: []", "n_readout: [5]", "tensor 'readout.1' is missing"},
    {1, "n_readout: [5]", "n_readout: [6]", "tensor 'readout.1' has shape [1, 5], expected [1, 6]"},
    {1, "n_readout: [5]", "n_readout: []", "tensor 'readout.0' has shape [5, 11], expected [1, 11]"},
    {1, "norm: {kind: none}", "norm: {kind: rms, epsilon: 1.0e-12}", "tensor 'layers.0.norm.l0' is missing"},
    {0, "norm: {kind: rms, epsilon: 1.0e-12}", "norm: {kind: none}", "tensor 'layers.0.norm.l0' is not part of"},
    {1, "kind: trained", "kind: bessel", "tensor 'radial_frequencies' is not part of"},
    {0, "paths: even", "paths: all", "expected ["},
    {0, "embedding: one_hot", "embedding: linear", "tensor 'embedding' is missing"},
    {0, "embedding: one_hot", "embedding: element", "key 'n_embedding' is missing"},
    {0, "n_readout: []", "n_readout: []\n  self_connection: element",
     "self_connection element needs embedding element"},
    {0, "n_readout: []", "n_readout: []\n  readout_activation_norm: 0.7",
     "readout_activation_norm: expected n_readout with one integer from 1 to 64"},
    {PACKAGE, "n_readout: [5]", "n_readout: [65]", "readout_activation_norm: expected n_readout with one integer"},
    {PACKAGE, "n_readout: [5]", "n_readout: [5, 5]", "readout_activation_norm: expected n_readout with one integer"},
    {PACKAGE, "self_connection: element", "self_connection: none", "expected one of: linear, element"},
    {PACKAGE, "self_connection: element", "self_connection: linear", "tensor 'layers.0.skip.l0' is missing"},
    {PACKAGE, "n_embedding: 5", "n_embedding: 6", "tensor 'embedding' has shape [5, 3], expected [6, 3]"},
    {PACKAGE, "n_embedding: 5", "n_embedding: 257", "n_embedding: is 257, expected 1 to 256"},
    {PACKAGE, "neighbor_divisor: [0.5, 0.75, 1]", "neighbor_divisor: [0.5, 0.75]", "has 2 numbers, expected 3"},
    {PACKAGE, "neighbor_divisor: [0.5, 0.75, 1]", "neighbor_divisor: [0.5, 0, 1]",
     "neighbor_divisor: 0 is not positive"},
};
enum { N_DAMAGES = sizeof damages / sizeof *damages };

START_TEST(damaged_blocks)
{
  test_model m = make_model(damages[_i].kind);
  test_damage(&m, damages[_i].old, damages[_i].changed, damages[_i].text);
  test_model_free(&m);
}
END_TEST

/* ---- the tensors ------------------------------------------------------------------------------------------------- */

enum { DROP, RENAME, TRANSPOSE, SHORTEN, NOT_FINITE };

static const struct {
  int kind, what;
  const char *name, *text;
} holes[] = {
    {0, DROP, "layers.1.skip.l2", "tensor 'layers.1.skip.l2' is missing"},
    {0, DROP, "layers.0.linear_1.l0", "tensor 'layers.0.linear_1.l0' is missing"},
    {0, DROP, "layers.0.radial_mlp.2", "tensor 'layers.0.radial_mlp.2' is missing"},
    {0, DROP, "layers.2.norm.l0", "tensor 'layers.2.norm.l0' is missing"},
    {0, DROP, "readout.0", "tensor 'readout.0' is missing"},
    {0, DROP, "energy_scale", "tensor 'energy_scale' is missing"},
    {PACKAGE, DROP, "layers.1.skip.l2", "tensor 'layers.1.skip.l2' is missing"},
    {PACKAGE, DROP, "readout.1", "tensor 'readout.1' is missing"},
    {PACKAGE, SHORTEN, "layers.2.skip.l0", "tensor 'layers.2.skip.l0' has shape [10, 11, 5], expected [11, 11, 5]"},
    {1, DROP, "embedding", "tensor 'embedding' is missing"},
    {1, DROP, "radial_frequencies", "tensor 'radial_frequencies' is missing"},
    {0, RENAME, "readout.0", "tensor 'readout.0' is missing"},
    {0, TRANSPOSE, "layers.1.linear_2.l1", "tensor 'layers.1.linear_2.l1' has shape [36, 7], expected [7, 36]"},
    {0, TRANSPOSE, "layers.2.radial_mlp.0", "tensor 'layers.2.radial_mlp.0' has shape [6, 20], expected [20, 6]"},
    {1, TRANSPOSE, "embedding", "tensor 'embedding' has shape [3, 11], expected [11, 3]"},
    {0, SHORTEN, "layers.1.norm.l0", "tensor 'layers.1.norm.l0' has shape [24], expected [25]"},
    {0, SHORTEN, "energy_scale", "tensor 'energy_scale' has shape [2], expected [3]"},
    {0, SHORTEN, "layers.0.linear_2.l3", "tensor 'layers.0.linear_2.l3' has shape [2, 3], expected [3, 3]"},
    {0, NOT_FINITE, "layers.2.linear_1.l3", "tensor 'layers.2.linear_1.l3' has a value that is not finite"},
};
enum { N_HOLES = sizeof holes / sizeof *holes };

/* Copies the weights of a model, one tensor aside. */
static void damage_tensor(test_model *m, int what, const char *name)
{
  mlff_arena arena = {0};
  mlff_tensor *tensors;
  mlff_error error = {.code = MLFF_OK};
  test_weights w = {.n = 0};
  int n, found = 0;
  test_ok(mlff_safetensors_parse("weights", m->weights, m->weights_size, &arena, &tensors, &n, &error), error);
  for (int k = 0; k < n; k++) {
    const mlff_tensor *t = &tensors[k];
    const int is_it = !strcmp(t->name, name), action = is_it ? what : -1;
    int64_t shape[3] = {t->shape[0], t->rank > 1 ? t->shape[1] : 0, t->rank > 2 ? t->shape[2] : 0};
    found += is_it;
    if (action == DROP) continue;
    if (action == TRANSPOSE) shape[0] = t->shape[1], shape[1] = t->shape[0];
    if (action == SHORTEN) shape[0]--;
    double *values = malloc((size_t) t->n * sizeof *values);
    memcpy(values, (const char *) m->weights + t->begin, (size_t) t->n * sizeof *values);
    if (action == NOT_FINITE) values[t->n - 1] = INFINITY;
    test_weights_add(&w, 1.0, values, t->rank, shape, "%s%s", action == RENAME ? "old." : "", t->name);
    free(values);
  }
  ck_assert_int_eq(found, name != NULL && strcmp(name, "") != 0);
  if (!found) test_weights_add(&w, 1.0, NULL, 1, (int64_t[]){3}, "atom_energies");
  void *data;
  size_t size;
  test_weights_pack(&w, 1, &data, &size);
  test_model_set_weights(m, data, size);
  free(data);
  test_weights_free(&w);
  mlff_arena_free(&arena);
}

START_TEST(damaged_weights)
{
  test_model m = make_model(holes[_i].kind);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  damage_tensor(&m, holes[_i].what, holes[_i].name);
  test_fails(test_model_try(&m, NULL, &model, &error), error, MLFF_E_FORMAT, holes[_i].text);
  ck_assert_ptr_null(model);
  test_model_free(&m);
}
END_TEST

START_TEST(more_tensors_than_the_network_has)
{
  test_model m = make_model(0);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  damage_tensor(&m, DROP, "");
  test_fails(test_model_try(&m, NULL, &model, &error), error, MLFF_E_FORMAT,
             "tensor 'atom_energies' is not part of this nequip model");
  ck_assert_ptr_null(model);
  test_model_free(&m);
}
END_TEST

/* ---- option radial_intervals ------------------------------------------------------------------------------------- */

START_TEST(intervals_that_cannot_be)
{
  static const char *const bad[] = {"0", "4097", "5000", "-1", "1.5", "many", "", "99999999999999999999"};
  test_model m = make_model(_i), ani = test_model_ani(test_three_elements()),
             orb = test_model_orb(test_three_elements()), spline = test_model_painn(test_three_elements());
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    const mlff_options options = {.radial_intervals = bad[k], .skip_self_test = 1};
    const mlff_status status = test_model_try(&m, &options, &model, &error);
    ck_assert_int_eq(status, MLFF_E_ARG);
    ck_assert_msg(strstr(error.text, "radial_intervals") && strstr(error.text, "auto"), "%s", error.text);
  }
  const mlff_options some = {.radial_intervals = "500", .skip_self_test = 1}, best = {.radial_intervals = "auto"};
  test_fails(test_model_try(&ani, &some, &model, &error), error, MLFF_E_UNSUPPORTED, "ani models have no radial table");
  test_fails(test_model_try(&orb, &some, &model, &error), error, MLFF_E_UNSUPPORTED, "orb models have no radial table");
  test_fails(test_model_try(&spline, &some, &model, &error), error, MLFF_E_UNSUPPORTED,
             "radial_intervals 500: this model's radial functions are splines of 12 intervals");
  ck_assert_ptr_null(model);
  test_model *const all[] = {&m, &ani, &orb, &spline};
  for (int k = 0; k < 4; k++) {
    test_ok(test_model_try(all[k], &best, &model, &error), error);
    mlff_model_close(model);
    model = NULL;
    test_model_free(all[k]);
  }
}
END_TEST

/* The least and the most intervals work; a few are coarse, in both precisions. */
START_TEST(intervals_that_can_be)
{
  static const char *const numbers[] = {"1", "20", "4096"};
  test_model m = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  test_atoms water = test_water();
  static const char *const hco[] = {"H", "C", "O"};
  test_atoms_species(&water, hco, 3);
  mlff_model *exact = test_model_open(&m, "fp64");
  const double energy = test_energy(exact, &water);
  for (int k = 0; k < 6; k++) {
    const mlff_options options = {.radial_intervals = numbers[k / 2],
                                  .precision = k % 2 ? "fp64" : "fp32",
                                  .skip_self_test = 1};
    mlff_model *model = NULL;
    test_ok(test_model_try(&m, &options, &model, &error), error);
    const double off = fabs(test_energy(model, &water) - energy);
    if (k < 4)
      ck_assert_msg(off > 1e-6 && isfinite(off), "%s intervals: %g", numbers[k / 2], off);
    else
      ck_assert_msg(off < (k % 2 ? 1e-9 : 3e-5), "%s intervals: %g", numbers[k / 2], off);
    mlff_model_close(model);
  }
  mlff_model_close(exact);
  test_atoms_free(&water);
  test_model_free(&m);
}
END_TEST

static Suite *nequip_suite(void)
{
  Suite *suite = suite_create("nequip files");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, damaged_blocks, 0, N_DAMAGES);
  tcase_add_loop_test(tcase, damaged_weights, 0, N_HOLES);
  tcase_add_test(tcase, more_tensors_than_the_network_has);
  tcase_add_loop_test(tcase, intervals_that_cannot_be, 0, 2);
  tcase_add_loop_test(tcase, intervals_that_can_be, 0, 2);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(nequip_suite);
}
