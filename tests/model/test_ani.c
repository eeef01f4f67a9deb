/* test_ani.c: ANI models as a whole, from the file to forces: random models, small and of odd shapes, compared with
 * plain loops in double and with themselves; what they promise is in test_properties.c. The known traps of ANI are
 * named where a test would fail in them: A3 cutoffs with a skin, A8 mean over members, A9 own images; for the others
 * see test_ani2x.c and op/test_ani.c.
 */
#include "plain_ani.h"
#include "testmodel.h"

#include "model/modelfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const precisions[] = {"fp32", "fp64"};

/* ---- random models against plain loops -------------------------------------------------------------------------- */

static const char *const four[] = {"Cl", "H", "O", "C"}; /* not in the order of the periodic table */
enum { N_SHAPES = TEST_N_ANI };

static test_model shape_of(int which)
{
  const test_model_options o = {.elements = four, .n_elements = 4, .seed = 40 + (uint64_t) which};
  return test_model_ani_nth(which, o);
}

static const int random_numbers[] = {17, 1, 8, 6};

/* Energies of atoms and members, their spread, the mean (A8), and columns of elements that do not occur (pruning). */
START_TEST(random_models_match_plain_loops)
{
  test_model model = shape_of(_i % N_SHAPES);
  const int is_double = _i / N_SHAPES;
  const double rounding = is_double ? 1e-13 : 3e-5;
  test_atoms atoms[] = {test_random(18, 4.5, 0.8, 0, random_numbers, 3, 51),
                        test_random(9, 3.6, 0.9, 1, random_numbers, 2, 52),
                        test_random(1, 9.0, 0.8, 0, random_numbers, 1, 53)};
  for (int k = 0; k < 3; k++) {
    mlff_model *whole = test_model_open(&model, precisions[is_double]);
    mlff_model *pruned = test_model_open_for(&model, precisions[is_double], NULL, &atoms[k]);
    const mlff_info *info = mlff_model_info(whole);
    const int n = atoms[k].n, n_members = info->n_members;
    double *energy = malloc((size_t) (n * n_members) * sizeof *energy), *mean = calloc((size_t) n, sizeof *mean);
    double *spread = calloc((size_t) n, sizeof *spread);
    plain_ani_energies(&model, &atoms[k], n_members, energy);
    for (int i = 0; i < n; i++) {
      for (int m = 0; m < n_members; m++) mean[i] += energy[m * n + i] / n_members;
      for (int m = 0; m < n_members; m++) spread[i] += pow(energy[m * n + i] - mean[i], 2) / fmax(n_members - 1, 1);
      spread[i] = sqrt(spread[i]);
    }
    mlff_modelfile *file = plain_parse(&model);
    const double *offsets = mlff_modelfile_get_head(file)->offsets;
    test_answer a = test_evaluate(whole, &atoms[k]), b = test_evaluate(pruned, &atoms[k]);
    double *got = malloc((size_t) n * sizeof *got);
    for (int i = 0; i < n; i++) got[i] = a.result.atom_energy[i] - offsets[atoms[k].species[i]];
    near_all(got, mean, n, rounding, 0.0);
    near_all(a.result.atom_spread, spread, n, 3.0 * rounding, 0.0);
    for (int m = 0; m < n_members; m++) {
      double sum = 0.0;
      for (int i = 0; i < n; i++) sum += energy[m * n + i] + offsets[atoms[k].species[i]];
      near_one(a.result.member_energy[m], sum, n * rounding);
    }
    near_all(b.result.atom_energy, a.result.atom_energy, n, rounding, 0.0);
    near_all(&b.result.forces[0][0], &a.result.forces[0][0], 3 * n, 10.0 * rounding, 0.0);
    free(got);
    free(energy);
    free(mean);
    free(spread);
    mlff_modelfile_free(file);
    test_answer_free(&a);
    test_answer_free(&b);
    mlff_model_close(whole);
    mlff_model_close(pruned);
    test_atoms_free(&atoms[k]);
  }
  test_model_free(&model);
}
END_TEST

/* ---- systems ----------------------------------------------------------------------------------------------------- */

