/* centroid.c: per-atom centroid virials of message-passing models, for the heat flux.
 *
 * Wanted is W_j = sum_i (x_i - x_j) de_i/dx_j over the atoms i of the unbounded system. A backward pass gives dU/dx_j
 * of U = sum_i w_i e_i for any weights w_i. These are the coordinates here, with a pass for x, y and z:
 *
 *   W_j = dU/dx_j - x_j dE/dx_j
 *
 * In a periodic system coordinates differ between an atom and its images. Therefore every ghost is a node of its own
 * here, as if another rank owned it, and features go through mlff_halo also between images of one rank. Let a be the
 * adjoints of E and c those of U at a node: c - x a does not depend on the origin, so an atom and its ghosts have the
 * same. Halo calls of a backward pass exchange it. No operation of a network knows of this: the passes are those of
 * forces, with weights after the readout (mlff_weighting).
 *
 * Four evaluations: of E, which also stores a at each exchange, and of U for x, y and z. Coordinates are relative to
 * the middle of this rank's atoms, which keeps digits in single precision.
 */
#include "model_impl.h"

#include <stdlib.h>
#include <string.h>

enum { N_PASSES = 4, ENERGY = 0 }; /* passes 1 to 3: x, y, z */

/* Rows of one halo call in the backward pass of E: of all atoms; and what owned atoms got from ghosts. */
typedef struct kept_rows {
  char *rows, *sums;
  size_t size;
} kept_rows;

typedef struct centroid_pass {
  const mlff_graph *graph; /* of the caller */
  const mlff_halo *halo;   /* of the caller */
  double origin[3];
  int pass, is_float, has_failed;
  mlff_weighting weighting;
  int n_kept, n_calls, kept_room;
  kept_rows *kept;
  char *rows; /* [n_nodes][row_bytes] of the caller's graph */
  size_t rows_size;
} centroid_pass;

static double coordinate(const centroid_pass *c, int32_t a)
{
  return c->graph->pos[a][c->pass - 1] - c->origin[c->pass - 1];
}

static double get(const centroid_pass *c, const char *rows, int64_t k)
{
  return c->is_float ? (double) ((const float *) (const void *) rows)[k] : ((const double *) (const void *) rows)[k];
}

static void set(const centroid_pass *c, char *rows, int64_t k, double value)
{
  if (c->is_float)
    ((float *) (void *) rows)[k] = (float) value;
  else
    ((double *) (void *) rows)[k] = value;
}

static mlff_status no_room(const centroid_pass *c, mlff_error *error)
{
  return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the centroid virials of %d atoms", (int) c->graph->n_all);
}

/* *data has at least `size` bytes. */
static int grow(char **data, size_t *capacity, size_t size)
{
  if (size <= *capacity) return 1;
  char *larger = realloc(*data, size);
  if (!larger) return 0;
  *data = larger;
  *capacity = size;
  return 1;
}

/* The place of the next call's rows; NULL if memory is short. */
static kept_rows *next_kept(centroid_pass *c, size_t row_bytes)
{
  const size_t size = row_bytes * (size_t) c->graph->n_all;
  if (c->pass != ENERGY) return c->n_calls < c->n_kept ? &c->kept[c->n_calls++] : NULL;
  if (c->n_kept == c->kept_room) {
    kept_rows *more = realloc(c->kept, (size_t) (c->kept_room + 8) * sizeof *more);
    if (!more) return NULL;
    memset(more + c->kept_room, 0, 8 * sizeof *more);
    c->kept = more;
    c->kept_room += 8;
  }
  kept_rows *k = &c->kept[c->n_kept];
  if (k->size < size || !k->rows) {
    free(k->rows);
    free(k->sums);
    *k = (kept_rows){.rows = malloc(size + 1), .sums = malloc(size + 1), .size = size};
    if (!k->rows || !k->sums) return NULL;
  }
  c->n_kept++;
  return k;
}

