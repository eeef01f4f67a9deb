/* test_replay.c: steps that are recorded as CUDA graphs and replayed: the same bits as op by op, nothing but one launch
 * and one wait in a settled step, lists and sizes that change, and recordings that fail. On the simulated device, which
 * stops steps that could not be recorded on a real one. */
#include "backends.h"
#include "cudasim.h"
#include "testmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};
enum { N_MODELS = 3, N_CASES = 2 * N_MODELS }; /* a two-layer PaiNN, an ensemble of ANI, an Orb, in both precisions */

static test_model make_model(int which)
{
  const test_model_options options = {.elements = hco, .n_elements = 3, .is_double = 1};
  if (which % N_MODELS == 2) return test_model_small_orb(options);
  return test_model_nth(which % N_MODELS ? 3 : 0, options);
}

static mlff_model *open_model(const test_model *file, int which, const char *graph)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const mlff_options options = {.device = "cuda",
                                .precision = which < N_MODELS ? "fp32" : "fp64",
                                .graph = graph,
                                .skip_self_test = 1};
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

/* Water whose atoms move while its list stays. */
typedef struct scene {
  test_model file;
  mlff_model *on, *off;
  mlff_system *system;
  mlff_graph graph;
  double (*pos)[3], (*start)[3];
  uint64_t rng;
} scene;

static void set_list(scene *s, double skin)
{
  test_atoms atoms = test_water_box(2, 5);
  test_atoms_species(&atoms, hco, 3);
  mlff_system_free(s->system);
  s->system = test_system(&atoms, mlff_model_info(s->on)->cutoff + skin);
  const uint64_t list_id = s->graph.list_id;
  s->graph = *mlff_system_graph(s->system);
  s->graph.list_id = list_id + 1;
  const size_t bytes = (size_t) s->graph.n_all * sizeof *s->pos;
  s->pos = realloc(s->pos, bytes);
  s->start = realloc(s->start, bytes);
  memcpy(s->pos, s->graph.pos, bytes);
  memcpy(s->start, s->graph.pos, bytes);
  s->graph.pos = (const double(*)[3]) s->pos;
  test_atoms_free(&atoms);
}

static scene make_scene(int which)
{
  cudasim_reset();
  scene s = {.file = make_model(which), .rng = 7};
  s.on = open_model(&s.file, which, "on");
  s.off = open_model(&s.file, which, "off");
  set_list(&s, 0.5);
  return s;
}

static void free_scene(scene *s)
{
  mlff_model_close(s->on);
  mlff_model_close(s->off);
  mlff_system_free(s->system);
  free(s->pos);
  free(s->start);
  test_model_free(&s->file);
  ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
}

/* Every atom, with its images, goes a little from where it started; all distances are scaled. */
static void move(scene *s, double size, double scale)
{
  const mlff_graph *g = &s->graph;
  for (int32_t a = 0; a < g->n_all; a++)
    for (int k = 0; k < 3; k++) {
      s->rng = s->rng * 6364136223846793005u + 1442695040888963407u;
      const double r = (double) (s->rng >> 40) / (double) (1 << 24) - 0.5;
      const double shift = a < g->n_local ? size * r : s->pos[g->node[a]][k] / scale - s->start[g->node[a]][k];
      s->pos[a][k] = scale * (s->start[a][k] + shift);
    }
}

/* Whether atoms have energies and stress of their own. */
static int has_atoms(const scene *s)
{
  return (mlff_model_info(s->on)->traits & MLFF_CONSERVATIVE) != 0;
}

/* What a step gives, all of it. */
typedef struct answer {
  mlff_result result;
  double *numbers;
  size_t n;
} answer;

static answer make_answer(const scene *s, int with_stress)
{
  const size_t n = (size_t) s->graph.n_local;
  answer a = {.n = n * (3 + 1 + 9) + 64};
  a.numbers = calloc(a.n, sizeof *a.numbers);
  a.result.forces = (double(*)[3]) a.numbers;
  if (has_atoms(s)) a.result.atom_energy = a.numbers + 3 * n;
  if (with_stress) a.result.atom_virial = (double(*)[9])(a.numbers + 4 * n);
  a.result.member_energy = a.numbers + 13 * n;
  return a;
}