/* Many far molecules of one element and more: energies add up, through all blocks of rows. */
START_TEST(far_molecules_add_up)
{
  enum { N = 9, COPIES = 37 };
  const int is_double = _i;
  test_model model = shape_of(2);
  mlff_model *open = test_model_open(&model, precisions[is_double]);
  test_atoms one = test_random(N, 3.6, 0.9, 0, random_numbers, 3, 81), many = test_atoms_new(N * COPIES);
  for (int k = 0; k < N * COPIES; k++) {
    many.number[k] = one.number[k % N];
    many.species[k] = one.species[k % N];
    for (int x = 0; x < 3; x++) many.pos[k][x] = one.pos[k % N][x] + (x == 0 ? 16.0 * (k / N) : 0.0);
  }
  test_answer a = test_evaluate(open, &one), b = test_evaluate(open, &many);
  near_one(b.result.energy, COPIES * a.result.energy, is_double ? 1e-9 : 1e-2);
  for (int k = 0; k < COPIES; k++) {
    near_all(b.result.atom_energy + k * N, a.result.atom_energy, N, is_double ? 1e-11 : 1e-4, 0.0);
    near_all(b.result.forces + k * N, a.result.forces, 3 * N, is_double ? 1e-11 : 1e-3, 0.0);
  }
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&one);
  test_atoms_free(&many);
  mlff_model_close(open);
  test_model_free(&model);
}
END_TEST

/* A9: a cell smaller than the cutoff has the energy of its eightfold copy, whose atoms see fewer images of
 * themselves. */
START_TEST(small_cells_equal_their_supercells)
{
  test_model model = shape_of(0);
  mlff_model *open = test_model_open(&model, "fp64");
  test_atoms cell = test_random(4, 2.9, 1.0, 1, random_numbers, 3, 91), super = test_atoms_new(32);
  for (int x = 0; x < 3; x++) {
    super.pbc[x] = 1;
    for (int y = 0; y < 3; y++) super.cell[x][y] = 2.0 * cell.cell[x][y];
  }
  for (int k = 0; k < 32; k++) {
    const int shift[3] = {k / 4 & 1, k / 8 & 1, k / 16};
    super.number[k] = cell.number[k % 4];
    super.species[k] = cell.species[k % 4];
    for (int x = 0; x < 3; x++) {
      super.pos[k][x] = cell.pos[k % 4][x];
      for (int s = 0; s < 3; s++) super.pos[k][x] += shift[s] * cell.cell[s][x];
    }
  }
  test_answer a = test_evaluate(open, &cell), b = test_evaluate(open, &super);
  near_one(b.result.energy, 8.0 * a.result.energy, 1e-10);
  for (int k = 0; k < 8; k++) near_all(b.result.forces + 4 * k, a.result.forces, 12, 1e-10, 0.0);
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&cell);
  test_atoms_free(&super);
  mlff_model_close(open);
  test_model_free(&model);
}
END_TEST

/* A3: energy and force have no step where a third atom passes either cutoff, although the list has a skin. */
START_TEST(nothing_jumps_at_a_cutoff)
{
  test_model model = shape_of(0); /* radial 4.2, angular 3.15 */
  mlff_model *open = test_model_open(&model, "fp64");
  mlff_error error = {.code = MLFF_OK};
  const double cutoffs[] = {4.2, 3.15}, eps = 1e-6;
  for (int k = 0; k < 2; k++) {
    double energy[2], forces[2][3][3];
    for (int side = 0; side < 2; side++) {
      const int32_t species[3] = {1, 2, 3};
      const double pos[3][3] = {{0, 0, 0}, {0, -1.1, 0}, {0, cutoffs[k] + (side ? eps : -eps), 0}};
      mlff_system *system = NULL;
      test_ok(mlff_system_create(3, species, pos, NULL, NULL, 9.0, &system, &error), error);
      mlff_result result = {.forces = forces[side]};
      test_ok(mlff_model_evaluate(open, mlff_system_graph(system), NULL, &result, &error), error);
      energy[side] = result.energy;
      mlff_system_free(system);
    }
    const double work = -eps * (forces[0][2][1] + forces[1][2][1]);
    near_one(energy[1], energy[0] + work, 1e-11);
    near_all(forces[1], forces[0], 9, 1e-5, 0.0);
  }
  mlff_model_close(open);
  test_model_free(&model);
}
END_TEST

/* ---- fail closed ------------------------------------------------------------------------------------------------- */

