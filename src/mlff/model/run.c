/* run.c: mlff_model_evaluate: checks arguments, then runs the step op by op (step.c) or, on backends that can capture
 * steps, through replay.c.
 */
#include "../graph/graph.h"
#include "model_impl.h"
#include "spans.h"

#include <math.h>

/* Species are array indices, so they are checked for every new list. Sums the offsets of owned atoms. */
static mlff_status check_species(mlff_model *m, const mlff_graph *graph, mlff_error *error)
{
  if (graph->list_id && graph->list_id == m->checked_list_id) return MLFF_OK;
  m->checked_list_id = 0;
  m->offsets = 0;
  for (int32_t a = 0; a < graph->n_all; a++) {
    const int32_t s = graph->species[a];
    if (s < -1 || s >= m->head->n_elements)
      return mlff_fail(error, MLFF_E_ARG, "species of atom %d counted from 1 is %d, expected -1 to %d", (int) a + 1,
                       (int) s, m->head->n_elements - 1);
    if (s >= 0 && !m->use[s])
      return mlff_fail(error, MLFF_E_ARG, "atom %d counted from 1 is %s, but the model was opened without that element",
                       (int) a + 1, m->head->elements[s]);
    if (s >= 0 && a < graph->n_local && !m->without_offsets) m->offsets += m->head->offsets[s];
  }
  m->checked_list_id = graph->list_id;
  return MLFF_OK;
}

/* Arguments and results of direct models. */
static mlff_status check_direct(const mlff_model *m, const mlff_graph *graph, const mlff_halo *halo,
                                const mlff_result *result, mlff_error *error)
{
  const char *const name = m->info.architecture;
  if (halo && (!halo->reverse || !halo->reduce))
    return mlff_fail(error, MLFF_E_ARG, "this %s model sums over ranks, but halo.reverse or halo.reduce is NULL", name);
  if (graph->n_nodes != graph->n_local && !graph->tag)
    return mlff_fail(error, MLFF_E_ARG,
                     "this %s model sorts neighbors by graph.tag, which is NULL although there are other ranks", name);
  if (graph->on_device)
    return mlff_fail(
        error, MLFF_E_UNSUPPORTED,
        "the graph is in GPU memory (graph.on_device), but this %s model computes forces on the host; pass host arrays",
        name);
  if (graph->boundary != MLFF_BOUNDARY_OPEN && graph->boundary != MLFF_BOUNDARY_PERIODIC)
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "%s models require three periodic directions or none (graph.boundary is %d)", name,
                     (int) graph->boundary);
  if (graph->boundary == MLFF_BOUNDARY_PERIODIC && !(graph->volume > 0.0 && isfinite(graph->volume)))
    return mlff_fail(error, MLFF_E_ARG, "graph.volume is %g A^3, but this %s model needs the volume of the cell",
                     graph->volume, name);
  if (result->atom_energy)
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "per-atom energies are not available: the energy of this %s model is not a sum over atoms", name);
  if (result->atom_virial || result->atom_centroid)
    return mlff_fail(
        error, MLFF_E_UNSUPPORTED,
        "per-atom virials are not available: this %s model predicts the stress of the whole cell, not a sum over pairs",
        name);
  return MLFF_OK;
}

/* Arguments of centroid virials of message-passing models. */
static mlff_status check_centroid(const mlff_model *m, const mlff_graph *graph, const mlff_halo *halo,
                                  mlff_error *error)
{
  if (!graph->row || graph->on_device)
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "centroid virials of message-passing models require a neighbor list and positions on the host; "
                     "pass them, or open the model with device cpu");
  if (halo && (!halo->forward || (m->info.reverse_width && !halo->reverse)))
    return mlff_fail(error, MLFF_E_ARG,
                     "centroid virials of this %s model require halo.forward and halo.reverse, and one is NULL",
                     m->info.architecture);
  return MLFF_OK;
}

