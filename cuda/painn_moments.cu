/* painn_moments.cu: first layer of PaiNN as moments of the environment of an atom, on the GPU. Twin:
 * cpu/painn_moments.c.
 *
 *   m_q[i][s][k] = sum_{j of s} coef_k(r_ij),   m_mu[i][s][k] = sum_{j of s} coef_k(r_ij) u_ij
 */
#include "painn.h"

enum { MOMENT_THREADS = 64, MOMENT_WARPS = 4, MAX_SHARED = 32 * 1024 };
enum { EDGES_PER_BATCH = MLFF_REAL_IS_DOUBLE ? 4 : 8 }; /* edges whose terms a lane loads at a time, to hide latency */

namespace { /* kernels and their arguments differ between element types */

typedef struct moment_arrays {
  int64_t begin, ld_q, ld_mu;
  const int64_t *row;
  const int32_t *center_species, *slot, *species;
  line_source source;
  const real *terms;
  real *q, *mu;    /* [n][ld_q], [n][3][ld_mu] */
  real *edge_grad; /* [n_edges][4] */
  int n_terms, n_rows, n_slots, accumulate;
} moment_arrays;

/* Contribution q of an edge, term q/4: q%4 = 0 to m_q, 1 to 3 to m_mu, at `column`; negative: none. */
typedef struct moment_part {
  int column, unused;
  real coef, unit;
} moment_part;

/* line.tag: column of the first term, negative: none. */
template <int DENSE> MLFF_DEVICE moment_part part_of(const moment_arrays &a, const edge_line &line, int64_t e, int q)
{
  const bool has_term = line.tag >= 0 && (!DENSE || q < 4 * a.n_terms);
  moment_part part;
  part.column = has_term ? line.tag + q / 4 : -1;
  part.unused = 0;
  part.coef = !DENSE ? line.coef.v[q / 4] : has_term ? a.terms[e * 2 * a.n_terms + q / 4] : (real) 0;
  part.unit = q % 4 ? line.unit.v[q % 4 - 1] : (real) 1;
  return part;
}

/* Lines of n edges from e on, tagged with their column, -1 beyond the end. Called by a warp. */
MLFF_DEVICE void make_lines(const moment_arrays &a, int64_t e, int n, int64_t end, edge_line *lines)
{
  const int lane = (int) threadIdx.x % WARP;
  e += lane;
  if (lane >= n) return;
  lines[lane].tag = -1;
  if (e >= end) return;
  edge_line line = make_line(a.source, e, a.slot[a.species[e]]);
  if (line.tag >= 0) line.tag = line.tag * a.n_rows + line.row;
  lines[lane] = line;
}

/* LANES: lanes per edge. EDGES_PER_WARP: edges that a warp adds in parallel. LINES: lines of a batch of a warp. */
template <int DENSE> struct moment_sizes {
  enum { LANES = DENSE ? WARP : 4 * 4, EDGES_PER_WARP = WARP / LANES, LINES = EDGES_PER_WARP * EDGES_PER_BATCH };
};

/* Moments of atom i, and 1 at the slot of its species. A warp owns atom i; BLOCK_PER_ATOM, for small systems: a block.
 * Its edges are divided among parts of LANES lanes. A part takes batches of EDGES_PER_BATCH edges, whose lines the warp
 * computes in shared memory, and sums them in order in dynamic shared memory, [n_chunk] columns (s, k) of 4 values;
 * only models of many elements need more than one chunk. A lane adds one contribution per edge, or every 32nd if DENSE.
 * Sums of parts are added in order. Deterministic. Twin: painn_moments_cpu. */
template <int DENSE, int BLOCK_PER_ATOM>
__global__ void __launch_bounds__(WARP *MOMENT_WARPS, 4) moments_kernel(moment_arrays a, int n_chunk, int n_atoms)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(real, shared);
  typedef moment_sizes<DENSE> sizes;
  enum { LANES = sizes::LANES, EDGES_PER_WARP = sizes::EDGES_PER_WARP, LINES = sizes::LINES };
  MLFF_SHARED(edge_line, lines, MOMENT_WARPS * LINES);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const int64_t block = BLOCK_PER_ATOM ? blockIdx.x : (int64_t) blockIdx.x * MOMENT_WARPS + warp, i = a.begin + block;
  if (block >= n_atoms) return;
  const int n_parts = BLOCK_PER_ATOM ? MOMENT_WARPS * EDGES_PER_WARP : EDGES_PER_WARP;
  const int64_t begin = a.row[i], end = a.row[i + 1], first = begin + (BLOCK_PER_ATOM ? warp * LINES : 0);
  const int n_columns = a.n_slots * a.n_rows, part = lane / LANES, species = a.center_species[i];
  const int slot = species < 0 ? -1 : a.slot[species]; /* prefetched */
  real *warp_sums = shared + (size_t) (warp * EDGES_PER_WARP) * 4 * n_chunk,
       *part_sums = warp_sums + (size_t) part * 4 * n_chunk;
  real *atom_sums = BLOCK_PER_ATOM ? shared : warp_sums, *mu = a.mu + block * 3 * a.ld_mu;
  edge_line *warp_lines = lines + warp * LINES;
  for (int c0 = 0; c0 < n_columns; c0 += n_chunk) {
    const int n = n_columns - c0 < n_chunk ? n_columns - c0 : n_chunk;
    for (int q = lane; q < EDGES_PER_WARP * 4 * n_chunk; q += WARP) warp_sums[q] = 0;
    __syncwarp();
    for (int q = lane % LANES; q < (4 * a.n_terms + LANES - 1) / LANES * LANES && begin < end; q += LANES) {
      for (int64_t batch = first; batch < end; batch += n_parts * EDGES_PER_BATCH) {
        make_lines(a, batch, LINES, end, warp_lines);
        __syncwarp();
        moment_part parts[EDGES_PER_BATCH];
#pragma unroll
        for (int k = 0; k < EDGES_PER_BATCH; k++) {
          const int e = part * EDGES_PER_BATCH + k;
          parts[k] = part_of<DENSE>(a, warp_lines[e], batch + e, q);
        }
#pragma unroll
        for (int k = 0; k < EDGES_PER_BATCH; k++) {
          const int c = parts[k].column - c0;
          if (c >= 0 && c < n) part_sums[4 * c + q % 4] += parts[k].coef * parts[k].unit;
          __syncwarp();
        }
      }
    }
    if (BLOCK_PER_ATOM) __syncthreads();
    for (int c = BLOCK_PER_ATOM ? (int) threadIdx.x : lane; c < n; c += BLOCK_PER_ATOM ? WARP * MOMENT_WARPS : WARP) {
      vector_of<4> sum = load_vector<4>(atom_sums + 4 * c);
      for (int s = 1; s < n_parts; s++) {
        const vector_of<4> other = load_vector<4>(atom_sums + 4 * (s * n_chunk + c));
        for (int d = 0; d < 4; d++) sum.v[d] += other.v[d];
      }
      a.q[block * a.ld_q + c0 + c] = sum.v[0];
      for (int d = 0; d < 3; d++) mu[d * a.ld_mu + c0 + c] = sum.v[1 + d];
    }
    if (BLOCK_PER_ATOM)
      __syncthreads();
    else
      __syncwarp();
  }
  for (int s = BLOCK_PER_ATOM && warp ? a.n_slots : lane; s < a.n_slots; s += WARP)
    a.q[block * a.ld_q + n_columns + s] = s == slot ? (real) 1 : (real) 0;
}

