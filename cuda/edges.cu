/* edges.cu: active edges of a step, on the GPU: candidates with r_ij < cutoff. Twin: cpu/edges.c.
 *
 * Kernels count the active candidates of each center, scan the counts, and fill the edges. The index arrays of the
 * graph are copied from the host or from the device only when the list is new. Differences of positions are in double.
 */
#include "edges.h"
#include "vectors.h"

enum { EDGE_THREADS = 128, EDGE_WARPS = EDGE_THREADS / WARP };
enum { LOADS_PER_BATCH = 4 }; /* candidates that a lane loads at a time, to hide the latency of dependent loads */

namespace { /* kernels and their arguments differ between element types */

typedef struct edge_arrays {
  graph_arrays g;
  int32_t n_local, n_all;           /* n_all: capacity; the rest is at the origin */
  int32_t n_species, unused;        /* n_species: of pairs */
  int64_t n_room;                   /* capacity in edges */
  double cutoff2, reach2;           /* reach2: of the repulsion, 0: none */
  const mlff_repulsion_pair *pairs; /* [n_species][n_species] */
  int64_t *row;
  int32_t *nbr, *node, *species;
  real *vec; /* [n_edges][4] */
  mlff_cuda_summary *host_summary;
} edge_arrays;

} // namespace

/* ---- with a new list --------------------------------------------------------------------------------------------- */

/* Copies the index arrays of the graph to the device. built: rows of a list from candidates.cu. */
static mlff_status upload_graph(mlff_backend *backend, const mlff_graph *graph, const mlff_cuda_host_list *built,
                                const mlff_edges *edges, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  const size_t n_all = (size_t) graph->n_all;
  const graph_arrays arrays = graph_of(edges), *g = &arrays;
  const int64_t *row = built->row ? built->row : graph->row;
  mlff_status (*copy)(mlff_backend *, void *, const void *, size_t, mlff_error *) =
      graph->on_device ? mlff_cuda_copy : mlff_cuda_upload;
  MLFF_TRY(copy(backend, g->row, row, ((size_t) graph->n_local + 1) * sizeof *g->row, error));
  if (built->row)
    MLFF_CUDA(mlff_cuda_fill_candidates)(backend, graph, built, g);
  else
    MLFF_TRY(copy(backend, g->nbr, graph->nbr, (size_t) graph->n_pairs * sizeof *g->nbr, error));
  MLFF_TRY(copy(backend, g->species, graph->species, n_all * sizeof *g->species, error));
  MLFF_TRY(copy(backend, g->node, graph->node, n_all * sizeof *g->node, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaMemsetAsync(g->summary, 0x7f, sizeof *g->summary, cuda->stream), "cudaMemsetAsync",
                           error));
  MLFF_CUDA(mlff_cuda_prepare_list)(backend, edges);
  return mlff_cuda_status(cuda, error);
}

/* ---- every step -------------------------------------------------------------------------------------------------- */

