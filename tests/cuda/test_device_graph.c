/* test_device_graph.c: graphs with arrays on the device give the same bits as on the host, with and without replay, for
 * new lists, atoms of other ranks, no atoms; and invalid graphs are rejected. The simulator detects host accesses to
 * device memory and host addresses in kernels. */
#include "device_graph_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

START_TEST(same_bits_as_from_the_host)
{
  const int kind = _i / n_models(), is_replayed = kind < 2;
  const char *precision = kind % 2 ? "fp64" : "fp32", *graph = is_replayed ? "on" : "off";
  models m = open_models(make_model(_i), precision, graph);
  const double cutoff = mlff_model_info(m.a)->cutoff;
  int64_t n_steps = 0;
  for (int list = 0; list < 3; list++) {
    twins t = make_twins(cutoff + 0.5 + 0.4 * list, 2, 0);
    for (int k = 0; k < 5; k++, n_steps++) {
      device_shuffle((unsigned) (5 * list + k));
      step(m.a, m.b, &t, k == 3 ? 3 : k == 4 ? 1 : 0);
      move(&t);
    }
    free_twins(&t);
  }
  const mlff_replays r = mlff_model_replays(m.b);
  ck_assert_int_eq(r.n_steps, n_steps);
  if (is_replayed)
    ck_assert_int_ge(r.n_replayed, 6); /* the second and third step with every list */
  else
    ck_assert_int_eq(r.n_replayed, 0);
  close_models(m.a, m.b, &m.file);
}
END_TEST

/* Features of nodes of other ranks are exchanged by the halo; forces on them are returned, too. */
START_TEST(same_bits_on_ranks)
{
  const char *precision = _i < n_models() ? "fp32" : "fp64";
  models m = open_models(make_model(_i), precision, "on");
  twins t = make_twins(mlff_model_info(m.a)->cutoff + 0.5, 2, 1);
  ck_assert_int_gt(t.host.n_nodes, t.host.n_local);
  for (int k = 0; k < 4; k++) {
    step(m.a, m.b, &t, k == 2 ? 1 : k == 3 ? 4 : k);
    move(&t);
  }
  for (int list = 0; list < 2; list++) { /* GPU to GPU from the first step, with lists of different sizes */
    free_twins(&t);
    t = make_twins(mlff_model_info(m.a)->cutoff + 0.3 + 0.4 * list, 2, 1);
    long n_first = 0;
    for (int k = 0; k < 3; k++) {
      step(m.a, m.b, &t, 4);
      if (k == 0) n_first = t.other.n_direct;
      ck_assert_int_eq(t.other.n_direct, n_first * (k + 1));
      move(&t);
    }
    ck_assert_int_eq(n_first > 0, mlff_model_info(m.a)->exchange_width > 0);
  }
  free_twins(&t);
  close_models(m.a, m.b, &m.file);
}
END_TEST

/* One model evaluates graphs on the host and on the device alternately, with one list. */
START_TEST(from_both_sides_in_turn)
{
  scene s = open_scene(_i, 0);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *a = s.model, *b = open_model(&s.file, "cuda", "fp32", "on");
  for (int k = 0; k < 12; k++) {
    step(a, b, &s.t, 0);
    move(&s.t);
    if (k % 4 < 2) continue;
    answer x = make_answer(&s.t.host, 0), y = make_answer(&s.t.host, 0);
    test_ok(mlff_model_evaluate(a, &s.t.host, NULL, &x.result, &error), error);
    test_ok(mlff_model_evaluate(b, &s.t.host, NULL, &y.result, &error), error);
    same_bits(&x, &y);
    free(x.numbers);
    free(y.numbers);
  }
  mlff_model_close(b);
  close_scene(&s);
}
END_TEST

/* Atoms that repel each other, of this rank and of others. */
START_TEST(repulsion_is_the_same)
{
  for (int with_ranks = 0; with_ranks < 2; with_ranks++) {
    device_reset(1);
    test_model file = make_model(_i), without = make_model(_i);
    mlff_error error = {.code = MLFF_OK};
    test_model_repel(&file, "H-O: 1.2, H-H: 1.7, O-O: 2.8");
    mlff_model *a = open_model(&file, "cuda", "fp32", "on"), *b = open_model(&file, "cuda", "fp32", "on");
    mlff_model *c = open_model(&without, "cuda", "fp32", "on");
    twins t = make_twins(mlff_model_info(a)->cutoff + 0.5, 2, with_ranks);
    for (int k = 0; k < 3; k++) {
      step(a, b, &t, k % 2);
      move(&t);
    }
    if (!with_ranks) {
      answer x = make_answer(&t.host, 0), y = make_answer(&t.host, 0);
      test_ok(mlff_model_evaluate(a, &t.host, NULL, &x.result, &error), error);
      test_ok(mlff_model_evaluate(c, &t.host, NULL, &y.result, &error), error);
      ck_assert_double_gt(x.result.energy, y.result.energy + 1.0);
      free(x.numbers);
      free(y.numbers);
    }
    free_twins(&t);
    mlff_model_close(c);
    test_model_free(&without);
    close_models(a, b, &file);
  }
}
END_TEST

START_TEST(no_atoms)
{
  device_reset(1);
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = open_model(&file, "cuda", "fp32", "on");
  const int64_t zero = 0;
  int64_t *row = device_array(&zero, sizeof zero);
  const mlff_graph graph = {.list_id = 9, .row = row, .on_device = 1};
  for (int k = 0; k < 4; k++) {
    mlff_result result = {.energy = 1.0};
    test_ok(mlff_model_evaluate(model, &graph, NULL, &result, &error), error);
    ck_assert(result.energy == 0.0 && result.virial[0] == 0.0 && result.n_edges == 0);
    ck_assert_ptr_nonnull(result.device_forces);
  }
  device_free(row);
  close_models(model, NULL, &file);
}
END_TEST

