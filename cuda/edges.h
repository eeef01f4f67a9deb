/* edges.h: what the GPU keeps of a neighbour graph in mlff_edges.scratch, for edges.cu and forces.cu. */
#ifndef MLFF_CUDA_EDGES_H
#define MLFF_CUDA_EDGES_H

#include "ops_cuda.h"

extern "C" {
#include "../src/mlff/graph/bins.h"
}

#include <cstdlib>

enum { SCAN_THREADS = 256 }; /* centres of a block of the scan */
enum { AT_ONCE = 4 };        /* candidates of a lane that are looked up together, by reads that wait for one another */

/* The closest pair of some centres: smallest r^2, then the first centre, then the first neighbour of its list. */
typedef struct closest_pair {
  double r2;
  int32_t i, j;
} closest_pair;

/* Arrays on the device. `pair` is the index of a candidate in the graph's list. */
typedef struct graph_arrays {
  /* new with the list */
  int64_t *row;     /* [n_local+1] candidates of a centre                                     */
  int32_t *nbr;     /* [n_pairs]                                                              */
  int32_t *species; /* [n_all]                                                                */
  int32_t *node;    /* [n_all]                                                                */
  int64_t *in_row;  /* [n_nodes+2] candidates whose neighbour has this node; the last is for making it */
  int32_t *in_pair; /* [n_pairs]   in the order of the list                                   */
  /* new every step */
  double *pos;                 /* [n_all][3]                                               */
  int32_t *edge;               /* [n_pairs]   edge of a candidate, -1: not active          */
  int32_t *count;              /* [n_local]   edges of a centre                            */
  closest_pair *closest;       /* [n_local]                                                */
  int64_t *block_edges;        /* [n_scan_blocks] edges of a block; then: of those before it */
  closest_pair *block_closest; /* [n_scan_blocks]                                          */
  mlff_cuda_summary *summary;
} graph_arrays;

/* Lays n elements of an array out from byte *at of `base` on, and moves *at behind them. */
template <typename T> static inline void take_array(void *base, size_t *at, T **array, int64_t n)
{
  *array = (T *) (void *) ((char *) base + *at);
  *at += ((size_t) n * sizeof(T) + 255) / 256 * 256;
}

/* Lays the arrays out from `base` on (NULL: to learn the size); returns the bytes. */
static inline size_t graph_layout(void *base, int64_t n_local, int64_t n_nodes, int64_t n_all, int64_t n_pairs,
                                  graph_arrays *g)
{
  const int64_t n_blocks = (n_local + SCAN_THREADS - 1) / SCAN_THREADS;
  size_t at = 0;
  take_array(base, &at, &g->row, n_local + 1);
  take_array(base, &at, &g->nbr, n_pairs);
  take_array(base, &at, &g->species, n_all);
  take_array(base, &at, &g->node, n_all);
  take_array(base, &at, &g->in_row, n_nodes + 2);
  take_array(base, &at, &g->in_pair, n_pairs);
  take_array(base, &at, &g->pos, 3 * n_all);
  take_array(base, &at, &g->edge, n_pairs);
  take_array(base, &at, &g->count, n_local);
  take_array(base, &at, &g->closest, n_local);
  take_array(base, &at, &g->block_edges, n_blocks + 1);
  take_array(base, &at, &g->block_closest, n_blocks + 1);
  take_array(base, &at, &g->summary, 1);
  return at;
}

static inline graph_arrays graph_of(const mlff_edges *edges)
{
  graph_arrays g;
  graph_layout(edges->scratch.data, edges->n_local, edges->n_nodes, edges->all_room, edges->pairs_room, &g);
  return g;
}

/* Inclusive sums of value[SCAN_THREADS], shared; all threads call it. */
MLFF_DEVICE void scan_block(int64_t *value)
{
  const int t = (int) threadIdx.x;
  for (int by = 1; by < SCAN_THREADS; by *= 2) {
    __syncthreads();
    const int64_t before = t >= by ? value[t - by] : 0;
    __syncthreads();
    value[t] += before;
  }
  __syncthreads();
}

/* incoming.cu: center_species of edges, and in_row and in_pair, of a list that has arrived. edge[] is free until the
 * edges of the step are found. */
void MLFF_CUDA(mlff_cuda_settle_list)(mlff_backend *backend, const mlff_edges *edges);

/* A list that is being made (candidates.cu), where the host has it. */
typedef struct mlff_cuda_host_list {
  mlff_bins bins;
  int64_t *row; /* [n_local+1]; NULL: there is none */
  ~mlff_cuda_host_list()
  {
    mlff_bins_free(&bins);
    free(row);
  }
} mlff_cuda_host_list;

/* Finds the candidates of a graph without a list: their numbers, then, where there is room for them, to->nbr, with
 * to->row there. In a forecast no more than memory is counted. */
mlff_status MLFF_CUDA(mlff_cuda_count_candidates)(mlff_backend *backend, const mlff_graph *graph,
                                                  mlff_cuda_host_list *list, mlff_error *error);
void MLFF_CUDA(mlff_cuda_fill_candidates)(mlff_backend *backend, const mlff_graph *graph,
                                          const mlff_cuda_host_list *list, const graph_arrays *to);

#endif