/* Row k of n values becomes itself + factor * other. */
static void add_row(const centroid_pass *c, char *rows, int64_t first, int64_t n, double factor, const char *other)
{
  for (int64_t k = first; k < first + n; k++) set(c, rows, k, get(c, rows, k) + factor * get(c, other, k));
}

static int64_t width_of(const centroid_pass *c, size_t row_bytes)
{
  return (int64_t) (row_bytes / (c->is_float ? sizeof(float) : sizeof(double)));
}

static int makes_room(centroid_pass *c, size_t row_bytes)
{
  return grow(&c->rows, &c->rows_size, row_bytes * (size_t) c->graph->n_nodes + 1);
}

/* mlff_halo.forward: rows of owned atoms to all ghosts. */
static mlff_status to_ghosts(void *context, void *data, size_t row_bytes, mlff_error *error)
{
  centroid_pass *c = context;
  const mlff_graph *graph = c->graph;
  char *rows = data;
  const int64_t width = width_of(c, row_bytes);
  const int is_adjoint = c->weighting.is_backward;
  const kept_rows *kept = is_adjoint ? next_kept(c, row_bytes) : NULL;
  const int shifts = is_adjoint && c->pass != ENERGY && kept;
  if (!makes_room(c, row_bytes) || (is_adjoint && !kept)) c->has_failed = 1;
  if (c->has_failed) return no_room(c, error);
  memcpy(c->rows, rows, row_bytes * (size_t) graph->n_local);
  for (int32_t i = 0; shifts && i < graph->n_local; i++)
    add_row(c, c->rows, i * width, width, -coordinate(c, i), kept->rows);
  if (c->halo) MLFF_TRY(c->halo->forward(c->halo->context, c->rows, row_bytes, error));
  for (int32_t a = graph->n_local; a < graph->n_all; a++)
    memcpy(rows + (size_t) a * row_bytes, c->rows + (size_t) graph->node[a] * row_bytes, row_bytes);
  for (int32_t a = graph->n_local; shifts && a < graph->n_all; a++)
    add_row(c, rows, a * width, width, coordinate(c, a), kept->rows);
  if (is_adjoint && c->pass == ENERGY) memcpy(kept->rows, rows, row_bytes * (size_t) graph->n_all);
  return MLFF_OK;
}

