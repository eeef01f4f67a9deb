/* test_device_graph.c: graphs whose arrays are on the device: the same bits as from the host, step by step, with steps
 * recorded or not, for new lists, other ranks' atoms, no atoms; and what is refused. The simulated device stops host code
 * that touches its memory, and kernels that get other addresses. */
#include "backends.h"
#include "cudasim.h"
#include "testmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};
enum {
  N_CASES = 8
}; /* a two-layer PaiNN and an ensemble of ANI, in both precisions, with recorded steps and without */

static test_model make_model(int which)
{
  return test_model_nth(which % 2 ? 3 : 0, (test_model_options){.elements = hco, .n_elements = 3, .is_double = 1});
}

static mlff_model *open_model(const test_model *file, const char *device, const char *precision, const char *graph)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const mlff_options options = {.device = device, .precision = precision, .graph = graph, .skip_self_test = 1};
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

/* ---- a graph twice ------------------------------------------------------------------------------------------------- */

typedef struct twins {
  mlff_system *system;
  mlff_graph host, device;
  int32_t *node, *owner; /* node [n_all]; owner [n_nodes - n_local] of a node that plays another rank's atom */
  double (*pos)[3];
  uint64_t rng;
} twins;

static void *copy(const void *host, size_t bytes)
{
  return cudasim_array(0, host, bytes);
}

static void free_device(mlff_graph *g)
{
  const void *const arrays[] = {g->species, g->node, g->row, g->nbr, g->pos};
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) cudasim_free((void *) (uintptr_t) arrays[k]);
}

static void free_twins(twins *t)
{
  free_device(&t->device);
  mlff_system_free(t->system);
  free(t->node);
  free(t->owner);
  free(t->pos);
}

/* Images become atoms of another rank, one node for all images of an atom. */
static void split_nodes(twins *t)
{
  mlff_graph *g = &t->host;
  int32_t *node_of = malloc((size_t) g->n_local * sizeof *node_of);
  for (int32_t i = 0; i < g->n_local; i++) node_of[i] = -1;
  g->n_interior = 0;
  for (int32_t a = g->n_local; a < g->n_all; a++) {
    const int32_t i = t->node[a];
    if (node_of[i] < 0) {
      t->owner[g->n_nodes - g->n_local] = i;
      node_of[i] = g->n_nodes++;
    }
    t->node[a] = node_of[i];
  }
  free(node_of);
}

static twins make_twins(double reach, int n_side, int with_ranks)
{
  test_atoms atoms = test_water_box(n_side, 5);
  test_atoms_species(&atoms, hco, 3);
  twins t = {.system = test_system(&atoms, reach), .rng = 7};
  t.host = *mlff_system_graph(t.system);
  mlff_graph *g = &t.host;
  const size_t n_all = (size_t) g->n_all;
  t.pos = malloc(n_all * sizeof *t.pos);
  t.node = malloc(n_all * sizeof *t.node);
  t.owner = malloc(n_all * sizeof *t.owner);
  memcpy(t.pos, g->pos, n_all * sizeof *t.pos);
  memcpy(t.node, g->node, n_all * sizeof *t.node);
  g->pos = (const double(*)[3]) t.pos;
  g->node = t.node;
  if (with_ranks) split_nodes(&t);
  t.device = t.host;
  t.device.on_device = 1;
  t.device.species = copy(g->species, n_all * sizeof *g->species);
  t.device.node = copy(g->node, n_all * sizeof *g->node);
  t.device.row = copy(g->row, ((size_t) g->n_local + 1) * sizeof *g->row);
  t.device.nbr = copy(g->nbr, (size_t) g->n_pairs * sizeof *g->nbr);
  t.device.pos = copy(g->pos, n_all * sizeof *g->pos);
  test_atoms_free(&atoms);
  return t;
}

static void write_positions(twins *t)
{
  cudasim_write((void *) (uintptr_t) t->device.pos, t->pos, (size_t) t->host.n_all * sizeof *t->pos);
}

