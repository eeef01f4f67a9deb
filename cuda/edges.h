/* edges.h: the neighbor graph on the GPU, in mlff_edges.scratch, for edges.cu, forces.cu, incoming.cu and
 * candidates.cu. */
#ifndef MLFF_CUDA_EDGES_H
#define MLFF_CUDA_EDGES_H

#include "ops_cuda.h"

extern "C" {
#include "../src/mlff/graph/bins.h"
}

#include <cstdlib>

enum { SCAN_THREADS = 256 }; /* centers of a block of the scan */

/* The closest pair of a set of centers: smallest r^2; ties: first center, then first neighbor in its list. */
typedef struct closest_pair {
  double r2;
  int32_t i, j;
} closest_pair;

/* Arrays on the device. A pair is the index of a candidate in the list of the graph. */
typedef struct graph_arrays {
  /* per list */
  int64_t *row;     /* [n_local+1] candidates of a center */
  int32_t *nbr;     /* [n_pairs] */
  int32_t *species; /* [n_all] */
  int32_t *node;    /* [n_all] */
  int64_t *in_row;  /* [n_nodes+2] candidates whose neighbor has this node; one more for the counting sort */
  int32_t *in_pair; /* [n_pairs] in list order */
  /* per step */
  double *pos;                 /* [n_all][3] */
  int32_t *edge;               /* [n_pairs] edge of a candidate, -1: not active */
  int32_t *count;              /* [n_local] edges of a center */
  closest_pair *closest;       /* [n_local] */
  int64_t *block_edges;        /* [n_scan_blocks] edges of a block, then of all blocks before it */
  closest_pair *block_closest; /* [n_scan_blocks] */
  mlff_cuda_summary *summary;
} graph_arrays;

/* Places an array of n elements at byte *offset of `base` and advances *offset. */
template <typename T> static inline void take_array(void *base, size_t *offset, T **array, int64_t n)
{
  *array = (T *) (void *) ((char *) base + *offset);
  *offset += ((size_t) n * sizeof(T) + 255) / 256 * 256;
}

/* Places the arrays from `base` on; returns their bytes. base: NULL if only the size is needed. */
static inline size_t graph_layout(void *base, int64_t n_local, int64_t n_nodes, int64_t n_all, int64_t n_pairs,
                                  graph_arrays *g)
{
  const int64_t n_blocks = (n_local + SCAN_THREADS - 1) / SCAN_THREADS;
  size_t offset = 0;
  take_array(base, &offset, &g->row, n_local + 1);
  take_array(base, &offset, &g->nbr, n_pairs);
  take_array(base, &offset, &g->species, n_all);
  take_array(base, &offset, &g->node, n_all);
  take_array(base, &offset, &g->in_row, n_nodes + 2);
  take_array(base, &offset, &g->in_pair, n_pairs);
  take_array(base, &offset, &g->pos, 3 * n_all);
  take_array(base, &offset, &g->edge, n_pairs);
  take_array(base, &offset, &g->count, n_local);
  take_array(base, &offset, &g->closest, n_local);
  take_array(base, &offset, &g->block_edges, n_blocks + 1);
  take_array(base, &offset, &g->block_closest, n_blocks + 1);
  take_array(base, &offset, &g->summary, 1);
  return offset;
}

static inline graph_arrays graph_of(const mlff_edges *edges)
{
  graph_arrays g;
  graph_layout(edges->scratch.data, edges->n_local, edges->n_nodes, edges->all_room, edges->pairs_room, &g);
  return g;
}

/* Inclusive scan of value[SCAN_THREADS] in shared memory. Called by all threads. */
MLFF_DEVICE void scan_block(int64_t *value)
{
  const int t = (int) threadIdx.x;
  for (int step = 1; step < SCAN_THREADS; step *= 2) {
    __syncthreads();
    const int64_t preceding = t >= step ? value[t - step] : 0;
    __syncthreads();
    value[t] += preceding;
  }
  __syncthreads();
}

/* incoming.cu: computes center_species of edges, and in_row and in_pair, of a new list. edge[] is scratch until the
 * edges of the step are computed. */
void MLFF_CUDA(mlff_cuda_prepare_list)(mlff_backend *backend, const mlff_edges *edges);

/* Host side of a list that candidates.cu builds. */
typedef struct mlff_cuda_host_list {
  mlff_bins bins;
  int64_t *row; /* [n_local+1] or NULL */
  ~mlff_cuda_host_list()
  {
    mlff_bins_free(&bins);
    free(row);
  }
} mlff_cuda_host_list;

/* Bins the positions of a graph without a list and reserves the memory of count_candidates. */
mlff_status MLFF_CUDA(mlff_cuda_reserve_candidates)(mlff_backend *backend, const mlff_graph *graph,
                                                    mlff_cuda_host_list *list, mlff_error *error);
/* Counts the candidates of a graph without a list. */
mlff_status MLFF_CUDA(mlff_cuda_count_candidates)(mlff_backend *backend, const mlff_graph *graph,
                                                  mlff_cuda_host_list *list, mlff_error *error);
/* Writes arrays->nbr from arrays->row. */
void MLFF_CUDA(mlff_cuda_fill_candidates)(mlff_backend *backend, const mlff_graph *graph,
                                          const mlff_cuda_host_list *list, const graph_arrays *arrays);

#endif
