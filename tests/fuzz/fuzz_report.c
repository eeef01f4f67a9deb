/* fuzz_report.c: bytes as reports of the profiler library. What was read can be printed, explained, compared with
 * itself, written, and read again. */
#define _POSIX_C_SOURCE 200809L

#include "fuzz.h"
#include "profsample.h"

#include <stdlib.h>
#include <string.h>

static void must(mlffprof_status status, const char *what, const mlffprof_error *error)
{
  if (status) fuzz_stop(what, error->text);
}

/* Everything that is done with a report. */
static void use(mlffprof_report *p)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_report *again = NULL;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size), *table = fuzz_nowhere();
  if (!out) fuzz_stop("cannot go on", "out of memory");
  must(mlffprof_report_json(p, out, &error), "json", &error);
  fclose(out);
  must(mlffprof_report_print(p, 1, table, &error), "print", &error);
  must(mlffprof_explain(p, NULL, 0, table, &error), "explain", &error);
  must(mlffprof_explain(p, NULL, 1, table, &error), "explain as JSON", &error);
  must(mlffprof_compare_print(p, p, table, &error), "compare", &error);
  must(mlffprof_report_targets(p, NULL, &error), "targets", &error);
  must(mlffprof_report_parse("again", text, size, &again, &error), "what was written is refused", &error);
  mlffprof_report_free(again);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_report *p = NULL;
  const mlffprof_status status = mlffprof_report_parse("fuzz", (const char *) data, size, &p, &error);
  if (status && (p || !error.text[0] || error.code != status)) fuzz_stop("a failure without a text", error.text);
  fuzz_n_refused += status != MLFFPROF_OK;
  fuzz_n_accepted += status == MLFFPROF_OK;
  if (!status) use(p);
  mlffprof_report_free(p);
  return 0;
}

/* Places of a report that are changed, each to reach an error. */
static const struct {
  const char *old, *text;
} edits[] = {
    {"\"schema_version\": 1", "\"schema_version\": 2"},
    {"\"n_steps\": 0", "\"n_steps\": -1"},
    {"\"n_steps\": 0", "\"n_steps\": 0.5"},
    {"\"name\": \"sample\"", "\"name\": []"},
    {"\"exact\": true", "\"exact\": 1"},
    {"\"latencies_ms\": []", "\"latencies_ms\": {}"},
    {"\"latencies_ms\": []", "\"latencies_ms\": [\"x\"]"},
    {"\"components\": [", "\"components\": [1, "},
    {"\"parent\": \"pair\"", "\"parent\": \"nobody\""},
    {"\"slow_steps\": []", "\"slow_steps\": [{\"tags\": [[]]}]"},
    {"\"host_bytes\": [", "\"host_bytes\": [1, "},
    {"\"counts\": [1, ", "\"counts\": ["},
    {"\"warmup\": {", "\"warmup\": 5, \"x\": {"},
    {"\"context\": {", "\"context\": {\"a/b\": 1, "},
    {"\"context\": {", "\"context\": {\"a\": [], "},
    {"\"context\": {", "\"context\": {\"a\": {\"b\": {\"c\": {\"d\": {\"e\": {}}}}}, "},
};

static void add_edit(const char *name, const char *good, const char *old, const char *with)
{
  const char *at = strstr(good, old);
  if (!at) fuzz_stop("cannot be edited in", old);
  const size_t before = (size_t) (at - good), n_with = strlen(with);
  char *text = malloc(strlen(good) + n_with + 1);
  if (!text) fuzz_stop("cannot go on", "out of memory");
  memcpy(text, good, before);
  memcpy(text + before, with, n_with);
  strcpy(text + before + n_with, at + strlen(old));
  fuzz_seed(name, text, strlen(text));
  free(text);
}

/* More entries than there may be. */
static void add_many(const char *good)
{
  enum { MANY = 600, ROOM = 16 };
  static char entries[(MANY + 2) * ROOM], components[(MANY + 2) * ROOM];
  char *e = entries + sprintf(entries, "\"context\": {"), *c = components + sprintf(components, "\"components\": [");
  for (int k = 0; k < MANY; k++) {
    e += sprintf(e, "\"k%d\": 1, ", k);
    c += sprintf(c, "{}, ");
  }
  add_edit("bad-many-entries", good, "\"context\": {", entries);
  add_edit("bad-many-components", good, "\"components\": [", components);
}

static void add_edits(const char *good)
{
  char name[40];
  for (int k = 0; k < (int) (sizeof edits / sizeof *edits); k++) {
    snprintf(name, sizeof name, "bad-edit-%d", k);
    add_edit(name, good, edits[k].old, edits[k].text);
  }
  add_many(good);
}

/* With everything in it, and a few steps, so that most changes are outside of the lists of steps. */
static void make_seeds(void)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  char name[40];
  for (int n_steps = 1; n_steps <= 25; n_steps += 24) {
    mlffprof_report *p = prof_sample(n_steps);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) fuzz_stop("cannot go on", "out of memory");
    must(mlffprof_report_json(p, out, &error), "the sample", &error);
    fclose(out);
    snprintf(name, sizeof name, "good-%d-steps", n_steps);
    fuzz_seed(name, text, size);
    if (n_steps == 1) add_edits(text);
    free(text);
    mlffprof_report_free(p);
  }
}

static const char *const words[] = {"0",        "-1",    "1e308",    "999999999999999999",
                                    "[",        "]",     "{",        "}",
                                    ":",        ",",     "\n",       "null",
                                    "NaN",      "&a",    "*a",       "\"",
                                    "!",        "true",  "{}",       "\\ud83d",
                                    "\"step\"", "[]",    "\"tags\"", "1.5",
                                    "false",    "\"x\"", "1e-300",   "\\\\",
                                    "\"\"",     "2",     "0.5",      NULL};
const fuzz_target fuzz_this = {.name = "report", .words = words, .make_seeds = make_seeds};
