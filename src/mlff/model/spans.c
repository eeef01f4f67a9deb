/* spans.c: where the time of an evaluation goes.
 *
 * An architecture calls operations through the backend's table. Spans on: the backend gets a table whose entries read the
 * clock, call the plain operation, and read the clock again. Spans off: the plain table, so being off costs nothing.
 *
 * Operations are timed as the caller sees them. A backend that returns before its work is done has stamps on its own stream
 * instead (ops.h: mlff_timing_ops), which are read when the step is over; a replayed step has those of its recording.
 */
#define _POSIX_C_SOURCE 200809L

#include "spans.h"

#include "../backend/ops_simple.h"
#include "model_impl.h"

#include <stdlib.h>
#include <time.h>

/* A part between two stamps of the device. */
typedef struct device_part {
  mlff_span_id span;
  int n_calls, from, to;
} device_part;

struct mlff_spans {
  const mlff_ops *plain;
  mlff_ops timed;
  mlff_span sums[MLFF_N_SPANS];
  mlff_stamp *stamps; /* [n_room] */
  size_t n_stamps, n_room, n_dropped;
  device_part *parts; /* [parts_room] of the last step that was not replayed, in the order of their ends */
  size_t n_parts, parts_room;
};

static const mlff_span no_spans[MLFF_N_SPANS] = {
    [MLFF_SPAN_EVALUATE] = {.name = "evaluate"},
    [MLFF_SPAN_EDGES] = {.name = "edges", .part = "energy"},
    [MLFF_SPAN_DESCRIPTOR] = {.name = "descriptor", .part = "energy"},
    [MLFF_SPAN_MESSAGE] = {.name = "message", .part = "energy"},
    [MLFF_SPAN_DENSE] = {.name = "dense", .part = "energy"},
    [MLFF_SPAN_DESCRIPTOR_BACKWARD] = {.name = "descriptor_backward", .part = "forces"},
    [MLFF_SPAN_MESSAGE_BACKWARD] = {.name = "message_backward", .part = "forces"},
    [MLFF_SPAN_DENSE_BACKWARD] = {.name = "dense_backward", .part = "forces"},
    [MLFF_SPAN_FORCES] = {.name = "forces", .part = "forces"},
    [MLFF_SPAN_EXCHANGE] = {.name = "exchange"},
    [MLFF_SPAN_COPY] = {.name = "copy"},
};

double mlff_spans_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* n_calls: 1, or 0 for another part of the same call. */
static void add(mlff_spans *spans, mlff_span_id span, int n_calls, double begin, double end)
{
  spans->sums[span].seconds += end - begin;
  spans->sums[span].calls += n_calls;
  if (spans->n_stamps < spans->n_room)
    spans->stamps[spans->n_stamps++] = (mlff_stamp){.span = span, .begin = begin, .end = end};
  else if (spans->n_room)
    spans->n_dropped++;
}

void mlff_spans_add(mlff_spans *spans, mlff_span_id span, double begin)
{
  add(spans, span, 1, begin, mlff_spans_now());
}

/* ---- time on a device ---------------------------------------------------------------------------------------------- */

void mlff_spans_restart(mlff_backend *backend)
{
  if (!backend->spans) return;
  backend->spans->n_parts = 0;
  if (backend->ops->timing.restart) backend->ops->timing.restart(backend);
}

/* Keeps a part; without memory for it the rest of the step is not kept either, so that sums stay sums of whole parts. */
static void keep_part(mlff_spans *spans, mlff_span_id span, int n_calls, int from, int to)
{
  if (from < 0 || to < 0) return;
  if (spans->n_parts == spans->parts_room) {
    const size_t room = spans->parts_room ? 2 * spans->parts_room : 256;
    device_part *parts = realloc(spans->parts, room * sizeof *parts);
    if (!parts) return;
    spans->parts = parts;
    spans->parts_room = room;
  }
  spans->parts[spans->n_parts++] = (device_part){.span = span, .n_calls = n_calls, .from = from, .to = to};
}

void mlff_spans_settle(mlff_backend *backend, double begin)
{
  mlff_spans *spans = backend->spans;
  const mlff_timing_ops *timing = &backend->ops->timing;
  for (size_t k = 0; spans && k < spans->n_parts; k++) {
    const device_part *p = &spans->parts[k];
    const double start = begin + timing->seconds(backend, spans->parts[0].from, p->from);
    add(spans, p->span, p->n_calls, start, start + timing->seconds(backend, p->from, p->to));
  }
}

/* ---- timed operations ------------------------------------------------------------------------------------------- */

/* When a part begins: on the host's clock, or as a stamp of the device. */
typedef struct moment {
  double seconds;
  int stamp;
} moment;