/* Every atom goes a little on, its images with it. */
static void move(twins *t)
{
  const mlff_graph *g = mlff_system_graph(t->system);
  double(*shift)[3] = malloc((size_t) g->n_local * sizeof *shift);
  for (int32_t a = 0; a < g->n_all; a++)
    for (int k = 0; k < 3; k++) {
      t->rng = t->rng * 6364136223846793005u + 1442695040888963407u;
      if (a < g->n_local) shift[a][k] = 0.1 * ((double) (t->rng >> 40) / (double) (1 << 24) - 0.5);
      t->pos[a][k] += shift[g->node[a]][k];
    }
  free(shift);
  write_positions(t);
}

/* Rows of the nodes that play another rank's. */
static mlff_status forward(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  const twins *t = context;
  char *row = rows;
  (void) error;
  for (int32_t k = t->host.n_local; k < t->host.n_nodes; k++)
    memcpy(row + (size_t) k * row_bytes, row + (size_t) t->owner[k - t->host.n_local] * row_bytes, row_bytes);
  return MLFF_OK;
}

/* The same from packed rows on the device, which only copies may touch. */
static mlff_status forward_device(void *context, const void *packed, void *arrivals, size_t row_bytes,
                                  mlff_error *error)
{
  const twins *t = context;
  const size_t bytes = (size_t) (t->host.n_nodes - t->host.n_local) * row_bytes;
  void *rows = malloc(bytes);
  (void) error;
  cudasim_read(rows, packed, bytes); /* every node that plays another rank's is sent once, in order */
  cudasim_write(arrivals, rows, bytes);
  free(rows);
  return MLFF_OK;
}

/* ---- answers ------------------------------------------------------------------------------------------------------- */

typedef struct answer {
  mlff_result result;
  double *numbers; /* forces [n_nodes][3], atom_energy [n_local], atom_virial [n_nodes][9], two of members */
  size_t n;
} answer;

static answer make_answer(const mlff_graph *g, int with_stress)
{
  const size_t n = (size_t) g->n_nodes;
  answer a = {.n = n * (3 + 1 + 9) + 64};
  a.numbers = calloc(a.n, sizeof *a.numbers);
  a.result.forces = (double(*)[3]) a.numbers;
  a.result.atom_energy = a.numbers + 3 * n;
  if (with_stress) a.result.atom_virial = (double(*)[9])(a.numbers + 4 * n);
  a.result.member_energy = a.numbers + 13 * n;
  return a;
}

static void same_bits(const answer *a, const answer *b)
{
  ck_assert_int_eq(memcmp(a->numbers, b->numbers, a->n * sizeof *a->numbers), 0);
  ck_assert_int_eq(memcmp(a->result.virial, b->result.virial, sizeof a->result.virial), 0);
  ck_assert(a->result.energy == b->result.energy && a->result.min_distance == b->result.min_distance);
  ck_assert_int_eq(a->result.n_edges, b->result.n_edges);
}

/* One step of both; `wanted`: bit 0 stress of atoms, bit 1 forces on the host, too,
 * bit 2 features from GPU to GPU. */
static void step(mlff_model *on_host, mlff_model *on_device, twins *t, int wanted)
{
  mlff_error error = {.code = MLFF_OK};
  const mlff_halo halo = {.context = t, .forward = forward};
  const mlff_halo direct = {.context = t,
                            .forward = forward,
                            .sent = t->owner,
                            .n_sent = t->host.n_nodes - t->host.n_local,
                            .forward_device = forward_device};
  const int has_ranks = t->host.n_nodes > t->host.n_local;
  answer a = make_answer(&t->host, wanted & 1), b = make_answer(&t->host, wanted & 1);
  if (!(wanted & 2)) b.result.forces = NULL;
  test_ok(mlff_model_evaluate(on_host, &t->host, has_ranks ? &halo : NULL, &a.result, &error), error);
  const mlff_halo *ranks = has_ranks ? (wanted & 4 ? &direct : &halo) : NULL;
  test_ok(mlff_model_evaluate(on_device, &t->device, ranks, &b.result, &error), error);
  ck_assert_ptr_null(a.result.device_forces);
  if (wanted & 2) {
    double *there = malloc((size_t) t->host.n_nodes * 3 * sizeof *there);
    cudasim_read(there, b.result.device_forces, (size_t) t->host.n_nodes * 3 * sizeof *there);
    ck_assert_int_eq(memcmp(there, b.numbers, (size_t) t->host.n_nodes * 3 * sizeof *there), 0);
    free(there);
  } else {
    cudasim_read(b.numbers, b.result.device_forces, (size_t) t->host.n_nodes * 3 * sizeof *b.numbers);
  }
  same_bits(&a, &b);
  ck_assert(fabs(a.numbers[0]) > 0);
  free(a.numbers);
  free(b.numbers);
}

