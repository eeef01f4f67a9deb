/* test_repulsion.c: models with a short-range repulsion, of every architecture and on every backend: what it adds to
 * everything that an evaluation can give is that of plain loops; without a close pair, and without the block, nothing
 * changes. Derivatives, symmetries and ranks are in test_properties.c, where each architecture has a model with it. */
#define _POSIX_C_SOURCE 200809L

#include "mlff/mlff_watch.h"

#include "backends.h"
#include "plain_repulsion.h"
#include "testmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As below, of the elements H, C and O. */
static const char text[] = "H-H: 1.5, H-O: 1.02, O-O: 2.6, O-C: 1.4";
static const plain_cutoffs cutoffs =
    {[1] = {[1] = 1.5, [8] = 1.02}, [6] = {[8] = 1.4}, [8] = {[1] = 1.02, [6] = 1.4, [8] = 2.6}};

static mlff_model *open_on(const test_model *file, int which)
{
  mlff_options options = {.skip_self_test = 1};
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  if (choose_backend(which, &options)) test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

/* All that a model can give. */
typedef struct results {
  mlff_result r;
  int n, n_members;
} results;

static results evaluate(mlff_model *model, const mlff_graph *g)
{
  const mlff_info *info = mlff_model_info(model);
  const size_t n = (size_t) g->n_local + 1, members = (size_t) info->n_members;
  results a = {.n = g->n_local, .n_members = info->n_members};
  mlff_error error = {.code = MLFF_OK};
  a.r.forces = calloc(n, sizeof *a.r.forces);
  a.r.member_energy = calloc(members, sizeof(double));
  a.r.atom_spread = calloc(n, sizeof(double));
  if (info->traits & MLFF_NODE_ENERGIES) a.r.atom_energy = calloc(n, sizeof(double));
  if (info->traits & MLFF_CONSERVATIVE) a.r.atom_virial = calloc(n, sizeof *a.r.atom_virial);
  if (info->traits & MLFF_CONSERVATIVE) a.r.atom_centroid = calloc(n, sizeof *a.r.atom_centroid);
  if (members > 1) {
    a.r.member_forces = calloc(n * members, sizeof *a.r.member_forces);
    a.r.member_virial = calloc(members, sizeof *a.r.member_virial);
  }
  test_ok(mlff_model_evaluate(model, g, NULL, &a.r, &error), error);
  return a;
}

static void free_results(results *a)
{
  void *owned[] = {a->r.forces,      a->r.member_energy, a->r.atom_spread,   a->r.atom_energy,
                   a->r.atom_virial, a->r.atom_centroid, a->r.member_forces, a->r.member_virial};
  for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) free(owned[k]);
}

/* `with` is `without` and the plain repulsion. */
static void check_sum(const results *with, const results *without, const plain_repelled *p, double near)
{
  const int n = with->n;
  double e = 1 + fabs(p->energy);
  near_one(with->r.energy - without->r.energy, p->energy, near * e);
  for (int k = 0; k < 6; k++) near_one(with->r.virial[k] - without->r.virial[k], p->virial[k], near * e);
  for (int i = 0; i < n; i++) {
    for (int c = 0; c < 3; c++) near_one(with->r.forces[i][c] - without->r.forces[i][c], p->forces[i][c], near * e);
    if (with->r.atom_energy) near_one(with->r.atom_energy[i] - without->r.atom_energy[i], p->atom_energy[i], near * e);
    near_one(with->r.atom_spread[i], without->r.atom_spread[i], near * e);
    for (int k = 0; with->r.atom_virial && k < 9; k++)
      near_one(with->r.atom_virial[i][k] - without->r.atom_virial[i][k], p->atom_virial[i][k], near * e);
    for (int k = 0; with->r.atom_centroid && k < 9; k++)
      near_one(with->r.atom_centroid[i][k] - without->r.atom_centroid[i][k], p->centroid[i][k], near * e);
  }
  for (int m = 0; m < with->n_members; m++) {
    near_one(with->r.member_energy[m] - without->r.member_energy[m], p->energy, near * e);
    for (int i = 0; with->r.member_forces && i < n; i++)
      for (int c = 0; c < 3; c++)
        near_one(with->r.member_forces[m * n + i][c] - without->r.member_forces[m * n + i][c], p->forces[i][c],
                 near * e);
    for (int k = 0; with->r.member_virial && k < 6; k++)
      near_one(with->r.member_virial[m][k] - without->r.member_virial[m][k], p->virial[k], near * e);
  }
}

