/* test_ani.c: ANI models as a whole, from the file to forces.
 *
 * Random models, small and of odd shapes, are compared with plain loops in double; the published ANI-2x, where the shared
 * directory is there, with reference numbers in float64 (those of PyTorch, with the exact derivative of CELU). Both
 * precisions. The known traps of ANI are each named where a test would fail in it: A1 element order, A2 prefactors and
 * the 0.95, A3 cutoffs with a skin, A4 column order, A5 and A6 constants and offsets in double, A7 slope of CELU, A8 mean
 * over members, A9 own images, A10 totals in double.
 */
#include "plain_ani.h"
#include "reference.h"
#include "testmodel.h"

#include "model/modelfile.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const precisions[] = {"fp32", "fp64"};
static const char *const kernel_paths[] = {"generic", "avx2", "avx512"};

/* ---- the published model ----------------------------------------------------------------------------------------- */

static const char *const ani2x_elements[] = {"H", "C", "N", "O", "S", "F", "Cl"};

/* Appends printf-style text to the YAML. */
static void put(test_model *model, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(test_model *model, const char *format, ...)
{
  char text[2048];
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  ck_assert_int_lt(n, (int) sizeof text);
  model->yaml = realloc(model->yaml, model->yaml_size + (size_t) n + 1);
  memcpy(model->yaml + model->yaml_size, text, (size_t) n + 1);
  model->yaml_size += (size_t) n;
}

static void put_numbers(test_model *model, const char *key, const test_json *values)
{
  int64_t n;
  double *x = test_json_numbers(values, &n);
  put(model, "%s: [", key);
  for (int64_t k = 0; k < n; k++) put(model, "%s%.17g", k ? ", " : "", x[k]);
  put(model, "]");
  free(x);
}

/* Constants of the description; rounded: those that TorchANI uses, float32. */
static void put_constants(test_model *model, const test_json *aev, int rounded)
{
  const char *suffix = rounded ? "_f32" : "";
  char key[64];
  const char *const parts[] = {"radial", "angular"}, *const scalars[] = {"eta", "zeta"}, *const lists[] = {"shifts", "sections"};
  for (int p = 0; p < 2; p++) {
    put(model, "  %s: {", parts[p]);
    const char *const plain[] = {"cutoff", "prefactor", "cos_scale"};
    for (int k = 0; k < 2 + p; k++) {
      snprintf(key, sizeof key, "%s.%s", parts[p], plain[k]);
      put(model, "%s%s: %.17g", k ? ", " : "", plain[k], test_json_number(test_json_get(aev, key)));
    }
    for (int k = 0; k < 1 + p; k++) {
      snprintf(key, sizeof key, "%s.%s%s", parts[p], scalars[k], suffix);
      put(model, ", %s: %.17g, ", scalars[k], test_json_number(test_json_get(aev, key)));
      snprintf(key, sizeof key, "%s.%s%s", parts[p], lists[k], suffix);
      const test_json *list = test_json_get(aev, key);
      if (p && k && !rounded) { /* the description rounds pi/8, 3 pi/8, .. to eight digits */
        put(model, "sections: [");
        for (int z = 0; z < 4; z++) put(model, "%s%.17g", z ? ", " : "", acos(-1.0) * (2 * z + 1) / 8.0);
        put(model, "]");
      } else {
        put_numbers(model, lists[k], list);
      }
    }
    put(model, "}\n");
  }
}

/* Published tensor names to those of model files. The names become shorter, so the header ends with blanks. */
static void rename_tensors(char *weights)
{
  uint64_t size;
  memcpy(&size, weights, sizeof size);
  char *from = weights + 8, *to = from, *const end = from + size;
  while (from < end) {
    if (end - from > 10 && memcmp(from, "\"ensemble.", 10) == 0) {
      memcpy(to, "\"member.", 8);
      from += 10;
      to += 8;
    } else {
      *to++ = *from++;
    }
  }
  memset(to, ' ', (size_t) (end - to));
}

/* The published ANI-2x as a model whose unit of energy is the hartree throughout: "eV" here is 1 hartree, so that
 * results are in hartree. Returns 0 (skipped) without the shared directory. */
static int ani2x_model(int rounded, int with_offsets, test_model *model)
{
  char path[512];
  if (!test_shared("models/ani-2x.yaml", path, sizeof path)) return 0;
  test_json *y = test_json_read(path);
  *model = (test_model){.yaml = NULL};
  put(model, "format: mlff/1\nname: ani-2x\narchitecture: ani\nelements: [H, C, N, O, S, F, Cl]\ncutoff: 5.1\n");
  put(model, "units: {length: angstrom, energy: eV, energy_in_eV: 1.0}\nenergy_offsets: {");
  for (int s = 0; s < 7; s++) {
    char key[64];
    snprintf(key, sizeof key, "self_energies.%s", ani2x_elements[s]);
    put(model, "%s%s: %.17g", s ? ", " : "", ani2x_elements[s], with_offsets ? test_json_number(test_json_get(y, key)) : 0.0);
  }
  put(model, "}\nweights: {file: ani-2x.safetensors, sha256: %064d}\nani:\n  n_members: 8\n  constants: %s\n", 0,
      rounded ? "float32-rounded" : "exact");
  put_constants(model, test_json_get(y, "aev"), rounded);
  put(model, "  activation: {kind: celu, alpha: 0.1}\n  dims: {");
  for (int s = 0; s < 7; s++) {
    char key[64];
    snprintf(key, sizeof key, "networks.dims.%s", ani2x_elements[s]);
    put(model, "%s", s ? ", " : "");
    put_numbers(model, ani2x_elements[s], test_json_get(y, key));
  }
  put(model, "}\nprovenance: {labels: none, data: none, data_sha256: none, code: none, license: MIT, citation: none}\n");
  put(model, "domain: {elements: [H, C, N, O, S, F, Cl], min_distance: 0.3, description: none}\naccuracy: {description: none}\n");
  put(model, "self_test: {origin: none, tolerance: {fp64: {energy: 1.0e-8, forces: 1.0e-7, virial: 1.0e-7}, "
             "fp32: {energy: 1.0e-4, forces: 1.0e-3, virial: 1.0e-3}}, structures: []}\n");
  test_json_free(y);

  ck_assert(test_shared("models/ani-2x.safetensors", path, sizeof path));
  FILE *file = fopen(path, "rb");
  ck_assert_ptr_nonnull(file);
  fseek(file, 0, SEEK_END);
  const size_t size = (size_t) ftell(file);
  rewind(file);
  char *weights = malloc(size);
  ck_assert_uint_eq(fread(weights, 1, size, file), size);
  fclose(file);
  rename_tensors(weights);
  test_model_set_weights(model, weights, size);
  free(weights);
  return 1;
}

/* Opens for the elements of the atoms only (pruned) or for all. */
static mlff_model *open_for(const test_model *model, const char *precision, const char *kernels, const test_atoms *atoms)
{
  const char *symbols[128];
  mlff_options options = {.precision = precision, .kernels = kernels, .skip_self_test = 1};
  for (int i = 0; atoms && i < atoms->n; i++) {
    int known = 0;
    for (int k = 0; k < options.n_elements; k++) known |= !strcmp(symbols[k], test_symbol(atoms->number[i]));
    if (!known) symbols[options.n_elements++] = test_symbol(atoms->number[i]);
  }
  options.elements = atoms ? symbols : NULL;
  mlff_model *open = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_model_open_memory("test.yaml", model->yaml, model->yaml_size, model->weights, model->weights_size, &options,
                                 &open, &error),
          error);
  return open;
}