static void close_models(mlff_model *a, mlff_model *b, test_model *file)
{
  mlff_model_close(a);
  mlff_model_close(b);
  test_model_free(file);
  ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

/* What most tests work with: a fresh simulator, one model on its GPU, and a box of water on both sides. */
typedef struct scene {
  test_model file;
  mlff_model *model;
  twins t;
} scene;

static scene open_scene(int which, int with_ranks)
{
  scene s;
  cudasim_reset();
  s.file = make_model(which);
  s.model = open_model(&s.file, "cuda", "fp32", "on");
  s.t = make_twins(mlff_model_info(s.model)->cutoff + 0.5, 2, with_ranks);
  return s;
}

static void close_scene(scene *s)
{
  free_twins(&s->t);
  close_models(s->model, NULL, &s->file);
}

START_TEST(same_bits_as_from_the_host)
{
  cudasim_reset();
  test_model file = make_model(_i);
  const char *precision = _i & 2 ? "fp64" : "fp32", *graph = _i & 4 ? "off" : "on";
  mlff_model *a = open_model(&file, "cuda", precision, graph), *b = open_model(&file, "cuda", precision, graph);
  const double cutoff = mlff_model_info(a)->cutoff;
  int64_t n_steps = 0;
  for (int list = 0; list < 3; list++) {
    twins t = make_twins(cutoff + 0.5 + 0.4 * list, 2, 0);
    for (int k = 0; k < 5; k++, n_steps++) {
      cudasim_set_shuffle((unsigned) (5 * list + k));
      step(a, b, &t, k == 3 ? 3 : k == 4 ? 1 : 0);
      move(&t);
    }
    free_twins(&t);
  }
  const mlff_replays r = mlff_model_replays(b);
  ck_assert_int_eq(r.n_steps, n_steps);
  if (_i & 4)
    ck_assert_int_eq(r.n_replayed, 0);
  else
    ck_assert_int_ge(r.n_replayed, 6); /* the second and third step with every list */
  close_models(a, b, &file);
}
END_TEST

/* Features of nodes of other ranks go through the halo, forces on them are there as well. */
START_TEST(same_bits_on_ranks)
{
  cudasim_reset();
  test_model file = make_model(_i);
  const char *precision = _i & 2 ? "fp64" : "fp32";
  mlff_model *a = open_model(&file, "cuda", precision, "on"), *b = open_model(&file, "cuda", precision, "on");
  twins t = make_twins(mlff_model_info(a)->cutoff + 0.5, 2, 1);
  ck_assert_int_gt(t.host.n_nodes, t.host.n_local);
  for (int k = 0; k < 4; k++) {
    step(a, b, &t, k == 2 ? 1 : k == 3 ? 4 : k);
    move(&t);
  }
  for (int list = 0; list < 2; list++) { /* GPU to GPU from the first step on, with lists of other sizes */
    free_twins(&t);
    t = make_twins(mlff_model_info(a)->cutoff + 0.3 + 0.4 * list, 2, 1);
    for (int k = 0; k < 3; k++) {
      const long copied = cudasim_n_bytes_copied();
      step(a, b, &t, 4);
      ck_assert_int_gt(cudasim_n_bytes_copied(), copied);
      move(&t);
    }
  }
  free_twins(&t);
  close_models(a, b, &file);
}
END_TEST

/* A GPU that has failed sends zeros from the host, so that no rank waits, for each exchange of the step. */
static int n_from_host;
static mlff_status count_forward(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  n_from_host++;
  return forward(context, rows, row_bytes, error);
}

START_TEST(exchanges_of_a_lost_device)
{
  scene s = open_scene(0, 1);
  mlff_error error = {.code = MLFF_OK};
  mlff_result result = {.forces = NULL};
  const mlff_halo halo = {.context = &s.t,
                          .forward = count_forward,
                          .sent = s.t.owner,
                          .n_sent = s.t.host.n_nodes - s.t.host.n_local,
                          .forward_device = forward_device};
  n_from_host = 0;
  test_ok(mlff_model_evaluate(s.model, &s.t.device, &halo, &result, &error), error);
  ck_assert_int_eq(n_from_host, 0);
  cudasim_fail_launch(2);
  test_fails(mlff_model_evaluate(s.model, &s.t.device, &halo, &result, &error), error, MLFF_E_DEVICE, "_kernel");
  ck_assert_int_eq(n_from_host, 2); /* forward and backward, of two layers */
  close_scene(&s);
}
END_TEST

/* One model gets graphs from both sides in turn, with one list. */
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

/* A settled step copies no positions to the GPU and no forces from it. */
START_TEST(a_settled_step_is_one_launch_and_one_wait)
{
  scene s = open_scene(_i, 0);
  mlff_error error = {.code = MLFF_OK};
  mlff_result result = {.forces = NULL};
  long copied[2] = {0, 0};
  for (int on_device = 0; on_device < 2; on_device++) {
    answer a = make_answer(&s.t.host, 0);
    s.t.host.list_id++;
    s.t.device.list_id++;
    for (int k = 0; k < 4; k++) {
      const long launches = cudasim_n_launches(), waits = cudasim_n_synchronisations();
      const long allocations = cudasim_n_allocations();
      copied[on_device] = cudasim_n_bytes_copied();
      test_ok(mlff_model_evaluate(s.model, on_device ? &s.t.device : &s.t.host, NULL, on_device ? &result : &a.result,
                                  &error),
              error);
      copied[on_device] = cudasim_n_bytes_copied() - copied[on_device];
      if (k < 2) continue;
      ck_assert_int_eq(cudasim_n_launches() - launches, 1);
      ck_assert_int_eq(cudasim_n_synchronisations() - waits, 1);
      ck_assert_int_eq(cudasim_n_allocations() - allocations, 0);
    }
    free(a.numbers);
  }
  /* positions of all atoms, with some room, and forces of the nodes stay */
  const long saved = 24 * ((long) s.t.host.n_all + s.t.host.n_nodes);
  ck_assert_msg(copied[0] - copied[1] >= saved - 64, "%ld and %ld bytes", copied[0], copied[1]);
  close_scene(&s);
}
END_TEST

START_TEST(no_atoms)
{
  cudasim_reset();
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = open_model(&file, "cuda", "fp32", "on");
  const int64_t zero = 0;
  int64_t *row = copy(&zero, sizeof zero);
  const mlff_graph graph = {.list_id = 9, .row = row, .on_device = 1};
  for (int k = 0; k < 4; k++) {
    mlff_result result = {.energy = 1.0};
    test_ok(mlff_model_evaluate(model, &graph, NULL, &result, &error), error);
    ck_assert(result.energy == 0.0 && result.virial[0] == 0.0 && result.n_edges == 0);
    ck_assert_ptr_nonnull(result.device_forces);
  }
  cudasim_free(row);
  close_models(model, NULL, &file);
}
END_TEST

/* Each array from the wrong place, the CPU, and functions that read graphs on the host. */
START_TEST(wrong_use_is_refused)
{
  cudasim_reset();
  cudasim_set_devices(2);
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *gpu = open_model(&file, "cuda:0", "fp32", "on"), *other = open_model(&file, "cuda:1", "fp32", "on");
  mlff_model *cpu = open_model(&file, "cpu", "fp32", "on");
  twins t = make_twins(mlff_model_info(gpu)->cutoff + 0.5, 2, 0);
  mlff_result result = {.forces = NULL};
  mlff_forecast forecast;
  test_fails(mlff_model_evaluate(cpu, &t.device, NULL, &result, &error), error, MLFF_E_UNSUPPORTED, "on the CPU");
  test_fails(mlff_model_evaluate(other, &t.device, NULL, &result, &error), error, MLFF_E_ARG,
             "graph.pos is in the memory of GPU 0, and the model computes on GPU 1");
  test_fails(mlff_model_forecast(gpu, &t.device, &result, &forecast, &error), error, MLFF_E_UNSUPPORTED, "on the host");
  test_fails(mlff_graph_check(&t.device, 3, &error), error, MLFF_E_UNSUPPORTED, "on the host");
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
             "made on the host");
  mlff_model_close(direct);
  test_model_free(&orb);
  free_twins(&t);
  mlff_model_close(cpu);
  close_models(gpu, other, &file);
}
END_TEST

