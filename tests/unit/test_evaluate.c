/* test_evaluate.c: energies, forces, virials and spreads of models, for every architecture alike. */
#include "backends.h"
#include "testmodel.h"

#include "backend/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

/* ---- energies --------------------------------------------------------------------------------------------------- */

START_TEST(parts_sum_to_the_whole)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_triclinic();
  test_answer a = test_evaluate(model, &atoms);
  const mlff_result *r = &a.result;
  double sum = 0, virial[6] = {0}, members = 0, net[3] = {0};
  static const int six[9] = {0, 1, 2, 3, 4, 5, 3, 4, 5};
  for (int i = 0; i < atoms.n; i++) {
    sum += r->atom_energy[i];
    for (int c = 0; c < 9; c++) virial[six[c]] += r->atom_virial[i][c] * (c < 3 ? 1.0 : 0.5);
    for (int c = 0; c < 3; c++) net[c] += r->forces[i][c];
  }
  const int n = mlff_model_info(model)->n_members;
  for (int k = 0; k < n; k++) members += r->member_energy[k] / n;
  near_one(sum, r->energy, 1e-9);
  near_one(members, r->energy, 1e-9);
  near_all(virial, r->virial, 6, 1e-9, 0);
  near_all(net, ((double[3]){0}), 3, 1e-9, 0);
  ck_assert(fabs(r->virial[0]) > 1e-3 && fabs(r->forces[0][0]) > 1e-4); /* the numbers are not trivially zero */
  ck_assert(r->min_distance > 0.5 && r->min_distance < 1.1);
  ck_assert_int_gt(r->n_edges, 100);
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* The spread of an atom is the standard deviation over members: for atoms far apart, that of single-atom systems. */
START_TEST(spread_is_the_standard_deviation)
{
  test_model file = test_model_nth(3, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms one = test_atoms_new(1);
  test_answer a = test_evaluate(model, &one);
  double mean = 0, square = 0;
  for (int k = 0; k < 3; k++) mean += a.result.member_energy[k] / 3;
  for (int k = 0; k < 3; k++) square += pow(a.result.member_energy[k] - mean, 2);
  near_one(mean, a.result.energy, 1e-12);
  near_one(a.result.atom_spread[0], sqrt(square / 2), 1e-12);
  ck_assert(a.result.atom_spread[0] > 1e-3);
  test_answer_free(&a);
  test_atoms_free(&one);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* dE/dx from four displaced energies, so that the error is of fourth order in h. */
static double derivative(const double energy[4], double h)
{
  return (8 * (energy[1] - energy[2]) - (energy[0] - energy[3])) / (12 * h);
}

static const double stencil[4] = {2, 1, -1, -2};

START_TEST(forces_are_the_gradient)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_triclinic();
  test_answer a = test_evaluate(model, &atoms);
  const double h = 5e-5; /* small, because CELU and the cosine cutoff have kinks in the second derivative */
  for (int k = 0; k < 9; k++) {
    const int i = k / 3 * 3, c = k % 3; /* atoms 0, 3, 6 */
    double energy[4];
    for (int s = 0; s < 4; s++) {
      test_atoms moved = test_atoms_copy(&atoms);
      moved.pos[i][c] += stencil[s] * h;
      energy[s] = test_energy(model, &moved);
      test_atoms_free(&moved);
    }
    near_one(a.result.forces[i][c], -derivative(energy, h), 1e-6);
  }
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(virial_is_the_strain_derivative)
{
  static const int pairs[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_triclinic();
  test_answer a = test_evaluate(model, &atoms);
  const double h = 5e-5;
  double numeric[6];
  for (int k = 0; k < 6; k++) {
    double energy[4];
    for (int s = 0; s < 4; s++) {
      double e[3][3] = {{0}};
      e[pairs[k][0]][pairs[k][1]] += 0.5 * stencil[s] * h;
      e[pairs[k][1]][pairs[k][0]] += 0.5 * stencil[s] * h;
      test_atoms strained = test_atoms_copy(&atoms);
      test_atoms_strain(&strained, e);
      energy[s] = test_energy(model, &strained);
      test_atoms_free(&strained);
    }
    numeric[k] = -derivative(energy, h);
  }
  near_all(a.result.virial, numeric, 6, 1e-5, 0);
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(centroid_virial)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_triclinic();
  test_answer a = test_evaluate(model, &atoms);
  mlff_system *system = test_system(&atoms, 4.0);
  mlff_error error = {.code = MLFF_OK};
  double centroid[8][9], sum[6] = {0};
  static const int six[9] = {0, 1, 2, 3, 4, 5, 3, 4, 5};
  a.result.atom_centroid = centroid;
  const mlff_graph *graph = mlff_system_graph(system);
  test_ok(mlff_model_evaluate(model, graph, NULL, &a.result, &error), error);
  for (int i = 0; i < 8; i++)
    for (int c = 0; c < 9; c++) sum[six[c]] += centroid[i][c] * (c < 3 ? 1.0 : 0.5);
  near_all(sum, a.result.virial, 6, 1e-9, 0);
  a.result.atom_centroid = NULL;
  mlff_system_free(system);
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* The same weights in other units: energies, forces and virial scale by the unit, offsets included. */
START_TEST(units_are_converted)
{
  static const char *const units[] = {"hartree", "kcal/mol"};
  static const double in_ev[] = {27.211386024367243, 1 / 23.060548012};
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_triclinic();
  test_answer a = test_evaluate(model, &atoms);
  for (int u = 0; u < 2; u++) {
    test_model_options o = test_three_elements();
    o.energy_unit = units[u];
    test_model other_file = test_model_nth(_i, o);
    mlff_model *other = test_model_open(&other_file, "fp64");
    test_answer b = test_evaluate(other, &atoms);
    double scaled[24];
    for (int k = 0; k < 24; k++) scaled[k] = a.result.forces[k / 3][k % 3] * in_ev[u];
    near_all(b.result.forces, scaled, 24, 1e-12, 1e-10);
    for (int k = 0; k < 6; k++) scaled[k] = a.result.virial[k] * in_ev[u];
    near_all(b.result.virial, scaled, 6, 1e-12, 1e-10);
    near_one(b.result.energy, a.result.energy * in_ev[u], 1e-9);
    near_one(b.result.atom_energy[3], a.result.atom_energy[3] * in_ev[u], 1e-9);
    near_one(b.result.atom_spread[3], a.result.atom_spread[3] * in_ev[u], 1e-9);
    test_answer_free(&b);
    mlff_model_close(other);
    test_model_free(&other_file);
  }
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(precisions_and_kernels_agree)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_triclinic();
  test_answer a = test_evaluate(model, &atoms);
  int n_run = 0;
  for (int k = 0; mlff_cpu_kernels_at(k / 2); k++) {
    const int is_double = k % 2;
    const mlff_options options = {.precision = is_double ? "fp64" : "fp32",
                                  .kernels = mlff_cpu_kernels_at(k / 2),
                                  .skip_self_test = 1};
    mlff_error error = {.code = MLFF_OK};
    mlff_model *other = NULL;
    const mlff_status status = test_model_try(&file, &options, &other, &error);
    if (status == MLFF_E_UNSUPPORTED) continue; /* this processor has no such instructions */
    test_ok(status, error);
    ck_assert_str_eq(mlff_model_info(other)->kernels, options.kernels);
    test_answer b = test_evaluate(other, &atoms);
    near_one(b.result.energy, a.result.energy, is_double ? 1e-9 : 1e-3);
    near_all(b.result.forces, a.result.forces, 24, is_double ? 1e-10 : 1e-5, is_double ? 1e-10 : 1e-4);
    near_all(b.result.virial, a.result.virial, 6, is_double ? 1e-10 : 1e-5, is_double ? 1e-10 : 1e-4);
    test_answer_free(&b);
    mlff_model_close(other);
    n_run++;
  }
  ck_assert_int_ge(n_run, 2);
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* ---- species ---------------------------------------------------------------------------------------------------- */

START_TEST(leaving_out_elements_is_exact)
{
  static const char *const water[] = {"O", "H", "O"};
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *all = test_model_open(&file, "fp64"), *some = NULL;
  mlff_error error = {.code = MLFF_OK};
  const mlff_options options = {.precision = "fp64", .elements = water, .n_elements = 3};
  test_ok(test_model_try(&file, &options, &some, &error), error);
  test_atoms atoms = test_water_box(2, 1);
  test_atoms_species(&atoms, hco, 3);
  test_answer a = test_evaluate(all, &atoms), b = test_evaluate(some, &atoms);
  near_one(b.result.energy, a.result.energy, 1e-9);
  near_all(b.result.forces, a.result.forces, 3 * atoms.n, 1e-11, 1e-11);
  near_all(b.result.atom_energy, a.result.atom_energy, atoms.n, 1e-11, 1e-11);
  atoms.species[5] = 1;
  mlff_system *system = test_system(&atoms, 4.0);
  test_fails(mlff_model_evaluate(some, mlff_system_graph(system), NULL, &b.result, &error), error, MLFF_E_ARG,
             "atom 6 counted from 1 is C");
  mlff_system_free(system);
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&atoms);
  mlff_model_close(all);
  mlff_model_close(some);
  test_model_free(&file);
}
END_TEST

/* Atoms of species -1 belong to another style and are ignored. */
START_TEST(foreign_atoms_are_invisible)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_triclinic(), ours = test_triclinic();
  ours.n = 6; /* the last two belong to another style */
  atoms.species[6] = atoms.species[7] = -1;
  test_answer a = test_evaluate(model, &atoms), b = test_evaluate(model, &ours);
  near_one(a.result.energy, b.result.energy, 1e-10);
  near_all(a.result.forces, b.result.forces, 18, 1e-10, 0);
  near_all(a.result.virial, b.result.virial, 6, 1e-10, 0);
  near_all(a.result.forces[6], ((double[6]){0}), 6, 0, 0);
  near_all(&a.result.atom_energy[6], ((double[2]){0}), 2, 0, 0);
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&atoms);
  ours.n = 8;
  test_atoms_free(&ours);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* ---- sizes ------------------------------------------------------------------------------------------------------ */

START_TEST(empty_and_isolated)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp32");
  test_atoms none = test_atoms_new(0), one = test_atoms_new(1);
  test_answer a = test_evaluate(model, &none);
  near_one(a.result.energy, 0, 0);
  near_all(a.result.virial, ((double[6]){0}), 6, 0, 0);
  ck_assert(isinf(a.result.min_distance));
  test_answer_free(&a);
  a = test_evaluate(model, &one);
  near_all(a.result.forces, ((double[3]){0}), 3, 0, 0);
  ck_assert(fabs(a.result.energy + 13.6) < 100);
  ck_assert_int_eq(a.result.n_edges, 0);
  test_answer_free(&a);
  test_atoms_free(&none);
  test_atoms_free(&one);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(settled_runs_allocate_nothing)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp32");
  test_atoms atoms = test_water_box(3, 2), small = test_triclinic();
  test_atoms_species(&atoms, hco, 3);
  const double first = test_energy(model, &atoms);
  const mlff_memory before = mlff_model_memory(model);
  ck_assert(before.bytes > 1000 && before.peak_bytes >= before.bytes);
  for (int k = 0; k < 5; k++) {
    near_one(test_energy(model, &atoms), first, 0); /* and the same numbers, bit for bit */
    test_energy(model, &small);
  }
  const mlff_memory after = mlff_model_memory(model);
  ck_assert_int_eq(after.n_growths, before.n_growths);
  ck_assert_uint_eq(after.bytes, before.bytes);
  test_atoms_free(&atoms);
  test_atoms_free(&small);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* The forecast equals the memory after an evaluation, also after atoms have moved; a forecast changes nothing. */
START_TEST(forecast_is_what_happens)
{
  test_model file =
      _i < TEST_N_MODELS ? test_model_nth(_i, test_three_elements()) : test_model_orb(test_three_elements());
  mlff_error error = {.code = MLFF_OK};
  static const char *const precisions[] = {"fp32", "fp64", "mixed"};
  for (int p = 0; p < 3; p++) {
    mlff_model *model = test_model_open_for(&file, precisions[p], p == 2 ? "generic" : NULL, NULL);
    test_atoms atoms = test_water_box(4, 2);
    test_atoms_species(&atoms, hco, 3);
    mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff + 0.5);
    const mlff_graph *graph = mlff_system_graph(system);
    mlff_result result = {.forces = malloc((size_t) atoms.n * sizeof *result.forces),
                          .atom_spread = malloc((size_t) atoms.n * sizeof(double))};
    mlff_graph real = *graph;
    real.boundary = MLFF_BOUNDARY_PERIODIC;
    real.volume = atoms.cell[0][0] * atoms.cell[1][1] * atoms.cell[2][2];
    mlff_forecast f;
    const mlff_memory before = mlff_model_memory(model);
    test_ok(mlff_model_forecast(model, &real, &result, &f, &error), error);
    const mlff_memory asked = mlff_model_memory(model);
    ck_assert_uint_eq(asked.bytes, before.bytes);
    ck_assert_int_eq(asked.n_growths, before.n_growths);
    test_ok(mlff_model_evaluate(model, &real, NULL, &result, &error), error);
    const double first = (double) mlff_model_memory(model).bytes, foreseen = (double) (f.first_bytes + f.host_bytes);
    ck_assert_msg(foreseen > 0.93 * first && foreseen < 1.07 * first, "foreseen %g, held %g", foreseen, first);
    ck_assert(first > 1.2 * (double) before.bytes && f.later_bytes > f.first_bytes);
    test_ok(mlff_model_forecast(model, &real, &result, &f, &error), error); /* nothing is missing any more */
    ck_assert((double) (f.first_bytes - f.held_bytes) < 0.01 * first);
    real.n_local /= 2; /* one of two ranks: a forecast makes no exchange, but reads a list with nodes of the other */
    real.n_interior = 0;
    real.n_pairs = real.row[real.n_local];
    if (_i < TEST_N_MODELS) test_ok(mlff_model_forecast(model, &real, &result, &f, &error), error);
    free(result.forces);
    free(result.atom_spread);
    mlff_system_free(system);
    test_atoms_free(&atoms);
    mlff_model_close(model);
  }
  test_model_free(&file);
}
END_TEST

static void add_for_all(TCase *t, const TTest *test)
{
  tcase_add_loop_test(t, test, 0, TEST_N_MODELS);
}

static Suite *suite(void)
{
  Suite *s = suite_create("evaluate");
  TCase *numbers = tcase_create("numbers");
  add_for_all(numbers, parts_sum_to_the_whole);
  tcase_add_test(numbers, spread_is_the_standard_deviation);
  add_for_all(numbers, forces_are_the_gradient);
  add_for_all(numbers, virial_is_the_strain_derivative);
  add_for_all(numbers, centroid_virial);
  add_for_all(numbers, units_are_converted);
  add_for_all(numbers, precisions_and_kernels_agree);
  suite_add_tcase(s, numbers);
  TCase *species = tcase_create("species");
  add_for_all(species, leaving_out_elements_is_exact);
  add_for_all(species, foreign_atoms_are_invisible);
  suite_add_tcase(s, species);
  TCase *sizes = tcase_create("sizes");
  add_for_all(sizes, empty_and_isolated);
  add_for_all(sizes, settled_runs_allocate_nothing);
  tcase_add_loop_test(sizes, forecast_is_what_happens, 0, TEST_N_MODELS + 1);
  suite_add_tcase(s, sizes);
  return s;
}

int main(void)
{
  return test_main(suite);
}