static test_json *read_reference(void)
{
  char path[512];
  return test_shared("models/ani2x_reference.json", path, sizeof path) ? test_json_read(path) : NULL;
}

static void near_reference(const char *key, const test_json *structure, const double *got, int64_t n, double tolerance)
{
  int64_t n_ref;
  double *ref = test_json_numbers(test_json_get(structure, key), &n_ref);
  ck_assert_int_eq(n_ref, n);
  near_all(got, ref, n, tolerance, 0.0);
  free(ref);
}

/* Tolerances in hartree and hartree/A: models.md, section 7. */
static void check_structure(mlff_model *model, const test_json *structure, int is_double)
{
  const int is_large = test_json_length(test_json_get(structure, "symbols")) > 40;
  const double energy = is_double ? 1e-13 : 2.3e-7, force = is_double ? 1e-13 : is_large ? 3.3e-6 : 1.4e-6;
  test_atoms atoms = test_json_atoms(structure);
  test_atoms_species(&atoms, ani2x_elements, 7);
  test_answer a = test_evaluate(model, &atoms);
  near_one(a.result.energy, test_json_number(test_json_get(structure, "energy_nn_hartree")), energy);
  near_reference("atomic_nn_hartree", structure, a.result.atom_energy, atoms.n, energy);
  near_reference("member_energies_nn_hartree", structure, a.result.member_energy, 8, is_double ? energy : energy * sqrt(8.0));
  near_reference("forces_hartree_per_ang", structure, &a.result.forces[0][0], 3 * (int64_t) atoms.n, force);
  const test_json *virial = test_json_find(structure, "virial_hartree");
  if (!test_json_is_null(virial)) { /* that one is dE/dstrain: the opposite sign */
    int64_t n;
    double *w = test_json_numbers(virial, &n);
    const double ref[6] = {-w[0], -w[4], -w[8], -0.5 * (w[1] + w[3]), -0.5 * (w[2] + w[6]), -0.5 * (w[5] + w[7])};
    near_all(a.result.virial, ref, 6, is_double ? 1e-12 : 5e-6, 0.0);
    free(w);
  }
  test_answer_free(&a);
  test_atoms_free(&atoms);
}

