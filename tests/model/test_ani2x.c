/* test_ani2x.c: the published ANI-2x, where the shared directory is there, against its reference numbers in float64
 * (those of PyTorch, with the exact derivative of CELU), in both precisions and on every kernel path. The known traps
 * of ANI are named where a test would fail in them: A1 element order, A2 prefactors and the 0.95, A4 column order, A5
 * and A6 constants and offsets in double, A7 slope of CELU, A8 mean over members, A9 own images, A10 totals in double.
 */
#include "reference.h"
#include "testmodel.h"

#include "backends.h"
#include "mixed.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer, where an evaluation takes a hundred times as long, only small structures are looked at, and
 * fewer of them with all columns of the AEV. */
#if defined(__SANITIZE_ADDRESS__)
enum { MAX_ATOMS = 12, MAX_WHOLE = 5 };
#else
enum { MAX_ATOMS = 1000, MAX_WHOLE = 40 };
#endif

static const char *const precisions[] = {"fp32", "fp64"};

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
  const char *const parts[] = {"radial", "angular"}, *const scalars[] = {"eta", "zeta"},
                    *const lists[] = {"shifts", "sections"};
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
    put(model, "%s%s: %.17g", s ? ", " : "", ani2x_elements[s],
        with_offsets ? test_json_number(test_json_get(y, key)) : 0.0);
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
  put(model,
      "}\nprovenance: {labels: none, data: none, data_sha256: none, code: none, license: MIT, citation: none}\n");
  put(model, "domain: {elements: [H, C, N, O, S, F, Cl], min_distance: 0.3, description: none}\naccuracy: "
             "{description: none}\n");
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
static mlff_model *open_for(const test_model *model, int which, const test_atoms *atoms)
{
  const char *symbols[128];
  mlff_options options = {.skip_self_test = 1};
  choose_backend(which, &options);
  for (int i = 0; atoms && i < atoms->n; i++) {
    int known = 0;
    for (int k = 0; k < options.n_elements; k++) known |= !strcmp(symbols[k], test_symbol(atoms->number[i]));
    if (!known) symbols[options.n_elements++] = test_symbol(atoms->number[i]);
  }
  options.elements = atoms ? symbols : NULL;
  mlff_model *open = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(mlff_model_open_memory("test.yaml", model->yaml, model->yaml_size, model->weights, model->weights_size,
                                 &options, &open, &error),
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
  near_reference("member_energies_nn_hartree", structure, a.result.member_energy, 8,
                 is_double ? energy : energy * sqrt(8.0));
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
  if (choose_backend(_i, &(mlff_options){.device = NULL})) {
    const test_json *structures = test_json_get(reference, "structures");
    mlff_model *whole = open_for(&published, _i, NULL);
    ck_assert_int_ge(test_json_length(structures), 5);
    for (int k = 0; k < test_json_length(structures); k++) {
      const test_json *structure = test_json_item(structures, k);
      test_atoms atoms = test_json_atoms(structure);
      if (atoms.n <= MAX_ATOMS) {
        mlff_model *pruned = open_for(&published, _i, &atoms);
        check_structure(pruned, structure, is_double);
        if (atoms.n <= MAX_WHOLE) check_structure(whole, structure, is_double);
        mlff_model_close(pruned);
      }
      test_atoms_free(&atoms);
    }
    mlff_model_close(whole);
  }
  test_model_free(&published);
  test_json_free(reference);
}
END_TEST

static void check_exact(mlff_model *model, const test_json *structure, test_atoms *atoms)
{
  test_atoms_species(atoms, ani2x_elements, 7);
  test_answer a = test_evaluate(model, atoms);
  near_one(a.result.energy, test_json_number(test_json_get(structure, "energy_nn_nominal_constants_hartree")), 1e-13);
  near_reference("forces_nominal_hartree_per_ang", structure, &a.result.forces[0][0], 3 * (int64_t) atoms->n, 1e-13);
  test_answer_free(&a);
}

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
    if (atoms.n <= MAX_WHOLE) check_exact(model, structure, &atoms);
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
  const char *const names[] = {"structures.small_triclinic", "structures.water64"};
  for (int p = 0; p < 2; p++) {
    mlff_model *model = test_model_open(&published, precisions[p]);
    for (int k = 0; k < (MAX_ATOMS < 192 ? 1 : 2); k++) {
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

/* Precision mixed of the CPU keeps its promise with the published networks, too. */
START_TEST(ani2x_in_bf16)
{
  enum { MOST = 16 };
  const char *path = mixed_path(_i);
  test_model published;
  test_json *reference = path ? read_reference() : NULL;
  if (!reference || !ani2x_model(1, 0, &published)) return;
  const test_json *structures = test_json_get(reference, "structures");
  test_atoms atoms[MOST];
  int n = 0;
  for (int k = 0; k < test_json_length(structures) && n < MOST; k++) {
    atoms[n] = test_json_atoms(test_json_item(structures, k));
    test_atoms_species(&atoms[n], ani2x_elements, 7);
    if (atoms[n].n > 1 && atoms[n].n <= MAX_WHOLE)
      n++;
    else
      test_atoms_free(&atoms[n]);
  }
  ck_assert_int_gt(n, 0);
  mlff_model *mixed = test_model_open_for(&published, "mixed", path, NULL),
             *single = test_model_open(&published, "fp32");
  mixed_is_near_single("ani-2x", mixed, single, atoms, n);
  mlff_model_close(mixed);
  mlff_model_close(single);
  while (n) test_atoms_free(&atoms[--n]);
  test_model_free(&published);
  test_json_free(reference);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("model/ani2x");
  TCase *c = tcase_create("ani2x");
  tcase_set_timeout(c, 300);
  tcase_add_loop_test(c, ani2x_matches_its_reference, 0, n_backends());
  if (N_CPU_BACKENDS) tcase_add_loop_test(c, ani2x_in_bf16, 0, N_MIXED_PATHS);
  tcase_add_test(c, ani2x_with_exact_constants);
  tcase_add_test(c, ani2x_totals_keep_their_digits);
  suite_add_tcase(s, c);
  return s;
}

int main(void)
{
  return test_main(suite);
}
