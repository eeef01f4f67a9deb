/* test_prof_energy.c: drift, excursions, distributions, explosions; errors against another model. */
#include "profsample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mlffprof_error error;
enum { N_ATOMS = 12 };

static mlffprof_recorder *recorder_of(const char *ensemble)
{
  const mlffprof_options options = {.n_atoms = N_ATOMS, .ensemble = ensemble};
  mlffprof_recorder *r = NULL;
  prof_ok(mlffprof_recorder_create(&options, &r, &error), error);
  return r;
}

static void add(mlffprof_recorder *r, int64_t step, mlffprof_quantity_id id, double value)
{
  mlffprof_energy_sample s = {.step = step, .time_ps = 5e-4 * (double) step, .has = 1u << id};
  s.value[id] = value;
  prof_ok(mlffprof_recorder_energy(r, &s, &error), error);
}

/* A planted drift under noise that oscillates and is correlated, in runs of many lengths: measured to 1 %, in the
 * error bar. */
START_TEST(planted_drift)
{
  static const int lengths[] = {1500, 20000, 200000};
  const double drift = 2e-4, start = -400; /* eV/atom/ps, eV */
  const int n = lengths[_i];
  mlffprof_recorder *r = recorder_of("nve");
  test_rng rng = {11};
  double noise = 0;
  for (int k = 0; k < n; k++) {
    const double time = 5e-4 * 10 * k;
    noise = 0.9 * noise + 1e-5 * test_normal(&rng);
    add(r, 10 * k, MLFFPROF_TOTAL, start + drift * N_ATOMS * time + 1e-4 * sin(7 * time) + noise);
  }
  mlffprof_report *p = prof_finish(r);
  const mlffprof_quantity *q = &p->energy.value[MLFFPROF_TOTAL];
  const double time = 5e-3 * (n - 1), change = drift * N_ATOMS * time;
  near_one(p->drift, drift, 0.01 * drift);
  near_one(p->drift, drift, q->drift_error);
  ck_assert_double_lt(q->drift_error, 0.1 * drift);
  near_one(q->drift_percent, 100 * change / 400, 0.01 * 100 * change / 400);
  near_one(q->change_percent, 100 * change / 400, 0.01 * 100 * change / 400);
  near_one(q->max_excursion, change, 0.01 * change);
  near_one(q->mean, start + change / 2, 0.01 * change);
  near_one(q->std, change / sqrt(12), 0.01 * change);
  near_one(q->fluctuation, q->std / fabs(q->mean), 1e-12);
  ck_assert_str_eq(p->drift_of, "total");
  ck_assert_int_le(p->energy.n_points, 2000);
  ck_assert_int_eq(p->energy.n_samples, n);
  ck_assert(p->energy.finite && !p->energy.exploded);
  int64_t counted = 0;
  for (int k = 0; k < MLFFPROF_N_BINS; k++) counted += q->bins[k];
  ck_assert_int_eq(counted, p->energy.n_points);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* Without drift the interval holds 0, for strongly correlated energies as well. */
START_TEST(no_drift_is_not_invented)
{
  enum { N_TRIALS = 100, N = 4000 };
  int n_covered = 0;
  for (uint64_t seed = 1; seed <= N_TRIALS; seed++) {
    mlffprof_recorder *r = recorder_of("nvt");
    test_rng rng = {seed};
    double noise = 0;
    for (int k = 0; k < N; k++) {
      noise = 0.98 * noise + test_normal(&rng);
      add(r, k, MLFFPROF_TOTAL, -400 + 0.01 * noise);
    }
    mlffprof_report *p = prof_finish(r);
    n_covered += fabs(p->drift) <= p->energy.value[MLFFPROF_TOTAL].drift_error;
    mlffprof_report_free(p);
    mlffprof_recorder_free(r);
  }
  ck_assert_int_ge(n_covered, 90);
}
END_TEST

/* The conserved quantity is the headline where there is one. */
START_TEST(conserved_comes_first)
{
  mlffprof_recorder *r = recorder_of("nvt");
  for (int k = 0; k < 100; k++) {
    mlffprof_energy_sample s = {.step = k, .time_ps = k, .has = 1u << MLFFPROF_TOTAL | 1u << MLFFPROF_CONSERVED};
    s.value[MLFFPROF_TOTAL] = -10 + 0.12 * k;
    s.value[MLFFPROF_CONSERVED] = -10 + 0.0012 * k;
    prof_ok(mlffprof_recorder_energy(r, &s, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  near_one(p->drift, 1e-4, 1e-15);
  near_one(p->energy.value[MLFFPROF_TOTAL].drift, 0.01, 1e-14);
  ck_assert_str_eq(p->drift_of, "conserved");
  ck_assert_int_eq(p->energy.value[MLFFPROF_TEMPERATURE].n, 0);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

START_TEST(few_samples)
{
  mlffprof_recorder *r = recorder_of("nve");
  for (int n = 0; n <= 2; n++) {
    mlffprof_report *p = prof_finish(r);
    const mlffprof_quantity *q = &p->energy.value[MLFFPROF_TOTAL];
    if (n == 0) prof_unmeasured(p->energy.time_ps);
    if (n == 0) prof_unmeasured(q->initial);
    if (n < 2) prof_unmeasured(p->drift);
    if (n < 2) prof_unmeasured(q->change_percent);
    if (n < 2) prof_unmeasured(q->std);
    prof_unmeasured(q->drift_error);
    if (n == 2) near_one(p->drift, 1.0 / N_ATOMS / 5e-4, 1e-9);
    mlffprof_report_free(p);
    add(r, n, MLFFPROF_TOTAL, -5 + n);
  }
  mlffprof_recorder_free(r);
}
END_TEST

/* NaN that was measured is an explosion; what was not measured is not. */
START_TEST(explosions)
{
  const struct {
    const char *ensemble;
    mlffprof_quantity_id id;
    double first, second;
    int finite, exploded;
  } cases[] = {{"nve", MLFFPROF_TOTAL, -5, NAN, 0, 1},
               {"nvt", MLFFPROF_PRESSURE, 1, INFINITY, 0, 1},
               {"nvt", MLFFPROF_TEMPERATURE, 300, 19000, 1, 0},
               {"nvt", MLFFPROF_TEMPERATURE, 300, 21000, 1, 1},
               {"nve", MLFFPROF_TOTAL, -5, -5 + 0.9 * N_ATOMS, 1, 0},
               {"NVE", MLFFPROF_TOTAL, -5, -5 + 1.1 * N_ATOMS, 1, 1},
               {"nvt", MLFFPROF_TOTAL, -5, -5 + 1.1 * N_ATOMS, 1, 0}, /* heating is no explosion */
               {"nvt", MLFFPROF_CONSERVED, -5, -5 - 1.1 * N_ATOMS, 1, 1}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    mlffprof_recorder *r = recorder_of(cases[k].ensemble);
    mlffprof_summary s;
    add(r, 0, cases[k].id, cases[k].first);
    add(r, 7, cases[k].id, cases[k].second);
    add(r, 8, cases[k].id, cases[k].first);
    mlffprof_report *p = prof_finish(r);
    mlffprof_recorder_summary(r, &s);
    ck_assert_int_eq(p->energy.finite, cases[k].finite);
    ck_assert_int_eq(p->energy.exploded, cases[k].exploded);
    ck_assert_int_eq(s.exploded, cases[k].exploded);
    int finite = -1;
    ck_assert_int_eq(mlffprof_recorder_exploded(r, &finite), cases[k].exploded);
    ck_assert_int_eq(finite, cases[k].finite);
    ck_assert_int_eq(p->energy.first_bad_step, cases[k].exploded ? 7 : MLFFPROF_UNKNOWN);
    ck_assert_int_eq(p->energy.value[cases[k].id].n, cases[k].finite ? 3 : 2);
    mlffprof_report_free(p);
    mlffprof_recorder_free(r);
  }
}
END_TEST

START_TEST(bad_samples)
{
  mlffprof_recorder *r = recorder_of("nve");
  add(r, 100, MLFFPROF_TOTAL, -5);
  mlffprof_energy_sample s = {.step = 5, .time_ps = 0.01};
  prof_fails(mlffprof_recorder_energy(r, &s, &error), error, MLFFPROF_E_ARG, "0.01 ps after 0.05 ps");
  s.time_ps = NAN;
  prof_fails(mlffprof_recorder_energy(r, &s, &error), error, MLFFPROF_E_ARG, "step 5");
  s = (mlffprof_energy_sample){.time_ps = 1, .has = 1u << MLFFPROF_N_QUANTITIES};
  prof_fails(mlffprof_recorder_energy(r, &s, &error), error, MLFFPROF_E_ARG, "unknown quantities");
  mlffprof_report *p = prof_finish(r);
  ck_assert_int_eq(p->energy.n_samples, 1);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* A second run may begin at an earlier time and another energy; an explosion of the first is not forgotten. */
START_TEST(a_second_run)
{
  mlffprof_recorder *r = recorder_of("nve");
  for (int k = 0; k < 100; k++) add(r, k, MLFFPROF_TOTAL, -5 + 0.01 * k);
  add(r, 100, MLFFPROF_TEMPERATURE, 1e6);
  prof_ok(mlffprof_recorder_restart_energy(r, "nvt", &error), error);
  for (int k = 0; k < 50; k++) add(r, k, MLFFPROF_TOTAL, -7);
  mlffprof_report *p = prof_finish(r);
  ck_assert_int_eq(p->energy.n_samples, 50);
  near_one(p->drift, 0, 1e-15);
  near_one(p->energy.value[MLFFPROF_TOTAL].initial, -7, 0);
  ck_assert_str_eq(p->ensemble, "nvt");
  ck_assert(p->energy.exploded);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

START_TEST(reduced_units_have_no_ev)
{
  mlffprof_recorder *r = NULL;
  const mlffprof_options options = {.n_atoms = 10, .lj_units = 1};
  prof_ok(mlffprof_recorder_create(&options, &r, &error), error);
  for (int k = 0; k < 10; k++) add(r, k, MLFFPROF_TOTAL, -5.0 + k);
  mlffprof_report *p = prof_finish(r);
  prof_unmeasured(p->drift);
  near_one(p->energy.value[MLFFPROF_TOTAL].drift, 0.1 / 5e-4, 1e-9);
  ck_assert(p->energy.lj_units);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* Errors over samples of 1, 2, 3 meV/A: root mean square sqrt(14/3), mean 2, largest with its step. */
START_TEST(accuracy)
{
  static const char *const elements[] = {"H", "O"};
  const mlffprof_options options = {.reference = "teacher", .elements = elements, .n_elements = 2};
  mlffprof_recorder *r = NULL;
  prof_ok(mlffprof_recorder_create(&options, &r, &error), error);
  for (int k = 1; k <= 3; k++) {
    const double rmse[2] = {k, k == 2 ? 5.0 : NAN}, mae[2] = {0.5 * k, 4};
    const mlffprof_accuracy_sample s = {k,   k == 3 ? -3 : k, k, 0.5 * k,          k == 2 ? 9 : 1, 1 - 0.1 * k, rmse,
                                        mae, k != 2,          k, k == 3 ? -30 : 10};
    prof_ok(mlffprof_recorder_accuracy(r, &s, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  const mlffprof_accuracy_report *a = &p->accuracy;
  near_one(a->force_rmse, sqrt(14.0 / 3), 1e-14);
  near_one(a->force_mae, 1, 1e-15);
  near_one(a->force_max, 9, 0);
  ck_assert_int_eq(a->worst_step, 2);
  near_one(a->energy_mae, 2, 1e-15);
  near_one(a->energy_rmse, sqrt(14.0 / 3), 1e-14);
  near_one(a->energy_bias, 0, 1e-15);
  near_one(a->energy_max, 3, 0);
  near_one(a->force_cosine, 0.8, 1e-15);
  near_one(a->force_cosine_min, 0.7, 1e-15);
  near_one(a->stress_rmse, sqrt(5), 1e-14); /* of 1 and 3: the second sample has none */
  near_one(a->pressure_rmse, sqrt(500), 1e-13);
  near_one(a->pressure_bias, -10, 1e-14);
  prof_unmeasured(a->stress_rmse_series[1]);
  near_one(a->pressure_error[2], -30, 0);
  double value = NAN;
  ck_assert(mlffprof_report_metric(p, "pressure_bias_abs", &value));
  near_one(value, 10, 1e-14);
  near_one(a->elements[0].force_rmse, sqrt(14.0 / 3), 1e-14);
  ck_assert_int_eq(a->elements[1].n, 1);
  near_one(a->elements[1].force_mae, 4, 0);
  ck_assert_str_eq(a->elements[1].name, "O");
  const mlffprof_accuracy_sample bad = {.force_rmse = -1}, worse = {.has_stress = 1, .stress_rmse = -1};
  prof_fails(mlffprof_recorder_accuracy(r, &bad, &error), error, MLFFPROF_E_ARG, "negative");
  prof_fails(mlffprof_recorder_accuracy(r, &worse, &error), error, MLFFPROF_E_ARG, "negative");
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* Samples without a stress, as those of programs that know of none: not measured, and never 0. */
START_TEST(accuracy_without_stress)
{
  const mlffprof_accuracy_sample s = {.step = 1, .force_rmse = 1};
  mlffprof_recorder *r = NULL;
  prof_ok(mlffprof_recorder_create(NULL, &r, &error), error);
  prof_ok(mlffprof_recorder_accuracy(r, &s, &error), error);
  mlffprof_report *p = prof_finish(r);
  static const char *const names[] = {"stress_rmse", "pressure_rmse", "pressure_bias", "pressure_bias_abs"};
  for (int k = 0; k < 4; k++) {
    double value = 0;
    ck_assert(mlffprof_report_metric(p, names[k], &value));
    prof_unmeasured(value);
  }
  prof_unmeasured(p->accuracy.stress_rmse_series[0]);
  mlffprof_summary now;
  mlffprof_recorder_summary(r, &now);
  prof_unmeasured(now.stress_rmse);
  prof_unmeasured(now.pressure_error);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* Temperature of a Gaussian: mean, spread, skew and a histogram that is symmetric. */
START_TEST(distribution)
{
  mlffprof_recorder *r = recorder_of("nvt");
  test_rng rng = {9};
  for (int k = 0; k < 20000; k++) add(r, k, MLFFPROF_TEMPERATURE, 300 + 10 * test_normal(&rng));
  mlffprof_report *p = prof_finish(r);
  const mlffprof_quantity *q = &p->energy.value[MLFFPROF_TEMPERATURE];
  near_one(q->mean, 300, 0.3);
  near_one(q->std, 10, 0.2);
  near_one(q->skew, 0, 0.07);
  near_one(q->drift, 0, q->drift_error * 1.5);
  ck_assert_double_lt(q->bin_low, 275);
  ck_assert_double_gt(q->bin_high, 325);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("prof_energy");
  TCase *t = tcase_create("energy");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, planted_drift, 0, 3);
  tcase_add_test(t, no_drift_is_not_invented);
  tcase_add_test(t, conserved_comes_first);
  tcase_add_test(t, few_samples);
  tcase_add_test(t, explosions);
  tcase_add_test(t, bad_samples);
  tcase_add_test(t, a_second_run);
  tcase_add_test(t, reduced_units_have_no_ev);
  tcase_add_test(t, accuracy);
  tcase_add_test(t, accuracy_without_stress);
  tcase_add_test(t, distribution);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
