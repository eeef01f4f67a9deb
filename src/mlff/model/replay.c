/* replay.c: steps recorded once and then started with one call, on backends that can (ops.h: mlff_replay_ops).
 *
 * A step with a new list runs op by op, which uploads the list and settles all sizes. When the next one has the same
 * list, it is recorded and replayed from then on; mlff_model_record does that before the steps of a run. After the next
 * rebuild of the list another plain step decides: if it put the very same things on the stream, the recording goes on
 * to serve. A replayed step with more edges than the arrays have room for computes nothing, and is run again op by op.
 * So is one in which atoms are so close that they repel each other by the model file's repulsion, and the steps after
 * it until they are not: such steps are never recorded, which keeps that pass over the edges out of all others.
 *
 * Where features of other ranks' atoms are needed, the backend records the parts between exchanges. A rank decides for
 * itself: whatever it does, it makes the exchanges of one step, so it leaves a replayed step before the first one or
 * not at all. A recording makes none.
 */
#include "model_impl.h"
#include "spans.h"

#include <string.h>

int mlff_replay_has_exchanges(const mlff_model *m, const mlff_halo *halo)
{
  return halo && (m->info.exchange_width || m->info.reverse_width);
}

/* Results that take operations or downloads of their own, where the graph is, and whether there are exchanges. */
static unsigned wants_of(const mlff_model *m, const mlff_halo *halo, const mlff_result *result)
{
  const unsigned place = m->host_view.is_on_device ? 16u + (result->forces ? 32u : 0u) : 0u;
  return (result->atom_virial ? 1u : 0u) | (result->atom_centroid ? 2u : 0u) |
         (mlff_wants_members(m, result) ? 4u : 0u) | (result->member_forces ? 8u : 0u) | place |
         (mlff_replay_has_exchanges(m, halo) ? 64u : 0u) | (result->atom_energy ? 128u : 0u);
}

void mlff_replay_open(mlff_model *m, const mlff_options *options)
{
  mlff_replay *r = &m->replay;
  const int is_wanted = mlff_option_is_on(options ? options->replay : NULL);
  r->is_on = is_wanted && m->backend->ops->replay.begin;
  if (!r->is_on) snprintf(r->why, sizeof r->why, "%s", is_wanted ? "not on a CPU" : "replay no");
  m->backend->records = r->is_on;
}

/* 1 when this step may be started from a recording or recorded. */
static int can_replay(const mlff_model *m, const mlff_graph *graph, const mlff_result *result)
{
  if (result->member_forces) return 0; /* evaluations of their own */
  if (!m->replay.is_on || graph->list_id == 0) return 0;
  if (m->edges.is_close) return 0; /* in the last step: the next one will need the repulsion, too */
  return m->replay.list_id == graph->list_id && m->edges.list_id == graph->list_id;
}

/* A step op by op; then whether a recording still fits. */
static mlff_status plain_step(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                              mlff_error *error)
{
  mlff_replay *r = &m->replay;
  const mlff_replay_ops *ops = &m->backend->ops->replay;
  const int is_new = r->list_id != graph->list_id;
  r->list_id = 0;
  const mlff_status status = mlff_step_plain(m, graph, halo, result, error);
  ops->finish(m->backend);
  if (status || !r->is_on) return status;
  r->list_id = graph->list_id;
  /* a step with the recorded list but other results says nothing about the recording */
  if (is_new && (r->wants != wants_of(m, halo, result) || ops->state(m->backend) != MLFF_REPLAY_SAME))
    r->is_recorded = 0;
  return MLFF_OK;
}

/* ---- a halo that reaches nobody ---------------------------------------------------------------------------------- */

static mlff_status no_forward(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  (void) context, (void) rows, (void) row_bytes, (void) error;
  return MLFF_OK;
}

static mlff_status no_forward_device(void *context, const void *packed, void *arrivals, size_t row_bytes,
                                     mlff_error *error)
{
  (void) context, (void) packed, (void) arrivals, (void) row_bytes, (void) error;
  return MLFF_OK;
}

static mlff_status no_reverse(void *context, void *rows, int width, size_t real_size, mlff_error *error)
{
  (void) context, (void) rows, (void) width, (void) real_size, (void) error;
  return MLFF_OK;
}

static mlff_status no_reduce(void *context, double *values, int n, mlff_error *error)
{
  (void) context, (void) values, (void) n, (void) error;
  return MLFF_OK;
}

