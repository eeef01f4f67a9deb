/* test_device_graph.c: graphs on the simulated device: copies of a settled step, and devices that fail. */
#include "cudasim.h"
#include "device_graph_scene.h"

#include <stdlib.h>

/* A failed GPU sends zeros from the host for each exchange of the step, so that no rank waits. */
START_TEST(exchanges_of_a_lost_device)
{
  scene s = open_scene(0, 1);
  mlff_error error = {.code = MLFF_OK};
  mlff_result result = {.forces = NULL};
  const mlff_halo halo = halo_of(&s.t.other, 1);
  const int n_replayed = _i;
  for (int k = 0; k <= n_replayed; k++)
    test_ok(mlff_model_evaluate(s.model, &s.t.device, &halo, &result, &error), error);
  ck_assert_int_eq(mlff_model_replays(s.model).n_replayed, n_replayed);
  ck_assert_int_eq(s.t.other.n_forward, 0);
  cudasim_fail_launch(2);
  test_fails(mlff_model_evaluate(s.model, &s.t.device, &halo, &result, &error), error, MLFF_E_DEVICE, "_kernel");
  ck_assert_int_eq(s.t.other.n_forward, 2); /* forward and backward, of two layers */
  close_scene(&s);
}
END_TEST

/* A settled step with a graph on the device has no copies between host and device. */
START_TEST(a_settled_step_is_one_launch_and_one_wait)
{
  scene s = open_scene(_i, 0);
  mlff_error error = {.code = MLFF_OK};
  mlff_result result = {.forces = NULL};
  for (int on_device = 0; on_device < 2; on_device++) {
    answer a = make_answer(&s.t.host, 0);
    s.t.host.list_id++;
    s.t.device.list_id++;
    for (int k = 0; k < 4; k++) {
      const long launches = cudasim_n_launches(), waits = cudasim_n_synchronisations();
      const long allocations = cudasim_n_allocations();
      const long copied = cudasim_n_bytes_copied();
      test_ok(mlff_model_evaluate(s.model, on_device ? &s.t.device : &s.t.host, NULL, on_device ? &result : &a.result,
                                  &error),
              error);
      if (k < 2) continue;
      ck_assert_int_eq(cudasim_n_launches() - launches, 1);
      ck_assert_int_eq(cudasim_n_synchronisations() - waits, 1);
      ck_assert_int_eq(cudasim_n_allocations() - allocations, 0);
      if (on_device) ck_assert_int_eq(cudasim_n_bytes_copied() - copied, 0);
    }
    free(a.numbers);
  }
  close_scene(&s);
}
END_TEST

/* A device that fails while it builds a list. */
START_TEST(lost_devices)
{
  scene s = open_scene(_i, 0);
  mlff_error error = {.code = MLFF_OK};
  mlff_result result = {.forces = NULL};
  for (int k = 0; k < 3; k++) test_ok(mlff_model_evaluate(s.model, &s.t.device, NULL, &result, &error), error);
  cudasim_fail_launch(3);
  s.t.device.list_id++;
  test_fails(mlff_model_evaluate(s.model, &s.t.device, NULL, &result, &error), error, MLFF_E_DEVICE, "_kernel");
  test_fails(mlff_model_evaluate(s.model, &s.t.device, NULL, &result, &error), error, MLFF_E_DEVICE, "restart");
  close_scene(&s);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("graphs on the device");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, exchanges_of_a_lost_device, 0, 3);
  tcase_add_loop_test(tcase, a_settled_step_is_one_launch_and_one_wait, 0, n_models());
  tcase_add_loop_test(tcase, lost_devices, 0, n_models());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
