/* test_model.c: opening models, their self-tests, and what is refused, for every architecture alike. */
#include "backends.h"
#include "testmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

/* ---- opening ---------------------------------------------------------------------------------------------------- */

START_TEST(info_says_what_the_file_says)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp64");
  const mlff_info *info = mlff_model_info(model);
  ck_assert_str_eq(info->name, "test");
  ck_assert_str_eq(info->architecture, _i < 3 ? "painn" : "ani");
  ck_assert_str_eq(info->device, auto_device());
  ck_assert_str_eq(info->precision, "fp64");
  ck_assert_uint_eq(strlen(info->sha256), 64);
  ck_assert(strlen(info->citation) > 10);
  ck_assert_int_eq(info->n_elements, 3);
  ck_assert_str_eq(info->elements[1], "C");
  ck_assert_int_eq(info->trained[2], 1);
  ck_assert_int_eq(info->n_members, _i < 3 ? 1 : 3);
  near_one(info->cutoff, 4.0, 0);
  ck_assert_int_gt(info->n_parameters, 1000);
  ck_assert(info->traits & MLFF_CONSERVATIVE && info->traits & MLFF_NODE_ENERGIES);
  ck_assert_int_eq(!!(info->traits & MLFF_STRICTLY_LOCAL), _i == 3);
  ck_assert_int_eq(info->exchange_width > 0, _i < 3);
  ck_assert_int_eq(info->exchange_width % 8, 0);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(files_and_memory_give_the_same_model)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_error error = {.code = MLFF_OK};
  mlff_model *from_file = NULL, *from_memory = test_model_open(&file, "fp32");
  char dir[256], path[512];
  test_tmp_make(dir, sizeof dir);
  test_model_write(&file, dir, "test", path, sizeof path);
  test_ok(mlff_model_open(path, NULL, &from_file, &error), error);
  test_atoms atoms = test_triclinic();
  near_one(test_energy(from_file, &atoms), test_energy(from_memory, &atoms), 0);
  ck_assert_str_eq(mlff_model_info(from_file)->precision, "fp32");
  FILE *out = tmpfile();
  mlff_model_print(from_file, out);
  ck_assert_int_gt(ftell(out), 400);
  fclose(out);
  mlff_model_close(from_file);
  mlff_model_close(from_memory);
  test_atoms_free(&atoms);
  test_tmp_remove(dir);
  test_model_free(&file);
}
END_TEST

START_TEST(missing_files)
{
  test_model file = test_model_nth(0, test_three_elements());
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  char dir[256], path[512], weights[512];
  test_tmp_make(dir, sizeof dir);
  test_fails(mlff_model_open("/nonexistent/x.yaml", NULL, &model, &error), error, MLFF_E_IO, "/nonexistent/x.yaml");
  test_fails(mlff_model_open(dir, NULL, &model, &error), error, MLFF_E_IO, "not a file");
  test_model_write(&file, dir, "test", path, sizeof path);
  snprintf(weights, sizeof weights, "%s/test.safetensors", dir);
  remove(weights);
  test_fails(mlff_model_open(path, NULL, &model, &error), error, MLFF_E_IO, "test.safetensors");
  test_fails(mlff_model_open(NULL, NULL, &model, &error), error, MLFF_E_ARG, "NULL");
  test_fails(mlff_model_open("test.safetensors", NULL, &model, &error), error, MLFF_E_ARG, "give the model file");
  ck_assert_ptr_null(model);
  mlff_model_close(NULL);
  test_tmp_remove(dir);
  test_model_free(&file);
}
END_TEST

START_TEST(impossible_options)
{
  test_model file = test_model_nth(3, test_three_elements());
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  const char *const nitrogen[] = {"H", "N"};
  test_fails(test_model_try(&file, &(mlff_options){.device = "tpu"}, &model, &error), error, MLFF_E_ARG, "tpu");
  test_fails(test_model_try(&file, &(mlff_options){.precision = "fp8"}, &model, &error), error, MLFF_E_ARG, "fp8");
  test_fails(test_model_try(&file, &(mlff_options){.kernels = "sse9"}, &model, &error), error, MLFF_E_ARG, "sse9");
  test_fails(test_model_try(&file, &(mlff_options){.elements = nitrogen, .n_elements = 2}, &model, &error), error,
             MLFF_E_ARG, "'N'");
  ck_assert_ptr_null(model);
  test_model_free(&file);
}
END_TEST

