/* time.c: mlff time measures evaluations, mlff soak their memory growth; without LAMMPS. */
#include "cli.h"

#include <math.h>
#include <string.h>

static void print_number(const char *name, double value)
{
  printf(", \"%s\": ", name);
  if (isfinite(value))
    printf("%.6g", value);
  else
    printf("null");
}

/* us/atom of so many ms per call; NaN without atoms. */
static double per_atom(const cli_calls *c, double ms)
{
  return c->n_atoms ? 1e3 * ms / c->n_atoms : NAN;
}

static mlff_status print_outside(const cli_calls *c, int is_json, mlff_error *error)
{
  return cli_print_outside(mlff_model_info(c->model), cli_list_graph(c->list), &c->result, is_json, error);
}

static mlff_status print_json(const cli_options *o, const cli_calls *c, mlff_error *error)
{
  const mlff_info *info = mlff_model_info(c->model);
  const mlffprof_stats *s = &c->report->latency;
  printf("{\"model\": ");
  mlff_json_text(stdout, info->name);
  printf(", \"device\": \"%s\", \"precision\": \"%s\", \"kernels\": \"%s\", \"n_atoms\": %d, \"n_edges\": %lld, "
         "\"n_calls\": %d, \"n_replicas\": %d, \"graph\": \"%s\", \"skin\": %g",
         info->device, info->precision, info->kernels, c->n_atoms, (long long) c->result.n_edges, c->n_calls,
         o->n_replicas, mlff_model_replays(c->model).is_on ? "on" : "off", o->skin);
  print_number("median_ms", s->median);
  print_number("mean_ms", s->mean);
  print_number("std_ms", s->std);
  print_number("min_ms", s->min);
  print_number("max_ms", s->max);
  print_number("p95_ms", s->p95);
  print_number("p99_ms", s->p99);
  print_number("us_per_atom", per_atom(c, s->mean)); /* as in reports */
  print_number("median_us_per_atom", per_atom(c, s->median));
  const mlff_replays replays = mlff_model_replays(c->model);
  printf(", \"n_steps\": %lld, \"n_replayed\": %lld, \"n_recorded\": %lld", (long long) replays.n_steps,
         (long long) replays.n_replayed, (long long) replays.n_recorded);
  printf(", \"n_nodes\": %lld, \"n_kernels\": %lld", (long long) replays.n_nodes, (long long) replays.n_kernels);
  print_number("record_ms", 1e3 * replays.record_seconds);
  print_number("first_ms", 1e3 * c->first_seconds);
  if (o->against) {
    print_number("energy_difference", c->against.energy_difference);
    print_number("force_difference", c->against.force_difference);
    print_number("force_rms_ratio", c->against.force_rms_ratio);
  }
  const mlff_status status = print_outside(c, 1, error);
  printf(", \"memory_bytes\": %zu, \"growths\": %lld}\n", c->memory.bytes, (long long) c->n_growths);
  return status;
}

static void print_head(const cli_options *o, const cli_calls *c)
{
  const mlff_info *info = mlff_model_info(c->model);
  const int n_atoms = c->n_atoms;
  printf("%s (%s) on %s, %s, kernels %s: %d atoms, %.1f neighbors each, skin %g A\n", info->name, info->architecture,
         info->device, info->precision, info->kernels, n_atoms, n_atoms ? (double) c->result.n_edges / n_atoms : 0.0,
         o->skin);
}

static mlff_status print_text(const cli_options *o, const cli_calls *c, mlff_error *error)
{
  const mlffprof_stats *s = &c->report->latency;
  print_head(o, c);
  printf("  calls    %d\n  median   %.4f ms   (%.3f us/atom)\n", c->n_calls, s->median, per_atom(c, s->median));
  printf("  mean     %.4f ms   (%.3f us/atom)   sd %.4f\n", s->mean, per_atom(c, s->mean), s->std);
  printf("  min      %.4f ms\n  p95      %.4f ms\n  p99      %.4f ms\n  max      %.4f ms\n", s->min, s->p95, s->p99,
         s->max);
  printf("  memory   %.2f MB, %lld buffer growths while timing\n", (double) c->memory.bytes / 1e6,
         (long long) c->n_growths);
  if (o->against)
    printf("  against  fp64 on the CPU: energy %.2e eV/atom, forces %.2e eV/A, RMS %.2e of that of the forces\n",
           c->against.energy_difference, c->against.force_difference, c->against.force_rms_ratio);
  printf("  warm-up  first call %.2f ms", 1e3 * c->first_seconds);
  if (c->record_seconds > 0) printf(", capture %.2f ms", 1e3 * c->record_seconds);
  const mlff_replays r = mlff_model_replays(c->model);
  printf("\n");
  if (r.is_on)
    printf("  replay   %lld of %lld steps replayed, %lld captured in %.2f ms; %lld nodes, %lld of them kernels\n",
           (long long) r.n_replayed, (long long) r.n_steps, (long long) r.n_recorded, 1e3 * r.record_seconds,
           (long long) r.n_nodes, (long long) r.n_kernels);
  else if (strcmp(mlff_model_info(c->model)->device, "cpu"))
    printf("  replay   not used: %s\n", r.why);
  return print_outside(c, 0, error);
}

int cli_time(const cli_options *options)
{
  cli_calls calls;
  mlff_error error = {.code = MLFF_OK};
  const int n = options->n_calls ? options->n_calls : 100;
  int code = cli_calls_run(options, n, options->file ? 1 + n / 200 : 0, &calls);
  if (!code && (options->json ? print_json(options, &calls, &error) : print_text(options, &calls, &error)))
    code = cli_fail(&error);
  cli_calls_free(&calls);
  return code;
}

/* Passes if memory is stable; an unknown verdict fails. */
static int print_soak(const cli_options *o, const cli_calls *c)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  const mlffprof_memory_result *m = &c->report->memory.host;
  const int stable = m->verdict == MLFFPROF_VERDICT_STABLE && c->n_growths == 0;
  if (o->json) {
    if (mlffprof_report_json(c->report, stdout, &error)) return cli_fail_report(&error);
    return stable ? CLI_OK : CLI_FAILED;
  }
  print_head(o, c);
  printf("  calls    %d, median %.4f ms, p99 %.4f ms\n", c->n_calls, c->report->latency.median, c->report->latency.p99);
  if (m->n)
    printf("  host     %.2f MB after warm-up, %.2f MB at the end, peak %.2f MB\n", m->initial_bytes / 1e6,
           m->final_bytes / 1e6, m->peak_bytes / 1e6);
  printf("  engine   %.2f MB, %lld buffer growths after warm-up\n", (double) c->memory.bytes / 1e6,
         (long long) c->n_growths);
  printf("  verdict  %s: %s\n", c->n_growths ? "growing" : mlffprof_verdict_name(m->verdict),
         c->n_growths ? "the engine's buffers grew"
         : m->reason  ? m->reason
                      : "memory cannot be measured on this system");
  return stable ? CLI_OK : CLI_FAILED;
}

int cli_soak(const cli_options *options)
{
  enum { N_SAMPLES = 200 };
  cli_calls calls;
  const int n = options->n_calls ? options->n_calls : 2000;
  int code = cli_calls_run(options, n, n < N_SAMPLES ? 1 : n / N_SAMPLES, &calls);
  if (!code) code = print_soak(options, &calls);
  cli_calls_free(&calls);
  return code;
}
