/* test_gpu.c: what only a GPU can do wrong: failures that come at any moment, memory that runs out, traffic in settled
 * steps. Needs the simulated device: on a real one failures cannot be ordered. */
#include "backends.h"
#include "cudasim.h"
#include "testmodel.h"

#include "model/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

/* Architectures that are tried: a two-layer PaiNN, an ensemble of ANI, an Orb. */
enum { N_MODELS = 3 };
static test_model make_model(int which)
{
  const test_model_options options = {.elements = hco, .n_elements = 3, .is_double = 1};
  return which == 2 ? test_model_small_orb(options) : test_model_nth(which == 0 ? 0 : 3, options);
}

static mlff_status try_open_with(const test_model *file, const char *fuse, mlff_model **model, mlff_error *error)
{
  const mlff_options options = {.device = "cuda", .fuse = fuse, .skip_self_test = 1};
  return test_model_try(file, &options, model, error);
}

static mlff_status try_open(const test_model *file, mlff_model **model, mlff_error *error)
{
  return try_open_with(file, "on", model, error);
}

/* One evaluation of a box of water; forces in a new array when it works. */
static mlff_status try_evaluate(mlff_model *model, int n_side, double **forces, int *n_atoms, mlff_error *error)
{
  test_atoms atoms = test_water_box(n_side, 5);
  test_atoms_species(&atoms, hco, 3);
  mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff + 0.5);
  mlff_result result = {.forces = malloc((size_t) atoms.n * sizeof *result.forces)};
  const mlff_status status = mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, error);
  if (n_atoms) *n_atoms = atoms.n;
  if (forces && !status)
    *forces = &result.forces[0][0];
  else
    free(result.forces);
  mlff_system_free(system);
  test_atoms_free(&atoms);
  return status;
}

/* The n-th allocation fails, for every n until none does: one error, nothing leaks, and the next attempt works. */
START_TEST(every_allocation_may_fail)
{
  test_model file = make_model(_i);
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
  ck_assert_int_gt(n_failed, 20);
  test_model_free(&file);
}
END_TEST

/* The n-th launch fails, and everything after it, for every n: one error that names a kernel, again at the next call, and it
 * closes. */
START_TEST(every_launch_may_fail)
{
  test_model file = make_model(_i % N_MODELS);
  const char *fuse = _i < N_MODELS ? "on" : "off";
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
  static const int expected[2 * N_MODELS] = {26, 23, 53, 56, 53, 53};
  ck_assert_int_eq(n_launches, expected[_i]); /* with a new list */
  test_model_free(&file);
}
END_TEST

/* The error says how many atoms fit, and about so many do. */
START_TEST(out_of_memory_says_what_fits)
{
  test_model file = make_model(_i);
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
  const char *about = strstr(error.text, "about ");
  ck_assert_int_eq(sscanf(about, "about %d", &fit), 1);
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
  test_model file = make_model(_i);
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

/* Ranks of a node take GPUs in turn, under "cuda" and "auto"; a number is taken as it is. */
START_TEST(ranks_take_gpus_in_turn)
{
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  static const char *const ids[] = {"0000:10:00", "0000:11:00", "0000:12:00"};
  static const char *const devices[] = {"cuda", "auto", "cuda:1"};
  cudasim_reset();
  cudasim_set_devices(3);
  for (int d = 0; d < 3; d++) {
    for (int rank = 0; rank < 5; rank++) {
      mlff_model *model = NULL;
      const mlff_options options = {.device = devices[d], .local_rank = rank, .skip_self_test = 1};
      test_ok(test_model_try(&file, &options, &model, &error), error);
      const int number = d == 2 ? 1 : rank % 3;
      ck_assert_int_eq(mlff_model_info(model)->device_number, number);
      ck_assert_str_eq(mlff_model_info(model)->device_id, ids[number]);
      mlff_model_close(model);
    }
  }
  test_model_free(&file);
}
END_TEST

/* What is foreseen before the first evaluation is what the device holds after it. */
START_TEST(forecast_is_what_happens)
{
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  mlff_forecast forecast;
  cudasim_reset();
  test_ok(try_open(&file, &model, &error), error);
  test_atoms atoms = test_water_box(3, 5);
  test_atoms_species(&atoms, hco, 3);
  mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff + 0.5);
  mlff_result result = {.forces = malloc((size_t) atoms.n * sizeof *result.forces)};
  const long allocations = cudasim_n_allocations();
  test_ok(mlff_model_forecast(model, mlff_system_graph(system), &result, &forecast, &error), error);
  ck_assert_int_eq(cudasim_n_allocations(), allocations);
  ck_assert_uint_gt(forecast.total_bytes, forecast.free_bytes);
  test_ok(mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, &error), error);
  const double held = (double) mlff_model_memory(model).bytes;
  const double foreseen = (double) (forecast.first_bytes + forecast.host_bytes);
  ck_assert_msg(foreseen > 0.99 * held && foreseen < 1.01 * held, "foreseen %g, held %g", foreseen, held);
  free(result.forces);
  mlff_system_free(system);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Blocks and warps in any order: the same bits. And a settled step allocates nothing and copies little. */