/* One step with both models: the same bits. */
static void step(scene *s, int with_stress)
{
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(s, with_stress), b = make_answer(s, with_stress);
  test_ok(mlff_model_evaluate(s->on, &s->graph, NULL, &a.result, &error), error);
  test_ok(mlff_model_evaluate(s->off, &s->graph, NULL, &b.result, &error), error);
  ck_assert_int_eq(memcmp(a.numbers, b.numbers, a.n * sizeof *a.numbers), 0);
  ck_assert_int_eq(memcmp(a.result.virial, b.result.virial, sizeof a.result.virial), 0);
  ck_assert(a.result.energy == b.result.energy && a.result.min_distance == b.result.min_distance);
  ck_assert_int_eq(a.result.n_edges, b.result.n_edges);
  ck_assert(fabs(a.numbers[0]) > 0);
  free(a.numbers);
  free(b.numbers);
}

static void check_counts(const scene *s, int64_t n_steps, int64_t n_replayed, int64_t n_recorded, int64_t n_overflows)
{
  const mlff_replays on = mlff_model_replays(s->on), off = mlff_model_replays(s->off);
  ck_assert(on.is_on && !*on.why && !off.is_on && strstr(off.why, "graph off"));
  ck_assert_int_eq(on.n_steps, n_steps);
  ck_assert_int_eq(on.n_replayed, n_replayed);
  ck_assert_int_eq(on.n_recorded, n_recorded);
  ck_assert_int_eq(on.n_overflows, n_overflows);
  ck_assert_int_eq(off.n_replayed + off.n_recorded, 0);
}

START_TEST(replayed_steps_have_the_same_bits)
{
  scene s = make_scene(_i);
  for (int k = 0; k < 6; k++) {
    cudasim_set_shuffle((unsigned) k);
    step(&s, 0);
    move(&s, 0.1, 1.0);
  }
  check_counts(&s, 6, 5, 1, 0);
  free_scene(&s);
}
END_TEST

START_TEST(a_settled_step_is_one_launch_and_one_wait)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  for (int k = 0; k < 4; k++) {
    const long launches = cudasim_n_launches(), graphs = cudasim_n_graph_launches();
    const long waits = cudasim_n_synchronisations(), allocations = cudasim_n_allocations();
    const int64_t growths = mlff_model_memory(s.on).n_growths;
    test_ok(mlff_model_evaluate(s.on, &s.graph, NULL, &a.result, &error), error);
    if (k < 2) continue; /* the list, and the recording */
    ck_assert_int_eq(cudasim_n_launches() - launches, 1);
    ck_assert_int_eq(cudasim_n_graph_launches() - graphs, 1);
    ck_assert_int_eq(cudasim_n_synchronisations() - waits, 1);
    ck_assert_int_eq(cudasim_n_allocations() - allocations, 0);
    ck_assert_int_eq(mlff_model_memory(s.on).n_growths, growths);
  }
  free(a.numbers);
  free_scene(&s);
}
END_TEST

/* What a recording consists of: the kernels of a step op by op, and copies and fills besides; timed, events as well. */
START_TEST(nodes_of_a_recording)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  long n_plain = 0;
  for (int k = 0; k < 2; k++) {
    const long before = cudasim_n_launches();
    test_ok(mlff_model_evaluate(s.off, &s.graph, NULL, &a.result, &error), error);
    n_plain = cudasim_n_launches() - before;
  }
  step(&s, 0);
  ck_assert_int_eq(mlff_model_replays(s.on).n_nodes + mlff_model_replays(s.on).n_kernels, 0);
  step(&s, 0);
  const mlff_replays r = mlff_model_replays(s.on), off = mlff_model_replays(s.off);
  ck_assert_int_eq(r.n_kernels, n_plain);
  ck_assert_int_gt(r.n_nodes, r.n_kernels);
  ck_assert_int_lt(r.n_nodes, 2 * r.n_kernels);
  ck_assert_int_eq(off.n_nodes + off.n_kernels, 0);
  test_ok(mlff_spans_start(s.on, 0, &error), error);
  ck_assert_int_eq(mlff_model_replays(s.on).n_nodes, 0); /* it is made again */
  step(&s, 0);
  step(&s, 0);
  const mlff_replays timed = mlff_model_replays(s.on);
  ck_assert_int_ge(timed.n_kernels, n_plain); /* each operation has kernels of its own */
  ck_assert_int_ge(timed.n_nodes - timed.n_kernels, r.n_nodes - r.n_kernels + 2);
  free(a.numbers);
  free_scene(&s);
}
END_TEST

