/* test_painn.c: PaiNN models as a whole, from the file to forces.
 *
 * Random models of many shapes are compared with plain loops in double that know none of the engine's specialisations
 * (first and last layer, moments, tables, padding); the published models, where the shared directory is there, with
 * reference numbers in float64. The known traps of PaiNN each make one of these tests fail: P1 which basis, P2 rounded
 * cutoff, P3 bias inside the cutoff, P4 filters sliced by layer, P5 mu before the layer, P6 V and W, P7 offsets per
 * atom, P8 direction of edges.
 */
#include "backends.h"
#include "plain_painn.h"
#include "ranks.h"

#include "arch/painn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

static mlff_model *open_on(const test_model *file, int which)
{
  mlff_options options = {.skip_self_test = 1};
  choose_backend(which, &options);
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_model_open_memory("test.yaml", file->yaml, file->yaml_size, file->weights, file->weights_size, &options,
                                 &model, &error),
          error);
  return model;
}

static int missing(int which)
{
  return !choose_backend(which, &(mlff_options){.device = NULL});
}

/* What test models add per atom. P7: per atom, never through single precision. */
static double offset_of(int32_t species)
{
  return -13.6 * (species + 1);
}

/* ---- random models against plain loops --------------------------------------------------------------------------- */

static const test_model_options shapes[] = {
    {.basis = "bspline", .n_features = 64, .n_interactions = 2, .n_readout = 32, .n_basis = 20, .cutoff = 5.0},
    {.basis = "bspline", .n_features = 20, .n_interactions = 3, .n_readout = 7, .n_basis = 5, .cutoff = 3.3},
    {.basis = "bspline", .n_features = 1, .n_interactions = 4, .n_readout = 1, .n_basis = 1, .cutoff = 4.0},
    {.basis = "bspline", .n_features = 128, .n_interactions = 1, .n_readout = 64, .n_basis = 12, .cutoff = 4.5},
    {.basis = "gaussian", .n_features = 20, .n_interactions = 3, .n_readout = 11, .n_basis = 20, .cutoff = 5.0},
    {.basis = "gaussian", .n_features = 33, .n_interactions = 1, .n_readout = 16, .n_basis = 15, .cutoff = 3.9},
    {.basis = "bessel", .n_features = 16, .n_interactions = 2, .n_readout = 8, .n_basis = 9, .cutoff = 4.0},
    {.basis = "bessel", .n_features = 40, .n_interactions = 1, .n_readout = 20, .n_basis = 20, .cutoff = 5.0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static test_model shape_model(int k)
{
  test_model_options o = shapes[k];
  o.elements = hco;
  o.n_elements = 3;
  o.is_double = 1;
  o.seed = (uint64_t) k;
  return calm_painn(o);
}

static void compare_with_plain(const test_model *file, const test_atoms *atoms, int which)
{
  mlff_model *model = open_on(file, which);
  test_answer a = test_evaluate(model, atoms);
  double *energy = calloc((size_t) atoms->n, sizeof *energy);
  plain_painn(file, atoms, energy);
  for (int i = 0; i < atoms->n; i++) a.result.atom_energy[i] -= offset_of(atoms->species[i]);
  near_all(a.result.atom_energy, energy, atoms->n, which % 2 ? 1e-13 : 1e-6, which % 2 ? 1e-13 : 2e-6);
  free(energy);
  test_answer_free(&a);
  mlff_model_close(model);
}

START_TEST(energies_match_plain_loops)
{
  if (missing(_i)) return;
  for (int k = 0; k < N_SHAPES; k++) {
    test_model file = shape_model(k);
    test_atoms box = test_triclinic(), water = test_water();
    test_atoms_species(&box, hco, 3);
    test_atoms_species(&water, hco, 3);
    compare_with_plain(&file, &box, _i);
    compare_with_plain(&file, &water, _i);
    test_atoms_free(&box);
    test_atoms_free(&water);
    test_model_free(&file);
  }
}
END_TEST

/* ---- published models -------------------------------------------------------------------------------------------- */

/* Energies and forces in the model's own unit. */
typedef struct tolerance {
  double energy, force;
} tolerance;

static void check_published(const char *reference, const char *name, int which, tolerance single)
{
  char path[512], file_name[128], key[256];
  test_model file;
  snprintf(file_name, sizeof file_name, "models/%s", reference);
  if (!test_shared(file_name, path, sizeof path) || !published_painn(name, hco, 3, &file)) return;
  test_json *json = test_json_read(path);
  mlff_model *model = open_on(&file, which);
  snprintf(key, sizeof key, "models.%s.structures", name);
  const test_json *structures = test_json_get(json, key);
  ck_assert_int_ge(test_json_length(structures), 2);
  for (int k = 0; k < test_json_length(structures); k++) {
    const test_json *structure = test_json_item(structures, k), *nn = test_json_find(structure, "energy_nn");
    test_atoms atoms = test_json_atoms(structure);
    test_atoms_species(&atoms, hco, 3);
    test_answer a = test_evaluate(model, &atoms);
    int64_t n;
    double *forces = test_json_numbers(test_json_get(structure, "forces"), &n), largest = 0, energy = a.result.energy;
    ck_assert_int_eq(n, 3 * atoms.n);
    for (int i = 0; i < atoms.n; i++) energy -= offset_of(atoms.species[i]);
    for (int64_t c = 0; c < n; c++) largest = fmax(largest, fabs(forces[c]));
    near_one(energy, test_json_number(nn ? nn : test_json_get(structure, "energy")),
             which % 2 ? 1e-11 * (1 + fabs(energy)) : single.energy);
    near_all(a.result.forces, forces, n, which % 2 ? 1e-11 * (1 + largest) : single.force, 0.0);
    free(forces);
    test_answer_free(&a);
    test_atoms_free(&atoms);
  }
  mlff_model_close(model);
  test_model_free(&file);
  test_json_free(json);
}

/* Tolerances in float: those of PyTorch in float against itself in double (ethanol: kcal/mol and kcal/mol/A). */
START_TEST(published_models_match_their_references)
{
  if (missing(_i)) return;
  check_published("painn_real_reference.json", "painn_ethanol_1", _i, (tolerance){3.5e-5, 4e-4});
  check_published("painn_real_reference.json", "painn_md_ethanol", _i, (tolerance){3.5e-5, 4e-4});
  check_published("painn_reference.json", "painn_tiny_gaussian", _i, (tolerance){1e-6, 2e-6});
  check_published("painn_reference.json", "painn_tiny_bessel", _i, (tolerance){1e-6, 2e-6});
  check_published("painn_reference.json", "painn_f128_gaussian", _i, (tolerance){1e-6, 2e-6});
}
END_TEST

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static double cubic_spline(const double *rows, int width, int c, double x, double *slope)
{
  static const double factor[5] = {1, -4, 6, -4, 1};
  double value = 0;
  *slope = 0;
  for (int row = (int) x; row < (int) x + 4; row++) {
    const double t = x - row + 3;
    for (int m = 0; m < 4; m++) {
      const double y = t > m ? t - m : 0.0;
      value += rows[row * width + c] * factor[m] * y * y * y / 6;
      *slope += rows[row * width + c] * factor[m] * y * y / 2;
    }
  }
  return value;
}

/* Relative to the largest value and slope: below what floats resolve. */
START_TEST(tables_are_exact_to_float)
{
  enum { N = 20, WIDTH = 9 };
  double first[N], second[N], weight[WIDTH * N], bias[WIDTH], exact[WIDTH], exact_slope[WIDTH];
  test_rng rng = {3};
  const double cutoff = 5.0, spacing = cutoff / (N - 1);
  for (int k = 0; k < N; k++) {
    first[k] = _i ? (k + 1) * acos(-1.0) / cutoff : k * spacing;
    second[k] = 1 / (spacing * spacing);
  }
  for (int k = 0; k < WIDTH * N; k++) weight[k] = test_uniform(&rng, -1, 1);
  for (int k = 0; k < WIDTH; k++) bias[k] = test_uniform(&rng, -1, 1);
  const painn_filter filter = {.kind = _i ? MLFF_PAINN_BESSEL : MLFF_PAINN_GAUSSIAN,
                               .n_basis = N,
                               .width = WIDTH,
                               .cutoff = cutoff,
                               .first = first,
                               .second = second,
                               .weight = weight,
                               .bias = bias};
  const int n = painn_table_intervals(&filter);
  double *rows = malloc((size_t) (n + 3) * WIDTH * sizeof *rows);
  painn_spline_rows(&filter, n, rows);
  double value_error = 0, slope_error = 0, largest = 0, steepest = 0;
  for (int k = 0; k < 2000; k++) {
    const double r = k == 0 ? 0.0 : k == 1 ? nextafter(cutoff, 0) : test_uniform(&rng, 0.0, cutoff);
    painn_exact_filter(&filter, r, 0, exact);
    painn_exact_filter(&filter, r, 1, exact_slope);
    for (int c = 0; c < WIDTH; c++) {
      double slope, value = cubic_spline(rows, WIDTH, c, r * n / cutoff, &slope);
      ck_assert(isfinite(value) && isfinite(slope));
      value_error = fmax(value_error, fabs(value - exact[c]));
      slope_error = fmax(slope_error, fabs(slope * n / cutoff - exact_slope[c]));
      largest = fmax(largest, fabs(exact[c]));
      steepest = fmax(steepest, fabs(exact_slope[c]));
      if (k == 1) near_one(value, 0.0, 1e-13);
      if (k == 1) near_one(slope, 0.0, 1e-9);
    }
  }
  ck_assert_msg(value_error < 2e-8 * largest, "value: %g of %g", value_error, largest);
  ck_assert_msg(slope_error < 3e-6 * steepest, "slope: %g of %g", slope_error, steepest);
  free(rows);
}
END_TEST

/* Features go to other ranks and adjoints come back once for every layer but the first, which has no vectors yet. */
START_TEST(two_exchanges_for_each_layer_but_one)
{
  enum { N = 30 };
  static const int numbers[] = {1, 6, 8};
  test_atoms atoms = test_random(N, 6.7, 0.9, 1, numbers, 3, 8);
  int rank_of[N];
  for (int i = 0; i < N; i++) rank_of[i] = i % 2;
  for (int k = 0; k < N_SHAPES; k++) {
    test_model file = shape_model(k);
    test_ranks_answer r = test_on_ranks(&file, "fp64", &atoms, 2, rank_of);
    ck_assert_int_eq(r.has_parts, 1);
    ck_assert_int_eq(r.n_forward, 2 * (shapes[k].n_interactions - 1));
    ck_assert_int_eq(r.n_reverse + r.n_reduce, 0);
    test_ranks_free(&r);
    test_model_free(&file);
  }
  test_atoms_free(&atoms);
}
END_TEST

static Suite *painn_suite(void)
{
  Suite *suite = suite_create("painn models");
  TCase *tcase = tcase_create("all");
  tcase_set_timeout(tcase, 300);
  tcase_add_loop_test(tcase, energies_match_plain_loops, 0, n_backends());
  tcase_add_loop_test(tcase, published_models_match_their_references, 0, n_backends());
  tcase_add_loop_test(tcase, tables_are_exact_to_float, 0, 2);
  tcase_add_test(tcase, two_exchanges_for_each_layer_but_one);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(painn_suite);
}
