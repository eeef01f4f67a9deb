/* test_graph.c: neighbor graphs of mlff_system_create against a brute-force count over all images, and the laws that
 * mlff_graph_check enforces. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int kinds[] = {1, 6, 8};

/* ---- brute force ------------------------------------------------------------------------------------------------ */

typedef struct summary {
  int64_t n;          /* directed pairs                    */
  double sum, moment; /* sum of distances; of w(i,j) r     */
} summary;

static double weight(int i, int j)
{
  return 1.0 + 0.37 * sin(1.0 + 3.0 * i + 7.0 * j);
}

/* All pairs (i, j + shift) closer than the cutoff, over `reach` images in each periodic direction, without wrapping. */
static summary brute_force(const test_atoms *a, double cutoff, int reach)
{
  summary s = {.n = 0};
  const int m[3] = {a->pbc[0] ? reach : 0, a->pbc[1] ? reach : 0, a->pbc[2] ? reach : 0};
  for (int p = -m[0]; p <= m[0]; p++) {
    for (int q = -m[1]; q <= m[1]; q++) {
      for (int r = -m[2]; r <= m[2]; r++) {
        for (int i = 0; i < a->n; i++) {
          for (int j = 0; j < a->n; j++) {
            double d2 = 0;
            for (int c = 0; c < 3; c++) {
              double d = a->pos[j][c] - a->pos[i][c];
              if (a->pbc[0]) d += p * a->cell[0][c];
              if (a->pbc[1]) d += q * a->cell[1][c];
              if (a->pbc[2]) d += r * a->cell[2][c];
              d2 += d * d;
            }
            if ((i == j && !p && !q && !r) || d2 >= cutoff * cutoff) continue;
            s.n++;
            s.sum += sqrt(d2);
            s.moment += weight(i, j) * sqrt(d2);
          }
        }
      }
    }
  }
  return s;
}

static summary of_graph(const mlff_graph *g)
{
  summary s = {.n = g->n_pairs};
  for (int32_t i = 0; i < g->n_local; i++) {
    for (int64_t p = g->row[i]; p < g->row[i + 1]; p++) {
      const int32_t j = g->nbr[p];
      double d2 = 0;
      for (int c = 0; c < 3; c++) d2 += (g->pos[j][c] - g->pos[i][c]) * (g->pos[j][c] - g->pos[i][c]);
      s.sum += sqrt(d2);
      s.moment += weight(i, g->node[j]) * sqrt(d2);
    }
  }
  return s;
}

static void check_against_brute_force(const test_atoms *atoms, double cutoff, int reach)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_system *system = test_system(atoms, cutoff);
  const mlff_graph *g = mlff_system_graph(system);
  const summary expected = brute_force(atoms, cutoff, reach), wider = brute_force(atoms, cutoff, reach + 1);
  ck_assert_int_eq(expected.n, wider.n); /* enough images were summed */
  test_ok(mlff_graph_check(g, 3, &error), error);
  ck_assert_int_eq(g->n_local, atoms->n);
  ck_assert_int_eq(g->n_nodes, atoms->n);
  const summary got = of_graph(g);
  ck_assert_int_eq(got.n, expected.n);
  near_one(got.sum, expected.sum, 1e-10 * (1 + expected.sum));
  near_one(got.moment, expected.moment, 1e-10 * (1 + expected.sum));
  mlff_system_free(system);
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

START_TEST(triclinic_smaller_than_cutoff)
{
  test_atoms atoms = test_triclinic();
  for (double cutoff = 2.0; cutoff < 11.0; cutoff += 2.9) check_against_brute_force(&atoms, cutoff, 4);
  test_atoms_free(&atoms);
}
END_TEST

