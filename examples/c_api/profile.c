/* profile.c: profiles a function of your own program with nothing but the profiler library.
 *
 *   ./example_profile [REPORT.json]
 *
 * The function here smooths an array; put yours in its place. The table goes to the terminal; the report, if a name is
 * given, is read by `mlff show`, `mlff compare` and `mlff report`.
 */
#include "mlff/mlffprof.h"

enum { N_VALUES = 200000, N_CALLS = 500 };

static double values[N_VALUES];

/* What is timed: returns 0, or a number that stops the timing. */
static int smooth(void *user)
{
  double *v = user;
  for (int k = 1; k + 1 < N_VALUES; k++) v[k] = 0.25 * v[k - 1] + 0.5 * v[k] + 0.25 * v[k + 1];
  return 0;
}

int main(int argc, char **argv)
{
  const mlffprof_options options = {.name = "smooth", .device = "cpu", .n_warmup = 20, .notes = "200,000 values"};
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_recorder *recorder = NULL;
  mlffprof_report *report = NULL;
  int failed = 1;

  for (int k = 0; k < N_VALUES; k++) values[k] = k % 7;
  if (mlffprof_recorder_create(&options, &recorder, &error)) goto done;
  /* 20 calls of warm-up, 500 that count, host memory after every fifth. A program with a loop of its own calls
   * mlffprof_recorder_step and mlffprof_recorder_memory in it instead. */
  if (mlffprof_recorder_time(recorder, smooth, values, N_CALLS, 5, &error)) goto done;
  if (mlffprof_recorder_context(recorder, "program", "profile.c", &error)) goto done;
  if (mlffprof_recorder_report(recorder, &report, &error)) goto done;
  if (mlffprof_report_print(report, 1, stdout, &error)) goto done;
  if (argc > 1 && mlffprof_report_write(report, argv[1], &error)) goto done;
  failed = 0;

done:
  if (failed) fprintf(stderr, "%s: %s\n", mlffprof_status_name(error.code), error.text);
  mlffprof_report_free(report);
  mlffprof_recorder_free(recorder);
  return failed;
}
