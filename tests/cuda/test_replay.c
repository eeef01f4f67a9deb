/* test_replay.c: steps replayed as CUDA graphs have the same bits as plain ones, with changing lists and sizes, timed
 * parts and exchanges. Every step makes the same exchanges, also a failing one. ../cudasim/test_replay.c counts the
 * work of a step. */
#include "replay_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Case i of those in single precision, on one rank and then with exchanges through the host. */
static int single(int i)
{
  return i < test_n_archs() ? i : i + test_n_archs();
}

static long n_exchanges(const scene *s)
{
  return s->other.n_forward + s->other.n_direct + s->other.n_reverse + s->other.n_reduce;
}

START_TEST(replayed_steps_have_the_same_bits)
{
  scene s = make_scene(_i);
  for (int k = 0; k < 6; k++) {
    device_shuffle((unsigned) k);
    step(&s, 0);
    move(&s, 0.1, 1.0);
  }
  check_counts(&s, 6, 5, 1, 0);
  free_scene(&s);
}
END_TEST

/* A list of the same sizes keeps the captured step, others do not; results requested once are not captured. */
START_TEST(lists_and_wishes_change)
{
  scene s = make_scene(_i);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 3, 2, 1, 0);
  s.graph.list_id++;
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 6, 4, 1, 0);
  if (!has_atoms(&s)) { /* no other results to request */
    set_list(&s, 2.0);
    for (int k = 0; k < 3; k++) step(&s, 0);
    check_counts(&s, 9, 6, 2, 0);
    free_scene(&s);
    return;
  }
  step(&s, 1);
  step(&s, 0);
  check_counts(&s, 8, 5, mlff_model_replays(s.replayed).n_recorded, 0);
  const int64_t before = mlff_model_replays(s.replayed).n_recorded;
  ck_assert_int_le(before, 2); /* room for the stress of atoms may have moved arrays, once */
  step(&s, 1);
  step(&s, 0);
  check_counts(&s, 10, 6, before, 0);
  set_list(&s, 2.0);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 13, 8, before + 1, 0);
  for (int k = 0; k < 3; k++) step(&s, 1); /* requested from now on: captured at the second step */
  check_counts(&s, 16, 10, before + 2, 0);
  free_scene(&s);
}
END_TEST

/* Atoms approach until the edges exceed the capacity of the captured step. */
START_TEST(more_edges_than_room)
{
  scene s = make_scene(single(_i));
  set_list(&s, 2.5);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 3, 2, 1, 0);
  move(&s, 0.0, 0.85);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 6, 4, 2, 1);
  free_scene(&s);
}
END_TEST

/* With a capture before the steps, the first step is one launch. A second capture and one without a list do nothing. */
START_TEST(recorded_before_the_first_step)
{
  scene s = make_scene(_i);
  ck_assert(record_now(&s, s.replayed, 0) == 0); /* its list has not been evaluated */
  step(&s, has_atoms(&s));                       /* wants more than the steps to come */
  ck_assert(record_now(&s, s.replayed, 0) > 0);
  ck_assert(record_now(&s, s.replayed, 0) == 0 && record_now(&s, s.plain, 0) == 0);
  check_counts(&s, 1, 0, 1, 0);
  move(&s, 0.1, 1.0);
  step(&s, 0);
  check_counts(&s, 2, 1, 1, 0);
  s.graph.list_id++; /* another list of the same sizes: its plain step finds the captured step valid */
  step(&s, 0);
  ck_assert(record_now(&s, s.replayed, 0) == 0);
  step(&s, 0);
  check_counts(&s, 4, 2, 1, 0);
  set_list(&s, 2.0); /* and of others: it does not */
  step(&s, 0);
  ck_assert(record_now(&s, s.replayed, 0) > 0);
  step(&s, 0);
  check_counts(&s, 6, 3, 2, 0);
  if (has_atoms(&s)) { /* a capture of other results replaces the captured step */
    ck_assert(record_now(&s, s.replayed, 1) > 0);
    step(&s, 1);
    check_counts(&s, 7, 4, mlff_model_replays(s.replayed).n_recorded, 0);
  }
  free_scene(&s);
}
END_TEST