/* Numbers that are not finite, elements that are not the model's, a device that is lost. */
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
  test_fails(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error, MLFF_E_NUMERIC, "atom 4");
  t->pos[4][1] = before;
  memcpy(t->pos[7], t->pos[4], sizeof t->pos[4]);
  write_positions(t);
  test_fails(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error, MLFF_E_NUMERIC, "apart");
  const int32_t wrong = 17;
  t->device.list_id++;
  cudasim_write((int32_t *) (uintptr_t) t->device.species + 5, &wrong, sizeof wrong);
  test_fails(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error, MLFF_E_ARG,
             "species of atom 5 is 17");
  cudasim_write((int32_t *) (uintptr_t) t->device.species, t->host.species, (size_t) t->host.n_all * sizeof wrong);
  memcpy(t->pos, mlff_system_graph(t->system)->pos, (size_t) t->host.n_all * sizeof *t->pos);
  write_positions(t);
  t->device.list_id++;
  test_ok(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error);
  cudasim_fail_launch(3);
  t->device.list_id++;
  test_fails(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error, MLFF_E_DEVICE, "_kernel");
  test_fails(mlff_model_evaluate(model, &t->device, NULL, &result, &error), error, MLFF_E_DEVICE, "restart");
  close_scene(&s);
}
END_TEST

