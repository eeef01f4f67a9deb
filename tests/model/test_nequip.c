/* test_nequip.c: NequIP networks as a whole, from the file to forces.
 *
 * Random models are compared with plain loops in double that know none of the engine's specialisations (first layer in
 * rows, padding, tables); published ones, where the shared directory is there, with reference numbers in float64. Traps
 * of NequIP (tests/README.md) that fail here: N1 to N6, N8 to N12, N16, N17, N19, N20, S2 to S5.
 */
#include "backends.h"
#include "plain_nequip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where only small systems are quick. */
#if MLFF_CUDASIM || defined(__SANITIZE_ADDRESS__)
enum { ONLY_SMALL = 1 };
#else
enum { ONLY_SMALL = 0 };
#endif

static const char *const hco[] = {"H", "C", "O"};

static int missing(int which)
{
  return !choose_backend(which, &(mlff_options){.device = NULL});
}

static mlff_model *open_on(const test_model *file, int which, const char *radial_intervals)
{
  mlff_options options = {.skip_self_test = 1, .radial_intervals = radial_intervals};
  choose_backend(which, &options);
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(test_model_try(file, &options, &model, &error), error);
  return model;
}

/* ---- random models against plain loops --------------------------------------------------------------------------- */

static const test_model_options shapes[] = {
    {.n_features = 11, .n_interactions = 3, .n_basis = 6, .lmax = 3, .width = 20},
    {.n_features = 11, .n_interactions = 3, .n_basis = 6, .lmax = 3, .width = 20, .is_sevennet = 1},
    {.n_features = 33, .n_interactions = 2, .n_basis = 8, .lmax = 3, .width = 15, .cutoff = 5.0},
    {.n_features = 16, .n_interactions = 4, .n_basis = 5, .lmax = 2, .width = 7},
    {.n_features = 20, .n_interactions = 2, .n_basis = 8, .lmax = 2, .width = 31, .is_sevennet = 1},
    {.n_features = 5, .n_interactions = 2, .n_basis = 1, .lmax = 1, .width = 1, .is_sevennet = 1},
    {.n_features = 17, .n_interactions = 3, .n_basis = 4, .lmax = 1, .width = 9},
    {.n_features = 64, .n_interactions = 2, .n_basis = 8, .lmax = 0, .width = 64},
    {.n_features = 7, .n_interactions = 1, .n_basis = 8, .lmax = 3, .width = 20},
    {.n_features = 12, .n_interactions = 1, .n_basis = 8, .lmax = 2, .width = 20, .is_sevennet = 1},
    {.n_features = 11, .n_interactions = 3, .n_basis = 6, .lmax = 3, .width = 20, .is_package = 1},
    {.n_features = 33, .n_interactions = 2, .n_basis = 8, .lmax = 1, .width = 15, .is_package = 1},
    {.n_features = 6, .n_interactions = 1, .n_basis = 4, .lmax = 2, .width = 9, .is_package = 1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static test_model shape_model(int k)
{
  test_model_options o = shapes[k];
  o.elements = hco;
  o.n_elements = 3;
  o.is_double = 1;
  o.seed = (uint64_t) k;
  return test_model_nequip(o);
}

static void compare_with_plain(const test_model *file, const test_atoms *atoms, int which, const char *intervals,
                               double tolerance)
{
  mlff_model *model = open_on(file, which, intervals);
  test_answer a = test_evaluate(model, atoms);
  double *energy = calloc((size_t) atoms->n, sizeof *energy);
  plain_nequip(file, atoms, energy);
  for (int i = 0; i < atoms->n; i++) a.result.atom_energy[i] += 13.6 * (atoms->species[i] + 1);
  near_all(a.result.atom_energy, energy, atoms->n, tolerance, tolerance);
  free(energy);
  test_answer_free(&a);
  mlff_model_close(model);
}

/* Single precision with its table, double without one and with one of 4000 intervals. */
START_TEST(energies_match_plain_loops)
{
  if (missing(_i)) return;
  for (int k = 0; k < N_SHAPES; k++) {
    test_model file = shape_model(k);
    test_atoms box = test_triclinic(), water = test_water();
    test_atoms_species(&box, hco, 3);
    test_atoms_species(&water, hco, 3);
    compare_with_plain(&file, &box, _i, NULL, _i % 2 ? 1e-13 : 3e-6);
    compare_with_plain(&file, &water, _i, NULL, _i % 2 ? 1e-13 : 3e-6);
    if (_i % 2) compare_with_plain(&file, &box, _i, "4000", 1e-9);
    test_atoms_free(&box);
    test_atoms_free(&water);
    test_model_free(&file);
  }
}
END_TEST

/* ---- published networks ------------------------------------------------------------------------------------------ */

/* eV per atom, eV/A and eV/A^3. In single precision: the error of the packages in float against double. The small
 * networks have random weights and stresses of up to 0.5 eV/A^3. Moving their atoms 300 times by 1e-7 A changes atomic
 * energies of 7 eV by up to 6.4e-6 eV on every kernel path. Half of it is rounding of combined matrices, the rest
 * rounding of sums, which differs between compilers. */
typedef struct tolerance {
  double energy, force, stress;
} tolerance;
static const tolerance in_double = {1e-12, 1e-11, 1e-13}, in_single = {5e-6, 5e-5, 2.4e-7},
                       in_single_random = {1e-5, 5e-5, 2e-6};

static double volume(const test_atoms *a)
{
  const double(*c)[3] = a->cell;
  return fabs(c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) - c[0][1] * (c[1][0] * c[2][2] - c[1][2] * c[2][0]) +
              c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]));
}

