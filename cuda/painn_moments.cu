/* painn_moments.cu: the first layer of PaiNN as moments of the surroundings, on the GPU. Twin: cpu/painn_moments.c. */
#include "painn.h"

enum { MOMENT_THREADS = 64 };

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

/* m_q[i][s][k] = sum_{j of s} coef_k(r_ij),  m_mu[i][s][k] = sum_{j of s} coef_k(r_ij) u_ij,  and 1 at the slot of
 * atom i A block owns atom i, a thread every MOMENT_THREADS-th column (s, k) and the columns behind; it reads all
 * edges of the atom in order. No shared memory; deterministic. Twin: painn_moments_cpu. */
__global__ void __launch_bounds__(MOMENT_THREADS) moments_kernel(moment_arrays a)
{
  const int64_t block = blockIdx.x, i = a.begin + block, begin = a.row[i], end = a.row[i + 1];
  const int n_columns = a.n_slots * a.n_rows;
  real *mu = a.mu + block * 3 * a.ld_mu;
  for (int c = (int) threadIdx.x; c < n_columns; c += MOMENT_THREADS) {
    const int slot = c / a.n_rows, k = c % a.n_rows;
    real q = 0, x = 0, y = 0, z = 0;
    for (int64_t e = begin; e < end; e++) {
      const real *line = a.lines + e * MLFF_PAINN_LINE;
      const line_index index = line_load_index(line);
      if (a.slot[index.species] != slot) continue;
      const int term = a.n_terms == 4 ? k - index.first : k;
      if (term < 0 || term >= a.n_terms) continue;
      const real coef = a.n_terms == 4 ? line[LINE_COEF + term] : a.terms[e * 2 * a.n_terms + term];
      q += coef;
      x += coef * line[LINE_UNIT];
      y += coef * line[LINE_UNIT + 1];
      z += coef * line[LINE_UNIT + 2];
    }
    a.q[block * a.ld_q + c] = q;
    mu[c] = x;
    mu[a.ld_mu + c] = y;
    mu[2 * a.ld_mu + c] = z;
  }
  const int own = a.center_species[i] < 0 ? -1 : a.slot[a.center_species[i]];
  for (int s = (int) threadIdx.x; s < a.n_slots; s += MOMENT_THREADS)
    a.q[block * a.ld_q + n_columns + s] = s == own ? (real) 1 : (real) 0;
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
    const real ux = line[LINE_UNIT], uy = line[LINE_UNIT + 1], uz = line[LINE_UNIT + 2], inverse = line[LINE_INVERSE];
    const int slot = a.slot[index.species];
    real sx = 0, sy = 0, sz = 0, sr = 0;
    if (slot >= 0) {
      const int64_t c = (int64_t) slot * a.n_rows + (a.n_terms == 4 ? index.first : 0);
      const real *coef = a.n_terms == 4 ? line + LINE_COEF : a.terms + e * 2 * a.n_terms;
      const real *slope = a.n_terms == 4 ? line + LINE_SLOPE : coef + a.n_terms;
      const real *q = a.q + block * a.ld_q + c, *x = a.mu + block * 3 * a.ld_mu + c, *y = x + a.ld_mu, *z = y + a.ld_mu;
      for (int t = 0; t < a.n_terms; t++) {
        sx += coef[t] * x[t];
        sy += coef[t] * y[t];
        sz += coef[t] * z[t];
        sr += slope[t] * (q[t] + ux * x[t] + uy * y[t] + uz * z[t]);
      }
    }
    real *grad = a.edge_grad + 4 * e;
    if (a.accumulate) {
      sx += grad[0];
      sy += grad[1];
      sz += grad[2];
      sr += grad[3];
    }
    const real along = sx * ux + sy * uy + sz * uz, by_r = sr - along * inverse;
    grad[0] = sx * inverse + ux * by_r;
    grad[1] = sy * inverse + uy * by_r;
    grad[2] = sz * inverse + uz * by_r;
    grad[3] = 0;
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
  MLFF_LAUNCH_INDEPENDENT(backend, moments_kernel, (unsigned) (args->end - args->begin), MOMENT_THREADS,
                          arrays_of(args));
}

void MLFF_CUDA(painn_moments_backward_cuda)(mlff_backend *backend, const mlff_painn_moments_args *args)
{
  MLFF_LAUNCH_INDEPENDENT(backend, moments_backward_kernel, (unsigned) (args->end - args->begin), MOMENT_THREADS,
                          arrays_of(args));
}