/* A1, A2, A4, A7, A8, A9: any of them moves energies or forces by more than these tolerances. */
START_TEST(ani2x_matches_its_reference)
{
  test_model published;
  test_json *reference = read_reference();
  if (!reference || !ani2x_model(1, 0, &published)) return;
  const int is_double = _i % 2;
  const char *kernels = kernel_paths[_i / 2];
  if (mlff_cpu_has_kernels(kernels)) {
    const test_json *structures = test_json_get(reference, "structures");
    mlff_model *whole = open_for(&published, precisions[is_double], kernels, NULL);
    ck_assert_int_ge(test_json_length(structures), 5);
    for (int k = 0; k < test_json_length(structures); k++) {
      const test_json *structure = test_json_item(structures, k);
      test_atoms atoms = test_json_atoms(structure);
      mlff_model *pruned = open_for(&published, precisions[is_double], kernels, &atoms);
      check_structure(pruned, structure, is_double);
      if (atoms.n < 40) check_structure(whole, structure, is_double);
      mlff_model_close(pruned);
      test_atoms_free(&atoms);
    }
    mlff_model_close(whole);
  } else {
    test_skip("kernel path %s is not available here", kernels);
  }
  test_model_free(&published);
  test_json_free(reference);
}
END_TEST

/* A5: the constants of the file are used in double: the exact set gives the other reference. */
START_TEST(ani2x_with_exact_constants)
{
  test_model published;
  test_json *reference = read_reference();
  if (!reference || !ani2x_model(0, 0, &published)) return;
  mlff_model *model = test_model_open(&published, "fp64");
  const char *const names[] = {"water", "methane_docs", "benzene", "small_triclinic"};
  for (int k = 0; k < 4; k++) {
    char key[128];
    snprintf(key, sizeof key, "structures.%s", names[k]);
    const test_json *structure = test_json_get(reference, key);
    test_atoms atoms = test_json_atoms(structure);
    test_atoms_species(&atoms, ani2x_elements, 7);
    test_answer a = test_evaluate(model, &atoms);
    near_one(a.result.energy, test_json_number(test_json_get(structure, "energy_nn_nominal_constants_hartree")), 1e-13);
    near_reference("forces_nominal_hartree_per_ang", structure, &a.result.forces[0][0], 3 * (int64_t) atoms.n, 1e-13);
    test_answer_free(&a);
    test_atoms_free(&atoms);
  }
  mlff_model_close(model);
  test_model_free(&published);
  test_json_free(reference);
}
END_TEST

