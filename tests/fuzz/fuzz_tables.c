/* fuzz_tables.c: bytes as what `mlff scaling` writes and `mlff show` prints, and as what `mlff check --roof` writes and
 * `mlff explain` reads. */
#include "fuzz.h"
#include "profsample.h"

/* A report of a computer of which rates are read. */
static mlffprof_report *report_with_context(void)
{
  static const char *const texts[][2] = {{"cpu", "cpu"}, {"kernels", "avx2"}, {"precision", "fp32"}};
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_report *p = NULL;
  mlffprof_recorder *r = prof_sample_recorder(12);
  for (int k = 0; k < 3; k++)
    if (mlffprof_recorder_context(r, texts[k][0], texts[k][1], &error)) fuzz_stop("the sample", error.text);
  if (mlffprof_recorder_report(r, &p, &error)) fuzz_stop("the sample", error.text);
  mlffprof_recorder_free(r);
  return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static mlffprof_report *report;
  mlffprof_error error = {.text = ""};
  mlffprof_roof roof;
  int is_scaling = -1;
  if (!report) report = report_with_context();
  const char *path = fuzz_path(data, size);
  mlffprof_status status = mlffprof_scaling_print(path, fuzz_nowhere(), &is_scaling, &error);
  if (status && (!error.text[0] || error.code != status)) fuzz_stop("a table refused without a text", error.text);
  int is_accepted = !status && is_scaling == 1;
  error = (mlffprof_error){.text = ""};
  status = mlffprof_roof_read(path, report, &roof, &error);
  if (status && (!error.text[0] || error.code != status)) fuzz_stop("rates refused without a text", error.text);
  is_accepted |= !status;
  if (!status && mlffprof_explain(report, &roof, 1, fuzz_nowhere(), &error)) fuzz_stop("explain", error.text);
  fuzz_n_accepted += is_accepted;
  fuzz_n_refused += !is_accepted;
  return 0;
}

static const char *const words[] = {"\"format\"",
                                    "\"mlff-scaling/1\"",
                                    "\"rows\"",
                                    "\"checks\"",
                                    "\"ranks\"",
                                    "\"n_atoms\"",
                                    "\"roofs\"",
                                    "\"kernels\"",
                                    "\"precision\"",
                                    "\"gflops\"",
                                    "\"cpu\"",
                                    "\"context\"",
                                    "\"passed\"",
                                    "\"oversubscribed\"",
                                    "null",
                                    "true",
                                    "1e308",
                                    "-1",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    ":",
                                    ",",
                                    "\"",
                                    "\\ud83d",
                                    "&a",
                                    "0.5",
                                    NULL};
const fuzz_target fuzz_this = {.name = "tables", .words = words};
