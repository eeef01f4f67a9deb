/* test_move.c: mlff_system_move against systems made anew: all pairs within the cutoff are there as long as the list
 * is not said to be stale. */
#include "support.h"

#include <math.h>
#include <string.h>

static const int kinds[] = {1, 6, 8};
static const double cutoff = 3.1;

/* The pairs within the cutoff: their number, the sum of distances, and the sum weighted by both atoms. */
typedef struct summary {
  int64_t n;
  double sum, moment;
} summary;

static summary within(const mlff_graph *g)
{
  summary s = {.n = 0};
  for (int32_t i = 0; i < g->n_local; i++) {
    for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
      const int32_t j = g->nbr[p];
      double d2 = 0;
      for (int c = 0; c < 3; c++) d2 += (g->pos[j][c] - g->pos[i][c]) * (g->pos[j][c] - g->pos[i][c]);
      if (d2 >= cutoff * cutoff) continue;
      s.n++;
      s.sum += sqrt(d2);
      s.moment += (1.0 + 0.37 * sin(1.0 + 3.0 * i + 7.0 * g->node[j])) * sqrt(d2);
    }
  }
  return s;
}

/* Moves the system to the atoms, compares it with one made there, and returns whether it is stale. */
static int move_and_compare(mlff_system *system, const test_atoms *a)
{
  mlff_error error = {.code = MLFF_OK};
  const int has_cell = a->pbc[0] || a->pbc[1] || a->pbc[2];
  int is_stale = -1;
  test_ok(mlff_system_move(system, (const double(*)[3]) a->pos, has_cell ? (const double(*)[3]) a->cell : NULL, cutoff,
                           &is_stale, &error),
          error);
  mlff_system *fresh = test_system(a, cutoff);
  const summary got = within(mlff_system_graph(system)), expected = within(mlff_system_graph(fresh));
  if (!is_stale) {
    ck_assert_int_eq(got.n, expected.n);
    near_one(got.sum, expected.sum, 1e-10 * (1 + expected.sum));
    near_one(got.moment, expected.moment, 1e-10 * (1 + expected.sum));
  }
  near_one(mlff_system_graph(system)->volume, mlff_system_graph(fresh)->volume, 1e-9 * (1 + a->cell[0][0]));
  mlff_system_free(fresh);
  return is_stale;
}

/* A walk in each of the eight ways to be periodic, with a cell that shears and shrinks, atoms wrapped now and then. */
START_TEST(walks)
{
  test_atoms atoms = _i >= 8 ? test_random(150, 9.0, 0.9, 1, kinds, 3, 5) : test_triclinic();
  test_rng rng = {7 + (uint64_t) _i};
  int n_kept = 0, n_stale = 0;
  for (int k = 0; k < 3; k++) atoms.pbc[k] = _i >> k & 1;
  mlff_system *system = test_system(&atoms, cutoff + 0.8);
  for (int step = 0; step < 60; step++) {
    for (int i = 0; i < atoms.n; i++)
      for (int c = 0; c < 3; c++) atoms.pos[i][c] += test_uniform(&rng, -0.05, 0.05);
    double strain[3][3] = {{0.0}};
    for (int c = 0; c < 3 && step % 3 == 0; c++)
      for (int d = 0; d < 3; d++) strain[c][d] = test_uniform(&rng, -0.0024, 0.0016);
    test_atoms_strain(&atoms, strain);
    const int lost = test_below(&rng, atoms.n), k = test_below(&rng, 3);
    for (int c = 0; c < 3 && atoms.pbc[k]; c++) atoms.pos[lost][c] -= 2 * atoms.cell[k][c];
    if (!move_and_compare(system, &atoms)) {
      n_kept++;
      continue;
    }
    n_stale++;
    mlff_system_free(system);
    system = test_system(&atoms, cutoff + 0.8);
  }
  ck_assert_int_gt(n_kept, 30);
  ck_assert_int_gt(n_stale, 0);
  mlff_system_free(system);
  test_atoms_free(&atoms);
}
END_TEST

