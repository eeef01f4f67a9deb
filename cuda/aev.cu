/* aev.cu: atomic environment vectors (AEV) of ANI and their gradients on the GPU. Twin: cpu/aev.c, which explains the
 * formulas: f1[z], f2[a], the half-angle form of the cosine, K = dE/dcos.
 *
 *   G_R[t][s] = sum_{j of t} p exp(-eta (r_j - R_s)^2) fc(r_j)
 *   G_A[t,u][a][z] = sum_{j of t, k of u} f2[a] f1[z],  f1[z] = ((1 + cos(theta - theta_z)) / 2)^zeta,
 *   f2[a] = p fc(r_j) fc(r_k) exp(-eta ((r_j + r_k) / 2 - R_a)^2)
 *
 * A warp owns a center. Its workspace holds its edges sorted by species: those within the angular cutoff and, forward,
 * all of them. Forward, lanes compute the factors of 32 triples, then each lane owns columns. Backward, a lane owns a
 * neighbor and loops over all others: each triple is computed from both ends, so nothing is scattered. In small systems
 * AEV_WARPS warps split the work of a center: forward its blocks of columns, backward the second neighbor of triples.
 *
 * This file is longer than 500 lines because its kernels share one workspace.
 */
#include "vectors.h"

#include <cstdlib>

enum { MAX_SHARED = 48 * 1024, MAX_GRID = 4096, AEV_WARPS = 4 };
enum { AEV_RESIDENT = MLFF_REAL_IS_DOUBLE ? 12 : 16 }; /* minimum number of resident warps of a multiprocessor */
enum { STRIDE = WARP + 1 };                            /* of the factors of 32 lanes: no bank conflicts */

