/* join.c: joins several systems to one graph for a single evaluation (replicas, candidates of a search).
 *
 * Owned atoms of all systems come first, in the order of the systems, then all images. No atom has neighbors in another
 * system, so forces and atomic energies are those of each system alone.
 */
#include "../errors.h"
#include "system.h"

#include <stdlib.h>
#include <string.h>

/* Indices of a system's atoms in the joined graph: owned atom a is `owned` + a, image a >= n_local is `image` + a -
 * n_local. */
typedef struct place {
  int32_t owned, image;
} place;

static int32_t placed(place p, int32_t n_local, int32_t a)
{
  return a < n_local ? p.owned + a : p.image + (a - n_local);
}

static void copy_part(mlff_system *whole, const mlff_system *part, place p)
{
  const mlff_graph *g = &part->graph;
  for (int32_t a = 0; a < g->n_all; a++) {
    const int32_t target = placed(p, g->n_local, a);
    whole->species[target] = g->species[a];
    whole->node[target] = p.owned + g->node[a];
    memcpy(whole->pos[target], g->pos[a], sizeof whole->pos[target]);
  }
  for (int32_t i = 0; i < g->n_local; i++) {
    int64_t pair = whole->row[p.owned + i];
    for (int64_t k = g->row[i]; k < g->row[i + 1]; k++) whole->nbr[pair++] = placed(p, g->n_local, g->nbr[k]);
    whole->row[p.owned + i + 1] = pair;
  }
}

static mlff_status count(const mlff_system *const *systems, int n, mlff_graph *sum, mlff_error *error)
{
  int64_t n_local = 0, n_all = 0;
  uint64_t hash = mlff_hash_begin;
  for (int s = 0; s < n; s++) {
    if (!systems[s]) return mlff_fail(error, MLFF_E_ARG, "mlff_system_join: system %d is NULL", s);
    const mlff_graph *g = &systems[s]->graph;
    n_local += g->n_local;
    n_all += g->n_all;
    sum->n_pairs += g->n_pairs;
    hash = mlff_hash_bytes(hash, &g->list_id, sizeof g->list_id);
  }
  if (n_all > INT32_MAX - 1)
    return mlff_fail(error, MLFF_E_ARG,
                     "mlff_system_join: %lld atoms with images, at most %d are supported; join fewer systems",
                     (long long) n_all, INT32_MAX - 1);
  sum->n_interior = sum->n_local = sum->n_nodes = (int32_t) n_local;
  sum->n_all = (int32_t) n_all;
  sum->list_id = hash ? hash : 1;
  return MLFF_OK;
}

mlff_status mlff_system_join(const mlff_system *const *systems, int n, mlff_system **joined, mlff_error *error)
{
  mlff_graph sum = {.boundary = MLFF_BOUNDARY_UNKNOWN}; /* there is no common cell */
  if (!systems || !joined || n < 0) return mlff_fail(error, MLFF_E_ARG, "mlff_system_join: n %d or a NULL argument", n);
  MLFF_TRY(count(systems, n, &sum, error));
  const size_t n_all = (size_t) sum.n_all + 1;
  mlff_system *s = calloc(1, sizeof *s);
  if (!s) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a system");
  s->species = malloc(n_all * sizeof *s->species);
  s->node = malloc(n_all * sizeof *s->node);
  s->pos = malloc(n_all * sizeof *s->pos);
  s->row = malloc(((size_t) sum.n_local + 1) * sizeof *s->row);
  s->nbr = malloc(((size_t) sum.n_pairs + 1) * sizeof *s->nbr);
  if (!s->species || !s->node || !s->pos || !s->row || !s->nbr) {
    mlff_system_free(s);
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %d joined systems", n);
  }
  place p = {.owned = 0, .image = sum.n_local};
  s->row[0] = 0;
  for (int k = 0; k < n; k++) {
    copy_part(s, systems[k], p);
    p.owned += systems[k]->graph.n_local;
    p.image += systems[k]->graph.n_all - systems[k]->graph.n_local;
  }
  s->graph = sum;
  mlff_system_point(s);
  *joined = s;
  return MLFF_OK;
}
