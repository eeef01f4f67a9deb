/* test_lists.c: neighbor lists built on the GPU (mlff_graph.reach) give the results of the list of graph/neighbor.c,
 * for all architectures, atoms of other ranks and boxes of any shape; invalid graphs are rejected. */
#include "device_graph_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

/* The same graph without its list. */
static mlff_graph without_list(const mlff_graph *g, double reach)
{
  mlff_graph bare = *g;
  bare.row = NULL;
  bare.nbr = NULL;
  bare.n_pairs = -1; /* not read */
  bare.reach = reach;
  return bare;
}

/* Compares two results within the rounding of sums in a different order. */
static void near_answers(const answer *a, const answer *b)
{
  double most = 1.0;
  for (size_t k = 0; k < a->n; k++) most = fmax(most, fabs(a->numbers[k]));
  near_all(b->numbers, a->numbers, (int64_t) a->n, 1e-11 * most, 0.0);
  near_all(b->result.virial, a->result.virial, 6, 1e-11 * most * (double) a->n, 0.0);
  near_one(b->result.energy, a->result.energy, 1e-12 * most * (double) a->n);
  ck_assert_int_eq(b->result.n_edges, a->result.n_edges);
  ck_assert(b->result.min_distance == a->result.min_distance);
}

/* Evaluates both graphs, each with its model. */
static void compare(mlff_model *a, mlff_model *b, const mlff_graph *listed, const mlff_graph *bare,
                    const mlff_halo *halo)
{
  mlff_error error = {.code = MLFF_OK};
  answer x = make_answer(listed, 0), y = make_answer(listed, 0);
  if (!(mlff_model_info(a)->traits & MLFF_NODE_ENERGIES)) x.result.atom_energy = y.result.atom_energy = NULL;
  test_ok(mlff_model_evaluate(a, listed, halo, &x.result, &error), error);
  test_ok(mlff_model_evaluate(b, bare, halo, &y.result, &error), error);
  near_answers(&x, &y);
  free(x.numbers);
  free(y.numbers);
}

/* Steps with one list, also replayed ones, then other lists. */
START_TEST(same_as_with_a_list)
{
  const int with_ranks = _i / test_n_archs();
  models m = open_models(test_model_of_arch(_i % test_n_archs()), "fp64", "on");
  for (int list = 0; list < 3; list++) {
    const double reach = mlff_model_info(m.a)->cutoff + 0.3 + 0.4 * (list % 2);
    twins t = make_twins(reach, 2, with_ranks);
    int64_t *tag = malloc((size_t) t.host.n_all * sizeof *tag);
    for (int32_t k = 0; k < t.host.n_all; k++) tag[k] = mlff_system_graph(t.system)->node[k];
    t.host.tag = tag;
    const mlff_graph bare = without_list(&t.host, reach);
    const mlff_halo halo = halo_of(&t.other, 0);
    for (int k = 0; k < 4; k++) {
      device_shuffle((unsigned) (4 * list + k));
      compare(m.a, m.b, &t.host, &bare, with_ranks ? &halo : NULL);
      move(&t);
    }
    free(tag);
    free_twins(&t);
  }
  const mlff_replays with = mlff_model_replays(m.a), without = mlff_model_replays(m.b);
  ck_assert_int_eq(without.n_replayed, with.n_replayed);
  ck_assert_int_eq(without.n_recorded, with.n_recorded);
  close_models(m.a, m.b, &m.file);
}
END_TEST

/* Atoms for one comparison, with the elements H, C and O. */
static test_atoms make_shape(int which)
{
  static const int numbers[] = {1, 6, 8};
  test_atoms atoms =
      test_random(which == 1 ? 1 : 40, which == 2 ? 3.1 : 9.0, which == 2 ? 0.5 : 0.9, which < 5, numbers, 3, 11);
  for (int i = 0; i < atoms.n; i++) {
    if (which == 3) atoms.pos[i][2] = 0.5 * i; /* a rod along z, in a cell that it leaves */
    if (which == 6 && i == 7) atoms.pos[i][0] = 1e7;
    if (which == 7) atoms.pos[i][0] = atoms.pos[i][1] = 0.0, atoms.pos[i][2] = 1.25 * i; /* many at the reach */
  }
  return atoms;
}

/* Periodic: any, one atom, a cell smaller than the cutoff, a rod, atoms that are not ours; open: any, an atom far
 * away, a row of atoms. */
