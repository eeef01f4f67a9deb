/* time.c: mlff time: what one evaluation costs, without LAMMPS. */
#define _POSIX_C_SOURCE 200809L

#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct statistics {
  double mean, sd, median, min, max, p95;
} statistics;

static double now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double) t.tv_sec + 1e-6 * (double) t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
  const double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

/* Quantile of sorted values, linear between neighbours. */
static double quantile(const double *sorted, int n, double q)
{
  const double at = q * (n - 1);
  const int low = (int) at, high = low + 1 < n ? low + 1 : low;
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

static statistics summarise(double *ms, int n)
{
  statistics s = {.mean = 0};
  for (int k = 0; k < n; k++) s.mean += ms[k] / n;
  for (int k = 0; k < n; k++) s.sd += (ms[k] - s.mean) * (ms[k] - s.mean);
  s.sd = n > 1 ? sqrt(s.sd / (n - 1)) : 0;
  qsort(ms, (size_t) n, sizeof *ms, by_value);
  s.min = ms[0];
  s.max = ms[n - 1];
  s.median = quantile(ms, n, 0.5);
  s.p95 = quantile(ms, n, 0.95);
  return s;
}

static void report(const cli_options *o, const mlff_info *info, const cli_frame *frame, const mlff_result *r,
                   statistics s, mlff_memory memory, int64_t growths)
{
  const double per_atom = frame->n_atoms ? 1e3 * s.median / frame->n_atoms : 0.0;
  if (o->json) {
    printf("{\"model\": ");
    cli_json_text(stdout, info->name);
    printf(
        ", \"device\": \"%s\", \"precision\": \"%s\", \"kernels\": \"%s\", \"n_atoms\": %d, \"n_edges\": %lld, "
        "\"n_calls\": %d, \"skin\": %g,\n \"median_ms\": %.6g, \"mean_ms\": %.6g, \"std_ms\": %.6g, \"min_ms\": %.6g, "
        "\"max_ms\": %.6g, \"p95_ms\": %.6g, \"us_per_atom\": %.6g, \"memory_bytes\": %zu, \"growths\": %lld}\n",
        info->device, info->precision, info->kernels, (int) frame->n_atoms, (long long) r->n_edges, o->n_calls, o->skin,
        s.median, s.mean, s.sd, s.min, s.max, s.p95, per_atom, memory.bytes, (long long) growths);
    return;
  }
  printf("%s (%s) on %s, %s, kernels %s: %d atoms, %.1f neighbours each, skin %g A\n", info->name, info->architecture,
         info->device, info->precision, info->kernels, (int) frame->n_atoms,
         frame->n_atoms ? (double) r->n_edges / frame->n_atoms : 0.0, o->skin);
  printf("  calls    %d\n  median   %.4f ms   (%.3f us/atom)\n  mean     %.4f ms   sd %.4f\n", o->n_calls, s.median,
         per_atom, s.mean, s.sd);
  printf("  min      %.4f ms\n  p95      %.4f ms\n  max      %.4f ms\n", s.min, s.p95, s.max);
  printf("  memory   %.2f MB, grown %lld times while timing\n", (double) memory.bytes / 1e6, (long long) growths);
}

static int time_frame(const cli_options *o, mlff_model *model, cli_frame *frame)
{
  const mlff_info *info = mlff_model_info(model);
  mlff_error error = {.code = MLFF_OK};
  mlff_system *system = NULL;
  const int n_warm = 1 + o->n_calls / 10;
  mlff_memory before = mlff_model_memory(model);
  if (cli_frame_species(frame, info, o->arguments[1], &error)) return cli_fail(&error);
  if (cli_frame_system(frame, info->cutoff + o->skin, &system, &error)) return cli_fail(&error);
  mlff_result result = {.forces = malloc(((size_t) frame->n_atoms + 1) * sizeof *result.forces)};
  double *ms = malloc((size_t) o->n_calls * sizeof *ms);
  int code = result.forces && ms ? CLI_OK : CLI_FAILED;
  for (int k = -n_warm; k < o->n_calls && !code; k++) {
    if (k == 0) before = mlff_model_memory(model);
    const double start = now_ms();
    if (mlff_model_evaluate(model, mlff_system_graph(system), NULL, &result, &error)) code = cli_fail(&error);
    if (k >= 0) ms[k] = now_ms() - start;
  }
  if (!code) {
    const mlff_memory after = mlff_model_memory(model);
    report(o, info, frame, &result, summarise(ms, o->n_calls), after, after.n_growths - before.n_growths);
  }
  mlff_system_free(system);
  free(result.forces);
  free(ms);
  return code;
}

/* Opens the model for just the elements of the frame, as a simulation does. */
static mlff_status open_for(const cli_options *o, const cli_frame *frame, mlff_model **model, mlff_error *error)
{
  const char *elements[128];
  mlff_options open = o->open;
  int n = 0;
  for (int32_t i = 0; i < frame->n_atoms; i++) {
    int k = 0;
    while (k < n && strcmp(elements[k], frame->elements[i])) k++;
    if (k == n && n < 128) elements[n++] = frame->elements[i];
  }
  open.elements = elements;
  open.n_elements = n;
  return mlff_model_open(o->arguments[0], &open, model, error);
}

int cli_time(const cli_options *options)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  cli_frame *frames = NULL;
  int n_frames = 0;
  if (cli_read_xyz(options->arguments[1], &frames, &n_frames, &error)) return cli_fail(&error);
  int code = CLI_FAILED;
  if (open_for(options, &frames[0], &model, &error))
    cli_fail(&error);
  else
    code = time_frame(options, model, &frames[0]);
  mlff_model_close(model);
  cli_frames_free(frames, n_frames);
  return code;
}
