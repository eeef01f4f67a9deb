/* test_replay.c: captured steps on the simulated device: one launch and one wait per settled step, captures that fail,
 * NVTX ranges. The simulator rejects steps that a real GPU could not capture. */
#include "cudasim.h"
#include "replay_scene.h"

#include <stdlib.h>
#include <string.h>

START_TEST(a_settled_step_is_one_launch_and_one_wait)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  for (int k = 0; k < 4; k++) {
    const long launches = cudasim_n_launches(), graphs = cudasim_n_graph_launches();
    const long waits = cudasim_n_synchronisations(), allocations = cudasim_n_allocations();
    const int64_t growths = mlff_model_memory(s.replayed).n_growths;
    test_ok(evaluate(&s, s.replayed, &a.result, &error), error);
    if (k < 2) continue; /* the list, and the capture */
    ck_assert_int_eq(cudasim_n_launches() - launches, 1);
    ck_assert_int_eq(cudasim_n_graph_launches() - graphs, 1);
    ck_assert_int_eq(cudasim_n_synchronisations() - waits, 1);
    ck_assert_int_eq(cudasim_n_allocations() - allocations, 0);
    ck_assert_int_eq(mlff_model_memory(s.replayed).n_growths, growths);
  }
  free(a.numbers);
  free_scene(&s);
}
END_TEST

/* Nodes of a captured step: kernels as in a plain step, copies and fills; if timed, also events. */
START_TEST(nodes_of_a_recording)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  long n_plain = 0;
  for (int k = 0; k < 2; k++) {
    const long before = cudasim_n_launches();
    test_ok(evaluate(&s, s.plain, &a.result, &error), error);
    n_plain = cudasim_n_launches() - before;
  }
  step(&s, 0);
  ck_assert_int_eq(mlff_model_replays(s.replayed).n_nodes + mlff_model_replays(s.replayed).n_kernels, 0);
  step(&s, 0);
  const mlff_replays r = mlff_model_replays(s.replayed), off = mlff_model_replays(s.plain);
  ck_assert_int_eq(r.n_kernels, n_plain);
  ck_assert_int_gt(r.n_nodes, r.n_kernels);
  ck_assert_int_lt(r.n_nodes, 2 * r.n_kernels);
  ck_assert_int_eq(off.n_nodes + off.n_kernels, 0);
  test_ok(mlff_spans_start(s.replayed, 0, &error), error);
  ck_assert_int_eq(mlff_model_replays(s.replayed).n_nodes, 0); /* it is made again */
  timed_step(&s);
  timed_step(&s);
  const mlff_replays timed = mlff_model_replays(s.replayed);
  ck_assert_int_ge(timed.n_kernels, n_plain); /* each operation has kernels of its own */
  ck_assert_int_ge(timed.n_nodes - timed.n_kernels, r.n_nodes - r.n_kernels + 2);
  free(a.numbers);
  free_scene(&s);
}
END_TEST

/* With a capture before the steps, the first step is one launch. */
START_TEST(recorded_before_the_first_step)
{
  scene s = make_scene(_i);
  step(&s, has_atoms(&s));
  ck_assert(record_now(&s, s.replayed, 0) > 0);
  move(&s, 0.1, 1.0);
  const long graphs = cudasim_n_graph_launches();
  step(&s, 0);
  ck_assert_int_eq(cudasim_n_graph_launches() - graphs, 1);
  free_scene(&s);
}
END_TEST

START_TEST(refused_before_the_first_step)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  double seconds = NAN;
  cudasim_fail_capture(1 + _i % 3);
  step(&s, 0);
  ck_assert(record_now(&s, s.replayed, 0) > 0);
  ck_assert(!mlff_model_replays(s.replayed).is_on &&
            strstr(mlff_model_replays(s.replayed).why, "could not be captured"));
  ck_assert(record_now(&s, s.replayed, 0) == 0);
  step(&s, 0);
  ck_assert_int_eq(mlff_model_replays(s.replayed).n_steps, 2);
  test_fails(mlff_model_record(s.replayed, &s.graph, NULL, NULL, &seconds, &error), error, MLFF_E_ARG, "NULL");
  cudasim_fail_capture(0);
  mlff_model_close(s.replayed);
  s.replayed = open_model(&s.file, _i, "on");
  step(&s, 0);
  cudasim_fail_launch(3);
  test_fails(record(&s, s.replayed, &a.result, &seconds, &error), error, MLFF_E_DEVICE, "_kernel");
  free(a.numbers);
  free_scene(&s);
}
END_TEST