/* Two atoms that come from just outside of the list to just inside of the cutoff. */
START_TEST(stale_in_time)
{
  test_atoms atoms = test_atoms_new(2);
  const double reach = 4.0;
  atoms.pos[1][0] = reach + 1e-6;
  mlff_system *system = test_system(&atoms, reach);
  ck_assert_int_eq(mlff_system_graph(system)->n_pairs, 0);
  atoms.pos[0][0] = 0.4499;
  atoms.pos[1][0] = 4.0 - 0.4499;
  ck_assert(!move_and_compare(system, &atoms));
  atoms.pos[0][0] = 0.4501;
  ck_assert(move_and_compare(system, &atoms));
  mlff_system_free(system);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(the_cell_alone)
{
  test_atoms atoms = test_triclinic();
  mlff_system *system = test_system(&atoms, cutoff + 0.5);
  double strain[3][3] = {{-0.05, 0, 0}, {0, -0.05, 0}, {0, 0, -0.05}};
  ck_assert(!move_and_compare(system, &atoms));
  test_atoms_strain(&atoms, strain); /* 3.6 * (1 - 0.05 * sqrt 3) */
  ck_assert(!move_and_compare(system, &atoms));
  test_atoms_strain(&atoms, strain);
  ck_assert(move_and_compare(system, &atoms));
  mlff_system_free(system);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(bad_input)
{
  test_atoms atoms = test_triclinic();
  mlff_error error = {.code = MLFF_OK};
  mlff_system *system = test_system(&atoms, 4.0), *joined = NULL;
  const double(*pos)[3] = (const double(*)[3]) atoms.pos, (*cell)[3] = (const double(*)[3]) atoms.cell;
  int is_stale = 0;
  test_fails(mlff_system_move(NULL, pos, cell, 3, &is_stale, &error), error, MLFF_E_ARG, "NULL");
  test_fails(mlff_system_move(system, NULL, cell, 3, &is_stale, &error), error, MLFF_E_ARG, "NULL");
  test_fails(mlff_system_move(system, pos, NULL, 3, &is_stale, &error), error, MLFF_E_ARG, "cell is NULL");
  test_fails(mlff_system_move(system, pos, cell, 4.1, &is_stale, &error), error, MLFF_E_ARG, "4.1");
  test_fails(mlff_system_move(system, pos, cell, NAN, &is_stale, &error), error, MLFF_E_ARG, "cutoff");
  test_ok(mlff_system_join((const mlff_system *const *) &system, 1, &joined, &error), error);
  test_fails(mlff_system_move(joined, pos, cell, 3, &is_stale, &error), error, MLFF_E_UNSUPPORTED, "joined");
  atoms.pos[1][2] = NAN;
  test_fails(mlff_system_move(system, pos, cell, 3, &is_stale, &error), error, MLFF_E_NUMERIC, "atom 2 counted");
  atoms.pos[1][2] = 2e7;
  test_fails(mlff_system_move(system, pos, cell, 3, &is_stale, &error), error, MLFF_E_NUMERIC,
             "atom 2 counted from 1 is ");
  memset(atoms.cell, 0, sizeof atoms.cell);
  test_fails(mlff_system_move(system, pos, cell, 3, &is_stale, &error), error, MLFF_E_ARG, "dependent");
  mlff_system_free(joined);
  mlff_system_free(system);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(versions_and_sizes)
{
  ck_assert_str_eq(mlff_version(), MLFF_VERSION);
  ck_assert_uint_eq(mlff_size_of("mlff_graph"), sizeof(mlff_graph));
  ck_assert_uint_eq(mlff_size_of("mlff_result"), sizeof(mlff_result));
  ck_assert_uint_eq(mlff_size_of("mlff_model"), 0);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("move");
  TCase *t = tcase_create("system");
  tcase_add_loop_test(t, walks, 0, 16);
  tcase_add_test(t, stale_in_time);
  tcase_add_test(t, the_cell_alone);
  tcase_add_test(t, bad_input);
  tcase_add_test(t, versions_and_sizes);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
