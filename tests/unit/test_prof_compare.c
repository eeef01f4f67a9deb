/* test_prof_compare.c: ratios and their intervals, targets, rules and gates. */
#define _XOPEN_SOURCE 700

#include "mlffprof/compare/sides.h"
#include "profsample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mlffprof_error error;
static char dir[256], path[512];

static void setup(void)
{
  test_tmp_make(dir, sizeof dir);
  snprintf(path, sizeof path, "%s/rules.yaml", dir);
}

static void teardown(void)
{
  test_tmp_remove(dir);
}

static void write_rules(const char *text)
{
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file)) ck_abort_msg("cannot write %s", path);
}

/* The number of failed rules; the lines in *text when it is not NULL. */
static int gate(const char *rules_text, const mlffprof_report *a, const mlffprof_report *b, char **text)
{
  mlffprof_rules *rules = NULL;
  char *lines = NULL;
  size_t size = 0;
  int n_failed = -1;
  write_rules(rules_text);
  prof_ok(mlffprof_rules_read(path, &rules, &error), error);
  FILE *out = open_memstream(&lines, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_gate(rules, a, b, out, &n_failed, &error), error);
  fclose(out);
  mlffprof_rules_free(rules);
  if (text)
    *text = lines;
  else
    free(lines);
  return n_failed;
}

/* ---- ratios ------------------------------------------------------------------------------------------------------ */

/* The interval of the ratio of medians holds the truth in 85 % of the cases at least (20 blocks resampled are a
 * little narrow), and the test accuses at its level. */
START_TEST(intervals_cover)
{
  const int n = test_cases(100, 20);
  int n_covered = 0, n_wrong = 0, n_found = 0;
  for (uint64_t seed = 1; seed <= (uint64_t) n; seed++) {
    mlffprof_report *a = prof_report_of(NULL, 400, 10, 1, seed), *b = prof_report_of(NULL, 400, 10, 1, 1000 + seed);
    mlffprof_report *c = prof_report_of(NULL, 400, 10.5, 1, 2000 + seed);
    mlffprof_ratio same, more;
    prof_ok(mlffprof_compare_latency(a, b, "median_latency_ms", &same, &error), error);
    prof_ok(mlffprof_compare_latency(a, c, "median_latency_ms", &more, &error), error);
    n_covered += same.low <= 1 && 1 <= same.high;
    n_wrong += same.p < 0.05;
    n_found += more.p < 0.05 && more.low > 1;
    ck_assert_double_le(same.low, same.high);
    mlffprof_report_free(a);
    mlffprof_report_free(b);
    mlffprof_report_free(c);
  }
  ck_assert_int_ge(100 * n_covered, 85 * n);
  ck_assert_int_le(100 * n_wrong, 11 * n);
  ck_assert_int_ge(100 * n_found, 95 * n);
}
END_TEST

START_TEST(not_enough_samples)
{
  const double ms[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, twice[9] = {2, 4, 6, 8, 10, 12, 14, 16, 18};
  mlffprof_ratio ratio;
  for (int n = 0; n <= 9; n++) {
    mlffprof_report *a = prof_report_of(ms, n, 0, 0, 0), *b = prof_report_of(twice, 9, 0, 0, 0);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    prof_ok(mlffprof_compare_latency(a, b, "mean_latency_ms", &ratio, &error), error);
    prof_ok(mlffprof_compare_print(a, b, out, &error), error);
    fclose(out);
    ck_assert_int_eq(strstr(text, "not enough samples") != NULL, n < 9);
    ck_assert_int_eq(isnan(ratio.p) && isnan(ratio.low), n < 9);
    if (n == 0) prof_unmeasured(ratio.ratio);
    if (n == 9) near_one(ratio.ratio, 2, 1e-12);
    free(text);
    mlffprof_report_free(a);
    mlffprof_report_free(b);
  }
  mlffprof_report *a = prof_report_of(ms, 9, 0, 0, 0);
  prof_fails(mlffprof_compare_latency(a, a, "cv", &ratio, &error), error, MLFFPROF_E_ARG, "'cv'");
  mlffprof_report_free(a);
}
END_TEST

START_TEST(comparison_shows_both)
{
  mlffprof_report *a = prof_sample(3000), *b = prof_report_of(NULL, 500, 2, 0.1, 1);
  static const char *const parts[] = {"note: 192 and 10 atoms",
                                      "note: 2 and 1 ranks",
                                      "95 % interval",
                                      "Mann-Whitney",
                                      "the medians of these two runs differ",
                                      "One run each",
                                      "drift, eV/atom/ps",
                                      "force_rmse",
                                      "stress_rmse",
                                      "pressure_bias",
                                      "memory verdict",
                                      "times the speed"};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_compare_print(a, b, out, &error), error);
  fclose(out);
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
    if (!strstr(text, parts[k])) ck_abort_msg("'%s' is not in\n%s", parts[k], text);
  free(text);
  mlffprof_report_free(a);
  mlffprof_report_free(b);
}
END_TEST

