/* selftest.c: reads and runs the self-test of a model file: structures with known energies, forces and virials. */
#include "model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tolerance of a single atomic energy over that of the energy per atom, which is averaged over atoms. */
#define ATOM_ENERGY_FACTOR 10.0

static const char *const precisions[] = {"fp64", "fp32", "mixed"};

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static mlff_status read_tolerances(mlff_modelfile *f, const mlff_yaml *block, mlff_test_set *set, mlff_error *error)
{
  static const char *const quantities[] = {"energy", "forces", "virial"};
  const mlff_yaml *all = NULL, *one = NULL;
  MLFF_TRY(mlff_yaml_map(f, block, "tolerance", &all, error));
  for (int p = 0; p < 3; p++) {
    for (int q = 0; q < 3; q++) set->tolerance[p][q] = NAN;
    if (p == 2 && !mlff_yaml_has(all, precisions[p])) continue;
    MLFF_TRY(mlff_yaml_map(f, all, precisions[p], &one, error));
    for (int q = 0; q < 3; q++)
      MLFF_TRY(mlff_yaml_double(f, one, quantities[q], 1e-14, 10.0, &set->tolerance[p][q], error));
  }
  return MLFF_OK;
}

static mlff_status read_atoms(mlff_modelfile *f, const mlff_yaml *item, mlff_test_structure *t, mlff_error *error)
{
  const char *const *symbols = NULL;
  MLFF_TRY(mlff_yaml_strings(f, item, "elements", &symbols, &t->n_atoms, error));
  if (t->n_atoms < 1 || t->n_atoms > 100000)
    return mlff_yaml_fail(f, mlff_yaml_find(item, "elements"), error, "has %d atoms, expected 1 to 100000", t->n_atoms);
  int32_t *species = mlff_arena_alloc(f->arena, (size_t) t->n_atoms, sizeof *species);
  if (!species) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", f->path);
  for (int i = 0; i < t->n_atoms; i++) {
    int s = 0;
    while (s < f->head.n_elements && strcmp(f->head.elements[s], symbols[i])) s++;
    if (s == f->head.n_elements)
      return mlff_yaml_fail(f, mlff_yaml_find(item, "elements"), error, "'%.20s' is not among the model's elements",
                            symbols[i]);
    species[i] = s;
  }
  t->species = species;
  return MLFF_OK;
}

/* cell: none, or three vectors. */
static mlff_status read_cell(mlff_modelfile *f, const mlff_yaml *item, mlff_test_structure *t, mlff_error *error)
{
  const mlff_yaml *node = mlff_yaml_find(item, "cell");
  const char *text = NULL;
  const double *values = NULL;
  int n = 3;
  if (node && node->kind == MLFF_YAML_SCALAR) {
    MLFF_TRY(mlff_yaml_string(f, item, "cell", &text, error));
    if (strcmp(text, "none"))
      return mlff_yaml_fail(f, node, error, "is '%.20s', expected none or three vectors of three numbers", text);
    return MLFF_OK;
  }
  MLFF_TRY(mlff_yaml_table(f, item, "cell", 3, &n, &values, error));
  t->cell = (const double(*)[3]) values;
  return MLFF_OK;
}

static mlff_status read_structure(mlff_modelfile *f, const mlff_yaml *item, mlff_test_structure *t, mlff_error *error)
{
  const double *values = NULL;
  if (item->kind != MLFF_YAML_MAPPING)
    return mlff_yaml_fail(f, item, error, "must be a mapping, not a %s", mlff_yaml_kind_name(item->kind));
  MLFF_TRY(mlff_yaml_string(f, item, "name", &t->name, error));
  MLFF_TRY(read_atoms(f, item, t, error));
  int n = t->n_atoms;
  MLFF_TRY(mlff_yaml_table(f, item, "positions", 3, &n, &values, error));
  t->positions = (const double(*)[3]) values;
  MLFF_TRY(read_cell(f, item, t, error));
  MLFF_TRY(mlff_yaml_double(f, item, "energy", -1e12, 1e12, &t->energy, error));
  MLFF_TRY(mlff_yaml_table(f, item, "forces", 3, &n, &values, error));
  t->forces = (const double(*)[3]) values;
  MLFF_TRY(mlff_yaml_doubles(f, item, "virial", 6, &t->virial, NULL, error));
  if (!mlff_yaml_has(item, "atom_energies")) return MLFF_OK;
  return mlff_yaml_doubles(f, item, "atom_energies", n, &t->atom_energies, NULL, error);
}

