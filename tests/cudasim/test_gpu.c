/* test_gpu.c: failures at any call, exhausted memory, and copies of settled steps, on the simulated device. A real GPU
 * cannot produce these failures on request. */
#include "cudasim.h"
#include "gpu_scene.h"

#include <stdlib.h>
#include <string.h>

/* The n-th allocation fails, for every n until none does: one error, no leak, and the next attempt succeeds. */
START_TEST(every_allocation_may_fail)
{
  test_model file = test_model_of_arch(_i);
  mlff_error error = {.code = MLFF_OK};
  int n_failed = 0;
  for (long n = 1;; n++) {
    mlff_model *model = NULL;
    cudasim_reset();
    cudasim_fail_allocation(n);
    mlff_status status = try_open(&file, &model, &error);
    if (!status) status = try_evaluate(model, 1, NULL, NULL, &error);
    const int reached = cudasim_n_allocations() >= n;
    if (reached) {
      ck_assert_msg(status == MLFF_E_NOMEM, "allocation %ld: %s: %s", n, mlff_status_name(status), error.text);
      ck_assert_msg(strstr(error.text, "memory") != NULL, "%s", error.text);
      if (model) test_ok(try_evaluate(model, 1, NULL, NULL, &error), error);
      n_failed++;
    }
    mlff_model_close(model);
    ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
    if (!reached) break;
  }
  ck_assert_int_gt(n_failed, 10);
  test_model_free(&file);
}
END_TEST

/* Launches of a step with a new list, with and without fused ops. */
static const struct {
  const char *name;
  int n[2];
} expected[] = {{"painn", {20, 50}}, {"ani", {17, 48}}, {"orb", {47, 47}}, {"nequip", {41, 41}}};

/* The n-th launch and everything after it fails, for every n: an error that names a kernel, also at the next call; the
 * model can be closed. */
START_TEST(every_launch_may_fail)
{
  test_model file = test_model_of_arch(_i % test_n_archs());
  const char *fuse = _i < test_n_archs() ? "on" : "off";
  mlff_error error = {.code = MLFF_OK};
  long n_launches = 1;
  for (long n = 1; n <= n_launches; n++) {
    mlff_model *model = NULL;
    cudasim_reset();
    test_ok(try_open_with(&file, fuse, &model, &error), error);
    const long before = cudasim_n_launches();
    if (n == 1) {
      test_ok(try_evaluate(model, 1, NULL, NULL, &error), error);
      n_launches = cudasim_n_launches() - before;
      mlff_model_close(model);
      test_ok(try_open_with(&file, fuse, &model, &error), error);
    }
    cudasim_fail_launch(n);
    test_fails(try_evaluate(model, 1, NULL, NULL, &error), error, MLFF_E_DEVICE, "_kernel");
    test_fails(try_evaluate(model, 1, NULL, NULL, &error), error, MLFF_E_DEVICE, "restart");
    mlff_model_close(model);
  }
  const char *name = test_archs[_i % test_n_archs()].name;
  for (size_t k = 0; k < sizeof expected / sizeof *expected; k++)
    if (!strcmp(name, expected[k].name)) ck_assert_int_eq(n_launches, expected[k].n[_i / test_n_archs()]);
  test_model_free(&file);
}
END_TEST

