/* nequip_couplings.h: paths and couplings of NequIP messages in the shared memory of a block, and the Clebsch-Gordan
 * coefficients as constants of the code. For nequip_message.cu alone.
 */
#ifndef MLFF_CUDA_NEQUIP_COUPLINGS_H
#define MLFF_CUDA_NEQUIP_COUPLINGS_H

#include "nequip.h"

#include <utility>

#define MLFF_CG_TABLE static constexpr
#include "../src/mlff/backend/nequip_cg.h"

enum { MOST_PATHS = 34 }; /* of orders up to 3 */

namespace { /* differs between element types */

/* Clebsch-Gordan coefficients of a triple, as constants of the code: each is known where it is used. */
template <int L1, int L2, int L3> struct coefficients;
template <int L1, int L2, int L3, int Q> struct coefficient;
#define COEFFICIENTS(l1, l2, l3, n)                                 \
  template <> struct coefficients<l1, l2, l3> {                     \
    using all = std::make_integer_sequence<int, n>;                 \
  };                                                                \
  template <int Q> struct coefficient<l1, l2, l3, Q> {              \
    static constexpr mlff_cg_entry value = mlff_cg_##l1##l2##l3[Q]; \
  };
MLFF_CG_TRIPLES(COEFFICIENTS)

/* Reals that K of a path takes in shared memory: none where it is the identity. */
MLFF_DEVICE int coupling_room(const mlff_nequip_path &p)
{
  return p.l2 == 0 ? 0 : ((2 * p.l1 + 1) * (2 * p.l3 + 1) + 3) / 4 * 4;
}

/* Brings the paths to shared memory in the order of l1, those of an l1 from first[l1] on, with `coupling` the place in
 * shared memory. All threads call it. */
MLFF_DEVICE void bring_paths(const mlff_nequip_path *from, int n_paths, mlff_nequip_path *scratch,
                             mlff_nequip_path *paths, int *first)
{
  const int t = (int) threadIdx.x;
  if (t < n_paths) scratch[t] = from[t];
  __syncthreads();
  if (t < n_paths) {
    mlff_nequip_path p = scratch[t];
    int place = 0;
    p.coupling = MLFF_NEQUIP_HARMONICS;
    for (int q = 0; q < n_paths; q++) {
      if (scratch[q].l1 > p.l1 || (scratch[q].l1 == p.l1 && q >= t)) continue;
      p.coupling += coupling_room(scratch[q]);
      place++;
    }
    paths[place] = p;
  }
  if (t <= MLFF_NEQUIP_ORDERS) {
    first[t] = 0;
    for (int q = 0; q < n_paths; q++) first[t] += scratch[q].l1 < t;
  }
  __syncthreads();
}

/* sum[i][k] += c_ijk y[j] for coefficient Q */
template <int L1, int L2, int L3, int Q> MLFF_DEVICE void couple_one(const real *y, vec *sum)
{
  constexpr mlff_cg_entry c = coefficient<L1, L2, L3, Q>::value;
  constexpr int x = c.i * (2 * L3 + 1) + c.k, j = L2 * L2 + c.j;
  constexpr real value = (real) c.c;
  sum[x / VEC].v[x % VEC] += value * y[j];
}

template <int L1, int L2, int L3, int... Q>
MLFF_DEVICE void couple_all(const real *y, vec *sum, std::integer_sequence<int, Q...>)
{
  (couple_one<L1, L2, L3, Q>(y, sum), ...);
}

/* k[i][k'] = sum_j c_ijk' Y_j of a path; y: harmonics of the edge */
template <int L1, int L2, int L3> MLFF_DEVICE void couple(const real *y, real *k)
{
  constexpr int n = (2 * L1 + 1) * (2 * L3 + 1), n_vecs = (n + VEC - 1) / VEC;
  vec sum[n_vecs];
#pragma unroll
  for (int x = 0; x < n_vecs; x++) sum[x] = vec_zero();
  couple_all<L1, L2, L3>(y, sum, typename coefficients<L1, L2, L3>::all());
#pragma unroll
  for (int x = 0; x < n_vecs; x++) vec_store(k + x * VEC, sum[x]);
}

#define COUPLE(l1, l2, l3, n)                                      \
  case 16 * (l1) + 4 * (l2) + (l3):                                \
    if constexpr ((l2) > 0) couple<l1, l2, l3>(y, y + p.coupling); \
    break;

/* Harmonics [16] of edges e .. e + n, n <= 32, and behind them K of all paths, `stride` apart: a lane owns an edge,
 * warps take turns at paths. All threads call it. The harmonics go through shared memory because all products of the
 * coefficients with them would be taken out of the loop otherwise, into more registers than there are. */
MLFF_DEVICE void make_couplings(const mlff_nequip_path *paths, int n_paths, const real *lines, int64_t e, int n,
                                real *couplings, int stride)
{
  const int lane = (int) threadIdx.x % WARP;
  real *y = couplings + lane * stride;
  if ((int) threadIdx.x < n) mlff_nequip_harmonics(lines + (e + lane) * MLFF_PAINN_LINE + LINE_UNIT, y);
  __syncthreads();
  for (int q = (int) threadIdx.x / WARP; lane < n && q < n_paths; q += (int) blockDim.x / WARP) {
    const mlff_nequip_path &p = paths[q];
    switch (16 * p.l1 + 4 * p.l2 + p.l3) {
      MLFF_CG_TRIPLES(COUPLE)
    }
  }
  __syncthreads();
}

/* v[j] += c_ijk g[k] for coefficient Q where it is one of row i, a constant at every call */
template <int L1, int L2, int L3, int Q> MLFF_DEVICE void uncouple_one(const int i, const real *g, real *v)
{
  constexpr mlff_cg_entry c = coefficient<L1, L2, L3, Q>::value;
  constexpr int row = c.i, j = L2 * L2 + c.j, k = c.k;
  constexpr real value = (real) c.c;
  if (row == i) v[j] += value * g[k];
}

template <int L1, int L2, int L3, int... Q>
MLFF_DEVICE void uncouple_all(const int i, const real *g, real *v, std::integer_sequence<int, Q...>)
{
  (uncouple_one<L1, L2, L3, Q>(i, g, v), ...);
}

} // namespace

#endif