/* A6, A10: self energies of hundreds of hartree per atom cost neither precision digits. */
START_TEST(ani2x_totals_keep_their_digits)
{
  test_model published;
  test_json *reference = read_reference();
  if (!reference || !ani2x_model(1, 1, &published)) return;
  const char *const names[] = {"structures.water64", "structures.small_triclinic"};
  for (int p = 0; p < 2; p++) {
    mlff_model *model = test_model_open(&published, precisions[p]);
    for (int k = 0; k < 2; k++) {
      const test_json *structure = test_json_get(reference, names[k]);
      test_atoms atoms = test_json_atoms(structure);
      test_atoms_species(&atoms, ani2x_elements, 7);
      test_answer a = test_evaluate(model, &atoms);
      near_one(a.result.energy, test_json_number(test_json_get(structure, "energy_hartree")), p ? 5e-12 : 2.3e-7);
      double mean = 0.0;
      for (int m = 0; m < 8; m++) mean += a.result.member_energy[m] / 8.0;
      near_one(mean, a.result.energy, p ? 1e-11 : 1e-6);
      test_answer_free(&a);
      test_atoms_free(&atoms);
    }
    mlff_model_close(model);
  }
  test_model_free(&published);
  test_json_free(reference);
}
END_TEST

/* ---- random models against plain loops -------------------------------------------------------------------------- */

static mlff_modelfile *parse(const test_model *model)
{
  mlff_modelfile *file = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_modelfile_parse("test.yaml", model->yaml, model->yaml_size, model->weights, model->weights_size, &file, &error),
          error);
  return file;
}

static double number(const mlff_modelfile *file, const mlff_yaml *map, const char *key)
{
  double value = NAN;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_double(file, map, key, -1e9, 1e9, &value, &error), error);
  return value;
}

static const double *numbers_of(const mlff_modelfile *file, const mlff_yaml *map, const char *key, int *n)
{
  const double *values = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_doubles(file, map, key, -1, &values, n, &error), error);
  return values;
}

static const mlff_yaml *child(const mlff_modelfile *file, const mlff_yaml *map, const char *key)
{
  const mlff_yaml *node = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_yaml_map(file, map, key, &node, &error), error);
  return node;
}

static mlff_aev_constants constants_of(const mlff_modelfile *file)
{
  const mlff_yaml *ani = child(file, mlff_modelfile_root(file), "ani");
  const mlff_yaml *r = child(file, ani, "radial"), *a = child(file, ani, "angular");
  mlff_aev_constants c = {.radial_cutoff = number(file, r, "cutoff"), .radial_eta = number(file, r, "eta"),
                          .radial_prefactor = number(file, r, "prefactor"), .angular_cutoff = number(file, a, "cutoff"),
                          .angular_eta = number(file, a, "eta"), .angular_zeta = number(file, a, "zeta"),
                          .angular_prefactor = number(file, a, "prefactor"), .cos_scale = number(file, a, "cos_scale")};
  c.radial_shifts = numbers_of(file, r, "shifts", &c.n_radial);
  c.angular_shifts = numbers_of(file, a, "shifts", &c.n_angular);
  c.angular_sections = numbers_of(file, a, "sections", &c.n_sections);
  return c;
}

/* One member's energy of one atom: layers from the file, CELU between them. */
static double plain_network(const mlff_modelfile *file, int member, const char *element, const double *aev)
{
  const mlff_yaml *ani = child(file, mlff_modelfile_root(file), "ani");
  const double alpha = number(file, child(file, ani, "activation"), "alpha");
  double x[512], y[512];
  int n_dims;
  const double *dims = numbers_of(file, child(file, ani, "dims"), element, &n_dims);
  ck_assert_int_le((int) dims[0], 512);
  memcpy(x, aev, (size_t) dims[0] * sizeof *x);
  for (int l = 0; l + 1 < n_dims; l++) {
    const int n_in = (int) dims[l], n_out = (int) dims[l + 1];
    const int64_t shape[2] = {n_out, n_in};
    char name[96];
    double *weight = NULL, *bias = NULL;
    mlff_error error = {.code = MLFF_OK};
    snprintf(name, sizeof name, "member.%d.%s.%d.weight", member, element, l);
    test_ok(mlff_modelfile_tensor(file, name, 2, shape, &weight, &error), error);
    snprintf(name, sizeof name, "member.%d.%s.%d.bias", member, element, l);
    test_ok(mlff_modelfile_tensor(file, name, 1, shape, &bias, &error), error);
    for (int o = 0; o < n_out; o++) {
      y[o] = bias[o];
      for (int k = 0; k < n_in; k++) y[o] += weight[o * n_in + k] * x[k];
      if (l + 2 < n_dims && y[o] < 0) y[o] = alpha * expm1(y[o] / alpha);
    }
    memcpy(x, y, (size_t) n_out * sizeof *x);
    free(weight);
    free(bias);
  }
  return x[0];
}

