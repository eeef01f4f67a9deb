/* calls.c: repeated evaluations of one structure, recorded with the profiler library (mlff time, mlff soak). */
#define _DEFAULT_SOURCE

#include "../base/commit.h"
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opens the model for the elements of the frame only, as a simulation does. */
static mlff_status open_for(const cli_options *o, mlff_options open, const cli_frame *frame, mlff_model **model,
                            mlff_error *error)
{
  const char *elements[128];
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

static mlffprof_status add_context(mlffprof_recorder *r, const cli_options *o, const mlff_info *info,
                                   mlffprof_error *error)
{
  char host[256] = "";
  const char *cpu = cli_processor();
  gethostname(host, sizeof host - 1);
  const char *const texts[][2] = {{"host", host},
                                  {"cpu", *cpu ? cpu : NULL},
                                  {"mlff", MLFF_VERSION},
                                  {"commit", mlff_commit()},
                                  {"architecture", info->architecture},
                                  {"model_sha256", info->sha256},
                                  {"model_header_sha256", info->header_sha256},
                                  {"precision", info->precision},
                                  {"kernels", info->kernels},
                                  {"structure", o->arguments[1]}};
  mlffprof_status status = MLFFPROF_OK;
  for (size_t k = 0; k < sizeof texts / sizeof *texts && !status; k++)
    status = mlffprof_recorder_context(r, texts[k][0], texts[k][1], error);
  return status ? status : mlffprof_recorder_context_number(r, "skin", o->skin, error);
}

/* State of the timed calls. */
typedef struct bench {
  const cli_options *o;
  cli_calls *calls;
  mlffprof_recorder *recorder;
  mlffprof_trace *trace;
  int n_warm, memory_every;
  mlffprof_component parts[MLFF_N_SPANS]; /* with --trace: spans of the engine except "evaluate" */
  double previous[MLFF_N_SPANS], seconds[MLFF_N_SPANS];
  int n_parts;
} bench;

enum { N_STAMPS = 65536 };

/* Starts the engine's spans, which become components. */
static mlff_status start_spans(bench *b, mlff_error *error)
{
  const mlff_status status = mlff_spans_start(b->calls->model, N_STAMPS, error);
  const mlff_span *spans = mlff_spans_read(b->calls->model);
  for (int k = 1; k < MLFF_N_SPANS && !status; k++) {
    const char *part = spans[k].part;
    const mlffprof_role role = !part                     ? MLFFPROF_ROLE_NONE
                               : !strcmp(part, "energy") ? MLFFPROF_ROLE_ENERGY
                               : !strcmp(part, "forces") ? MLFFPROF_ROLE_FORCES
                               : !strcmp(part, "stress") ? MLFFPROF_ROLE_STRESS
                                                         : MLFFPROF_ROLE_NONE;
    b->parts[b->n_parts++] = (mlffprof_component){spans[k].name, NULL, role};
  }
  return status;
}

/* Times of the parts in the last call; NaN for parts that the model does not have. */
static const double *take_parts(bench *b)
{
  const mlff_span *spans = mlff_spans_read(b->calls->model);
  for (int k = 0; k < b->n_parts; k++) {
    const mlff_span *s = &spans[k + 1];
    b->seconds[k] = s->calls ? s->seconds - b->previous[k] : NAN;
    b->previous[k] = s->seconds;
  }
  return b->n_parts ? b->seconds : NULL;
}

static mlffprof_status trace_call(bench *b, int k, double start, double seconds, unsigned tags, mlffprof_error *error)
{
  size_t n = 0;
  const mlff_span *spans = mlff_spans_read(b->calls->model);
  const mlff_stamp *stamps = mlff_spans_take(b->calls->model, &n, NULL);
  mlffprof_status status =
      mlffprof_trace_span(b->trace, 0, 0, k < 0 ? "warm-up" : "evaluate", start, seconds, k, tags, error);
  for (size_t i = 0; i < n && !status; i++) {
    if (stamps[i].span == MLFF_SPAN_EVALUATE) continue;
    status = mlffprof_trace_span(b->trace, 0, 0, spans[stamps[i].span].name, stamps[i].begin,
                                 stamps[i].end - stamps[i].begin, MLFFPROF_UNKNOWN, 0, error);
  }
  return status;
}

static mlffprof_status sample_memory(bench *b, int64_t step, double time, mlffprof_error *error)
{
  mlffprof_memory_sample s = {.step = step, .device_bytes = MLFFPROF_UNKNOWN};
  mlffprof_host_memory(&s.host_bytes, &s.host_peak_bytes, NULL);
  mlffprof_status status = mlffprof_recorder_memory(b->recorder, &s, error);
  if (!status && b->trace && s.host_bytes >= 0)
    status = mlffprof_trace_counter(b->trace, 0, "host MB", time, (double) s.host_bytes / 1e6, error);
  return status;
}

/* Call k, warm-up for k < 0. */
static int one_call(bench *b, int k)
{
  mlff_error error = {.code = MLFF_OK};
  mlffprof_error prof = {.code = MLFFPROF_OK};
  mlff_model *model = b->calls->model;
  const int64_t growths = mlff_model_memory(model).n_growths;
  const double cpu = mlffprof_cpu_seconds(), start = mlffprof_seconds();
  if (mlff_model_evaluate(model, cli_list_graph(b->calls->list), NULL, &b->calls->result, &error))
    return cli_fail(&error);
  const double seconds = mlffprof_seconds() - start;
  const int64_t grown = mlff_model_memory(model).n_growths - growths;
  const mlffprof_step step = {.step = k,
                              .seconds = seconds,
                              .cpu_seconds = mlffprof_cpu_seconds() - cpu,
                              .n_atoms = b->calls->n_atoms,
                              .tags = grown ? MLFFPROF_TAG_BUFFER_GROWTH : 0,
                              .slowest_rank = MLFFPROF_UNKNOWN,
                              .components = take_parts(b)};
  if (k >= 0) b->calls->n_growths += grown;
  if (k == -b->n_warm) {
    b->calls->first_seconds = seconds;
    if (mlff_model_record(model, cli_list_graph(b->calls->list), NULL, &b->calls->result, &b->calls->record_seconds,
                          &error))
      return cli_fail(&error);
  }
  mlffprof_status status = mlffprof_recorder_step(b->recorder, &step, &prof);
  if (!status && b->trace) status = trace_call(b, k, start, seconds, step.tags, &prof);
  if (!status && b->memory_every && (k + b->n_warm) % b->memory_every == 0)
    status = sample_memory(b, k, start + seconds, &prof);
  return status ? cli_fail_report(&prof) : CLI_OK;
}

static int run_all(bench *b)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  int code = CLI_OK;
  for (int k = -b->n_warm; k < b->calls->n_calls && !code; k++) {
    if (k == 0 && b->o->against)
      code =
          cli_against_end(&b->calls->against, mlff_model_info(b->calls->model), &b->calls->result, b->calls->n_atoms);
    if (!code) code = one_call(b, k);
  }
  if (code) return code;
  b->calls->memory = mlff_model_memory(b->calls->model);
  if (mlffprof_recorder_report(b->recorder, &b->calls->report, &error)) return cli_fail_report(&error);
  if (b->o->file && mlffprof_report_write(b->calls->report, b->o->file, &error)) return cli_fail_report(&error);
  return CLI_OK;
}

