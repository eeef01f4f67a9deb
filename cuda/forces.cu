/* forces.cu: gradients by edge vectors -> forces and virials on the GPU. Twin: cpu/forces.c, signs in ops_math.h.
 *
 * A node gathers: what its own edges give, and through the reversed list what edges that end at it give. So there
 * are no atomics, and results do not depend on the order in which blocks run.
 */
#include "edges.h"
#include "vectors.h"

enum { FORCE_THREADS = 128, FORCE_WARPS = FORCE_THREADS / WARP, REDUCE_THREADS = 256 };
/* Numbers of a block: the virial, the sum of energies, n_nodes less the first node whose force is not finite, 0: none.
 * HEAD: of the results, in which a whole line of the cache goes before the forces. */
enum { ENERGY = 9, BAD = 10, PARTS = 11, HEAD = 16 };
/* Nodes of a warp: so many that its other sums cost little, but few enough that BLOCKS_PER_SM share out the atoms. */
enum { MOST_PER_WARP = 32, BLOCKS_PER_SM = MLFF_REAL_IS_DOUBLE ? 7 : 8 };
static_assert(MLFF_CUDA_SMALL_ATOMS_PER_SM <= FORCE_WARPS * BLOCKS_PER_SM, "of few atoms a warp has one");

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
  double *results;         /* [HEAD] PARTS and, unless they stay, [n_nodes][3] forces; pinned */
  int32_t *n_done;         /* 0 between launches */
  double scale;
  int32_t n_local, n_nodes;
} force_arrays;

MLFF_DEVICE void scale_edge(const force_arrays &a, const vector_of<4> &vec, const vector_of<4> &grad, double d[3],
                            double g[3])
{
  for (int c = 0; c < 3; c++) {
    d[c] = (double) vec.of[c];
    g[c] = a.scale * (double) grad.of[c];
  }
}

MLFF_DEVICE void load_edge(const force_arrays &a, int64_t e, double d[3], double g[3])
{
  scale_edge(a, load_vector<4>(a.vec + 4 * e), load_vector<4>(a.grad + 4 * e), d, g);
}

/* Part c of two shares: the larger one of BAD, else the sum. */
MLFF_DEVICE double joined(int c, double sum, double with)
{
  return c == BAD ? fmax(sum, with) : sum + with;
}

/* Whether the parts of all blocks are there: this block is the last one to come here. Warp 0 has written its own ones,
 * and its first thread alone has fences, which wait for all that a thread has written. */