/* Energies of every member and atom [n_members][n] without offsets, in the unit of the file. */
static void plain_energies(const test_model *model, const test_atoms *atoms, int n_members, double *energy)
{
  mlff_modelfile *file = parse(model);
  const mlff_modelfile_head *head = mlff_modelfile_get_head(file);
  const mlff_aev_constants c = constants_of(file);
  mlff_system *system = test_system(atoms, head->cutoff);
  const mlff_graph *g = mlff_system_graph(system);
  double aev[512];
  ck_assert_int_le(plain_n_columns(&c, head->n_elements), 512);
  for (int i = 0; i < atoms->n; i++) {
    plain_star s = {.n = (int) (g->row[i + 1] - g->row[i])};
    s.d = malloc((size_t) (s.n + 1) * sizeof *s.d);
    s.species = malloc((size_t) (s.n + 1) * sizeof *s.species);
    for (int k = 0; k < s.n; k++) {
      const int32_t j = g->nbr[g->row[i] + k];
      s.species[k] = g->species[j];
      for (int x = 0; x < 3; x++) s.d[k][x] = g->pos[j][x] - g->pos[i][x];
    }
    plain_aev(&c, head->n_elements, &s, aev, NULL, NULL);
    for (int m = 0; m < n_members; m++)
      energy[m * atoms->n + i] = plain_network(file, m, head->elements[atoms->species[i]], aev);
    free(s.d);
    free(s.species);
  }
  mlff_system_free(system);
  mlff_modelfile_free(file);
}

static const char *const four[] = {"Cl", "H", "O", "C"}; /* not in the order of the periodic table */
enum { N_SHAPES = 5 };

/* Random models: constants, widths, depths, members and elements of several shapes. */
static test_model shape_of(int which)
{
  test_model_options o = {.elements = four, .n_elements = 4, .seed = 40 + (uint64_t) which, .cutoff = 4.2};
  if (which == 1) o.n_members = 1;
  if (which == 2) {
    o.n_elements = 3;
    o.n_radial = 16;
    o.n_angular = 8;
    o.n_sections = 4;
    o.n_hidden = 3;
    o.n_members = 8;
  }
  if (which == 3) {
    o.n_radial = o.n_angular = o.n_sections = o.n_hidden = 1;
    o.n_members = 2;
  }
  if (which == 4) {
    o.n_radial = 7;
    o.n_angular = 5;
    o.n_sections = 3;
    o.angular_cutoff = 4.2; /* as long as the radial one */
    o.is_double = 1;
  }
  return test_model_ani(o);
}

static const int random_numbers[] = {17, 1, 8, 6};