/* Bit for bit. */
static void check_same(const results *a, const results *b)
{
  const int n = a->n;
  near_one(a->r.energy, b->r.energy, 0.0);
  near_all(a->r.virial, b->r.virial, 6, 0.0, 0.0);
  near_all(a->r.forces, b->r.forces, 3 * n, 0.0, 0.0);
  near_all(a->r.member_energy, b->r.member_energy, a->n_members, 0.0, 0.0);
  if (a->r.atom_energy) near_all(a->r.atom_energy, b->r.atom_energy, n, 0.0, 0.0);
  if (a->r.atom_virial) near_all(a->r.atom_virial, b->r.atom_virial, 9 * n, 0.0, 0.0);
  if (a->r.member_forces) near_all(a->r.member_forces, b->r.member_forces, 3 * n * a->n_members, 0.0, 0.0);
}

/* The small model of each architecture, and an ANI and a PaiNN that are strictly local in other units of energy. */
static int n_kinds(void)
{
  return test_n_archs() + 2;
}

static test_model make_kind(int which)
{
  test_model_options o = test_three_elements();
  if (which < test_n_archs()) return test_model_of_arch(which);
  o.energy_unit = which == test_n_archs() ? "hartree" : "kcal/mol";
  if (which == test_n_archs()) return test_model_ani(o);
  o.n_interactions = 1;
  return test_model_painn(o);
}

/* Every architecture on every backend. */
typedef struct pair {
  test_model plain, repelling;
  mlff_model *without, *repelled;
} pair;

static pair open_pair(int which)
{
  pair p = {.plain = make_kind(which / n_backends()), .repelling = make_kind(which / n_backends())};
  test_model_repel(&p.repelling, text);
  p.without = open_on(&p.plain, which % n_backends());
  if (p.without) p.repelled = open_on(&p.repelling, which % n_backends());
  return p;
}

static void close_pair(pair *p)
{
  mlff_model_close(p->without);
  mlff_model_close(p->repelled);
  test_model_free(&p->plain);
  test_model_free(&p->repelling);
}

START_TEST(it_is_in_everything)
{
  static const int numbers[] = {1, 6, 8};
  pair p = open_pair(_i);
  if (p.repelled) {
    const int is_double = !strcmp(mlff_model_info(p.repelled)->precision, "fp64");
    for (int periodic = 0; periodic < 2; periodic++) {
      test_atoms atoms = test_random(30, 6.2, 0.9, periodic, numbers, 3, 11);
      mlff_system *system = test_system(&atoms, mlff_model_info(p.repelled)->cutoff + 0.5);
      const mlff_graph *g = mlff_system_graph(system);
      plain_repelled *expected = malloc(sizeof *expected);
      plain_repel(g, atoms.number, cutoffs, expected);
      ck_assert_int_gt(expected->n_close, 10);
      ck_assert_double_gt(expected->energy, 5.0);
      results a = evaluate(p.repelled, g), b = evaluate(p.without, g), again = evaluate(p.repelled, g);
      check_sum(&a, &b, expected, is_double ? 1e-12 : 1e-6);
      check_same(&a, &again);
      ck_assert(a.r.n_edges == b.r.n_edges && a.r.min_distance == b.r.min_distance);
      free_results(&a);
      free_results(&b);
      free_results(&again);
      free(expected);
      mlff_system_free(system);
      test_atoms_free(&atoms);
    }
  }
  close_pair(&p);
}
END_TEST