/* With g_q, g_mu the adjoints of the moments of atom i at the slot of the neighbor:
 *   dE/du = sum_k coef_k g_mu[k], dE/dr = sum_k slope_k (g_q[k] + u.g_mu[k]), both plus the values of later layers,
 *   then edge_grad[e] = dE/dvec = dE/dr u + (dE/du - u (u.dE/du))/r
 * A block owns atom i, a thread every MOMENT_THREADS-th of its edges. No shared memory; deterministic.
 * Twin: painn_moments_backward_cpu. */
__global__ void __launch_bounds__(MOMENT_THREADS) moments_backward_kernel(moment_arrays a)
{
  grid_dependency_wait();
  const int64_t block = blockIdx.x, i = a.begin + block, end = a.row[i + 1];
  for (int64_t e = a.row[i] + threadIdx.x; e < end; e += MOMENT_THREADS) {
    const edge_line line = make_line(a.source, e, a.slot[a.species[e]]);
    const real ux = line.unit.v[0], uy = line.unit.v[1], uz = line.unit.v[2], inverse = line.unit.v[3];
    vector_of<4> previous = {}; /* prefetched */
    if (a.accumulate) previous = load_vector<4>(a.edge_grad + 4 * e);
    real sx = 0, sy = 0, sz = 0, sr = 0;
    if (line.tag >= 0) {
      const bool is_cubic = a.n_terms == 4;
      const int64_t c = (int64_t) line.tag * a.n_rows + line.row;
      const real *terms = a.terms + e * 2 * a.n_terms;
      const real *q = a.q + block * a.ld_q + c, *x = a.mu + block * 3 * a.ld_mu + c, *y = x + a.ld_mu, *z = y + a.ld_mu;
      for (int t = 0; t < a.n_terms; t += 4) { /* n_terms is a multiple of 4 */
        const vector_of<4> c4 = is_cubic ? line.coef : load_vector<4>(terms + t),
                           s4 = is_cubic ? line.slope : load_vector<4>(terms + a.n_terms + t);
#pragma unroll
        for (int k = 0; k < 4; k++) {
          sx += c4.v[k] * x[t + k];
          sy += c4.v[k] * y[t + k];
          sz += c4.v[k] * z[t + k];
          sr += s4.v[k] * (q[t + k] + ux * x[t + k] + uy * y[t + k] + uz * z[t + k]);
        }
      }
    }
    sx += previous.v[0];
    sy += previous.v[1];
    sz += previous.v[2];
    sr += previous.v[3];
    const real dE_du_u = sx * ux + sy * uy + sz * uz, by_r = sr - dE_du_u * inverse;
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
  a.source = line_source_of(args->edges, args->radial, args->n_terms, 1);
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
  const int n_columns = args->n_slots * args->n_rows,
            n_parts = MOMENT_WARPS * (int) moment_sizes<DENSE>::EDGES_PER_WARP;
  const int most = MAX_SHARED / (4 * n_parts * (int) sizeof(real)), n_chunk = n_columns < most ? n_columns : most;
  const bool small_system = mlff_cuda_is_small_system(mlff_cuda_of(backend), args->edges->n_local);
  mlff_cuda_launch(backend, "moments_kernel", 0, small_system ? moments_kernel<DENSE, 1> : moments_kernel<DENSE, 0>,
                   mlff_cuda_blocks(n_atoms, small_system ? 1 : MOMENT_WARPS), WARP * MOMENT_WARPS,
                   (size_t) (4 * n_parts * n_chunk) * sizeof(real), arrays_of(args), n_chunk, (int) n_atoms);
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