/* Each array in the wrong memory, the CPU backend, and functions that need graphs on the host. */
START_TEST(wrong_use_is_refused)
{
  const int has_two = device_reset(2) > 1;
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *gpu = open_model(&file, "cuda:0", "fp32", "on"),
             *other = has_two ? open_model(&file, "cuda:1", "fp32", "on") : NULL;
  mlff_model *cpu = open_model(&file, "cpu", "fp32", "on");
  twins t = make_twins(mlff_model_info(gpu)->cutoff + 0.5, 2, 0);
  mlff_result result = {.forces = NULL};
  mlff_forecast forecast;
  test_fails(mlff_model_evaluate(cpu, &t.device, NULL, &result, &error), error, MLFF_E_UNSUPPORTED, "on the CPU");
  if (!has_two)
    test_skip("arrays of another GPU: there is one");
  else
    test_fails(mlff_model_evaluate(other, &t.device, NULL, &result, &error), error, MLFF_E_ARG,
               "graph.pos is in the memory of GPU 0, but the model uses GPU 1");
  test_fails(mlff_model_forecast(gpu, &t.device, &result, &forecast, &error), error, MLFF_E_UNSUPPORTED, "on the host");
  test_fails(mlff_graph_check(&t.device, 3, &error), error, MLFF_E_UNSUPPORTED, "on the device");
  test_fails(mlff_model_evaluate(gpu, &t.host, NULL, &result, &error), error, MLFF_E_ARG, "result.forces is NULL");
  for (int k = 0; k < 5; k++) {
    static const char *const names[] = {"graph.species is not", "graph.node is not", "graph.row is not",
                                        "graph.nbr is not", "graph.pos is not"};
    mlff_graph mixed = t.device;
    if (k == 0) mixed.species = t.host.species;
    if (k == 1) mixed.node = t.host.node;
    if (k == 2) mixed.row = t.host.row;
    if (k == 3) mixed.nbr = t.host.nbr;
    if (k == 4) mixed.pos = t.host.pos;
    test_fails(mlff_model_evaluate(gpu, &mixed, NULL, &result, &error), error, MLFF_E_ARG, names[k]);
  }
  test_ok(mlff_model_evaluate(gpu, &t.device, NULL, &result, &error), error);
  test_model orb = test_model_orb((test_model_options){.elements = hco, .n_elements = 3});
  mlff_model *direct = open_model(&orb, "cuda:0", "fp32", "on");
  test_fails(mlff_model_evaluate(direct, &t.device, NULL, &result, &error), error, MLFF_E_UNSUPPORTED,
             "computes forces on the host");
  mlff_model_close(direct);
  test_model_free(&orb);
  free_twins(&t);
  mlff_model_close(cpu);
  close_models(gpu, other, &file);
}
END_TEST

/* Non-finite positions, elements that the model does not have. */
START_TEST(errors_name_atoms)
{
  scene s = open_scene(_i, 0);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = s.model;
  twins *t = &s.t;
  mlff_result result = {.forces = NULL};
  for (int k = 0; k < 3; k++) test_ok(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error);
  const double before = t->pos[4][1];
  t->pos[4][1] = NAN;
  write_positions(t);
  test_fails(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error, MLFF_E_NUMERIC, "atom 5");
  t->pos[4][1] = before;
  memcpy(t->pos[t->host.nbr[t->host.row[4]]], t->pos[4], sizeof t->pos[4]);
  write_positions(t);
  test_fails(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error, MLFF_E_NUMERIC, "apart");
  const int32_t wrong = 17;
  t->device.list_id++;
  device_write((int32_t *) (uintptr_t) t->device.species + 5, &wrong, sizeof wrong);
  test_fails(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error, MLFF_E_ARG,
             "species of atom 6 counted from 1 is 17");
  device_write((int32_t *) (uintptr_t) t->device.species, t->host.species, (size_t) t->host.n_all * sizeof wrong);
  memcpy(t->pos, mlff_system_graph(t->system)->pos, (size_t) t->host.n_all * sizeof *t->pos);
  write_positions(t);
  t->device.list_id++;
  test_ok(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error);
  close_scene(&s);
}
END_TEST

/* Weights so large that GEMMs overflow: the GPU reports the first non-finite force. */
START_TEST(forces_that_are_not_finite)
{
  device_reset(1);
  test_model file = make_model(_i);
  test_model_scale_weights(&file, 1e25);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = open_model(&file, "cuda", "fp32", "on");
  twins t = make_twins(mlff_model_info(model)->cutoff + 0.5, 2, 0);
  for (int k = 0; k < 3; k++) {
    mlff_result result = {.forces = NULL};
    test_fails(mlff_model_evaluate(model, &t.device, NULL, &result, &error), error, MLFF_E_NUMERIC,
               "the force on atom 1 counted from 1 is not finite");
  }
  free_twins(&t);
  close_models(model, NULL, &file);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("graphs on the device");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, same_bits_as_from_the_host, 0, test_cases(4, 2) * n_models());
  tcase_add_loop_test(tcase, same_bits_on_ranks, 0, 2 * n_models());
  tcase_add_loop_test(tcase, from_both_sides_in_turn, 0, n_models());
  tcase_add_loop_test(tcase, repulsion_is_the_same, 0, n_models());
  tcase_add_loop_test(tcase, no_atoms, 0, n_models());
  tcase_add_loop_test(tcase, wrong_use_is_refused, 0, n_models());
  tcase_add_loop_test(tcase, errors_name_atoms, 0, n_models());
  tcase_add_loop_test(tcase, forces_that_are_not_finite, 0, n_models());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return device_main("cuda_device_graph", make_suite);
}