/* Energies of atoms and members, their spread, the mean (A8), and columns of elements that do not occur (pruning). */
START_TEST(random_models_match_plain_loops)
{
  test_model model = shape_of(_i % N_SHAPES);
  const int is_double = _i / N_SHAPES;
  const double rounding = is_double ? 1e-13 : 3e-5;
  test_atoms atoms[] = {test_random(18, 4.5, 0.8, 0, random_numbers, 3, 51), test_random(9, 3.6, 0.9, 1, random_numbers, 2, 52),
                        test_random(1, 9.0, 0.8, 0, random_numbers, 1, 53)};
  for (int k = 0; k < 3; k++) {
    mlff_model *whole = test_model_open(&model, precisions[is_double]);
    mlff_model *pruned = open_for(&model, precisions[is_double], NULL, &atoms[k]);
    const mlff_info *info = mlff_model_info(whole);
    const int n = atoms[k].n, n_members = info->n_members;
    double *energy = malloc((size_t) (n * n_members) * sizeof *energy), *mean = calloc((size_t) n, sizeof *mean);
    double *spread = calloc((size_t) n, sizeof *spread);
    plain_energies(&model, &atoms[k], n_members, energy);
    for (int i = 0; i < n; i++) {
      for (int m = 0; m < n_members; m++) mean[i] += energy[m * n + i] / n_members;
      for (int m = 0; m < n_members; m++) spread[i] += pow(energy[m * n + i] - mean[i], 2) / fmax(n_members - 1, 1);
      spread[i] = sqrt(spread[i]);
    }
    mlff_modelfile *file = parse(&model);
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

/* ---- forces ------------------------------------------------------------------------------------------------------- */

/* Forces and virial are the derivatives of the energy, in double; own images included. */
START_TEST(forces_and_virial_are_derivatives)
{
  test_model model = shape_of(_i);
  mlff_model *open = test_model_open(&model, "fp64");
  test_atoms atoms = test_random(7, 3.7, 1.0, 1, random_numbers, 3, 61);
  const double step = 3e-6; /* short: CELU has kinks in its second derivative */
  test_answer a = test_evaluate(open, &atoms);
  double numeric[7][3], virial[6];
  for (int q = 0; q < 21; q++) {
    const double x = atoms.pos[q / 3][q % 3];
    double e[4];
    for (int k = 0; k < 4; k++) { /* fourth order */
      atoms.pos[q / 3][q % 3] = x + step * (double[]){-2, -1, 1, 2}[k];
      test_answer b = test_evaluate(open, &atoms);
      e[k] = b.result.energy;
      test_answer_free(&b);
    }
    atoms.pos[q / 3][q % 3] = x;
    numeric[q / 3][q % 3] = -(e[0] - 8.0 * e[1] + 8.0 * e[2] - e[3]) / (12.0 * step);
  }
  near_all(numeric, a.result.forces, 21, 2e-7, 1e-7);
  for (int w = 0; w < 6; w++) { /* W_ab = -dE/dstrain_ab, symmetric strain */
    static const int row[6] = {0, 1, 2, 0, 0, 1}, col[6] = {0, 1, 2, 1, 2, 2};
    double e[4];
    for (int k = 0; k < 4; k++) {
      double strain[3][3] = {{0}};
      strain[row[w]][col[w]] += 0.5 * step * (double[]){-2, -1, 1, 2}[k];
      strain[col[w]][row[w]] += 0.5 * step * (double[]){-2, -1, 1, 2}[k];
      test_atoms strained = test_atoms_copy(&atoms);
      test_atoms_strain(&strained, strain);
      test_answer b = test_evaluate(open, &strained);
      e[k] = b.result.energy;
      test_answer_free(&b);
      test_atoms_free(&strained);
    }
    virial[w] = -(e[0] - 8.0 * e[1] + 8.0 * e[2] - e[3]) / (12.0 * step);
  }
  near_all(virial, a.result.virial, 6, 2e-7, 1e-7);
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(open);
  test_model_free(&model);
}
END_TEST

/* ---- symmetries --------------------------------------------------------------------------------------------------- */

START_TEST(energies_do_not_depend_on_orientation_place_or_order)
{
  const int is_double = _i / N_SHAPES;
  const double tolerance = is_double ? 1e-11 : 2e-3;
  test_model model = shape_of(_i % N_SHAPES);
  mlff_model *open = test_model_open(&model, precisions[is_double]);
  test_atoms atoms = test_random(16, 5.0, 0.9, 1, random_numbers, 3, 71), moved = test_atoms_copy(&atoms);
  double r[3][3];
  int order[16];
  test_answer a = test_evaluate(open, &atoms);
  test_rotation(72, r);
  test_order(16, 73, order);
  test_atoms_rotate(&moved, r);
  test_atoms_shift(&moved, (double[3]){11.0, -3.0, 7.5});
  test_atoms_permute(&moved, order);
  test_answer b = test_evaluate(open, &moved);
  near_one(b.result.energy, a.result.energy, tolerance);
  double expected[16][3] = {{0}}, energy[16];
  for (int k = 0; k < 16; k++) {
    energy[k] = a.result.atom_energy[order[k]];
    for (int x = 0; x < 3; x++)
      for (int y = 0; y < 3; y++) expected[k][x] += r[x][y] * a.result.forces[order[k]][y];
  }
  near_all(b.result.forces, expected, 48, tolerance, 0.0);
  near_all(b.result.atom_energy, energy, 16, tolerance, 0.0);
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&atoms);
  test_atoms_free(&moved);
  mlff_model_close(open);
  test_model_free(&model);
}
END_TEST

/* Many far molecules of one element and more: energies add up, through all blocks of rows. */
START_TEST(far_molecules_add_up)
{
  enum { N = 9, COPIES = 37 };
  const int is_double = _i;
  test_model model = shape_of(2);
  mlff_model *open = test_model_open(&model, precisions[is_double]);
  test_atoms one = test_random(N, 3.6, 0.9, 0, random_numbers, 3, 81), many = test_atoms_new(N * COPIES);
  many.species = malloc(sizeof *many.species * N * COPIES);
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

/* A9: a cell smaller than the cutoff has the energy of its eightfold copy, whose atoms see fewer images of themselves. */
START_TEST(small_cells_equal_their_supercells)
{
  test_model model = shape_of(0);
  mlff_model *open = test_model_open(&model, "fp64");
  test_atoms cell = test_random(4, 2.9, 1.0, 1, random_numbers, 3, 91), super = test_atoms_new(32);
  super.species = malloc(32 * sizeof *super.species);
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

/* ---- fail closed -------------------------------------------------------------------------------------------------- */

static void check_refused(const char *old, const char *with, const char *text)
{
  test_model model = shape_of(3);
  mlff_model *open = NULL;
  mlff_error error = {.code = MLFF_OK};
  const mlff_options options = {.skip_self_test = 1};
  test_model_edit(&model, old, with);
  test_fails(mlff_model_open_memory("test.yaml", model.yaml, model.yaml_size, model.weights, model.weights_size, &options, &open,
                                    &error),
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

/* An element that was left out when opening is an error, not a wrong number: as a centre and as a mere neighbour. */
START_TEST(elements_left_out_are_an_error)
{
  test_model model = shape_of(0);
  test_atoms water = test_random(3, 4.0, 1.0, 0, (const int[]){1, 8}, 2, 95), other = test_atoms_copy(&water);
  test_atoms_species(&water, four, 4);
  test_atoms_species(&other, four, 4);
  other.species[1] = 0;
  mlff_model *open = open_for(&model, "fp64", NULL, &water);
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

/* No atoms, atoms of other styles only, and a settled run that allocates nothing. */
START_TEST(empty_ranks_and_settled_runs)
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
  const mlff_graph strangers = {.n_local = 3, .n_all = 3, .n_nodes = 3, .list_id = 2, .species = species, .node = node,
                                .row = row, .pos = pos};
  test_ok(mlff_model_evaluate(open, &strangers, NULL, &result, &error), error);
  ck_assert_double_eq(result.energy, 0.0);
  const double zeros[9] = {0};
  near_all(forces, zeros, 9, 0.0, 0.0);
  near_all(atom_energy, zeros, 3, 0.0, 0.0);

  test_atoms atoms = test_random(30, 6.0, 0.9, 1, random_numbers, 3, 96);
  test_answer a = test_evaluate(open, &atoms), b = test_evaluate(open, &atoms);
  const int64_t growths = mlff_model_memory(open).n_growths;
  ck_assert_int_gt(growths, 0);
  test_answer c = test_evaluate(open, &atoms);
  ck_assert_int_eq(mlff_model_memory(open).n_growths, growths);
  near_all(c.result.forces, a.result.forces, 90, 0.0, 0.0); /* to the last bit */
  near_one(b.result.energy, c.result.energy, 0.0);
  test_answer_free(&a);
  test_answer_free(&b);
  test_answer_free(&c);
  test_atoms_free(&atoms);
  mlff_model_close(open);
  test_model_free(&model);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("model/ani");
  TCase *c = tcase_create("ani");
  tcase_set_timeout(c, 240);
  tcase_add_loop_test(c, ani2x_matches_its_reference, 0, 6);
  tcase_add_test(c, ani2x_with_exact_constants);
  tcase_add_test(c, ani2x_totals_keep_their_digits);
  tcase_add_loop_test(c, random_models_match_plain_loops, 0, 2 * N_SHAPES);
  tcase_add_loop_test(c, forces_and_virial_are_derivatives, 0, N_SHAPES);
  tcase_add_loop_test(c, energies_do_not_depend_on_orientation_place_or_order, 0, 2 * N_SHAPES);
  tcase_add_loop_test(c, far_molecules_add_up, 0, 2);
  tcase_add_test(c, small_cells_equal_their_supercells);
  tcase_add_test(c, nothing_jumps_at_a_cutoff);
  tcase_add_loop_test(c, impossible_files_are_refused, 0, N_REFUSED);
  tcase_add_test(c, elements_left_out_are_an_error);
  tcase_add_loop_test(c, empty_ranks_and_settled_runs, 0, 2);
  suite_add_tcase(s, c);
  return s;
}

int main(void)
{
  return test_main(suite);
}