/* _i picks which directions are periodic, all eight ways. */
START_TEST(partly_periodic)
{
  test_atoms atoms = test_triclinic();
  for (int k = 0; k < 3; k++) atoms.pbc[k] = _i >> k & 1;
  for (int k = 0; k < 3; k++)
    for (int c = 0; c < 3 && !atoms.pbc[k]; c++) atoms.cell[k][c] = 0; /* unused, may be anything */
  check_against_brute_force(&atoms, 5.3, 4);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(one_atom_in_a_tiny_cell)
{
  test_atoms atoms = test_atoms_new(1);
  atoms.number[0] = 1;
  for (int k = 0; k < 3; k++) {
    atoms.pbc[k] = 1;
    atoms.cell[k][k] = 0.9 + 0.05 * k;
  }
  check_against_brute_force(&atoms, 4.03, 6);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(strongly_skewed_cell)
{
  test_atoms atoms = test_random(20, 6.0, 0.8, 0, kinds, 3, 11);
  const double cell[3][3] = {{6.0, 0, 0}, {5.5, 3.1, 0}, {-4.0, 2.7, 5.0}};
  memcpy(atoms.cell, cell, sizeof cell);
  for (int k = 0; k < 3; k++) atoms.pbc[k] = 1;
  check_against_brute_force(&atoms, 4.5, 6);
  for (int c = 0; c < 3; c++) atoms.cell[1][c] = -atoms.cell[1][c]; /* left-handed */
  check_against_brute_force(&atoms, 4.5, 6);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(bulk_with_many_bins)
{
  test_atoms atoms = test_random(400, 16.0, 0.9, 1, kinds, 3, 5);
  check_against_brute_force(&atoms, 3.0, 1);
  for (int k = 0; k < 3; k++) atoms.pbc[k] = 0;
  check_against_brute_force(&atoms, 3.0, 0);
  atoms.pbc[1] = 1;
  check_against_brute_force(&atoms, 3.0, 1);
  test_atoms_free(&atoms);
}
END_TEST

/* Atoms may be anywhere: moved by whole cells, the same pairs are found. */
START_TEST(outside_the_cell)
{
  test_atoms atoms = test_triclinic();
  test_rng rng = {3};
  const summary inside = brute_force(&atoms, 5.0, 4);
  for (int i = 0; i < atoms.n; i++) {
    for (int k = 0; k < 3; k++) {
      const int turns = test_below(&rng, 9) - 4;
      for (int c = 0; c < 3; c++) atoms.pos[i][c] += turns * atoms.cell[k][c];
    }
  }
  mlff_system *system = test_system(&atoms, 5.0);
  const summary got = of_graph(mlff_system_graph(system));
  ck_assert_int_eq(got.n, inside.n);
  near_one(got.sum, inside.sum, 1e-10 * inside.sum);
  near_one(got.moment, inside.moment, 1e-10 * inside.sum);
  mlff_system_free(system);
  test_atoms_free(&atoms);
}
END_TEST

/* A perfect lattice whose shell lies exactly at the cutoff: rounding must not make the list one-sided. */
START_TEST(shell_at_the_cutoff)
{
  test_atoms atoms = test_atoms_new(64);
  mlff_error error = {.code = MLFF_OK};
  for (int k = 0; k < 3; k++) {
    atoms.pbc[k] = 1;
    atoms.cell[k][k] = 4 * 1.1;
  }
  for (int i = 0; i < 64; i++) {
    atoms.pos[i][0] = 1.1 * (i % 4) + 0.123;
    atoms.pos[i][1] = 1.1 * (i / 4 % 4) - 7.7;
    atoms.pos[i][2] = 1.1 * (i / 16) + 31.3;
  }
  mlff_system *system = test_system(&atoms, 2.2);
  test_ok(mlff_graph_check(mlff_system_graph(system), 1, &error), error);
  ck_assert_int_eq(mlff_system_graph(system)->n_pairs, 64 * 32); /* 6 + 12 + 8 + 6 neighbors */
  mlff_system_free(system);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(sparse_and_far_apart)
{
  test_atoms atoms = test_atoms_new(4);
  const double x[4][3] = {{0, 0, 0}, {1e6, -3e5, 2}, {1e6 + 1.0, -3e5, 2}, {-4e7, 0, 5e6}};
  memcpy(atoms.pos, x, sizeof x);
  check_against_brute_force(&atoms, 5.0, 0);
  test_atoms_free(&atoms);
}
END_TEST

START_TEST(no_atoms)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_system *system = NULL;
  const double cell[3][3] = {{3, 0, 0}, {0, 3, 0}, {0, 0, 3}};
  test_ok(mlff_system_create(0, NULL, NULL, NULL, NULL, 5.0, &system, &error), error);
  test_ok(mlff_graph_check(mlff_system_graph(system), 1, &error), error);
  ck_assert_int_eq(mlff_system_graph(system)->n_pairs, 0);
  mlff_system_free(system);
  test_ok(mlff_system_create(0, NULL, NULL, cell, NULL, 5.0, &system, &error), error);
  ck_assert_int_eq(mlff_system_graph(system)->n_all, 0);
  mlff_system_free(system);
  const double tiny[3][3] = {{1e-9, 0, 0}, {0, 1e-9, 0}, {0, 0, 1e-9}}; /* it would have infinitely many images */
  test_ok(mlff_system_create(0, NULL, NULL, tiny, NULL, 5.0, &system, &error), error);
  ck_assert_int_eq(mlff_system_graph(system)->n_all, 0);
  mlff_system_free(system);
  mlff_system_free(NULL);
}
END_TEST

START_TEST(list_id_follows_the_list)
{
  test_atoms atoms = test_triclinic();
  mlff_system *first = test_system(&atoms, 4.0), *again = test_system(&atoms, 4.0), *other = test_system(&atoms, 4.5);
  ck_assert(mlff_system_graph(first)->list_id != 0);
  ck_assert(mlff_system_graph(first)->list_id == mlff_system_graph(again)->list_id);
  ck_assert(mlff_system_graph(first)->list_id != mlff_system_graph(other)->list_id);
  mlff_system_free(other);
  atoms.species[0] = 0;
  other = test_system(&atoms, 4.0);
  ck_assert(mlff_system_graph(first)->list_id != mlff_system_graph(other)->list_id);
  mlff_system_free(first);
  mlff_system_free(again);
  mlff_system_free(other);
  test_atoms_free(&atoms);
}
END_TEST

/* ---- refused ---------------------------------------------------------------------------------------------------- */

START_TEST(bad_input)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_system *system = NULL;
  const int32_t species[2] = {0, 0};
  const double pos[2][3] = {{0, 0, 0}, {1, 0, 0}}, lost[2][3] = {{0, 0, 0}, {1, NAN, 0}};
  const double flat[3][3] = {{4, 0, 0}, {0, 4, 0}, {4, 4, 0}}, tiny[3][3] = {{1e-3, 0, 0}, {0, 1e-3, 0}, {0, 0, 1e-3}};
  const double open[3][3] = {{4, 0, 0}, {0, INFINITY, 0}, {0, 0, 4}};
  const int pbc[3] = {1, 0, 0};
  test_fails(mlff_system_create(-1, species, pos, NULL, NULL, 5, &system, &error), error, MLFF_E_ARG, "n_atoms");
  test_fails(mlff_system_create(2, NULL, pos, NULL, NULL, 5, &system, &error), error, MLFF_E_ARG, "NULL");
  test_fails(mlff_system_create(2, species, pos, NULL, NULL, NAN, &system, &error), error, MLFF_E_ARG, "cutoff");
  test_fails(mlff_system_create(2, species, pos, NULL, NULL, 0, &system, &error), error, MLFF_E_ARG, "cutoff");
  test_fails(mlff_system_create(2, species, lost, NULL, NULL, 5, &system, &error), error, MLFF_E_NUMERIC, "atom 2 c");
  test_fails(mlff_system_create(2, species, pos, flat, NULL, 5, &system, &error), error, MLFF_E_ARG, "dependent");
  const double huge[3][3] = {{9, 0, 0}, {0, 9, 0}, {0, 0, 1.1e7}};
  test_fails(mlff_system_create(2, species, pos, huge, NULL, 5, &system, &error), error, MLFF_E_ARG,
             "cell vector c is 1.1e+07 A long");
  const double cube[3][3] = {{9, 0, 0}, {0, 9, 0}, {0, 0, 9}}, far[2][3] = {{0, 0, 0}, {0, 1.1e7, 0}};
  test_fails(mlff_system_create(2, species, far, cube, NULL, 5, &system, &error), error, MLFF_E_NUMERIC,
             "atom 2 counted from 1 is 1.1e+07 A");
  test_fails(mlff_system_create(2, species, pos, tiny, NULL, 5, &system, &error), error, MLFF_E_ARG,
             "use a larger cell");
  test_fails(mlff_system_create(2, species, pos, open, NULL, 5, &system, &error), error, MLFF_E_ARG, "cell vector b");
  test_fails(mlff_system_create(2, species, pos, NULL, pbc, 5, &system, &error), error, MLFF_E_ARG, "no cell");
  ck_assert_ptr_null(system);
  ck_assert_int_eq(mlff_system_create(2, species, lost, NULL, NULL, 5, &system, NULL), MLFF_E_NUMERIC);
}
END_TEST

/* Cells much smaller than the cutoff: up to a number of images, of one atom and of many; without periodicity
 * any size. */
START_TEST(too_many_images)
{
  enum { N = 3000 };
  mlff_error error = {.code = MLFF_OK};
  mlff_system *system = NULL;
  int32_t species[N] = {0};
  double pos[N][3] = {{0}};
  for (int i = 0; i < N; i++) pos[i][2] = 0.9 * i;
  const int wire[3] = {1, 1, 0}, none[3] = {0, 0, 0};
  static const double edges[][2] = {{0.2, 1},
                                    {0.1, 0},
                                    {0.02, 0},
                                    {1e-6, 0},
                                    {1e-12, 0}}; /* and whether it can be done */
  for (size_t k = 0; k < sizeof edges / sizeof *edges; k++) {
    const double a = edges[k][0], cell[3][3] = {{a, 0, 0}, {0, a, 0}, {0, 0, a}};
    if (edges[k][1] > 0) {
      test_ok(mlff_system_create(1, species, (const double(*)[3]) pos, cell, NULL, 5, &system, &error), error);
      ck_assert_int_gt(mlff_system_graph(system)->n_all, 100000);
      mlff_system_free(system);
    } else {
      system = NULL;
      test_fails(mlff_system_create(1, species, (const double(*)[3]) pos, cell, NULL, 5, &system, &error), error,
                 MLFF_E_ARG, "use a larger cell");
      ck_assert_ptr_null(system);
    }
    test_ok(mlff_system_create(1, species, (const double(*)[3]) pos, cell, none, 5, &system, &error), error);
    ck_assert_int_eq(mlff_system_graph(system)->n_all, 1);
    mlff_system_free(system);
  }
  double cell[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 3000}};
  test_ok(mlff_system_create(N, species, (const double(*)[3]) pos, cell, wire, 5, &system, &error), error);
  ck_assert_int_eq(mlff_system_graph(system)->n_all, N * 121); /* 11 x 11 */
  mlff_system_free(system);
  cell[0][0] = cell[1][1] = 0.5;
  test_fails(mlff_system_create(N, species, (const double(*)[3]) pos, cell, wire, 5, &system, &error), error,
             MLFF_E_ARG, "images of 3000 atoms");
}
END_TEST

/* ---- laws ------------------------------------------------------------------------------------------------------- */

/* A graph with two owned atoms, one periodic image of atom 0 and one ghost of another rank; then broken in each way. */
typedef struct parts {
  int32_t species[4], node[4], nbr[6];
  int64_t row[3];
  double pos[4][3];
  mlff_graph graph;
} parts;

static void make_parts(parts *p)
{
  static const parts good = {.species = {0, 1, 0, 1},
                             .node = {0, 1, 0, 2},
                             .nbr = {1, 3, 0, 2, 1, 3},
                             .row = {0, 3, 6},
                             .pos = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {-1, 0, 0}}};
  *p = good;
  p->nbr[0] = 1, p->nbr[1] = 3, p->nbr[2] = 1; /* of atom 0: atom 1 (twice, for the image) and the ghost */
  p->nbr[3] = 0, p->nbr[4] = 2, p->nbr[5] = 3; /* of atom 1: atom 0, its image, the ghost                */
  p->graph = (mlff_graph){.n_local = 2,
                          .n_all = 4,
                          .n_nodes = 3,
                          .n_pairs = 6,
                          .list_id = 1,
                          .species = p->species,
                          .node = p->node,
                          .row = p->row,
                          .nbr = p->nbr,
                          .pos = (const double(*)[3]) p->pos};
}

