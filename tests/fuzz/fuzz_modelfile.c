/* fuzz_modelfile.c: random bytes as model files.
 *
 * LLVMFuzzerTestOneInput is the entry that libFuzzer calls (tests/README.md says how to build it). Without libFuzzer,
 * main mutates a good model of each architecture for some seconds (first argument, default 3; second argument: seed;
 * third: a folder that gets the good inputs, as a corpus for libFuzzer). It passes when nothing crashes, under the
 * sanitizers that the build has, and when the outcomes make sense: a failure has a text, a success can be evaluated to
 * finite numbers or a status.
 *
 * Input: 4 bytes little-endian n, n bytes of YAML, then the weights. The hash in the YAML is put right, because
 * otherwise nearly every mutation of the weights would end there.
 */
#define _POSIX_C_SOURCE 200809L

#include "testmodel.h"

#include "model/sha256.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long n_opened, n_evaluated, n_refused;

static void put_hash(char *yaml, const void *weights, size_t weights_size)
{
  char hex[65];
  char *at = strstr(yaml, "sha256: ");
  mlff_sha256_hex(weights, weights_size, hex);
  if (at && strlen(at) > 8 + 64) memcpy(at + 8, hex, 64);
}

static void evaluate(mlff_model *model)
{
  static const double pos[3][3] = {{0, 0, 0}, {0.95, 0, 0}, {0, 0.9, 0.4}};
  const int32_t species[3] = {0, 0, 0};
  double forces[3][3];
  mlff_result result = {.forces = forces};
  mlff_system *system = NULL;
  mlff_error error = {.text = ""};
  if (mlff_system_create(3, species, pos, NULL, NULL, mlff_model_info(model)->cutoff, &system, &error)) abort();
  const mlff_status status = mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, &error);
  if (!status && !isfinite(result.energy)) abort();
  if (status && !error.text[0]) abort();
  n_evaluated += !status;
  mlff_system_free(system);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 4) return 0;
  size_t n = (size_t) data[0] | (size_t) data[1] << 8 | (size_t) data[2] << 16 | (size_t) data[3] << 24;
  if (n > size - 4) n = size - 4;
  char *yaml = malloc(n + 1);
  unsigned char *weights = malloc(size - 4 - n + 1);
  if (!yaml || !weights) abort();
  memcpy(yaml, data + 4, n);
  yaml[n] = 0;
  memcpy(weights, data + 4 + n, size - 4 - n);
  put_hash(yaml, weights, size - 4 - n);
  mlff_error error = {.text = ""};
  mlff_model *model = NULL;
  const mlff_status status = mlff_model_open_memory("fuzz.yaml", yaml, n, weights, size - 4 - n, NULL, &model, &error);
  if (status ? !error.text[0] || model != NULL : model == NULL) abort();
  free(yaml);
  free(weights);
  if (status)
    n_refused++;
  else {
    n_opened++;
    evaluate(model);
  }
  mlff_model_close(model);
  return 0;
}

#ifndef MLFF_LIBFUZZER

/* ---- mutation without libFuzzer --------------------------------------------------------------------------------- */

typedef struct input {
  uint8_t *data;
  size_t size, n_yaml;
} input;

static input make_input(const test_model *m)
{
  input in = {.size = 4 + m->yaml_size + m->weights_size, .n_yaml = m->yaml_size};
  in.data = malloc(in.size);
  if (!in.data) abort();
  for (int k = 0; k < 4; k++) in.data[k] = (uint8_t) (m->yaml_size >> 8 * k);
  memcpy(in.data + 4, m->yaml, m->yaml_size);
  memcpy(in.data + 4 + m->yaml_size, m->weights, m->weights_size);
  return in;
}

static size_t below(test_rng *rng, size_t n)
{
  return n ? (size_t) test_below(rng, (int) n) : 0;
}

