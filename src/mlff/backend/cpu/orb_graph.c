/* orb_graph.c: the nearest neighbors of each atom on the CPU. */
#include "cpu.h"

typedef mlff_orb_candidate candidate;

static int is_nearer(const candidate *a, const candidate *b)
{
  return a->d < b->d;
}

static int is_before(const candidate *a, const candidate *b)
{
  return mlff_orb_is_before(a->tag, a->v, b->tag, b->v);
}

/* Inserts *new into chosen[first .. *n), which is sorted by `less` and has room for `room` edges. */
static void insert(candidate *chosen, int first, int *n, int room, const candidate *new,
                   int (*less)(const candidate *, const candidate *))
{
  if (*n == room && !less(new, &chosen[room - 1])) return;
  int place = *n < room ? (*n)++ : room - 1;
  for (; place > first && less(new, &chosen[place - 1]); place--) chosen[place] = chosen[place - 1];
  chosen[place] = *new;
}

/* Selects the nearest `room` of n candidates; is_before decides between equal distances. */
static int choose(const candidate *all, int64_t n, int room, candidate *chosen)
{
  int n_chosen = 0, n_nearer = 0;
  for (int64_t k = 0; k < n; k++) insert(chosen, 0, &n_chosen, room, &all[k], is_nearer);
  if (n <= room) return n_chosen;
  const double limit = chosen[room - 1].d;
  while (chosen[n_nearer].d < limit - MLFF_ORB_TIE) n_nearer++;
  n_chosen = n_nearer;
  for (int64_t k = 0; k < n; k++)
    if (fabs(all[k].d - limit) <= MLFF_ORB_TIE) insert(chosen, n_nearer, &n_chosen, room, &all[k], is_before);
  return n_chosen;
}

static candidate candidate_of(const mlff_graph *graph, int32_t i, int32_t j, int32_t node)
{
  candidate c = {.tag = graph->tag ? graph->tag[j] : node, .node = node};
  for (int k = 0; k < 3; k++) c.v[k] = graph->pos[j][k] - graph->pos[i][k];
  c.d = sqrt(c.v[0] * c.v[0] + c.v[1] * c.v[1] + c.v[2] * c.v[2]);
  return c;
}

static void write_edge(mlff_orb_graph *out, int64_t e, const candidate *c, double cutoff)
{
  const double scale = 1.0 / (c->d > 1e-12 ? c->d : 1e-12);
  real *vec = (real *) out->vec.data + 4 * e;
  for (int k = 0; k < 3; k++) vec[k] = (real) (c->v[k] * scale);
  vec[3] = (real) c->d;
  ((real *) out->env.data)[e] = (real) mlff_orb_envelope(c->d / cutoff);
  ((int32_t *) out->node.data)[e] = c->node;
}

/* Counts the selected edges and the largest number of candidates of an atom. */
static void count_edges(const mlff_edges *edges, int n_neighbours, int64_t *longest, int64_t *n_edges)
{
  const int64_t *edge_row = edges->row.data;
  *longest = *n_edges = 0;
  for (int32_t i = 0; i < edges->n_local; i++) {
    const int64_t n = edge_row[i + 1] - edge_row[i];
    if (n > *longest) *longest = n;
    *n_edges += n < n_neighbours ? n : n_neighbours;
  }
}

mlff_status MLFF_CPU(orb_graph_cpu)(mlff_backend *backend, const mlff_graph *graph, const mlff_edges *edges,
                                    int n_neighbours, mlff_orb_graph *out, mlff_error *error)
{
  const int64_t *edge_row = edges->row.data;
  const int32_t *nbr = edges->nbr.data, *node = edges->node.data;
  int64_t longest, n_edges;
  count_edges(edges, n_neighbours, &longest, &n_edges);
  MLFF_TRY(mlff_reserve_orb_edges(backend, edges, n_edges, longest + n_neighbours, out, error));
  int64_t *row = out->row.data;
  candidate *all = out->scratch.data, *chosen = all + longest;
  row[0] = 0;
  for (int32_t i = 0; i < edges->n_local; i++) {
    int64_t count = 0;
    for (int64_t e = edge_row[i]; e < edge_row[i + 1]; e++) all[count++] = candidate_of(graph, i, nbr[e], node[e]);
    const int n_chosen = choose(all, count, n_neighbours, chosen);
    for (int k = 0; k < n_chosen; k++) write_edge(out, row[i] + k, &chosen[k], edges->cutoff);
    row[i + 1] = row[i] + n_chosen;
  }
  return MLFF_OK;
}