/* A bond of the water that no boundary cuts, and the images of its hydrogen h, `by` times as long. */
static void stretch_bond(scene *s, double by)
{
  int32_t o = 0, h = 0;
  double r2 = 9.0;
  for (o = 0; o < s->graph.n_local && r2 > 1.0; o += 3)
    for (h = o + 1; h < o + 3 && r2 > 1.0; h++) {
      r2 = 0;
      for (int k = 0; k < 3; k++) r2 += pow(s->start[h][k] - s->start[o][k], 2);
    }
  o -= 3; /* the loops have gone on by one */
  h -= 1;
  ck_assert_double_lt(r2, 1.0);
  memcpy(s->pos, s->start, (size_t) s->graph.n_all * sizeof *s->pos);
  for (int32_t a = 0; a < s->graph.n_all; a++)
    for (int k = 0; k < 3 && mlff_system_graph(s->system)->node[a] == h; k++)
      s->pos[a][k] += (by - 1.0) * (s->start[h][k] - s->start[o][k]);
}

/* Energy with a short bond, without a repulsion. */
static double plain_energy(int which, double by)
{
  scene s = make_scene(which);
  answer a = make_answer(&s, 0);
  mlff_error error = {.code = MLFF_OK};
  stretch_bond(&s, by);
  test_ok(evaluate(&s, s.plain, &a.result, &error), error);
  const double energy = a.result.energy;
  free(a.numbers);
  free_scene(&s);
  return energy;
}

/* Steps with a close pair are not replayed. The captured step survives them unless the list is new, because such a step
 * cannot validate it. */
START_TEST(repulsion_is_not_recorded)
{
  const double without = plain_energy(_i, 0.8); /* 0.77 A, and 0.85 is the cutoff */
  scene s = make_repelling_scene(_i);
  answer with = make_answer(&s, 0);
  const int again = !has_atoms(&s); /* direct forces: arrays for the repulsion of its own are new, once */
  mlff_error error = {.code = MLFF_OK};
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 3, 2, 1, 0);
  stretch_bond(&s, 0.8);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 6, 2, 1, 0);
  test_ok(evaluate(&s, s.plain, &with.result, &error), error);
  ck_assert_double_gt(with.result.energy, without + 1e-3);
  ck_assert_double_lt(with.result.energy, without + 1.0);
  stretch_bond(&s, 1.0);
  for (int k = 0; k < 3; k++) step(&s, 0); /* the first one cannot be replayed yet */
  check_counts(&s, 9, 4, 1 + again, 0);
  s.graph.list_id++;
  stretch_bond(&s, 0.8);
  for (int k = 0; k < 2; k++) step(&s, 0);
  check_counts(&s, 11, 4, 1 + again, 0);
  stretch_bond(&s, 1.0);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 14, 6, 2 + again, 0);
  free(with.numbers);
  free_scene(&s);
}
END_TEST

/* Steps with a close pair are not replayed and leave no clamped distance behind: the next replayed one has the bits of
 * the plain step, which step() compares. */
START_TEST(clamped_distances_are_not_recorded)
{
  scene plain = make_scene(_i);
  const int is_direct = !has_atoms(&plain);
  free_scene(&plain);
  if (is_direct) return;
  const double without = plain_energy(_i, 0.8);
  scene s = make_clamped_scene(_i);
  answer with = make_answer(&s, 0);
  mlff_error error = {.code = MLFF_OK};
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 3, 2, 1, 0);
  stretch_bond(&s, 0.8);
  for (int k = 0; k < 3; k++) step(&s, 0);
  test_ok(evaluate(&s, s.plain, &with.result, &error), error);
  ck_assert_double_gt(fabs(with.result.energy - without), 1e-3);
  stretch_bond(&s, 1.0);
  for (int k = 0; k < 4; k++) step(&s, 0);
  ck_assert_int_ge(mlff_model_replays(s.replayed).n_replayed, 4);
  free(with.numbers);
  free_scene(&s);
}
END_TEST

/* What every step adds is in captured steps; not in those of direct models, which are never captured. */
START_TEST(repulsion_of_mace_is_recorded)
{
  const double without = plain_energy(_i, 1.0);
  scene s = make_repelled_scene(_i);
  answer a = make_answer(&s, 0);
  mlff_error error = {.code = MLFF_OK};
  for (int k = 0; k < 4; k++) step(&s, 0);
  check_counts(&s, 4, has_atoms(&s) ? 3 : 0, has_atoms(&s) ? 1 : 0, 0);
  test_ok(evaluate(&s, s.replayed, &a.result, &error), error);
  ck_assert_double_gt(a.result.energy, without + 0.1);
  free(a.numbers);
  free_scene(&s);
}
END_TEST