START_TEST(order_does_not_matter_and_settled_steps_are_quiet)
{
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  double *first = NULL;
  int n_atoms = 0;
  cudasim_reset();
  test_ok(try_open(&file, &model, &error), error);
  test_ok(try_evaluate(model, 2, &first, &n_atoms, &error), error);
  for (unsigned seed = 1; seed < 4; seed++) {
    double *again = NULL;
    cudasim_set_shuffle(seed);
    test_ok(try_evaluate(model, 2, &again, NULL, &error), error);
    ck_assert_int_eq(memcmp(first, again, (size_t) n_atoms * 3 * sizeof *first), 0);
    free(again);
  }
  free(first);
  test_atoms atoms = test_water_box(2, 5);
  test_atoms_species(&atoms, hco, 3);
  mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff + 0.5);
  mlff_result result = {.forces = malloc((size_t) atoms.n * sizeof *result.forces)};
  for (int step = 0; step < 3; step++) {
    const long allocations = cudasim_n_allocations(), copies = cudasim_n_copied();
    test_ok(mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, &error), error);
    if (step == 0) continue;
    ck_assert_int_eq(cudasim_n_allocations(), allocations);
    ck_assert_int_le(cudasim_n_copied() - copies, 6); /* positions, summary up and down, forces, virial, energies */
  }
  free(result.forces);
  mlff_system_free(system);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Orb's edges a few at a time, as in large systems: sums are taken in another order, nothing else differs. */
START_TEST(orb_in_blocks)
{
  test_model file = make_model(2);
  mlff_error error = {.code = MLFF_OK};
  const mlff_options options = {.device = "cuda", .precision = "fp64", .skip_self_test = 1};
  double *forces[2] = {NULL, NULL};
  int n_atoms = 0;
  for (int k = 0; k < 2; k++) {
    mlff_model *model = NULL;
    cudasim_reset();
    test_ok(test_model_try(&file, &options, &model, &error), error);
    if (k) ((mlff_ops *) (uintptr_t) model->backend->ops)->orb.block = 31; /* five atoms with six neighbours */
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

/* What mlff check says: a device, one without code, one without memory to measure in, none. */
START_TEST(devices_are_described)
{
  mlff_platform platform;
  mlff_device device;
  mlff_error error = {.code = MLFF_OK};
  cudasim_reset();
  mlff_platform_read(&platform);
  ck_assert_int_eq(platform.n_devices, 1);
  ck_assert(platform.has_cuda && !*platform.why && strstr(platform.kernels, "generic") && *platform.yaml);
  test_ok(mlff_device_read(0, 1, &device, &error), error);
  ck_assert_msg(device.can_run && !*device.why, "%s", device.why);
  ck_assert_str_eq(device.name, "simulated device");
  ck_assert(device.free_bytes > 0 && device.free_bytes <= device.total_bytes && device.clock_mhz > 0);
  ck_assert(device.up_gbs > 0 && device.down_gbs > 0 && device.copy_gbs > 0);
  ck_assert(device.launch_us > 0 && device.round_trip_us > 0 && device.node_us > 0);
  ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
  test_ok(mlff_device_read(0, 0, &device, &error), error);
  ck_assert(device.can_run && isnan(device.copy_gbs));
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
  tcase_add_loop_test(tcase, every_allocation_may_fail, 0, N_MODELS);
  tcase_add_loop_test(tcase, every_launch_may_fail, 0, 2 * N_MODELS);
  tcase_add_loop_test(tcase, out_of_memory_says_what_fits, 0, N_MODELS);
  tcase_add_loop_test(tcase, missing_devices_and_code_are_clear, 0, N_MODELS);
  tcase_add_loop_test(tcase, ranks_take_gpus_in_turn, 0, 1);
  tcase_add_loop_test(tcase, forecast_is_what_happens, 0, N_MODELS);
  tcase_add_loop_test(tcase, order_does_not_matter_and_settled_steps_are_quiet, 0, N_MODELS);
  tcase_add_test(tcase, orb_in_blocks);
  tcase_add_test(tcase, devices_are_described);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