mlff_status mlff_selftest_read(mlff_modelfile *file, mlff_test_set *set, mlff_error *error)
{
  const mlff_yaml *block = NULL, *list = NULL;
  MLFF_TRY(mlff_yaml_map(file, file->root, "self_test", &block, error));
  MLFF_TRY(mlff_yaml_string(file, block, "origin", &set->origin, error));
  MLFF_TRY(read_tolerances(file, block, set, error));
  MLFF_TRY(mlff_yaml_sequence(file, block, "structures", &list, error));
  set->structures = mlff_arena_alloc(file->arena, (size_t) list->n_children, sizeof *set->structures);
  if (!set->structures) return mlff_fail(error, MLFF_E_NOMEM, "%s: out of memory", file->path);
  for (const mlff_yaml *item = list->first; item; item = item->next)
    MLFF_TRY(read_structure(file, item, &set->structures[set->n++], error));
  return MLFF_OK;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

int mlff_selftest_is_covered(const mlff_model *model, int k)
{
  const mlff_test_structure *t = &model->tests.structures[k];
  for (int i = 0; i < t->n_atoms; i++)
    if (!model->use[t->species[i]]) return 0;
  return 1;
}

static double worst(const double *a, const double *b, int n)
{
  double most = 0;
  for (int k = 0; k < n; k++) {
    const double d = fabs(a[k] - b[k]);
    if (!(d <= most)) most = d; /* NaN stays */
  }
  return most;
}

static void compare(const mlff_test_structure *t, const mlff_result *result, mlff_self_test *test)
{
  test->energy_error = fabs(result->energy - t->energy) / t->n_atoms;
  if (t->atom_energies) {
    const double share = worst(result->atom_energy, t->atom_energies, t->n_atoms) / ATOM_ENERGY_FACTOR;
    if (!(share <= test->energy_error)) test->energy_error = share;
  }
  test->force_error = worst(&result->forces[0][0], &t->forces[0][0], 3 * t->n_atoms);
  test->virial_error = worst(result->virial, t->virial, 6) / t->n_atoms;
  test->passed = test->energy_error <= test->energy_tolerance && test->force_error <= test->force_tolerance &&
                 test->virial_error <= test->virial_tolerance;
}

/* Tolerances of the file. If it has none for mixed precision: those of fp32 plus 1 meV/atom and 1 % of the largest
 * force and virial component. */
static void choose_tolerances(const mlff_model *model, const mlff_test_structure *t, int precision,
                              mlff_self_test *answer)
{
  const int has_own = !isnan(model->tests.tolerance[precision][0]);
  const double *tolerance = model->tests.tolerance[has_own ? precision : 1], zeros[6] = {0};
  answer->energy_tolerance = tolerance[0];
  answer->force_tolerance = tolerance[1];
  answer->virial_tolerance = tolerance[2];
  if (has_own) return;
  double force = 0;
  for (int k = 0; k < 3 * t->n_atoms; k++) force = fmax(force, fabs(t->forces[k / 3][k % 3]));
  answer->energy_tolerance += 1e-3;
  answer->force_tolerance += 0.01 * force;
  answer->virial_tolerance += 0.01 * worst(t->virial, zeros, 6) / t->n_atoms;
}

mlff_status mlff_selftest_run(mlff_model *model, int k, mlff_self_test *test, mlff_error *error)
{
  const mlff_test_structure *t = &model->tests.structures[k];
  mlff_system *system = NULL;
  mlff_self_test answer = {.n_atoms = t->n_atoms};
  int p = 0;
  while (p < 2 && strcmp(precisions[p], model->info.precision)) p++;
  snprintf(answer.name, sizeof answer.name, "%s", t->name);
  choose_tolerances(model, t, p, &answer);
  if (t->atom_energies && !(model->info.traits & MLFF_NODE_ENERGIES))
    return mlff_fail(error, MLFF_E_FORMAT, "atom_energies: %s models have no per-atom energies; remove the key",
                     model->info.architecture);
  const size_t n = (size_t) t->n_atoms;
  mlff_result result = {.forces = malloc(n * sizeof *result.forces),
                        .atom_energy = t->atom_energies ? malloc(n * sizeof(double)) : NULL};
  const int without_offsets = model->without_offsets; /* the file's energies include offsets */
  model->without_offsets = 0;
  mlff_status status = MLFF_OK;
  if (!result.forces || (t->atom_energies && !result.atom_energy))
    status = mlff_fail(error, MLFF_E_NOMEM, "out of memory for a self-test");
  if (!status)
    status =
        mlff_system_create(t->n_atoms, t->species, t->positions, t->cell, NULL, model->head->cutoff, &system, error);
  if (!status) status = mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, error);
  /* on a GPU the second evaluation is the captured step, which simulations use most */
  if (!status && model->replay.is_on)
    status = mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, error);
  if (!status) {
    compare(t, &result, &answer);
    *test = answer;
  }
  model->without_offsets = without_offsets;
  model->checked_list_id = 0;
  mlff_system_free(system);
  free(result.forces);
  free(result.atom_energy);
  return status;
}

