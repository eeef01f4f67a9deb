/* painn_moments.cu: the first layer of PaiNN as moments of the surroundings, on the GPU. Twin: cpu/painn_moments.c. */
#include "painn.h"

enum { MOMENT_THREADS = 64, MOMENT_WARPS = 4, MOMENT_BATCH = MLFF_REAL_IS_DOUBLE ? 4 : 8, MOST_SHARED = 32 * 1024 };

namespace { /* kernels and their arguments differ between element types */

typedef struct moment_arrays {
  int64_t begin, ld_q, ld_mu;
  const int64_t *row;
  const int32_t *center_species, *slot, *species;
  line_source from;
  const real *terms;
  real *q, *mu;    /* [n][ld_q], [n][3][ld_mu] */
  real *edge_grad; /* [n_edges][4] */
  int n_terms, n_rows, n_slots, accumulate;
} moment_arrays;

/* What a lane adds of an edge, and where: number q of the edge's, term q/4, of which 0 is for m_q and 1 to 3 for m_mu.
 * Nothing is added where the column is negative. */
typedef struct moment_part {
  int column, unused;
  real coef, unit;
} moment_part;

/* line.own: column of its first term, negative: none. */
template <int DENSE> MLFF_DEVICE moment_part part_of(const moment_arrays &a, const edge_line &line, int64_t e, int q)
{
  const bool has_term = line.own >= 0 && (!DENSE || q < 4 * a.n_terms);
  moment_part part;
  part.column = has_term ? line.own + q / 4 : -1;
  part.unused = 0;
  part.coef = !DENSE ? line.coef.of[q / 4] : has_term ? a.terms[e * 2 * a.n_terms + q / 4] : (real) 0;
  part.unit = q % 4 ? line.unit.of[q % 4 - 1] : (real) 1;
  return part;
}

/* Lines of n edges from e on by the lanes of a warp; column -1 where there are no more. */
MLFF_DEVICE void make_lines(const moment_arrays &a, int64_t e, int n, int64_t end, edge_line *lines)
{
  const int lane = (int) threadIdx.x % WARP;
  e += lane;
  if (lane >= n) return;
  lines[lane].own = -1;
  if (e >= end) return;
  edge_line line = make_line(a.from, e, a.slot[a.species[e]]);
  if (line.own >= 0) line.own = line.own * a.n_rows + line.row;
  lines[lane] = line;
}

/* Of a warp: lanes that add an edge, edges at a time, and those of a batch. */
template <int DENSE> struct moment_sizes {
  enum { LANES = DENSE ? WARP : 4 * 4, AT_ONCE = WARP / LANES, LINES = AT_ONCE * MOMENT_BATCH };
};

/* m_q[i][s][k] = sum_{j of s} coef_k(r_ij),  m_mu[i][s][k] = sum_{j of s} coef_k(r_ij) u_ij,  and 1 at the slot of
 * atom i. A warp owns atom i, or, where IS_SHARED, a block, for small systems. Shares of LANES lanes take
 * MOMENT_BATCH edges in turn, whose lines lanes make in shared memory, and sum over them in order in dynamic shared
 * memory: n_chunk columns (s, k) of four numbers, all of them but for models of many elements. A lane adds one number
 * of an edge, or of many terms every 32nd. Sums of shares are added in order. Deterministic.
 * Twin: painn_moments_cpu. */
template <int DENSE, int IS_SHARED>
__global__ void __launch_bounds__(WARP *MOMENT_WARPS, 4) moments_kernel(moment_arrays a, int n_chunk, int n_atoms)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(real, shared);
  typedef moment_sizes<DENSE> sizes;
  enum { LANES = sizes::LANES, AT_ONCE = sizes::AT_ONCE, LINES = sizes::LINES };
  MLFF_SHARED(edge_line, lines, MOMENT_WARPS * LINES);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int64_t block = IS_SHARED ? blockIdx.x : (int64_t) blockIdx.x * MOMENT_WARPS + warp, i = a.begin + block;
  if (block >= n_atoms) return;
  const int n_shares = IS_SHARED ? MOMENT_WARPS * AT_ONCE : AT_ONCE;
  const int64_t begin = a.row[i], end = a.row[i + 1], first = begin + (IS_SHARED ? warp * LINES : 0);
  const int n_columns = a.n_slots * a.n_rows, mine = lane / LANES, species = a.center_species[i];
  const int slot = species < 0 ? -1 : a.slot[species]; /* comes while edges do */
  real *of_warp = shared + (size_t) (warp * AT_ONCE) * 4 * n_chunk, *own = of_warp + (size_t) mine * 4 * n_chunk;
  real *of_atom = IS_SHARED ? shared : of_warp, *mu = a.mu + block * 3 * a.ld_mu;
  edge_line *own_lines = lines + warp * LINES;
  for (int c0 = 0; c0 < n_columns; c0 += n_chunk) {
    const int n = n_columns - c0 < n_chunk ? n_columns - c0 : n_chunk;
    for (int q = lane; q < AT_ONCE * 4 * n_chunk; q += WARP) of_warp[q] = 0;
    __syncwarp();
    for (int q = lane % LANES; q < (4 * a.n_terms + LANES - 1) / LANES * LANES && begin < end; q += LANES) {
      for (int64_t batch = first; batch < end; batch += n_shares * MOMENT_BATCH) {
        make_lines(a, batch, LINES, end, own_lines);
        __syncwarp();
        moment_part parts[MOMENT_BATCH];
#pragma unroll
        for (int k = 0; k < MOMENT_BATCH; k++) {
          const int e = mine * MOMENT_BATCH + k;
          parts[k] = part_of<DENSE>(a, own_lines[e], batch + e, q);
        }
#pragma unroll
        for (int k = 0; k < MOMENT_BATCH; k++) {
          const int c = parts[k].column - c0;
          if (c >= 0 && c < n) own[4 * c + q % 4] += parts[k].coef * parts[k].unit;
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
  grid_dependency_wait();
  const int64_t block = blockIdx.x, i = a.begin + block, end = a.row[i + 1];
  for (int64_t e = a.row[i] + threadIdx.x; e < end; e += MOMENT_THREADS) {
    const edge_line line = make_line(a.from, e, a.slot[a.species[e]]);
    const real ux = line.unit.of[0], uy = line.unit.of[1], uz = line.unit.of[2], inverse = line.unit.of[3];
    vector_of<4> more = {}; /* comes while the line and the adjoints do */
    if (a.accumulate) more = load_vector<4>(a.edge_grad + 4 * e);
    real sx = 0, sy = 0, sz = 0, sr = 0;
    if (line.own >= 0) {
      const bool is_cubic = a.n_terms == 4;
      const int64_t c = (int64_t) line.own * a.n_rows + line.row;
      const real *terms = a.terms + e * 2 * a.n_terms;
      const real *q = a.q + block * a.ld_q + c, *x = a.mu + block * 3 * a.ld_mu + c, *y = x + a.ld_mu, *z = y + a.ld_mu;
      for (int t = 0; t < a.n_terms; t += 4) { /* a multiple of 4 */
        const vector_of<4> c4 = is_cubic ? line.coef : load_vector<4>(terms + t),
                           s4 = is_cubic ? line.slope : load_vector<4>(terms + a.n_terms + t);
#pragma unroll
        for (int k = 0; k < 4; k++) {
          sx += c4.of[k] * x[t + k];
          sy += c4.of[k] * y[t + k];
          sz += c4.of[k] * z[t + k];
          sr += s4.of[k] * (q[t + k] + ux * x[t + k] + uy * y[t + k] + uz * z[t + k]);
        }
      }
    }
    sx += more.of[0];
    sy += more.of[1];
    sz += more.of[2];
    sr += more.of[3];
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
  a.species = (const int32_t *) args->edges->species.data;
  a.from = line_source_of(args->edges, args->radial, args->n_terms, 1);
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

template <int DENSE> static void start_moments(mlff_backend *backend, const mlff_painn_moments_args *args)
{
  const int64_t n_atoms = args->end - args->begin;
  const int n_columns = args->n_slots * args->n_rows, n_shares = MOMENT_WARPS * (int) moment_sizes<DENSE>::AT_ONCE;
  const int most = MOST_SHARED / (4 * n_shares * (int) sizeof(real)), n_chunk = n_columns < most ? n_columns : most;
  const bool is_small = mlff_cuda_is_small_system(mlff_cuda_of(backend), args->edges->n_local);
  mlff_cuda_launch(backend, "moments_kernel", 0, is_small ? moments_kernel<DENSE, 1> : moments_kernel<DENSE, 0>,
                   mlff_cuda_blocks(n_atoms, is_small ? 1 : MOMENT_WARPS), WARP * MOMENT_WARPS,
                   (size_t) (4 * n_shares * n_chunk) * sizeof(real), arrays_of(args), n_chunk, (int) n_atoms);
}

void MLFF_CUDA(painn_moments_cuda)(mlff_backend *backend, const mlff_painn_moments_args *args)
{
  if (args->n_terms == 4)
    start_moments<0>(backend, args);
  else
    start_moments<1>(backend, args);
}

void MLFF_CUDA(painn_moments_backward_cuda)(mlff_backend *backend, const mlff_painn_moments_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, moments_backward_kernel, (unsigned) (args->end - args->begin), MOMENT_THREADS,
                          arrays_of(args));
}