/* The list is there, or can be made. */
static mlff_status check_list(const mlff_model *m, const mlff_graph *graph, mlff_error *error)
{
  if (graph->row) return MLFF_OK;
  if (!(graph->reach > 0) || graph->on_device)
    return mlff_fail(error, MLFF_E_ARG,
                     "mlff_model_evaluate: graph.row is NULL; pass a neighbor list or, for a model on a GPU, host "
                     "positions and graph.reach");
  if (!m->backend->ops->owns_graph)
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "graph.row is NULL, but a model on the CPU does not build neighbor lists; pass one, or open it "
                     "with device cuda");
  if (!(graph->reach >= m->head->cutoff) || !isfinite(graph->reach))
    return mlff_fail(error, MLFF_E_ARG, "graph.reach is %g A, expected at least the cutoff %g A", graph->reach,
                     m->head->cutoff);
  return MLFF_OK;
}

static mlff_status check_arguments(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo,
                                   const mlff_result *result, mlff_error *error)
{
  if (!m || !graph || !result) return mlff_fail(error, MLFF_E_ARG, "mlff_model_evaluate: an argument is NULL");
  MLFF_TRY(mlff_check_sizes(graph, "mlff_model_evaluate", error));
  MLFF_TRY(check_list(m, graph, error));
  if (!result->forces && graph->n_nodes && !graph->on_device)
    return mlff_fail(error, MLFF_E_ARG, "mlff_model_evaluate: result.forces is NULL");
  if (!halo && graph->n_nodes != graph->n_local)
    return mlff_fail(error, MLFF_E_ARG, "mlff_model_evaluate: %d nodes of other ranks, but no halo",
                     (int) (graph->n_nodes - graph->n_local));
  if (halo && !halo->begin != !halo->finish)
    return mlff_fail(error, MLFF_E_ARG, "mlff_model_evaluate: one of halo.begin and halo.finish is NULL");
  if (!(m->info.traits & MLFF_CONSERVATIVE)) MLFF_TRY(check_direct(m, graph, halo, result, error));
  if (result->member_forces && m->info.n_members < 2)
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "member forces are not available: this %s model has a single network",
                     m->info.architecture);
  if (mlff_wants_centroid(m, result)) MLFF_TRY(check_centroid(m, graph, halo, error));
  MLFF_TRY(mlff_uncertainty_check(m, result, error));
  MLFF_TRY(mlff_host_view_make(m, graph, error));
  return check_species(m, &m->host_view.graph, error);
}

static mlff_status run_step(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                            mlff_error *error)
{
  m->replay.counts.n_steps++;
  return (m->backend->ops->replay.begin ? mlff_replay_step : mlff_step_plain)(m, graph, halo, result, error);
}

/* run_step, timed as a whole where spans are. */
static mlff_status timed_step(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                              mlff_error *error)
{
  mlff_spans *spans = model->backend->spans;
  if (!spans) return run_step(model, graph, halo, result, error);
  const double begin = mlff_spans_now();
  const mlff_status status = run_step(model, graph, halo, result, error);
  if (!status) mlff_spans_settle(model->backend, begin);
  mlff_spans_add(spans, MLFF_SPAN_EVALUATE, begin, mlff_spans_now());
  return status;
}

mlff_status mlff_model_evaluate(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                                mlff_error *error)
{
  MLFF_TRY(check_arguments(model, graph, halo, result, error));
  return timed_step(model, graph, halo, result, error);
}

mlff_status mlff_model_record(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo, mlff_result *result,
                              double *seconds, mlff_error *error)
{
  if (!model || !graph || !result || !seconds)
    return mlff_fail(error, MLFF_E_ARG, "mlff_model_record: an argument is NULL");
  MLFF_TRY(check_arguments(model, graph, halo, result, error));
  *seconds = 0.0;
  if (!mlff_replay_make_room(model, graph, halo, result)) return MLFF_OK;
  mlff_replays *counts = &model->replay.counts;
  const mlff_replays before = *counts;
  const double begin = mlff_spans_now();
  const mlff_status status = mlff_replay_has_exchanges(model, halo)
                                 ? mlff_replay_record(model, graph, halo, result, error)
                                 : timed_step(model, graph, halo, result, error);
  *seconds = mlff_spans_now() - begin;
  counts->n_steps = before.n_steps;
  counts->n_replayed = before.n_replayed;
  return status;
}
