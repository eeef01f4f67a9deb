/* ranks.c: see ranks.h. */
#define _POSIX_C_SOURCE 200809L /* barriers */

#include "ranks.h"

#include "errors.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct part part;

typedef struct world {
  const test_model *file;
  const char *precision;
  const mlff_graph *whole;
  int n_ranks;
  const int *rank_of; /* [n_local of whole] */
  part *parts;        /* [n_ranks]          */
  pthread_barrier_t barrier;
  size_t room;  /* bytes of a row in `rows`                */
  char *rows;   /* of all atoms, for one exchange          */
  int in_parts; /* exchanges are begun and finished apart  */
} world;

/* A part of the whole graph, and what its thread finds. */
struct part {
  world *w;
  int rank;
  mlff_graph graph;
  int32_t *global;  /* [n_nodes] atom of the whole that a node is         */
  int32_t *node_of; /* [n_local of whole] node of an atom here, or -1     */
  int n_forward, n_reverse, n_reduce;
  void *under_way; /* rows or values of a call that all ranks make now */
  size_t row_bytes;
  mlff_result result;
  mlff_status status;
  mlff_error error;
};

static mlff_status begin_exchange(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  part *p = context;
  p->under_way = rows;
  p->row_bytes = row_bytes;
  if (row_bytes > p->w->room) { /* still made to its end, so that no rank waits for ever */
    p->row_bytes = 0;
    return mlff_fail(error, MLFF_E_ARG, "rows of %zu bytes, but exchange_width is %zu", row_bytes, p->w->room);
  }
  for (int32_t i = p->graph.n_interior; i < p->graph.n_local; i++)
    memcpy(p->w->rows + (size_t) p->global[i] * row_bytes, (char *) rows + (size_t) i * row_bytes, row_bytes);
  memset((char *) rows + (size_t) p->graph.n_local * row_bytes, 0xff,
         (size_t) (p->graph.n_nodes - p->graph.n_local) * row_bytes);
  return MLFF_OK;
}

static mlff_status finish_exchange(void *context, mlff_error *error)
{
  part *p = context;
  const size_t row_bytes = p->row_bytes;
  (void) error;
  pthread_barrier_wait(&p->w->barrier);
  for (int32_t i = p->graph.n_local; i < p->graph.n_nodes; i++)
    memcpy((char *) p->under_way + (size_t) i * row_bytes, p->w->rows + (size_t) p->global[i] * row_bytes, row_bytes);
  pthread_barrier_wait(&p->w->barrier);
  p->n_forward++;
  return MLFF_OK;
}

static mlff_status exchange(void *context, void *rows, size_t row_bytes, mlff_error *error)
{
  const mlff_status status = begin_exchange(context, rows, row_bytes, error);
  finish_exchange(context, error);
  return status;
}

/* Adds row j of another rank to row i of this one. */
static void add_row(void *to, int64_t i, const void *from, int64_t j, int width, size_t real_size)
{
  for (int k = 0; k < width; k++) {
    if (real_size == sizeof(double))
      ((double *) to)[i * width + k] += ((const double *) from)[j * width + k];
    else
      ((float *) to)[i * width + k] += ((const float *) from)[j * width + k];
  }
}

static mlff_status reverse(void *context, void *rows, int width, size_t real_size, mlff_error *error)
{
  part *p = context;
  world *w = p->w;
  (void) error;
  p->under_way = rows;
  pthread_barrier_wait(&w->barrier);
  for (const part *q = w->parts; q < w->parts + w->n_ranks; q++)
    for (int32_t j = q->graph.n_local; j < q->graph.n_nodes; j++)
      if (w->rank_of[q->global[j]] == p->rank)
        add_row(rows, p->node_of[q->global[j]], q->under_way, j, width, real_size);
  pthread_barrier_wait(&w->barrier);
  memset((char *) rows + (size_t) p->graph.n_local * (size_t) width * real_size, 0xff,
         (size_t) (p->graph.n_nodes - p->graph.n_local) * (size_t) width * real_size);
  p->n_reverse++;
  return MLFF_OK;
}