/* A list of the same sizes keeps the recording, another one does not, and what was wanted for once is not recorded. */
START_TEST(lists_and_wishes_change)
{
  scene s = make_scene(_i);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 3, 2, 1, 0);
  s.graph.list_id++;
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 6, 4, 1, 0);
  if (!has_atoms(&s)) { /* nothing else can be wanted */
    set_list(&s, 2.0);
    for (int k = 0; k < 3; k++) step(&s, 0);
    check_counts(&s, 9, 6, 2, 0);
    free_scene(&s);
    return;
  }
  step(&s, 1);
  step(&s, 0);
  check_counts(&s, 8, 5, mlff_model_replays(s.on).n_recorded, 0);
  const int64_t before = mlff_model_replays(s.on).n_recorded;
  ck_assert_int_le(before, 2); /* room for the stress of atoms may have moved arrays, once */
  step(&s, 1);
  step(&s, 0);
  check_counts(&s, 10, 6, before, 0);
  set_list(&s, 2.0);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 13, 8, before + 1, 0);
  for (int k = 0; k < 3; k++) step(&s, 1); /* wanted from now on: recorded at the second time */
  check_counts(&s, 16, 10, before + 2, 0);
  free_scene(&s);
}
END_TEST

/* Atoms come closer until there are more edges than the recording has room for. */
START_TEST(more_edges_than_room)
{
  scene s = make_scene(_i);
  set_list(&s, 2.5);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 3, 2, 1, 0);
  move(&s, 0.0, 0.85);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 6, 4, 2, 1);
  free_scene(&s);
}
END_TEST

static double record_now(scene *s, mlff_model *model, int with_stress)
{
  mlff_error error = {.code = MLFF_OK};
  double seconds = NAN;
  answer a = make_answer(s, with_stress), b = make_answer(s, with_stress);
  test_ok(mlff_model_record(model, &s->graph, NULL, &a.result, &seconds, &error), error);
  if (seconds > 0) { /* then the results are those of an evaluation */
    test_ok(mlff_model_evaluate(s->off, &s->graph, NULL, &b.result, &error), error);
    ck_assert_int_eq(memcmp(a.numbers, b.numbers, a.n * sizeof *a.numbers), 0);
    ck_assert(a.result.energy == b.result.energy);
  }
  free(a.numbers);
  free(b.numbers);
  return seconds;
}

/* Recorded before the steps: the first of them is one launch. Nothing is done twice, and nothing where nothing is recorded. */
START_TEST(recorded_before_the_first_step)
{
  scene s = make_scene(_i);
  ck_assert(record_now(&s, s.on, 0) == 0); /* its list has not been evaluated */
  step(&s, has_atoms(&s));                 /* wants more than the steps to come */
  ck_assert(record_now(&s, s.on, 0) > 0);
  ck_assert(record_now(&s, s.on, 0) == 0 && record_now(&s, s.off, 0) == 0);
  check_counts(&s, 1, 0, 1, 0);
  move(&s, 0.1, 1.0);
  const long graphs = cudasim_n_graph_launches();
  step(&s, 0);
  ck_assert_int_eq(cudasim_n_graph_launches() - graphs, 1);
  check_counts(&s, 2, 1, 1, 0);
  s.graph.list_id++; /* another list of the same sizes: its plain step finds that the recording fits */
  step(&s, 0);
  ck_assert(record_now(&s, s.on, 0) == 0);
  step(&s, 0);
  check_counts(&s, 4, 2, 1, 0);
  set_list(&s, 2.0); /* and of others: it does not */
  step(&s, 0);
  ck_assert(record_now(&s, s.on, 0) > 0);
  step(&s, 0);
  check_counts(&s, 6, 3, 2, 0);
  if (has_atoms(&s)) { /* asked for by name, other results take the place of the recorded ones */
    ck_assert(record_now(&s, s.on, 1) > 0);
    step(&s, 1);
    check_counts(&s, 7, 4, mlff_model_replays(s.on).n_recorded, 0);
  }
  free_scene(&s);
}
END_TEST