static void check_refused(const char *old, const char *with, const char *text)
{
  test_model model = shape_of(3);
  mlff_model *open = NULL;
  mlff_error error = {.code = MLFF_OK};
  const mlff_options options = {.skip_self_test = 1};
  test_model_edit(&model, old, with);
  test_fails(mlff_model_open_memory("test.yaml", model.yaml, model.yaml_size, model.weights, model.weights_size,
                                    &options, &open, &error),
             error, MLFF_E_FORMAT, text);
  ck_assert_ptr_null(open);
  test_model_free(&model);
}

START_TEST(impossible_files_are_refused)
{
  static const char *const cases[][3] = {
      {"zeta: 14.1", "zeta: 0.5", "zeta"},
      {"cos_scale: 0.95", "cos_scale: 1.0", "cos_scale"},
      {"kind: celu", "kind: relu", "kind"},
      {"constants: exact", "constants: some", "constants"},
      {"n_members: 2", "n_members: 3", "member.2"},
      {"n_members: 2", "n_members: 1", "member.1"},
      {"n_members: 2", "n_members: 0", "n_members"},
      {"alpha: 0.1", "alpha: -0.1", "alpha"},
      {"Cl: [14, 20, 1]", "Cl: [15, 20, 1]", "14 AEV columns"},
      {"Cl: [14, 20, 1]", "Cl: [14, 21, 1]", "member.0.Cl.0.weight"},
      {"Cl: [14, 20, 1]", "Cl: [14, 20, 2]", "last width"},
      {"Cl: [14, 20, 1]", "Cl: [14, 1]", "dims of Cl"},
      {"Cl: [14, 20, 1]", "Cl: [14, 20.5, 1]", "20.5"},
      {"activation:", "activations:", "activation"},
      {"prefactor: 0.25, ", "prefactor: 0.25, more: 1, ", "more"},
  };
  check_refused(cases[_i][0], cases[_i][1], cases[_i][2]);
}
END_TEST
enum { N_REFUSED = 15 };

/* An element that was left out when opening is an error, not a wrong number: as a centre and as a mere neighbor. */
START_TEST(elements_left_out_are_an_error)
{
  test_model model = shape_of(0);
  test_atoms water = test_random(3, 4.0, 1.0, 0, (const int[]){1, 8}, 2, 95), other = test_atoms_copy(&water);
  test_atoms_species(&water, four, 4);
  test_atoms_species(&other, four, 4);
  other.species[1] = 0;
  mlff_model *open = test_model_open_for(&model, "fp64", NULL, &water);
  test_answer a = test_evaluate(open, &water);
  mlff_error error = {.code = MLFF_OK};
  mlff_system *system = test_system(&other, 4.2);
  test_fails(mlff_model_evaluate(open, mlff_system_graph(system), NULL, &a.result, &error), error, MLFF_E_ARG, "Cl");
  mlff_system_free(system);
  test_answer_free(&a);
  test_atoms_free(&water);
  test_atoms_free(&other);
  mlff_model_close(open);
  test_model_free(&model);
}
END_TEST

/* No atoms, and atoms of other styles only. */
START_TEST(empty_ranks)
{
  test_model model = shape_of(0);
  mlff_model *open = test_model_open(&model, precisions[_i]);
  mlff_error error = {.code = MLFF_OK};
  const int64_t row[4] = {0, 0, 0, 0};
  const int32_t species[3] = {-1, -1, -1}, node[3] = {0, 1, 2};
  const double pos[3][3] = {{0}};
  double forces[3][3], atom_energy[3] = {9, 9, 9};
  mlff_result result = {.forces = forces, .atom_energy = atom_energy};
  const mlff_graph none = {.list_id = 1, .row = row};
  test_ok(mlff_model_evaluate(open, &none, NULL, &result, &error), error);
  ck_assert_double_eq(result.energy, 0.0);
  const mlff_graph strangers =
      {.n_local = 3, .n_all = 3, .n_nodes = 3, .list_id = 2, .species = species, .node = node, .row = row, .pos = pos};
  test_ok(mlff_model_evaluate(open, &strangers, NULL, &result, &error), error);
  ck_assert_double_eq(result.energy, 0.0);
  const double zeros[9] = {0};
  near_all(forces, zeros, 9, 0.0, 0.0);
  near_all(atom_energy, zeros, 3, 0.0, 0.0);
  mlff_model_close(open);
  test_model_free(&model);
}
END_TEST