static moment begin_part(mlff_backend *backend, mlff_span_id span)
{
  const mlff_timing_ops *timing = &backend->ops->timing;
  if (timing->stamp) return (moment){.stamp = timing->stamp(backend, no_spans[span].name)};
  return (moment){.seconds = mlff_spans_now()};
}

static void end_part(mlff_backend *backend, mlff_span_id span, int n_calls, moment begin)
{
  const mlff_timing_ops *timing = &backend->ops->timing;
  if (timing->stamp)
    keep_part(backend->spans, span, n_calls, begin.stamp, timing->stamp(backend, NULL));
  else
    add(backend->spans, span, n_calls, begin.seconds, mlff_spans_now());
}

/* Times the statement `call`, in which `plain` is the plain table, for `span`. */
#define TIMED_PART(span, n_calls, call)                         \
  do {                                                          \
    const mlff_ops *plain = backend->spans->plain;              \
    const moment begin = begin_part(backend, MLFF_SPAN_##span); \
    call;                                                       \
    end_part(backend, MLFF_SPAN_##span, n_calls, begin);        \
  } while (0)
#define TIMED(span, call) TIMED_PART(span, 1, call)

/* The same for an operation that can fail. */
#define TIMED_STATUS(span, call)  \
  do {                            \
    mlff_status status;           \
    TIMED(span, status = (call)); \
    return status;                \
  } while (0)

static mlff_status timed_upload(mlff_backend *backend, void *to, const void *from, size_t bytes, mlff_error *error)
{
  TIMED_STATUS(COPY, plain->upload(backend, to, from, bytes, error));
}

static mlff_status timed_download(mlff_backend *backend, void *to, const void *from, size_t bytes, mlff_error *error)
{
  TIMED_STATUS(COPY, plain->download(backend, to, from, bytes, error));
}

static mlff_status timed_upload_reals(mlff_backend *backend, void *to, const double *from, int64_t n, mlff_error *error)
{
  TIMED_STATUS(COPY, plain->upload_reals(backend, to, from, n, error));
}

static mlff_status timed_download_reals(mlff_backend *backend, double *to, const void *from, int64_t n,
                                        mlff_error *error)
{
  TIMED_STATUS(COPY, plain->download_reals(backend, to, from, n, error));
}

static mlff_status timed_exchange_begin(mlff_backend *backend, const mlff_exchange_args *args, mlff_error *error)
{
  mlff_status status;
  if (!args->halo) return MLFF_OK;
  TIMED_PART(EXCHANGE, 0, status = plain->exchange_begin(backend, args, error));
  return status;
}

static void timed_exchange_progress(mlff_backend *backend, const mlff_exchange_args *args)
{
  if (args->halo) TIMED_PART(EXCHANGE, 0, plain->exchange_progress(backend, args));
}

static mlff_status timed_exchange_finish(mlff_backend *backend, const mlff_exchange_args *args, mlff_error *error)
{
  if (!args->halo) return MLFF_OK;
  TIMED_STATUS(EXCHANGE, plain->exchange_finish(backend, args, error));
}

static mlff_status timed_exchange_sum(mlff_backend *backend, const mlff_halo *halo, void *rows, int64_t n_nodes,
                                      int64_t width, mlff_error *error)
{
  TIMED_STATUS(EXCHANGE, plain->exchange_sum(backend, halo, rows, n_nodes, width, error));
}

static void timed_linear(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  if (linear->transposed)
    TIMED(DENSE_BACKWARD, plain->linear(backend, linear, args));
  else
    TIMED(DENSE, plain->linear(backend, linear, args));
}

static void timed_linear_many(mlff_backend *backend, int n, const mlff_linear *const *linears,
                              const mlff_linear_args *args)
{
  if (n && linears[0]->transposed)
    TIMED(DENSE_BACKWARD, plain->linear_many(backend, n, linears, args));
  else
    TIMED(DENSE, plain->linear_many(backend, n, linears, args));
}

static void timed_readout_many(mlff_backend *backend, int n, const mlff_ani_readout_args *args)
{
  TIMED(DENSE, plain->ani.readout_many(backend, n, args));
}

static mlff_status timed_edges(mlff_backend *backend, const mlff_graph *graph, double cutoff, mlff_edges *edges,
                               mlff_error *error)
{
  TIMED_STATUS(EDGES, plain->edges(backend, graph, cutoff, edges, error));
}

static mlff_status timed_forces(mlff_backend *backend, const mlff_forces_args *args, mlff_error *error)
{
  TIMED_STATUS(FORCES, plain->forces(backend, args, error));
}

static mlff_status timed_radial(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                mlff_painn_radial *radial, mlff_error *error)
{
  TIMED_STATUS(DESCRIPTOR, plain->painn.radial(backend, basis, edges, radial, error));
}

static mlff_status timed_aev_forward(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args, mlff_error *error)
{
  TIMED_STATUS(DESCRIPTOR, plain->ani.aev_forward(backend, aev, args, error));
}

static mlff_status timed_aev_backward(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args,
                                      mlff_error *error)
{
  TIMED_STATUS(DESCRIPTOR_BACKWARD, plain->ani.aev_backward(backend, aev, args, error));
}

static mlff_status timed_orb_graph(mlff_backend *backend, const mlff_graph *graph, const mlff_edges *edges,
                                   int n_neighbours, mlff_orb_graph *out, mlff_error *error)
{
  TIMED_STATUS(EDGES, plain->orb.graph(backend, graph, edges, n_neighbours, out, error));
}

#define DEFINE_SIMPLE(family, name, type, span)                                \
  static void timed_##family##_##name(mlff_backend *backend, const type *args) \
  {                                                                            \
    TIMED(span, plain->family.name(backend, args));                            \
  }
MLFF_SIMPLE_OPS(DEFINE_SIMPLE)

static void fill_timed(mlff_spans *spans)
{
  mlff_ops *ops = &spans->timed;
  *ops = *spans->plain;
  ops->upload = timed_upload;
  ops->download = timed_download;
  ops->upload_reals = timed_upload_reals;
  ops->download_reals = timed_download_reals;
  ops->exchange_begin = timed_exchange_begin;
  ops->exchange_progress = timed_exchange_progress;
  ops->exchange_finish = timed_exchange_finish;
  ops->exchange_sum = timed_exchange_sum;
  ops->linear = timed_linear;
  ops->linear_many = timed_linear_many;
  ops->atoms_begin = NULL; /* what is timed is not put off */
  ops->atoms_end = NULL;
  ops->ani.networks = NULL; /* forward and backward are parts of their own */
  ops->ani.readout_many = timed_readout_many;
  ops->edges = timed_edges;
  ops->forces = timed_forces;
  ops->painn.radial = timed_radial;
  ops->orb.graph = timed_orb_graph;
  ops->ani.aev_forward = timed_aev_forward;
  ops->ani.aev_backward = timed_aev_backward;
#define FILL_SIMPLE(family, name, type, span) ops->family.name = timed_##family##_##name;
  MLFF_SIMPLE_OPS(FILL_SIMPLE)
}

/* ---- on, off, reading ---------------------------------------------------------------------------------------------- */

mlff_status mlff_spans_start(mlff_model *model, size_t n_stamps, mlff_error *error)
{
  if (!model) return mlff_fail(error, MLFF_E_ARG, "mlff_spans_start: the model is NULL");
  if (n_stamps > SIZE_MAX / sizeof(mlff_stamp))
    return mlff_fail(error, MLFF_E_ARG, "mlff_spans_start: %zu stamps are too many", n_stamps);
  mlff_spans *spans = calloc(1, sizeof *spans);
  mlff_stamp *stamps = n_stamps ? malloc(n_stamps * sizeof *stamps) : NULL;
  if (!spans || (n_stamps && !stamps)) {
    free(spans);
    free(stamps);
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %zu stamps", n_stamps);
  }
  mlff_spans_stop(model);
  mlff_spans_free(model->spans, model->backend);
  spans->plain = model->backend->ops;
  spans->stamps = stamps;
  spans->n_room = n_stamps;
  for (int k = 0; k < MLFF_N_SPANS; k++) spans->sums[k] = no_spans[k];
  fill_timed(spans);
  mlff_replay_forget(model); /* a recording has the stamps of its parts, or has none */
  model->spans = model->backend->spans = spans;
  model->backend->ops = &spans->timed;
  return MLFF_OK;
}

void mlff_spans_stop(mlff_model *model)
{
  if (!model || !model->backend->spans) return;
  mlff_replay_forget(model);
  model->backend->ops = model->backend->spans->plain;
  model->backend->spans = NULL;
}

const mlff_span *mlff_spans_read(const mlff_model *model)
{
  return model && model->spans ? model->spans->sums : no_spans;
}

const mlff_stamp *mlff_spans_take(mlff_model *model, size_t *n, size_t *n_dropped)
{
  mlff_spans *spans = model ? model->spans : NULL;
  *n = spans ? spans->n_stamps : 0;
  if (n_dropped) *n_dropped = spans ? spans->n_dropped : 0;
  if (!spans) return NULL;
  spans->n_stamps = spans->n_dropped = 0;
  return spans->stamps;
}

void mlff_spans_free(mlff_spans *spans, mlff_backend *backend)
{
  if (!spans) return;
  if (backend && backend->spans == spans) {
    backend->ops = spans->plain;
    backend->spans = NULL;
  }
  free(spans->stamps);
  free(spans->parts);
  free(spans);
}
