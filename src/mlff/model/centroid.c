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

typedef struct centroid_pass {
  const mlff_graph *graph; /* of the caller */
  const mlff_halo *halo;   /* of the caller */
  double origin[3];
  int pass, is_float, has_failed;
  mlff_weighting weighting;
  int n_kept, n_calls;
  char **kept; /* [n_kept] of each halo call in the backward pass of E: rows a, which every pass after it reads */
  char *rows;  /* [n_nodes][row_bytes] of the caller's graph */
  size_t rows_size;
} centroid_pass;

/* Coordinate `axis` of atom a. */
static double coordinate(const centroid_pass *c, int32_t a, int axis)
{
  return c->graph->pos[a][axis] - c->origin[axis];
}

/* The weight of atom a in a pass of U. */
static double weight_of(const centroid_pass *c, int32_t a)
{
  return coordinate(c, a, c->pass - 1);
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

/* Rows a of the next halo call, [n_all][row_bytes]: room for them in the pass of E; NULL if memory is short. */
static char *next_kept(centroid_pass *c, size_t row_bytes)
{
  if (c->pass != ENERGY) return c->n_calls < c->n_kept ? c->kept[c->n_calls++] : NULL;
  char **more = realloc(c->kept, (size_t) (c->n_kept + 1) * sizeof *more);
  if (!more) return NULL;
  c->kept = more;
  char *rows = malloc(row_bytes * (size_t) c->graph->n_all + 1);
  if (rows) c->kept[c->n_kept++] = rows;
  return rows;
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
  char *kept = is_adjoint ? next_kept(c, row_bytes) : NULL;
  const int shifts = is_adjoint && c->pass != ENERGY && kept;
  if (!makes_room(c, row_bytes) || (is_adjoint && !kept)) c->has_failed = 1;
  if (c->has_failed) return no_room(c, error);
  memcpy(c->rows, rows, row_bytes * (size_t) graph->n_local);
  for (int32_t i = 0; shifts && i < graph->n_local; i++) add_row(c, c->rows, i * width, width, -weight_of(c, i), kept);
  if (c->halo) MLFF_TRY(c->halo->forward(c->halo->context, c->rows, row_bytes, error));
  for (int32_t a = graph->n_local; a < graph->n_all; a++)
    memcpy(rows + (size_t) a * row_bytes, c->rows + (size_t) graph->node[a] * row_bytes, row_bytes);
  for (int32_t a = graph->n_local; shifts && a < graph->n_all; a++)
    add_row(c, rows, a * width, width, weight_of(c, a), kept);
  if (is_adjoint && c->pass == ENERGY) memcpy(kept, rows, row_bytes * (size_t) graph->n_all);
  return MLFF_OK;
}

/* mlff_halo.reverse: rows of ghosts are added to those of their owners. Adjoints, always: kept are those of ghosts, and
 * what owned atoms got from theirs. */
static mlff_status to_owners(void *context, void *data, int width, size_t real_size, mlff_error *error)
{
  centroid_pass *c = context;
  const mlff_graph *graph = c->graph;
  char *rows = data;
  const size_t row_bytes = (size_t) width * real_size;
  char *kept = next_kept(c, row_bytes);
  const int shifts = c->pass != ENERGY;
  if (!makes_room(c, row_bytes) || !kept) c->has_failed = 1;
  if (c->has_failed) return no_room(c, error);
  if (!shifts) memcpy(kept, rows, row_bytes * (size_t) graph->n_all);
  memset(c->rows, 0, row_bytes * (size_t) graph->n_nodes);
  for (int32_t a = graph->n_local; a < graph->n_all; a++) {
    const int64_t from = a * (int64_t) width, to = graph->node[a] * (int64_t) width;
    for (int k = 0; k < width; k++) {
      const double shift = shifts ? weight_of(c, a) * get(c, kept, from + k) : 0.0;
      set(c, c->rows, to + k, get(c, c->rows, to + k) + get(c, rows, from + k) - shift);
    }
  }
  if (c->halo) MLFF_TRY(c->halo->reverse(c->halo->context, c->rows, width, real_size, error));
  if (!shifts) memcpy(kept, c->rows, row_bytes * (size_t) graph->n_local);
  for (int32_t i = 0; i < graph->n_local; i++) {
    add_row(c, rows, i * (int64_t) width, width, 1.0, c->rows);
    if (shifts) add_row(c, rows, i * (int64_t) width, width, weight_of(c, i), kept);
  }
  return MLFF_OK;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Arrays of the evaluations; on the host unless stated. */
typedef struct centroid_arrays {
  int32_t *node;             /* [n_all]                                                                     */
  double *weights;           /* [n_local]                                                                   */
  mlff_buf on_backend;       /* the same                                                                    */
  double (*forces)[3];       /* [N_PASSES + 1][n_all], -dE/dx and -dU/dx; the last: of the repulsion alone  */
  double (*of_repulsion)[9]; /* [n_all] its centroid virials                                                */
} centroid_arrays;

static void release(mlff_model *m, centroid_pass *c, centroid_arrays *x)
{
  for (int k = 0; k < c->n_kept; k++) free(c->kept[k]);
  free(c->kept);
  free(c->rows);
  free(x->node);
  free(x->weights);
  free(x->forces);
  free(x->of_repulsion);
  mlff_buf_release(m->backend, &x->on_backend);
}

static mlff_status make_arrays(mlff_model *m, const centroid_pass *c, centroid_arrays *x, mlff_error *error)
{
  const size_t n_all = (size_t) c->graph->n_all + 1, n_local = (size_t) c->graph->n_local + 1;
  x->node = malloc(n_all * sizeof *x->node);
  x->weights = malloc(n_local * sizeof *x->weights);
  x->forces = calloc((N_PASSES + 1) * n_all, sizeof *x->forces);
  x->of_repulsion = calloc(n_all, sizeof *x->of_repulsion);
  if (!x->node || !x->weights || !x->forces || !x->of_repulsion) return no_room(c, error);
  return mlff_buf_reserve_rows(m->backend, &x->on_backend, c->graph->n_local, 1, error);
}

/* Forces, and unless it is NULL centroid virials of a strictly local model, from the gradients of the edges. */
static mlff_status take_forces(mlff_model *m, const mlff_arch_outputs *out, double (*forces)[3], double (*centroid)[9],
                               mlff_error *error)
{
  mlff_result result = {.forces = forces, .atom_centroid = centroid};
  const mlff_forces_args args = {.edges = &m->edges, .grad = out->edge_grad, .scale = m->scale, .result = &result};
  return m->backend->ops->forces(m->backend, &args, error);
}

/* The repulsion is strictly local, and no pass weights it: its part is computed apart, in the arrays of the last
 * evaluation. */
static mlff_status repulsion_alone(mlff_model *m, mlff_arch_outputs *out, double (*forces)[3], double (*centroid)[9],
                                   mlff_error *error)
{
  if (!m->edges.repulsion) return MLFF_OK;
  m->backend->ops->zero(m->backend, out->edge_grad, (size_t) m->edges.n_edges * 4 * m->backend->real_size);
  MLFF_TRY(mlff_repulsion_clamp(m, error));
  MLFF_TRY(mlff_repulsion_add(m, out, error));
  return take_forces(m, out, forces, centroid, error);
}

/* All of its exchanges are made after a failure as well. */
static mlff_status one_pass(mlff_model *m, const mlff_graph *graph, const mlff_halo *halo, centroid_pass *c,
                            centroid_arrays *x, mlff_error *error)
{
  const mlff_arch_inputs in = {.graph = graph, .edges = &m->edges, .halo = halo, .weighting = &c->weighting};
  mlff_arch_outputs out = {.node_energy = NULL};
  mlff_status status = MLFF_OK;
  mlff_error later;
  c->n_calls = 0;
  c->weighting = (mlff_weighting){.weights = NULL};
  if (c->pass != ENERGY) {
    for (int32_t i = 0; i < graph->n_local; i++) x->weights[i] = weight_of(c, i);
    status = m->backend->ops->upload_reals(m->backend, x->on_backend.data, x->weights, graph->n_local, error);
    c->weighting.weights = x->on_backend.data;
  }
  mlff_keep_first(&status, mlff_repulsion_clamp(m, status ? &later : error));
  mlff_keep_first(&status, m->arch->evaluate(m->net, &in, &out, status ? &later : error));
  if (status) return status;
  MLFF_TRY(mlff_repulsion_add(m, &out, error));
  MLFF_TRY(take_forces(m, &out, x->forces + (size_t) c->pass * (size_t) graph->n_all, NULL, error));
  if (c->pass != ENERGY) return MLFF_OK;
  return repulsion_alone(m, &out, x->forces + (size_t) N_PASSES * (size_t) graph->n_all, x->of_repulsion, error);
}

/* W of every atom, ghosts included, to its node. */
static void add_atoms(const centroid_pass *c, const centroid_arrays *x, double (*virial)[9])
{
  static const int first[9] = {0, 1, 2, 0, 0, 1, 1, 2, 2}, second[9] = {0, 1, 2, 1, 2, 2, 0, 0, 1};
  const int64_t n_all = c->graph->n_all;
  for (int32_t j = 0; j < n_all; j++) {
    const double *of_repulsion = x->forces[N_PASSES * n_all + j];
    for (int k = 0; k < 9; k++) {
      const int a = first[k], b = second[k];
      const double of_u = x->forces[(1 + a) * n_all + j][b] - of_repulsion[b];
      const double of_e = x->forces[j][b] - of_repulsion[b];
      virial[c->graph->node[j]][k] += coordinate(c, j, a) * of_e - of_u + x->of_repulsion[j][k];
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
  MLFF_TRY(make_arrays(m, c, x, error));
  for (int32_t a = 0; a < graph.n_all; a++) x->node[a] = a;
  graph.node = x->node;
  graph.n_nodes = graph.n_all;
  graph.n_interior = 0;
  graph.list_id = 0; /* nothing of this list is kept */
  graph.tag = NULL;
  status = m->backend->ops->edges(m->backend, &graph, m->head->cutoff, &m->edges, error);
  /* after a bad position or a failure of the device there are no edges, and the exchanges are made */
  if (status && status != MLFF_E_NUMERIC && status != MLFF_E_DEVICE) return status;
  for (c->pass = 0; c->pass < N_PASSES; c->pass++)
    mlff_keep_first(&status, one_pass(m, &graph, &halo, c, x, status ? &later : error));
  memset(virial, 0, (size_t) c->graph->n_nodes * sizeof *virial);
  if (!status) add_atoms(c, x, virial);
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
