/* test_spans.c: the timed parts of an evaluation: timing does not change results, and all parts are counted. */
#include "backends.h"
#include "testmodel.h"

#include "model/model_impl.h"

#include <stdlib.h>
#include <string.h>

static const char *const hco[] = {"H", "C", "O"};

static mlff_model *open_nth(int which, test_model *file)
{
  *file = test_model_nth(which, (test_model_options){.elements = hco, .n_elements = 3, .is_double = 1});
  return test_model_open(file, "fp64");
}

static int is_ani(const mlff_model *model)
{
  return strcmp(mlff_model_info(model)->architecture, "ani") == 0;
}

/* Bit for bit the same results (but for rounding on a real GPU, which takes other kernels meanwhile), and with spans
 * off the very same table of operations. */
START_TEST(results_are_the_same)
{
  test_model file;
  mlff_error error;
  mlff_model *model = open_nth(_i, &file);
  test_atoms atoms = test_triclinic();
  const mlff_ops *plain = model->backend->ops;
  test_answer before = test_evaluate(model, &atoms);
  test_ok(mlff_spans_start(model, 0, &error), error);
  ck_assert_ptr_ne(model->backend->ops, plain);
  test_answer during = test_evaluate(model, &atoms);
  mlff_spans_stop(model);
  ck_assert_ptr_eq(model->backend->ops, plain);
  ck_assert_ptr_null(model->backend->spans);
  const double apart = strcmp(mlff_model_info(model)->device, "cpu") ? between_kernels(1) : 0.0;
  near_all(&during.result.energy, &before.result.energy, 1, 0.0, apart);
  near_all(during.result.forces, before.result.forces, 3 * atoms.n, 0.0, apart);
  near_all(during.result.virial, before.result.virial, 6, 0.0, apart);
  test_answer_free(&before);
  test_answer_free(&during);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(parts_are_counted)
{
  enum { N = 3 };
  test_model file;
  mlff_error error;
  mlff_model *model = open_nth(_i, &file);
  test_atoms atoms = test_triclinic();
  const mlff_span *sums = mlff_spans_read(model);
  for (int k = 0; k < MLFF_N_SPANS; k++) ck_assert_int_eq(sums[k].calls, 0);

  test_ok(mlff_spans_start(model, 0, &error), error);
  for (int k = 0; k < N; k++) {
    test_answer a = test_evaluate(model, &atoms);
    test_answer_free(&a);
  }
  sums = mlff_spans_read(model);
  double parts = 0;
  for (int k = 0; k < MLFF_N_SPANS; k++) {
    ck_assert_msg(sums[k].name && sums[k].seconds >= 0 && (sums[k].calls > 0 || sums[k].seconds == 0), "span %d", k);
    for (int j = 0; j < k; j++) ck_assert_str_ne(sums[k].name, sums[j].name);
    if (k != MLFF_SPAN_EVALUATE) parts += sums[k].seconds;
  }
  ck_assert_int_eq(sums[MLFF_SPAN_EVALUATE].calls, N);
  ck_assert_int_eq(sums[MLFF_SPAN_EDGES].calls, N);
  ck_assert_int_eq(sums[MLFF_SPAN_FORCES].calls, N);
  ck_assert(parts > 0 && parts <= sums[MLFF_SPAN_EVALUATE].seconds);
  static const mlff_span_id all[] = {MLFF_SPAN_DESCRIPTOR, MLFF_SPAN_DENSE, MLFF_SPAN_DENSE_BACKWARD, MLFF_SPAN_COPY};
  for (int k = 0; k < 4; k++) ck_assert_msg(sums[all[k]].calls > 0, "%s", sums[all[k]].name);
  ck_assert_int_eq(sums[MLFF_SPAN_DESCRIPTOR_BACKWARD].calls > 0, is_ani(model));
  ck_assert_int_eq(sums[MLFF_SPAN_MESSAGE].calls > 0, !is_ani(model));
  ck_assert_int_eq(sums[MLFF_SPAN_MESSAGE_BACKWARD].calls > 0, !is_ani(model));
  ck_assert_int_eq(sums[MLFF_SPAN_STRESS].calls, 0); /* comes with the forces */

  mlff_spans_stop(model);
  test_answer a = test_evaluate(model, &atoms);
  ck_assert_int_eq(mlff_spans_read(model)[MLFF_SPAN_EVALUATE].calls, N);
  test_ok(mlff_spans_start(model, 0, &error), error); /* from zero again */
  ck_assert_int_eq(mlff_spans_read(model)[MLFF_SPAN_EVALUATE].calls, 0);
  test_answer_free(&a);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Stamps lie in the evaluation, do not overlap, and are as many as there were calls. */
START_TEST(stamps_nest)
{
  test_model file;
  mlff_error error;
  mlff_model *model = open_nth(_i, &file);
  test_atoms atoms = test_triclinic();
  test_ok(mlff_spans_start(model, 100000, &error), error);
  test_answer a = test_evaluate(model, &atoms);
  size_t n = 0, n_dropped = 1;
  const mlff_stamp *stamps = mlff_spans_take(model, &n, &n_dropped);
  const mlff_span *sums = mlff_spans_read(model);
  int64_t calls = 0;
  for (int k = 0; k < MLFF_N_SPANS; k++) calls += sums[k].calls;
  ck_assert_uint_eq(n, (size_t) calls);
  ck_assert_uint_eq(n_dropped, 0);
  const mlff_stamp whole = stamps[n - 1];
  ck_assert_int_eq(whole.span, MLFF_SPAN_EVALUATE);
  double sums_of[MLFF_N_SPANS] = {0};
  for (size_t k = 0; k < n; k++) {
    ck_assert(stamps[k].begin <= stamps[k].end);
    ck_assert(stamps[k].begin >= whole.begin && stamps[k].end <= whole.end);
    if (k > 0 && k + 1 < n) ck_assert(stamps[k].begin >= stamps[k - 1].end);
    sums_of[stamps[k].span] += stamps[k].end - stamps[k].begin;
  }
  for (int k = 0; k < MLFF_N_SPANS; k++) near_one(sums_of[k], sums[k].seconds, 1e-12);
  mlff_spans_take(model, &n, NULL);
  ck_assert_uint_eq(n, 0);

  test_ok(mlff_spans_start(model, 5, &error), error);
  test_answer b = test_evaluate(model, &atoms);
  mlff_spans_take(model, &n, &n_dropped);
  calls = 0;
  for (int k = 0; k < MLFF_N_SPANS; k++) calls += mlff_spans_read(model)[k].calls;
  ck_assert_uint_eq(n, 5);
  ck_assert_uint_eq(n_dropped, (size_t) calls - 5);
  test_answer_free(&a);
  test_answer_free(&b);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

static mlff_status do_nothing(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  (void) rows;
  (void) row_bytes;
  (void) error;
  ++*(int *) context;
  return MLFF_OK;
}

START_TEST(exchanges_are_counted)
{
  test_model file;
  mlff_error error;
  mlff_model *model = open_nth(_i, &file);
  test_atoms atoms = test_triclinic();
  test_atoms_species(&atoms, hco, 3);
  mlff_system *system = test_system(&atoms, mlff_model_info(model)->cutoff);
  const mlff_graph *graph = mlff_system_graph(system);
  int n_exchanges = 0;
  const mlff_halo halo = {.context = &n_exchanges, .forward = do_nothing};
  mlff_result result = {.forces = calloc((size_t) graph->n_nodes, sizeof *result.forces)};
  test_ok(mlff_spans_start(model, 0, &error), error);
  test_ok(mlff_model_evaluate(model, graph, &halo, &result, &error), error);
  ck_assert_int_eq(mlff_spans_read(model)[MLFF_SPAN_EXCHANGE].calls, n_exchanges);
  ck_assert_int_eq(n_exchanges > 0, mlff_model_info(model)->exchange_width > 0);
  free(result.forces);
  mlff_system_free(system);
  test_atoms_free(&atoms);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

/* Orb's stress has a head of its own, which runs where there is a volume; other models have none. */
START_TEST(stress_of_its_own)
{
  mlff_error error;
  test_model file = test_model_small_orb((test_model_options){.elements = hco, .n_elements = 3, .is_double = 1});
  mlff_model *model = test_model_open(&file, "fp64");
  test_atoms atoms = test_triclinic(), molecule = test_water();
  test_ok(mlff_spans_start(model, 0, &error), error);
  test_answer closed = test_evaluate(model, &atoms);
  const mlff_span *stress = &mlff_spans_read(model)[MLFF_SPAN_STRESS];
  ck_assert_str_eq(stress->part, "stress");
  ck_assert_int_eq(stress->calls, 1);
  ck_assert(stress->seconds > 0 && stress->seconds < mlff_spans_read(model)[MLFF_SPAN_EVALUATE].seconds);
  test_answer open = test_evaluate(model, &molecule);
  ck_assert_int_eq(stress->calls, 1);
  mlff_spans_stop(model);
  test_answer again = test_evaluate(model, &atoms);
  ck_assert_int_eq(mlff_spans_read(model)[MLFF_SPAN_STRESS].calls, 1);
  test_answer_free(&closed);
  test_answer_free(&open);
  test_answer_free(&again);
  test_atoms_free(&atoms);
  test_atoms_free(&molecule);
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

START_TEST(bad_arguments)
{
  mlff_error error;
  size_t n = 7;
  test_fails(mlff_spans_start(NULL, 0, &error), error, MLFF_E_ARG, "NULL");
  mlff_spans_stop(NULL);
  ck_assert_ptr_null(mlff_spans_take(NULL, &n, NULL));
  ck_assert_uint_eq(n, 0);
  ck_assert_str_eq(mlff_spans_read(NULL)[MLFF_SPAN_FORCES].name, "forces");
  test_model file;
  mlff_model *model = open_nth(0, &file);
  test_fails(mlff_spans_start(model, SIZE_MAX, &error), error, MLFF_E_ARG, "too many");
  mlff_model_close(model);
  test_model_free(&file);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("spans");
  TCase *t = tcase_create("spans");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, results_are_the_same, 0, TEST_N_MODELS);
  tcase_add_loop_test(t, parts_are_counted, 0, TEST_N_MODELS);
  tcase_add_loop_test(t, stamps_nest, 0, TEST_N_MODELS);
  tcase_add_loop_test(t, exchanges_are_counted, 0, TEST_N_MODELS);
  tcase_add_test(t, stress_of_its_own);
  tcase_add_test(t, bad_arguments);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
