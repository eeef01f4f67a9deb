/* spans.c: timing of an evaluation.
 *
 * An architecture calls operations through the backend's table. While timing is on, the table's entries read the clock
 * before and after the plain operation. While it is off, the plain table is used and timing has no cost.
 *
 * An asynchronous backend records events on its stream instead (ops.h: mlff_timing_ops), which are read after the step;
 * a replayed step has the events of its capture.
 */
#define _POSIX_C_SOURCE 200809L

#include "spans.h"

#include "model_impl.h"
#include "work.h"

#include <stdlib.h>
#include <time.h>

/* A part between two events of the device. */
typedef struct device_part {
  mlff_span_id span;
  int n_calls, first, last;
} device_part;

struct mlff_spans {
  const mlff_ops *plain;
  mlff_ops timed;
  mlff_span sums[MLFF_N_SPANS];
  mlff_stamp *stamps; /* [n_room] */
  size_t n_stamps, n_room, n_dropped;
  device_part *parts; /* [parts_room] of the last plain step, in the order of their ends */
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
    [MLFF_SPAN_STRESS] = {.name = "stress", .part = "stress"},
};

double mlff_spans_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Adds time to a span. n_calls: 1, or 0 for another part of the same call. */
static void add(mlff_spans *spans, mlff_span_id span, int n_calls, double begin, double end)
{
  spans->sums[span].seconds += end - begin;
  spans->sums[span].calls += n_calls;
  if (spans->n_stamps < spans->n_room)
    spans->stamps[spans->n_stamps++] = (mlff_stamp){.span = span, .begin = begin, .end = end};
  else if (spans->n_room)
    spans->n_dropped++;
}

void mlff_spans_add(mlff_spans *spans, mlff_span_id span, double begin, double end)
{
  add(spans, span, 1, begin, end);
}

/* ---- time on a device -------------------------------------------------------------------------------------------- */

void mlff_spans_restart(mlff_backend *backend)
{
  if (!backend->spans) return;
  backend->spans->n_parts = 0;
  if (backend->ops->timing.restart) backend->ops->timing.restart(backend);
}

/* Stores a part. If memory is short, the rest of the step is dropped as well, so that totals consist of whole parts. */
static void keep_part(mlff_spans *spans, mlff_span_id span, int n_calls, int first, int last)
{
  if (first < 0 || last < 0) return;
  if (spans->n_parts == spans->parts_room) {
    const size_t room = spans->parts_room ? 2 * spans->parts_room : 256;
    device_part *parts = realloc(spans->parts, room * sizeof *parts);
    if (!parts) return;
    spans->parts = parts;
    spans->parts_room = room;
  }
  spans->parts[spans->n_parts++] = (device_part){.span = span, .n_calls = n_calls, .first = first, .last = last};
}

void mlff_spans_settle(mlff_backend *backend, double begin)
{
  mlff_spans *spans = backend->spans;
  const mlff_timing_ops *timing = &backend->ops->timing;
  for (size_t k = 0; spans && k < spans->n_parts; k++) {
    const device_part *p = &spans->parts[k];
    const double start = begin + timing->seconds(backend, spans->parts[0].first, p->first);
    add(spans, p->span, p->n_calls, start, start + timing->seconds(backend, p->first, p->last));
  }
}

/* ---- timed operations ------------------------------------------------------------------------------------------- */

/* Names of op_list.h that are not spans: below 0 = not timed, + TIME_ONLY = time of a call that another op counts. */
enum { MLFF_SPAN_NONE = -1, TIME_ONLY = MLFF_N_SPANS };
#define MLFF_SPAN_PRODUCT (linear->transposed ? MLFF_SPAN_DENSE_BACKWARD : MLFF_SPAN_DENSE)
#define MLFF_SPAN_PRODUCTS (n && linears[0]->transposed ? MLFF_SPAN_DENSE_BACKWARD : MLFF_SPAN_DENSE)
#define MLFF_SPAN_HALO (args->halo ? (int) MLFF_SPAN_EXCHANGE : MLFF_SPAN_NONE)
#define MLFF_SPAN_HALO_PART (args->halo ? TIME_ONLY + (int) MLFF_SPAN_EXCHANGE : MLFF_SPAN_NONE)

/* Start of a part: host clock, or event of the device. */
typedef struct part {
  mlff_backend *backend;
  int span, n_calls, stamp;
  double seconds;
} part;

static part begin_part(mlff_backend *backend, int span)
{
  const mlff_timing_ops *timing = &backend->ops->timing;
  part p = {.backend = backend, .span = span, .n_calls = span < TIME_ONLY};
  if (span < 0) return p;
  p.span %= TIME_ONLY;
  if (timing->stamp)
    p.stamp = timing->stamp(backend, no_spans[p.span].name);
  else
    p.seconds = mlff_spans_now();
  return p;
}

static void end_part(const part *p)
{
  const mlff_timing_ops *timing = &p->backend->ops->timing;
  mlff_spans *spans = p->backend->spans;
  if (p->span < 0) return;
  if (timing->stamp)
    keep_part(spans, (mlff_span_id) p->span, p->n_calls, p->stamp, timing->stamp(p->backend, NULL));
  else
    add(spans, (mlff_span_id) p->span, p->n_calls, p->seconds, mlff_spans_now());
}

static void add_work(mlff_backend *backend, int span, mlff_work work)
{
  mlff_span *sum = span < 0 ? NULL : &backend->spans->sums[span % TIME_ONLY];
  if (!sum) return;
  sum->flop += work.flop;
  sum->bytes += work.bytes;
}

/* timed_NAME: counts the work, calls the plain operation and ends the part, whatever the operation returns. */
#define OP(name, returns, parameters, arguments, span, forecast, bodies)                               \
  static returns timed_##name parameters                                                               \
  {                                                                                                    \
    if (mlff_works.name && !backend->ops->timing.stamp)                                                \
      add_work(backend, (int) MLFF_SPAN_##span, mlff_works.name arguments);                            \
    __attribute__((cleanup(end_part))) const part timed = begin_part(backend, (int) MLFF_SPAN_##span); \
    return backend->spans->plain->name arguments;                                                      \
  }
#include "../backend/op_list.h"

#define STAYS_BOTH 1
#define STAYS_GPU_ONLY 1
#define STAYS_FUSED 0

static void fill_timed(mlff_spans *spans)
{
  mlff_ops *ops = &spans->timed;
  *ops = *spans->plain;
#define OP(name, returns, parameters, arguments, span, forecast, bodies) \
  ops->name = STAYS_##bodies && ops->name ? timed_##name : NULL;
#include "../backend/op_list.h"
}

/* ---- on, off, reading -------------------------------------------------------------------------------------------- */

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
  mlff_replay_forget(model); /* the events are part of the captured step */
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
