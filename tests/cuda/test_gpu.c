/* test_gpu.c: selection of a GPU, its properties, memory against the forecast, reproducible bits. Failures, which a
 * real GPU cannot produce on request, are tested in ../cudasim/test_gpu.c. */
#include "gpu_scene.h"

#include "model/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "cuda" and "auto" assign the GPUs of a node round-robin to its ranks; a number selects a GPU. */
START_TEST(ranks_take_gpus_in_turn)
{
  test_model file = test_model_of_arch(0);
  mlff_error error = {.code = MLFF_OK};
  static const char *const devices[] = {"cuda", "auto"};
  char named[32];
  const int n = device_reset(3);
  for (int rank = 0; rank < 5; rank++) {
    mlff_model *models[3] = {NULL};
    snprintf(named, sizeof named, "cuda:%d", n - 1);
    for (int d = 0; d < 3; d++) {
      const mlff_options options = {.device = d < 2 ? devices[d] : named, .local_rank = rank, .skip_self_test = 1};
      test_ok(test_model_try(&file, &options, &models[d], &error), error);
      ck_assert_int_eq(mlff_model_info(models[d])->device_number, d < 2 ? rank % n : n - 1);
    }
    ck_assert_str_eq(mlff_model_info(models[0])->device_id, mlff_model_info(models[1])->device_id);
    for (int d = 0; d < 3; d++) mlff_model_close(models[d]);
  }
  test_model_free(&file);
}
END_TEST

/* The forecast before the first evaluation equals the memory in use after it, including the list. */
START_TEST(forecast_is_what_happens)
{
  test_model file = test_model_of_arch(_i % test_n_archs());
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  mlff_forecast forecast;
  int n_atoms;
  device_reset(1);
  test_ok(try_open(&file, &model, &error), error);
  mlff_system *system = water_for(model, 3, &n_atoms);
  mlff_result result = {.forces = malloc((size_t) n_atoms * sizeof *result.forces)};
  mlff_graph graph = *mlff_system_graph(system);
  if (_i >= test_n_archs()) graph.reach = mlff_model_info(model)->cutoff + 0.5;
  test_ok(mlff_model_forecast(model, &graph, &result, &forecast, &error), error);
  if (graph.reach > 0) graph.row = NULL;
  ck_assert_uint_gt(forecast.total_bytes, forecast.free_bytes);
  test_ok(mlff_model_evaluate(model, &graph, NULL, &result, &error), error);
  const double held = (double) mlff_model_memory(model).bytes;
  const double foreseen = (double) (forecast.first_bytes + forecast.host_bytes);
  ck_assert_msg(foreseen > 0.99 * held && foreseen < 1.01 * held, "foreseen %g, held %g", foreseen, held);
  free(result.forces);
  mlff_system_free(system);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Same bits for any order of blocks and warps. */
START_TEST(order_does_not_matter)
{
  test_model file = test_model_of_arch(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  double *first = NULL;
  int n_atoms = 0;
  device_reset(1);
  test_ok(try_open(&file, &model, &error), error);
  test_ok(try_evaluate(model, 2, &first, &n_atoms, &error), error);
  for (unsigned seed = 1; seed < 4; seed++) {
    double *again = NULL;
    device_shuffle(seed);
    test_ok(try_evaluate(model, 2, &again, NULL, &error), error);
    ck_assert_int_eq(memcmp(first, again, (size_t) n_atoms * 3 * sizeof *first), 0);
    free(again);
  }
  free(first);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Edges of Orb in small batches, as in large systems, only change the order of sums. */
START_TEST(orb_in_blocks)
{
  test_model file = test_model_small_orb(test_three_elements());
  mlff_error error = {.code = MLFF_OK};
  const mlff_options options = {.device = "cuda", .precision = "fp64", .skip_self_test = 1};
  double *forces[2] = {NULL, NULL};
  int n_atoms = 0;
  for (int k = 0; k < 2; k++) {
    mlff_model *model = NULL;
    device_reset(1);
    test_ok(test_model_try(&file, &options, &model, &error), error);
    if (k) ((mlff_ops *) (uintptr_t) model->backend->ops)->orb_block = 31; /* five atoms with six neighbors */
    test_ok(try_evaluate(model, 2, &forces[k], &n_atoms, &error), error);
    mlff_model_close(model);
  }
  near_all(forces[1], forces[0], 3 * n_atoms, 1e-12, 0);
  ck_assert(memcmp(forces[1], forces[0], (size_t) n_atoms * 3 * sizeof **forces) != 0);
  free(forces[0]);
  free(forces[1]);
  test_model_free(&file);
}
END_TEST

/* Report of mlff check for a working and a missing device. */
START_TEST(devices_are_described)
{
  mlff_platform platform;
  mlff_device device;
  mlff_error error = {.code = MLFF_OK};
  const int n = device_reset(1);
  mlff_platform_read(&platform);
  ck_assert_int_eq(platform.n_devices, n);
  ck_assert(platform.has_cuda && !*platform.why && strstr(platform.kernels, "generic") && *platform.yaml);
  test_ok(mlff_device_read(0, 1, &device, &error), error);
  ck_assert_msg(device.can_run && !*device.why, "%s", device.why);
  ck_assert(*device.name && device.n_multiprocessors > 0);
  ck_assert(device.free_bytes > 0 && device.free_bytes <= device.total_bytes && device.clock_mhz > 0);
  ck_assert(device.up_gbs > 0 && device.down_gbs > 0 && device.copy_gbs > 0);
  ck_assert(device.launch_us > 0 && device.round_trip_us > 0 && device.node_us > 0);
  device_is_empty();
  test_ok(mlff_device_read(0, 0, &device, &error), error);
  ck_assert(device.can_run && isnan(device.copy_gbs));
  test_fails(mlff_device_read(n, 0, &device, &error), error, MLFF_E_DEVICE, "cuda:");
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("gpu");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_test(tcase, ranks_take_gpus_in_turn);
  tcase_add_loop_test(tcase, forecast_is_what_happens, 0, 2 * test_n_archs());
  tcase_add_loop_test(tcase, order_does_not_matter, 0, test_n_archs());
  tcase_add_test(tcase, orb_in_blocks);
  tcase_add_test(tcase, devices_are_described);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return device_main("cuda_gpu", make_suite);
}