static mlffprof_report *report_with_cpu(double seconds, double cpu_seconds, unsigned tags, const char *device)
{
  mlffprof_recorder *r = NULL;
  prof_ok(mlffprof_recorder_create(&(mlffprof_options){.n_atoms = 10, .device = device}, &r, &error), error);
  for (int k = 0; k < 100; k++) {
    const mlffprof_step s = {.step = k, .seconds = seconds, .cpu_seconds = cpu_seconds, .tags = k % 10 ? 0 : tags};
    prof_ok(mlffprof_recorder_step(r, &s, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  mlffprof_recorder_free(r);
  return p;
}

/* Wall times of a busy processor are called so, alone and in comparisons, which give the ratio of processor times. */
START_TEST(disturbed_runs)
{
  static const struct {
    double cpu_ms;
    unsigned tags;
    const char *device;
    int disturbed;
  } cases[] = {{3.9, 0, "cpu", 0},    {3.5, 0, "cpu", 1}, {3.9, MLFFPROF_TAG_PREEMPTED, "cpu", 1},
               {1.0, 0, "cuda:0", 0}, {3.5, 0, NULL, 1},  {0, 0, "cpu", 0}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    mlffprof_report *p = report_with_cpu(4e-3, 1e-3 * cases[k].cpu_ms, cases[k].tags, cases[k].device);
    ck_assert_int_eq(mlffprof_is_disturbed(p), cases[k].disturbed);
    if (cases[k].cpu_ms > 0)
      near_one(p->cpu_ms, cases[k].cpu_ms, 1e-9);
    else
      prof_unmeasured(p->cpu_ms);
    mlffprof_report_free(p);
  }
  mlffprof_report *a = report_with_cpu(4e-3, 3.9e-3, 0, "cpu"), *b = report_with_cpu(8e-3, 1.3e-3, 0, "cpu");
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_compare_print(a, b, out, &error), error);
  prof_ok(mlffprof_compare_print(a, a, out, &error), error);
  fclose(out);
  const char *said = strstr(text, "DISTURBED: other programs had the processor in 1 of 2 runs");
  ck_assert_ptr_nonnull(said);
  ck_assert_ptr_nonnull(strstr(said, "B takes 0.3333 times the processor time of A per step: 3 times the speed"));
  ck_assert_ptr_null(strstr(said + 1, "DISTURBED"));
  free(text);
  mlffprof_report_free(a);
  mlffprof_report_free(b);
}
END_TEST

/* Each report against the first, per atom: half the time is twice the speed for the same atoms, and none for half. */
START_TEST(many_against_the_first)
{
  mlffprof_report *of[4];
  for (int k = 0; k < 4; k++) of[k] = prof_report_of(NULL, 400, k ? 5 : 10, 0.1, (uint64_t) k);
  of[2]->n_atoms = of[0]->n_atoms / 2;
  of[3]->n_latencies = 0;
  near_one(mlffprof_speed_up(of[0], of[0]), 1, 0);
  near_one(mlffprof_speed_up(of[0], of[1]), 2, 0.02);
  near_one(mlffprof_speed_up(of[0], of[2]), 1, 0.01);
  char *text = NULL, letter;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_compare_all_print((const mlffprof_report *const *) of, 4, out, &error), error);
  fclose(out);
  const char *table = strstr(text, "median, ms"), *row = table ? strstr(table, "\nB ") : NULL;
  if (!row || !strstr(text, "note: 10 and 5 atoms")) ck_abort_msg("%s", text);
  double median, each, speed_up, low, high;
  if (sscanf(row, " %c %lf %lf - %lf %lf to %lf", &letter, &median, &each, &speed_up, &low, &high) != 6)
    ck_abort_msg("%s", row);
  near_one(speed_up, 2, 0.02);
  ck_assert(1.9 < low && low <= speed_up && speed_up <= high && high < 2.1);
  ck_assert_ptr_nonnull(strstr(strstr(table, "\nD "), "-         -"));
  ck_assert_ptr_null(strstr(text, "nan"));
  free(text);
  for (int k = 0; k < 4; k++) mlffprof_report_free(of[k]);
}
END_TEST

/* Exact numbers without ties; as many wrong accusations and intervals without the truth as the level allows. */
START_TEST(several_runs_a_side)
{
  const double a[4] = {10, 11, 12, 13}, b[4] = {20, 22.1, 24.3, 26.6};
  mlffprof_ratio r = mlffprof_sides_ratio(a, 4, b, 4);
  near_one(r.ratio, (22.1 / 11 + 24.3 / 12) / 2, 1e-12);
  near_one(r.p, 2.0 / 70, 1e-12);
  near_one(r.low, 20.0 / 13, 1e-12); /* with 4 and 4 only all of one side below the other is beyond the level */
  near_one(r.high, 26.6 / 10, 1e-12);
  r = mlffprof_sides_ratio(a, 3, b, 3);
  ck_assert(isnan(r.low) && isnan(r.high));
  near_one(r.p, 0.1, 1e-12);
  prof_unmeasured(mlffprof_sides_ratio(a, 0, b, 4).ratio);
  int n_covered = 0, n_wrong = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    mlffprof_report *drawn = prof_report_of(NULL, 12, 10, 1, seed);
    r = mlffprof_sides_ratio(drawn->latencies_ms, 6, drawn->latencies_ms + 6, 6);
    n_covered += r.low <= 1 && 1 <= r.high;
    n_wrong += r.p < 0.05;
    ck_assert(r.low <= r.ratio && r.ratio <= r.high);
    mlffprof_report_free(drawn);
  }
  ck_assert_int_ge(n_covered, 184);
  ck_assert_int_le(n_wrong, 16);
}
END_TEST