/* Water is closer than the largest cutoff, but no pair is closer than its own. */
START_TEST(without_a_close_pair_nothing_changes)
{
  pair p = open_pair(_i);
  if (p.repelled) {
    const char *const hco[] = {"H", "C", "O"};
    test_model_free(&p.repelling);
    mlff_model_close(p.repelled);
    p.repelling = make_kind(_i / n_backends());
    test_model_repel(&p.repelling, "H-H: 1.1, H-O: 0.85, O-O: 2.2");
    p.repelled = open_on(&p.repelling, _i % n_backends());
    test_atoms atoms = test_water_box(2, 5);
    test_atoms_species(&atoms, hco, 3);
    mlff_system *system = test_system(&atoms, mlff_model_info(p.repelled)->cutoff);
    for (int k = 0; k < 3; k++) {
      results a = evaluate(p.repelled, mlff_system_graph(system)), b = evaluate(p.without, mlff_system_graph(system));
      ck_assert_double_lt(a.r.min_distance, 1.1);
      check_same(&a, &b);
      free_results(&a);
      free_results(&b);
    }
    mlff_system_free(system);
    test_atoms_free(&atoms);
  }
  close_pair(&p);
}
END_TEST

/* An atom of another style is not repelled. */
START_TEST(foreign_atoms_are_left_alone)
{
  pair p = open_pair(_i);
  if (p.repelled && (mlff_model_info(p.repelled)->traits & MLFF_CONSERVATIVE)) {
    test_atoms atoms = test_water();
    const int is_double = !strcmp(mlff_model_info(p.repelled)->precision, "fp64");
    atoms.species[0] = 2;
    atoms.species[2] = -1;
    mlff_system *system = test_system(&atoms, 4.0);
    plain_repelled *expected = malloc(sizeof *expected);
    plain_repel(mlff_system_graph(system), atoms.number, cutoffs, expected);
    ck_assert_int_eq(expected->n_close, 2);
    results a = evaluate(p.repelled, mlff_system_graph(system)), b = evaluate(p.without, mlff_system_graph(system));
    check_sum(&a, &b, expected, is_double ? 1e-12 : 1e-6);
    free_results(&a);
    free_results(&b);
    free(expected);
    mlff_system_free(system);
    test_atoms_free(&atoms);
  }
  mark_point();
  close_pair(&p);
}
END_TEST

/* Atoms that are too close stay an error, repelled or not. */
START_TEST(the_smallest_distance_stays_an_error)
{
  pair p = open_pair(_i * n_backends());
  mlff_error error = {.code = MLFF_OK};
  if (p.repelled) {
    test_atoms atoms = test_water();
    atoms.species[0] = 2;
    for (int c = 0; c < 3; c++) atoms.pos[1][c] = atoms.pos[0][c] + (c ? 0.0 : 0.29);
    mlff_system *system = test_system(&atoms, 4.0);
    double forces[3][3];
    mlff_result result = {.forces = forces};
    test_fails(mlff_model_evaluate(p.repelled, mlff_system_graph(system), NULL, &result, &error), error, MLFF_E_NUMERIC,
               "closer than the 0.3 A");
    mlff_system_free(system);
    test_atoms_free(&atoms);
  }
  close_pair(&p);
}
END_TEST

/* ---- kind clamped ------------------------------------------------------------------------------------------------ */

/* Energy and force on the second of two atoms, H and O, r apart. */
static double pair_energy(mlff_model *model, double r, double *force)
{
  test_atoms atoms = test_water();
  double forces[3][3];
  mlff_result result = {.forces = forces};
  mlff_error error = {.code = MLFF_OK};
  atoms.species[0] = 2;
  atoms.species[1] = 0;
  atoms.species[2] = -1;
  for (int c = 0; c < 3; c++) atoms.pos[1][c] = atoms.pos[0][c] + (c == 1) * r;
  mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff);
  test_ok(mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, &error), error);
  *force = forces[1][1];
  mlff_system_free(system);
  test_atoms_free(&atoms);
  return result.energy;
}

