/* test_prof_memory.c: planted leaks are found, innocent runs are not accused. */
#define _DEFAULT_SOURCE

#include "profsample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mlffprof_error error;
enum { N_SAMPLES = 500, EVERY = 10 };
static const double MB = 1e6;

typedef double shape(int k, test_rng *rng); /* bytes of sample k */

static mlffprof_report *report_of(shape *bytes, int n, int64_t n_warmup, uint64_t seed)
{
  mlffprof_recorder *r = NULL;
  mlffprof_report *p = NULL;
  test_rng rng = {seed};
  const mlffprof_options options = {.n_warmup = n_warmup};
  prof_ok(mlffprof_recorder_create(&options, &r, &error), error);
  for (int k = 0; k < n * EVERY; k++) {
    const mlffprof_step step = {.step = k, .seconds = 1e-3};
    const mlffprof_memory_sample m =
        {k, k % EVERY ? 0 : (int64_t) bytes(k / EVERY, &rng), MLFFPROF_UNKNOWN, MLFFPROF_UNKNOWN, 0, 0};
    if (k < n_warmup) prof_ok(mlffprof_recorder_step(r, &step, &error), error); /* later ones do not matter here */
    if (k % EVERY == 0 && mlffprof_recorder_memory(r, &m, &error)) ck_abort_msg("%s", error.text);
  }
  prof_ok(mlffprof_recorder_report(r, &p, &error), error);
  mlffprof_recorder_free(r);
  return p;
}

/* ---- innocent ---------------------------------------------------------------------------------------------------- */

static double constant(int k, test_rng *rng)
{
  (void) k;
  (void) rng;
  return 100 * MB;
}

static double noisy(int k, test_rng *rng)
{
  (void) k;
  return 100 * MB + 0.5 * MB * test_normal(rng);
}

/* An allocator that keeps what it once got: grows quickly at first, by 8 MB, and settles. */
static double settling(int k, test_rng *rng)
{
  return 100 * MB - 8 * MB * exp(-k / 25.0) + 0.02 * MB * test_normal(rng);
}

/* Two buffers that grew once each, at any time. */
static double two_jumps(int k, test_rng *rng)
{
  static int first, second;
  if (k == 0) first = 50 + test_below(rng, 400), second = 50 + test_below(rng, 400);
  return 100 * MB + 2 * MB * (k > first) + 1 * MB * (k > second) + 4096 * test_below(rng, 3);
}

/* Lists that are built and freed. */
static double sawtooth(int k, test_rng *rng)
{
  return 100 * MB + 0.2 * MB * (k % 23) + 4096 * test_below(rng, 10);
}

/* Slow fluctuation of a neighbor list: AR(1). */
static double wandering(int k, test_rng *rng)
{
  static double at;
  at = k ? 0.95 * at + test_normal(rng) : 0;
  return 100 * MB + 0.3 * MB * at;
}

static const struct {
  const char *name;
  shape *bytes;
} innocent[] = {{"constant", constant},   {"noisy", noisy},       {"settling", settling},
                {"two jumps", two_jumps}, {"sawtooth", sawtooth}, {"wandering", wandering}};
enum { N_INNOCENT = sizeof innocent / sizeof *innocent };

/* At most 2 of 100 innocent runs of each kind are accused. */
START_TEST(innocent_runs_are_not_accused)
{
  enum { N_TRIALS = 100 };
  int n_accused = 0;
  for (uint64_t seed = 1; seed <= N_TRIALS; seed++) {
    mlffprof_report *p = report_of(innocent[_i].bytes, N_SAMPLES, 20, seed);
    n_accused += p->memory.verdict != MLFFPROF_VERDICT_STABLE;
    mlffprof_report_free(p);
  }
  if (n_accused > N_TRIALS / 50) ck_abort_msg("%s: %d of %d accused", innocent[_i].name, n_accused, (int) N_TRIALS);
}
END_TEST

/* ---- guilty ------------------------------------------------------------------------------------------------------ */

static double large_leak(int k, test_rng *rng)
{
  return noisy(k, rng) + 15 * MB * k / N_SAMPLES; /* 15 MB over the run */
}

/* 1.5 MB over the run, one page here and there, below the noise of single samples. */
static double slow_leak(int k, test_rng *rng)
{
  return 100 * MB + 4096 * floor(1.5 * MB * k / N_SAMPLES / 4096) + 4096 * test_below(rng, 100);
}

/* 40 MB in forty steps at any time, as when lists are built. */
static double leak_in_steps(int k, test_rng *rng)
{
  static double at;
  at = k ? at + 1 * MB * (test_below(rng, N_SAMPLES) < 40) : 0;
  return 100 * MB + at;
}

static const struct {
  const char *name;
  shape *bytes;
  mlffprof_verdict verdict;
  double mb_per_1000;
} guilty[] = {{"large", large_leak, MLFFPROF_VERDICT_LEAK, 3},
              {"slow", slow_leak, MLFFPROF_VERDICT_GROWING, 0.3},
              {"in steps", leak_in_steps, MLFFPROF_VERDICT_LEAK, 8}};