MLFF_DEVICE bool is_last_block(const force_arrays &a)
{
  MLFF_SHARED(int, is_last, 1);
  if (threadIdx.x < WARP) __syncwarp();
  if (threadIdx.x == 0) {
    __threadfence();
    *is_last = atomicAdd(a.n_done, 1) == (int) gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return *is_last;
}

/* results[c] = sum_b parts[b][c], the largest for BAD. A warp has every FORCE_WARPS-th c, its lanes every 32nd part;
 * sums go through shuffles. */
MLFF_DEVICE void join_blocks(const force_arrays &a)
{
  enum { OF_WARP = (PARTS + FORCE_WARPS - 1) / FORCE_WARPS };
  const int warp = (int) threadIdx.x / WARP, lane = (int) threadIdx.x % WARP;
  const volatile double *parts = a.parts; /* of other multiprocessors: not from this one's cache */
  double sum[OF_WARP] = {};
  for (int b = lane; b < (int) gridDim.x; b += WARP) {
    double part[OF_WARP];
#pragma unroll
    for (int k = 0; k < OF_WARP; k++) {
      const int c = warp + k * FORCE_WARPS;
      part[k] = c < PARTS ? parts[PARTS * b + c] : 0.0;
    }
#pragma unroll
    for (int k = 0; k < OF_WARP; k++) sum[k] = joined(warp + k * FORCE_WARPS, sum[k], part[k]);
  }
#pragma unroll
  for (int k = 0; k < OF_WARP; k++) {
    const int c = warp + k * FORCE_WARPS;
    for (int with = WARP / 2; with > 0; with /= 2) sum[k] = joined(c, sum[k], __shfl_xor_sync(FULL_WARP, sum[k], with));
    if (lane == 0 && c < PARTS) a.results[c] = sum[k];
  }
  if (threadIdx.x == 0) *a.n_done = 0;
}

/* Adds the lane's share of node i: to f what its own edges give and, subtracted, what those that end at it do, to w
 * d g^T of its own edges. Returns its energy. A lane reads OWN edges at once, and beside them candidates that end at
 * the node, of which there are more. */
template <int OWN> MLFF_DEVICE double add_node(const force_arrays &a, int i, int lane, double f[3], double w[9])
{
  enum { OTHERS = 2 * OWN };
  double d[3], g[3], we[9];
  const bool is_own = i < a.n_local;
  const unsigned end = is_own ? (unsigned) a.row[i + 1] : 0, in_end = (unsigned) a.in_row[i + 1];
  unsigned e0 = is_own ? (unsigned) a.row[i] + (unsigned) lane : 0, q0 = (unsigned) a.in_row[i] + (unsigned) lane;
  const double energy = is_own && a.energy ? (double) a.energy[i] : 0.0;
  const int32_t species = a.species[i];
  for (; e0 < end || q0 < in_end; e0 += WARP * OWN, q0 += WARP * OTHERS) {
    vector_of<4> vec[OWN], grad[OWN];
    int32_t in[OTHERS];
#pragma unroll
    for (int k = 0; k < OTHERS; k++) in[k] = q0 + k * WARP < in_end ? a.in_pair[q0 + k * WARP] : -1;
#pragma unroll
    for (int k = 0; k < OWN; k++) {
      const unsigned e = e0 + k * WARP;
      vec[k] = grad[k] = {};
      if (e < end) vec[k] = load_vector<4>(a.vec + 4 * (int64_t) e);
      if (e < end) grad[k] = load_vector<4>(a.grad + 4 * (int64_t) e);
    }
#pragma unroll
    for (int k = 0; k < OTHERS; k++) in[k] = in[k] < 0 ? -1 : a.edge[in[k]];
#pragma unroll
    for (int k = 0; k < OWN; k++) {
      scale_edge(a, vec[k], grad[k], d, g);
      mlff_edge_virial(1.0, d, g, we);
      for (int c = 0; c < 3; c++) f[c] += g[c];
      for (int c = 0; c < 9; c++) w[c] += we[c];
    }
#pragma unroll
    for (int k = 0; k < OTHERS; k++) {
      vector_of<4> v = {};
      if (in[k] >= 0) v = load_vector<4>(a.grad + 4 * (int64_t) in[k]);
      for (int c = 0; c < 3; c++) f[c] -= a.scale * (double) v.of[c];
    }
  }
  return species >= 0 ? energy : 0.0;
}

/* F_i = scale (sum_{e of i} g_e - sum_{e to i} g_e),  parts[b] = - scale sum_{e of the block's centres} d_e g_e^T, the
 * energies of the block's centres that have an element, and its first force that is not finite.
 * A warp owns per_warp nodes that follow one another, one after another; its lanes read every 32nd edge of a node and
 * every 32nd that ends at it, so that few atoms do not wait for one load after another. Sums go through shuffles, those
 * of the virial once for the nodes of a warp, then in shared memory, and where IS_SMALL, with a node for each warp, by
 * join_blocks, with forces in memory of the host. All in double; deterministic. Twin: forces_cpu. */
template <int IS_SMALL>
__global__ void __launch_bounds__(FORCE_THREADS, IS_SMALL ? 1 : BLOCKS_PER_SM)
    forces_kernel(force_arrays a, int per_warp)
{
  grid_dependency_wait();
  MLFF_SHARED(double, sums, PARTS *FORCE_WARPS);
  const int warp = (int) threadIdx.x / WARP, lane = (int) threadIdx.x % WARP;
  const int first = ((int) blockIdx.x * FORCE_WARPS + warp) * per_warp;
  double w[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, energy = 0, force = 0;
  int bad = 0;
  for (int i = first; i < first + per_warp && i < a.n_nodes; i++) {
    double f[3] = {0, 0, 0};
    energy += add_node < IS_SMALL ? 2 : 1 > (a, i, lane, f, w);
    for (int c = 0; c < 3; c++) {
      const double sum = warp_sum(f[c]);
      if (lane == c) force = sum;
      if (!isfinite(sum) && bad == 0) bad = a.n_nodes - i; /* the first one is the largest */
    }
    if (!IS_SMALL && lane < 3) a.forces[3 * (int64_t) i + lane] = force;
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
    for (int k = 0; k < FORCE_WARPS; k++) sum = joined(c, sum, sums[PARTS * k + c]);
    a.parts[PARTS * (int64_t) blockIdx.x + c] = sum;
  }
  if (!IS_SMALL) return;
  const bool is_last = is_last_block(a);
  if (first < a.n_nodes && lane < 3) a.forces[3 * (int64_t) first + lane] = force;
  if (is_last) join_blocks(a);
}

/* results[c] = sum_b parts[b][c], the largest for BAD; and the forces behind HEAD. A block for each c; a thread has
 * every REDUCE_THREADS-th part, then all add up in shared memory; of further blocks each thread brings a number to the
 * host, which is as fast as a copy and starts none. Deterministic. Twin: forces_cpu. */
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
  for (int64_t b = t; b < n_parts; b += REDUCE_THREADS) sum = joined(c, sum, a.parts[PARTS * b + c]);
  sums[t] = sum;
  for (int n = REDUCE_THREADS / 2; n > 0; n /= 2) {
    __syncthreads();
    if (t < n) sums[t] = joined(c, sums[t], sums[t + n]);
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
  double own[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, in[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, d[3], g[3], w[9];
  if (i < a.n_local) {
    for (int64_t e = a.row[i]; e < a.row[i + 1]; e++) {
      load_edge(a, e, d, g);
      mlff_edge_virial(1.0, d, g, w);
      for (int c = 0; c < 9; c++) own[c] += w[c];
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
    if (a.half) a.half[9 * (int64_t) i + c] = 0.5 * (own[c] + in[c]);
    if (a.centroid) a.centroid[9 * (int64_t) i + c] = in[c];
  }
}

} // namespace

/* Arrays of one evaluation on the device: n_done, forces, parts, per-atom virials. Forces that stay have an array of
 * their own, which those of members do not overwrite. */
static mlff_status make_arrays(mlff_backend *backend, const mlff_forces_args *args, unsigned n_blocks, force_arrays *a,
                               mlff_error *error)
{
  const mlff_edges *edges = args->edges;
  const graph_arrays g = graph_of(edges);
  mlff_buf *buf = &mlff_cuda_of(backend)->force_sums;
  const size_t n = (size_t) edges->n_nodes, n_parts = PARTS * (size_t) n_blocks;
  const size_t n_half = args->result->atom_virial ? 9 * n : 0, n_centroid = args->result->atom_centroid ? 9 * n : 0;
  const size_t n_forces = args->on_device ? 0 : 3 * n, n_before = buf->capacity;
  mlff_buf *own = &mlff_cuda_of(backend)->device_forces;
  if (args->on_device) MLFF_TRY(mlff_buf_reserve(backend, own, (3 * n + 3) * sizeof(double), error));
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
  a->forces = args->on_device ? (double *) own->data : (double *) buf->data + 1;
  a->parts = (double *) buf->data + 1 + n_forces;
  if (n_half) a->half = a->parts + n_parts;
  if (n_centroid) a->centroid = a->parts + n_parts + n_half;
  a->scale = args->scale;
  a->n_local = edges->n_local;
  a->n_nodes = edges->n_nodes;
  return MLFF_OK;
}

/* What kernels have written to the host. Before the next download, whose slot may move this one. */
static mlff_status take_results(mlff_backend *backend, const mlff_forces_args *args, const force_arrays *a,
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

static int nodes_of_a_warp(mlff_backend *backend, int64_t n_nodes)
{
  const int64_t n_warps = (int64_t) FORCE_WARPS * BLOCKS_PER_SM * mlff_cuda_of(backend)->n_multiprocessors;
  const int64_t n = (n_nodes + n_warps - 1) / n_warps;
  return n < 1 ? 1 : n < MOST_PER_WARP ? (int) n : MOST_PER_WARP;
}

mlff_status MLFF_CUDA(forces_cuda)(mlff_backend *backend, const mlff_forces_args *args, mlff_error *error)
{
  mlff_result *result = args->result;
  const size_t n = (size_t) args->edges->n_nodes, n_copied = args->on_device ? 0 : 3 * n;
  const int per_warp = nodes_of_a_warp(backend, (int64_t) n);
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
  MLFF_TRY(take_results(backend, args, &a, error));
  if (args->on_device && result->forces)
    MLFF_TRY(download_cuda(backend, result->forces, a.forces, 3 * n * sizeof(double), error));
  if (a.half || a.centroid) MLFF_LAUNCH_INDEPENDENT(backend, atom_virials_kernel, n_thread_blocks, FORCE_THREADS, a);
  if (a.half) MLFF_TRY(download_cuda(backend, result->atom_virial, a.half, 9 * n * sizeof(double), error));
  return a.centroid ? download_cuda(backend, result->atom_centroid, a.centroid, 9 * n * sizeof(double), error)
                    : MLFF_OK;
}