static mlff_status reduce(void *context, double *values, int n, mlff_error *error)
{
  part *p = context;
  double *sums = calloc((size_t) n + 1, sizeof *sums);
  (void) error;
  p->under_way = values;
  pthread_barrier_wait(&p->w->barrier);
  for (int r = 0; r < p->w->n_ranks; r++)
    for (int k = 0; k < n; k++) sums[k] += ((const double *) p->w->parts[r].under_way)[k];
  pthread_barrier_wait(&p->w->barrier);
  memcpy(values, sums, (size_t) n * sizeof *sums);
  free(sums);
  p->n_reduce++;
  return MLFF_OK;
}

/* Atom i of the whole has neighbors on its own rank only; lists are full, so nobody else has it as one either. */
static int is_interior(const world *w, int32_t i)
{
  const mlff_graph *g = w->whole;
  for (int64_t e = g->row[i]; e < g->row[i + 1]; e++)
    if (w->rank_of[g->node[g->nbr[e]]] != w->rank_of[i]) return 0;
  return 1;
}

/* The atoms that a part consists of: from[a] in the whole graph, mine[] the reverse. */
typedef struct atoms_of_part {
  int32_t n_all, n_local, *source, *mine;
} atoms_of_part;

/* Owned atoms, interior ones first. Returns the number of their candidates. */
static int64_t add_owned(part *p, atoms_of_part *a)
{
  const mlff_graph *g = p->w->whole;
  int64_t n_pairs = 0;
  for (int inner = 1; inner >= 0; inner--) {
    for (int32_t i = 0; i < g->n_local; i++) {
      if (p->w->rank_of[i] != p->rank || is_interior(p->w, i) != inner) continue;
      a->source[a->n_all] = i;
      p->global[a->n_all] = i;
      p->node_of[i] = a->n_all;
      a->mine[i] = a->n_all++;
      p->graph.n_interior += inner;
      n_pairs += g->row[i + 1] - g->row[i];
    }
  }
  p->graph.n_local = p->graph.n_nodes = a->n_local = a->n_all;
  return n_pairs;
}

/* One ghost for each atom of the whole graph that is a neighbor and not owned, and one node for each owner
 * elsewhere. */
static void add_candidates(part *p, atoms_of_part *a, int64_t *row, int32_t *nbr)
{
  const mlff_graph *g = p->w->whole;
  int64_t n = 0;
  for (int32_t i = 0; i < a->n_local; i++) {
    row[i] = n;
    for (int64_t e = g->row[a->source[i]]; e < g->row[a->source[i] + 1]; e++) {
      const int32_t j = g->nbr[e], owner = g->node[j];
      if (a->mine[j] < 0) {
        a->source[a->n_all] = j;
        a->mine[j] = a->n_all++;
      }
      if (p->node_of[owner] < 0) {
        p->global[p->graph.n_nodes] = owner;
        p->node_of[owner] = p->graph.n_nodes++;
      }
      nbr[n++] = a->mine[j];
    }
  }
  row[a->n_local] = n;
  p->graph.n_all = a->n_all;
  p->graph.n_pairs = n;
  p->graph.row = row;
  p->graph.nbr = nbr;
}

