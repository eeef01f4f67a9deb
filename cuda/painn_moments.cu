/* painn_moments.cu: the first layer of PaiNN as moments of the surroundings, on the GPU. Twin: cpu/painn_moments.c. */
#include "painn.h"
#include "vectors.h"

enum { MOMENT_THREADS = 64, MOMENT_WARPS = 4, MOMENT_BATCH = MLFF_REAL_IS_DOUBLE ? 4 : 8, MOST_SHARED = 32 * 1024 };

namespace { /* kernels and their arguments differ between element types */

typedef struct moment_arrays {
  int64_t begin, ld_q, ld_mu;
  const int64_t *row;
  const int32_t *center_species, *slot;
  const real *lines, *terms;
  real *q, *mu;    /* [n][ld_q], [n][3][ld_mu] */
  real *edge_grad; /* [n_edges][4] */
  int n_terms, n_rows, n_slots, accumulate;
} moment_arrays;

/* What a lane adds of an edge, and the first column of it: lane q of the sum term q/4, of which 0 is for m_q and 1 to 3
 * for m_mu. Nothing is added where the column is negative. */
typedef struct moment_edge {
  int column, unused;
  real coef, unit;
} moment_edge;

MLFF_DEVICE moment_edge load_edge(const moment_arrays &a, int64_t e, int q)
{
  const real *line = a.lines + e * MLFF_PAINN_LINE;
  const bool has_term = q < 4 * a.n_terms;
  const real *coef = a.n_terms == 4 ? line + LINE_COEF : a.terms + e * 2 * a.n_terms;
  const line_index index = line_load_index(line);
  const int slot = a.slot[index.species];
  moment_edge found;
  found.column = slot < 0 || !has_term ? -1 : slot * a.n_rows + (a.n_terms == 4 ? index.first : 0) + q / 4;
  found.coef = has_term ? coef[q / 4] : (real) 0;
  found.unit = q % 4 ? line[LINE_UNIT + q % 4 - 1] : (real) 1;
  return found;
}

/* Lanes that add an edge. */
static __host__ __device__ __forceinline__ int lanes_of(int n_terms)
{
  return 4 * n_terms <= WARP / 2 ? WARP / 2 : WARP;
}

/* m_q[i][s][k] = sum_{j of s} coef_k(r_ij),  m_mu[i][s][k] = sum_{j of s} coef_k(r_ij) u_ij,  and 1 at the slot of
 * atom i. A warp owns atom i, or, where IS_SHARED, a block, for small systems. Shares of lanes_of lanes take
 * MOMENT_BATCH edges in turn, whose lines are on their way at once, and sum over them in order in dynamic shared
 * memory: n_chunk columns (s, k) of four numbers, all of them but for models of many elements. A lane adds one number
 * of an edge, or of many terms every 32nd. Sums of shares are added in order. Deterministic.
 * Twin: painn_moments_cpu. */
template <int IS_SHARED>
__global__ void __launch_bounds__(WARP *MOMENT_WARPS) moments_kernel(moment_arrays a, int n_chunk, int n_atoms)
{
  MLFF_SHARED_DYNAMIC(real, shared);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int64_t block = IS_SHARED ? blockIdx.x : (int64_t) blockIdx.x * MOMENT_WARPS + warp, i = a.begin + block;
  if (block >= n_atoms) return;
  const int lanes = lanes_of(a.n_terms), per_warp = WARP / lanes,
            n_shares = IS_SHARED ? MOMENT_WARPS * per_warp : per_warp;
  const int64_t begin = a.row[i], end = a.row[i + 1], first = begin + (IS_SHARED ? warp * per_warp : 0) * MOMENT_BATCH;
  const int n_columns = a.n_slots * a.n_rows, mine = lane / lanes;
  real *of_warp = shared + (size_t) (warp * per_warp) * 4 * n_chunk, *own = of_warp + (size_t) mine * 4 * n_chunk;
  real *of_atom = IS_SHARED ? shared : of_warp, *mu = a.mu + block * 3 * a.ld_mu;
  for (int c0 = 0; c0 < n_columns; c0 += n_chunk) {
    const int n = n_columns - c0 < n_chunk ? n_columns - c0 : n_chunk;
    for (int q = lane; q < per_warp * 4 * n_chunk; q += WARP) of_warp[q] = 0;
    __syncwarp();
    for (int q = lane % lanes; q < (4 * a.n_terms + lanes - 1) / lanes * lanes && begin < end; q += lanes) {
      for (int64_t batch = first; batch < end; batch += n_shares * MOMENT_BATCH) {
        const int64_t e0 = batch + mine * MOMENT_BATCH;
        moment_edge edges[MOMENT_BATCH];
#pragma unroll
        for (int k = 0; k < MOMENT_BATCH; k++) edges[k] = load_edge(a, e0 + k < end ? e0 + k : end - 1, q);
#pragma unroll
        for (int k = 0; k < MOMENT_BATCH; k++) {
          const int c = edges[k].column - c0;
          if (c >= 0 && c < n && e0 + k < end) own[4 * c + q % 4] += edges[k].coef * edges[k].unit;
          __syncwarp();
        }
      }
    }
    if (IS_SHARED) __syncthreads();
    for (int c = IS_SHARED ? (int) threadIdx.x : lane; c < n; c += IS_SHARED ? WARP * MOMENT_WARPS : WARP) {
      vector_of<4> sum = load_vector<4>(of_atom + 4 * c);
      for (int s = 1; s < n_shares; s++) {
        const vector_of<4> share = load_vector<4>(of_atom + 4 * (s * n_chunk + c));
        for (int d = 0; d < 4; d++) sum.of[d] += share.of[d];
      }
      a.q[block * a.ld_q + c0 + c] = sum.of[0];
      for (int d = 0; d < 3; d++) mu[d * a.ld_mu + c0 + c] = sum.of[1 + d];
    }
    if (IS_SHARED)
      __syncthreads();
    else
      __syncwarp();
  }
  const int slot = a.center_species[i] < 0 ? -1 : a.slot[a.center_species[i]];
  for (int s = IS_SHARED && warp ? a.n_slots : lane; s < a.n_slots; s += WARP)
    a.q[block * a.ld_q + n_columns + s] = s == slot ? (real) 1 : (real) 0;
}

/* With g_q, g_mu the adjoints of the moments of atom i at the slot of the neighbour:
 *   dE/du = sum_k coef_k g_mu[k],  dE/dr = sum_k slope_k (g_q[k] + u.g_mu[k]),  both + what later layers left, then
 *   edge_grad[e] = dE/dvec = dE/dr u + (dE/du - u (u.dE/du))/r
 * A block owns atom i, a thread every MOMENT_THREADS-th of its edges. No shared memory; deterministic.
 * Twin: painn_moments_backward_cpu. */
__global__ void __launch_bounds__(MOMENT_THREADS) moments_backward_kernel(moment_arrays a)
{
  const int64_t block = blockIdx.x, i = a.begin + block, end = a.row[i + 1];
  for (int64_t e = a.row[i] + threadIdx.x; e < end; e += MOMENT_THREADS) {
    const real *line = a.lines + e * MLFF_PAINN_LINE;
    const line_index index = line_load_index(line);
    const vector_of<4> unit = load_vector<4>(line + LINE_UNIT);
    const real ux = unit.of[0], uy = unit.of[1], uz = unit.of[2], inverse = unit.of[3];
    const int slot = a.slot[index.species];
    real sx = 0, sy = 0, sz = 0, sr = 0;
    if (slot >= 0) {
      const int64_t c = (int64_t) slot * a.n_rows + (a.n_terms == 4 ? index.first : 0);
      const real *coef = a.n_terms == 4 ? line + LINE_COEF : a.terms + e * 2 * a.n_terms;
      const real *slope = a.n_terms == 4 ? line + LINE_SLOPE : coef + a.n_terms;
      const real *q = a.q + block * a.ld_q + c, *x = a.mu + block * 3 * a.ld_mu + c, *y = x + a.ld_mu, *z = y + a.ld_mu;
      for (int t = 0; t < a.n_terms; t += 4) { /* a multiple of 4 */
        const vector_of<4> c4 = load_vector<4>(coef + t), s4 = load_vector<4>(slope + t);
#pragma unroll
        for (int k = 0; k < 4; k++) {
          sx += c4.of[k] * x[t + k];
          sy += c4.of[k] * y[t + k];
          sz += c4.of[k] * z[t + k];
          sr += s4.of[k] * (q[t + k] + ux * x[t + k] + uy * y[t + k] + uz * z[t + k]);
        }
      }
    }
    if (a.accumulate) {
      const vector_of<4> more = load_vector<4>(a.edge_grad + 4 * e);
      sx += more.of[0];
      sy += more.of[1];
      sz += more.of[2];
      sr += more.of[3];
    }
    const real along = sx * ux + sy * uy + sz * uz, by_r = sr - along * inverse;
    const vector_of<4> grad = {{sx * inverse + ux * by_r, sy * inverse + uy * by_r, sz * inverse + uz * by_r, 0}};
    store_vector<4>(a.edge_grad + 4 * e, grad);
  }
}

} // namespace

