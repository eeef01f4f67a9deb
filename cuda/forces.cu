/* forces.cu: forces and virial from gradients by edge vectors, on the GPU. Twin: cpu/forces.c, signs in ops_math.h.
 *
 *   F_i = scale (sum_{e of i} g_e - sum_{e to i} g_e),  W = - scale sum_e d_e g_e^T,  g_e = dE/dd_e
 *
 * A node gathers from its own edges and, through the reversed list (incoming.cu), from the edges that end at it: no
 * atomics, deterministic.
 */
#include "edges.h"
#include "vectors.h"

enum { FORCE_THREADS = 128, FORCE_WARPS = FORCE_THREADS / WARP, REDUCE_THREADS = 256 };
/* Sums of a block: the virial [9], the energy, and n_nodes - i for the first node i with a non-finite force, 0: none.
 * HEAD: offset of the forces in the results, one cache line. */
enum { ENERGY = 9, BAD = 10, PARTS = 11, HEAD = 16 };
/* Nodes of a warp: enough to amortize the reductions, few enough to fill BLOCKS_PER_SM blocks per multiprocessor. */
enum { MOST_PER_WARP = 32, BLOCKS_PER_SM = 8 };
enum { LOADS_PER_BATCH = 4 };

namespace { /* kernels and their arguments differ between element types */

typedef struct force_arrays {
  const int64_t *row, *in_row;
  const int32_t *in_pair, *edge;
  const real *vec, *grad;  /* [n_edges][4] */
  const real *energy;      /* [n_local] or NULL */
  const int32_t *species;  /* [n_nodes] */
  double *forces;          /* [n_nodes][3] */
  double *parts;           /* [n_blocks][PARTS] */
  double *half, *centroid; /* [n_nodes][9] or NULL */
  double *results;         /* pinned: PARTS sums and, at HEAD, [n_nodes][3] forces unless on_device */
  int32_t *n_done;         /* 0 between launches */
  double scale;
  int32_t n_local, n_nodes;
} force_arrays;

/* d = d_e, g = scale dE/dd_e */
MLFF_DEVICE void load_edge(const force_arrays &a, int64_t e, double d[3], double g[3])
{
  const vector_of<4> vec = load_vector<4>(a.vec + 4 * e), grad = load_vector<4>(a.grad + 4 * e);
  for (int c = 0; c < 3; c++) {
    d[c] = (double) vec.v[c];
    g[c] = a.scale * (double) grad.v[c];
  }
}

/* Reduction of sum number c: maximum for BAD, otherwise addition. */
MLFF_DEVICE double reduce(int c, double x, double y)
{
  return c == BAD ? fmax(x, y) : x + y;
}

/* results[c] = sum_b parts[b][c], maximum for BAD, by the last block to arrive. A warp owns every FORCE_WARPS-th c, its
 * lanes every 32nd part. */
MLFF_DEVICE void reduce_blocks(const force_arrays &a)
{
  MLFF_SHARED(int, is_last, 1);
  const int warp = (int) threadIdx.x / WARP, lane = (int) threadIdx.x % WARP, n_blocks = (int) gridDim.x;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *is_last = atomicAdd(a.n_done, 1) == n_blocks - 1;
  __syncthreads();
  if (!*is_last) return;
  __threadfence();
  const volatile double *parts = a.parts; /* volatile: bypasses the L1 cache */
  for (int c = warp; c < PARTS; c += FORCE_WARPS) {
    double sum = 0;
    for (int b = lane; b < n_blocks; b += WARP) sum = reduce(c, sum, parts[PARTS * b + c]);
    for (int offset = WARP / 2; offset > 0; offset /= 2) sum = reduce(c, sum, __shfl_xor_sync(FULL_WARP, sum, offset));
    if (lane == 0) a.results[c] = sum;
  }
  if (threadIdx.x == 0) *a.n_done = 0;
}

/* f += sum_{e of i} g_e - sum_{e to i} g_e, w += sum_{e of i} d_e g_e^T over the edges of a lane. Most candidates
 * that end at i are inactive: a lane loads LOADS_PER_BATCH of them at a time to hide the latency. */
MLFF_DEVICE void add_node(const force_arrays &a, int i, int lane, double f[3], double w[9])
{
  double d[3], g[3], we[9];
  for (int64_t e = i < a.n_local ? a.row[i] + lane : 0; i < a.n_local && e < a.row[i + 1]; e += WARP) {
    load_edge(a, e, d, g);
    mlff_edge_virial(1.0, d, g, we);
    for (int c = 0; c < 3; c++) f[c] += g[c];
    for (int c = 0; c < 9; c++) w[c] += we[c];
  }
  for (int64_t q = a.in_row[i] + lane, end = a.in_row[i + 1]; q < end; q += WARP * LOADS_PER_BATCH) {
    int32_t e[LOADS_PER_BATCH];
#pragma unroll
    for (int k = 0; k < LOADS_PER_BATCH; k++) e[k] = q + k * WARP < end ? a.in_pair[q + k * WARP] : -1;
#pragma unroll
    for (int k = 0; k < LOADS_PER_BATCH; k++) e[k] = e[k] < 0 ? -1 : a.edge[e[k]];
#pragma unroll
    for (int k = 0; k < LOADS_PER_BATCH; k++) {
      vector_of<4> v = {};
      if (e[k] >= 0) v = load_vector<4>(a.grad + 4 * (int64_t) e[k]);
      for (int c = 0; c < 3; c++) f[c] -= a.scale * (double) v.v[c];
    }
  }
}

/* forces[i] = F_i,  parts[b] = (- scale sum d_e g_e^T, sum of the energies, first non-finite force) of the block.
 * A warp owns per_warp consecutive nodes; its lanes own every 32nd edge of a node and every 32nd that ends at it. Sums
 * are reduced by shuffles, those of the block in shared memory. SMALL_SYSTEM: forces are written to host memory, and
 * the last block reduces the parts; otherwise results_kernel does. All in double; deterministic. Twin: forces_cpu. */
template <int SMALL_SYSTEM> __global__ void __launch_bounds__(FORCE_THREADS) forces_kernel(force_arrays a, int per_warp)
{
  grid_dependency_wait();
  MLFF_SHARED(double, sums, PARTS *FORCE_WARPS);
  const int warp = (int) threadIdx.x / WARP, lane = (int) threadIdx.x % WARP;
  const int first = ((int) blockIdx.x * FORCE_WARPS + warp) * per_warp;
  double w[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, energy = 0, bad = 0;
  for (int i = first; i < first + per_warp && i < a.n_nodes; i++) {
    double f[3] = {0, 0, 0};
    if (a.energy && i < a.n_local && a.species[i] >= 0) energy += (double) a.energy[i];
    add_node(a, i, lane, f, w);
    for (int c = 0; c < 3; c++) {
      const double sum = warp_sum(f[c]);
      if (lane == c) a.forces[3 * (int64_t) i + c] = sum;
      if (!isfinite(sum)) bad = fmax(bad, (double) (a.n_nodes - i));
    }
  }
  for (int c = 0; c < 9; c++) {
    const double sum = warp_sum(w[c]);
    if (lane == 0) sums[PARTS * warp + c] = sum;
  }
  if (lane == 0) {
    sums[PARTS * warp + ENERGY] = energy;
    sums[PARTS * warp + BAD] = bad;
  }
  __syncthreads();
  const int c = (int) threadIdx.x;
  if (c < PARTS) {
    double sum = 0;
    for (int k = 0; k < FORCE_WARPS; k++) sum = reduce(c, sum, sums[PARTS * k + c]);
    a.parts[PARTS * (int64_t) blockIdx.x + c] = sum;
  }
  if (SMALL_SYSTEM) reduce_blocks(a);
}

/* results[c] = sum_b parts[b][c], maximum for BAD; results[HEAD ..] = forces, in host memory, which saves a copy. One
 * block per c: a thread sums every REDUCE_THREADS-th part, then a tree in shared memory. Further blocks write one
 * element of the forces per thread. Deterministic. Twin: forces_cpu. */
__global__ void __launch_bounds__(REDUCE_THREADS) results_kernel(force_arrays a, int n_parts)
{
  grid_dependency_wait();
  MLFF_SHARED(double, sums, REDUCE_THREADS);
  const int t = (int) threadIdx.x, c = (int) blockIdx.x;
  if (c >= PARTS) {
    const int64_t q = (int64_t) (c - PARTS) * REDUCE_THREADS + t;
    if (q < 3 * (int64_t) a.n_nodes) a.results[HEAD + q] = a.forces[q];
    return;
  }
  double sum = 0;
  for (int64_t b = t; b < n_parts; b += REDUCE_THREADS) sum = reduce(c, sum, a.parts[PARTS * b + c]);
  sums[t] = sum;
  for (int n = REDUCE_THREADS / 2; n > 0; n /= 2) {
    __syncthreads();
    if (t < n) sums[t] = reduce(c, sums[t], sums[t + n]);
  }
  if (t == 0) a.results[c] = sums[0];
}

/* half[i] = (sum_{e of i} w_e + sum_{e to i} w_e) / 2,  centroid[i] = sum_{e to i} w_e,  w_e = - scale d_e g_e^T
 * One thread per node, in double; deterministic. Twin: atom_virials. */
__global__ void atom_virials_kernel(force_arrays a)
{
  grid_dependency_wait();
  const int i = (int) (blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= a.n_nodes) return;
  double out[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, in[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, d[3], g[3], w[9];
  if (i < a.n_local) {
    for (int64_t e = a.row[i]; e < a.row[i + 1]; e++) {
      load_edge(a, e, d, g);
      mlff_edge_virial(1.0, d, g, w);
      for (int c = 0; c < 9; c++) out[c] += w[c];
    }
  }
  for (int64_t q = a.in_row[i]; q < a.in_row[i + 1]; q++) {
    const int32_t e = a.edge[a.in_pair[q]];
    if (e < 0) continue;
    load_edge(a, e, d, g);
    mlff_edge_virial(1.0, d, g, w);
    for (int c = 0; c < 9; c++) in[c] += w[c];
  }
  for (int c = 0; c < 9; c++) {
    if (a.half) a.half[9 * (int64_t) i + c] = 0.5 * (out[c] + in[c]);
    if (a.centroid) a.centroid[9 * (int64_t) i + c] = in[c];
  }
}

} // namespace

/* Device arrays of an evaluation: n_done, forces, parts, per-atom virials. Forces of on_device are in a separate array,
 * which members of an ensemble do not overwrite. */
static mlff_status make_arrays(mlff_backend *backend, const mlff_forces_args *args, unsigned n_blocks, force_arrays *a,
                               mlff_error *error)
{
  const mlff_edges *edges = args->edges;
  const graph_arrays g = graph_of(edges);
  mlff_buf *buf = &mlff_cuda_of(backend)->force_sums;
  const size_t n = (size_t) edges->n_nodes, n_parts = PARTS * (size_t) n_blocks;
  const size_t n_half = args->result->atom_virial ? 9 * n : 0, n_centroid = args->result->atom_centroid ? 9 * n : 0;
  const size_t n_forces = args->on_device ? 0 : 3 * n, n_before = buf->capacity;
  mlff_buf *device_forces = &mlff_cuda_of(backend)->device_forces;
  if (args->on_device) MLFF_TRY(mlff_buf_reserve(backend, device_forces, (3 * n + 3) * sizeof(double), error));
  MLFF_TRY(mlff_buf_reserve(backend, buf, (1 + n_forces + n_parts + n_half + n_centroid) * sizeof(double), error));
  if (buf->capacity != n_before) backend->ops->zero(backend, buf->data, sizeof(double));
  memset(a, 0, sizeof *a);
  a->row = (const int64_t *) edges->row.data;
  a->in_row = g.in_row;
  a->in_pair = g.in_pair;
  a->edge = g.edge;
  a->vec = (const real *) edges->vec.data;
  a->grad = (const real *) args->grad;
  a->energy = (const real *) args->node_energy;
  a->species = (const int32_t *) edges->center_species.data;
  a->n_done = (int32_t *) buf->data;
  a->forces = args->on_device ? (double *) device_forces->data : (double *) buf->data + 1;
  a->parts = (double *) buf->data + 1 + n_forces;
  if (n_half) a->half = a->parts + n_parts;
  if (n_centroid) a->centroid = a->parts + n_parts + n_half;
  a->scale = args->scale;
  a->n_local = edges->n_local;
  a->n_nodes = edges->n_nodes;
  return MLFF_OK;
}

/* Waits for the results and copies them. Must precede the next download, which may move the slot. */
static mlff_status read_results(mlff_backend *backend, const mlff_forces_args *args, const force_arrays *a,
                                mlff_error *error)
{
  bool are_ready = false;
  MLFF_TRY(mlff_cuda_wait_results(backend, &are_ready, error));
  if (!are_ready) return MLFF_OK;
  mlff_virial_six(a->results, args->result->virial);
  if (args->energy) *args->energy = a->results[ENERGY];
  if (args->bad) *args->bad = a->results[BAD] > 0 ? a->n_nodes - (int32_t) a->results[BAD] : -1;
  if (args->on_device)
    args->result->device_forces = (const double(*)[3]) a->forces;
  else
    memcpy(args->result->forces, a->results + HEAD, 3 * (size_t) a->n_nodes * sizeof(double));
  return MLFF_OK;
}

static int nodes_per_warp(mlff_backend *backend, int64_t n_nodes)
{
  const int64_t n_warps = (int64_t) FORCE_WARPS * BLOCKS_PER_SM * mlff_cuda_of(backend)->n_multiprocessors;
  const int64_t n = (n_nodes + n_warps - 1) / n_warps;
  return n < 1 ? 1 : n < MOST_PER_WARP ? (int) n : MOST_PER_WARP;
}

mlff_status MLFF_CUDA(forces_cuda)(mlff_backend *backend, const mlff_forces_args *args, mlff_error *error)
{
  mlff_result *result = args->result;
  const size_t n = (size_t) args->edges->n_nodes, n_copied = args->on_device ? 0 : 3 * n;
  const int per_warp = nodes_per_warp(backend, (int64_t) n);
  const unsigned n_blocks = mlff_cuda_blocks((int64_t) n, per_warp * FORCE_WARPS),
                 n_thread_blocks = mlff_cuda_blocks((int64_t) n, FORCE_THREADS),
                 n_copying = mlff_cuda_blocks((int64_t) n_copied, REDUCE_THREADS);
  char *slot = NULL;
  force_arrays a;
  MLFF_TRY(make_arrays(backend, args, n_blocks, &a, error));
  MLFF_TRY(mlff_cuda_result_slot(backend, (HEAD + n_copied) * sizeof(double), &slot, error));
  a.results = (double *) (void *) slot;
  if (n && mlff_cuda_is_small_system(mlff_cuda_of(backend), (int64_t) n)) {
    if (!args->on_device) a.forces = a.results + HEAD;
    MLFF_LAUNCH(backend, forces_kernel<1>, n_blocks, FORCE_THREADS, 0, a, per_warp);
  } else {
    MLFF_LAUNCH(backend, forces_kernel<0>, n_blocks, FORCE_THREADS, 0, a, per_warp);
    MLFF_LAUNCH(backend, results_kernel, PARTS + n_copying, REDUCE_THREADS, 0, a, (int) n_blocks);
  }
  MLFF_TRY(read_results(backend, args, &a, error));
  if (args->on_device && result->forces)
    MLFF_TRY(download_cuda(backend, result->forces, a.forces, 3 * n * sizeof(double), error));
  if (a.half || a.centroid) MLFF_LAUNCH_INDEPENDENT(backend, atom_virials_kernel, n_thread_blocks, FORCE_THREADS, a);
  if (a.half) MLFF_TRY(download_cuda(backend, result->atom_virial, a.half, 9 * n * sizeof(double), error));
  return a.centroid ? download_cuda(backend, result->atom_centroid, a.centroid, 9 * n * sizeof(double), error)
                    : MLFF_OK;
}