/* Forces of each member are those of the member opened alone; chosen members are averaged; what cannot be chosen. */
START_TEST(members_apart)
{
  enum { N = 24, MEMBERS = 3 };
  test_model model = shape_of(0);
  mlff_model *whole = test_model_open(&model, precisions[_i]), *two = NULL, *none = NULL;
  const double rounding = _i ? 1e-12 : 1e-4;
  test_atoms atoms = test_random(N, 5.5, 0.9, 1, random_numbers, 3, 97);
  mlff_error error = {.code = MLFF_OK};
  double forces[N][3], apart[MEMBERS][N][3], virial[MEMBERS][6], mean[N][3] = {{0}}, mean_virial[6] = {0};
  mlff_result result = {.forces = forces, .member_forces = &apart[0][0], .member_virial = virial};
  ck_assert_int_eq(mlff_model_info(whole)->n_members, MEMBERS);
  mlff_system *system = test_system(&atoms, mlff_model_info(whole)->cutoff);
  test_ok(mlff_model_evaluate(whole, mlff_system_graph(system), NULL, &result, &error), error);
  mlff_system_free(system);
  for (int m = 0; m < MEMBERS; m++) {
    char name[16];
    mlff_model *alone = NULL;
    snprintf(name, sizeof name, "%d", m);
    test_ok(test_model_try(&model, &(mlff_options){.precision = precisions[_i], .members = name}, &alone, &error),
            error);
    test_answer a = test_evaluate(alone, &atoms);
    ck_assert_int_eq(mlff_model_info(alone)->n_members, 1);
    ck_assert_int_eq(mlff_model_info(alone)->n_members_of_file, MEMBERS);
    near_all(apart[m], a.result.forces, 3 * N, rounding, 0.0);
    near_all(virial[m], a.result.virial, 6, N * rounding, 0.0);
    result.forces = a.result.forces;
    system = test_system(&atoms, mlff_model_info(alone)->cutoff);
    ck_assert_int_eq(mlff_model_evaluate(alone, mlff_system_graph(system), NULL, &result, &error), MLFF_E_UNSUPPORTED);
    mlff_system_free(system);
    for (int i = 0; i < 3 * N; i++) mean[i / 3][i % 3] += apart[m][i / 3][i % 3] / MEMBERS;
    for (int k = 0; k < 6; k++) mean_virial[k] += virial[m][k] / MEMBERS;
    test_answer_free(&a);
    mlff_model_close(alone);
  }
  near_all(forces, mean, 3 * N, rounding, 0.0);
  near_all(result.virial, mean_virial, 6, N * rounding, 0.0);
  test_ok(test_model_try(&model, &(mlff_options){.precision = precisions[_i], .members = "2,0:0"}, &two, &error),
          error);
  test_answer both = test_evaluate(two, &atoms);
  for (int i = 0; i < 3 * N; i++) mean[i / 3][i % 3] = (apart[0][i / 3][i % 3] + apart[2][i / 3][i % 3]) / 2.0;
  near_all(both.result.forces, mean, 3 * N, rounding, 0.0);
  static const char *const bad[] = {"",     "3",  "1:3", "2:1", "0:",  ":1",
                                    "0,,1", "0,", "-1",  "x",   "0 1", "99999999999999"};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
    ck_assert_int_eq(test_model_try(&model, &(mlff_options){.members = bad[k]}, &none, &error), MLFF_E_ARG);
  test_answer_free(&both);
  mlff_model_close(two);
  mlff_model_close(whole);
  test_atoms_free(&atoms);
  test_model_free(&model);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("model/ani");
  TCase *c = tcase_create("ani");
  tcase_set_timeout(c, 240);
  tcase_add_loop_test(c, random_models_match_plain_loops, 0, 2 * N_SHAPES);
  tcase_add_loop_test(c, far_molecules_add_up, 0, 2);
  tcase_add_test(c, small_cells_equal_their_supercells);
  tcase_add_test(c, nothing_jumps_at_a_cutoff);
  tcase_add_loop_test(c, impossible_files_are_refused, 0, N_REFUSED);
  tcase_add_test(c, elements_left_out_are_an_error);
  tcase_add_loop_test(c, empty_ranks, 0, 2);
  tcase_add_loop_test(c, members_apart, 0, 2);
  suite_add_tcase(s, c);
  return s;
}

int main(void)
{
  return test_main(suite);
}
