/* test_prof_recorder.c: steps, warm-up, tags, components, ranks, bounds on memory, context, timing a function. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */

#include "profsample.h"

#include "mlffprof/recorder/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mlffprof_error error;

static mlffprof_recorder *recorder_of(mlffprof_options options)
{
  mlffprof_recorder *r = NULL;
  prof_ok(mlffprof_recorder_create(&options, &r, &error), error);
  return r;
}

static void add(mlffprof_recorder *r, int64_t step, double seconds, unsigned tags)
{
  const mlffprof_step s = {.step = step, .seconds = seconds, .tags = tags};
  prof_ok(mlffprof_recorder_step(r, &s, &error), error);
}

/* Steps of 1..100 ms: everything has a closed form. */
START_TEST(closed_forms)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.n_atoms = 50});
  for (int k = 1; k <= 100; k++) {
    const mlffprof_step s = {.step = k, .seconds = 1e-3 * k, .dt_ps = 0.002};
    prof_ok(mlffprof_recorder_step(r, &s, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  near_one(p->latency.mean, 50.5, 1e-10);
  near_one(p->latency.median, 50.5, 1e-10);
  near_one(p->latency.std, sqrt(100 * 101 / 12.0), 1e-10);
  near_one(p->latency.p95, 95.05, 1e-10);
  near_one(p->latency.p99, 99.01, 1e-10);
  near_one(p->latency.min, 1, 1e-12);
  near_one(p->latency.max, 100, 1e-12);
  near_one(p->latency.cv, sqrt(100 * 101 / 12.0) / 50.5, 1e-12);
  near_one(p->total_time_s, 5.05, 1e-12);
  near_one(p->steps_per_second, 100 / 5.05, 1e-10);
  near_one(p->us_per_atom, 1e3 * 50.5 / 50, 1e-9);
  near_one(p->ns_per_day, 0.2e-3 / 5.05 * 86400, 1e-10);
  ck_assert_int_eq(p->n_latencies, 100);
  ck_assert_int_eq(p->n_slow, 0);
  ck_assert(p->quantiles_exact);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* With 0, 1 and 2 steps what is not defined is NaN, never 0. */
START_TEST(few_steps)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.name = NULL});
  for (int n = 0; n <= 2; n++) {
    mlffprof_report *p = prof_finish(r);
    const mlffprof_stats *s = &p->latency;
    ck_assert_int_eq(p->n_steps, n);
    if (n == 0) {
      prof_unmeasured(s->mean);
      prof_unmeasured(s->median);
      prof_unmeasured(s->p99);
      prof_unmeasured(p->total_time_s);
      prof_unmeasured(p->steps_per_second);
      prof_unmeasured(p->slow_share);
    } else {
      near_one(s->median, n == 1 ? 2 : 3, 1e-12);
    }
    if (n < 2) prof_unmeasured(s->std);
    prof_unmeasured(p->us_per_atom);
    prof_unmeasured(p->ns_per_day);
    prof_unmeasured(p->drift);
    prof_unmeasured(p->forces_time_ms);
    prof_unmeasured(p->memory.host.final_bytes);
    ck_assert_ptr_null(p->drift_of);
    ck_assert_int_eq(p->n_atoms, MLFFPROF_UNKNOWN);
    ck_assert_int_eq(p->memory.verdict, MLFFPROF_VERDICT_UNKNOWN);
    mlffprof_report_free(p);
    add(r, n, n ? 4e-3 : 2e-3, 0);
  }
  mlffprof_recorder_free(r);
}
END_TEST

