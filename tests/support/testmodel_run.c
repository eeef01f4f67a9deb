/* testmodel_run.c: what tests do with the models of testmodel.h: change, write, open and evaluate them. */
#include "testmodel.h"

#include "base/arena.h"
#include "model/safetensors.h"
#include "model/sha256.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *data)
{
  if (!data) ck_abort_msg("out of memory");
  return data;
}

void test_model_free(test_model *model)
{
  free(model->yaml);
  free(model->weights);
  *model = (test_model){.yaml = NULL};
}

void test_model_edit(test_model *model, const char *old, const char *with)
{
  const char *at = strstr(model->yaml, old);
  if (!at) ck_abort_msg("'%s' is not in the YAML:\n%s", old, model->yaml);
  const size_t before = (size_t) (at - model->yaml), n_old = strlen(old), n_with = strlen(with);
  char *text = must(malloc(model->yaml_size - n_old + n_with + 1));
  memcpy(text, model->yaml, before);
  memcpy(text + before, with, n_with);
  memcpy(text + before + n_with, at + n_old, model->yaml_size - before - n_old + 1);
  free(model->yaml);
  model->yaml = text;
  model->yaml_size = model->yaml_size - n_old + n_with;
}

void test_model_repel(test_model *model, const char *cutoffs)
{
  char block[300];
  snprintf(block, sizeof block, "\nrepulsion: {kind: zbl, cutoffs: {%s}}\nprovenance:", cutoffs);
  test_model_edit(model, "\nprovenance:", block);
}

void test_model_repel_mace(test_model *model)
{
  test_model_edit(model, "\nprovenance:",
                  "\nrepulsion: {kind: mace, p: 5.0, exponent: 0.3, prefactor: 0.4543, scale: 0.1, "
                  "radii: {H: 0.6, C: 0.7, O: 0.8}}\nprovenance:");
}

void test_model_repel_clamped(test_model *model)
{
  test_model_edit(model, "\nprovenance:",
                  "\nrepulsion: {kind: clamped, radii: {H: 0.75, C: 0.85, O: 0.95}, cutoffs: {H-O: 1.3}}\nprovenance:");
}

void test_model_set_weights(test_model *model, const void *weights, size_t size)
{
  char hex[65];
  void *copy = must(malloc(size + 1));
  memcpy(copy, weights, size);
  free(model->weights);
  model->weights = copy;
  model->weights_size = size;
  mlff_sha256_hex(copy, size, hex);
  char *at = strstr(model->yaml, "sha256: ");
  if (!at) ck_abort_msg("no sha256 in the YAML");
  memcpy(at + strlen("sha256: "), hex, 64);
}

/* Tables of indices and radii are not weights. */
static int is_table(const char *name)
{
  const char *end = strrchr(name, '.');
  return !strcmp(name, "covalent_radii") || (end && !strcmp(end, ".rows"));
}

void test_model_scale_weights(test_model *model, double scale)
{
  mlff_arena arena = {.blocks = NULL};
  mlff_tensor *tensors = NULL;
  mlff_error error = {.code = MLFF_OK};
  int n = 0;
  char *data = must(malloc(model->weights_size));
  memcpy(data, model->weights, model->weights_size);
  test_ok(mlff_safetensors_parse("weights", data, model->weights_size, &arena, &tensors, &n, &error), error);
  for (int k = 0; k < n; k++) {
    for (int64_t q = 0; q < tensors[k].n && !is_table(tensors[k].name); q++) {
      char *at = data + tensors[k].begin + (size_t) q * sizeof scale;
      double number;
      memcpy(&number, at, sizeof number);
      number *= scale;
      memcpy(at, &number, sizeof number);
    }
  }
  test_model_set_weights(model, data, model->weights_size);
  free(data);
  mlff_arena_free(&arena);
}

void test_model_set_two_tensors(test_model *model)
{
  test_weights weights = {.rng = {5}};
  test_weights_add(&weights, 1.0, NULL, 2, (int64_t[]){2, 3}, "a.weight");
  test_weights_add(&weights, 1.0, NULL, 1, (int64_t[]){4}, "b");
  void *data = NULL;
  size_t size = 0;
  test_weights_pack(&weights, 0, &data, &size);
  test_model_set_weights(model, data, size);
  free(data);
  test_weights_free(&weights);
}

static void write_file(const char *path, const void *data, size_t size)
{
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file)) ck_abort_msg("cannot write %s", path);
}

void test_model_write(const test_model *model, const char *dir, const char *name, char *path, size_t path_size)
{
  snprintf(path, path_size, "%s/%s.safetensors", dir, name);
  write_file(path, model->weights, model->weights_size);
  snprintf(path, path_size, "%s/%s.yaml", dir, name);
  write_file(path, model->yaml, model->yaml_size);
}

mlff_status test_model_parse(const test_model *model, mlff_modelfile **file, mlff_error *error)
{
  return mlff_modelfile_parse("dir/test.yaml", model->yaml, model->yaml_size, model->weights, model->weights_size, file,
                              error);
}