namespace { /* kernels and their arguments differ between element types */

/* dst = src, [n]: positions in A, from pinned memory that the host does not change until the step is complete. For
 * small systems, where a copy has the larger latency. One thread per element; no shared memory; deterministic. */
__global__ void __launch_bounds__(EDGE_THREADS) positions_kernel(double *dst, const double *src, int64_t n)
{
  grid_dependency_wait();
  const int64_t q = (int64_t) blockIdx.x * EDGE_THREADS + threadIdx.x;
  if (q < n) dst[q] = src[q];
}

/* summary.bad = min index of an atom whose position is not finite; input: MLFF_CUDA_NONE_BAD, as summary.no_close_pair.
 * All threads of the grid; an atomic minimum, so deterministic. Twin: find_bad_position. */
MLFF_DEVICE void find_bad_position(const edge_arrays &a)
{
  const int64_t step = (int64_t) gridDim.x * EDGE_THREADS;
#pragma unroll 1
  for (int64_t q = (int64_t) blockIdx.x * EDGE_THREADS + threadIdx.x; q < 3 * (int64_t) a.n_all; q += step)
    if (!isfinite(a.g.pos[q])) atomicMin(&a.g.summary->bad, (int) (q / 3));
}

/* Candidate j of center i: d = x_j - x_i, r^2, and whether it is an edge. */
typedef struct candidate {
  double d[3], r2;
  int32_t j, node, species, is_edge;
} candidate;

/* Loads candidates p, p + WARP ... < end of the center at xi, in batches of independent loads. */
MLFF_DEVICE void load_candidates(const edge_arrays &a, const double xi[3], int64_t p, int64_t end, candidate *batch)
{
#pragma unroll
  for (int k = 0; k < LOADS_PER_BATCH; k++) batch[k].j = p + k * WARP < end ? a.g.nbr[p + k * WARP] : -1;
#pragma unroll
  for (int k = 0; k < LOADS_PER_BATCH; k++) {
    const int64_t j = batch[k].j;
    batch[k].node = j < 0 ? -1 : a.g.node[j];
    batch[k].species = j < 0 ? -1 : a.g.species[j];
    for (int c = 0; c < 3; c++) batch[k].d[c] = j < 0 ? 0.0 : a.g.pos[3 * j + c] - xi[c];
  }
#pragma unroll
  for (int k = 0; k < LOADS_PER_BATCH; k++) {
    const double *d = batch[k].d;
    batch[k].r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    batch[k].is_edge = batch[k].species >= 0 && batch[k].r2 < a.cutoff2;
  }
}

/* first = the closer of two pairs; ties: the smaller i. */
MLFF_DEVICE void min_pair(const closest_pair &pair, closest_pair *first)
{
  if (pair.r2 < first->r2 || (pair.r2 == first->r2 && pair.i < first->i)) *first = pair;
}

/* Whether r is below the repulsion cutoff of the species of the pair. Twin: repels. */
MLFF_DEVICE int repels(const edge_arrays &a, int32_t i, int32_t j, double r2)
{
  const double cutoff = a.pairs[i * a.n_species + j].cutoff;
  return r2 < cutoff * cutoff;
}

/* count[i] = number of j with r_ij < cutoff, closest[i] = (min r^2, its j), summary.no_close_pair = 0 when a pair
 * repels, summary.bad. Non-finite positions have no neighbors; the host rejects such a step. A warp owns a center, its
 * lanes every 32nd candidate; a block has EDGE_WARPS centers. No shared memory; deterministic. Twins: fill_row,
 * edges_cpu. */
__global__ void __launch_bounds__(EDGE_THREADS) edge_count_kernel(edge_arrays a)
{
  grid_dependency_wait();
  const int i = (int) (blockIdx.x * EDGE_WARPS + threadIdx.x / WARP), lane = (int) threadIdx.x % WARP;
  const bool is_center = i < a.n_local;
  const int64_t begin = is_center ? a.g.row[i] : 0, end = is_center ? a.g.row[i + 1] : 0;
  const int32_t species = is_center ? a.g.species[i] : -1;
  double xi[3];
  for (int c = 0; c < 3; c++) xi[c] = is_center ? a.g.pos[3 * (int64_t) i + c] : 0.0;
  find_bad_position(a);
  if (!is_center) return;
  closest_pair first = {INFINITY, INT32_MAX, -1}; /* i: place in the list, for ties */
  int n = 0;
  for (int64_t p0 = begin; p0 < end && species >= 0; p0 += WARP * LOADS_PER_BATCH) {
    candidate found[LOADS_PER_BATCH];
    load_candidates(a, xi, p0 + lane, end, found);
#pragma unroll
    for (int k = 0; k < LOADS_PER_BATCH; k++) {
      const double r2 = found[k].r2;
      if (!found[k].is_edge) continue;
      n++;
      min_pair({r2, (int32_t) (p0 + k * WARP + lane), found[k].j}, &first);
      if (r2 < a.reach2 && repels(a, species, found[k].species, r2)) a.g.summary->no_close_pair = 0;
    }
  }
  for (int offset = WARP / 2; offset > 0; offset /= 2) {
    const double r2 = __shfl_xor_sync(FULL_WARP, first.r2, offset);
    const int32_t p = __shfl_xor_sync(FULL_WARP, first.i, offset), j = __shfl_xor_sync(FULL_WARP, first.j, offset);
    n += __shfl_xor_sync(FULL_WARP, n, offset);
    min_pair({r2, p, j}, &first);
  }
  if (lane) return;
  a.g.count[i] = n;
  a.g.closest[i] = {first.r2, n ? i : -1, first.j};
}

/* pair[0] = the closest pair of the block. pair: shared, [N]. Called by all N threads. */
template <int N> MLFF_DEVICE void closest_of_block(closest_pair *pair)
{
  const int t = (int) threadIdx.x;
  for (int n = N / 2; n > 0; n /= 2) {
    __syncthreads();
    if (t < n) min_pair(pair[t + n], &pair[t]);
  }
  __syncthreads();
}

/* row[n_local] = number of edges, or 0 if they exceed the capacity; fills the summary. Called by one thread. */
MLFF_DEVICE void write_total(const edge_arrays &a, int64_t n_edges, const closest_pair &first)
{
  a.row[a.n_local] = n_edges <= a.n_room ? n_edges : 0;
  a.g.summary->n_edges = n_edges;
  a.g.summary->closest2 = first.r2;
  a.g.summary->closest[0] = first.i;
  a.g.summary->closest[1] = first.j;
}

/* row[i] = sum of the counts before i within the SCAN_THREADS centers of the block, block_edges[b] = sum of all counts,
 * block_closest[b] = closest pair. One thread per center; shared: a sum and a pair per thread; deterministic. */
__global__ void __launch_bounds__(SCAN_THREADS) edge_scan_kernel(edge_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED(int64_t, sum, SCAN_THREADS);
  MLFF_SHARED(closest_pair, pair, SCAN_THREADS);
  const int t = (int) threadIdx.x, i = (int) blockIdx.x * SCAN_THREADS + t;
  const int64_t n = i < a.n_local ? a.g.count[i] : 0;
  const closest_pair none = {INFINITY, -1, -1};
  sum[t] = n;
  pair[t] = i < a.n_local ? a.g.closest[i] : none;
  scan_block(sum);
  closest_of_block<SCAN_THREADS>(pair);
  if (i < a.n_local) a.row[i] = sum[t] - n;
  if (t) return;
  a.g.block_edges[blockIdx.x] = sum[SCAN_THREADS - 1];
  a.g.block_closest[blockIdx.x] = pair[0];
}

/* block_edges[b] = sum of those before b; the total; the summary. One block loops over n_blocks >= 0; shared: a sum and
 * a pair per thread; deterministic. */
__global__ void __launch_bounds__(SCAN_THREADS) edge_total_kernel(edge_arrays a, int n_blocks)
{
  grid_dependency_wait();
  MLFF_SHARED(int64_t, sum, SCAN_THREADS);
  MLFF_SHARED(closest_pair, pair, SCAN_THREADS);
  const int t = (int) threadIdx.x;
  int64_t n_before = 0;
  closest_pair first = {INFINITY, -1, -1};
  for (int b0 = 0; b0 < n_blocks; b0 += SCAN_THREADS) {
    const int b = b0 + t;
    const int64_t n = b < n_blocks ? a.g.block_edges[b] : 0;
    sum[t] = n;
    scan_block(sum);
    if (b < n_blocks) {
      a.g.block_edges[b] = n_before + sum[t] - n;
      min_pair(a.g.block_closest[b], &first);
    }
    n_before += sum[SCAN_THREADS - 1];
    __syncthreads();
  }
  pair[t] = first;
  closest_of_block<SCAN_THREADS>(pair);
  if (t == 0) write_total(a, n_before, pair[0]);
}

/* Copies the summary to the host and resets it for the next step. Called by one thread. */
MLFF_DEVICE void write_summary(const edge_arrays &a)
{
  *a.host_summary = *a.g.summary;
  a.g.summary->bad = a.g.summary->no_close_pair = MLFF_CUDA_NONE_BAD;
}

MLFF_DEVICE void write_edge(const edge_arrays &a, const candidate &c, int64_t e)
{
  const vector_of<4> v = {{(real) c.d[0], (real) c.d[1], (real) c.d[2], (real) sqrt(c.r2)}};
  store_vector<4>(a.vec + 4 * e, v);
  a.nbr[e] = c.j;
  a.node[e] = c.node;
  a.species[e] = c.species;
}

/* Small systems, instead of a scan: number of edges of centers before i, and of all. Called by a warp. */
MLFF_DEVICE int edges_before(const edge_arrays &a, int i, int lane, int *n_edges)
{
  int n_before = 0, all = 0;
#pragma unroll 4
  for (int k = lane; k < a.n_local; k += WARP) {
    const int n = a.g.count[k];
    all += n;
    n_before += k < i ? n : 0;
  }
  for (int offset = WARP / 2; offset > 0; offset /= 2) {
    all += __shfl_xor_sync(FULL_WARP, all, offset);
    n_before += __shfl_xor_sync(FULL_WARP, n_before, offset);
  }
  *n_edges = all;
  return n_before;
}

/* Small systems, instead of edge_total_kernel: the total and the summary. pair: shared, [EDGE_THREADS]. Called by a
 * block. */
MLFF_DEVICE void add_all(const edge_arrays &a, closest_pair *pair)
{
  const int t = (int) threadIdx.x;
  closest_pair first = {INFINITY, -1, -1};
  int n_edges;
#pragma unroll 4
  for (int i = t; i < a.n_local; i += EDGE_THREADS) min_pair(a.g.closest[i], &first);
  pair[t] = first;
  closest_of_block<EDGE_THREADS>(pair);
  edges_before(a, 0, t % WARP, &n_edges);
  if (t) return;
  write_total(a, n_edges, pair[0]);
  write_summary(a);
}

/* Writes the edges of center i from row[i] on, in list order:
 *   vec[e] = (x_j - x_i, r_ij), nbr[e] = j, node[e], species[e];  edge[p] = e or -1
 * If the edges exceed the capacity, all rows are empty.
 * A warp owns a center, its lanes every 32nd candidate. SMALL_SYSTEM: replaces the scan kernels; each warp sums the
 * counts before its center, and one more block computes the total. Otherwise thread 0 of block 0 writes the summary.
 * Shared memory: a pair per thread; deterministic. Twin: fill_row, edges_cpu. */
template <int SMALL_SYSTEM> __global__ void __launch_bounds__(EDGE_THREADS, 5) edge_fill_kernel(edge_arrays a)
{
  grid_dependency_wait();
  const int i = (int) (blockIdx.x * EDGE_WARPS + threadIdx.x / WARP), lane = (int) threadIdx.x % WARP;
  if (SMALL_SYSTEM && blockIdx.x == gridDim.x - 1) {
    MLFF_SHARED(closest_pair, pair, EDGE_THREADS);
    add_all(a, pair);
    return;
  }
  if (!SMALL_SYSTEM && blockIdx.x == 0 && threadIdx.x == 0) write_summary(a);
  if (i >= a.n_local) return;
  const double xi[3] = {a.g.pos[3 * (int64_t) i], a.g.pos[3 * (int64_t) i + 1], a.g.pos[3 * (int64_t) i + 2]};
  const int64_t begin = a.g.row[i], end = a.g.row[i + 1];
  const bool has_element = a.g.species[i] >= 0;
  int n_total = 0;
  const int64_t n_before =
      SMALL_SYSTEM ? edges_before(a, i, lane, &n_total) : a.row[i] + a.g.block_edges[i / SCAN_THREADS];
  const bool fits = (SMALL_SYSTEM ? n_total : a.g.summary->n_edges) <= a.n_room;
  const int64_t start = fits ? n_before : 0;
  int64_t next = start;
  for (int64_t p0 = begin; p0 < end; p0 += WARP * LOADS_PER_BATCH) {
    candidate found[LOADS_PER_BATCH];
    load_candidates(a, xi, p0 + lane, end, found);
#pragma unroll
    for (int k = 0; k < LOADS_PER_BATCH; k++) {
      const int64_t p = p0 + k * WARP + lane;
      const int active = found[k].is_edge && fits && has_element;
      const unsigned votes = __ballot_sync(FULL_WARP, active);
      const int64_t e = next + __popc(votes & ((1u << lane) - 1));
      next += __popc(votes);
      if (p < end) a.g.edge[p] = active ? (int32_t) e : -1;
      if (active) write_edge(a, found[k], e);
    }
  }
  __syncwarp();
  if (lane == 0) a.row[i] = start;
}

} // namespace