static char *sides_text(mlffprof_report *const *of, int n_a, int n_b)
{
  const mlffprof_report *const *all = (const mlffprof_report *const *) of;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(out);
  prof_ok(mlffprof_compare_sides_print(all, n_a, all + n_a, n_b, out, &error), error);
  fclose(out);
  ck_assert_ptr_null(strstr(text, "nan"));
  return text;
}

START_TEST(sides_are_shown)
{
  mlffprof_report *of[8];
  for (int k = 0; k < 8; k++) of[k] = prof_report_of(NULL, 400, k < 4 ? 10 : 5, 0.1, (uint64_t) k + 1);
  char *text = sides_text(of, 4, 4), *row = strstr(text, "\nmedian_latency_ms");
  double a[3], b[3], ratio, low, high, p;
  if (!row || sscanf(row, " median_latency_ms %lf (%lf to %lf) %lf (%lf to %lf) %lf %lf to %lf %lf", a, a + 1, a + 2, b,
                     b + 1, b + 2, &ratio, &low, &high, &p) != 10)
    ck_abort_msg("%s", text);
  near_one(ratio, 0.5, 0.01);
  near_one(p, 2.0 / 70, 0.02);
  ck_assert(a[1] <= a[0] && a[0] <= a[2] && b[2] < a[1] && low <= ratio && ratio <= high);
  ck_assert_ptr_null(strstr(text, "too few"));
  free(text);
  text = sides_text(of + 1, 3, 3);
  ck_assert_ptr_nonnull(strstr(text, "3 and 3 runs are too few"));
  free(text);
  const mlffprof_report *const *all = (const mlffprof_report *const *) of;
  prof_fails(mlffprof_compare_sides_print(all, 8, all, 0, stdout, &error), error, MLFFPROF_E_ARG, "8 and 0 runs");
  prof_fails(mlffprof_compare_sides_print(all, 21, all, 1, stdout, &error), error, MLFFPROF_E_ARG, "1 to 20 a side");
  for (int k = 0; k < 8; k++) mlffprof_report_free(of[k]);
}
END_TEST

/* ---- targets ----------------------------------------------------------------------------------------------------- */

