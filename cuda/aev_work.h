/* aev_work.h: the workspace of a centre of aev.cu, and its edges there, ordered by species. */
#ifndef MLFF_CUDA_AEV_WORK_H
#define MLFF_CUDA_AEV_WORK_H

#include "aev.h"
#include "vectors.h"

enum { STRIDE = WARP + 1 }; /* of factors of 32 lanes in shared memory */

namespace { /* structures and kernels differ between element types */

typedef struct aev_arrays {
  int64_t n_rows, ld, bytes; /* bytes: of a centre's workspace */
  const int64_t *row;
  const real *vec; /* [n_edges][4] */
  const int32_t *species, *centers, *compact;
  const real *radial_shift, *angular_shift;
  const real *section_cos, *section_sin, *rest_cos,
      *rest_sin; /* of theta_z / 2; the rests: what rounding to real took */
  real *rows;    /* [n_rows][ld]; backward [n_parts][n_rows][ld] */
  real *grad;    /* [n_edges][4] */
  char *scratch; /* NULL: workspaces are in shared memory */
  cutoff radial_cutoff, angular_cutoff;
  split scale;
  real radial_eta, radial_prefactor, angular_eta, angular_zeta, angular_prefactor, unused_real;
  int n_used, n_radial, n_angular, n_sections, longest, n_warps; /* n_warps: of a centre */
  int n_parts, n_columns;                                        /* 0 forward */
} aev_arrays;

enum { N_REALS = 8 }; /* arrays of [longest] of them */

/* A centre's workspace; every warp of it has factors of its own. */
typedef struct work {
  real *row;                           /* [n_columns] backward: dE/dAEV */
  real *ux, *uy, *uz, *r, *fc, *slope; /* [longest] near neighbours, ordered by species; slope: backward */
  real *factors;                       /* [n_sections + n_angular][STRIDE] f1 and f2 of 32 triples, or f2 of 32 lanes */
  real *length;                        /* [longest] of all edges, as in the list */
  real *radial_r, *radial_fc; /* [longest] of all edges, ordered by species: forward, radial_r where slope is */
  int *edge;                  /* [longest] edge of a near neighbour, from the centre's first */
  int *kind;                  /* [longest] species of all edges, as in the list */
  int *first, *radial_first;  /* [n_used + 1] where a species starts: near neighbours, all edges */
} work;

/* Bytes of a workspace: as work_of lays it out. */
static inline size_t workspace(const aev_arrays &a)
{
  const size_t n_factors = (size_t) a.n_warps * (size_t) (a.n_sections + a.n_angular) * STRIDE;
  const size_t n_reals = (size_t) a.longest * N_REALS + n_factors + (size_t) a.n_columns;
  const size_t bytes = n_reals * sizeof(real) + 2 * ((size_t) a.longest + (size_t) a.n_used + 1) * sizeof(int);
  return (bytes + 255) / 256 * 256;
}

MLFF_DEVICE work work_of(const aev_arrays &a, char *base, int warp)
{
  const int n_factors = (a.n_sections + a.n_angular) * STRIDE;
  work w;
  real *at = (real *) (void *) base;
  w.row = at;
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

/* Waits for the warps of a centre. */
template <int WARPS> MLFF_DEVICE void sync_warps()
{
  if (WARPS > 1)
    __syncthreads();
  else
    __syncwarp();
}

/* Species and lengths of the edges of a centre, which start at e0, by all of its threads, so that all reads are on
 * their way at once. */
template <int WARPS> MLFF_DEVICE void load_edges(const aev_arrays &a, const work &w, int64_t e0, int n_edges)
{
  for (int k = (int) threadIdx.x; k < n_edges; k += WARPS * WARP) {
    w.kind[k] = a.compact[a.species[e0 + k]];
    w.length[k] = a.vec[4 * (e0 + k) + 3];
  }
  sync_warps<WARPS>();
}

/* Places of the edges shorter than rc, ordered by species and then as in the list: to(place, k) for each of them, and
 * first[s]. By a warp. Twin: load_near. */
template <typename F>
MLFF_DEVICE void order_edges(const aev_arrays &a, const work &w, int n_edges, int lane, real rc, int *first, F to)
{
  int n = 0;
  for (int s = 0; s < a.n_used; s++) {
    if (lane == 0) first[s] = n;
    for (int k0 = 0; k0 < n_edges; k0 += WARP) {
      const int k = k0 + lane;
      const bool own = k < n_edges && w.kind[k] == s && w.length[k] < rc;
      const unsigned votes = __ballot_sync(FULL_WARP, own);
      if (own) to(n + __popc(votes & ((1u << lane) - 1)), k);
      n += __popc(votes);
    }
  }
  if (lane == 0) first[a.n_used] = n;
  __syncwarp();
}

/* Near neighbours of the centre. By a warp. */
template <int IS_BACKWARD>
MLFF_DEVICE void load_near(const aev_arrays &a, const work &w, int64_t e0, int n_edges, int lane)
{
  order_edges(a, w, n_edges, lane, a.angular_cutoff.rc.high, w.first, [&](int q, int k) { w.edge[q] = k; });
  for (int q = lane; q < w.first[a.n_used]; q += WARP) {
    const vector_of<4> v = load_vector<4>(a.vec + 4 * (e0 + w.edge[q]));
    const real inverse = (real) 1 / v.of[3];
    real slope;
    w.ux[q] = v.of[0] * inverse;
    w.uy[q] = v.of[1] * inverse;
    w.uz[q] = v.of[2] * inverse;
    w.r[q] = v.of[3];
    w.fc[q] = cutoff_value(v.of[3], a.angular_cutoff, &slope);
    if (IS_BACKWARD) w.slope[q] = slope;
  }
  __syncwarp();
}

} // namespace

#endif
