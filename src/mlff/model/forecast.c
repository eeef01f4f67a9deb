/* forecast.c: memory of an evaluation, before the first one or after a device ran out of memory.
 *
 * The evaluation is repeated with a backend that only sums the bytes that it would allocate. After a failure the halo
 * exchanges are made, because memory runs out before the first exchange of a step and other ranks wait for it.
 */
#include "../graph/graph.h"
#include "model_impl.h"

#include <string.h>

/* Bytes that an evaluation of the graph would allocate. n_edges: of the failed step, -1 if unknown. */
static size_t bytes_missing(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, int64_t n_edges,
                            mlff_result *result)
{
  size_t missing = 0;
  mlff_error ignored;
  mlff_arch_outputs out = {.node_energy = NULL};
  mlff_graph fresh = *graph;
  fresh.list_id = 0; /* nothing is uploaded, so the list must count as new later */
  const mlff_arch_inputs in = {.graph = &fresh, .edges = &m->edges, .halo = halo};
  mlff_backend *backend = m->backend;
  const mlff_ops *plain = backend->ops;
  if (backend->dry) backend->ops = backend->dry;
  backend->forecast = &missing;
  backend->n_forecasts++;
  m->edges.n_room = n_edges < 0 ? graph->n_pairs : n_edges;
  (void) backend->ops->edges(backend, &fresh, m->head->cutoff, &m->edges, &ignored);
  m->edges.n_edges = m->edges.n_room;
  if (m->arch->reserve)
    (void) m->arch->reserve(m->net, &in, &ignored);
  else
    (void) m->arch->evaluate(m->net, &in, &out, &ignored);
  (void) mlff_repulsion_clamp(m, &ignored);
  (void) mlff_repulsion_add(m, &out, &ignored);
  (void) backend->ops->forces(backend,
                              &(mlff_forces_args){.edges = &m->edges,
                                                  .grad = out.edge_grad,
                                                  .scale = m->scale,
                                                  .on_device = m->host_view.is_on_device,
                                                  .result = result},
                              &ignored);
  backend->forecast = NULL;
  backend->ops = plain;
  m->edges.n_edges = m->edges.n_room = 0;
  return missing;
}

mlff_status mlff_forecast_memory(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, int64_t n_edges,
                                 mlff_result *result, mlff_error *error)
{
  size_t free_bytes = 0, total_bytes = 0;
  mlff_backend *backend = m->backend;
  const size_t in_use = backend->memory.bytes, missing = bytes_missing(m, graph, halo, n_edges, result);
  MLFF_TRY(backend->ops->memory(backend, &free_bytes, &total_bytes, error));
  if (missing < free_bytes / 2) return MLFF_E_NOMEM; /* not device memory: the error has the reason */
  const double own_bytes = (double) m->own_bytes, mb = 1e-6;
  const double needed = (double) in_use + (double) missing - own_bytes; /* proportional to the number of atoms */
  const double room = (double) in_use + (double) free_bytes - own_bytes;
  const double fit = needed > 0 ? graph->n_local * (room / needed) : 0;
  return mlff_fail(
      error, MLFF_E_NOMEM,
      "out of memory on the GPU: %d atoms of this rank need %.1f MB and the model %.1f MB, but %.1f of %.1f MB are "
      "free. About %.0f atoms fit: use more GPUs, a smaller system or neighbor skin, or device cpu",
      (int) graph->n_local, needed * mb, own_bytes * mb, (room + own_bytes) * mb, (double) total_bytes * mb,
      0.95 * fit);
}

/* ---- before the first step --------------------------------------------------------------------------------------- */

/* Number of candidates within the cutoff. */
static int64_t count_edges(const mlff_graph *graph, double cutoff)
{
  int64_t n = 0;
  for (int32_t i = 0; i < graph->n_local; i++) {
    const double *x = graph->pos[i];
    for (int64_t p = graph->row[i]; p < graph->row[i + 1]; p++) {
      const double *y = graph->pos[graph->nbr[p]];
      const double dx = y[0] - x[0], dy = y[1] - x[1], dz = y[2] - x[2];
      if (graph->species[graph->nbr[p]] < 0) continue;
      n += dx * dx + dy * dy + dz * dz < cutoff * cutoff;
    }
  }
  return n;
}

/* Arrays grow by 25 % more than needed (mlff_buf_reserve): those of pairs and edges (the memory of the graph minus
 * that of a graph without pairs), and on several ranks those of atoms. */
static size_t bytes_later(mlff_model *m, const mlff_graph *graph, size_t first, mlff_result *result)
{
  if (graph->n_nodes > graph->n_local) return first + (first - m->own_bytes) / 4;
  mlff_graph without = *graph;
  without.n_pairs = 0;
  const size_t atoms = m->backend->memory.bytes + bytes_missing(m, &without, NULL, 0, result);
  return first + (first - atoms) / 4;
}

mlff_status mlff_model_forecast(mlff_model *model, const mlff_graph *graph, mlff_result *wanted,
                                mlff_forecast *forecast, mlff_error *error)
{
  if (!model || !graph || !wanted || !forecast)
    return mlff_fail(error, MLFF_E_ARG, "mlff_model_forecast: an argument is NULL");
  if (!graph->row)
    return mlff_fail(
        error, MLFF_E_ARG,
        "mlff_model_forecast: graph.row is NULL; a forecast needs the neighbor list, also if the GPU will build it");
  MLFF_TRY(mlff_check_sizes(graph, "mlff_model_forecast", error));
  if (graph->on_device)
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "mlff_model_forecast: the graph is on the device (graph.on_device); pass it on the host");
  const mlff_backend *backend = model->backend;
  const int64_t n_edges = count_edges(graph, model->head->cutoff);
  size_t n_values = mlff_wants_members(model, wanted) ? (size_t) graph->n_local * (size_t) model->info.n_members : 0;
  memset(forecast, 0, sizeof *forecast);
  forecast->model_bytes = model->own_bytes;
  forecast->held_bytes = backend->memory.bytes;
  forecast->first_bytes = backend->memory.bytes + bytes_missing(model, graph, NULL, n_edges, wanted);
  forecast->later_bytes = bytes_later(model, graph, forecast->first_bytes, wanted);
  if (n_values > model->host_capacity) forecast->host_bytes = (n_values - model->host_capacity) * sizeof(double);
  if (!backend->ops->memory) return MLFF_OK;
  return backend->ops->memory(model->backend, &forecast->free_bytes, &forecast->total_bytes, error);
}
