/* forces.cu: gradients by edge vectors -> forces and virials on the GPU. Twin: cpu/forces.c, signs in ops_math.h.
 *
 * A node gathers: what its own edges give, and through the reversed list what edges that end at it give. So there
 * are no atomics, and results do not depend on the order in which blocks run.
 */
#include "edges.h"
#include "vectors.h"

enum { FORCE_THREADS = 128, FORCE_WARPS = FORCE_THREADS / WARP, REDUCE_THREADS = 256 };
/* Nodes of a warp: so many that its other sums cost little, but few enough that BLOCKS_PER_SM share out the atoms. */
enum { MOST_PER_WARP = 32, BLOCKS_PER_SM = 8 };

namespace { /* kernels and their arguments differ between element types */

typedef struct force_arrays {
  const int64_t *row, *in_row;
  const int32_t *in_pair, *edge;
  const real *vec, *grad;  /* [n_edges][4] */
  double *forces;          /* [n_nodes][3] */
  double *parts;           /* [n_blocks][9] virial of a block's centres */
  double *half, *centroid; /* [n_nodes][9] or NULL */
  double *virial;          /* [10]: 9, and bad */
  int32_t *bad;            /* [1]: n_nodes less the first node whose force is not finite, 0: none */
  double scale;
  int32_t n_local, n_nodes;
} force_arrays;

MLFF_DEVICE void load_edge(const force_arrays &a, int64_t e, double d[3], double g[3])
{
  const vector_of<4> vec = load_vector<4>(a.vec + 4 * e), grad = load_vector<4>(a.grad + 4 * e);
  for (int c = 0; c < 3; c++) {
    d[c] = (double) vec.of[c];
    g[c] = a.scale * (double) grad.of[c];
  }
}

/* F_i = scale (sum_{e of i} g_e - sum_{e to i} g_e),  parts[b] = - scale sum_{e of the block's centres} d_e g_e^T
 * A warp owns per_warp nodes that follow one another, one after another; its lanes read every 32nd edge of a node and
 * every 32nd that ends at it, so that few atoms do not wait for one load after another. Sums go through shuffles, those
 * of the virial once for the nodes of a warp, then in shared memory. All in double; deterministic. Twin: forces_cpu. */
__global__ void __launch_bounds__(FORCE_THREADS) forces_kernel(force_arrays a, int per_warp)
{
  MLFF_SHARED(double, sums, 9 * FORCE_WARPS);
  const int warp = (int) threadIdx.x / WARP, lane = (int) threadIdx.x % WARP;
  const int first = ((int) blockIdx.x * FORCE_WARPS + warp) * per_warp;
  double w[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, d[3], g[3], we[9];
  for (int i = first; i < first + per_warp && i < a.n_nodes; i++) {
    double f[3] = {0, 0, 0};
    for (int64_t e = i < a.n_local ? a.row[i] + lane : 0; i < a.n_local && e < a.row[i + 1]; e += WARP) {
      load_edge(a, e, d, g);
      mlff_edge_virial(1.0, d, g, we);
      for (int c = 0; c < 3; c++) f[c] += g[c];
      for (int c = 0; c < 9; c++) w[c] += we[c];
    }
    for (int64_t q = a.in_row[i] + lane; q < a.in_row[i + 1]; q += WARP) {
      const int32_t e = a.edge[a.in_pair[q]];
      if (e < 0) continue;
      const vector_of<4> v = load_vector<4>(a.grad + 4 * (int64_t) e);
      for (int c = 0; c < 3; c++) f[c] -= a.scale * (double) v.of[c];
    }
    for (int c = 0; c < 3; c++) {
      const double sum = warp_sum(f[c]);
      if (lane == c) a.forces[3 * (int64_t) i + c] = sum;
    }
  }
  for (int c = 0; c < 9; c++) {
    const double sum = warp_sum(w[c]);
    if (lane == 0) sums[9 * warp + c] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= 9) return;
  double sum = 0;
  for (int k = 0; k < FORCE_WARPS; k++) sum += sums[9 * k + (int) threadIdx.x];
  a.parts[9 * (int64_t) blockIdx.x + threadIdx.x] = sum;
}

/* virial[c] = sum_b parts[b][c] for c = 0 .. 8, and bad = 0. A block for each c; a thread sums every REDUCE_THREADS-th
 * part, a warp by shuffles, then all warps in shared memory; deterministic. Twin: forces_cpu. */
__global__ void __launch_bounds__(REDUCE_THREADS) virial_kernel(force_arrays a, int n_parts)
{
  MLFF_SHARED(double, sums, REDUCE_THREADS / WARP);
  const int t = (int) threadIdx.x, c = (int) blockIdx.x;
  double sum = 0;
  for (int64_t b = t; b < n_parts; b += REDUCE_THREADS) sum += a.parts[9 * b + c];
  sum = warp_sum(sum);
  if (t % WARP == 0) sums[t / WARP] = sum;
  __syncthreads();
  if (t) return;
  for (int k = 1; k < REDUCE_THREADS / WARP; k++) sum += sums[k];
  a.virial[c] = sum;
  if (c == 0) a.virial[9] = 0;
}

/* half[i] = (sum_{e of i} w_e + sum_{e to i} w_e) / 2,  centroid[i] = sum_{e to i} w_e,  w_e = - scale d_e g_e^T
 * One thread per node, in double; deterministic. Twin: atom_virials. */
__global__ void atom_virials_kernel(force_arrays a)
{
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

/* bad = n_nodes - min index of a force that is not finite; before, it is 0. One thread per node; an atomic maximum, so
 * deterministic. Twin: check_finite of model/step.c. */
__global__ void bad_force_kernel(force_arrays a)
{
  const int i = (int) (blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= a.n_nodes) return;
  const double *f = a.forces + 3 * (int64_t) i;
  if (!(isfinite(f[0]) && isfinite(f[1]) && isfinite(f[2]))) atomicMax(a.bad, a.n_nodes - i);
}

} // namespace

/* Doubles of one evaluation on the device: virial, forces, parts, per-atom virials. Forces that stay have an array of
 * their own, which those of members do not overwrite. */
static mlff_status make_arrays(mlff_backend *backend, const mlff_forces_args *args, unsigned n_blocks, force_arrays *a,
                               mlff_error *error)
{
  const mlff_edges *edges = args->edges;
  const graph_arrays g = graph_of(edges);
  mlff_buf *buf = &mlff_cuda_of(backend)->virial_parts;
  const size_t n = (size_t) edges->n_nodes, n_parts = 9 * (size_t) n_blocks;
  const size_t n_half = args->result->atom_virial ? 9 * n : 0, n_centroid = args->result->atom_centroid ? 9 * n : 0;
  const size_t n_forces = args->on_device ? 0 : 3 * n;
  mlff_buf *own = &mlff_cuda_of(backend)->device_forces;
  if (args->on_device) MLFF_TRY(mlff_buf_reserve(backend, own, (3 * n + 3) * sizeof(double), error));
  MLFF_TRY(mlff_buf_reserve(backend, buf, (n_forces + 10 + n_parts + n_half + n_centroid) * sizeof(double), error));
  memset(a, 0, sizeof *a);
  a->row = (const int64_t *) edges->row.data;
  a->in_row = g.in_row;
  a->in_pair = g.in_pair;
  a->edge = g.edge;
  a->vec = (const real *) edges->vec.data;
  a->grad = (const real *) args->grad;
  a->virial = (double *) buf->data;
  a->bad = (int32_t *) (void *) (a->virial + 9);
  a->parts = a->virial + 10 + n_forces;
  a->forces = args->on_device ? (double *) own->data : a->virial + 10;
  if (n_half) a->half = a->parts + n_parts;
  if (n_centroid) a->centroid = a->parts + n_parts + n_half;
  a->scale = args->scale;
  a->n_local = edges->n_local;
  a->n_nodes = edges->n_nodes;
  return MLFF_OK;
}

/* The virial and, behind it, forces or, of forces that stay, whether they are finite: one copy. */
static mlff_status take_results(mlff_backend *backend, const mlff_forces_args *args, const force_arrays *a,
                                mlff_error *error)
{
  const size_t n = 3 * (size_t) a->n_nodes * sizeof(double), head = 10 * sizeof(double);
  double virial[10];
  int32_t bad = 0;
  char *slot = NULL;
  if (args->on_device && args->result->forces)
    MLFF_TRY(download_cuda(backend, args->result->forces, a->forces, n, error));
  MLFF_TRY(mlff_cuda_bring_down(backend, a->virial, args->on_device ? head : head + n, &slot, error));
  if (!slot) return MLFF_OK;
  memcpy(virial, slot, head);
  mlff_virial_six(virial, args->result->virial);
  if (!args->on_device) {
    memcpy(args->result->forces, slot + head, n);
    return MLFF_OK;
  }
  memcpy(&bad, virial + 9, sizeof bad);
  args->result->device_forces = (const double(*)[3]) a->forces;
  if (bad && args->bad) *args->bad = a->n_nodes - bad;
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
  const size_t n = (size_t) args->edges->n_nodes;
  const int per_warp = nodes_of_a_warp(backend, (int64_t) n);
  const unsigned n_blocks = mlff_cuda_blocks((int64_t) n, per_warp * FORCE_WARPS),
                 n_thread_blocks = mlff_cuda_blocks((int64_t) n, FORCE_THREADS);
  force_arrays a;
  MLFF_TRY(make_arrays(backend, args, n_blocks, &a, error));
  MLFF_LAUNCH(backend, forces_kernel, n_blocks, FORCE_THREADS, 0, a, per_warp);
  MLFF_LAUNCH(backend, virial_kernel, 9, REDUCE_THREADS, 0, a, (int) n_blocks);
  if (args->on_device) MLFF_LAUNCH_INDEPENDENT(backend, bad_force_kernel, n_thread_blocks, FORCE_THREADS, a);
  if (a.half || a.centroid) MLFF_LAUNCH_INDEPENDENT(backend, atom_virials_kernel, n_thread_blocks, FORCE_THREADS, a);
  if (a.half) MLFF_TRY(download_cuda(backend, result->atom_virial, a.half, 9 * n * sizeof(double), error));
  if (a.centroid) MLFF_TRY(download_cuda(backend, result->atom_centroid, a.centroid, 9 * n * sizeof(double), error));
  return take_results(backend, args, &a, error);
}