/* The error contains the number of atoms that fit, which is about right. */
START_TEST(out_of_memory_says_what_fits)
{
  test_model file = test_model_of_arch(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  int n_atoms = 0, fit = 0;
  cudasim_reset();
  test_ok(try_open(&file, &model, &error), error);
  const size_t own = cudasim_bytes_in_use();
  test_ok(try_evaluate(model, 5, NULL, &n_atoms, &error), error);
  const size_t all = cudasim_bytes_in_use();
  mlff_model_close(model);
  test_ok(try_open(&file, &model, &error), error);
  cudasim_set_memory(own + (all - own) / 2);
  test_fails(try_evaluate(model, 5, NULL, NULL, &error), error, MLFF_E_NOMEM, "atoms fit");
  const char *about = strstr(error.text, "About ");
  ck_assert_int_eq(sscanf(about, "About %d", &fit), 1);
  ck_assert_msg(fit > 0 && fit < n_atoms, "%s", error.text);
  mlff_model_close(model);
  int n_side = 1;
  while (3 * (n_side + 1) * (n_side + 1) * (n_side + 1) <= fit) n_side++;
  test_ok(try_open(&file, &model, &error), error);
  test_ok(try_evaluate(model, n_side, NULL, NULL, &error), error);
  mlff_model_close(model);
  test_ok(try_open(&file, &model, &error), error);
  n_side = 1;
  while (3 * n_side * n_side * n_side < 2 * fit) n_side++;
  test_fails(try_evaluate(model, n_side, NULL, NULL, &error), error, MLFF_E_NOMEM, "atoms fit");
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(missing_devices_and_code_are_clear)
{
  test_model file = test_model_of_arch(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  cudasim_reset();
  cudasim_set_devices(0);
  test_fails(try_open(&file, &model, &error), error, MLFF_E_DEVICE, "use 'device cpu'");
  model = test_model_open(&file, "fp32");
  ck_assert_str_eq(mlff_model_info(model)->device, "cpu");
  ck_assert_msg(strstr(mlff_model_info(model)->device_why, "no NVIDIA GPU"), "%s", mlff_model_info(model)->device_why);
  mlff_model_close(model);
  model = NULL;
  cudasim_reset();
  cudasim_set_code(0);
  test_fails(try_open(&file, &model, &error), error, MLFF_E_UNSUPPORTED, "MLFF_CUDA_ARCHITECTURES");
  model = test_model_open(&file, "fp32");
  ck_assert_str_eq(mlff_model_info(model)->device, "cpu");
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* GPUs are identified by their PCI address. */
START_TEST(gpus_have_ids)
{
  static const char *const ids[] = {"0000:10:00", "0000:11:00", "0000:12:00"};
  test_model file = test_model_of_arch(0);
  mlff_error error = {.code = MLFF_OK};
  cudasim_reset();
  cudasim_set_devices(3);
  for (int rank = 0; rank < 5; rank++) {
    mlff_model *model = NULL;
    const mlff_options options = {.device = "cuda", .local_rank = rank, .skip_self_test = 1};
    test_ok(test_model_try(&file, &options, &model, &error), error);
    ck_assert_str_eq(mlff_model_info(model)->device_id, ids[rank % 3]);
    mlff_model_close(model);
  }
  test_model_free(&file);
}
END_TEST

/* Neither a forecast nor a settled step allocates memory; a settled step copies little. */
START_TEST(forecasts_and_settled_steps_are_quiet)
{
  test_model file = test_model_of_arch(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  mlff_forecast forecast;
  int n_atoms;
  cudasim_reset();
  test_ok(try_open(&file, &model, &error), error);
  mlff_system *system = water_for(model, 2, &n_atoms);
  mlff_result result = {.forces = malloc((size_t) n_atoms * sizeof *result.forces)};
  for (int step = 0; step < 4; step++) {
    const long allocations = cudasim_n_allocations(), copies = cudasim_n_copied();
    if (step == 0)
      test_ok(mlff_model_forecast(model, mlff_system_graph(system), &result, &forecast, &error), error);
    else
      test_ok(mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, &error), error);
    if (step == 1) continue;
    ck_assert_int_eq(cudasim_n_allocations(), allocations);
    ck_assert_int_le(cudasim_n_copied() - copies, 6); /* positions, summary up and down, forces, virial, energies */
  }
  free(result.forces);
  mlff_system_free(system);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Report of mlff check for a device without code, one without free memory, and no device. */
START_TEST(devices_that_cannot_be_used_are_described)
{
  mlff_platform platform;
  mlff_device device;
  mlff_error error = {.code = MLFF_OK};
  cudasim_reset();
  test_ok(mlff_device_read(0, 1, &device, &error), error);
  ck_assert_str_eq(device.name, "simulated device");
  cudasim_set_code(0);
  test_ok(mlff_device_read(0, 1, &device, &error), error);
  ck_assert_msg(!device.can_run && strstr(device.why, "no code"), "%s", device.why);
  cudasim_reset();
  cudasim_set_memory(1 << 20);
  test_ok(mlff_device_read(0, 1, &device, &error), error);
  ck_assert_msg(!device.can_run && strstr(device.why, "memory"), "%s", device.why);
  ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
  test_fails(mlff_device_read(1, 0, &device, &error), error, MLFF_E_DEVICE, "cuda:1");
  cudasim_set_devices(0);
  mlff_platform_read(&platform);
  ck_assert_msg(platform.n_devices == 0 && strstr(platform.why, "no NVIDIA GPU"), "%s", platform.why);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("gpu");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, every_allocation_may_fail, 0, test_n_archs());
  tcase_add_loop_test(tcase, every_launch_may_fail, 0, 2 * test_n_archs());
  tcase_add_loop_test(tcase, out_of_memory_says_what_fits, 0, test_n_archs());
  tcase_add_loop_test(tcase, missing_devices_and_code_are_clear, 0, test_n_archs());
  tcase_add_test(tcase, gpus_have_ids);
  tcase_add_loop_test(tcase, forecasts_and_settled_steps_are_quiet, 0, test_n_archs());
  tcase_add_test(tcase, devices_that_cannot_be_used_are_described);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
