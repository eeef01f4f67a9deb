/* forecast.c: what to tell a user whose system does not fit into the memory of a device.
 *
 * The evaluation is repeated with a backend that only adds up what it would allocate. Halo exchanges are made all the
 * same: memory runs out before the first one of a step, and other ranks wait for this one.
 */
#include "model_impl.h"

/* Bytes that evaluating the graph would still allocate. n_edges: of the step that failed, -1 when not known. */
static size_t bytes_missing(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, int64_t n_edges,
                            mlff_result *result)
{
  size_t missing = 0;
  mlff_error ignored;
  mlff_arch_outputs out = {.node_energy = NULL};
  mlff_graph fresh = *graph;
  fresh.list_id = 0; /* nothing is uploaded, so nothing may be taken for uploaded later */
  const mlff_arch_inputs in = {.graph = &fresh, .edges = &m->edges, .halo = halo};
  mlff_backend *backend = m->backend;
  backend->forecast = &missing;
  m->edges.n_room = n_edges < 0 ? graph->n_pairs : n_edges;
  (void) backend->ops->edges(backend, &fresh, m->head->cutoff, &m->edges, &ignored);
  m->edges.n_edges = m->edges.n_room;
  (void) m->arch->evaluate(m->net, &in, &out, &ignored);
  (void) backend->ops
      ->forces(backend,
               &(mlff_forces_args){.edges = &m->edges, .grad = out.edge_grad, .scale = m->scale, .result = result},
               &ignored);
  backend->forecast = NULL;
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
  if (missing < free_bytes / 2) return MLFF_E_NOMEM; /* it was not the device's: error says what it was */
  const double own = (double) m->own_bytes, mb = 1e-6;
  const double needed = (double) in_use + (double) missing - own; /* what grows with the number of atoms */
  const double room = (double) in_use + (double) free_bytes - own;
  const double fit = needed > 0 ? graph->n_local * (room / needed) : 0;
  return mlff_fail(
      error, MLFF_E_NOMEM,
      "out of memory on the GPU: %d atoms of this rank need %.1f MB and the model %.1f MB, %.1f of %.1f MB are free; "
      "about %.0f atoms fit: use more GPUs, a smaller system or neighbor skin, or 'device cpu'",
      (int) graph->n_local, needed * mb, own * mb, (room + own) * mb, (double) total_bytes * mb, 0.95 * fit);
}
