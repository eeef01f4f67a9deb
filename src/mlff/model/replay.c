/* replay.c: capture and replay of steps, on backends that support it (ops.h: mlff_replay_ops).
 *
 * A step with a new list runs op by op, which uploads the list and fixes all sizes. The next step with the same list is
 * captured and replayed from then on; mlff_model_record captures it before a run. After a new list another plain step
 * decides: the captured step remains valid if the plain step launched the same work. A replayed step with more edges
 * than the arrays can store computes nothing and is run again op by op. So are steps with atoms within the cutoffs of
 * the model file's repulsion, unless every step adds it: they are never captured.
 *
 * With features of other ranks, the backend captures the parts between exchanges. Each rank decides for itself, because
 * all kinds of steps make the same exchanges: a replayed step is abandoned before its first exchange or not at all. A
 * capture makes no exchanges.
 */
#include "model_impl.h"
#include "spans.h"

#include <string.h>

int mlff_replay_has_exchanges(const mlff_model *m, const mlff_halo *halo)
{
  return halo && (m->info.exchange_width || m->info.reverse_width);
}

/* What the launches of a step depend on besides the list: results with operations or downloads of their own, the place
 * of the graph, exchanges. */
enum {
  KEY_ATOM_VIRIAL = 1u << 0,
  KEY_ATOM_CENTROID = 1u << 1,
  KEY_MEMBERS = 1u << 2,
  KEY_MEMBER_FORCES = 1u << 3,
  KEY_ON_DEVICE = 1u << 4,
  KEY_HOST_FORCES = 1u << 5, /* of a graph on the device */
  KEY_EXCHANGES = 1u << 6,
  KEY_ATOM_ENERGY = 1u << 7
};

static unsigned key_of(const mlff_model *m, const mlff_halo *halo, const mlff_result *result)
{
  const int is_on_device = m->host_view.is_on_device;
  unsigned key = 0;
  if (result->atom_virial) key |= KEY_ATOM_VIRIAL;
  if (result->atom_centroid) key |= KEY_ATOM_CENTROID;
  if (mlff_wants_members(m, result)) key |= KEY_MEMBERS;
  if (result->member_forces) key |= KEY_MEMBER_FORCES;
  if (is_on_device) key |= KEY_ON_DEVICE;
  if (is_on_device && result->forces) key |= KEY_HOST_FORCES;
  if (mlff_replay_has_exchanges(m, halo)) key |= KEY_EXCHANGES;
  if (result->atom_energy) key |= KEY_ATOM_ENERGY;
  return key;
}

void mlff_replay_open(mlff_model *m, const mlff_options *options)
{
  mlff_replay *r = &m->replay;
  const int is_requested = mlff_option_is_on(options ? options->replay : NULL);
  r->is_on = is_requested && m->backend->ops->replay.begin;
  if (!r->is_on) snprintf(r->why, sizeof r->why, "%s", is_requested ? "not on a CPU" : "replay no");
  m->backend->records = r->is_on;
}

/* 1 if captured steps contain the repulsion. The gradients of direct models are outputs of their own. */
static int is_captured(const mlff_model *m)
{
  return m->repulsion.is_always && (m->info.traits & MLFF_CONSERVATIVE);
}

/* 1 if a pair is close enough for a repulsion that captured steps do not contain. */
static int needs_repulsion(const mlff_model *m)
{
  return (m->edges.is_close || m->repulsion.is_always) && !is_captured(m);
}

/* 1 if this step may be replayed or captured. */
static int can_replay(const mlff_model *m, const mlff_graph *graph, const mlff_result *result)
{
  if (result->member_forces) return 0;                                         /* separate evaluations */
  if (mlff_wants_features(result) || mlff_wants_centroid(m, result)) return 0; /* in few steps */
  if (!m->replay.is_on || graph->list_id == 0) return 0;
  if (needs_repulsion(m)) return 0; /* the last step needed it, so the next one will */
  return m->replay.list_id == graph->list_id && m->edges.list_id == graph->list_id;
}

/* A step op by op, after which a captured step may have become invalid. */
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
  /* a step with the same list but other results does not affect the captured step */
  if (is_new && (r->key != key_of(m, halo, result) || ops->state(m->backend) != MLFF_REPLAY_SAME)) r->is_recorded = 0;
  return MLFF_OK;
}

/* ---- a halo without communication -------------------------------------------------------------------------------- */

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

/* For a capture: the exchanges in their places, without other ranks. */
static mlff_halo muted(const mlff_halo *halo)
{
  return (mlff_halo){.forward = no_forward,
                     .sent = halo->sent,
                     .n_sent = halo->n_sent,
                     .forward_device = halo->forward_device ? no_forward_device : NULL,
                     .reverse = no_reverse,
                     .reduce = no_reduce};
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

/* Makes the calls of the step while the backend captures them. Computes no results. */
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
  if (is_captured(m)) MLFF_TRY(mlff_repulsion_add(m, &m->replay.out, error));
  return mlff_step_downloads(m, &m->host_view.graph, &m->replay.out, result, error);
}

/* MLFF_E_UNSUPPORTED if the backend cannot capture the step; then `why` is the reason. */
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
  r->key = key_of(m, halo, result);
  r->counts.n_recorded++;
  return MLFF_OK;
}

/* ---- replay ------------------------------------------------------------------------------------------------------ */

/* Reads the results of a replayed step. The calls of a step with exchanges are made again: ops on the device do
 * nothing, and exchanges start the next part. The same for direct models, which end on the host. */
static mlff_status read_results(mlff_model *m, const mlff_halo *halo, mlff_result *result, mlff_error *error)
{
  const mlff_graph *graph = &m->host_view.graph;
  const mlff_arch_inputs in = {.graph = graph,
                               .edges = &m->edges,
                               .halo = mlff_replay_has_exchanges(m, halo) ? halo : NULL};
  if (m->replay.out.direct || in.halo) MLFF_TRY(m->arch->evaluate(m->net, &in, &m->replay.out, error));
  return mlff_step_results(m, graph, &m->replay.out, result, error);
}

/* 1 if a step with these results has been captured. */
static int is_recorded(const mlff_model *m, const mlff_halo *halo, const mlff_result *result)
{
  return m->replay.is_recorded && m->replay.key == key_of(m, halo, result) &&
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
    /* other results in a single step, e.g. per-atom stress every 100 steps: not worth a capture */
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
  /* after an error the exchanges must still be made */
  if ((!status && needs_repulsion(m)) || (status && mlff_replay_has_exchanges(m, halo))) {
    ops->finish(m->backend);
    return plain_step(m, graph, halo, result, error);
  }
  if (!status) status = read_results(m, halo, result, error);
  ops->finish(m->backend);
  if (!status) r->counts.n_replayed++;
  return status;
}

int mlff_replay_make_room(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, const mlff_result *result)
{
  if (!can_replay(m, graph, result) || is_recorded(m, halo, result)) return 0;
  m->replay.is_recorded = 0; /* drop a captured step with other results */
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