/* For a recording: the exchanges in their places, but no other rank takes part. */
static mlff_halo muted(const mlff_halo *halo)
{
  return (mlff_halo){.forward = no_forward,
                     .sent = halo->sent,
                     .n_sent = halo->n_sent,
                     .forward_device = halo->forward_device ? no_forward_device : NULL,
                     .reverse = no_reverse,
                     .reduce = no_reduce};
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

/* Runs the step's calls while the backend records them. Results are not there yet. */
static mlff_status record_calls(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                                mlff_error *error)
{
  const mlff_halo silent = halo ? muted(halo) : (mlff_halo){.n_sent = 0};
  const mlff_arch_inputs in = {.graph = &m->host_view.graph,
                               .edges = &m->edges,
                               .halo = mlff_replay_has_exchanges(m, halo) ? &silent : NULL};
  m->replay.out = (mlff_arch_outputs){.node_energy = NULL};
  mlff_spans_restart(m->backend);
  MLFF_TRY(m->backend->ops->edges(m->backend, graph, m->head->cutoff, &m->edges, error));
  MLFF_TRY(m->arch->evaluate(m->net, &in, &m->replay.out, error));
  return mlff_step_downloads(m, &m->host_view.graph, &m->replay.out, result, error);
}

/* MLFF_E_UNSUPPORTED when it did not work, and `why` says so. */
static mlff_status record(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                          mlff_error *error)
{
  mlff_replay *r = &m->replay;
  const mlff_replay_ops *ops = &m->backend->ops->replay;
  mlff_error why = {.code = MLFF_OK};
  const double begin = mlff_spans_now();
  r->is_recorded = 0;
  mlff_status status = ops->begin(m->backend, &why);
  if (!status) {
    const mlff_status calls = record_calls(m, graph, halo, result, &why);
    status = ops->end(m->backend, calls ? NULL : &why);
    if (calls && calls != MLFF_E_DEVICE) status = MLFF_E_UNSUPPORTED;
  }
  r->counts.record_seconds += mlff_spans_now() - begin;
  if (status == MLFF_E_UNSUPPORTED) {
    r->is_on = m->backend->records = 0;
    snprintf(r->why, sizeof r->why, "%.*s", (int) sizeof r->why - 1, why.text);
    return status;
  }
  if (status) {
    if (error) *error = why;
    return status;
  }
  r->is_recorded = 1;
  r->wants = wants_of(m, halo, result);
  r->counts.n_recorded++;
  return MLFF_OK;
}

/* ---- replaying --------------------------------------------------------------------------------------------------- */

/* Of a step with exchanges the calls are made again: those on the device do nothing now, and exchanges start the next
 * part. So are those of a model with forces of its own, which ends on the host. */
static mlff_status hand_out(mlff_model *m, const mlff_halo *halo, mlff_result *result, mlff_error *error)
{
  const mlff_graph *graph = &m->host_view.graph;
  const mlff_arch_inputs in = {.graph = graph,
                               .edges = &m->edges,
                               .halo = mlff_replay_has_exchanges(m, halo) ? halo : NULL};
  if (m->replay.out.direct || in.halo) MLFF_TRY(m->arch->evaluate(m->net, &in, &m->replay.out, error));
  return mlff_step_results(m, graph, &m->replay.out, result, error);
}

/* 1 when there is a recording of a step with these results. */
static int is_recorded(const mlff_model *m, const mlff_halo *halo, const mlff_result *result)
{
  return m->replay.is_recorded && m->replay.wants == wants_of(m, halo, result) &&
         m->backend->ops->replay.state(m->backend) != MLFF_REPLAY_NONE;
}

mlff_status mlff_replay_step(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                             mlff_error *error)
{
  mlff_replay *r = &m->replay;
  const mlff_replay_ops *ops = &m->backend->ops->replay;
  int overflow = 0;
  if (!can_replay(m, graph, result)) return plain_step(m, graph, halo, result, error);
  if (!is_recorded(m, halo, result)) {
    /* other results for once, e.g. stress of atoms in some steps: not worth a recording */
    if (r->is_recorded && !r->is_other && ops->state(m->backend) != MLFF_REPLAY_NONE) {
      r->is_other = 1;
      return plain_step(m, graph, halo, result, error);
    }
    const mlff_status status = record(m, graph, halo, result, error);
    if (status == MLFF_E_UNSUPPORTED || (status && mlff_replay_has_exchanges(m, halo)))
      return plain_step(m, graph, halo, result, error);
    MLFF_TRY(status);
  }
  r->is_other = 0;
  mlff_status status = ops->start(m->backend, graph, &m->edges, &overflow, error);
  if (!status && overflow) {
    r->counts.n_overflows++;
    r->is_recorded = 0;
    return plain_step(m, graph, halo, result, error);
  }
  if (!status) status = mlff_step_check_distance(m, &m->host_view.graph, error);
  /* recordings are made without the repulsion; and after an error the exchanges are still to come */
  if ((!status && m->edges.is_close) || (status && mlff_replay_has_exchanges(m, halo))) {
    ops->finish(m->backend);
    return plain_step(m, graph, halo, result, error);
  }
  if (!status) status = hand_out(m, halo, result, error);
  ops->finish(m->backend);
  if (!status) r->counts.n_replayed++;
  return status;
}

int mlff_replay_make_room(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, const mlff_result *result)
{
  if (!can_replay(m, graph, result) || is_recorded(m, halo, result)) return 0;
  m->replay.is_recorded = 0; /* one of other results gives way at once */
  return 1;
}

mlff_status mlff_replay_record(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                               mlff_error *error)
{
  const mlff_status status = record(m, graph, halo, result, error);
  return status == MLFF_E_UNSUPPORTED ? MLFF_OK : status;
}

void mlff_replay_forget(mlff_model *m)
{
  m->replay.list_id = 0;
  m->replay.is_recorded = m->replay.is_other = 0;
}

void mlff_replay_restart(mlff_model *m)
{
  mlff_replay_forget(m);
  m->replay.counts = (mlff_replays){.is_on = 0};
}

mlff_replays mlff_model_replays(const mlff_model *model)
{
  mlff_replays counts = model->replay.counts;
  counts.is_on = model->replay.is_on;
  counts.why = model->replay.why;
  const mlff_replay_ops *ops = &model->backend->ops->replay;
  if (model->replay.is_recorded && ops->count) ops->count(model->backend, &counts.n_nodes, &counts.n_kernels);
  return counts;
}