/* Every row of the table: its default is taken, its field is the one of its name, and another word is refused with the
 * values that are known, by the setter and when a model is opened. */
START_TEST(options_of_the_table)
{
  test_model file = test_model_nth(3, test_three_elements());
  mlff_error error = {.code = MLFF_OK};
  int n = 0;
  for (const mlff_option *row; (row = mlff_option_at(n)); n++) {
    mlff_options options = {0};
    mlff_model *model = NULL;
    test_ok(mlff_options_set(&options, row->name, row->standard, &error), error);
    const char *const fields[] = {options.device, options.precision,        options.kernels, options.replay,
                                  options.fuse,   options.radial_intervals, options.members, options.e0};
    ck_assert_ptr_eq(fields[n], row->standard);
    test_ok(test_model_try(&file, &options, &model, &error), error);
    mlff_model_close(model);
    if (strstr(row->values, "LIST")) continue;
    test_fails(mlff_options_set(&options, row->name, "nonsense", &error), error, MLFF_E_ARG, row->values);
    ck_assert_ptr_eq(fields[n], row->standard);
  }
  ck_assert_int_eq(n, 8);
  mlff_options options = {0};
  mlff_model *model = NULL;
  test_fails(mlff_options_set(&options, "speed", "high", &error), error, MLFF_E_ARG, "speed");
  test_fails(mlff_options_set(&options, "device", "cuda:", &error), error, MLFF_E_ARG, "cuda:N");
  test_fails(mlff_options_set(&options, "device", "cuda:1x", &error), error, MLFF_E_ARG, "cuda:N");
  test_fails(mlff_options_set(&options, "precision", "fp3", &error), error, MLFF_E_ARG, "fp32");
  test_ok(mlff_options_set(&options, "device", "cuda:12", &error), error);
  test_fails(test_model_try(&file, &(mlff_options){.replay = "perhaps"}, &model, &error), error, MLFF_E_ARG, "yes no");
  test_ok(test_model_try(&file, &(mlff_options){.replay = "false", .fuse = "on"}, &model, &error), error);
  mlff_model_close(model);
  ck_assert_ptr_eq(mlff_option_find("graph"), mlff_option_find("replay"));
  ck_assert_str_eq(mlff_option_find("graph")->name, "replay");
  ck_assert_ptr_null(mlff_option_find("speed"));
  test_ok(mlff_options_set(&options, "graph", "off", &error), error);
  ck_assert_str_eq(options.replay, "off");
  ck_assert(mlff_yes_or_no("true") == 1 && mlff_yes_or_no("off") == 0 && mlff_yes_or_no("auto") == -1);
  test_model_free(&file);
}
END_TEST

/* ---- self-tests ------------------------------------------------------------------------------------------------- */

/* A methanol-like C-O-H in a box, with the model's own double-precision numbers plus `shift` in the first force. */
static char *write_self_test(mlff_model *model, double shift)
{
  test_atoms atoms = test_triclinic();
  test_answer a = test_evaluate(model, &atoms);
  char *text = malloc(16384);
  int n = sprintf(text, "[{name: box, elements: [O, H, H, O, H, H, C, H], positions: [");
  for (int i = 0; i < 8; i++)
    n += sprintf(text + n, "%s[%.17g, %.17g, %.17g]", i ? ", " : "", atoms.pos[i][0], atoms.pos[i][1], atoms.pos[i][2]);
  n += sprintf(text + n, "], cell: [");
  for (int k = 0; k < 3; k++)
    n += sprintf(text + n, "%s[%g, %g, %g]", k ? ", " : "", atoms.cell[k][0], atoms.cell[k][1], atoms.cell[k][2]);
  n += sprintf(text + n, "], energy: %.17g, forces: [", a.result.energy);
  for (int i = 0; i < 8; i++)
    n += sprintf(text + n, "%s[%.17g, %.17g, %.17g]", i ? ", " : "", a.result.forces[i][0] + (i ? 0 : shift),
                 a.result.forces[i][1], a.result.forces[i][2]);
  n += sprintf(text + n, "], virial: [");
  for (int k = 0; k < 6; k++) n += sprintf(text + n, "%s%.17g", k ? ", " : "", a.result.virial[k]);
  sprintf(text + n, "]}]");
  test_answer_free(&a);
  test_atoms_free(&atoms);
  return text;
}

