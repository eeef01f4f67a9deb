/* edges.c: candidate pairs -> active edges, every step.
 *
 * Differences are formed in double and then rounded, so that float models see vectors that are exact to float rounding
 * however far the atoms are from the origin.
 */
#include "cpu.h"

/* Index of the first position that is not finite, or -1. */
static int32_t find_bad_position(const mlff_graph *graph)
{
  double probe = 0.0; /* stays 0 unless something is NaN or infinite */
  const double *x = graph->n_all ? &graph->pos[0][0] : NULL;
  const int64_t n = 3 * (int64_t) graph->n_all;
  for (int64_t k = 0; k < n; k++) probe += x[k] * 0.0;
  if (probe == 0.0) return -1;
  for (int64_t k = 0; k < n; k++)
    if (!isfinite(x[k])) return (int32_t) (k / 3);
  return -1;
}

/* Species of nodes: of owned atoms, and of atoms of other ranks through any of their ghosts. */
static void fill_center_species(const mlff_graph *graph, mlff_edges *edges)
{
  int32_t *center_species = edges->center_species.data;
  for (int32_t i = 0; i < graph->n_nodes; i++) center_species[i] = -1;
  for (int32_t i = 0; i < graph->n_local; i++) center_species[i] = graph->species[i];
  for (int32_t a = graph->n_local; a < graph->n_all; a++)
    if (graph->node[a] >= graph->n_local) center_species[graph->node[a]] = graph->species[a];
}

/* Appends the active candidates of center i at edge n, without branches: every candidate is written, and the next
 * one overwrites an inactive one. Element 3 is r^2 until the square root. */
static int64_t fill_row(const mlff_graph *graph, int32_t i, double cutoff2, double *r2, int32_t *nbr, real (*vec)[4])
{
  const double xi = graph->pos[i][0], yi = graph->pos[i][1], zi = graph->pos[i][2];
  const int32_t *candidate = graph->nbr + graph->row[i];
  const int64_t n_candidates = graph->row[i + 1] - graph->row[i];
  int64_t n = 0;
  for (int64_t p = 0; p < n_candidates; p++) {
    const int32_t j = candidate[p];
    const double dx = graph->pos[j][0] - xi, dy = graph->pos[j][1] - yi, dz = graph->pos[j][2] - zi;
    const double d2 = dx * dx + dy * dy + dz * dz;
    vec[n][0] = (real) dx;
    vec[n][1] = (real) dy;
    vec[n][2] = (real) dz;
    nbr[n] = j;
    r2[n] = d2;
    n += (d2 < cutoff2) & (graph->species[j] >= 0);
  }
  return n;
}

/* For a pair closer than the largest cutoff of the repulsion: 1 when the cutoff of its elements is longer. */
static int repels(const mlff_repulsion *repulsion, int32_t si, int32_t sj, double r2)
{
  const mlff_repulsion_pair *pairs = repulsion->pairs.data;
  const double cutoff = pairs[si * repulsion->n_species + sj].cutoff;
  return r2 < cutoff * cutoff;
}

mlff_status MLFF_CPU(edges_cpu)(mlff_backend *backend, const mlff_graph *graph, double cutoff, mlff_edges *edges,
                                mlff_error *error)
{
  const int is_new = edges->list_id != graph->list_id || graph->list_id == 0;
  MLFF_TRY(mlff_reserve_edges(backend, graph, cutoff, edges, error));
  if (is_new) fill_center_species(graph, edges);
  edges->list_id = graph->list_id;

  int64_t *row = edges->row.data, n_edges = 0;
  int32_t *nbr = edges->nbr.data, *node = edges->node.data, *species = edges->species.data;
  real(*vec)[4] = edges->vec.data;
  const mlff_repulsion *repulsion = edges->repulsion;
  const double reach2 = repulsion ? repulsion->reach * repulsion->reach : 0.0;
  double *r2 = edges->scratch.data, closest2 = INFINITY, look2 = INFINITY; /* of the candidates */
  const int32_t bad = find_bad_position(graph);
  edges->closest[0] = edges->closest[1] = -1;
  edges->is_close = 0;
  for (int32_t i = 0; i < graph->n_local; i++) {
    row[i] = n_edges;
    if (bad >= 0 || graph->species[i] < 0) continue;
    const int64_t n = fill_row(graph, i, cutoff * cutoff, r2, nbr + n_edges, vec + n_edges);
    for (int64_t k = 0; k < n; k++) {
      const int64_t e = n_edges + k;
      vec[e][3] = (real) sqrt(r2[k]);
      node[e] = graph->node[nbr[e]];
      species[e] = graph->species[nbr[e]];
      if (!(r2[k] < look2)) continue;
      if (r2[k] < closest2) {
        closest2 = r2[k];
        look2 = fmax(closest2, reach2);
        edges->closest[0] = i;
        edges->closest[1] = nbr[e];
      }
      if (r2[k] < reach2) edges->is_close |= repels(repulsion, graph->species[i], species[e], r2[k]);
    }
    n_edges += n;
  }
  row[graph->n_local] = n_edges;
  edges->n_edges = edges->n_room = n_edges;
  edges->min_distance = sqrt(closest2);
  return bad < 0 ? MLFF_OK : mlff_edges_bad_position(graph, bad, error);
}