static int record(bench *b)
{
  const cli_options *o = b->o;
  const mlff_info *info = mlff_model_info(b->calls->model);
  mlffprof_error error = {.code = MLFFPROF_OK};
  const int n = b->calls->n_calls;
  mlff_error engine = {.code = MLFF_OK};
  if (o->trace && start_spans(b, &engine)) return cli_fail(&engine);
  const mlffprof_options options = {.name = b->calls->file->frames[0].name,
                                    .model_name = info->name,
                                    .device = info->device,
                                    .n_atoms = b->calls->n_atoms,
                                    .n_warmup = b->n_warm,
                                    .components = b->parts,
                                    .n_components = b->n_parts,
                                    .n_exact = n < 1000000 ? n : 1000000};
  mlffprof_status status = mlffprof_recorder_create(&options, &b->recorder, &error);
  if (!status) status = add_context(b->recorder, o, info, &error);
  if (!status && o->trace) status = mlffprof_trace_open(o->trace, 0, &b->trace, &error);
  if (!status && b->trace) status = mlffprof_trace_row(b->trace, 0, 0, info->name, "calls", &error);
  int code = status ? cli_fail_report(&error) : run_all(b);
  if (mlffprof_trace_close(b->trace, &error) && !code) code = cli_fail_report(&error);
  mlffprof_recorder_free(b->recorder);
  return code;
}

/* Runs before the warm-up of the model, so that the device does not idle between warm-up and timing. */
static mlff_status evaluate_reference(bench *b, mlff_error *error)
{
  const mlff_options open = {.device = "cpu", .precision = "fp64", .members = b->o->open.members};
  mlff_model *model = NULL;
  if (open_for(b->o, open, &b->calls->file->frames[0], &model, error)) return error->code;
  const mlff_status status = cli_against_begin(model, cli_list_graph(b->calls->list), &b->calls->against, error);
  mlff_model_close(model);
  return status;
}

int cli_calls_run(const cli_options *o, int n_calls, int memory_every, cli_calls *calls)
{
  mlff_error error = {.code = MLFF_OK};
  bench b = {.o = o, .calls = calls, .n_warm = 1 + n_calls / 10, .memory_every = memory_every};
  *calls = (cli_calls){.n_calls = n_calls};
  if (cli_file_take(o->arguments[1], &calls->file, &error)) return cli_fail(&error);
  cli_frame *frame = &calls->file->frames[0];
  if (open_for(o, o->open, frame, &calls->model, &error)) return cli_fail(&error);
  const mlff_info *info = mlff_model_info(calls->model);
  if (cli_frame_species(frame, info, o->arguments[1], &error)) return cli_fail(&error);
  if (cli_list_take(calls->file, 0, info->cutoff + o->skin, o->n_replicas, &calls->list, &error))
    return cli_fail(&error);
  calls->n_atoms = cli_list_graph(calls->list)->n_local;
  calls->result.forces = malloc(((size_t) calls->n_atoms + 1) * sizeof *calls->result.forces);
  int code = calls->result.forces ? CLI_OK : cli_error(CLI_FAILED, NULL, "out of memory for %d forces", calls->n_atoms);
  if (!code && o->against && evaluate_reference(&b, &error)) code = cli_fail(&error);
  if (!code) code = record(&b);
  return code;
}

void cli_calls_free(cli_calls *calls)
{
  mlffprof_report_free(calls->report);
  mlff_model_close(calls->model);
  cli_list_give_back(calls->list);
  cli_file_give_back(calls->file);
  free(calls->result.forces);
  free(calls->against.forces);
}