START_TEST(refused_before_the_first_step)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  double seconds;
  cudasim_fail_capture(1 + _i % 3);
  step(&s, 0);
  ck_assert(record_now(&s, s.on, 0) > 0);
  ck_assert(!mlff_model_replays(s.on).is_on && strstr(mlff_model_replays(s.on).why, "could not be recorded"));
  ck_assert(record_now(&s, s.on, 0) == 0);
  step(&s, 0);
  ck_assert_int_eq(mlff_model_replays(s.on).n_steps, 2);
  test_fails(mlff_model_record(s.on, &s.graph, NULL, NULL, &seconds, &error), error, MLFF_E_ARG, "NULL");
  cudasim_fail_capture(0);
  mlff_model_close(s.on);
  s.on = open_model(&s.file, _i, "on");
  step(&s, 0);
  cudasim_fail_launch(3);
  test_fails(mlff_model_record(s.on, &s.graph, NULL, &a.result, &seconds, &error), error, MLFF_E_DEVICE, "_kernel");
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
    const mlff_replays r = mlff_model_replays(s.on);
    ck_assert(!r.is_on);
    ck_assert_msg(strstr(r.why, "could not be recorded") && strstr(r.why, where[which - 1]), "%s", r.why);
    ck_assert_int_eq(r.n_replayed + r.n_recorded, 0);
    free_scene(&s);
  }
}
END_TEST

START_TEST(wrong_positions_and_lost_devices)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  for (int k = 0; k < 3; k++) step(&s, 0);
  s.pos[4][1] = NAN;
  test_fails(mlff_model_evaluate(s.on, &s.graph, NULL, &a.result, &error), error, MLFF_E_NUMERIC, "atom 4");
  memcpy(s.pos, s.start, (size_t) s.graph.n_all * sizeof *s.pos);
  memcpy(s.pos[4], s.pos[s.graph.nbr[s.graph.row[4]]], sizeof s.pos[4]);
  test_fails(mlff_model_evaluate(s.on, &s.graph, NULL, &a.result, &error), error, MLFF_E_NUMERIC, "apart");
  memcpy(s.pos, s.start, (size_t) s.graph.n_all * sizeof *s.pos);
  step(&s, 0);
  ck_assert_int_eq(mlff_model_replays(s.on).n_recorded, 1);
  cudasim_fail_launch(1);
  test_fails(mlff_model_evaluate(s.on, &s.graph, NULL, &a.result, &error), error, MLFF_E_DEVICE, "recorded step");
  test_fails(mlff_model_evaluate(s.on, &s.graph, NULL, &a.result, &error), error, MLFF_E_DEVICE, "restart");
  free(a.numbers);
  free_scene(&s);
}
END_TEST

/* The n-th launch of the step that is being recorded fails: that is the device's failure, not the recording's. A recorded step
 * has the launches of a plain one, and then that of the recording itself. */
START_TEST(launches_that_fail_while_recording)
{
  mlff_error error = {.code = MLFF_OK};
  long n_plain = 1;
  for (long n = 1; n <= n_plain + 2; n++) {
    scene s = make_scene(_i);
    answer a = make_answer(&s, 0);
    test_ok(mlff_model_evaluate(s.on, &s.graph, NULL, &a.result, &error), error);
    if (n == 1) {
      test_ok(mlff_model_evaluate(s.off, &s.graph, NULL, &a.result, &error), error);
      const long before = cudasim_n_launches();
      test_ok(mlff_model_evaluate(s.off, &s.graph, NULL, &a.result, &error), error);
      n_plain = cudasim_n_launches() - before;
      ck_assert_int_gt(n_plain, 10);
    }
    cudasim_fail_launch(n);
    const char *where = n <= n_plain ? "_kernel" : "recorded step";
    if (n <= n_plain + 1)
      test_fails(mlff_model_evaluate(s.on, &s.graph, NULL, &a.result, &error), error, MLFF_E_DEVICE, where);
    else
      test_ok(mlff_model_evaluate(s.on, &s.graph, NULL, &a.result, &error), error);
    free(a.numbers);
    free_scene(&s);
  }
}
END_TEST

