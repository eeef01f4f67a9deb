/* fuzz_rules.c: bytes as files of rules, which are held against reports. */
#include "fuzz.h"
#include "profsample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static mlffprof_report *a, *b;
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_rules *rules = NULL;
  int n_failed = -1;
  if (!a) {
    a = prof_sample(40);
    b = prof_sample(60);
  }
  const mlffprof_status status = mlffprof_rules_read(fuzz_path(data, size), &rules, &error);
  if (status && (rules || !error.text[0] || error.code != status)) fuzz_stop("a failure without a text", error.text);
  fuzz_n_refused += status != MLFFPROF_OK;
  fuzz_n_accepted += status == MLFFPROF_OK;
  if (status) return 0;
  if (mlffprof_gate(rules, a, NULL, fuzz_nowhere(), &n_failed, &error)) fuzz_stop("one report", error.text);
  if (mlffprof_gate(rules, a, b, fuzz_nowhere(), &n_failed, &error)) fuzz_stop("two reports", error.text);
  if (n_failed < 0) fuzz_stop("failures were not counted", "");
  mlffprof_rules_free(rules);
  return 0;
}

static const char *const words[] = {"rules:",
                                    "metric:",
                                    "model:",
                                    "significant:",
                                    "below:",
                                    "above:",
                                    "ratio_below:",
                                    "ratio_above:",
                                    "change_below:",
                                    "true",
                                    "false",
                                    "median_latency_ms",
                                    "cv",
                                    "drift",
                                    "p99_over_mean",
                                    "us_per_atom",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    ",",
                                    ": ",
                                    "\n",
                                    "- ",
                                    "nan",
                                    "1e400",
                                    "0.5",
                                    "-1",
                                    "&a",
                                    "*a",
                                    "!!int",
                                    "\"",
                                    "#",
                                    NULL};
const fuzz_target fuzz_this = {.name = "rules", .words = words};