START_TEST(any_shape)
{
  const double reach = 5.0;
  models m = open_models(make_model(0), "fp64", "on");
  test_atoms atoms = make_shape(_i);
  test_atoms_species(&atoms, hco, 3);
  for (int i = 0; _i == 4 && i < atoms.n; i += 3) atoms.species[i] = -1;
  mlff_system *system = test_system(&atoms, reach);
  const mlff_graph *listed = mlff_system_graph(system), bare = without_list(listed, reach);
  ck_assert_double_le(mlff_model_info(m.a)->cutoff, reach);
  compare(m.a, m.b, listed, &bare, NULL);
  mlff_system_free(system);
  test_atoms_free(&atoms);
  close_models(m.a, m.b, &m.file);
}
END_TEST

/* Two systems alternately: each change builds a new list. */
START_TEST(graphs_in_turn)
{
  models m = open_models(make_model(_i), "fp64", "on");
  const double reach = mlff_model_info(m.a)->cutoff + 0.5;
  twins t[2] = {make_twins(reach, 1, 0), make_twins(reach, 2, 0)};
  for (int k = 0; k < 6; k++) {
    const mlff_graph bare = without_list(&t[k % 2].host, reach);
    compare(m.a, m.b, &t[k % 2].host, &bare, NULL);
    if (k == 3) compare(m.a, m.b, &t[1].host, &t[1].host, NULL); /* of one list, first without, then with it */
  }
  for (int k = 0; k < 2; k++) free_twins(&t[k]);
  close_models(m.a, m.b, &m.file);
}
END_TEST

START_TEST(no_atoms)
{
  device_reset(1);
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = open_model(&file, "cuda", "fp32", "on");
  const mlff_graph graph = {.list_id = 9, .reach = 8.0};
  for (int k = 0; k < 3; k++) {
    mlff_result result = {.energy = 1.0};
    test_ok(mlff_model_evaluate(model, &graph, NULL, &result, &error), error);
    ck_assert(result.energy == 0.0 && result.virial[0] == 0.0 && result.n_edges == 0);
  }
  close_models(model, NULL, &file);
}
END_TEST

START_TEST(wrong_use_is_refused)
{
  device_reset(1);
  test_model file = make_model(_i);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *gpu = open_model(&file, "cuda", "fp32", "off"), *cpu = open_model(&file, "cpu", "fp32", "on");
  const double cutoff = mlff_model_info(gpu)->cutoff;
  twins t = make_twins(cutoff + 0.5, 2, 0);
  answer x = make_answer(&t.host, 0);
  mlff_forecast forecast;
  mlff_graph bare = without_list(&t.host, cutoff + 0.5);
  test_fails(mlff_model_evaluate(cpu, &bare, NULL, &x.result, &error), error, MLFF_E_UNSUPPORTED,
             "does not build neighbor lists");
  test_fails(mlff_model_forecast(gpu, &bare, &x.result, &forecast, &error), error, MLFF_E_ARG, "list");
  static const double reaches[] = {0.0, -1.0, NAN, 0.99, INFINITY};
  for (int k = 0; k < 5; k++) {
    bare.reach = reaches[k] * (k == 3 ? cutoff : 1.0);
    test_fails(mlff_model_evaluate(gpu, &bare, NULL, &x.result, &error), error, MLFF_E_ARG, "graph.r");
  }
  bare.reach = cutoff + 0.5;
  bare.on_device = 1;
  test_fails(mlff_model_evaluate(gpu, &bare, NULL, &x.result, &error), error, MLFF_E_ARG, "host positions");
  bare.on_device = 0;
  const double before = t.pos[4][1];
  static const double wrong[] = {NAN, INFINITY, -INFINITY};
  for (int k = 0; k < 3; k++) {
    t.pos[4][1] = wrong[k];
    bare.list_id++;
    test_fails(mlff_model_evaluate(gpu, &bare, NULL, &x.result, &error), error, MLFF_E_NUMERIC, "atom 5");
  }
  t.pos[4][1] = before;
  bare.list_id++;
  test_ok(mlff_model_evaluate(gpu, &bare, NULL, &x.result, &error), error);
  bare.n_interior = 0;
  bare.n_local--; /* a list_id that belongs to other atoms */
  bare.n_nodes--;
  test_fails(mlff_model_evaluate(gpu, &bare, NULL, &x.result, &error), error, MLFF_E_ARG,
             "is that of a list with other atoms");
  free(x.numbers);
  free_twins(&t);
  mlff_model_close(cpu);
  close_models(gpu, NULL, &file);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("lists made by the GPU");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, same_as_with_a_list, 0, 2 * test_n_archs());
  tcase_add_loop_test(tcase, any_shape, 0, 8);
  tcase_add_loop_test(tcase, graphs_in_turn, 0, n_models());
  tcase_add_loop_test(tcase, no_atoms, 0, n_models());
  tcase_add_loop_test(tcase, wrong_use_is_refused, 0, n_models());
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return device_main("cuda_lists", make_suite);
}