START_TEST(leaks_are_found)
{
  enum { N_TRIALS = 100 };
  int n_found = 0, n_covered = 0;
  for (uint64_t seed = 1; seed <= N_TRIALS; seed++) {
    mlffprof_report *p = report_of(guilty[_i].bytes, N_SAMPLES, 20, seed);
    const mlffprof_memory_result *m = &p->memory.host;
    n_found += m->verdict == guilty[_i].verdict && p->memory.verdict == m->verdict;
    n_covered += fabs(m->growth_per_1000_steps / MB - guilty[_i].mb_per_1000) <= m->growth_error / MB;
    mlffprof_report_free(p);
  }
  if (n_found < 98) ck_abort_msg("%s: %d of %d found", guilty[_i].name, n_found, (int) N_TRIALS);
  ck_assert_int_ge(n_covered, 95);
}
END_TEST

/* One array of 30 MB that grew once, at any time but the first and last samples. */
static double large_jump(int k, test_rng *rng)
{
  static int at;
  if (k == 0) at = 3 + test_below(rng, 12);
  return 100 * MB + 30 * MB * (k > at) + 4096 * test_below(rng, 3);
}

/* The verdict is neither leak nor stable. */
START_TEST(a_jump_is_no_verdict)
{
  for (uint64_t seed = 1; seed <= 100; seed++) {
    mlffprof_report *p = report_of(large_jump, 20, 0, seed);
    ck_assert_int_eq(p->memory.verdict, MLFFPROF_VERDICT_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(p->memory.host.reason, "a longer run"));
    mlffprof_report_free(p);
  }
}
END_TEST

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static double ramp(int k, test_rng *rng)
{
  (void) rng;
  return 100 * MB + 1000.0 * k;
}

/* Initial is the first sample after warm-up, peak and series are of the whole run. */
START_TEST(numbers_of_a_ramp)
{
  mlffprof_report *p = report_of(ramp, 100, 190, 1);
  const mlffprof_memory_result *m = &p->memory.host;
  ck_assert_int_eq(m->n, 81);
  near_one(m->initial_bytes, 100 * MB + 19000, 0);
  near_one(m->final_bytes, 100 * MB + 99000, 0);
  near_one(m->delta_bytes, 80000, 0);
  near_one(m->peak_bytes, 100 * MB + 99000, 0);
  near_one(m->growth_per_1000_steps, 1e5, 1e-3);
  ck_assert_int_eq(m->verdict, MLFFPROF_VERDICT_STABLE); /* 80 kB is below what an allocator does by itself */
  ck_assert_int_eq(p->memory.n_points, 100);
  near_one(p->memory.host_bytes[0], 100 * MB, 0);
  ck_assert_int_eq(p->memory.step[99], 990);
  prof_unmeasured(p->memory.device.final_bytes);
  prof_unmeasured(p->memory.device_bytes[5]);
  mlffprof_report_free(p);
}
END_TEST

START_TEST(too_few_samples_for_a_verdict)
{
  for (int n = 0; n < 10; n++) {
    mlffprof_report *p = report_of(large_leak, n, 0, 1);
    ck_assert_int_eq(p->memory.verdict, MLFFPROF_VERDICT_UNKNOWN);
    prof_unmeasured(p->memory.host.growth_per_1000_steps);
    if (n == 0) prof_unmeasured(p->memory.host.initial_bytes);
    mlffprof_report_free(p);
  }
}
END_TEST