mlff_modelfile *test_model_must_parse(const test_model *model)
{
  mlff_modelfile *file = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(test_model_parse(model, &file, &error), error);
  return file;
}

/* ---- opened ------------------------------------------------------------------------------------------------------ */

mlff_status test_model_try(const test_model *model, const mlff_options *options, mlff_model **open, mlff_error *error)
{
  return mlff_model_open_memory("dir/test.yaml", model->yaml, model->yaml_size, model->weights, model->weights_size,
                                options, open, error);
}

mlff_model *test_model_open(const test_model *model, const char *precision)
{
  return test_model_open_for(model, precision, NULL, NULL);
}

mlff_model *test_model_open_for(const test_model *model, const char *precision, const char *kernels,
                                const test_atoms *atoms)
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
  test_ok(test_model_try(model, &options, &open, &error), error);
  return open;
}

static test_answer evaluate(mlff_model *model, const test_atoms *atoms, int wants_centroid)
{
  const mlff_info *info = mlff_model_info(model);
  const size_t n = (size_t) atoms->n + 1;
  mlff_error error = {.code = MLFF_OK};
  mlff_system *system = test_system(atoms, info->cutoff);
  test_answer answer = {.n_nodes = atoms->n};
  answer.result.forces = must(malloc(n * sizeof *answer.result.forces));
  if (info->traits & MLFF_NODE_ENERGIES) answer.result.atom_energy = must(malloc(n * sizeof(double)));
  if (info->traits & MLFF_CONSERVATIVE) answer.result.atom_virial = must(malloc(n * sizeof *answer.result.atom_virial));
  if (wants_centroid) answer.result.atom_centroid = must(malloc(n * sizeof *answer.result.atom_centroid));
  answer.result.member_energy = must(malloc((size_t) info->n_members * sizeof(double)));
  answer.result.atom_spread = must(malloc(n * sizeof(double)));
  test_ok(mlff_model_evaluate(model, mlff_system_graph(system), NULL, &answer.result, &error), error);
  mlff_system_free(system);
  return answer;
}

test_answer test_evaluate(mlff_model *model, const test_atoms *atoms)
{
  return evaluate(model, atoms, 0);
}

test_answer test_evaluate_centroid(mlff_model *model, const test_atoms *atoms)
{
  return evaluate(model, atoms, 1);
}

void test_answer_free(test_answer *answer)
{
  free(answer->result.forces);
  free(answer->result.atom_energy);
  free(answer->result.atom_virial);
  free(answer->result.atom_centroid);
  free(answer->result.member_energy);
  free(answer->result.atom_spread);
  *answer = (test_answer){.n_nodes = 0};
}

double test_energy(mlff_model *model, const test_atoms *atoms)
{
  test_answer a = test_evaluate(model, atoms);
  const double energy = a.result.energy;
  test_answer_free(&a);
  return energy;
}

void test_elements_in_use(const test_model *file)
{
  static const char *const hco[] = {"H", "C", "O"};
  test_atoms water = test_water();
  test_atoms_species(&water, hco, 3);
  mlff_model *all = test_model_open(file, "fp64"), *two = test_model_open_for(file, "fp64", NULL, &water);
  test_answer a = test_evaluate(all, &water), b = test_evaluate(two, &water);
  ck_assert_double_gt(fabs(a.result.forces[1][1]) + fabs(a.result.forces[1][2]), 1e-3);
  near_all(b.result.atom_energy, a.result.atom_energy, water.n, 1e-13, 1e-13);
  near_all(b.result.forces[0], a.result.forces[0], 3 * water.n, 1e-12, 1e-12);
  test_answer_free(&a);
  test_answer_free(&b);
  mlff_model_close(all);
  mlff_model_close(two);
  test_atoms_free(&water);
}

void test_radial_tables(const test_model *file, double coarse)
{
  static const char *const hco[] = {"H", "C", "O"};
  test_atoms water = test_water();
  test_atoms_species(&water, hco, 3);
  mlff_model *exact = test_model_open(file, "fp64");
  const double energy = test_energy(exact, &water);
  for (int k = 0; k < 2; k++) {
    const mlff_options options = {.radial_intervals = k ? "4096" : "8", .precision = "fp64", .skip_self_test = 1};
    mlff_model *model = NULL;
    mlff_error error = {.code = MLFF_OK};
    test_ok(test_model_try(file, &options, &model, &error), error);
    const double off = fabs(test_energy(model, &water) - energy);
    ck_assert_msg(k ? off < 1e-9 : off > coarse, "%s intervals: %g", options.radial_intervals, off);
    mlff_model_close(model);
  }
  mlff_model_close(exact);
  test_atoms_free(&water);
}

void test_damage(test_model *file, const char *old, const char *changed, const char *text)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  test_model_edit(file, old, changed);
  const mlff_status status = test_model_try(file, NULL, &model, &error);
  ck_assert_msg(status == MLFF_E_FORMAT || status == MLFF_E_UNSUPPORTED, "%s: %s", changed, error.text);
  ck_assert_msg(strstr(error.text, text) != NULL, "%s: expected '%s', got: %s", changed, text, error.text);
  ck_assert_ptr_null(model);
}