/* mlff_halo.reverse: rows of ghosts are added to those of their owners. Adjoints, always. */
static mlff_status to_owners(void *context, void *data, int width, size_t real_size, mlff_error *error)
{
  centroid_pass *c = context;
  const mlff_graph *graph = c->graph;
  char *rows = data;
  const size_t row_bytes = (size_t) width * real_size;
  kept_rows *kept = next_kept(c, row_bytes);
  const int shifts = c->pass != ENERGY;
  if (!makes_room(c, row_bytes) || !kept) c->has_failed = 1;
  if (c->has_failed) return no_room(c, error);
  if (!shifts) memcpy(kept->rows, rows, row_bytes * (size_t) graph->n_all);
  memset(c->rows, 0, row_bytes * (size_t) graph->n_nodes);
  for (int32_t a = graph->n_local; a < graph->n_all; a++) {
    const int64_t from = a * (int64_t) width, to = graph->node[a] * (int64_t) width;
    for (int k = 0; k < width; k++) {
      const double shift = shifts ? coordinate(c, a) * get(c, kept->rows, from + k) : 0.0;
      set(c, c->rows, to + k, get(c, c->rows, to + k) + get(c, rows, from + k) - shift);
    }
  }
  if (c->halo) MLFF_TRY(c->halo->reverse(c->halo->context, c->rows, width, real_size, error));
  if (!shifts) memcpy(kept->sums, c->rows, row_bytes * (size_t) graph->n_local);
  for (int32_t i = 0; i < graph->n_local; i++) {
    add_row(c, rows, i * (int64_t) width, width, 1.0, c->rows);
    if (shifts) add_row(c, rows, i * (int64_t) width, width, coordinate(c, i), kept->sums);
  }
  return MLFF_OK;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Arrays of the evaluations, on the host. */
typedef struct centroid_arrays {
  int32_t *node;
  double *weights;   /* [n_local]                                     */
  double (*grad)[4]; /* [N_PASSES + 1][n_edges]; the last: repulsion  */
  int64_t *row;      /* [n_local + 1] of edges                        */
  int32_t *nbr;      /* [n_edges]                                     */
  void *device_weights;
} centroid_arrays;

static void release(mlff_model *m, centroid_pass *c, centroid_arrays *x)
{
  for (int k = 0; k < c->kept_room; k++) {
    free(c->kept[k].rows);
    free(c->kept[k].sums);
  }
  free(c->kept);
  free(c->rows);
  free(x->node);
  free(x->weights);
  free(x->grad);
  free(x->row);
  free(x->nbr);
  mlff_buf_release(m->backend, &m->weights);
}

/* After a bad position or a failure of the device there are no edges. */
static mlff_status find_edges(mlff_model *m, const mlff_graph *graph, centroid_arrays *x, mlff_error *error)
{
  const mlff_ops *ops = m->backend->ops;
  const mlff_status status = ops->edges(m->backend, graph, m->head->cutoff, &m->edges, error);
  if (status && status != MLFF_E_NUMERIC && status != MLFF_E_DEVICE) return status;
  const size_t n_edges = (size_t) m->edges.n_edges, n_local = (size_t) graph->n_local;
  x->grad = malloc((N_PASSES + 1) * n_edges * sizeof *x->grad + 1);
  x->row = malloc((n_local + 1) * sizeof *x->row);
  x->nbr = malloc(n_edges * sizeof *x->nbr + 1);
  x->weights = malloc(n_local * sizeof *x->weights + 1);
  if (!x->grad || !x->row || !x->nbr || !x->weights)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the centroid virials of %d atoms", (int) graph->n_local);
  MLFF_TRY(mlff_buf_reserve_rows(m->backend, &m->weights, graph->n_local, 1, error));
  if (status) return MLFF_OK; /* the caller has this error, and the exchanges are to be made */
  MLFF_TRY(ops->download(m->backend, x->row, m->edges.row.data, (n_local + 1) * sizeof *x->row, error));
  return ops->download(m->backend, x->nbr, m->edges.nbr.data, n_edges * sizeof *x->nbr, error);
}

/* Gradients of the repulsion alone, into the arrays of the last evaluation. */
static mlff_status repulsion_alone(mlff_model *m, mlff_arch_outputs *out, double (*grad)[4], mlff_error *error)
{
  const int64_t n = 4 * m->edges.n_edges;
  m->backend->ops->zero(m->backend, out->edge_grad, (size_t) n * m->backend->real_size);
  MLFF_TRY(mlff_repulsion_clamp(m, error));
  MLFF_TRY(mlff_repulsion_add(m, out, error));
  return m->backend->ops->download_reals(m->backend, grad[0], out->edge_grad, n, error);
}

/* All of its exchanges are made after a failure as well. */
static mlff_status one_pass(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, centroid_pass *c,
                            centroid_arrays *x, mlff_error *error)
{
  const int64_t n_edges = m->edges.n_edges;
  mlff_arch_inputs in = {.graph = graph, .edges = &m->edges, .halo = halo, .weighting = &c->weighting};
  mlff_arch_outputs out = {.node_energy = NULL};
  mlff_status status = MLFF_OK;
  mlff_error later;
  c->n_calls = 0;
  c->weighting = (mlff_weighting){.weights = NULL};
  if (c->pass != ENERGY) {
    for (int32_t i = 0; i < graph->n_local; i++) x->weights[i] = coordinate(c, i);
    status = m->backend->ops->upload_reals(m->backend, m->weights.data, x->weights, graph->n_local, error);
    c->weighting.weights = m->weights.data;
  }
  mlff_keep_first(&status, mlff_repulsion_clamp(m, status ? &later : error));
  mlff_keep_first(&status, m->arch->evaluate(m->net, &in, &out, status ? &later : error));
  if (status) return status;
  MLFF_TRY(mlff_repulsion_add(m, &out, error));
  double(*grad)[4] = x->grad + c->pass * n_edges;
  MLFF_TRY(m->backend->ops->download_reals(m->backend, grad[0], out.edge_grad, 4 * n_edges, error));
  return c->pass == ENERGY ? repulsion_alone(m, &out, x->grad + N_PASSES * n_edges, error) : MLFF_OK;
}

/* W of both ends of each edge: dU/dx - x dE/dx. The repulsion is not weighted in the passes. */
static void add_edges(const mlff_model *m, const centroid_pass *c, const centroid_arrays *x, double (*virial)[9])
{
  static const int first[9] = {0, 1, 2, 0, 0, 1, 1, 2, 2}, second[9] = {0, 1, 2, 1, 2, 2, 0, 0, 1};
  const mlff_graph *graph = c->graph;
  const int64_t n_edges = m->edges.n_edges;
  for (int32_t i = 0; i < graph->n_local; i++) {
    for (int64_t e = x->row[i]; e < x->row[i + 1]; e++) {
      const int32_t j = x->nbr[e];
      for (int k = 0; k < 9; k++) {
        const int a = first[k], b = second[k];
        const double xi = graph->pos[i][a] - c->origin[a], xj = graph->pos[j][a] - c->origin[a];
        const double of_repulsion = x->grad[N_PASSES * n_edges + e][b], of_energy = x->grad[e][b];
        const double weighted = x->grad[(1 + a) * n_edges + e][b] + (xi - 1.0) * of_repulsion;
        virial[graph->node[j]][k] += m->scale * (weighted - xj * of_energy);
        virial[i][k] -= m->scale * (weighted - xi * of_energy);
      }
    }
  }
}

static mlff_status all_passes(mlff_model *m, centroid_pass *c, centroid_arrays *x, double (*virial)[9],
                              mlff_error *error)
{
  const mlff_halo halo = {.context = c, .forward = to_ghosts, .reverse = to_owners};
  mlff_graph graph = *c->graph;
  mlff_status status = MLFF_OK;
  mlff_error later;
  x->node = malloc((size_t) graph.n_all * sizeof *x->node + 1);
  if (!x->node) return no_room(c, error);
  for (int32_t a = 0; a < graph.n_all; a++) x->node[a] = a;
  graph.node = x->node;
  graph.n_nodes = graph.n_all;
  graph.n_interior = 0;
  graph.list_id = 0; /* nothing of this list is kept */
  graph.tag = NULL;
  MLFF_TRY(find_edges(m, &graph, x, error));
  for (c->pass = 0; c->pass < N_PASSES; c->pass++)
    mlff_keep_first(&status, one_pass(m, &graph, &halo, c, x, status ? &later : error));
  memset(virial, 0, (size_t) c->graph->n_nodes * sizeof *virial);
  if (!status) add_edges(m, c, x, virial);
  return status;
}

mlff_status mlff_centroid_evaluate(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, double (*virial)[9],
                                   mlff_error *error)
{
  centroid_pass c = {.graph = graph, .halo = halo, .is_float = m->backend->real_size == sizeof(float)};
  centroid_arrays x = {.node = NULL};
  for (int32_t i = 0; i < graph->n_local; i++)
    for (int k = 0; k < 3; k++) c.origin[k] += graph->pos[i][k] / graph->n_local;
  mlff_replay_forget(m);
  const mlff_status status = all_passes(m, &c, &x, virial, error);
  m->edges.list_id = 0;
  release(m, &c, &x);
  return status;
}