START_TEST(warmup_is_left_out)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.n_warmup = 10});
  for (int k = 0; k < 30; k++) add(r, k, k < 10 ? 1.0 : 1e-3, 0);
  prof_ok(mlffprof_recorder_warmup(r, 5, &error), error); /* a second run */
  for (int k = 30; k < 40; k++) add(r, k, k < 35 ? 1.0 : 1e-3, 0);
  mlffprof_report *p = prof_finish(r);
  ck_assert_int_eq(p->n_warmup, 15);
  ck_assert_int_eq(p->n_steps, 25);
  near_one(p->latency.max, 1, 1e-12);
  near_one(p->warmup.mean, 1000, 1e-9);
  for (int k = 0; k < p->n_slow_steps; k++) ck_assert_double_lt(p->slow_steps[k].latency_ms, 2);
  prof_fails(mlffprof_recorder_warmup(r, -1, &error), error, MLFFPROF_E_ARG, "-1");
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* Planted slow steps are listed slowest first, with their own tags and ranks. */
START_TEST(slow_steps_have_their_tags)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.n_ranks = 4, .n_slow_steps = 3});
  for (int k = 0; k < 1000; k++) {
    mlffprof_step s = {.step = k, .seconds = 1e-3, .slowest_rank = k % 8 ? 0 : 2};
    if (k == 123) s.seconds = 30e-3, s.tags = MLFFPROF_TAG_BUFFER_GROWTH | MLFFPROF_TAG_OUTPUT, s.slowest_rank = 3;
    if (k == 777) s.seconds = 50e-3, s.tags = MLFFPROF_TAG_NEIGHBOR_REBUILD;
    if (k == 900) s.seconds = 20e-3;
    if (k == 901) s.seconds = 1.5e-3, s.tags = MLFFPROF_TAG_OUTPUT;
    prof_ok(mlffprof_recorder_step(r, &s, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  const int64_t steps[] = {777, 123, 900};
  const unsigned tags[] = {MLFFPROF_TAG_NEIGHBOR_REBUILD, MLFFPROF_TAG_BUFFER_GROWTH | MLFFPROF_TAG_OUTPUT, 0};
  ck_assert_int_eq(p->n_slow_steps, 3);
  for (int k = 0; k < 3; k++) {
    ck_assert_int_eq(p->slow_steps[k].step, steps[k]);
    ck_assert_uint_eq(p->slow_steps[k].tags, tags[k]);
  }
  near_one(p->slow_steps[0].times_median, 50, 1e-9);
  ck_assert_int_eq(p->slow_steps[1].slowest_rank, 3);
  ck_assert_int_eq(p->n_slow, 3);
  near_one(p->slow_share, 0.100 / 1.0975, 1e-3); /* of the sketch */
  ck_assert_int_eq(p->n_tags, 4);
  ck_assert_str_eq(p->tags[0].name, "neighbor_rebuild");
  ck_assert_str_eq(p->tags[2].name, "output");
  ck_assert_int_eq(p->tags[2].n_steps, 2);
  near_one(p->tags[2].mean_latency_ms, 15.75, 1e-9);
  near_one(p->tags[2].share, 0.0315 / 1.0975, 1e-9);
  ck_assert_str_eq(p->tags[3].name, "untagged");
  ck_assert_int_eq(p->tags[3].n_steps, 997);
  ck_assert_int_eq(p->n_slowest_ranks, 3);
  ck_assert_int_eq(p->slowest_rank[0], 0);
  ck_assert_int_eq(p->slowest_rank[1], 2);
  ck_assert_int_eq(p->slowest_rank_steps[2], 1);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

static const mlffprof_component tree[] = {{"pair", NULL, MLFFPROF_ROLE_NONE},
                                          {"a", "pair", MLFFPROF_ROLE_FORCES},
                                          {"b", "pair", MLFFPROF_ROLE_FORCES},
                                          {"neigh", NULL, MLFFPROF_ROLE_STRESS}};

START_TEST(components_make_a_tree)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.components = tree, .n_components = 4});
  const double with[] = {6e-3, 3e-3, 1e-3, 2e-3}, without[] = {6e-3, 3e-3, NAN, 0};
  for (int k = 0; k < 10; k++) {
    const mlffprof_step s = {.step = k, .seconds = 1e-2, .components = k == 9 ? NULL : k % 2 ? without : with};
    prof_ok(mlffprof_recorder_step(r, &s, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  const mlffprof_component_result *c = p->components;
  ck_assert_int_eq(p->n_components, 5);
  ck_assert_str_eq(c[4].name, "other");
  ck_assert_int_eq(c[0].n, 9);
  ck_assert_int_eq(c[2].n, 5);
  near_one(c[0].share, 0.6, 1e-12);
  near_one(c[2].mean_ms, 1, 1e-12);
  near_one(c[3].mean_ms, 2 * 5.0 / 9, 1e-12);
  near_one(c[0].share + c[3].share + c[4].share, 1, 1e-12);
  near_one(p->forces_time_ms, 4, 1e-12);
  near_one(p->stress_time_ms, 10.0 / 9, 1e-12);
  prof_unmeasured(p->energy_time_ms);
  ck_assert_str_eq(c[1].parent, "pair");
  ck_assert_ptr_null(c[3].parent);
  /* hotspots: above a tenth, largest first, with advice */
  ck_assert_str_eq(p->hotspots[0].component, "pair");
  ck_assert_ptr_nonnull(strstr(p->hotspots[0].advice, "'a'"));
  for (int k = 0; k < p->n_hotspots; k++) ck_assert_double_gt(p->hotspots[k].share, 0.1);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* Work of components is that of the steps in which they were measured; explain sorts what would help by gain. */
START_TEST(work_is_explained)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.components = tree, .n_components = 4, .device = "cpu"});
  const double seconds[] = {6e-3, 3e-3, 1e-3, 4e-3}, flop[] = {0, 9e6, 0, 0}, bytes[] = {0, 6e6, 3e6, 0};
  const double none[] = {0, NAN, 0, 0}, negative[] = {0, -1, 0, 0};
  mlffprof_step s = {.seconds = 1e-2, .components = seconds, .flop = none, .bytes = bytes};
  ck_assert_int_eq(mlffprof_recorder_step(r, &s, &error), MLFFPROF_E_ARG);
  s.flop = flop;
  s.bytes = negative;
  ck_assert_int_eq(mlffprof_recorder_step(r, &s, &error), MLFFPROF_E_ARG);
  s.bytes = bytes;
  s.tags = MLFFPROF_TAG_NEIGHBOR_REBUILD;
  for (s.step = 0; s.step < 10; s.step++) prof_ok(mlffprof_recorder_step(r, &s, &error), error);
  mlffprof_recorder_context(r, "kernels", "generic", NULL);
  mlffprof_recorder_context(r, "kernels_here", "avx512", NULL);
  mlffprof_recorder_context(r, "precision", "fp32", NULL);
  mlffprof_report *p = prof_finish(r);
  prof_unmeasured(p->components[0].gflop);
  near_one(p->components[1].gflop, 9e-3, 1e-12);
  near_one(p->components[2].gbyte, 3e-3, 1e-12);
  const mlffprof_roof roof = {.gflops = 6, .cache_gbs = 4, .memory_gbs = 1, .source = "a test"};
  char text[8192] = "";
  for (int as_json = 0; as_json < 2; as_json++) {
    FILE *out = fmemopen(text, sizeof text, "w");
    prof_ok(mlffprof_explain(p, &roof, as_json, out, &error), error);
    fclose(out);
    /* 3 GFLOP/s of 6, 2 GB/s of 4; 3 GB/s of 4. Kernels make 1.76 of it, lists, rebuilt in each step, 1.61. */
    ck_assert_ptr_nonnull(strstr(text, as_json ? "\"gflops\": 3" : "3.0       2.0       50%"));
    ck_assert_ptr_nonnull(strstr(text, as_json ? "\"share_of_core\": 0.7" : "3.0       75%"));
    const char *first = strstr(text, "this processor supports avx512"), *second = strstr(text, "rebuilt in 100 %");
    ck_assert(first && second && first < second);
    ck_assert_ptr_nonnull(strstr(text, as_json ? "\"gain\": 1.76" : "up to 1.76x: pair, 60 %"));
  }
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* Advice quotes what was recorded: lists are rebuilt often here, and seldom there. */
START_TEST(advice_is_about_this_run)
{
  static const mlffprof_component parts[] = {{"neigh", NULL, MLFFPROF_ROLE_NONE}, {"comm", NULL, MLFFPROF_ROLE_NONE}};
  const double seconds[] = {0.5e-3, 0.3e-3};
  for (int every = 2; every <= 200; every *= 100) {
    mlffprof_recorder *r =
        recorder_of((mlffprof_options){.components = parts, .n_components = 2, .n_ranks = 4, .n_atoms = 400});
    for (int k = 0; k < 1000; k++) {
      const mlffprof_step s = {.step = k,
                               .seconds = 1e-3,
                               .components = seconds,
                               .tags = k % every ? 0 : MLFFPROF_TAG_NEIGHBOR_REBUILD};
      prof_ok(mlffprof_recorder_step(r, &s, &error), error);
    }
    mlffprof_report *p = prof_finish(r);
    ck_assert_ptr_nonnull(strstr(p->hotspots[0].advice, every == 2 ? "50 % of the steps" : "only 0.5 %"));
    ck_assert_ptr_nonnull(strstr(p->hotspots[0].advice, every == 2 ? "larger" : "smaller"));
    ck_assert_ptr_nonnull(strstr(p->hotspots[1].advice, "4 ranks with 100 atoms"));
    mlffprof_report_free(p);
    mlffprof_recorder_free(r);
  }
}
END_TEST

/* Where ranks wait for each other, the advice is about balance and names the rank. */
START_TEST(advice_is_about_balance)
{
  static const mlffprof_component parts[] = {{"comm", NULL, MLFFPROF_ROLE_NONE}};
  const double seconds[] = {0.6e-3};
  mlffprof_recorder *r =
      recorder_of((mlffprof_options){.components = parts, .n_components = 1, .n_ranks = 4, .n_atoms = 400});
  for (int k = 0; k < 100; k++) {
    const mlffprof_step s = {.step = k,
                             .seconds = 1e-3,
                             .components = seconds,
                             .tags = k % 2 ? MLFFPROF_TAG_OTHER_RANK : 0,
                             .slowest_rank = k % 4 ? 2 : 1};
    prof_ok(mlffprof_recorder_step(r, &s, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  ck_assert_int_eq(p->n_hotspots, 2); /* comm and other */
  for (int k = 0; k < 2; k++)
    ck_assert_ptr_nonnull(strstr(p->hotspots[k].advice, "in 50 % of the steps, for rank 2 in 75 %: balance"));
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* Four ranks that work 0.9 ms at most and 0.5 ms on average of a step of 1 ms. */
static mlffprof_report *uneven_report(double busy_mean, int64_t atoms_most)
{
  static const mlffprof_component parts[] = {{"pair", NULL, MLFFPROF_ROLE_NONE}};
  const double seconds[] = {0.5e-3};
  mlffprof_recorder *r =
      recorder_of((mlffprof_options){.components = parts, .n_components = 1, .n_ranks = 4, .n_atoms = 400});
  for (int k = 0; k < 100; k++) {
    const mlffprof_step s = {.step = k,
                             .seconds = 1e-3,
                             .components = seconds,
                             .slowest_rank = k % 10 ? 3 : 1,
                             .busy_most = 0.9e-3,
                             .busy_mean = busy_mean,
                             .atoms_most = atoms_most};
    prof_ok(mlffprof_recorder_step(r, &s, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  mlffprof_recorder_free(r);
  return p;
}

static const char *advice_on(const mlffprof_report *p, const char *component)
{
  for (int k = 0; k < p->n_hotspots; k++)
    if (!strcmp(p->hotspots[k].component, component)) return p->hotspots[k].advice;
  return NULL;
}

/* A rank with more atoms asks for another division of the box, one whose atoms cost more for one by time; where all are
 * about equal, there is no such hotspot. */
START_TEST(advice_tells_atoms_from_time)
{
  mlffprof_report *more = uneven_report(0.5e-3, 170), *slower = uneven_report(0.5e-3, 104);
  mlffprof_report *even = uneven_report(0.82e-3, 104), *unknown = uneven_report(0.5e-3, 0);
  near_one(more->balance.imbalance, 1.8, 1e-12);
  near_one(more->balance.waiting, 0.4, 1e-12);
  near_one(more->balance.atoms_imbalance, 1.7, 1e-12);
  near_one(more->balance.busy_most_ms, 0.9, 1e-12);
  near_one(more->balance.busy_mean_ms, 0.5, 1e-12);
  ck_assert_int_eq(more->balance.n, 100);
  const char *text = advice_on(more, "imbalance");
  ck_assert_ptr_nonnull(strstr(text, "rank 3 in 90 % of the steps, works 1.80 times as long as the mean, with 1.70"));
  ck_assert_ptr_nonnull(strstr(text, "balance 1.05 shift"));
  ck_assert_ptr_null(strstr(text, "weight time"));
  ck_assert_ptr_nonnull(strstr(advice_on(slower, "imbalance"), "weight time"));
  ck_assert_ptr_nonnull(strstr(advice_on(slower, "imbalance"), "with 1.04 times the atoms"));
  ck_assert_ptr_null(advice_on(even, "imbalance"));
  near_one(even->balance.waiting, 0.08, 1e-12);
  prof_unmeasured(unknown->balance.atoms_imbalance);
  ck_assert_ptr_nonnull(strstr(advice_on(unknown, "imbalance"), "weight time"));
  ck_assert_ptr_null(strstr(advice_on(unknown, "imbalance"), "times the atoms"));
  mlffprof_report_free(more);
  mlffprof_report_free(slower);
  mlffprof_report_free(even);
  mlffprof_report_free(unknown);
}
END_TEST

/* A run of one component `dense` with what the context says; every `every`-th step takes ten times as long and has the
 * tag; memory grows by so many bytes a step. */
static mlffprof_report *planted(const char *key, const char *value, int every, unsigned tag, int64_t grows)
{
  static const mlffprof_component parts[] = {{"dense", NULL, MLFFPROF_ROLE_NONE}};
  mlffprof_recorder *r = recorder_of((mlffprof_options){.components = parts, .n_components = 1, .n_atoms = 400});
  prof_ok(mlffprof_recorder_names(r, "planted", "model", "cpu", NULL, &error), error);
  if (key) prof_ok(mlffprof_recorder_context(r, key, value, &error), error);
  for (int k = 0; k < 400; k++) {
    const int slow = every && k % every == 0;
    const double seconds = (slow ? 10e-3 : 1e-3) * (1 + 1e-3 * (k % 7)), part = 0.5 * seconds;
    const mlffprof_step s = {.step = k, .seconds = seconds, .components = &part, .tags = slow ? tag : 0};
    prof_ok(mlffprof_recorder_step(r, &s, &error), error);
    const mlffprof_memory_sample m = {.step = k,
                                      .host_bytes = 50000000 + grows * k,
                                      .host_peak_bytes = MLFFPROF_UNKNOWN,
                                      .device_bytes = MLFFPROF_UNKNOWN};
    prof_ok(mlffprof_recorder_memory(r, &m, &error), error);
  }
  mlffprof_report *p = prof_finish(r);
  mlffprof_recorder_free(r);
  return p;
}

/* Each planted cause is named, with its own help, and nothing is named where nothing was planted. */
START_TEST(advice_names_the_cause)
{
  static const struct {
    const char *key, *value;
    int every;
    unsigned tag;
    int64_t grows;
    const char *hotspot, *says;
  } cases[] = {{"kernels", "generic", 0, 0, 0, "dense", "remove the keyword kernels"},
               {"precision", "fp64", 0, 0, 0, "dense", "fp32 takes about half"},
               {"precision", "mixed", 0, 0, 0, "dense", "fp32 is faster on a processor without AMX"},
               {"precision", "fp32", 0, 0, 0, "dense", "single precision: only a model with fewer features"},
               {NULL, NULL, 10, MLFFPROF_TAG_NEIGHBOR_REBUILD, 0, "spread", "with neighbor_rebuild take 10.0 times"},
               {NULL, NULL, 10, MLFFPROF_TAG_OUTPUT, 0, "spread", "larger intervals of thermo, dump and restart"},
               {NULL, NULL, 10, 0, 0, "spread", "other programs on the machine"},
               {NULL, NULL, 0, 0, 100000, "memory", "memory of the host grew by"}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    mlffprof_report *p = planted(cases[k].key, cases[k].value, cases[k].every, cases[k].tag, cases[k].grows);
    const char *text = advice_on(p, cases[k].hotspot);
    if (!text || !strstr(text, cases[k].says)) ck_abort_msg("%s: '%s'", cases[k].says, text ? text : "nothing");
    ck_assert_int_eq(advice_on(p, "spread") != NULL, cases[k].every > 0);
    ck_assert_int_eq(advice_on(p, "memory") != NULL, cases[k].grows > 0);
    for (int h = 0; h < p->n_hotspots; h++) ck_assert(p->hotspots[h].share > 0 && p->hotspots[h].share <= 1);
    ck_assert_ptr_null(strstr(advice_on(p, "dense"), "lower precision"));
    mlffprof_report_free(p);
  }
}
END_TEST

/* Half of a step in products of so many operations for an atom, in single precision or mixed, where `mixed_here` names
 * what the processor has for mixed. */
static mlffprof_report *products(double mflop, const char *precision, const char *mixed_here)
{
  static const mlffprof_component parts[] = {{"pair", NULL, MLFFPROF_ROLE_NONE}, {"dense", "pair", MLFFPROF_ROLE_NONE}};
  enum { N_ATOMS = 100 };
  mlffprof_recorder *r =
      recorder_of((mlffprof_options){.components = parts, .n_components = 2, .n_atoms = N_ATOMS, .device = "cpu"});
  const double seconds[] = {0.8e-2, 0.5e-2}, flop[] = {0, N_ATOMS * 1e6 * mflop}, bytes[] = {0, 1e6};
  mlffprof_step s = {.seconds = 1e-2, .components = seconds, .flop = flop, .bytes = bytes};
  for (; s.step < 10; s.step++) prof_ok(mlffprof_recorder_step(r, &s, &error), error);
  mlffprof_recorder_context(r, "precision", precision, NULL);
  mlffprof_recorder_context(r, "kernels", strcmp(precision, "mixed") ? "avx512" : mixed_here, NULL);
  mlffprof_recorder_context(r, "kernels_here_mixed", mixed_here, NULL);
  mlffprof_report *p = prof_finish(r);
  mlffprof_recorder_free(r);
  return p;
}

/* Precision mixed is advised with AMX and for products that are large enough to gain by it, and nowhere else. */
START_TEST(mixed_is_advised_where_it_pays)
{
  static const struct {
    double mflop;
    const char *precision, *mixed_here, *says;
    double gain;
  } cases[] = {{4, "fp32", "amx", "precision mixed makes them up to 1.8 times as fast", 1 / (1 - 0.5 * (1 - 1 / 1.8))},
               {1, "fp32", "amx", "single precision: only a model with fewer features", NAN},
               {4, "fp32", "avx512_bf16", "single precision: only a model with fewer features", NAN},
               {4, "mixed", "amx", "mixed and AMX: only a model with fewer features", NAN},
               {4, "mixed", "avx512_bf16", "fp32 is faster", 1 / (1 - 0.8 * (1 - 1 / 1.3))}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    mlffprof_report *p = products(cases[k].mflop, cases[k].precision, cases[k].mixed_here);
    const char *text = advice_on(p, "dense");
    if (!text || !strstr(text, cases[k].says)) ck_abort_msg("%s: '%s'", cases[k].says, text ? text : "nothing");
    ck_assert_str_eq(p->hotspots[0].component, "pair");
    if (isnan(cases[k].gain))
      prof_unmeasured(p->hotspots[0].gain);
    else
      near_one(p->hotspots[0].gain, cases[k].gain, 1e-12);
    mlffprof_report_free(p);
  }
}
END_TEST

/* Beyond the exact limit: quantiles within the bound, moments exact, latencies thinned out evenly, memory bounded. */
START_TEST(long_runs_are_bounded)
{
  enum { N = 50000 };
  mlffprof_recorder *r = recorder_of((mlffprof_options){.n_exact = 1000, .n_latencies = 300});
  double *ms = malloc(N * sizeof *ms), sum = 0;
  test_rng rng = {3};
  for (int k = 0; k < N; k++) {
    ms[k] = exp(0.5 * test_normal(&rng));
    sum += ms[k];
    add(r, k, 1e-3 * ms[k], 0);
  }
  mlffprof_report *p = prof_finish(r);
  ck_assert(!p->quantiles_exact);
  ck_assert_int_le(p->n_latencies, 300);
  ck_assert_int_ge(p->n_latencies, 100);
  for (int k = 0; k < p->n_latencies; k++) near_one(p->latencies_ms[k], ms[k * p->latencies_stride], 1e-12);
  near_one(p->latency.mean, sum / N, 1e-9);
  mlffprof_sort(ms, N);
  const double got[] = {p->latency.median, p->latency.p95, p->latency.p99}, q[] = {0.5, 0.95, 0.99};
  for (int k = 0; k < 3; k++) {
    const double exact = mlffprof_quantile(ms, N, q[k]);
    near_one(got[k], exact, p->quantile_error * exact * (1 + 1e-9));
  }
  near_one(p->quantile_error, 0.005, 1e-15);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
  free(ms);
}
END_TEST

/* What is refused, and changes nothing. */
START_TEST(bad_steps)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.components = tree, .n_components = 4, .n_ranks = 2});
  const double negative[] = {0, 0, -1, 0};
  const mlffprof_step bad[] = {{.seconds = -1e-9},
                               {.seconds = NAN},
                               {.seconds = INFINITY},
                               {.seconds = 1, .dt_ps = NAN},
                               {.seconds = 1, .n_atoms = -5},
                               {.seconds = 1, .tags = 1u << MLFFPROF_N_TAGS},
                               {.seconds = 1, .slowest_rank = 2},
                               {.seconds = 1, .components = negative}};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
    prof_fails(mlffprof_recorder_step(r, &bad[k], &error), error, MLFFPROF_E_ARG, "step 0");
  mlffprof_report *p = prof_finish(r);
  ck_assert_int_eq(p->n_steps, 0);
  ck_assert_int_eq(p->components[2].n, 0);
  prof_unmeasured(p->components[2].mean_ms);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

START_TEST(bad_options)
{
  static const mlffprof_component twice[] = {{"a", NULL, 0}, {"a", NULL, 0}},
                                  orphan[] = {{"a", "b", 0}, {"b", NULL, 0}}, nameless[] = {{"", NULL, 0}},
                                  other[] = {{"other", NULL, 0}};
  mlffprof_recorder *r = NULL;
  const struct {
    mlffprof_options options;
    const char *text;
  } bad[] = {{{.n_warmup = -1}, "n_warmup is -1"},
             {{.n_series = -2}, "n_series"},
             {{.n_components = 65, .components = twice}, "0 to 64"},
             {{.n_components = 2, .components = twice}, "'a' is there twice"},
             {{.n_components = 2, .components = orphan}, "'b' of component 'a'"},
             {{.n_components = 1, .components = nameless}, "no name"},
             {{.n_components = 1, .components = other}, "'other'"},
             {{.n_components = 1}, "NULL"},
             {{.n_elements = 1}, "element 0"},
             {{.memory_tolerance_mb = NAN}, "not a number"}};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    prof_fails(mlffprof_recorder_create(&bad[k].options, &r, &error), error, MLFFPROF_E_ARG, bad[k].text);
    ck_assert_ptr_null(r);
  }
  prof_ok(mlffprof_recorder_create(NULL, &r, NULL), error); /* no options, no error: fine */
  mlffprof_recorder_free(r);
  mlffprof_recorder_free(NULL);
  mlffprof_report_free(NULL);
}
END_TEST

START_TEST(summary_is_the_report)
{
  mlffprof_recorder *r = prof_sample_recorder(2000);
  mlffprof_report *p = prof_finish(r);
  mlffprof_summary s;
  mlffprof_recorder_summary(r, &s);
  ck_assert_int_eq(s.n_steps, p->n_steps);
  near_one(s.mean_ms, p->latency.mean, 1e-12);
  near_one(s.median_ms, p->latency.median, 0.005 * p->latency.median);
  near_one(s.p99_ms, p->latency.p99, 0.005 * p->latency.p99);
  near_one(s.us_per_atom, p->us_per_atom, 1e-12);
  near_one(s.drift, p->drift, 1e-15);
  near_one(s.drift_percent, p->energy.value[MLFFPROF_CONSERVED].drift_percent, 1e-12);
  near_one(s.host_growth_mb, p->memory.host.delta_bytes / 1e6, 1e-12);
  near_one(s.device_mb, 2000, 1e-9);
  near_one(s.force_rmse, 0.03, 0);
  near_one(s.stress_rmse, 0.05, 0);
  near_one(s.pressure_error, -120, 0);
  ck_assert(s.finite && !s.exploded);
  int finite = 0;
  ck_assert(!mlffprof_recorder_exploded(r, &finite) && finite && !mlffprof_recorder_exploded(r, NULL));
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

START_TEST(context_keys)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.name = "x"});
  static const char *const bad[] = {"", "/a", "a/", "a//b", "a/b/c/d/e"};
  char key[200];
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
    prof_fails(mlffprof_recorder_context(r, bad[k], "v", &error), error, MLFFPROF_E_ARG, "cannot be a key");
  memset(key, 'k', sizeof key);
  key[sizeof key - 1] = 0;
  prof_fails(mlffprof_recorder_context(r, key, "v", &error), error, MLFFPROF_E_ARG, "1 to 100 bytes");
  prof_ok(mlffprof_recorder_context(r, "a/b", "1", &error), error);
  prof_fails(mlffprof_recorder_context(r, "a", "v", &error), error, MLFFPROF_E_ARG, "cannot both");
  prof_fails(mlffprof_recorder_context(r, "a/b/c", "v", &error), error, MLFFPROF_E_ARG, "cannot both");
  prof_ok(mlffprof_recorder_context(r, "a/bb", "2", &error), error);
  prof_ok(mlffprof_recorder_context_number(r, "a/b", 3, &error), error); /* replaces */
  mlffprof_report *p = prof_finish(r);
  ck_assert_int_eq(p->n_context, 2);
  ck_assert_ptr_null(p->context[0].text);
  near_one(p->context[0].number, 3, 0);
  for (int k = 0; k < 498; k++) {
    snprintf(key, sizeof key, "n%d", k);
    prof_ok(mlffprof_recorder_context(r, key, "v", &error), error);
  }
  prof_fails(mlffprof_recorder_context(r, "more", "v", &error), error, MLFFPROF_E_ARG, "more than 500");
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

static int count_calls(void *user)
{
  int *n = user;
  ++*n;
  const double until = mlffprof_seconds() + 2e-4;
  while (mlffprof_seconds() < until) continue;
  return *n == 50 ? 9 : 0;
}

START_TEST(times_a_function)
{
  mlffprof_recorder *r = recorder_of((mlffprof_options){.n_warmup = 5});
  int n = 0;
  prof_ok(mlffprof_recorder_time(r, count_calls, &n, 30, 3, &error), error);
  ck_assert_int_eq(n, 35);
  mlffprof_report *p = prof_finish(r);
  ck_assert_int_eq(p->n_steps, 30);
  ck_assert_int_eq(p->n_warmup, 5);
  ck_assert_double_ge(p->latency.min, 0.2);
  ck_assert_int_ge(p->memory.host.n, 9);
  ck_assert_double_gt(p->memory.host.peak_bytes, 1e6);
  prof_fails(mlffprof_recorder_time(r, count_calls, &n, 30, 0, &error), error, MLFFPROF_E_ARG, "returned 9 in call 14");
  prof_fails(mlffprof_recorder_time(r, NULL, &n, 30, 0, &error), error, MLFFPROF_E_ARG, "no function");
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* All texts of the options are copied, and can be changed later. */
START_TEST(names_can_change)
{
  char name[] = "first";
  mlffprof_recorder *r = recorder_of((mlffprof_options){.name = name, .timestamp = "2025-11-23 10:30:00"});
  name[0] = 'x';
  prof_ok(mlffprof_recorder_names(r, NULL, "model", NULL, "note", &error), error);
  mlffprof_report *p = prof_finish(r);
  ck_assert_str_eq(p->name, "first");
  ck_assert_str_eq(p->model_name, "model");
  ck_assert_str_eq(p->timestamp, "2025-11-23 10:30:00");
  ck_assert_ptr_null(p->device);
  mlffprof_report_free(p);
  mlffprof_recorder_free(r);
}
END_TEST

/* The cost of a step is far below a microsecond; ten times that is allowed for slow machines and sanitizers. */
START_TEST(steps_are_cheap)
{
  enum { N = 200000 };
  mlffprof_recorder *r = recorder_of((mlffprof_options){.n_warmup = 0});
  const double start = mlffprof_seconds();
  for (int k = 0; k < N; k++) {
    const mlffprof_step s = {.step = k, .seconds = 1e-3 + 1e-9 * (k % 1000)};
    if (mlffprof_recorder_step(r, &s, NULL)) ck_abort();
  }
  const double each = (mlffprof_seconds() - start) / N;
  ck_assert_double_lt(each, 10e-6);
  mlffprof_recorder_free(r);
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("prof_recorder");
  TCase *t = tcase_create("recorder");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, closed_forms);
  tcase_add_test(t, few_steps);
  tcase_add_test(t, warmup_is_left_out);
  tcase_add_test(t, slow_steps_have_their_tags);
  tcase_add_test(t, components_make_a_tree);
  tcase_add_test(t, work_is_explained);
  tcase_add_test(t, advice_is_about_this_run);
  tcase_add_test(t, advice_is_about_balance);
  tcase_add_test(t, advice_tells_atoms_from_time);
  tcase_add_test(t, advice_names_the_cause);
  tcase_add_test(t, mixed_is_advised_where_it_pays);
  tcase_add_test(t, long_runs_are_bounded);
  tcase_add_test(t, bad_steps);
  tcase_add_test(t, bad_options);
  tcase_add_test(t, summary_is_the_report);
  tcase_add_test(t, context_keys);
  tcase_add_test(t, times_a_function);
  tcase_add_test(t, names_can_change);
  tcase_add_test(t, steps_are_cheap);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
