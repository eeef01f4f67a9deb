/* incoming.cu: data derived from a new list: elements of nodes and the reversed list, that is candidates sorted by the
 * node of their neighbor, from which forces.cu gathers. The CPU scatters forces and has no reversed list.
 */
#include "edges.h"

enum { LIST_THREADS = 128 };

namespace { /* kernels and their arguments differ between element types */

typedef struct list_arrays {
  graph_arrays g;
  int64_t n_pairs;
  int32_t *center_species;
  int32_t n_local, n_nodes, n_all, unused;
} list_arrays;

/* center_species[i] = species of owned atom i, -1 for nodes of other ranks. One thread per node; deterministic.
 * Twin: fill_center_species. */
__global__ void owned_species_kernel(list_arrays a)
{
  grid_dependency_wait();
  const int i = (int) (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < a.n_nodes) a.center_species[i] = i < a.n_local ? a.g.species[i] : -1;
}

/* center_species[node[b]] = species[b] for ghosts b of other ranks' atoms. One thread per ghost; all ghosts of a
 * node write the same value. Twin: fill_center_species. */
__global__ void ghost_species_kernel(list_arrays a)
{
  grid_dependency_wait();
  const int b = a.n_local + (int) (blockIdx.x * blockDim.x + threadIdx.x);
  if (b < a.n_all && a.g.node[b] >= a.n_local) a.center_species[a.g.node[b]] = a.g.species[b];
}

/* in_row[k + 2] = number of candidates whose neighbor has node k; input: zeros. One thread per candidate; integer
 * atomics, so deterministic. This kernel and the next three are a counting sort. */
__global__ void incoming_count_kernel(list_arrays a)
{
  grid_dependency_wait();
  const int64_t p = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  if (p < a.n_pairs) atomicAdd((unsigned long long *) &a.g.in_row[a.g.node[a.g.nbr[p]] + 2], 1ull);
}

/* in_row[k] = sum of in_row[0 .. k], k = 0 .. n_nodes+1. One block loops over all nodes; shared: a sum per thread;
 * deterministic. */
__global__ void __launch_bounds__(SCAN_THREADS) incoming_scan_kernel(list_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(int64_t, sum, SCAN_THREADS);
  const int t = (int) threadIdx.x;
  int64_t n_before = 0;
  for (int64_t k0 = 0; k0 < (int64_t) a.n_nodes + 2; k0 += SCAN_THREADS) {
    const int64_t k = k0 + t;
    sum[t] = k < (int64_t) a.n_nodes + 2 ? a.g.in_row[k] : 0;
    scan_block(sum);
    if (k < (int64_t) a.n_nodes + 2) a.g.in_row[k] = n_before + sum[t];
    n_before += sum[SCAN_THREADS - 1];
    __syncthreads();
  }
}

/* edge[q] = p for the candidates p of each node, in any order; in_row[k + 1] advances from the first candidate of node
 * k to their end. One thread per candidate. Atomics assign the places, so the order varies; the next kernel sorts. */
__global__ void incoming_fill_kernel(list_arrays a)
{
  grid_dependency_wait();
  const int64_t p = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= a.n_pairs) return;
  const auto q = atomicAdd((unsigned long long *) &a.g.in_row[a.g.node[a.g.nbr[p]] + 1], 1ull);
  a.g.edge[q] = (int32_t) p;
}

/* in_pair[in_row[k] + number of candidates of node k before p] = p. One thread per place q of edge[] reads all
 * candidates of its node; deterministic. */
__global__ void incoming_order_kernel(list_arrays a)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= a.n_pairs) return;
  const int32_t p = a.g.edge[q], k = a.g.node[a.g.nbr[p]];
  int64_t place = a.g.in_row[k];
  for (int64_t other = a.g.in_row[k]; other < a.g.in_row[k + 1]; other++) place += a.g.edge[other] < p;
  a.g.in_pair[place] = p;
}

} // namespace

void MLFF_CUDA(mlff_cuda_prepare_list)(mlff_backend *backend, const mlff_edges *edges)
{
  const unsigned n_blocks = mlff_cuda_blocks(edges->n_pairs, LIST_THREADS),
                 n_node_blocks = mlff_cuda_blocks(edges->n_nodes, LIST_THREADS),
                 n_ghost_blocks = mlff_cuda_blocks(edges->n_all - edges->n_local, LIST_THREADS);
  list_arrays a;
  memset(&a, 0, sizeof a);
  a.g = graph_of(edges);
  a.n_pairs = edges->n_pairs;
  a.center_species = (int32_t *) edges->center_species.data;
  a.n_local = edges->n_local;
  a.n_nodes = edges->n_nodes;
  a.n_all = edges->n_all;
  backend->ops->zero(backend, a.g.in_row, ((size_t) a.n_nodes + 2) * sizeof *a.g.in_row);
  MLFF_LAUNCH_INDEPENDENT(backend, incoming_count_kernel, n_blocks, LIST_THREADS, a);
  MLFF_LAUNCH(backend, incoming_scan_kernel, 1, SCAN_THREADS, 0, a);
  MLFF_LAUNCH_INDEPENDENT(backend, incoming_fill_kernel, n_blocks, LIST_THREADS, a);
  MLFF_LAUNCH_INDEPENDENT(backend, incoming_order_kernel, n_blocks, LIST_THREADS, a);
  MLFF_LAUNCH_INDEPENDENT(backend, owned_species_kernel, n_node_blocks, LIST_THREADS, a);
  MLFF_LAUNCH_INDEPENDENT(backend, ghost_species_kernel, n_ghost_blocks, LIST_THREADS, a);
}