/* The device's leak is the verdict, though the host is stable. */
START_TEST(device_leaks)
{
  mlffprof_recorder *r = NULL;
  mlffprof_report *p = NULL;
  double value = 0;
  prof_ok(mlffprof_recorder_create(NULL, &r, &error), error);
  for (int k = 0; k < 200; k++) {
    const mlffprof_memory_sample m = {k, 50000000, 60000000, 1000000000 + 100000 * k, 0, 0};
    prof_ok(mlffprof_recorder_memory(r, &m, &error), error);
  }
  prof_ok(mlffprof_recorder_report(r, &p, &error), error);
  ck_assert_int_eq(p->memory.host.verdict, MLFFPROF_VERDICT_STABLE);
  ck_assert_int_eq(p->memory.verdict, MLFFPROF_VERDICT_LEAK);
  near_one(p->memory.host.peak_bytes, 60000000, 0);
  ck_assert(mlffprof_report_metric(p, "memory_peak_gb", &value));
  near_one(value, 1.0199, 1e-12);
  ck_assert(mlffprof_report_metric(p, "memory_delta_mb", &value));
  near_one(value, 19.9, 1e-9);
  const mlffprof_memory_sample bad = {.host_bytes = -2};
  prof_fails(mlffprof_recorder_memory(r, &bad, &error), error, MLFFPROF_E_ARG, "-2 bytes");
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* The run is not stable if device memory grew in one jump, even if host memory is stable. */
START_TEST(device_jumps)
{
  mlffprof_recorder *r = NULL;
  mlffprof_report *p = NULL;
  prof_ok(mlffprof_recorder_create(NULL, &r, &error), error);
  for (int k = 0; k < 20; k++) {
    const mlffprof_memory_sample m = {k, 50000000, 60000000, 1000000000 + 30000000 * (k > 9), 0, 0};
    prof_ok(mlffprof_recorder_memory(r, &m, &error), error);
  }
  prof_ok(mlffprof_recorder_report(r, &p, &error), error);
  ck_assert_int_eq(p->memory.host.verdict, MLFFPROF_VERDICT_STABLE);
  ck_assert_int_eq(p->memory.device.verdict, MLFFPROF_VERDICT_UNKNOWN);
  ck_assert_int_eq(p->memory.verdict, MLFFPROF_VERDICT_UNKNOWN);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* The helper sees memory that this process takes. */
/* Memory of a reference model is reported without a verdict, because it is not part of the run. */
START_TEST(reference_is_apart)
{
  mlffprof_recorder *r = NULL;
  mlffprof_report *p = NULL;
  prof_ok(mlffprof_recorder_create(NULL, &r, &error), error);
  for (int k = 0; k < N_SAMPLES; k++) {
    const mlffprof_memory_sample m = {k, 100000000, 110000000, 200000000, 14000000 + 1000000 * (int64_t) k, 0};
    prof_ok(mlffprof_recorder_memory(r, &m, &error), error);
  }
  const mlffprof_memory_sample bad = {.step = 1, .host_reference_bytes = -1};
  prof_fails(mlffprof_recorder_memory(r, &bad, &error), error, MLFFPROF_E_ARG, "the reference has -1 bytes");
  prof_ok(mlffprof_recorder_report(r, &p, &error), error);
  near_one(p->memory.host.reference_bytes, 14e6 + 1e6 * (N_SAMPLES - 1), 0);
  prof_unmeasured(p->memory.device.reference_bytes);
  near_one(p->memory.host.final_bytes, 1e8, 0);
  near_one(p->memory.host.peak_bytes, 1.1e8, 0);
  ck_assert_int_eq(p->memory.verdict, MLFFPROF_VERDICT_STABLE);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

START_TEST(host_memory_is_read)
{
  enum { SIZE = 64 << 20 };
  int64_t before = 0, after = 0, peak = 0;
  prof_ok(mlffprof_host_memory(&before, NULL, &error), error);
  char *block = malloc(SIZE);
  ck_assert_ptr_nonnull(block);
  memset(block, 1 + (int) (before & 1), SIZE);
  prof_ok(mlffprof_host_memory(&after, &peak, &error), error);
  ck_assert_int_ge(after - before, SIZE / 10 * 9);
  ck_assert_int_ge(peak, after);
  ck_assert_int_eq(block[SIZE / 2] > 0, 1);
  free(block);
}
END_TEST

/* Recording itself takes no memory after creation: 200,000 steps and 20,000 samples stay below what a verdict calls
 * noise (sanitizers take some for their own books). */
START_TEST(recording_takes_no_memory)
{
  mlffprof_recorder *r = NULL;
  int64_t before = 0, after = 0;
  prof_ok(mlffprof_recorder_create(NULL, &r, &error), error);
  for (int k = 0; k < 200000; k++) {
    const mlffprof_step step = {.step = k, .seconds = 1e-3 + 1e-9 * (k % 997)};
    const mlffprof_energy_sample e = {.step = k, .time_ps = k, .has = 1u << MLFFPROF_TOTAL, .value = {0, 0, -5}};
    const mlffprof_memory_sample m = {k, 1000, 1000, 1000, 0, 0};
    if (k == 1000) mlffprof_host_memory(&before, NULL, NULL);
    if (mlffprof_recorder_step(r, &step, NULL)) ck_abort();
    if (k % 10 == 0 && (mlffprof_recorder_energy(r, &e, NULL) || mlffprof_recorder_memory(r, &m, NULL))) ck_abort();
  }
  mlffprof_host_memory(&after, NULL, NULL);
  ck_assert_int_le(after - before, 131072);
  mlffprof_recorder_free(r);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("prof_memory");
  TCase *t = tcase_create("memory");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, innocent_runs_are_not_accused, 0, N_INNOCENT);
  tcase_add_loop_test(t, leaks_are_found, 0, 3);
  tcase_add_test(t, a_jump_is_no_verdict);
  tcase_add_test(t, numbers_of_a_ramp);
  tcase_add_test(t, too_few_samples_for_a_verdict);
  tcase_add_test(t, device_leaks);
  tcase_add_test(t, device_jumps);
  tcase_add_test(t, reference_is_apart);
  tcase_add_test(t, host_memory_is_read);
  tcase_add_test(t, recording_takes_no_memory);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