#define LAW(change, part)                                                       \
  do {                                                                          \
    make_parts(&p);                                                             \
    change;                                                                     \
    test_fails(mlff_graph_check(&p.graph, 2, &error), error, MLFF_E_ARG, part); \
  } while (0)

START_TEST(laws)
{
  mlff_error error = {.code = MLFF_OK};
  parts p;
  make_parts(&p);
  test_ok(mlff_graph_check(&p.graph, 2, &error), error);
  LAW(p.graph.n_local = -1, "inconsistent sizes");
  LAW(p.graph.n_nodes = 1, "inconsistent sizes");
  LAW(p.graph.n_nodes = 5, "inconsistent sizes");
  LAW(p.graph.n_interior = -1, "inconsistent sizes");
  LAW(p.graph.n_interior = p.graph.n_local + 1, "inconsistent sizes");
  LAW(p.graph.n_interior = p.graph.n_local, "is interior");
  LAW(p.graph.nbr = NULL, "NULL");
  LAW(p.graph.row = NULL, "NULL");
  LAW(p.row[0] = 1, "row[0]");
  LAW(p.row[1] = 7, "row[2]");
  LAW(p.graph.n_pairs = 5, "n_pairs");
  LAW(p.species[2] = 2, "species[2]");
  LAW(p.species[3] = -2, "species[3]");
  LAW(p.node[1] = 0, "node[1]");
  LAW(p.node[3] = 3, "node[3]");
  LAW(p.species[2] = 1, "image 2");
  LAW((p.node[3] = 0, p.species[3] = 0), "belongs to no ghost");
  LAW((p.node[2] = 2, p.species[2] = 0), "disagree");
  LAW(p.nbr[2] = 4, "nbr[2]");
  LAW(p.nbr[2] = -1, "nbr[2]");
  LAW(p.nbr[2] = 0, "nbr[2]");
  LAW(p.nbr[4] = 3, "not full");
  test_fails(mlff_graph_check(NULL, 2, &error), error, MLFF_E_ARG, "NULL");
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("graph");
  TCase *t = tcase_create("system");
  tcase_add_test(t, triclinic_smaller_than_cutoff);
  tcase_add_loop_test(t, partly_periodic, 0, 8);
  tcase_add_test(t, one_atom_in_a_tiny_cell);
  tcase_add_test(t, strongly_skewed_cell);
  tcase_add_test(t, bulk_with_many_bins);
  tcase_add_test(t, outside_the_cell);
  tcase_add_test(t, shell_at_the_cutoff);
  tcase_add_test(t, sparse_and_far_apart);
  tcase_add_test(t, no_atoms);
  tcase_add_test(t, list_id_follows_the_list);
  tcase_add_test(t, bad_input);
  tcase_add_test(t, too_many_images);
  suite_add_tcase(s, t);
  TCase *laws_case = tcase_create("laws");
  tcase_add_test(laws_case, laws);
  suite_add_tcase(s, laws_case);
  return s;
}

int main(void)
{
  return test_main(suite);
}
