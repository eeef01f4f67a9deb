/* profsample.c: see profsample.h. */
#include "profsample.h"

#include <math.h>
#include <stdlib.h>

/* Ends the program: also used where no Check runner is. */
static void must(mlffprof_status status, const mlffprof_error *error)
{
  if (!status) return;
  fprintf(stderr, "%s: %s\n", mlffprof_status_name(status), error->text);
  exit(1);
}

static const mlffprof_component parts[] = {{"pair", NULL, MLFFPROF_ROLE_NONE},
                                           {"message", "pair", MLFFPROF_ROLE_ENERGY},
                                           {"forces", "pair", MLFFPROF_ROLE_FORCES},
                                           {"neigh", NULL, MLFFPROF_ROLE_NONE}};
static const char *const elements[] = {"H", "O"};

static void add_step(mlffprof_recorder *r, int k, test_rng *rng)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  const int rebuild = k % 20 == 0, grown = k == 777;
  const double t = 1e-3 * (1 + 0.05 * test_uniform(rng, 0, 1)) * (rebuild ? 1.5 : 1) * (grown ? 9 : 1);
  const double seconds[] = {0.8 * t, 0.5 * t, 0.2 * t, rebuild ? 0.12 * t : 0};
  const unsigned tags = (rebuild ? MLFFPROF_TAG_NEIGHBOR_REBUILD : 0) | (grown ? MLFFPROF_TAG_BUFFER_GROWTH : 0);
  const mlffprof_step step = {.step = k,
                              .seconds = t,
                              .dt_ps = 5e-4,
                              .tags = tags,
                              .slowest_rank = k % 3 == 0,
                              .components = seconds,
                              .busy_most = 0.8 * t,
                              .busy_mean = 0.6 * t,
                              .atoms_most = 110};
  must(mlffprof_recorder_step(r, &step, &error), &error);
}

static void add_samples(mlffprof_recorder *r, int k, test_rng *rng)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  const mlffprof_memory_sample memory = {k,         100000000 + 4096 * test_below(rng, 50),
                                         101000000, 2000000000,
                                         14000000,  300000000};
  mlffprof_energy_sample energy = {.step = k, .time_ps = 5e-4 * k, .has = (1u << MLFFPROF_N_QUANTITIES) - 1};
  const double element[2] = {0.02 + 0.001 * test_uniform(rng, 0, 1), k % 40 ? NAN : 0.04};
  const mlffprof_accuracy_sample accuracy =
      {k, 1e-3 * test_normal(rng), 0.03, 0.02, 0.2, 0.999, element, element, 1, 0.05, -120};
  energy.value[MLFFPROF_POTENTIAL] = -1000 + test_normal(rng);
  energy.value[MLFFPROF_KINETIC] = 7 + test_normal(rng);
  energy.value[MLFFPROF_TOTAL] = energy.value[MLFFPROF_POTENTIAL] + energy.value[MLFFPROF_KINETIC];
  energy.value[MLFFPROF_CONSERVED] = -993 + 1e-3 * test_normal(rng);
  energy.value[MLFFPROF_TEMPERATURE] = 300 + 5 * test_normal(rng);
  energy.value[MLFFPROF_PRESSURE] = 1000 * test_normal(rng);
  energy.value[MLFFPROF_VOLUME] = 1900;
  must(mlffprof_recorder_memory(r, &memory, &error), &error);
  must(mlffprof_recorder_energy(r, &energy, &error), &error);
  if (k % 20 == 0) must(mlffprof_recorder_accuracy(r, &accuracy, &error), &error);
}

mlffprof_recorder *prof_sample_recorder(int n_steps)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_recorder *r = NULL;
  test_rng rng = {7};
  const mlffprof_options options = {.name = "sample",
                                    .model_name = "water \"q\" \\ \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \x01\t",
                                    .device = "cuda:0",
                                    .ensemble = "nvt",
                                    .notes = "line one\nline two",
                                    .n_atoms = 192,
                                    .n_warmup = 10,
                                    .n_ranks = 2,
                                    .components = parts,
                                    .n_components = 4,
                                    .reference = "teacher",
                                    .elements = elements,
                                    .n_elements = 2};
  must(mlffprof_recorder_create(&options, &r, &error), &error);
  for (int k = 0; k < n_steps; k++) {
    add_step(r, k, &rng);
    if (k % 10 == 0) add_samples(r, k, &rng);
  }
  const mlffprof_outside outside = {.n = 4, .temperature = 3, .pair = 4, .force = 1};
  if (n_steps > 0) mlffprof_recorder_outside(r, &outside);
  must(mlffprof_recorder_context(r, "host", "box", &error), &error);
  must(mlffprof_recorder_context(r, "deck/steps", "1000", &error), &error);
  must(mlffprof_recorder_context_number(r, "ranks", 2, &error), &error);
  must(mlffprof_recorder_context(r, "deck/model/name", "a", &error), &error);
  must(mlffprof_recorder_context(r, "gpu", NULL, &error), &error);
  return r;
}

mlffprof_report *prof_sample(int n_steps)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_recorder *r = prof_sample_recorder(n_steps);
  mlffprof_report *p = NULL;
  must(mlffprof_recorder_report(r, &p, &error), &error);
  mlffprof_recorder_free(r);
  return p;
}

mlffprof_report *prof_finish(const mlffprof_recorder *r)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_report *p = NULL;
  must(mlffprof_recorder_report(r, &p, &error), &error);
  return p;
}

mlffprof_report *prof_report_of(const double *ms, int n, double mean_ms, double std_ms, uint64_t seed)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_recorder *r = NULL;
  test_rng rng = {seed};
  must(mlffprof_recorder_create(NULL, &r, &error), &error);
  for (int k = 0; k < n; k++) {
    const double value = ms ? ms[k] : mean_ms + std_ms * test_normal(&rng);
    const mlffprof_step step = {.step = k, .seconds = 1e-3 * value, .n_atoms = 10};
    must(mlffprof_recorder_step(r, &step, &error), &error);
  }
  mlffprof_report *p = prof_finish(r);
  mlffprof_recorder_free(r);
  return p;
}
