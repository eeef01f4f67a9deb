/* test_fuse.c: number of launches of fused ops, on the simulated device. Their results: ../cuda/test_fuse.c. */
#include "cudasim.h"
#include "fuse_scene.h"

#include <stdlib.h>

static long count_launches(mlff_model *model, const mlff_graph *graph)
{
  const long before = cudasim_n_launches();
  free(evaluate(model, graph, 0).numbers);
  return cudasim_n_launches() - before;
}

/* Launches of a step with a new list and with an old one: exact values, so that changes in both directions are
 * noticed. */
typedef struct launches {
  long first, settled;
} launches;

static launches count_both(mlff_model *model, const mlff_graph *graph)
{
  launches n;
  n.first = count_launches(model, graph);
  n.settled = count_launches(model, graph);
  ck_assert_int_eq(count_launches(model, graph), n.settled);
  return n;
}

static void check_launches(const char *what, launches got, launches expected)
{
  printf("%s: %ld launches with a new list, %ld in a settled step\n", what, got.first, got.settled);
  ck_assert_int_eq(got.first, expected.first);
  ck_assert_int_eq(got.settled, expected.settled);
}

START_TEST(fused_steps)
{
  static const launches fused[2][2] = {{{20, 11}, {20, 11}}, {{17, 8}, {20, 11}}}; /* painn, ani: at once, in batches */
  static const launches plain[2] = {{50, 41}, {188, 179}};
  const char *precision = _i / 2 % 2 ? "fp64" : "fp32";
  cudasim_reset();
  scene s = make_scene(_i, precision, "off");
  if (_i >= N_CASES / 2 && _i % 2) set_block(s.replayed, 10); /* five rows */
  const mlff_graph *graph = mlff_system_graph(s.system);
  printf("%s %s: ", mlff_model_info(s.replayed)->architecture, precision);
  check_launches("fuse on", count_both(s.replayed, graph), fused[_i % 2][_i >= N_CASES / 2]);
  check_launches("fuse off", count_both(s.plain, graph), plain[_i % 2]);
  free_scene(&s);
}
END_TEST

/* Large systems and timed steps run the networks of ANI layer by layer. */
START_TEST(ani_layers)
{
  static const launches whole = {17, 8}, layers = {23, 14};
  mlff_error error = {.code = MLFF_OK};
  cudasim_reset();
  scene s = make_scene(1, "fp32", "off"), water = make_scene(1, "fp32", "off");
  put_in_water(&water); /* none of the atoms is carbon; eight members */
  check_launches("few atoms", count_both(s.replayed, mlff_system_graph(s.system)), whole);
  check_launches("many atoms", count_both(water.replayed, mlff_system_graph(water.system)), layers);
  test_ok(mlff_spans_start(s.replayed, 0, &error), error);
  ck_assert_int_eq(count_launches(s.replayed, mlff_system_graph(s.system)), layers.settled);
  mlff_spans_stop(s.replayed);
  check_launches("few atoms", count_both(s.replayed, mlff_system_graph(s.system)), (launches){8, 8});
  free_scene(&s);
  free_scene(&water);
}
END_TEST

/* A step of a small system consists of kernels only: copies and fills have the larger latency. */
START_TEST(nothing_is_copied)
{
  mlff_error error = {.code = MLFF_OK};
  cudasim_reset();
  scene s = make_scene(_i, "fp32", "on");
  const mlff_graph *graph = mlff_system_graph(s.system);
  mlff_result result = {.forces = calloc((size_t) graph->n_nodes, sizeof *result.forces)};
  for (int step = 0; step < 3; step++) test_ok(mlff_model_evaluate(s.replayed, graph, NULL, &result, &error), error);
  const mlff_replays r = mlff_model_replays(s.replayed);
  ck_assert_int_gt(r.n_kernels, 0);
  ck_assert_int_eq(r.n_nodes, r.n_kernels);
  free(result.forces);
  free_scene(&s);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("launches of fused operations");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, fused_steps, 0, N_CASES);
  tcase_add_test(tcase, ani_layers);
  tcase_add_loop_test(tcase, nothing_is_copied, 0, 2);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