/* Weights so large that products overflow: the GPU finds the first force that is not a number. */
START_TEST(forces_that_are_not_finite)
{
  cudasim_reset();
  test_model file = make_model(_i);
  uint64_t header;
  memcpy(&header, file.weights, sizeof header);
  char *weights = malloc(file.weights_size);
  memcpy(weights, file.weights, file.weights_size);
  for (size_t at = sizeof header + (size_t) header; at + sizeof(double) <= file.weights_size; at += sizeof(double)) {
    double w;
    memcpy(&w, weights + at, sizeof w);
    w *= 1e25;
    memcpy(weights + at, &w, sizeof w);
  }
  test_model_set_weights(&file, weights, file.weights_size);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = open_model(&file, "cuda", "fp32", "on");
  twins t = make_twins(mlff_model_info(model)->cutoff + 0.5, 2, 0);
  for (int k = 0; k < 3; k++) {
    mlff_result result = {.forces = NULL};
    test_fails(mlff_model_evaluate(model, &t.device, NULL, &result, &error), error, MLFF_E_NUMERIC,
               "the force on atom 0 (index on this rank) is not finite");
  }
  free(weights);
  free_twins(&t);
  close_models(model, NULL, &file);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("graphs on the device");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, same_bits_as_from_the_host, 0, N_CASES);
  tcase_add_loop_test(tcase, same_bits_on_ranks, 0, 4);
  tcase_add_test(tcase, exchanges_of_a_lost_device);
  tcase_add_loop_test(tcase, from_both_sides_in_turn, 0, 2);
  tcase_add_loop_test(tcase, a_settled_step_is_one_launch_and_one_wait, 0, 2);
  tcase_add_loop_test(tcase, no_atoms, 0, 2);
  tcase_add_loop_test(tcase, wrong_use_is_refused, 0, 2);
  tcase_add_loop_test(tcase, errors_name_atoms, 0, 2);
  tcase_add_loop_test(tcase, forces_that_are_not_finite, 0, 2);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
