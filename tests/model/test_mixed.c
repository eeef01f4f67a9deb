/* test_mixed.c: `precision mixed` of the CPU with whole models, against fp32: the shipped ones, and small random ones
 * of every architecture. ANI-2x and the small Orb of the shared directory are in test_ani2x.c and test_orb.c. */
#include "mixed.h"

#include <stdio.h>

static const char *const shipped[] = {"water-benzene-student", "water-benzene-teacher"};
static const char *const hco[] = {"H", "C", "O"};
enum { N_FRAMES = 3 };

static void water_boxes(test_atoms atoms[N_FRAMES], const char *const *elements, int n_elements)
{
  for (int k = 0; k < N_FRAMES; k++) {
    atoms[k] = test_water_box(2, 11 + (uint64_t) k);
    test_atoms_species(&atoms[k], elements, n_elements);
  }
}

/* Opening runs the self-tests of the file. */
static mlff_model *open_shipped(const char *name, const char *precision, const char *kernels)
{
  char path[600];
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const char *const elements[] = {"H", "O"};
  const mlff_options options = {.device = "cpu",
                                .precision = precision,
                                .kernels = kernels,
                                .elements = elements,
                                .n_elements = 2};
  snprintf(path, sizeof path, "%s/models/%s.yaml", test_source_dir(), name);
  test_ok(mlff_model_open(path, &options, &model, &error), error);
  return model;
}

START_TEST(shipped_models)
{
  const char *name = shipped[_i % 2], *path = mixed_path(_i / 2);
  if (!path) return;
  mlff_model *mixed = open_shipped(name, "mixed", path), *single = open_shipped(name, "fp32", NULL);
  test_atoms atoms[N_FRAMES];
  water_boxes(atoms, mlff_model_info(mixed)->elements, mlff_model_info(mixed)->n_elements);
  mixed_is_near_single(name, mixed, single, atoms, N_FRAMES);
  for (int k = 0; k < N_FRAMES; k++) test_atoms_free(&atoms[k]);
  mlff_model_close(mixed);
  mlff_model_close(single);
}
END_TEST

/* painn with its three bases, ani, and orb */
static test_model random_model(int which)
{
  const test_model_options o = {.elements = hco, .n_elements = 3};
  return which < TEST_N_MODELS ? test_model_nth(which, o) : test_model_orb(o);
}

START_TEST(random_models)
{
  const char *path = mixed_path(_i % N_MIXED_PATHS);
  if (!path) return;
  test_model file = random_model(_i / N_MIXED_PATHS);
  test_atoms atoms[N_FRAMES];
  water_boxes(atoms, hco, 3);
  mlff_model *mixed = test_model_open_for(&file, "mixed", path, NULL), *single = test_model_open(&file, "fp32");
  mixed_is_near_single(mlff_model_info(mixed)->architecture, mixed, single, atoms, N_FRAMES);
  mlff_model_close(mixed);
  mlff_model_close(single);
  for (int k = 0; k < N_FRAMES; k++) test_atoms_free(&atoms[k]);
  test_model_free(&file);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("model/mixed");
  TCase *c = tcase_create("mixed");
  tcase_set_timeout(c, 300);
  tcase_add_loop_test(c, shipped_models, 0, 2 * N_MIXED_PATHS);
  tcase_add_loop_test(c, random_models, 0, (TEST_N_MODELS + 1) * N_MIXED_PATHS);
  suite_add_tcase(s, c);
  return s;
}

int main(void)
{
  return test_main(suite);
}