static test_model with_self_test(int which, double shift)
{
  test_model_options o = test_three_elements();
  test_model plain = test_model_nth(which, o);
  mlff_model *model = test_model_open(&plain, "fp64");
  char *text = write_self_test(model, shift);
  o.self_test = text;
  test_model file = test_model_nth(which, o);
  free(text);
  mlff_model_close(model);
  test_model_free(&plain);
  return file;
}

START_TEST(self_test_passes)
{
  static const char *const precisions[] = {"fp64", "fp32"};
  test_model file = with_self_test(_i, 0.0);
  for (int p = 0; p < 2; p++) {
    mlff_error error = {.code = MLFF_OK};
    mlff_model *model = NULL;
    mlff_self_test t;
    test_ok(test_model_try(&file, &(mlff_options){.precision = precisions[p]}, &model, &error), error);
    ck_assert_int_eq(mlff_model_n_self_tests(model), 1);
    test_ok(mlff_model_self_test(model, 0, &t, &error), error);
    ck_assert_int_eq(t.passed, 1);
    ck_assert_int_eq(t.n_atoms, 8);
    ck_assert_str_eq(t.name, "box");
    ck_assert(t.force_error <= t.force_tolerance && t.force_tolerance == (p ? 1e-3 : 1e-7));
    test_fails(mlff_model_self_test(model, 1, &t, &error), error, MLFF_E_ARG, "self-test 1");
    mlff_model_close(model);
  }
  test_model_free(&file);
}
END_TEST