START_TEST(default_targets)
{
  double ms[100];
  for (int k = 0; k < 100; k++) ms[k] = k < 90 ? 1 : 10;
  mlffprof_report *p = prof_report_of(ms, 100, 0, 0, 0);
  ck_assert_int_eq(p->n_targets, 4);
  ck_assert_str_eq(p->targets[0].metric, "p95_over_mean");
  ck_assert_int_eq(p->targets[0].passed, 0); /* 10 / 1.9 */
  ck_assert_int_eq(p->targets[2].passed, 0);
  ck_assert_str_eq(p->targets[3].metric, "memory_delta_mb");
  ck_assert_int_eq(p->targets[3].passed, -1); /* not measured is not passed */
  mlffprof_rules *rules = NULL;
  write_rules("rules:\n  - {metric: max_latency_ms, above: 5}\n  - {metric: cv, below: 1, model: none}\n"
              "  - {metric: cv, ratio_below: 1}\n");
  prof_ok(mlffprof_rules_read(path, &rules, &error), error);
  prof_ok(mlffprof_report_targets(p, rules, &error), error);
  ck_assert_int_eq(p->n_targets, 1);
  ck_assert_int_eq(p->targets[0].passed, 1);
  ck_assert_str_eq(p->targets[0].relation, ">");
  mlffprof_rules_free(rules);
  mlffprof_report_free(p);
}
END_TEST

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* Each regression is found by its rule, and the unchanged report passes all. */
START_TEST(regressions_fail)
{
  static const char rules[] = "rules:\n"
                              "  - {metric: median_latency_ms, ratio_below: 1.1}\n"
                              "  - {metric: p99_latency_ms, ratio_below: 1.2}\n"
                              "  - {metric: memory_delta_mb, change_below: 5}\n"
                              "  - {metric: memory_verdict, below: 0.5}\n"
                              "  - {metric: drift_abs, ratio_below: 2}\n"
                              "  - {metric: force_rmse, ratio_below: 1.1}\n"
                              "  - {metric: force_cosine, above: 0.99}\n"
                              "  - {metric: stress_rmse, ratio_below: 1.1}\n"
                              "  - {metric: pressure_bias_abs, below: 150}\n"
                              "  - {metric: exploded, below: 0.5}\n";
  mlffprof_report *a = prof_sample(3000), *b = prof_sample(3000);
  ck_assert_int_eq(gate(rules, a, b, NULL), 0);
  const mlffprof_report good = *b;
  b->latency.median *= 1.2;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  *b = good;
  b->latency.p99 *= 1.3;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  *b = good;
  b->memory.device.delta_bytes += 6e6;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  *b = good;
  b->memory.verdict = MLFFPROF_VERDICT_GROWING;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  *b = good;
  b->drift *= -3;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  *b = good;
  b->accuracy.force_rmse *= 1.2;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  *b = good;
  b->accuracy.stress_rmse *= 1.2;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  *b = good;
  b->accuracy.pressure_bias = -200;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  *b = good;
  b->energy.exploded = 1;
  ck_assert_int_eq(gate(rules, a, b, NULL), 1);
  mlffprof_report_free(a);
  mlffprof_report_free(b);
}
END_TEST

/* What was not measured fails, with its reason; so does a rule about a change without a second report, and a file
 * whose rules are all about other models. */
START_TEST(unmeasured_fails)
{
  const double ms[20] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  mlffprof_report *full = prof_sample(3000), *bare = prof_report_of(ms, 20, 0, 0, 0),
                  *few = prof_report_of(ms, 5, 0, 0, 0);
  static const struct {
    const char *rule, *why;
    int a, b; /* 0 full, 1 bare, 2 few, -1 none */
  } cases[] = {
      {"{metric: force_rmse, below: 1}", "not measured", 1, -1},
      {"{metric: drift_abs, below: 1}", "not measured", 0, 1},
      {"{metric: drift_abs, ratio_below: 9}", "not measured", 1, 0},
      {"{metric: stress_rmse, below: 1}", "not measured", 1, -1},
      {"{metric: pressure_bias, below: 1}", "not measured", 1, -1},
      {"{metric: stress_time_ms, above: 0}", "not measured", 0, -1},
      {"{metric: median_latency_ms, ratio_below: 2}", "needs a second report", 0, -1},
      {"{metric: cv, ratio_below: 2}", "no ratio", 1, 1},
      {"{metric: cv, below: 2, model: another}", "no rule is about this model", 0, -1},
      {"{metric: mean_latency_ms, ratio_below: 2, significant: true}", "not enough samples", 0, 2},
  };
  const mlffprof_report *const reports[] = {full, bare, few};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    char rules[256], *text = NULL;
    snprintf(rules, sizeof rules, "rules:\n  - %s\n", cases[k].rule);
    const int n = gate(rules, reports[cases[k].a], cases[k].b < 0 ? NULL : reports[cases[k].b], &text);
    if (n != 1 || !strstr(text, cases[k].why)) ck_abort_msg("%s: %d failed:\n%s", cases[k].rule, n, text);
    free(text);
  }
  mlffprof_report_free(full);
  mlffprof_report_free(bare);
  mlffprof_report_free(few);
}
END_TEST

