/* test_join.c: several systems in one evaluation give what each gives alone: forces, energies, spread of an
 * ensemble; and the order of blocks and layers does not change a bit. */
#include "support.h"
#include "testmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};
enum { N_SYSTEMS = 4, N_MODELS = 2 };

/* A box of 8 waters, one molecule, nothing, and the smallest periodic box. */
static mlff_system *make_system(int which, double cutoff)
{
  test_atoms atoms = which == 0 ? test_water_box(2, 3) : which == 1 ? test_water() : test_water_box(1, 4);
  test_atoms_species(&atoms, hco, 3);
  if (which == 2) atoms.n = 0;
  mlff_system *system = test_system(&atoms, cutoff);
  if (which == 2) atoms.n = 3;
  test_atoms_free(&atoms);
  return system;
}

static mlff_status no_exchange(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  (void) context, (void) rows, (void) row_bytes, (void) error;
  return MLFF_OK;
}

static mlff_result make_result(int32_t n)
{
  const size_t size = (size_t) n + 1;
  return (mlff_result){.forces = calloc(size, sizeof(double[3])),
                       .atom_energy = calloc(size, sizeof(double)),
                       .atom_spread = calloc(size, sizeof(double))};
}

static void free_result(mlff_result *r)
{
  free(r->forces);
  free(r->atom_energy);
  free(r->atom_spread);
}

START_TEST(joined_systems_are_as_alone)
{
  mlff_error error = {.code = MLFF_OK};
  test_model file = test_model_nth(_i ? 3 : 0, (test_model_options){.elements = hco, .n_elements = 3, .is_double = 1});
  mlff_model *model = test_model_open(&file, "fp64");
  const double cutoff = mlff_model_info(model)->cutoff + 0.5;
  const mlff_system *parts[N_SYSTEMS];
  mlff_system *all = NULL;
  for (int s = 0; s < N_SYSTEMS; s++) parts[s] = make_system(s, cutoff);
  test_ok(mlff_system_join(parts, N_SYSTEMS, &all, &error), error);
  const mlff_graph *graph = mlff_system_graph(all);
  test_ok(mlff_graph_check(graph, 3, &error), error);
  ck_assert_int_eq(graph->n_local, 24 + 3 + 0 + 3);
  mlff_result joined = make_result(graph->n_local);
  test_ok(mlff_model_evaluate(model, graph, NULL, &joined, &error), error);
  double energy = 0;
  int64_t n_edges = 0;
  int32_t at = 0;
  for (int s = 0; s < N_SYSTEMS; s++) {
    const mlff_graph *g = mlff_system_graph(parts[s]);
    mlff_result alone = make_result(g->n_local);
    test_ok(mlff_model_evaluate(model, g, NULL, &alone, &error), error);
    energy += alone.energy;
    n_edges += alone.n_edges;
    for (int32_t i = 0; i < g->n_local; i++, at++) {
      for (int k = 0; k < 3; k++) ck_assert_double_eq_tol(joined.forces[at][k], alone.forces[i][k], 1e-10);
      ck_assert_double_eq_tol(joined.atom_energy[at], alone.atom_energy[i], 1e-10);
      ck_assert_double_eq_tol(joined.atom_spread[at], alone.atom_spread[i], 1e-10);
    }
    free_result(&alone);
  }
  ck_assert_int_eq(at, graph->n_local);
  ck_assert_int_eq(joined.n_edges, n_edges);
  ck_assert_double_eq_tol(joined.energy, energy, 1e-9);
  ck_assert(fabs(joined.forces[0][0]) > 1e-6);
  free_result(&joined);
  for (int s = 0; s < N_SYSTEMS; s++) mlff_system_free((mlff_system *) parts[s]);
  mlff_system_free(all);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Alone, layers follow each other block by block; with exchanges, even of nothing, one layer after the other. */
START_TEST(order_of_blocks_is_no_matter)
{
  mlff_error error = {.code = MLFF_OK};
  test_model file = test_model_painn((test_model_options){.elements = hco, .n_elements = 3, .n_interactions = 1 + _i});
  mlff_model *model = test_model_open(&file, "fp64");
  const mlff_halo halo = {.forward = no_exchange};
  test_atoms atoms[2] = {test_water_box(3, 3), test_water_box(5, 4)}; /* 81 atoms and 375 */
  const mlff_system *parts[5]; /* in blocks of 48 atoms that are of one part, of two, and up to two blocks away */
  mlff_system *systems[2] = {NULL};
  for (int k = 0; k < 2; k++) test_atoms_species(&atoms[k], hco, 3);
  for (int k = 0; k < 5; k++) parts[k] = test_system(&atoms[0], mlff_model_info(model)->cutoff + 0.5);
  test_ok(mlff_system_join(parts, 5, &systems[0], &error), error);
  systems[1] = test_system(&atoms[1], mlff_model_info(model)->cutoff + 0.5);
  for (int k = 0; k < 6; k++) { /* in turn, so that what is kept of a list has to be that of this list */
    const mlff_graph *graph = mlff_system_graph(systems[k & 1]);
    const size_t n = (size_t) graph->n_local;
    mlff_result alone = make_result(graph->n_local), ordered = make_result(graph->n_local);
    test_ok(mlff_model_evaluate(model, graph, NULL, &alone, &error), error);
    test_ok(mlff_model_evaluate(model, graph, &halo, &ordered, &error), error);
    ck_assert_mem_eq(alone.forces, ordered.forces, n * sizeof alone.forces[0]);
    ck_assert_mem_eq(alone.atom_energy, ordered.atom_energy, n * sizeof(double));
    ck_assert_mem_eq(alone.virial, ordered.virial, sizeof alone.virial);
    ck_assert(fabs(alone.forces[n - 1][0]) > 1e-6);
    free_result(&alone);
    free_result(&ordered);
  }
  for (int k = 0; k < 5; k++) mlff_system_free((mlff_system *) parts[k]);
  for (int k = 0; k < 2; k++) {
    mlff_system_free(systems[k]);
    test_atoms_free(&atoms[k]);
  }
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(joining_can_be_refused)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_system *all = NULL;
  const mlff_system *none[1] = {NULL};
  test_fails(mlff_system_join(none, 1, &all, &error), error, MLFF_E_ARG, "system 0 is NULL");
  test_fails(mlff_system_join(NULL, 1, &all, &error), error, MLFF_E_ARG, "NULL");
  test_ok(mlff_system_join(none, 0, &all, &error), error);
  ck_assert_int_eq(mlff_system_graph(all)->n_all, 0);
  mlff_system_free(all);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("model/join");
  TCase *tcase = tcase_create("join");
  tcase_set_timeout(tcase, 120);
  tcase_add_loop_test(tcase, joined_systems_are_as_alone, 0, N_MODELS);
  tcase_add_loop_test(tcase, order_of_blocks_is_no_matter, 0, test_cases(4, 2));
  tcase_add_test(tcase, joining_can_be_refused);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
