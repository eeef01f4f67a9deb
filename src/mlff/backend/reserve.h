/* reserve.h: buffers of operations on the CPU. mlff_reserve_NAME takes the arguments of the operation: memory forecasts
 * call it instead (op_list.h, RESERVES). */
#ifndef MLFF_BACKEND_RESERVE_H
#define MLFF_BACKEND_RESERVE_H

#include "ops.h"

/* A neighbor of orb_graph: distance, vector, tag or node number, node. */
typedef struct mlff_orb_candidate {
  double d, v[3];
  int64_t tag;
  int32_t node;
} mlff_orb_candidate;

/* Also sets the sizes of the graph. */
mlff_status mlff_reserve_edges(mlff_backend *backend, const mlff_graph *graph, double cutoff, mlff_edges *edges,
                               mlff_error *error);
mlff_status mlff_reserve_edge_lines(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                    mlff_painn_radial *radial, mlff_error *error);
mlff_status mlff_reserve_painn_radial(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                      mlff_painn_radial *radial, mlff_error *error);
/* For n_neighbours edges of each atom, the most that there can be. */
mlff_status mlff_reserve_orb_graph(mlff_backend *backend, const mlff_graph *graph, const mlff_edges *edges,
                                   int n_neighbours, mlff_orb_graph *out, mlff_error *error);
/* For n_edges edges and n_candidates of an atom. */
mlff_status mlff_reserve_orb_edges(mlff_backend *backend, const mlff_edges *edges, int64_t n_edges,
                                   int64_t n_candidates, mlff_orb_graph *out, mlff_error *error);

#endif
