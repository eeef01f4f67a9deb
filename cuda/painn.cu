/* painn.cu: the PaiNN ops of the GPU, and their radial part. Twin: cpu/painn.c.
 *
 * Beside it, painn_*.cu: moments (first layer), messages (other layers), mix (updates of atoms, readout).
 */
#include "painn.h"
#include "vectors.h"

enum { RADIAL_THREADS = 128 };

namespace { /* kernels and their arguments differ between element types */

typedef struct radial_arrays {
  const int64_t *n_edges; /* on the device: the host may know no more than how many there is room for */
  const real *vec;        /* [n_edges][4] */
  const int32_t *node, *species;
  real *line, *terms; /* [n_edges][MLFF_PAINN_LINE], [n_edges][2][n_terms] */
  const real *first, *second;
  double cutoff;
  int kind, n, n_terms, split; /* split: n where there is no second spline */
} radial_arrays;

/* ---- cubic B-splines --------------------------------------------------------------------------------------------- */

/* line[e] = coef_t = sum_k piece[k][t] x^k, slope_t = its derivative / h, u = vec/r, 1/r, indices;  x = r/h - first,
 * first = floor(r/h). One thread per edge; deterministic. Twin: fill_cubic. */
__global__ void __launch_bounds__(RADIAL_THREADS) radial_cubic_kernel(radial_arrays a)
{
  const real piece[4][4] = MLFF_SPLINE_PIECES;
  const int64_t e = (int64_t) blockIdx.x * RADIAL_THREADS + threadIdx.x;
  if (e >= *a.n_edges) return;
  real *line = a.line + e * MLFF_PAINN_LINE;
  const real inverse_h = (real) (a.n / a.cutoff);
  const vector_of<4> vec = load_vector<4>(a.vec + 4 * e);
  const real r = vec.of[3], x = r * inverse_h, inverse = 1 / r;
  int first = (int) x;
  if (first >= a.n) first = a.n - 1; /* r rounded up to the cutoff */
  const real t = x - (real) first;
  vector_of<4> coef, slope;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const real c1 = piece[1][k], c2 = piece[2][k], c3 = piece[3][k];
    coef.of[k] = ((c3 * t + c2) * t + c1) * t + piece[0][k];
    slope.of[k] = ((3 * c3 * t + 2 * c2) * t + c1) * inverse_h;
  }
  const vector_of<4> unit = {{vec.of[0] * inverse, vec.of[1] * inverse, vec.of[2] * inverse, inverse}};
  store_vector<4>(line + LINE_COEF, coef);
  store_vector<4>(line + LINE_SLOPE, slope);
  store_vector<4>(line + LINE_UNIT, unit);
  const line_index index = {first + (first >= a.split ? 3 : 0), a.node[e], a.species[e], 0};
  line_store_index(line, index);
}

/* ---- Gaussian and Bessel functions with a cosine cutoff ---------------------------------------------------------- */

/* u, 1/r and indices of the line; terms[e] = (phi_k fc, fc at k = n, zeros), and their slopes by r.
 * One thread per edge; deterministic. Twin: fill_dense, fill_terms. */
__global__ void __launch_bounds__(RADIAL_THREADS) radial_dense_kernel(radial_arrays a)
{
  const int64_t e = (int64_t) blockIdx.x * RADIAL_THREADS + threadIdx.x;
  if (e >= *a.n_edges) return;
  real *line = a.line + e * MLFF_PAINN_LINE, *coef = a.terms + e * 2 * a.n_terms, *slope = coef + a.n_terms;
  const double pi = 3.14159265358979323846;
  const real r = a.vec[4 * e + 3], inverse = 1 / r;
  for (int c = 0; c < 3; c++) line[LINE_UNIT + c] = a.vec[4 * e + c] * inverse;
  line[LINE_INVERSE] = inverse;
  const line_index index = {0, a.node[e], a.species[e], 0};
  line_store_index(line, index);
  const double x = (double) r * pi / a.cutoff;
  const real fc = (real) (0.5 * cos(x) + 0.5), dfc = (real) (-0.5 * pi / a.cutoff * sin(x));
  for (int k = 0; k < a.n; k++) {
    real phi, dphi;
    if (a.kind == MLFF_PAINN_GAUSSIAN) {
      const real y = r - a.first[k], w = a.second[k];
      phi = real_exp((real) -0.5 * y * y * w);
      dphi = -y * w * phi;
    } else {
      const real f = a.first[k];
      phi = real_sin(f * r) * inverse;
      dphi = (f * real_cos(f * r) - phi) * inverse;
    }
    coef[k] = phi * fc;
    slope[k] = dphi * fc + phi * dfc;
  }
  coef[a.n] = fc;
  slope[a.n] = dfc;
  for (int k = a.n + 1; k < a.n_terms; k++) coef[k] = slope[k] = 0;
}

} // namespace

mlff_status MLFF_CUDA(painn_radial_cuda)(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                         mlff_painn_radial *radial, mlff_error *error)
{
  const size_t n = (size_t) edges->n_room;
  const bool cubic = basis->kind == MLFF_PAINN_CUBIC;
  MLFF_TRY(mlff_buf_reserve(backend, &radial->line, n * MLFF_PAINN_LINE * sizeof(real), error));
  if (!cubic)
    MLFF_TRY(mlff_buf_reserve(backend, &radial->terms, n * 2 * (size_t) basis->n_terms * sizeof(real), error));
  radial_arrays a;
  memset(&a, 0, sizeof a);
  a.n_edges = (const int64_t *) edges->row.data + edges->n_local;
  a.vec = (const real *) edges->vec.data;
  a.node = (const int32_t *) edges->node.data;
  a.species = (const int32_t *) edges->species.data;
  a.line = (real *) radial->line.data;
  a.terms = (real *) radial->terms.data;
  a.first = (const real *) basis->first.data;
  a.second = (const real *) basis->second.data;
  a.cutoff = basis->cutoff;
  a.kind = (int) basis->kind;
  a.n = basis->n;
  a.split = basis->split ? basis->split : basis->n;
  a.n_terms = basis->n_terms;
  const unsigned n_blocks = mlff_cuda_blocks(edges->n_room, RADIAL_THREADS);
  if (cubic)
    MLFF_LAUNCH_INDEPENDENT(backend, radial_cubic_kernel, n_blocks, RADIAL_THREADS, a);
  else
    MLFF_LAUNCH_INDEPENDENT(backend, radial_dense_kernel, n_blocks, RADIAL_THREADS, a);
  return MLFF_OK;
}