static void build_part(part *p)
{
  const mlff_graph *g = p->w->whole;
  const size_t n_all = (size_t) g->n_all + 1, n_local = (size_t) g->n_local + 1;
  atoms_of_part a = {.source = malloc(n_all * sizeof *a.source), .mine = malloc(n_all * sizeof *a.mine)};
  p->global = malloc(n_local * sizeof *p->global);
  p->node_of = malloc(n_local * sizeof *p->node_of);
  for (int32_t k = 0; k < g->n_all; k++) a.mine[k] = -1;
  for (int32_t i = 0; i < g->n_local; i++) p->node_of[i] = -1;
  p->graph = (mlff_graph){.list_id = (uint64_t) p->rank + 1, .boundary = g->boundary, .volume = g->volume};
  const int64_t n_pairs = add_owned(p, &a);
  int64_t *row = malloc(((size_t) a.n_local + 1) * sizeof *row), *tag = malloc(n_all * sizeof *tag);
  int32_t *nbr = malloc((size_t) (n_pairs + 1) * sizeof *nbr);
  add_candidates(p, &a, row, nbr);
  int32_t *species = malloc(n_all * sizeof *species), *node = malloc(n_all * sizeof *node);
  double(*pos)[3] = malloc(n_all * sizeof *pos);
  for (int32_t k = 0; k < a.n_all; k++) {
    species[k] = g->species[a.source[k]];
    node[k] = p->node_of[g->node[a.source[k]]];
    tag[k] = g->tag ? g->tag[a.source[k]] : g->node[a.source[k]];
    memcpy(pos[k], g->pos[a.source[k]], sizeof pos[k]);
  }
  p->graph.species = species;
  p->graph.node = node;
  p->graph.tag = tag;
  p->graph.pos = (const double(*)[3]) pos;
  free(a.mine);
  free(a.source);
}

static void free_part(part *p)
{
  const void *const owned[] = {
      p->graph.species,
      p->graph.node,
      p->graph.row,
      p->graph.nbr,
      p->graph.pos,
      p->graph.tag,
      p->global,
      p->node_of,
      p->result.forces,
      p->result.atom_energy,
      p->result.atom_virial,
      p->result.atom_centroid,
  };
  for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) free((void *) (uintptr_t) owned[k]);
}

static mlff_status open_on_cpu(const world *w, mlff_model **model, mlff_error *error)
{
  const mlff_options options = {.device = "cpu", .precision = w->precision, .skip_self_test = 1};
  return test_model_try(w->file, &options, model, error);
}

/* One rank, on the CPU. Nothing of Check or of the simulated GPU here: they are not made for threads. */
static void *run_part(void *argument)
{
  part *p = argument;
  mlff_model *model = NULL;
  const int in_parts = p->w->in_parts;
  const mlff_halo halo = {.context = p,
                          .forward = exchange,
                          .begin = in_parts ? begin_exchange : NULL,
                          .finish = in_parts ? finish_exchange : NULL,
                          .reverse = reverse,
                          .reduce = reduce};
  p->status = open_on_cpu(p->w, &model, &p->error);
  if (p->status) return NULL;
  const unsigned traits = mlff_model_info(model)->traits;
  const size_t n = (size_t) p->graph.n_nodes + 1;
  p->result.forces = calloc(n, sizeof *p->result.forces);
  if (traits & MLFF_NODE_ENERGIES) p->result.atom_energy = calloc(n, sizeof(double));
  if (traits & MLFF_CONSERVATIVE) p->result.atom_virial = calloc(n, sizeof *p->result.atom_virial);
  for (int again = 0; again < 2 && !p->status; again++)
    p->status = mlff_model_evaluate(model, &p->graph, &halo, &p->result, &p->error);
  const int calls[3] = {p->n_forward, p->n_reverse, p->n_reduce};
  if (traits & MLFF_CONSERVATIVE) p->result.atom_centroid = calloc(n, sizeof *p->result.atom_centroid);
  if (p->result.atom_centroid && !p->status)
    p->status = mlff_model_evaluate(model, &p->graph, &halo, &p->result, &p->error);
  p->n_forward = calls[0];
  p->n_reverse = calls[1];
  p->n_reduce = calls[2];
  mlff_model_close(model);
  return NULL;
}