/* Capacity for n elements, `room` so far. Allocates n/16 + 64 more, so that most new lists keep all sizes and the
 * captured step stays valid; shrinks if more than half is unused. */
static int64_t room_for(int64_t n, int64_t room)
{
  if (n <= room && room <= 2 * n + 1024) return room;
  return (n + n / 16 + 64) / 64 * 64;
}

/* Allocates the arrays whose sizes depend on the list. */
static mlff_status reserve_list(mlff_backend *backend, const mlff_graph *graph, mlff_edges *edges, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  const void *old_data = edges->scratch.data;
  const int64_t all_room = edges->all_room, pairs_room = edges->pairs_room;
  graph_arrays unused;
  if (edges->n_pairs > INT32_MAX)
    return mlff_fail(error, MLFF_E_UNSUPPORTED,
                     "%lld candidate pairs exceed the limit of %d of a GPU: use more ranks and GPUs",
                     (long long) edges->n_pairs, INT32_MAX);
  edges->all_room = room_for(graph->n_all, all_room);
  edges->pairs_room = room_for(edges->n_pairs, pairs_room);
  MLFF_TRY(mlff_buf_reserve(backend, &edges->row, ((size_t) graph->n_local + 1) * sizeof(int64_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &edges->center_species, (size_t) graph->n_nodes * sizeof(int32_t), error));
  const size_t bytes = graph_layout(NULL, graph->n_local, graph->n_nodes, edges->all_room, edges->pairs_room, &unused);
  MLFF_TRY(mlff_buf_reserve(backend, &edges->scratch, bytes, error));
  cuda->device_positions = graph_of(edges).pos;
  if (edges->scratch.data != old_data || edges->all_room != all_room || edges->pairs_room != pairs_room)
    edges->list_id = 0; /* its arrays were moved or overwritten */
  return MLFF_OK;
}

/* Allocates edges->n_room edges. */
static mlff_status reserve_edges(mlff_backend *backend, mlff_edges *edges, mlff_error *error)
{
  const size_t n = (size_t) edges->n_room;
  MLFF_TRY(mlff_buf_reserve(backend, &edges->nbr, n * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &edges->node, n * sizeof(int32_t), error));
  MLFF_TRY(mlff_buf_reserve(backend, &edges->species, n * sizeof(int32_t), error));
  return mlff_buf_reserve(backend, &edges->vec, n * 4 * sizeof(real), error);
}

static edge_arrays arrays_of(mlff_backend *backend, const mlff_edges *edges)
{
  edge_arrays a;
  memset(&a, 0, sizeof a);
  a.g = graph_of(edges);
  a.n_local = edges->n_local;
  a.n_all = (int32_t) edges->all_room;
  a.n_room = edges->n_room;
  a.cutoff2 = edges->cutoff * edges->cutoff;
  if (edges->repulsion) {
    a.reach2 = edges->repulsion->reach * edges->repulsion->reach;
    a.pairs = (const mlff_repulsion_pair *) edges->repulsion->pairs.data;
    a.n_species = edges->repulsion->n_species;
  }
  a.row = (int64_t *) edges->row.data;
  a.nbr = (int32_t *) edges->nbr.data;
  a.node = (int32_t *) edges->node.data;
  a.species = (int32_t *) edges->species.data;
  a.vec = (real *) edges->vec.data;
  a.host_summary = mlff_cuda_of(backend)->summary;
  return a;
}

static void set_sizes(const mlff_graph *graph, double cutoff, mlff_edges *edges)
{
  if (edges->n_local != graph->n_local || edges->n_nodes != graph->n_nodes) edges->list_id = 0; /* layout changed */
  edges->n_interior = graph->n_interior;
  edges->n_local = graph->n_local;
  edges->n_nodes = graph->n_nodes;
  edges->n_all = graph->n_all;
  if (graph->row) edges->n_pairs = graph->n_pairs; /* otherwise count_list sets it */
  edges->cutoff = cutoff;
  edges->n_edges = 0;
  edges->min_distance = INFINITY;
  edges->closest[0] = edges->closest[1] = -1;
  edges->is_close = 0;
}

/* Copies the positions from pinned memory. */
static mlff_status enqueue_positions(mlff_backend *backend, const edge_arrays &a, mlff_error *error)
{
  const double *src = (const double *) (const void *) mlff_cuda_of(backend)->positions.data;
  const int64_t n = 3 * (int64_t) a.n_all;
  if (!mlff_cuda_is_small_system(mlff_cuda_of(backend), a.n_local))
    return mlff_cuda_upload(backend, a.g.pos, src, (size_t) n * sizeof *src, error);
  MLFF_LAUNCH_INDEPENDENT(backend, positions_kernel, mlff_cuda_blocks(n, EDGE_THREADS), EDGE_THREADS, a.g.pos, src, n);
  return MLFF_OK;
}

/* Enqueues a step up to the edges and their summary. Positions are in pinned memory or, for a graph on the device, in
 * place. */
static mlff_status enqueue_step(mlff_backend *backend, const mlff_edges *edges, int on_device, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  const edge_arrays a = arrays_of(backend, edges);
  const int n_scan = (int) mlff_cuda_blocks(a.n_local, SCAN_THREADS);
  const unsigned n_blocks = a.n_local ? mlff_cuda_blocks(a.n_local, EDGE_WARPS) : 1; /* 1: checks the ghosts */
  mlff_cuda_begin_step(cuda);
  mlff_cuda_hash(cuda, &on_device, sizeof on_device);
  if (!on_device) MLFF_TRY(enqueue_positions(backend, a, error));
  MLFF_LAUNCH(backend, edge_count_kernel, n_blocks, EDGE_THREADS, 0, a);
  if (mlff_cuda_is_small_system(cuda, a.n_local)) {
    MLFF_LAUNCH(backend, edge_fill_kernel<1>, n_blocks + 1, EDGE_THREADS, 0, a);
  } else {
    MLFF_LAUNCH(backend, edge_scan_kernel, (unsigned) n_scan, SCAN_THREADS, 0, a);
    MLFF_LAUNCH(backend, edge_total_kernel, 1, SCAN_THREADS, 0, a, n_scan);
    MLFF_LAUNCH(backend, edge_fill_kernel<0>, n_blocks, EDGE_THREADS, 0, a);
  }
  return mlff_cuda_status(cuda, error);
}

/* Runs a step. If the edges exceed the capacity, grows it and runs again. */
static mlff_status run_step(mlff_backend *backend, const mlff_graph *graph, mlff_edges *edges, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  for (int attempt = 0; attempt < 2; attempt++) {
    MLFF_TRY(enqueue_step(backend, edges, graph->on_device, error));
    MLFF_TRY(mlff_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "waiting for the edges", error));
    MLFF_TRY(mlff_cuda_read_summary(cuda, graph, edges, error));
    const int64_t room = room_for(edges->n_edges, edges->n_room);
    if (room == edges->n_room) break;
    edges->n_room = room;
    MLFF_TRY(reserve_edges(backend, edges, error));
  }
  return MLFF_OK;
}