START_TEST(recordings_that_fail_are_said_and_done_without)
{
  static const char *const where[] = {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate"};
  for (int which = 1; which <= 3; which++) {
    scene s = make_scene(_i);
    cudasim_fail_capture(which);
    for (int k = 0; k < 3; k++) step(&s, 0);
    const mlff_replays r = mlff_model_replays(s.replayed);
    ck_assert(!r.is_on);
    ck_assert_msg(strstr(r.why, "could not be captured") && strstr(r.why, where[which - 1]), "%s", r.why);
    ck_assert_int_eq(r.n_replayed + r.n_recorded, 0);
    free_scene(&s);
  }
}
END_TEST

/* The replay itself fails, and everything after it. */
START_TEST(lost_devices)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  for (int k = 0; k < 3; k++) step(&s, 0);
  cudasim_fail_launch(1);
  test_fails(evaluate(&s, s.replayed, &a.result, &error), error, MLFF_E_DEVICE, "captured step");
  test_fails(evaluate(&s, s.replayed, &a.result, &error), error, MLFF_E_DEVICE, "restart");
  free(a.numbers);
  free_scene(&s);
}
END_TEST

/* Launches of a settled step with one of the models. */
static long launches_of_a_step(int which, int is_recorded)
{
  scene s = make_scene(which);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  long before = 0;
  for (int k = 0; k < 3; k++) {
    before = cudasim_n_launches();
    test_ok(evaluate(&s, is_recorded ? s.replayed : s.plain, &a.result, &error), error);
  }
  const long n = cudasim_n_launches() - before;
  free(a.numbers);
  free_scene(&s);
  return n;
}

/* The n-th launch during a capture fails: a failure of the device, not of the capture. A capture has the launches of a
 * plain step, then those of the graphs. */
START_TEST(launches_that_fail_while_recording)
{
  mlff_error error = {.code = MLFF_OK};
  const long n_plain = launches_of_a_step(_i, 0), n_all = n_plain + launches_of_a_step(_i, 1);
  ck_assert_int_gt(n_plain, 5);
  for (long n = 1; n <= n_all + 1; n++) {
    scene s = make_scene(_i);
    answer a = make_answer(&s, 0);
    test_ok(evaluate(&s, s.replayed, &a.result, &error), error);
    cudasim_fail_launch(n);
    const char *where = n <= n_plain ? "_kernel" : "captured step";
    if (n <= n_all)
      test_fails(evaluate(&s, s.replayed, &a.result, &error), error, MLFF_E_DEVICE, where);
    else
      test_ok(evaluate(&s, s.replayed, &a.result, &error), error);
    free(a.numbers);
    free_scene(&s);
  }
}
END_TEST

/* NVTX ranges: one per timed call, with the name of the span, all closed; in replayed steps only those of copies; none
 * without timing. */
START_TEST(ranges_are_those_of_the_spans)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  test_ok(evaluate(&s, s.plain, &a.result, &error), error);
  ck_assert_int_eq(cudasim_n_ranges(), 0);
  mlff_model *const models[] = {s.plain, s.replayed};
  for (int which = 0; which < 2; which++) {
    test_ok(mlff_spans_start(models[which], 0, &error), error);
    for (int k = 0; k < 4; k++) {
      const long before = cudasim_n_ranges();
      int64_t n_calls = 0, n_copies = 0;
      test_ok(mlff_model_evaluate(models[which], &s.graph, NULL, &a.result, &error), error);
      const mlff_span *spans = mlff_spans_read(models[which]);
      for (int p = 0; p < MLFF_SPAN_STRESS; p++) /* the stress is a part of the host, which has no range */
        *(p == MLFF_SPAN_COPY ? &n_copies : &n_calls) += spans[p].calls; /* of copies, those of the host have none */
      ck_assert_int_eq(cudasim_open_ranges(), 0);
      const int is_replayed = which == 1 && k > 1;
      if (!is_replayed) ck_assert_int_ge(cudasim_n_ranges() - before, 3);
      if (is_replayed && has_atoms(&s)) /* copies hand results out; of direct forces, all calls do */
        ck_assert(cudasim_n_ranges() - before < 5 && !strcmp(cudasim_last_range(), spans[MLFF_SPAN_COPY].name));
      if (which == 0) ck_assert(cudasim_n_ranges() >= n_calls && cudasim_n_ranges() <= n_calls + n_copies);
      int is_known = 0;
      for (int p = 0; p < MLFF_N_SPANS; p++) is_known |= !strcmp(spans[p].name, cudasim_last_range());
      ck_assert_msg(is_known, "%s", cudasim_last_range());
    }
    mlff_spans_stop(models[which]);
  }
  free(a.numbers);
  free_scene(&s);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("replay");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, a_settled_step_is_one_launch_and_one_wait, 0, test_n_archs());
  tcase_add_loop_test(tcase, nodes_of_a_recording, 0, test_cases(3, 1) * test_n_archs());
  tcase_add_loop_test(tcase, recorded_before_the_first_step, 0, n_cases());
  tcase_add_loop_test(tcase, refused_before_the_first_step, 0, test_cases(3, 1) * test_n_archs());
  tcase_add_loop_test(tcase, recordings_that_fail_are_said_and_done_without, 0, 2);
  tcase_add_loop_test(tcase, lost_devices, 0, test_n_archs());
  tcase_add_loop_test(tcase, launches_that_fail_while_recording, 0, test_cases(3, 1) * test_n_archs());
  tcase_add_loop_test(tcase, ranges_are_those_of_the_spans, 0, test_n_archs());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
