/* painn.cu: radial part of PaiNN on the GPU. Twin: cpu/painn.c.
 *
 * Other ops: painn_moments.cu (first layer), painn_message.cu (other layers), painn_mix.cu (updates of atoms, readout).
 */
#include "painn.h"

enum { RADIAL_THREADS = 128 };

namespace { /* kernels and their arguments differ between element types */

typedef struct radial_arrays {
  const int64_t *n_edges; /* on the device: a captured step only knows the capacity */
  line_source source;
  const int32_t *species;
  real *line, *terms; /* [n_edges][MLFF_PAINN_LINE], [n_edges][2][n_terms] */
  const real *first, *second;
  double cutoff;
  int kind, n, n_terms, unused;
} radial_arrays;

/* ---- cubic B-splines --------------------------------------------------------------------------------------------- */

/* line[e] = make_line(e), tagged with the species of the neighbor. One thread per edge; deterministic. Twin:
 * fill_cubic. */
__global__ void __launch_bounds__(RADIAL_THREADS) edge_lines_kernel(radial_arrays a)
{
  grid_dependency_wait();
  const int64_t e = (int64_t) blockIdx.x * RADIAL_THREADS + threadIdx.x;
  if (e >= *a.n_edges) return;
  const edge_line computed = make_line(a.source, e, a.species[e]);
  real *line = a.line + e * MLFF_PAINN_LINE;
  store_vector<4>(line + LINE_COEF, computed.coef);
  store_vector<4>(line + LINE_SLOPE, computed.slope);
  store_vector<4>(line + LINE_UNIT, computed.unit);
  int4 index;
  index.x = computed.row;
  index.y = computed.node;
  index.z = computed.tag;
  index.w = 0;
  *(int4 *) (void *) (line + LINE_INDEX) = index;
}

typedef struct pair_arrays {
  const int64_t *row;
  const int32_t *center_species, *slot;
  real *line;
  int32_t n_local, n_slots, pair_rows, unused;
} pair_arrays;

/* pair = slot of the center * n_slots + slot of the neighbor, first row += pair * pair_rows. A warp owns a center, a
 * lane every 32nd of its edges; deterministic. Twin: add_pairs. */
__global__ void __launch_bounds__(RADIAL_THREADS) edge_pairs_kernel(pair_arrays a)
{
  grid_dependency_wait();
  const int64_t i = (int64_t) blockIdx.x * (RADIAL_THREADS / WARP) + threadIdx.x / WARP;
  if (i >= a.n_local) return;
  const int64_t begin = a.row[i] + threadIdx.x % WARP, end = a.row[i + 1];
  const int32_t center = begin < end ? a.slot[a.center_species[i]] : -1;
  for (int64_t e = begin; e < end; e += WARP) {
    int4 *index = (int4 *) (void *) (a.line + e * MLFF_PAINN_LINE + LINE_INDEX);
    const int32_t neighbor = a.slot[index->z];
    if (center < 0 || neighbor < 0) continue;
    index->w = center * a.n_slots + neighbor;
    index->x += index->w * a.pair_rows;
  }
}

/* ---- Gaussian and Bessel functions with a cosine cutoff ---------------------------------------------------------- */

/* terms[e] = (phi_k fc, fc at k = n, zeros), and their derivatives by r. One thread per edge; deterministic.
 * Twin: fill_dense, fill_terms. */
__global__ void __launch_bounds__(RADIAL_THREADS) radial_dense_kernel(radial_arrays a)
{
  grid_dependency_wait();
  const int64_t e = (int64_t) blockIdx.x * RADIAL_THREADS + threadIdx.x;
  if (e >= *a.n_edges) return;
  real *coef = a.terms + e * 2 * a.n_terms, *slope = coef + a.n_terms;
  const double pi = 3.14159265358979323846;
  const real r = a.source.vec[4 * e + 3], inverse = 1 / r;
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

static radial_arrays arrays_of(const mlff_painn_basis *basis, const mlff_edges *edges, const mlff_painn_radial *radial)
{
  radial_arrays a;
  memset(&a, 0, sizeof a);
  a.n_edges = (const int64_t *) edges->row.data + edges->n_local;
  a.source = line_source_of(edges, radial, basis->n_terms, 1);
  a.species = (const int32_t *) edges->species.data;
  a.line = (real *) radial->line.data;
  a.terms = (real *) radial->terms.data;
  a.first = (const real *) basis->first.data;
  a.second = (const real *) basis->second.data;
  a.cutoff = basis->cutoff;
  a.kind = (int) basis->kind;
  a.n = basis->n;
  a.n_terms = basis->n_terms;
  return a;
}

static mlff_painn_spline spline_of(const mlff_painn_basis *basis)
{
  const mlff_painn_spline none = {0.0, 0, 0}, spline = {basis->cutoff, basis->n, basis->split};
  return basis->kind == MLFF_PAINN_CUBIC ? spline : none;
}

mlff_status MLFF_CUDA(edge_lines_cuda)(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                       mlff_painn_radial *radial, mlff_error *error)
{
  const size_t n = (size_t) edges->n_room;
  radial->spline = spline_of(basis);
  MLFF_TRY(mlff_buf_reserve(backend, &radial->line, n * MLFF_PAINN_LINE * sizeof(real), error));
  MLFF_LAUNCH_INDEPENDENT(backend, edge_lines_kernel, mlff_cuda_blocks(edges->n_room, RADIAL_THREADS), RADIAL_THREADS,
                          arrays_of(basis, edges, radial));
  if (!basis->slot) return MLFF_OK;
  pair_arrays a;
  memset(&a, 0, sizeof a);
  a.row = (const int64_t *) edges->row.data;
  a.center_species = (const int32_t *) edges->center_species.data;
  a.slot = basis->slot;
  a.line = (real *) radial->line.data;
  a.n_local = edges->n_local;
  a.n_slots = basis->n_slots;
  a.pair_rows = basis->pair_rows;
  MLFF_LAUNCH(backend, edge_pairs_kernel, mlff_cuda_blocks(a.n_local, RADIAL_THREADS / WARP), RADIAL_THREADS, 0, a);
  return MLFF_OK;
}

mlff_status MLFF_CUDA(painn_radial_cuda)(mlff_backend *backend, const mlff_painn_basis *basis, const mlff_edges *edges,
                                         mlff_painn_radial *radial, mlff_error *error)
{
  const size_t n = (size_t) edges->n_room;
  radial->spline = spline_of(basis);
  if (radial->spline.n) return MLFF_OK;
  MLFF_TRY(mlff_buf_reserve(backend, &radial->terms, n * 2 * (size_t) basis->n_terms * sizeof(real), error));
  MLFF_LAUNCH_INDEPENDENT(backend, radial_dense_kernel, mlff_cuda_blocks(edges->n_room, RADIAL_THREADS), RADIAL_THREADS,
                          arrays_of(basis, edges, radial));
  return MLFF_OK;
}