START_TEST(self_test_fails)
{
  test_model file = with_self_test(_i, 2e-7);
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  mlff_self_test t;
  test_fails(test_model_try(&file, &(mlff_options){.precision = "fp64"}, &model, &error), error, MLFF_E_NUMERIC,
             "self-test 'box' failed on ");
  ck_assert_ptr_null(model);
  model = test_model_open(&file, "fp64"); /* without */
  test_ok(mlff_model_self_test(model, 0, &t, &error), error);
  ck_assert_int_eq(t.passed, 0);
  near_one(t.force_error, 2e-7, 1e-9);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* The file's structures may have elements that the run leaves out. */
START_TEST(self_test_with_elements_left_out)
{
  static const char *const water[] = {"H", "O"};
  test_model good = with_self_test(_i, 0.0), bad = with_self_test(_i, 1e-5);
  const mlff_options options = {.precision = "fp64", .elements = water, .n_elements = 2};
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  mlff_self_test t;
  test_fails(test_model_try(&bad, &options, &model, &error), error, MLFF_E_NUMERIC, "failed");
  test_ok(test_model_try(&good, &options, &model, &error), error);
  test_fails(mlff_model_self_test(model, 0, &t, &error), error, MLFF_E_UNSUPPORTED, "without");
  test_atoms atoms = test_water_box(2, 1);
  test_atoms_species(&atoms, hco, 3);
  mlff_model *all = test_model_open(&good, "fp64");
  near_one(test_energy(model, &atoms), test_energy(all, &atoms), 1e-9);
  mlff_model_close(all);
  mlff_model_close(model);
  test_atoms_free(&atoms);
  test_model_free(&good);
  test_model_free(&bad);
}
END_TEST

/* ---- failing ---------------------------------------------------------------------------------------------------- */

static mlff_status count_exchange(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  (void) rows;
  (void) error;
  ck_assert(row_bytes > 0);
  ++*(int *) context;
  return MLFF_OK;
}

/* The error names a bad position or an overlap, and the exchanges of the step still take place. */
START_TEST(numeric_errors_keep_the_exchanges)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp32");
  test_atoms atoms = test_triclinic();
  int counts[3] = {0, 0, 0};
  for (int k = 0; k < 3; k++) {
    const mlff_halo halo = {.context = &counts[k], .forward = count_exchange};
    mlff_error error = {.code = MLFF_OK};
    double forces[8][3];
    mlff_result result = {.forces = forces};
    test_atoms moved = test_atoms_copy(&atoms);
    if (k == 2)
      for (int c = 0; c < 3; c++) moved.pos[4][c] = moved.pos[2][c] + (c == 0 ? 0.1 : 0.0);
    mlff_system *system = test_system(&moved, 4.0);
    const mlff_graph *graph = mlff_system_graph(system);
    if (k == 1) memcpy((void *) (uintptr_t) &graph->pos[4][1], &(double){NAN}, sizeof(double));
    if (k == 0) test_ok(mlff_model_evaluate(model, graph, &halo, &result, &error), error);
    if (k == 1)
      test_fails(mlff_model_evaluate(model, graph, &halo, &result, &error), error, MLFF_E_NUMERIC,
                 "position of atom 5");
    if (k == 2) {
      test_fails(mlff_model_evaluate(model, graph, &halo, &result, &error), error, MLFF_E_NUMERIC, "0.1000 A apart");
      ck_assert_ptr_nonnull(strstr(error.text, "atom 3 counted from 1 (H) and "));
      ck_assert_ptr_nonnull(strstr(error.text, "atom 5 counted from 1 (H) are 0.1000 A apart"));
    }
    mlff_system_free(system);
    test_atoms_free(&moved);
  }
  ck_assert_int_eq(counts[1], counts[0]);
  ck_assert_int_eq(counts[2], counts[0]);
  ck_assert_int_eq(counts[0] > 0, _i < 3);
  near_one(test_energy(model, &atoms), test_energy(model, &atoms), 0); /* and the model still works */
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

static mlff_status refuse_exchange(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  (void) context;
  (void) rows;
  (void) row_bytes;
  if (error) snprintf(error->text, sizeof error->text, "the other rank is gone");
  return MLFF_E_IO;
}

START_TEST(bad_arguments)
{
  test_model file = test_model_nth(_i, test_three_elements());
  mlff_model *model = test_model_open(&file, "fp32");
  test_atoms atoms = test_triclinic();
  mlff_error error = {.code = MLFF_OK};
  double forces[9][3];
  mlff_result result = {.forces = forces};
  mlff_system *system = test_system(&atoms, 4.0);
  const mlff_graph *good = mlff_system_graph(system);
  test_fails(mlff_model_evaluate(model, NULL, NULL, &result, &error), error, MLFF_E_ARG, "NULL");
  test_fails(mlff_model_evaluate(model, good, NULL, NULL, &error), error, MLFF_E_ARG, "NULL");
  test_fails(mlff_model_evaluate(model, good, NULL, &(mlff_result){.forces = NULL}, &error), error, MLFF_E_ARG,
             "forces");
  mlff_graph bad = *good;
  bad.n_nodes = good->n_local + 1;
  test_fails(mlff_model_evaluate(model, &bad, NULL, &result, &error), error, MLFF_E_ARG, "no halo");
  bad = *good;
  bad.n_interior = good->n_local + 1;
  test_fails(mlff_model_evaluate(model, &bad, NULL, &result, &error), error, MLFF_E_ARG, "n_interior");
  test_fails(mlff_model_evaluate(model, good, &(mlff_halo){.begin = refuse_exchange}, &result, &error), error,
             MLFF_E_ARG, "halo.finish");
  bad = *good;
  bad.list_id = 0;
  int32_t *species = malloc((size_t) good->n_all * sizeof *species);
  memcpy(species, good->species, (size_t) good->n_all * sizeof *species);
  species[3] = 3;
  bad.species = species;
  test_fails(mlff_model_evaluate(model, &bad, NULL, &result, &error), error, MLFF_E_ARG, "species of atom 4");
  if (mlff_model_info(model)->exchange_width) {
    const mlff_halo halo = {.forward = refuse_exchange};
    test_fails(mlff_model_evaluate(model, good, &halo, &result, &error), error, MLFF_E_IO, "gone");
  }
  test_ok(mlff_model_evaluate(model, good, NULL, &result, &error), error);
  free(species);
  mlff_system_free(system);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

static void add_for_all(TCase *t, const TTest *test)
{
  tcase_add_loop_test(t, test, 0, TEST_N_MODELS);
}

static Suite *suite(void)
{
  Suite *s = suite_create("model");
  TCase *opening = tcase_create("open");
  add_for_all(opening, info_says_what_the_file_says);
  add_for_all(opening, files_and_memory_give_the_same_model);
  tcase_add_test(opening, missing_files);
  tcase_add_test(opening, impossible_options);
  tcase_add_test(opening, options_of_the_table);
  suite_add_tcase(s, opening);
  TCase *checks = tcase_create("self-test");
  add_for_all(checks, self_test_passes);
  add_for_all(checks, self_test_fails);
  add_for_all(checks, self_test_with_elements_left_out);
  suite_add_tcase(s, checks);
  TCase *refused = tcase_create("refused");
  add_for_all(refused, numeric_errors_keep_the_exchanges);
  add_for_all(refused, bad_arguments);
  suite_add_tcase(s, refused);
  return s;
}

int main(void)
{
  return test_main(suite);
}