/* Replaces, deletes, repeats or inserts a piece of *text; digits and punctuation are favoured. */
static void mutate(test_rng *rng, uint8_t *data, size_t *size, size_t capacity)
{
  static const char *const words[] = {"0",  "-1", "1e308", "999999999", "[",  "]",     "{",  "}",    ":",   ",",
                                      "\n", "  ", "nan",   "&a",        "*a", "!!int", "\"", "none", "1.5", "[[]]"};
  const size_t at = below(rng, *size), n = below(rng, 1 + below(rng, 40));
  switch (test_below(rng, 6)) {
  case 0: data[at] ^= (uint8_t) (1u << test_below(rng, 8)); break;
  case 1: data[at] = (uint8_t) test_below(rng, 256); break;
  case 2: /* delete */
    if (at + n < *size) {
      memmove(data + at, data + at + n, *size - at - n);
      *size -= n;
    }
    break;
  case 3: /* repeat */
    if (at + n < *size && *size + n < capacity) {
      memmove(data + at + n, data + at, *size - at);
      *size += n;
    }
    break;
  case 4: { /* overwrite by a word */
    const char *w = words[test_below(rng, 20)];
    for (size_t k = 0; w[k] && at + k < *size; k++) data[at + k] = (uint8_t) w[k];
    break;
  }
  default: { /* insert a word */
    const char *w = words[test_below(rng, 20)];
    const size_t length = strlen(w);
    if (*size + length < capacity) {
      memmove(data + at + length, data + at, *size - at);
      memcpy(data + at, w, length);
      *size += length;
    }
  }
  }
}

/* A mutant of `good`: a few changes in the YAML, in the header of the weights, or anywhere in them. */
static void run_mutant(test_rng *rng, const input *good)
{
  const size_t capacity = good->size + 1024;
  uint8_t *data = malloc(capacity);
  size_t n_yaml = good->n_yaml, n_weights = good->size - 4 - n_yaml;
  const int where = test_below(rng, 4), n_changes = 1 + test_below(rng, 3);
  if (!data) abort();
  memcpy(data, good->data, good->size);
  if (where < 2) {
    uint8_t *yaml = malloc(n_yaml + 1024);
    if (!yaml) abort();
    memcpy(yaml, data + 4, n_yaml);
    for (int k = 0; k < n_changes; k++) mutate(rng, yaml, &n_yaml, n_yaml + 300);
    memcpy(data + 4, yaml, n_yaml);
    memcpy(data + 4 + n_yaml, good->data + 4 + good->n_yaml, n_weights);
    for (int k = 0; k < 4; k++) data[k] = (uint8_t) (n_yaml >> 8 * k);
    free(yaml);
  } else {
    uint8_t *weights = data + 4 + n_yaml;
    const size_t header = 8 + ((size_t) weights[0] | (size_t) weights[1] << 8 | (size_t) weights[2] << 16);
    size_t part = where == 2 && header < n_weights ? header : n_weights;
    for (int k = 0; k < n_changes; k++) mutate(rng, weights, &part, part); /* in place: lengths stay within the part */
    if (where == 3) n_weights = part;
  }
  LLVMFuzzerTestOneInput(data, 4 + n_yaml + n_weights);
  free(data);
}

static int save(const input *good, const char *folder, int k)
{
  char path[512];
  snprintf(path, sizeof path, "%s/good-%d", folder, k);
  FILE *file = fopen(path, "wb");
  const int is_written = file && fwrite(good->data, 1, good->size, file) == good->size;
  if (!file || fclose(file) || !is_written) {
    fprintf(stderr, "cannot write %s\n", path);
    return 0;
  }
  return 1;
}

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

int main(int argc, char **argv)
{
  const double budget = argc > 1 ? atof(argv[1]) : 3.0, start = seconds();
  const unsigned long long seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  test_rng rng = {seed};
  const int n_models = test_n_archs();
  long n_runs = 0;
  int is_good = 1;
  for (int k = 0; k < n_models; k++) {
    const long before = n_evaluated;
    test_model model = test_model_of_arch(k);
    test_model_repel(&model, "H-H: 1.1, C-O: 1.6");
    input good = make_input(&model);
    LLVMFuzzerTestOneInput(good.data, good.size);
    if (n_evaluated != before + 1) { /* the unchanged file must be fine, or nothing below means anything */
      fprintf(stderr, "the unchanged model of %s is refused\n", test_archs[k].name);
      is_good = 0;
    }
    if (argc > 3 && !save(&good, argv[3], k)) return 1;
    while (seconds() - start < budget * (k + 1) / n_models) {
      run_mutant(&rng, &good);
      n_runs++;
    }
    free(good.data);
    test_model_free(&model);
  }
  printf("%ld mutants (seed %llu): %ld refused, %ld opened, %ld evaluated\n", n_runs, seed, n_refused, n_opened,
         n_evaluated);
  return is_good && n_runs > 0 && n_refused > 0 ? 0 : 1;
}

#endif