/* One structure of a *_reference.json; numbers of `key` in it. */
static void check_structure(mlff_model *model, const test_json *structure, const char *key, const tolerance *allowed)
{
  static const int component[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
  const test_json *all = test_json_get(structure, "models"), *reference = NULL;
  const mlff_info *info = mlff_model_info(model);
  test_atoms atoms = test_json_atoms(structure);
  int64_t n;
  for (int k = 0; k < test_json_length(all); k++)
    if (!strcmp(test_json_key(test_json_item(all, k)), key)) reference = test_json_item(all, k);
  ck_assert_ptr_nonnull(reference);
  test_atoms_species(&atoms, info->elements, info->n_elements);
  test_answer a = test_evaluate(model, &atoms);
  double *energies = test_json_numbers(test_json_get(reference, "energies"), &n);
  ck_assert_int_eq(n, atoms.n);
  near_all(a.result.atom_energy, energies, n, allowed->energy, 0);
  near_one(a.result.energy, test_json_number(test_json_get(reference, "energy")), allowed->energy * atoms.n);
  double *forces = test_json_numbers(test_json_get(reference, "forces"), &n);
  ck_assert_int_eq(n, 3 * atoms.n);
  near_all(a.result.forces, forces, n, allowed->force, 0);
  const test_json *node = test_json_find(reference, "stress");
  if (!test_json_is_null(node)) {
    double *stress = test_json_numbers(node, &n), mine[6], theirs[6];
    ck_assert_int_eq(n, 9);
    for (int c = 0; c < 6; c++) {
      mine[c] = -a.result.virial[c] / volume(&atoms);
      theirs[c] = stress[3 * component[c][0] + component[c][1]];
    }
    near_all(mine, theirs, 6, allowed->stress, 0);
    free(stress);
  }
  free(energies);
  free(forces);
  test_answer_free(&a);
  test_atoms_free(&atoms);
}

/* The structures of up to n_atoms atoms; returns how many there are. */
static int check_published(mlff_model *model, const char *reference, const char *name, int n_atoms,
                           const tolerance *allowed)
{
  char path[512], file[128];
  int n = 0;
  snprintf(file, sizeof file, "models/%s", reference);
  ck_assert(test_shared(file, path, sizeof path));
  test_json *json = test_json_read(path);
  const test_json *structures = test_json_get(json, "structures");
  for (int k = 0; k < test_json_length(structures); k++) {
    const test_json *structure = test_json_item(structures, k);
    if (test_json_length(test_json_get(structure, "numbers")) > n_atoms) continue;
    check_structure(model, structure, name, allowed);
    n++;
  }
  test_json_free(json);
  return n;
}

START_TEST(published_networks_match_their_references)
{
  static const char *const names[] = {"nequip_tiny", "nequip_tiny7"};
  if (missing(_i)) return;
  for (int k = 0; k < 2; k++) {
    char reference[64];
    test_model file;
    if (!published_nequip(names[k], &file)) return;
    snprintf(reference, sizeof reference, "%s_reference.json", names[k]);
    mlff_model *model = open_on(&file, _i, NULL);
    ck_assert_int_eq(check_published(model, reference, names[k], 1000, _i % 2 ? &in_double : &in_single_random), 5);
    mlff_model_close(model);
    test_model_free(&file);
  }
}
END_TEST

/* Whether a model on `kernels` runs as fast as it can here. */
static int is_best(const char *kernels, const char *precision)
{
  mlff_backend *best = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_backend_open(auto_device(), 0, precision, NULL, &best, &error), error);
  const int same = !strcmp(best->kernels, kernels);
  mlff_backend_close(best);
  return same && !ONLY_SMALL;
}

/* The model of the repository. All structures where it is fast, else those of up to 9 atoms; where only small systems
 * are quick, with the elements of these. */
START_TEST(nequix_matches_its_reference)
{
  static const char *const few[] = {"H", "C", "O", "Na", "Si", "Cl", "Fe"};
  char path[512], shared[512];
  mlff_options options = {.skip_self_test = 1};
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  if (!choose_backend(_i, &options) || !test_shared("models/nequix_reference.json", shared, sizeof shared)) return;
  if (ONLY_SMALL) {
    options.elements = few;
    options.n_elements = sizeof few / sizeof *few;
  }
  snprintf(path, sizeof path, "%s/models/nequix-oam-1-pft.yaml", test_source_dir());
  test_ok(mlff_model_open(path, &options, &model, &error), error);
  const int all = is_best(mlff_model_info(model)->kernels, options.precision);
  const int n = check_published(model, "nequix_reference.json", "nequix-oam-1-pft", all ? 1000 : 9,
                                _i % 2 ? &in_double : &in_single);
  ck_assert_int_eq(n, all ? 12 : 7);
  mlff_model_close(model);
}
END_TEST

static Suite *nequip_suite(void)
{
  Suite *suite = suite_create("nequip models");
  TCase *random = tcase_create("random"), *published = tcase_create("published");
  tcase_set_timeout(random, 300);
  tcase_set_timeout(published, 300);
  tcase_add_loop_test(random, energies_match_plain_loops, 0, n_backends());
  tcase_add_loop_test(published, published_networks_match_their_references, 0, n_backends());
  tcase_add_loop_test(published, nequix_matches_its_reference, 0, n_backends());
  suite_add_tcase(suite, random);
  suite_add_tcase(suite, published);
  return suite;
}

int main(void)
{
  return test_main(nequip_suite);
}