static moment_arrays arrays_of(const mlff_painn_moments_args *args)
{
  moment_arrays a;
  memset(&a, 0, sizeof a);
  a.begin = args->begin;
  a.ld_q = args->ld_q;
  a.ld_mu = args->ld_mu;
  a.row = (const int64_t *) args->edges->row.data;
  a.center_species = (const int32_t *) args->edges->center_species.data;
  a.slot = args->slot;
  a.lines = (const real *) args->radial->line.data;
  a.terms = (const real *) args->radial->terms.data;
  a.q = (real *) args->moments_q;
  a.mu = (real *) args->moments_mu;
  a.edge_grad = (real *) args->edge_grad;
  a.n_terms = args->n_terms;
  a.n_rows = args->n_rows;
  a.n_slots = args->n_slots;
  a.accumulate = args->accumulate;
  return a;
}

void MLFF_CUDA(painn_moments_cuda)(mlff_backend *backend, const mlff_painn_moments_args *args)
{
  const int64_t n_atoms = args->end - args->begin;
  const int n_columns = args->n_slots * args->n_rows, n_shares = MOMENT_WARPS * WARP / lanes_of(args->n_terms);
  const int most = MOST_SHARED / (4 * n_shares * (int) sizeof(real)), n_chunk = n_columns < most ? n_columns : most;
  const bool is_small = mlff_cuda_is_small(mlff_cuda_of(backend), args->edges->n_local);
  mlff_cuda_launch(backend, "moments_kernel", 0, is_small ? moments_kernel<1> : moments_kernel<0>,
                   mlff_cuda_blocks(n_atoms, is_small ? 1 : MOMENT_WARPS), WARP * MOMENT_WARPS,
                   (size_t) (4 * n_shares * n_chunk) * sizeof(real), arrays_of(args), n_chunk, (int) n_atoms);
}

void MLFF_CUDA(painn_moments_backward_cuda)(mlff_backend *backend, const mlff_painn_moments_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, moments_backward_kernel, (unsigned) (args->end - args->begin), MOMENT_THREADS,
                          arrays_of(args));
}