/* Structures with atomic energies test single elements; skips those without an element in use. */
static int is_wanted(const mlff_model *model, const int *use, int k)
{
  const mlff_test_structure *t = &model->tests.structures[k];
  if (!t->atom_energies) return 1;
  for (int i = 0; i < t->n_atoms; i++)
    if (use[t->species[i]]) return 1;
  return 0;
}

static mlff_status run_each(mlff_model *model, const int *use, mlff_error *error)
{
  for (int k = 0; k < model->tests.n; k++) {
    mlff_self_test t;
    if (!is_wanted(model, use, k)) continue;
    mlff_error inner = {.code = MLFF_OK};
    const mlff_status status = mlff_selftest_run(model, k, &t, &inner);
    if (status)
      return mlff_fail(error, status, "%s: self-test '%.60s' cannot be computed: %.800s", model->file->path,
                       model->tests.structures[k].name, inner.text);
    if (!t.passed)
      return mlff_fail(
          error, MLFF_E_NUMERIC,
          "%s: self-test '%s' failed on %s (%s, %s): errors are energy %.3g eV/atom (tolerance %.3g), forces %.3g eV/A "
          "(tolerance %.3g), virial %.3g eV/atom (tolerance %.3g). Do not use the model here; run 'mlff verify' with "
          "other kernels and precisions to find out whether the file or this build is wrong [mlff-24]",
          model->file->path, t.name, model->info.device, model->info.kernels, model->info.precision, t.energy_error,
          t.energy_tolerance, t.force_error, t.force_tolerance, t.virial_error, t.virial_tolerance);
    model->info.n_self_tests_passed++;
  }
  return MLFF_OK;
}

mlff_status mlff_selftest_run_all(mlff_model *model, mlff_error *error)
{
  int covered = model->info.n_members == model->info.n_members_of_file;
  for (int k = 0; k < model->tests.n; k++)
    covered &= !is_wanted(model, model->use, k) || mlff_selftest_is_covered(model, k);
  if (covered) return run_each(model, model->use, error);

  /* The model was opened without some species or members of the structures: run a temporary network that has them, on
   * the same backend. */
  int *const use = model->use;
  void *const net = model->net, *all_net = NULL;
  int *all = calloc((size_t) model->head->n_elements, sizeof *all);
  if (!all) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a self-test");
  for (int k = 0; k < model->tests.n; k++)
    for (int i = 0; is_wanted(model, use, k) && i < model->tests.structures[k].n_atoms; i++)
      all[model->tests.structures[k].species[i]] = 1;
  const mlff_species_use species = {.n_species = model->head->n_elements,
                                    .use = all,
                                    .radial_intervals = model->radial_intervals};
  mlff_status status = model->arch->create(model->file, model->backend, &species, &all_net, error);
  if (!status) {
    model->use = all;
    mlff_repulsion_bound(model);
    model->net = all_net;
    status = run_each(model, use, error);
    model->arch->destroy(all_net);
  }
  model->use = use;
  mlff_repulsion_bound(model);
  model->net = net;
  model->checked_list_id = 0;
  free(all);
  return status;
}

int mlff_model_n_self_tests(const mlff_model *model)
{
  return model->tests.n;
}

mlff_status mlff_model_self_test(mlff_model *model, int k, mlff_self_test *test, mlff_error *error)
{
  if (!model || !test || k < 0 || k >= model->tests.n)
    return mlff_fail(error, MLFF_E_ARG, "self-test %d does not exist; the file has %d, counted from 0", k,
                     model ? model->tests.n : 0);
  if (!mlff_selftest_is_covered(model, k))
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "self-test '%.60s' has elements that the model was opened without; open it with all elements",
                     model->tests.structures[k].name);
  if (model->info.n_members != model->info.n_members_of_file)
    return mlff_fail(
        error, MLFF_E_UNSUPPORTED,
        "self-test '%.60s' requires all %d members, but the model was opened with %d; open it with all members",
        model->tests.structures[k].name, model->info.n_members_of_file, model->info.n_members);
  return mlff_selftest_run(model, k, test, error);
}