START_TEST(wrong_positions)
{
  scene s = make_scene(single(_i));
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  for (int k = 0; k < 3; k++) step(&s, 0);
  const long in_a_step = n_exchanges(&s) / 6, before = n_exchanges(&s);
  s.pos[4][1] = NAN;
  test_fails(evaluate(&s, s.replayed, &a.result, &error), error, MLFF_E_NUMERIC, "atom 5");
  ck_assert_int_eq(n_exchanges(&s) - before, in_a_step);
  memcpy(s.pos, s.start, (size_t) s.graph.n_all * sizeof *s.pos);
  memcpy(s.pos[4], s.pos[s.graph.nbr[s.graph.row[4]]], sizeof s.pos[4]);
  test_fails(evaluate(&s, s.replayed, &a.result, &error), error, MLFF_E_NUMERIC, "apart");
  ck_assert_int_eq(n_exchanges(&s) - before, 2 * in_a_step);
  memcpy(s.pos, s.start, (size_t) s.graph.n_all * sizeof *s.pos);
  step(&s, 0);
  ck_assert_int_eq(mlff_model_replays(s.replayed).n_recorded, 1);
  free(a.numbers);
  free_scene(&s);
}
END_TEST

/* Events time the parts of plain and replayed steps, with the same results. Steps that start or stop timing are
 * plain. */
START_TEST(parts_of_replayed_steps_are_timed)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  double seconds[MLFF_N_SPANS] = {0};
  int64_t calls[MLFF_N_SPANS] = {0};
  size_t n = 0;
  step(&s, 0);
  test_ok(mlff_spans_start(s.replayed, 10000, &error), error);
  for (int k = 1; k <= 5; k++) {
    timed_step(&s);
    const mlff_span *spans = mlff_spans_read(s.replayed);
    for (int p = 0; p < MLFF_N_SPANS; p++) {
      if (k == 1) calls[p] = spans[p].calls;
      ck_assert_int_eq(spans[p].calls, k * calls[p]);
      ck_assert(calls[p] == 0 || p == MLFF_SPAN_COPY || spans[p].seconds > seconds[p]);
      seconds[p] = spans[p].seconds;
    }
    const mlff_stamp *stamps = mlff_spans_take(s.replayed, &n, NULL);
    for (size_t q = 0; q < n; q++) ck_assert(stamps[q].end >= stamps[q].begin && stamps[q].begin > 0);
    ck_assert_uint_ge(n, 4); /* the whole, edges, what the architecture does, forces */
  }
  ck_assert_int_eq(calls[MLFF_SPAN_EDGES], has_atoms(&s) ? 1 : 2); /* Orb selects neighbors among the edges */
  ck_assert_int_eq(calls[MLFF_SPAN_FORCES], has_atoms(&s) ? 1 : 0);
  ck_assert_int_eq(calls[MLFF_SPAN_STRESS], has_atoms(&s) ? 0 : 1); /* one call, whether replayed or not */
  int64_t n_own = 0;
  for (int p = MLFF_SPAN_DESCRIPTOR; p < MLFF_SPAN_FORCES; p++) n_own += calls[p];
  ck_assert_int_gt(n_own, 0);
  check_counts(&s, 6, 4, 1, 0);
  mlff_spans_stop(s.replayed);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 9, 6, 2, 0);
  free_scene(&s);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("replay");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, replayed_steps_have_the_same_bits, 0, n_cases_with_ranks());
  tcase_add_loop_test(tcase, lists_and_wishes_change, 0, test_n_archs());
  tcase_add_loop_test(tcase, more_edges_than_room, 0, test_cases(2, 1) * test_n_archs());
  tcase_add_loop_test(tcase, recorded_before_the_first_step, 0, test_cases(3, 1) * test_n_archs());
  tcase_add_loop_test(tcase, repulsion_is_not_recorded, 0, test_cases(3, 1) * test_n_archs());
  tcase_add_loop_test(tcase, clamped_distances_are_not_recorded, 0, test_cases(3, 1) * test_n_archs());
  tcase_add_loop_test(tcase, repulsion_of_mace_is_recorded, 0, test_cases(3, 1) * test_n_archs());
  tcase_add_loop_test(tcase, wrong_positions, 0, 2 * test_n_archs());
  tcase_add_loop_test(tcase, parts_of_replayed_steps_are_timed, 0, test_n_archs());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return device_main("cuda_replay", make_suite);
}
