/* graph.c: checks a neighbor graph. */
#include "graph.h"

#include "../errors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *mlff_atom_name(const mlff_graph *graph, int32_t i, char text[MLFF_NAME])
{
  if (graph->name)
    graph->name(graph->name_context, i, text);
  else
    snprintf(text, MLFF_NAME, "atom %d counted from 1", 1 + (int) (graph->on_device ? i : graph->node[i]));
  return text;
}

mlff_status mlff_check_sizes(const mlff_graph *graph, const char *function, mlff_error *error)
{
  if (graph->n_interior >= 0 && graph->n_interior <= graph->n_local && graph->n_local <= graph->n_nodes &&
      graph->n_nodes <= graph->n_all)
    return MLFF_OK;
  return mlff_fail(error, MLFF_E_ARG, "%s: inconsistent graph (n_interior %d, n_local %d, n_nodes %d, n_all %d)",
                   function, (int) graph->n_interior, (int) graph->n_local, (int) graph->n_nodes, (int) graph->n_all);
}

static mlff_status check_sizes(const mlff_graph *graph, mlff_error *error)
{
  if (graph->n_interior < 0 || graph->n_local < graph->n_interior || graph->n_all < graph->n_local ||
      graph->n_nodes < graph->n_local || graph->n_nodes > graph->n_all || graph->n_pairs < 0)
    return mlff_fail(error, MLFF_E_ARG,
                     "graph: inconsistent sizes n_interior %d, n_local %d, n_nodes %d, n_all %d, n_pairs %lld "
                     "(expected 0 <= n_interior <= n_local <= n_nodes <= n_all)",
                     (int) graph->n_interior, (int) graph->n_local, (int) graph->n_nodes, (int) graph->n_all,
                     (long long) graph->n_pairs);
  if (!graph->row || (graph->n_all && (!graph->species || !graph->node || !graph->pos)) ||
      (graph->n_pairs && !graph->nbr))
    return mlff_fail(error, MLFF_E_ARG, "graph: an array is NULL (row, nbr, node, species and pos are all needed)");
  return MLFF_OK;
}

static mlff_status check_offsets(const mlff_graph *graph, mlff_error *error)
{
  if (graph->row[0] != 0)
    return mlff_fail(error, MLFF_E_ARG, "graph: row[0] is %lld, expected 0", (long long) graph->row[0]);
  for (int32_t i = 0; i < graph->n_local; i++)
    if (graph->row[i + 1] < graph->row[i])
      return mlff_fail(error, MLFF_E_ARG, "graph: row[%d] = %lld is below row[%d] = %lld", (int) i + 1,
                       (long long) graph->row[i + 1], (int) i, (long long) graph->row[i]);
  if (graph->row[graph->n_local] != graph->n_pairs)
    return mlff_fail(error, MLFF_E_ARG, "graph: row[n_local] is %lld, but n_pairs is %lld",
                     (long long) graph->row[graph->n_local], (long long) graph->n_pairs);
  return MLFF_OK;
}

static mlff_status check_atoms(const mlff_graph *graph, int n_species, mlff_error *error)
{
  for (int32_t a = 0; a < graph->n_all; a++) {
    const int32_t node = graph->node[a], species = graph->species[a];
    if (species < -1 || species >= n_species)
      return mlff_fail(error, MLFF_E_ARG, "graph: species[%d] is %d, expected -1..%d", (int) a, (int) species,
                       n_species - 1);
    if (a < graph->n_local ? node != a : node < 0 || node >= graph->n_nodes)
      return mlff_fail(error, MLFF_E_ARG,
                       "graph: node[%d] is %d; owned atoms (below %d) are their own node, others 0..%d", (int) a,
                       (int) node, (int) graph->n_local, (int) graph->n_nodes - 1);
    if (node < graph->n_local && graph->species[node] != species)
      return mlff_fail(error, MLFF_E_ARG, "graph: image %d has species %d, its owner %d has %d", (int) a, (int) species,
                       (int) node, (int) graph->species[node]);
  }
  return MLFF_OK;
}

/* Every node of another rank must have a ghost, and all its ghosts the same species. */
static mlff_status check_remote_nodes(const mlff_graph *graph, mlff_error *error)
{
  const int32_t n_remote = graph->n_nodes - graph->n_local;
  mlff_status status = MLFF_OK;
  if (n_remote == 0) return MLFF_OK;
  int32_t *carried = malloc((size_t) n_remote * sizeof *carried);
  if (!carried) return mlff_fail(error, MLFF_E_NOMEM, "out of memory to check a graph");
  for (int32_t k = 0; k < n_remote; k++) carried[k] = -2;
  for (int32_t a = graph->n_local; a < graph->n_all && !status; a++) {
    const int32_t k = graph->node[a] - graph->n_local;
    if (k < 0) continue;
    if (carried[k] != -2 && carried[k] != graph->species[a])
      status = mlff_fail(error, MLFF_E_ARG, "graph: ghosts of node %d disagree on its species (%d and %d)",
                         (int) graph->node[a], (int) carried[k], (int) graph->species[a]);
    carried[k] = graph->species[a];
  }
  for (int32_t k = 0; k < n_remote && !status; k++)
    if (carried[k] == -2)
      status = mlff_fail(error, MLFF_E_ARG, "graph: node %d belongs to no ghost", (int) (k + graph->n_local));
  free(carried);
  return status;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
  uint64_t z = a * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Checks index ranges, and that the list is full: pairs within this rank occur equally often in both directions, i.e.
 * the sum of hashes of all directed pairs minus that of their reverses is 0 (false negatives: 2^-64). */
static mlff_status check_pairs(const mlff_graph *graph, mlff_error *error)
{
  uint64_t imbalance = 0;
  for (int32_t i = 0; i < graph->n_local; i++) {
    for (int64_t p = graph->row[i]; p < graph->row[i + 1]; p++) {
      const int32_t j = graph->nbr[p];
      if (j < 0 || j >= graph->n_all || j == i)
        return mlff_fail(error, MLFF_E_ARG, "graph: nbr[%lld] of atom %d is %d, expected 0..%d and not the atom itself",
                         (long long) p, (int) i, (int) j, (int) graph->n_all - 1);
      const int32_t owner = graph->node[j];
      if (owner >= graph->n_local && i < graph->n_interior)
        return mlff_fail(error, MLFF_E_ARG,
                         "graph: atom %d, which is interior (below %d), has neighbor %d of another rank", (int) i,
                         (int) graph->n_interior, (int) j);
      if (owner < graph->n_local)
        imbalance += mix((uint64_t) i, (uint64_t) owner) - mix((uint64_t) owner, (uint64_t) i);
    }
  }
  if (imbalance)
    return mlff_fail(error, MLFF_E_ARG,
                     "graph: the list is not full: a pair i-j of this rank's atoms has no reverse pair j-i");
  return MLFF_OK;
}

mlff_status mlff_graph_check(const mlff_graph *graph, int n_species, mlff_error *error)
{
  if (!graph) return mlff_fail(error, MLFF_E_ARG, "graph is NULL");
  if (graph->on_device)
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "graph: cannot check a graph on the device (on_device is set)");
  MLFF_TRY(check_sizes(graph, error));
  MLFF_TRY(check_offsets(graph, error));
  MLFF_TRY(check_atoms(graph, n_species, error));
  MLFF_TRY(check_remote_nodes(graph, error));
  return check_pairs(graph, error);
}