/* All ranks call as often, twice as often as in one evaluation. */
static void collect(const part *p, test_ranks_answer *a)
{
  ck_assert_msg(!p->status, "rank %d: %s", p->rank, p->error.text);
  const int calls[3] = {p->n_forward, p->n_reverse, p->n_reduce};
  const int in_one[3] = {a->n_forward, a->n_reverse, a->n_reduce};
  for (int k = 0; k < 3; k++) ck_assert_int_eq(calls[k], 2 * in_one[k]);
  a->energy += p->result.energy;
  a->n_interior += p->graph.n_interior;
  a->has_parts |= p->graph.n_nodes > p->graph.n_local;
  for (int k = 0; k < 6; k++) a->virial[k] += p->result.virial[k];
  for (int32_t i = 0; i < p->graph.n_nodes; i++)
    for (int c = 0; c < 3; c++) a->forces[p->global[i]][c] += p->result.forces[i][c];
  for (int32_t i = 0; a->centroid && i < p->graph.n_nodes; i++)
    for (int k = 0; k < 9; k++) a->centroid[p->global[i]][k] += p->result.atom_centroid[i][k];
  for (int32_t i = 0; a->atom_energy && i < p->graph.n_local; i++)
    a->atom_energy[p->global[i]] = p->result.atom_energy[i];
}

test_ranks_answer test_on_ranks(const test_model *file, const char *precision, const test_atoms *atoms, int n_ranks,
                                const int *rank_of)
{
  part parts[TEST_MAX_RANKS] = {{.rank = 0}};
  pthread_t threads[TEST_MAX_RANKS];
  world w = {.file = file,
             .precision = precision,
             .n_ranks = n_ranks,
             .rank_of = rank_of,
             .parts = parts,
             .in_parts = strcmp(precision, "fp64") == 0};
  mlff_model *model = NULL;
  mlff_error error = {.code = MLFF_OK};
  test_ok(open_on_cpu(&w, &model, &error), error);
  const mlff_info *info = mlff_model_info(model);
  mlff_system *system = test_system(atoms, info->cutoff + 0.5);
  w.whole = mlff_system_graph(system);
  w.room = (size_t) info->exchange_width;
  w.rows = calloc((size_t) atoms->n + 1, w.room + 1);
  ck_assert_int_eq(pthread_barrier_init(&w.barrier, NULL, (unsigned) n_ranks), 0);
  for (int r = 0; r < n_ranks; r++) {
    parts[r] = (part){.w = &w, .rank = r};
    build_part(&parts[r]);
    test_ok(mlff_graph_check(&parts[r].graph, info->n_elements, &error), error);
  }
  for (int r = 0; r < n_ranks; r++) ck_assert_int_eq(pthread_create(&threads[r], NULL, run_part, &parts[r]), 0);
  for (int r = 0; r < n_ranks; r++) ck_assert_int_eq(pthread_join(threads[r], NULL), 0);
  test_ranks_answer a = {.forces = calloc((size_t) atoms->n + 1, sizeof *a.forces)};
  if (info->traits & MLFF_NODE_ENERGIES) a.atom_energy = calloc((size_t) atoms->n + 1, sizeof *a.atom_energy);
  if (info->traits & MLFF_CONSERVATIVE) a.centroid = calloc((size_t) atoms->n + 1, sizeof *a.centroid);
  a.n_forward = parts[0].n_forward / 2;
  a.n_reverse = parts[0].n_reverse / 2;
  a.n_reduce = parts[0].n_reduce / 2;
  for (int r = 0; r < n_ranks; r++) collect(&parts[r], &a);
  for (int r = 0; r < n_ranks; r++) free_part(&parts[r]);
  free(w.rows);
  pthread_barrier_destroy(&w.barrier);
  mlff_system_free(system);
  mlff_model_close(model);
  return a;
}

void test_ranks_free(test_ranks_answer *answer)
{
  free(answer->forces);
  free(answer->atom_energy);
  free(answer->centroid);
  *answer = (test_ranks_answer){.n_forward = 0};
}