/* A pair has the energy of the network at the clamped distance, and the repulsion at its own. */
START_TEST(networks_get_clamped_distances)
{
  pair p = open_pair(_i);
  const int is_conservative = p.without && (mlff_model_info(p.without)->traits & MLFF_CONSERVATIVE);
  mlff_model_close(p.repelled);
  p.repelled = NULL;
  test_model_free(&p.repelling);
  p.repelling = make_kind(_i / n_backends());
  test_model_repel_clamped(&p.repelling);
  if (is_conservative) {
    const double cutoff = 1.3, share[] = {0.4, 0.7, 0.93, 0.97, 1.01};
    p.repelled = open_on(&p.repelling, _i % n_backends());
    const double near = strcmp(mlff_model_info(p.repelled)->precision, "fp64") ? 3e-5 : 1e-10;
    for (int k = 0; k < 5; k++) {
      const double r = share[k] * cutoff, t = fmin((1 - share[k]) / 0.1, 1.0);
      const double seen = t > 0 ? cutoff * (1 - 0.1 * (t - t * t * t + 0.5 * t * t * t * t)) : r;
      const double by = t > 0 ? (1 - t) * (1 - t) * (1 + 2 * t) : 1.0;
      double slope, force, expected;
      const double v = plain_repulsion(1, 8, cutoff, r, &slope);
      const double e = pair_energy(p.repelled, r, &force), network = pair_energy(p.without, seen, &expected);
      near_one(e, network + v, near * (1 + v + fabs(network)));
      near_one(force, by * expected - slope, near * (1 + fabs(slope) + fabs(expected)));
    }
  } else if (p.without) {
    mlff_options options = {.skip_self_test = 1};
    mlff_model *model = NULL;
    mlff_error error = {.code = MLFF_OK};
    test_fails(test_model_try(&p.repelling, &options, &model, &error), error, MLFF_E_UNSUPPORTED,
               "requires forces that are derivatives of the energy");
  }
  close_pair(&p);
}
END_TEST

START_TEST(people_are_told)
{
  test_model file = make_kind(0);
  test_model_repel(&file, "O-H: 0.85, O-O: 2.25");
  mlff_model *model = test_model_open(&file, "fp64");
  char *said = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&said, &size);
  mlff_model_print(model, out);
  fclose(out);
  ck_assert_msg(strstr(said, "repulsion      zbl, below H-O 0.85, O-O 2.25 A\n") != NULL, "%s", said);
  free(said);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* The cutoffs take the place of unknown distances of the training. */
START_TEST(cutoffs_are_distances_of_the_domain)
{
  test_model file = make_kind(0);
  test_model_repel_clamped(&file);
  mlff_model *model = test_model_open(&file, "fp64");
  const mlff_info *info = mlff_model_info(model);
  char missing[200];
  ck_assert_int_eq(info->distances_are_cutoffs, 1);
  near_all(info->distances, ((double[]){1.5, 1.6, 1.3, 1.6, 1.7, 1.8, 1.3, 1.8, 1.9}), 9, 1e-12, 0);
  mlff_domain_text(info, missing, sizeof missing);
  ck_assert_msg(strstr(missing, "pairs") != NULL, "%s", missing);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("repulsion");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, it_is_in_everything, 0, n_kinds() * n_backends());
  tcase_add_loop_test(tcase, without_a_close_pair_nothing_changes, 0, n_kinds() * n_backends());
  tcase_add_loop_test(tcase, foreign_atoms_are_left_alone, 0, n_kinds() * n_backends());
  tcase_add_loop_test(tcase, the_smallest_distance_stays_an_error, 0, n_kinds());
  tcase_add_loop_test(tcase, networks_get_clamped_distances, 0, n_kinds() * n_backends());
  tcase_add_test(tcase, people_are_told);
  tcase_add_test(tcase, cutoffs_are_distances_of_the_domain);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