/* Sets n_pairs and longest_row of a new list. Without a list in the graph, builds `built`. */
static mlff_status count_list(mlff_backend *backend, const mlff_graph *graph, mlff_edges *edges, bool is_new,
                              mlff_cuda_host_list *built, mlff_error *error)
{
  if (is_new && !graph->row) MLFF_TRY(MLFF_CUDA(mlff_cuda_count_candidates)(backend, graph, built, error));
  if (built->row) {
    mlff_graph listed = *graph;
    listed.row = built->row;
    edges->n_pairs = built->row[graph->n_local];
    edges->longest_row = mlff_longest_row(&listed);
  } else if (is_new && graph->row && !graph->on_device) { /* otherwise set by the caller */
    edges->longest_row = mlff_longest_row(graph);
  }
  return MLFF_OK;
}

/* Memory of edges->n_room edges, for a forecast. */
static mlff_status reserve_all(mlff_backend *backend, const mlff_graph *graph, mlff_edges *edges, mlff_error *error)
{
  mlff_cuda_host_list unused = {};
  edges->n_room = room_for(edges->n_room, 0);
  if (graph->reach > 0) MLFF_TRY(MLFF_CUDA(mlff_cuda_reserve_candidates)(backend, graph, &unused, error));
  if (graph->row && !graph->on_device) edges->longest_row = mlff_longest_row(graph);
  MLFF_TRY(reserve_list(backend, graph, edges, error));
  edges->list_id = 0;
  return edges->n_room ? reserve_edges(backend, edges, error) : MLFF_OK;
}