namespace { /* structures and kernels differ between element types */

/* A constant as the sum of two reals: rounding it to float would bias every atom in the same direction. */
typedef struct split {
  real high, low;
} split;

/* A cutoff function fc(r) = (cos(pi r / rc) + 1) / 2. */
typedef struct cutoff {
  split rc, factor; /* pi / (2 rc) */
  real slope;       /* -pi / rc */
} cutoff;

static inline split split_of(double x)
{
  const split s = {(real) x, (real) (x - (double) (real) x)};
  return s;
}

static inline cutoff cutoff_of(double rc)
{
  const double pi = 3.14159265358979323846;
  const cutoff c = {split_of(rc), split_of(pi / (2 * rc)), (real) (-pi / rc)};
  return c;
}

/* ---- workspace of a center --------------------------------------------------------------------------------------- */

typedef struct aev_arrays {
  int64_t n_rows, ld, bytes; /* bytes of the workspace of a center */
  const int64_t *row;
  const real *vec; /* [n_edges][4] */
  const int32_t *species, *centers, *compact;
  const real *radial_shift, *angular_shift;
  /* cos and sin of theta_z / 2, and their rounding errors. */
  const real *section_cos, *section_sin, *cos_low, *sin_low;
  real *rows;    /* [n_rows][ld]; backward [n_parts][n_rows][ld] */
  real *grad;    /* [n_edges][4] */
  char *scratch; /* NULL: workspaces are in shared memory */
  cutoff radial_cutoff, angular_cutoff;
  split scale;
  real radial_eta, radial_prefactor, angular_eta, angular_zeta, angular_prefactor, unused_real;
  int n_used, n_radial, n_angular, n_sections, longest, n_warps; /* longest row; warps of a center */
  int n_parts, n_columns;                                        /* 0: forward */
} aev_arrays;

enum { N_REALS = 8 }; /* arrays [longest] of reals */

/* Workspace of a center; each of its warps has its own factors. */
typedef struct work {
  real *row;                           /* [n_columns] backward: dE/dAEV */
  real *ux, *uy, *uz, *r, *fc, *slope; /* [longest] near neighbors, sorted by species; slope: backward */
  real *factors;                       /* [n_sections + n_angular][STRIDE] f1 and f2 of 32 triples, or f2 of 32 lanes */
  real *length;                        /* [longest] of all edges, in list order */
  real *radial_r, *radial_fc;          /* [longest] of all edges, sorted by species: forward; radial_r aliases slope */
  int *edge;                           /* [longest] edge of a near neighbor, from the first edge of the center */
  int *kind;                           /* [longest] species of all edges, in list order */
  int *first, *radial_first;           /* [n_used + 1] start of each species: near neighbors, all edges */
} work;

/* Bytes of a workspace, as laid out by lay_out. */
static inline size_t workspace(const aev_arrays &a)
{
  const size_t n_factors = (size_t) a.n_warps * (size_t) (a.n_sections + a.n_angular) * STRIDE;
  const size_t n_reals = (size_t) a.longest * N_REALS + n_factors + (size_t) a.n_columns;
  const size_t bytes = n_reals * sizeof(real) + 2 * ((size_t) a.longest + (size_t) a.n_used + 1) * sizeof(int);
  return (bytes + 255) / 256 * 256;
}

MLFF_DEVICE work lay_out(const aev_arrays &a, char *base, int warp)
{
  const int n_factors = (a.n_sections + a.n_angular) * STRIDE;
  work w;
  w.row = (real *) (void *) base;
  w.ux = w.row + a.n_columns;
  w.uy = w.ux + a.longest;
  w.uz = w.uy + a.longest;
  w.r = w.uz + a.longest;
  w.fc = w.r + a.longest;
  w.slope = w.fc + a.longest;
  w.radial_r = w.slope;
  w.radial_fc = w.slope + a.longest;
  w.length = w.radial_fc + a.longest;
  w.factors = w.length + a.longest + warp * n_factors;
  w.edge = (int *) (void *) (w.length + a.longest + a.n_warps * n_factors);
  w.kind = w.edge + a.longest;
  w.first = w.kind + a.longest;
  w.radial_first = w.first + a.n_used + 1;
  return w;
}

/* fc(r) = sin(y)^2 with y = pi (rc - r) / (2 rc), and its derivative; both 0 from rc on. Twin: vcutoff. */
MLFF_DEVICE real cutoff_value(real r, const cutoff &c, real *slope)
{
  real inside = (c.rc.high - r) + c.rc.low;
  inside = inside > 0 ? inside : (real) 0;
  const real y = inside * c.factor.high + inside * c.factor.low, sine = real_sin(y), cosine = real_cos(y);
  *slope = sine * cosine * c.slope;
  return sine * sine;
}

/* Barrier of the warps of a center. */
template <int WARPS> MLFF_DEVICE void sync_warps()
{
  if (WARPS > 1)
    __syncthreads();
  else
    __syncwarp();
}

/* Loads species and lengths of the edges of a center, from e0 on, with all of its threads. */
template <int WARPS> MLFF_DEVICE void load_edges(const aev_arrays &a, const work &w, int64_t e0, int n_edges)
{
  for (int k = (int) threadIdx.x; k < n_edges; k += WARPS * WARP) {
    w.kind[k] = a.compact[a.species[e0 + k]];
    w.length[k] = a.vec[4 * (e0 + k) + 3];
  }
  sync_warps<WARPS>();
}

/* Sorts the edges shorter than rc by species, in list order within a species: store(place, k) for each of them, and
 * first[s]. Called by a warp. Twin: load_near. */
template <typename F>
MLFF_DEVICE void order_edges(const aev_arrays &a, const work &w, int n_edges, int lane, real rc, int *first, F store)
{
  int n = 0;
  for (int s = 0; s < a.n_used; s++) {
    if (lane == 0) first[s] = n;
    for (int k0 = 0; k0 < n_edges; k0 += WARP) {
      const int k = k0 + lane;
      const bool is_selected = k < n_edges && w.kind[k] == s && w.length[k] < rc;
      const unsigned votes = __ballot_sync(FULL_WARP, is_selected);
      if (is_selected) store(n + __popc(votes & ((1u << lane) - 1)), k);
      n += __popc(votes);
    }
  }
  if (lane == 0) first[a.n_used] = n;
  __syncwarp();
}

/* Loads the near neighbors of the center. Called by a warp. */
template <int IS_BACKWARD>
MLFF_DEVICE void load_near(const aev_arrays &a, const work &w, int64_t e0, int n_edges, int lane)
{
  order_edges(a, w, n_edges, lane, a.angular_cutoff.rc.high, w.first, [&](int q, int k) { w.edge[q] = k; });
  for (int q = lane; q < w.first[a.n_used]; q += WARP) {
    const vector_of<4> v = load_vector<4>(a.vec + 4 * (e0 + w.edge[q]));
    const real inverse = (real) 1 / v.v[3];
    real slope;
    w.ux[q] = v.v[0] * inverse;
    w.uy[q] = v.v[1] * inverse;
    w.uz[q] = v.v[2] * inverse;
    w.r[q] = v.v[3];
    w.fc[q] = cutoff_value(v.v[3], a.angular_cutoff, &slope);
    if (IS_BACKWARD) w.slope[q] = slope;
  }
  __syncwarp();
}

/* Numbers of sections and shifts of the angular columns at compile time; 0: they are arguments. */
template <int SECTIONS, int SHIFTS> struct static_sizes {
  enum { N_SECTIONS = SECTIONS, N_SHIFTS = SHIFTS };
  static __device__ __forceinline__ int sections(const aev_arrays &a) { return SECTIONS ? SECTIONS : a.n_sections; }
  static __device__ __forceinline__ int shifts(const aev_arrays &a) { return SHIFTS ? SHIFTS : a.n_angular; }
};

/* sin((theta - theta_z) / 2). Twin: section_sine. */
MLFF_DEVICE real section_sine(const aev_arrays &a, int z, real half_cos, real half_sin)
{
  const real rest = half_sin * a.cos_low[z] - half_cos * a.sin_low[z];
  return half_sin * a.section_cos[z] - (half_cos * a.section_sin[z] - rest);
}

/* ln((1 + cos(theta - theta_z)) / 2) from that sine; finite where the argument is 0. Twin: section_log. */
MLFF_DEVICE real section_log(real sine)
{
  const real most = MLFF_REAL_IS_DOUBLE ? (real) (1 - 0x1p-53) : (real) (1 - 0x1p-24), q = sine * sine;
  return real_log1p(-(q > most ? most : q));
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */
/* G_R[t][s] = sum_{j of t} p exp(-eta (r_j - R_s)^2) fc(r_j). A lane owns columns (t, s). Twin: radial_forward. */
MLFF_DEVICE void radial_forward(const aev_arrays &a, const work &w, int n_edges, int lane, real *row)
{
  order_edges(a, w, n_edges, lane, INFINITY, w.radial_first, [&](int q, int k) { w.radial_r[q] = w.length[k]; });
  for (int q = lane; q < w.radial_first[a.n_used]; q += WARP) {
    real unused;
    w.radial_fc[q] = a.radial_prefactor * cutoff_value(w.radial_r[q], a.radial_cutoff, &unused);
  }
  __syncwarp();
  for (int c = lane; c < a.n_used * a.n_radial; c += WARP) {
    const int t = c / a.n_radial, end = w.radial_first[t + 1];
    const real shift = a.radial_shift[c % a.n_radial];
    real sum = 0;
#pragma unroll 4
    for (int q = w.radial_first[t]; q < end; q++) {
      const real d = w.radial_r[q] - shift;
      sum += w.radial_fc[q] * real_exp(-a.radial_eta * d * d);
    }
    row[c] = sum;
  }
}

/* Pair number q of the triangle 0 <= j < k < n, row by row. */
MLFF_DEVICE void triangle_pair(int q, int n, int *j, int *k)
{
  const float b = 2.0f * (float) n - 1.0f;
  int row = (int) ((b - sqrtf(fmaxf(b * b - 8.0f * (float) q, 0.0f))) * 0.5f); /* corrected below */
  while (row > 0 && row * (2 * n - row - 1) / 2 > q) row--;
  while ((row + 1) * (2 * n - row - 2) / 2 <= q) row++;
  *j = row;
  *k = q - row * (2 * n - row - 1) / 2 + row + 1;
}

/* Stores f1[z] and f2[a] of the triple (j, k), or zeros, in the lane's column of factors. Twin: expand,
 * angular_factors. */
template <typename KNOWN>
MLFF_DEVICE void expand(const aev_arrays &a, const work &w, int inside, int j, int k, int lane)
{
  const int n_sections = KNOWN::sections(a), n_shifts = KNOWN::shifts(a);
  real *f1 = w.factors + lane, *f2 = f1 + n_sections * STRIDE;
  if (!inside) {
    for (int c = 0; c < n_sections + n_shifts; c++) f1[c * STRIDE] = 0;
    return;
  }
  const real half = (real) 0.5, dot = w.ux[j] * w.ux[k] + w.uy[j] * w.uy[k] + w.uz[j] * w.uz[k];
  const real cosine = a.scale.high * dot + a.scale.low * dot, mean_r = half * (w.r[j] + w.r[k]);
  const real weight = a.angular_prefactor * w.fc[j] * w.fc[k];
  const real half_cos = real_sqrt(half + half * cosine), half_sin = real_sqrt(half - half * cosine);
#pragma unroll KNOWN::N_SECTIONS ? KNOWN::N_SECTIONS : 1
  for (int z = 0; z < n_sections; z++)
    f1[z * STRIDE] = real_exp(a.angular_zeta * section_log(section_sine(a, z, half_cos, half_sin)));
#pragma unroll KNOWN::N_SHIFTS ? KNOWN::N_SHIFTS : 1
  for (int q = 0; q < n_shifts; q++) {
    const real d = mean_r - a.angular_shift[q];
    f2[q * STRIDE] = weight * real_exp(-a.angular_eta * d * d);
  }
}

/* columns[a][z] = sum over the triples of species t <= u of f2[a] f1[z]. Twin: angular_forward, flush. */
template <typename KNOWN>
MLFF_DEVICE void angular_forward(const aev_arrays &a, const work &w, int t, int u, int lane, real *columns)
{
  const int j0 = w.first[t], k0 = w.first[u], n_t = w.first[t + 1] - j0, n_u = w.first[u + 1] - k0;
  const int n = t == u ? n_t * (n_t - 1) / 2 : n_t * n_u; /* fits int up to 46340 neighbors */
  const int n_sections = KNOWN::sections(a), n_columns = KNOWN::shifts(a) * n_sections;
  for (int c = lane; c < n_columns; c += WARP) columns[c] = 0;
  for (int q0 = 0; q0 < n; q0 += WARP) {
    int j = 0, k = 0;
    if (q0 + lane < n && t == u) triangle_pair(q0 + lane, n_t, &j, &k);
    if (q0 + lane < n && t != u) {
      j = (q0 + lane) / n_u;
      k = (q0 + lane) % n_u;
    }
    expand<KNOWN>(a, w, q0 + lane < n, j0 + j, k0 + k, lane);
    __syncwarp();
    for (int c = lane; c < n_columns; c += WARP) {
      const real *f1 = w.factors + c % n_sections * STRIDE, *f2 = w.factors + (n_sections + c / n_sections) * STRIDE;
      real sum = 0;
#pragma unroll
      for (int p = 0; p < WARP; p++) sum += f2[p] * f1[p];
      columns[c] += sum;
    }
    __syncwarp();
  }
}

/* rows[k] = AEV of center centers[k], columns as in ops_ani.h. A block of WARPS warps loops over every gridDim-th
 * center. Its workspace is in shared memory, or in scratch [gridDim][bytes] if that is too small. The radial columns
 * and each pair of species belong to one warp, so sums do not depend on WARPS: deterministic. Twin: aev_forward_cpu. */
template <int SECTIONS, int SHIFTS, int SHARED, int WARPS>
__global__ void __launch_bounds__(WARP *WARPS, AEV_RESIDENT / WARPS) aev_forward_kernel(aev_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(char, shared);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const work w = lay_out(a, SHARED ? shared : a.scratch + blockIdx.x * a.bytes, warp);
  for (int64_t k = blockIdx.x; k < a.n_rows; k += gridDim.x) {
    const int64_t e0 = a.row[a.centers[k]];
    const int n_edges = (int) (a.row[a.centers[k] + 1] - e0);
    real *columns = a.rows + k * a.ld;
    int n_blocks = 0;
    load_edges<WARPS>(a, w, e0, n_edges);
    if (warp == 0) load_near<0>(a, w, e0, n_edges, lane);
    if (warp == WARPS - 1) radial_forward(a, w, n_edges, lane, columns);
    sync_warps<WARPS>();
    columns += a.n_used * a.n_radial;
    for (int t = 0; t < a.n_used; t++)
      for (int u = t; u < a.n_used; u++, columns += a.n_angular * a.n_sections)
        if (n_blocks++ % WARPS == warp) angular_forward<static_sizes<SECTIONS, SHIFTS>>(a, w, t, u, lane, columns);
    sync_warps<WARPS>();
  }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* grad[e] = D_e/r sum_s g_s p (fc' - 2 eta (r - R_s) fc) exp(-eta (r - R_s)^2). A thread owns every step-th edge. Twin:
 * radial_backward. */
MLFF_DEVICE void radial_backward(const aev_arrays &a, const work &w, int64_t e0, int n_edges, int thread, int step)
{
  for (int k = thread; k < n_edges; k += step) {
    const vector_of<4> v = load_vector<4>(a.vec + 4 * (e0 + k));
    const real r = v.v[3], *g = w.row + w.kind[k] * a.n_radial;
    real slope, sum = 0;
    const real fc = cutoff_value(r, a.radial_cutoff, &slope);
    for (int s = 0; s < a.n_radial; s++) {
      const real d = r - a.radial_shift[s];
      sum += g[s] * (slope - 2 * a.radial_eta * d * fc) * real_exp(-a.radial_eta * d * d);
    }
    const real dE_dr_over_r = a.radial_prefactor * sum / r;
    const vector_of<4> grad = {{dE_dr_over_r * v.v[0], dE_dr_over_r * v.v[1], dE_dr_over_r * v.v[2], 0}};
    store_vector<4>(a.grad + 4 * (e0 + k), grad);
  }
}

/* Sums over the triples of a neighbor: f = sum K u_other, sum K cos, sum dE/dr. */
typedef struct near_sums {
  real fx, fy, fz, sum_cos, dE_dr;
} near_sums;

/* Adds the triple (j, k) to the sums of j; g: gradient of the columns of its species. f2 is in registers if its size is
 * known at compile time, otherwise in the lane's column of factors:
 *   v = sum f2 g f1,  v_r = sum df2/dr g f1,  v_t = sum f2 g df1/dtheta   (f2 without w here)
 *   K = dE/dcos = -w v_t s / sin(theta),  dE/dr_j = w v_r + dw/dr_j v. Twin: angular_gradients, scatter_gradients. */
template <typename KNOWN>
MLFF_DEVICE void gather_triple(const aev_arrays &a, const work &w, int j, int k, const real *g, int lane,
                               near_sums *sums)
{
  enum { IS_KNOWN = KNOWN::N_SHIFTS > 0, STEP = IS_KNOWN ? 1 : STRIDE };
  const int n_sections = KNOWN::sections(a), n_shifts = KNOWN::shifts(a);
  const real half = (real) 0.5, eta = a.angular_eta, zeta = a.angular_zeta;
  const real dot = w.ux[j] * w.ux[k] + w.uy[j] * w.uy[k] + w.uz[j] * w.uz[k];
  const real cosine = a.scale.high * dot + a.scale.low * dot, mean_r = half * (w.r[j] + w.r[k]);
  const real half_cos = real_sqrt(half + half * cosine), half_sin = real_sqrt(half - half * cosine);
  real value = 0, by_r = 0, by_theta = 0, registers[IS_KNOWN ? KNOWN::N_SHIFTS : 1];
  real *const f2 = IS_KNOWN ? registers : w.factors + lane;
#pragma unroll IS_KNOWN ? KNOWN::N_SHIFTS : 1
  for (int q = 0; q < n_shifts; q++) {
    const real d = mean_r - a.angular_shift[q];
    f2[q * STEP] = real_exp(-eta * d * d);
  }
#pragma unroll IS_KNOWN ? KNOWN::N_SECTIONS : 1
  for (int z = 0; z < n_sections; z++) {
    const real sine = section_sine(a, z, half_cos, half_sin);
    const real other = half_cos * a.section_cos[z] + half_sin * a.section_sin[z]; /* cos((theta - theta_z) / 2) */
    const real power = real_exp((zeta - 1) * section_log(sine));
    const real f1 = power * (other * other), df1 = -zeta * power * sine * other;
    real sum = 0, sum_r = 0;
#pragma unroll IS_KNOWN ? KNOWN::N_SHIFTS : 1
    for (int q = 0; q < n_shifts; q++) {
      const real gf2 = g[q * n_sections + z] * f2[q * STEP];
      sum += gf2;
      sum_r -= eta * (mean_r - a.angular_shift[q]) * gf2;
    }
    value += f1 * sum;
    by_r += f1 * sum_r;
    by_theta += df1 * sum;
  }
  const real weight = a.angular_prefactor * w.fc[j] * w.fc[k], weight_j = a.angular_prefactor * w.slope[j] * w.fc[k];
  const real dE_dcos = -half * a.scale.high * weight * by_theta / (half_sin * half_cos);
  sums->fx += dE_dcos * w.ux[k];
  sums->fy += dE_dcos * w.uy[k];
  sums->fz += dE_dcos * w.uz[k];
  sums->sum_cos += dE_dcos * dot;
  sums->dE_dr += weight * by_r + weight_j * value;
}

/* Offset of the block of species t <= u from the end of the radial columns. */
MLFF_DEVICE int angular_block(const aev_arrays &a, int t, int u)
{
  const int low = t < u ? t : u, high = t < u ? u : t;
  return (low * a.n_used - low * (low - 1) / 2 + high - low) * a.n_angular * a.n_sections;
}

/* Adds the sums of all warps to those of warp 0, in order. Called by all threads of the block. */
template <int WARPS> MLFF_DEVICE void sum_warps(int warp, int lane, near_sums *sums)
{
  MLFF_SHARED(near_sums, partial, (WARPS - 1) * WARP);
  if (warp) partial[(warp - 1) * WARP + lane] = *sums;
  __syncthreads();
  for (int s = 0; s < WARPS - 1 && warp == 0; s++) {
    const near_sums &part = partial[s * WARP + lane];
    sums->fx += part.fx;
    sums->fy += part.fy;
    sums->fz += part.fz;
    sums->sum_cos += part.sum_cos;
    sums->dE_dr += part.dE_dr;
  }
  __syncthreads();
}

/* grad[e] += dE/dr u + (f - sum_cos u) / r for near neighbors. A lane owns neighbor j and loops over every WARPS-th
 * other neighbor, in order. Twin: for_all_triples, store_gradients. */
template <typename KNOWN, int WARPS>
MLFF_DEVICE void angular_backward(const aev_arrays &a, const work &w, int64_t e0, int warp, int lane, const real *row)
{
  const int n = w.first[a.n_used];
  for (int j0 = 0; j0 < n; j0 += WARP) {
    const int j = j0 + lane;
    near_sums sums = {0, 0, 0, 0, 0};
    int t = 0;
    while (j < n && w.first[t + 1] <= j) t++;
    for (int u = 0; u < a.n_used && j < n; u++) {
      const real *g = row + a.n_used * a.n_radial + angular_block(a, t, u);
      for (int k = w.first[u] + warp; k < w.first[u + 1]; k += WARPS)
        if (k != j) gather_triple<KNOWN>(a, w, j, k, g, lane, &sums);
    }
    if constexpr (WARPS > 1) sum_warps<WARPS>(warp, lane, &sums);
    if (warp || j >= n) continue;
    const real inverse = (real) 1 / w.r[j], radial = sums.dE_dr - sums.sum_cos * inverse;
    real *grad = a.grad + 4 * (e0 + w.edge[j]);
    grad[0] += radial * w.ux[j] + sums.fx * inverse;
    grad[1] += radial * w.uy[j] + sums.fy * inverse;
    grad[2] += radial * w.uz[j] + sums.fz * inverse;
  }
}

/* row[c] = sum over the parts of row k of column c, in order. Called by all threads of a center. */
MLFF_DEVICE void add_parts(const aev_arrays &a, int64_t k, real *row)
{
  const int64_t step = a.n_rows * a.ld;
  for (int c = (int) threadIdx.x; c < a.n_columns; c += (int) blockDim.x) {
    const real *part = a.rows + k * a.ld + c;
    real sum = *part;
#pragma unroll 8
    for (int p = 1; p < a.n_parts; p++) sum += part[p * step];
    row[c] = sum;
  }
}

/* grad[e] = dE/dD_e of the edges of centers[k] from the sum of the parts of rows[k] = dE/dAEV. Grid and workspace as in
 * aev_forward_kernel; deterministic. Twin: aev_backward_cpu. */
template <int SECTIONS, int SHIFTS, int SHARED, int WARPS>
__global__ void __launch_bounds__(WARP *WARPS, AEV_RESIDENT / WARPS) aev_backward_kernel(aev_arrays a)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(char, shared);
  const int lane = (int) threadIdx.x % WARP, warp = (int) threadIdx.x / WARP;
  const work w = lay_out(a, SHARED ? shared : a.scratch + blockIdx.x * a.bytes, warp);
  for (int64_t k = blockIdx.x; k < a.n_rows; k += gridDim.x) {
    const int64_t e0 = a.row[a.centers[k]];
    const int n_edges = (int) (a.row[a.centers[k] + 1] - e0);
    add_parts(a, k, w.row);
    load_edges<WARPS>(a, w, e0, n_edges);
    if (warp == 0) load_near<1>(a, w, e0, n_edges, lane);
    if (warp || WARPS == 1) /* concurrent with load_near */
      radial_backward(a, w, e0, n_edges, WARPS == 1 ? lane : (int) threadIdx.x - WARP,
                      WARPS == 1 ? WARP : (WARPS - 1) * WARP);
    sync_warps<WARPS>();
    angular_backward<static_sizes<SECTIONS, SHIFTS>, WARPS>(a, w, e0, warp, lane, w.row);
    sync_warps<WARPS>();
  }
}

} // namespace

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* Tables: radial shifts, angular shifts, then cos and sin of half the sections, and their rounding errors. */
static mlff_status upload_tables(mlff_backend *backend, mlff_aev *aev, const mlff_aev_constants *c, mlff_error *error)
{
  const size_t n_shifts = (size_t) c->n_radial + (size_t) c->n_angular, n = n_shifts + 4 * (size_t) c->n_sections;
  double *table = (double *) malloc(n * sizeof *table), *sections = table + n_shifts;
  if (!table) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for tables of the AEV");
  for (int k = 0; k < c->n_radial; k++) table[k] = c->radial_shifts[k];
  for (int k = 0; k < c->n_angular; k++) table[c->n_radial + k] = c->angular_shifts[k];
  for (int z = 0; z < c->n_sections; z++) {
    const split cosine = split_of(cos(c->angular_sections[z] / 2)), sine = split_of(sin(c->angular_sections[z] / 2));
    sections[z] = (double) cosine.high;
    sections[c->n_sections + z] = (double) sine.high;
    sections[2 * c->n_sections + z] = (double) cosine.low;
    sections[3 * c->n_sections + z] = (double) sine.low;
  }
  mlff_status status = mlff_buf_reserve(backend, &aev->tables, n * sizeof(real), error);
  if (!status) status = backend->ops->upload_reals(backend, aev->tables.data, table, (int64_t) n, error);
  free(table);
  return status;
}

mlff_status MLFF_CUDA(aev_setup_cuda)(mlff_backend *backend, mlff_aev *aev, const mlff_aev_constants *constants,
                                      int n_species, const int *use, mlff_error *error)
{
  const mlff_aev_constants *c = constants;
  const size_t bytes = (size_t) n_species * sizeof(int32_t);
  MLFF_TRY(mlff_buf_reserve(backend, &aev->compact, bytes, error));
  int32_t *compact = (int32_t *) malloc(bytes + 1);
  if (!compact) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for tables of the AEV");
  aev->constants = *c;
  aev->constants.radial_shifts = aev->constants.angular_shifts = aev->constants.angular_sections = NULL;
  aev->n_species = n_species;
  aev->n_used = 0;
  for (int s = 0; s < n_species; s++) compact[s] = use[s] ? aev->n_used++ : -1;
  aev->n_columns = aev->n_used * c->n_radial + aev->n_used * (aev->n_used + 1) / 2 * c->n_angular * c->n_sections;
  const mlff_status status = backend->ops->upload(backend, aev->compact.data, compact, bytes, error);
  free(compact);
  return status ? status : upload_tables(backend, aev, c, error);
}

static void fill_constants(const mlff_aev *aev, aev_arrays *a)
{
  const mlff_aev_constants *c = &aev->constants;
  a->radial_cutoff = cutoff_of(c->radial_cutoff);
  a->angular_cutoff = cutoff_of(c->angular_cutoff);
  a->scale = split_of(c->cos_scale);
  a->radial_eta = (real) c->radial_eta;
  a->radial_prefactor = (real) c->radial_prefactor;
  a->angular_eta = (real) c->angular_eta;
  a->angular_zeta = (real) c->angular_zeta;
  a->angular_prefactor = (real) c->angular_prefactor;
  a->n_used = aev->n_used;
  a->n_radial = c->n_radial;
  a->n_angular = c->n_angular;
  a->n_sections = c->n_sections;
  a->compact = (const int32_t *) aev->compact.data;
  a->radial_shift = (const real *) aev->tables.data;
  a->angular_shift = a->radial_shift + c->n_radial;
  a->section_cos = a->angular_shift + c->n_angular;
  a->section_sin = a->section_cos + c->n_sections;
  a->cos_low = a->section_sin + c->n_sections;
  a->sin_low = a->cos_low + c->n_sections;
}

/* Arguments of both kernels. A workspace that does not fit shared memory is in scratch. n_parts: 0 forward. */
static mlff_status prepare(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args, int n_parts, aev_arrays *a,
                           unsigned *n_blocks, size_t *shared, mlff_error *error)
{
  const mlff_edges *edges = args->edges;
  memset(a, 0, sizeof *a);
  fill_constants(aev, a);
  a->n_rows = args->n_rows;
  a->n_parts = n_parts;
  a->n_columns = n_parts ? aev->n_columns : 0;
  a->ld = args->ld;
  a->row = (const int64_t *) edges->row.data;
  a->vec = (const real *) edges->vec.data;
  a->species = (const int32_t *) edges->species.data;
  a->centers = args->centers;
  a->rows = (real *) args->rows;
  a->grad = (real *) args->grad;
  a->longest =
      (edges->longest_row + WARP - 1) / WARP * WARP; /* rounded up, so that similar lists can share a captured step */
  const bool is_known = (a->n_sections == 4 && a->n_angular == 8) || (a->n_sections == 8 && a->n_angular == 4);
  a->n_warps = is_known && mlff_cuda_is_small_system(mlff_cuda_of(backend), edges->n_local) ? AEV_WARPS : 1;
  if (workspace(*a) > MAX_SHARED - (AEV_WARPS - 1) * WARP * sizeof(near_sums)) a->n_warps = 1;
  a->bytes = (int64_t) workspace(*a);
  *n_blocks = (unsigned) (a->n_rows < MAX_GRID ? a->n_rows : (int64_t) MAX_GRID);
  *shared = (size_t) a->bytes;
  if (*shared <= MAX_SHARED) return MLFF_OK;
  *shared = 16; /* unused */
  MLFF_TRY(mlff_buf_reserve(backend, &aev->scratch, *n_blocks * (size_t) a->bytes, error));
  a->scratch = (char *) aev->scratch.data;
  return MLFF_OK;
}

/* Kernels compiled for the sizes of ANI-2x (4 sections, 8 shifts) and ANI-1x (8, 4), and generic ones. */
#define AEV_KERNEL(kernel, a)                                                                                        \
  ((a).scratch                                 ? kernel<0, 0, 0, 1>                                                  \
   : (a).n_sections == 4 && (a).n_angular == 8 ? ((a).n_warps > 1 ? kernel<4, 8, 1, AEV_WARPS> : kernel<4, 8, 1, 1>) \
   : (a).n_sections == 8 && (a).n_angular == 4 ? ((a).n_warps > 1 ? kernel<8, 4, 1, AEV_WARPS> : kernel<8, 4, 1, 1>) \
                                               : kernel<0, 0, 1, 1>)

mlff_status MLFF_CUDA(aev_forward_cuda)(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args,
                                        mlff_error *error)
{
  aev_arrays a;
  unsigned n_blocks;
  size_t shared;
  MLFF_TRY(prepare(backend, aev, args, 0, &a, &n_blocks, &shared, error));
  mlff_cuda_launch(backend, "aev_forward_kernel", 0, AEV_KERNEL(aev_forward_kernel, a), n_blocks,
                   (unsigned) (WARP * a.n_warps), shared, a);
  return MLFF_OK;
}

mlff_status MLFF_CUDA(aev_backward_cuda)(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args,
                                         mlff_error *error)
{
  aev_arrays a;
  unsigned n_blocks;
  size_t shared;
  MLFF_TRY(prepare(backend, aev, args, args->n_parts, &a, &n_blocks, &shared, error));
  mlff_cuda_launch(backend, "aev_backward_kernel", 0, AEV_KERNEL(aev_backward_kernel, a), n_blocks,
                   (unsigned) (WARP * a.n_warps), shared, a);
  return MLFF_OK;
}