/* `significant` forgives what the interval does not show, and nothing more. */
START_TEST(significant_rules)
{
  static const char plain[] = "rules: [{metric: median_latency_ms, ratio_below: 1.0001}]\n";
  static const char careful[] = "rules: [{metric: median_latency_ms, ratio_below: 1.0001, significant: true}]\n";
  mlffprof_report *a = prof_report_of(NULL, 400, 10, 1, 4), *near = NULL, *far = prof_report_of(NULL, 400, 11, 1, 5);
  for (uint64_t seed = 6; !near; seed++) { /* slower by chance */
    near = prof_report_of(NULL, 400, 10, 1, seed);
    const double ratio = near->latency.median / a->latency.median;
    if (ratio > 1.001 && ratio < 1.005) break;
    mlffprof_report_free(near);
    near = NULL;
  }
  ck_assert_int_eq(gate(plain, a, near, NULL), 1);
  ck_assert_int_eq(gate(careful, a, near, NULL), 0);
  ck_assert_int_eq(gate(careful, a, far, NULL), 1);
  mlffprof_report_free(a);
  mlffprof_report_free(near);
  mlffprof_report_free(far);
}
END_TEST

static const char *const bad_rules[][2] = {
    {"", "empty"},
    {"rules: []\n", "no rules"},
    {"rules: 5\n", "not a list"},
    {"rule: []\n", "unknown key 'rule'"},
    {"rules: [5]\n", "{metric: NAME, below: NUMBER}"},
    {"rules: [{below: 1}]\n", "without metric"},
    {"rules: [{metric: speed, below: 1}]\n", "unknown metric 'speed'"},
    {"rules: [{metric: cv}]\n", "not 0"},
    {"rules: [{metric: cv, below: 1, above: 0}]\n", "not 2"},
    {"rules: [{metric: cv, below: low}]\n", "below is not a finite number"},
    {"rules: [{metric: cv, under: 1}]\n", "unknown key 'under'"},
    {"rules:\n  - {metric: cv, below: 1}\n  - {metric: cv, below: 2}\n", "rules.yaml:3: a second rule"},
    {"rules: [{metric: cv, ratio_below: 1, significant: true}]\n", "significant goes with"},
    {"rules: [{metric: mean_latency_ms, ratio_below: 1, significant: maybe}]\n", "neither true nor false"},
    {"rules: [{metric: cv, below: 1, below: 2}]\n", "is a duplicate of line"},
};
enum { N_BAD = sizeof bad_rules / sizeof *bad_rules };

START_TEST(bad_rule_files)
{
  mlffprof_rules *rules = NULL;
  write_rules(bad_rules[_i][0]);
  prof_fails(mlffprof_rules_read(path, &rules, &error), error, MLFFPROF_E_FORMAT, bad_rules[_i][1]);
  ck_assert_ptr_null(rules);
}
END_TEST

/* Rules are compared pairwise, so their number is limited. */
START_TEST(too_many_rules)
{
  static const char rule[] = "  - {metric: cv, below: 1}\n";
  enum { N = 1001 };
  mlffprof_rules *rules = NULL;
  char *text = calloc(1, 10 + N * sizeof rule), *at = text + sprintf(text, "rules:\n");
  for (int k = 0; k < N; k++, at += sizeof rule - 1) memcpy(at, rule, sizeof rule);
  write_rules(text);
  prof_fails(mlffprof_rules_read(path, &rules, &error), error, MLFFPROF_E_FORMAT, "more than 1000 rules");
  free(text);
}
END_TEST

START_TEST(metrics)
{
  mlffprof_report *p = prof_sample(100);
  double value = 0;
  ck_assert(!mlffprof_report_metric(p, "none", &value));
  ck_assert(mlffprof_report_metric(p, "p95_over_mean", &value));
  near_one(value, p->latency.p95 / p->latency.mean, 1e-15);
  ck_assert_ptr_null(mlffprof_metric_name(-1));
  mlffprof_report_free(p);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("prof_compare");
  TCase *t = tcase_create("compare");
  tcase_set_timeout(t, 240);
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, intervals_cover);
  tcase_add_test(t, not_enough_samples);
  tcase_add_test(t, comparison_shows_both);
  tcase_add_test(t, disturbed_runs);
  tcase_add_test(t, many_against_the_first);
  tcase_add_test(t, several_runs_a_side);
  tcase_add_test(t, sides_are_shown);
  tcase_add_test(t, default_targets);
  tcase_add_test(t, regressions_fail);
  tcase_add_test(t, unmeasured_fails);
  tcase_add_test(t, significant_rules);
  tcase_add_loop_test(t, bad_rule_files, 0, N_BAD);
  tcase_add_test(t, too_many_rules);
  tcase_add_test(t, metrics);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