mlff_status MLFF_CUDA(edges_cuda)(mlff_backend *backend, const mlff_graph *graph, double cutoff, mlff_edges *edges,
                                  mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  mlff_cuda_host_list built = {};
  if (cuda->replay.mode == MLFF_CUDA_CAPTURING) return enqueue_step(backend, edges, graph->on_device, error);
  const bool is_new = edges->list_id != graph->list_id || graph->list_id == 0;
  set_sizes(graph, cutoff, edges);
  if (backend->forecast) return reserve_all(backend, graph, edges, error);
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  MLFF_TRY(count_list(backend, graph, edges, is_new, &built, error));
  MLFF_TRY(reserve_list(backend, graph, edges, error));
  if (edges->n_room) MLFF_TRY(reserve_edges(backend, edges, error)); /* otherwise run_step, once it has counted */
  if (is_new || edges->list_id == 0) {
    if (!graph->row && !built.row)
      return mlff_fail(error, MLFF_E_ARG,
                       "graph.list_id %llu is that of a list with other atoms: use a new id for each list",
                       (unsigned long long) graph->list_id);
    edges->list_id = 0;
    MLFF_TRY(upload_graph(backend, graph, &built, edges, error));
    edges->list_id = graph->list_id;
  }
  if (!graph->on_device)
    MLFF_TRY(mlff_cuda_pin(backend, &cuda->positions, (size_t) edges->all_room * 3 * sizeof(double), error));
  MLFF_TRY(mlff_cuda_set_positions(cuda, graph, edges, error));
  return run_step(backend, graph, edges, error);
}