/* Parts are timed by events, plainly and replayed, with the same results; one that starts or stops timing is plain. */
START_TEST(parts_of_replayed_steps_are_timed)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  double seconds[MLFF_N_SPANS] = {0};
  int64_t calls[MLFF_N_SPANS] = {0};
  size_t n = 0;
  step(&s, 0);
  test_ok(mlff_spans_start(s.on, 10000, &error), error);
  for (int k = 1; k <= 5; k++) {
    step(&s, 0);
    const mlff_span *spans = mlff_spans_read(s.on);
    for (int p = 0; p < MLFF_N_SPANS; p++) {
      if (k == 1) calls[p] = spans[p].calls;
      ck_assert_int_eq(spans[p].calls, k * calls[p]);
      ck_assert(calls[p] == 0 || p == MLFF_SPAN_COPY || spans[p].seconds > seconds[p]);
      seconds[p] = spans[p].seconds;
    }
    const mlff_stamp *stamps = mlff_spans_take(s.on, &n, NULL);
    for (size_t q = 0; q < n; q++) ck_assert(stamps[q].end >= stamps[q].begin && stamps[q].begin > 0);
    ck_assert_uint_gt(n, 10);
  }
  ck_assert_int_eq(calls[MLFF_SPAN_EDGES], has_atoms(&s) ? 1 : 2); /* Orb chooses neighbours among the edges */
  ck_assert_int_eq(calls[MLFF_SPAN_FORCES], has_atoms(&s) ? 1 : 0);
  ck_assert_int_gt(calls[MLFF_SPAN_DENSE], 1);
  check_counts(&s, 6, 4, 1, 0);
  mlff_spans_stop(s.on);
  for (int k = 0; k < 3; k++) step(&s, 0);
  check_counts(&s, 9, 6, 2, 0);
  free_scene(&s);
}
END_TEST

/* Ranges for NVIDIA's profilers: as many as calls that are timed, with the names of the spans, all of them ended; in replayed
 * steps, which call no operation, those of copies alone, and none while nothing is timed. */
START_TEST(ranges_are_those_of_the_spans)
{
  scene s = make_scene(_i);
  mlff_error error = {.code = MLFF_OK};
  answer a = make_answer(&s, 0);
  test_ok(mlff_model_evaluate(s.off, &s.graph, NULL, &a.result, &error), error);
  ck_assert_int_eq(cudasim_n_ranges(), 0);
  mlff_model *const models[] = {s.off, s.on};
  for (int which = 0; which < 2; which++) {
    test_ok(mlff_spans_start(models[which], 0, &error), error);
    for (int k = 0; k < 4; k++) {
      const long before = cudasim_n_ranges();
      int64_t n_calls = 0, n_copies = 0;
      test_ok(mlff_model_evaluate(models[which], &s.graph, NULL, &a.result, &error), error);
      const mlff_span *spans = mlff_spans_read(models[which]);
      for (int p = 0; p < MLFF_N_SPANS; p++)
        *(p == MLFF_SPAN_COPY ? &n_copies : &n_calls) += spans[p].calls; /* of copies, those of the host have none */
      ck_assert_int_eq(cudasim_open_ranges(), 0);
      const int is_replayed = which == 1 && k > 1;
      if (!is_replayed) ck_assert_int_gt(cudasim_n_ranges() - before, 10);
      if (is_replayed && _i != 2) /* copies hand results out; of an Orb, all calls do */
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
  tcase_add_loop_test(tcase, replayed_steps_have_the_same_bits, 0, N_CASES);
  tcase_add_loop_test(tcase, a_settled_step_is_one_launch_and_one_wait, 0, N_MODELS);
  tcase_add_loop_test(tcase, nodes_of_a_recording, 0, N_CASES);
  tcase_add_loop_test(tcase, lists_and_wishes_change, 0, N_MODELS);
  tcase_add_loop_test(tcase, more_edges_than_room, 0, N_MODELS);
  tcase_add_loop_test(tcase, recorded_before_the_first_step, 0, N_CASES);
  tcase_add_loop_test(tcase, refused_before_the_first_step, 0, N_MODELS);
  tcase_add_loop_test(tcase, recordings_that_fail_are_said_and_done_without, 0, 2);
  tcase_add_loop_test(tcase, wrong_positions_and_lost_devices, 0, N_MODELS);
  tcase_add_loop_test(tcase, launches_that_fail_while_recording, 0, N_MODELS);
  tcase_add_loop_test(tcase, parts_of_replayed_steps_are_timed, 0, N_MODELS);
  tcase_add_loop_test(tcase, ranges_are_those_of_the_spans, 0, N_MODELS);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
