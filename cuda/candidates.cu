/* candidates.cu: neighbor list of a graph without one (mlff_graph.reach), from positions. The host bins the atoms and
 * sums the counts; kernels loop over pairs. No twin: on the CPU the caller builds the list. mlff_system_create uses the
 * same bins (graph/neighbor.c). */
#include "edges.h"

#include <cstdlib>
#include <cstring>

enum { LIST_THREADS = 128, LIST_WARPS = LIST_THREADS / WARP };

namespace { /* kernels and their arguments differ between element types */

typedef struct list_arrays {
  double *x, *y, *z;  /* [n_all] sorted by bin (bins.h) */
  int32_t *order;     /* [n_all] atom of a place in that order */
  int32_t *start;     /* [number of bins + 1] first place of a bin */
  int32_t *bin;       /* [n_all] of an atom */
  int32_t *species;   /* [n_all] of an atom */
  int32_t *count;     /* [n_local] */
  const int64_t *row; /* [n_local+1] */
  int32_t *nbr;       /* [n_pairs] */
  double reach2;
  int32_t n_local, n_all, n_bins[3], unused;
} list_arrays;

/* Candidates of owned atom i: atoms j != i with an element and r_ij <= reach.
 *   FILLS false  count[i] = their number
 *   FILLS true   nbr[row[i] ..] = j, sorted by bin and place
 * A warp owns an atom, its lanes every 32nd atom of the bins around it. No shared memory; deterministic. */
template <bool FILLS> __global__ void __launch_bounds__(LIST_THREADS) candidates_kernel(list_arrays a)
{
  grid_dependency_wait();
  const int place = (int) (blockIdx.x * LIST_WARPS + threadIdx.x / WARP), lane = (int) threadIdx.x % WARP;
  if (place >= a.n_all) return;
  const int32_t i = a.order[place];
  if (i >= a.n_local) return;
  const int bin = a.bin[i];
  const int bins[3] = {bin / (a.n_bins[1] * a.n_bins[2]), bin / a.n_bins[2] % a.n_bins[1], bin % a.n_bins[2]};
  int first[3], last[3], n = 0;
  for (int k = 0; k < 3; k++) {
    first[k] = bins[k] > 0 ? bins[k] - 1 : 0;
    last[k] = bins[k] + 1 < a.n_bins[k] ? bins[k] + 1 : bins[k];
  }
  const double x = a.x[place], y = a.y[place], z = a.z[place];
  const int64_t begin = FILLS ? a.row[i] : 0;
  for (int p = first[0]; p <= last[0]; p++)
    for (int q = first[1]; q <= last[1]; q++) {
      const int line = (p * a.n_bins[1] + q) * a.n_bins[2];
      const int end = a.species[i] < 0 ? 0 : a.start[line + last[2] + 1];
      for (int m0 = a.start[line + first[2]]; m0 < end; m0 += WARP) {
        const int m = m0 + lane;
        int32_t j = -1;
        if (m < end && m != place) {
          const double dx = a.x[m] - x, dy = a.y[m] - y, dz = a.z[m] - z;
          if (dx * dx + dy * dy + dz * dz <= a.reach2) j = a.order[m];
          if (j >= 0 && a.species[j] < 0) j = -1;
        }
        const unsigned votes = __ballot_sync(FULL_WARP, j >= 0);
        if (FILLS && j >= 0) a.nbr[begin + n + __popc(votes & ((1u << lane) - 1))] = j;
        n += __popc(votes);
      }
    }
  if (!FILLS && lane == 0) a.count[i] = n;
}

} // namespace

