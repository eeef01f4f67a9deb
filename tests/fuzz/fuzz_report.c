/* fuzz_report.c: random bytes as reports of the profiler library.
 *
 * LLVMFuzzerTestOneInput is the entry that libFuzzer calls (clang -fsanitize=fuzzer,address -DMLFF_LIBFUZZER). Without
 * libFuzzer, main mutates a good report for some seconds (first argument, default 3; second argument: seed). It
 * passes when nothing crashes, under the sanitizers that the build has, and when the outcomes make sense: a failure
 * has a text, and what was read can be printed, compared with itself, written, and read again.
 */
#define _XOPEN_SOURCE 700

#include "profsample.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long n_read, n_refused;

static void stop(const char *what, const mlffprof_error *error)
{
  fprintf(stderr, "%s: %s\n", what, error->text);
  abort();
}

/* Everything that is done with a report. */
static void use(mlffprof_report *p)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_report *again = NULL;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size), *table = fopen("/dev/null", "w");
  if (!out || !table) stop("streams", &error);
  if (mlffprof_report_json(p, out, &error)) stop("json", &error);
  fclose(out);
  if (mlffprof_report_print(p, 1, table, &error)) stop("print", &error);
  if (mlffprof_compare_print(p, p, table, &error)) stop("compare", &error);
  if (mlffprof_report_targets(p, NULL, &error)) stop("targets", &error);
  if (mlffprof_report_parse("again", text, size, &again, &error)) stop("what was written is refused", &error);
  mlffprof_report_free(again);
  fclose(table);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_report *p = NULL;
  const mlffprof_status status = mlffprof_report_parse("fuzz", (const char *) data, size, &p, &error);
  n_refused += status != MLFFPROF_OK;
  n_read += status == MLFFPROF_OK;
  if (status && (p || !error.text[0] || error.code != status))
    stop("a failure without a text, or with a report", &error);
  if (!status) use(p);
  mlffprof_report_free(p);
  return 0;
}

#ifndef MLFF_LIBFUZZER

static size_t below(test_rng *rng, size_t n)
{
  return n ? (size_t) test_below(rng, (int) n) : 0;
}

/* Changes a bit or a byte, deletes or repeats a stretch, or puts a word there. */
static void mutate(test_rng *rng, char *data, size_t *size, size_t capacity)
{
  static const char *const words[] = {"0",        "-1",      "1e308", "999999999999999999",
                                      "[",        "]",       "{",     "}",
                                      ":",        ",",       "\n",    "null",
                                      "NaN",      "&a",      "*a",    "\"",
                                      "!",        "\\ud83d", "true",  "{}",
                                      "\"step\"", "1.5",     "[]",    "\"tags\""};
  const size_t at = below(rng, *size), n = below(rng, 1 + below(rng, 60));
  const char *word = words[test_below(rng, (int) (sizeof words / sizeof *words))];
  const size_t length = strlen(word);
  switch (test_below(rng, 5)) {
  case 0: data[at] = (char) (data[at] ^ (1 << test_below(rng, 8))); break;
  case 1: data[at] = (char) test_below(rng, 256); break;
  case 2:
    if (at + n >= *size) break;
    memmove(data + at, data + at + n, *size - at - n);
    *size -= n;
    break;
  case 3:
    if (at + n >= *size || *size + n >= capacity) break;
    memmove(data + at + n, data + at, *size - at);
    *size += n;
    break;
  default:
    if (*size + length >= capacity) break;
    memmove(data + at + length, data + at, *size - at);
    memcpy(data + at, word, length);
    *size += length;
  }
}

int main(int argc, char **argv)
{
  const double budget = argc > 1 ? atof(argv[1]) : 3.0, start = mlffprof_seconds();
  const unsigned long long seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  test_rng rng = {seed};
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_report *p = prof_sample(40);
  char *good = NULL;
  size_t size = 0;
  long n_runs = 0;
  FILE *out = open_memstream(&good, &size);
  if (!out || mlffprof_report_json(p, out, &error)) stop("the sample", &error);
  fclose(out);
  mlffprof_report_free(p);
  LLVMFuzzerTestOneInput((const uint8_t *) good, size); /* must be fine, or nothing below means anything */
  const int is_good = n_read == 1;
  char *data = malloc(2 * size);
  while (data && mlffprof_seconds() - start < budget) {
    size_t n = size;
    memcpy(data, good, size);
    for (int k = test_below(&rng, 4); k >= 0; k--) mutate(&rng, data, &n, 2 * size);
    LLVMFuzzerTestOneInput((const uint8_t *) data, n);
    n_runs++;
  }
  free(data);
  free(good);
  printf("%ld mutants (seed %llu): %ld refused, %ld read\n", n_runs, seed, n_refused, n_read);
  return is_good && n_runs > 0 && n_refused > 0 && n_read > 1 ? 0 : 1;
}

#endif
