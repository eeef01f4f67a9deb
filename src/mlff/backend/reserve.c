/* reserve.c: buffers of operations on the CPU. */
#include "reserve.h"

mlff_status mlff_reserve_edges(mlff_backend *backend, const mlff_graph *graph, double cutoff, mlff_edges *edges,
                               mlff_error *error)
{
  const int64_t n = graph->n_pairs;
  if (edges->list_id != graph->list_id || graph->list_id == 0) {
    edges->list_id = 0;
    edges->longest_row = mlff_longest_row(graph);
  }
  MLFF_TRY(mlff_buf_reserve(backend, &edges->row, ((size_t) graph->n_local + 1) * sizeof(int64_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &edges->nbr, (size_t) n * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &edges->node, (size_t) n * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &edges->species, (size_t) n * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve_rows(backend, &edges->vec, n, 4, error));
  MLFF_TRY(mlff_buf_reserve(backend, &edges->center_species, (size_t) graph->n_nodes * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &edges->scratch, ((size_t) edges->longest_row + 1) * sizeof(double), error));
  edges->n_interior = graph->n_interior;
  edges->n_local = graph->n_local;
  edges->n_nodes = graph->n_nodes;
  edges->n_all = graph->n_all;
  edges->n_pairs = graph->n_pairs;
  edges->cutoff = cutoff;
  return MLFF_OK;
}

mlff_status mlff_reserve_edge_lines(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                    mlff_painn_radial *radial, mlff_error *error)
{
  (void) basis;
  return mlff_buf_reserve_rows(backend, &radial->line, edges->n_edges, MLFF_PAINN_LINE, error);
}

mlff_status mlff_reserve_painn_radial(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                      mlff_painn_radial *radial, mlff_error *error)
{
  MLFF_TRY(mlff_reserve_edge_lines(backend, basis, edges, radial, error));
  if (basis->kind == MLFF_PAINN_CUBIC) return MLFF_OK;
  return mlff_buf_reserve_rows(backend, &radial->terms, edges->n_edges, 2 * (int64_t) basis->n_terms, error);
}

mlff_status mlff_reserve_orb_edges(mlff_backend *backend, const mlff_edges *edges, int64_t n_edges,
                                   int64_t n_candidates, mlff_orb_graph *out, mlff_error *error)
{
  const size_t n_scratch = (size_t) n_candidates * sizeof(mlff_orb_candidate);
  MLFF_TRY(mlff_buf_reserve(backend, &out->row, ((size_t) edges->n_local + 1) * sizeof(int64_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->node, (size_t) n_edges * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve_rows(backend, &out->vec, n_edges, 4, error));
  MLFF_TRY(mlff_buf_reserve_rows(backend, &out->env, n_edges, 1, error));
  MLFF_TRY(mlff_buf_reserve(backend, &out->scratch, n_scratch, error));
  out->n_edges = n_edges;
  return MLFF_OK;
}

mlff_status mlff_reserve_orb_graph(mlff_backend *backend, const mlff_graph *graph, const mlff_edges *edges,
                                   int n_neighbours, mlff_orb_graph *out, mlff_error *error)
{
  const int64_t n_edges = (int64_t) edges->n_local * n_neighbours, n_candidates = edges->longest_row + n_neighbours;
  (void) graph;
  return mlff_reserve_orb_edges(backend, edges, n_edges, n_candidates, out, error);
}