/* Places the arrays of a graph from `base` on; returns their bytes. */
static size_t list_layout(void *base, const mlff_graph *graph, const mlff_bins *bins, list_arrays *a)
{
  const int64_t n_all = graph->n_all;
  size_t offset = 0;
  memset(a, 0, sizeof *a);
  take_array(base, &offset, &a->x, 3 * n_all);
  take_array(base, &offset, &a->order, n_all);
  take_array(base, &offset, &a->start, mlff_bins_number(bins) + 1);
  take_array(base, &offset, &a->bin, n_all);
  take_array(base, &offset, &a->species, n_all);
  take_array(base, &offset, &a->count, graph->n_local);
  a->y = a->x + n_all;
  a->z = a->y + n_all;
  a->reach2 = graph->reach * graph->reach;
  a->n_local = graph->n_local;
  a->n_all = graph->n_all;
  for (int k = 0; k < 3; k++) a->n_bins[k] = bins->n[k];
  return offset;
}

static mlff_status upload_bins(mlff_backend *backend, const mlff_graph *graph, const mlff_bins *bins,
                               const list_arrays *a, mlff_error *error)
{
  const size_t n = (size_t) graph->n_all, n_starts = (size_t) mlff_bins_number(bins) + 1;
  MLFF_TRY(mlff_cuda_upload(backend, a->x, bins->x, 3 * n * sizeof *a->x, error));
  MLFF_TRY(mlff_cuda_upload(backend, a->order, bins->order, n * sizeof *a->order, error));
  MLFF_TRY(mlff_cuda_upload(backend, a->start, bins->start, n_starts * sizeof *a->start, error));
  MLFF_TRY(mlff_cuda_upload(backend, a->bin, bins->bin, n * sizeof *a->bin, error));
  return mlff_cuda_upload(backend, a->species, graph->species, n * sizeof *a->species, error);
}

mlff_status MLFF_CUDA(mlff_cuda_reserve_candidates)(mlff_backend *backend, const mlff_graph *graph,
                                                    mlff_cuda_host_list *list, mlff_error *error)
{
  list_arrays unused;
  MLFF_TRY(mlff_bins_of_positions(graph->n_all, graph->pos, graph->reach, &list->bins, error));
  const size_t bytes = list_layout(NULL, graph, &list->bins, &unused);
  return mlff_buf_reserve(backend, &mlff_cuda_of(backend)->candidates, bytes, error);
}

mlff_status MLFF_CUDA(mlff_cuda_count_candidates)(mlff_backend *backend, const mlff_graph *graph,
                                                  mlff_cuda_host_list *list, mlff_error *error)
{
  const mlff_buf *buf = &mlff_cuda_of(backend)->candidates;
  const size_t n_local = (size_t) graph->n_local;
  list_arrays a;
  MLFF_TRY(MLFF_CUDA(mlff_cuda_reserve_candidates)(backend, graph, list, error));
  list_layout(buf->data, graph, &list->bins, &a);
  list->row = (int64_t *) malloc((n_local + 1) * (sizeof *list->row + sizeof *a.count));
  if (!list->row)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory: neighbor list of %lld atoms", (long long) n_local);
  int32_t *count = (int32_t *) (void *) (list->row + n_local + 1);
  MLFF_TRY(upload_bins(backend, graph, &list->bins, &a, error));
  MLFF_LAUNCH(backend, candidates_kernel<false>, mlff_cuda_blocks(graph->n_all, LIST_WARPS), LIST_THREADS, 0, a);
  MLFF_TRY(backend->ops->download(backend, count, a.count, n_local * sizeof *count, error));
  list->row[0] = 0;
  for (size_t i = 0; i < n_local; i++) list->row[i + 1] = list->row[i] + count[i];
  return mlff_cuda_status(mlff_cuda_of(backend), error);
}

void MLFF_CUDA(mlff_cuda_fill_candidates)(mlff_backend *backend, const mlff_graph *graph,
                                          const mlff_cuda_host_list *list, const graph_arrays *arrays)
{
  list_arrays a;
  list_layout(mlff_cuda_of(backend)->candidates.data, graph, &list->bins, &a);
  a.row = arrays->row;
  a.nbr = arrays->nbr;
  MLFF_LAUNCH(backend, candidates_kernel<true>, mlff_cuda_blocks(graph->n_all, LIST_WARPS), LIST_THREADS, 0, a);
}
