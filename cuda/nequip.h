/* nequip.h: shared by the NequIP ops of the GPU: layout of lanes, radial weights, sums over lanes. Twin: cpu/nequip.h.
 *
 * A warp processes CHUNK channels of SLOTS edges at a time. A lane owns VEC consecutive channels (16 bytes) of one
 * edge, so a scalar of an edge is loaded once for VEC channels.
 */
#ifndef MLFF_CUDA_NEQUIP_H
#define MLFF_CUDA_NEQUIP_H

#include "ops_cuda.h"

enum { VEC = 16 / sizeof(real), CHUNK = 32, LANES = CHUNK / VEC, SLOTS = WARP / LANES };
enum { PER_LANE = MLFF_NEQUIP_HARMONICS / LANES }; /* sums of a lane after slot_sum */

MLFF_DEVICE line_index line_load_index(const real *line)
{
  const int4 raw = *(const int4 *) (const void *) (line + LINE_INDEX);
  const line_index index = {raw.x, raw.y, raw.z, raw.w};
  return index;
}

namespace { /* differs between element types */

typedef struct alignas(16) vec {
  real v[VEC];
} vec;

typedef struct radial_part {
  const real *lines, *terms, *rows;
  int n_terms, n_weights;
} radial_part;

} // namespace

#if MLFF_REAL_IS_DOUBLE
MLFF_DEVICE real real_fma(real x, real y, real z)
{
  return fma(x, y, z);
}
#else
MLFF_DEVICE real real_fma(real x, real y, real z)
{
  return fmaf(x, y, z);
}
#endif

MLFF_DEVICE vec vec_zero()
{
  vec out;
#pragma unroll
  for (int b = 0; b < VEC; b++) out.v[b] = 0;
  return out;
}

MLFF_DEVICE vec vec_load(const real *src)
{
  return *(const vec *) (const void *) src;
}

MLFF_DEVICE void vec_store(real *dst, const vec &x)
{
  *(vec *) (void *) dst = x;
}

/* sum += s x, rounded once: slopes are small differences of large rows. Explicit fma, so that the simulator rounds as a
 * GPU does. */
MLFF_DEVICE void vec_add(vec *sum, real s, const vec &x)
{
#pragma unroll
  for (int b = 0; b < VEC; b++) sum->v[b] = real_fma(s, x.v[b], sum->v[b]);
}

/* sum += x y */
MLFF_DEVICE void vec_add_product(vec *sum, const vec &x, const vec &y)
{
#pragma unroll
  for (int b = 0; b < VEC; b++) sum->v[b] += x.v[b] * y.v[b];
}

MLFF_DEVICE vec vec_product(const vec &x, const vec &y)
{
  vec out;
#pragma unroll
  for (int b = 0; b < VEC; b++) out.v[b] = x.v[b] * y.v[b];
  return out;
}

MLFF_DEVICE real vec_dot(const vec &x, const vec &y)
{
  real sum = x.v[0] * y.v[0];
#pragma unroll
  for (int b = 1; b < VEC; b++) sum += x.v[b] * y.v[b];
  return sum;
}

/* ---- radial weights ---------------------------------------------------------------------------------------------- */

/* w = sum_t coef_t R[t], slope = dw/dr of an edge at VEC columns. slope: NULL if not needed. rows: R of the species of
 * the edge, at the first column. */
MLFF_DEVICE void edge_weights(const radial_part &a, const real *rows, const real *line, int64_t e, vec *w, vec *slope)
{
  const int64_t ld = a.n_weights;
  *w = vec_zero();
  if (slope) *slope = vec_zero();
  if (a.n_terms == 4) {
    vec coef = vec_zero(), by_r = vec_zero();
#pragma unroll
    for (int t = 0; t < 4; t++) {
      if (t % VEC == 0) coef = vec_load(line + LINE_COEF + t);
      if (t % VEC == 0 && slope) by_r = vec_load(line + LINE_SLOPE + t);
      const vec r = vec_load(rows + t * ld);
      vec_add(w, coef.v[t % VEC], r);
      if (slope) vec_add(slope, by_r.v[t % VEC], r);
    }
    return;
  }
  const real *coef = a.terms + e * 2 * a.n_terms;
#pragma unroll 1
  for (int t = 0; t < a.n_terms; t++) {
    const vec r = vec_load(rows + t * ld);
    vec_add(w, coef[t], r);
    if (slope) vec_add(slope, coef[a.n_terms + t], r);
  }
}

static inline radial_part radial_of(const mlff_nequip_radial *radial, const void *rows)
{
  radial_part a;
  memset(&a, 0, sizeof a);
  a.lines = (const real *) radial->lines->line.data;
  a.terms = (const real *) radial->terms;
  a.rows = (const real *) rows;
  a.n_terms = radial->n_terms;
  a.n_weights = radial->n_weights;
  return a;
}

/* Number of blocks that the edges of an atom are split across, n_edges per block and iteration: so many that n_blocks
 * times it fills the GPU. Depends only on sizes that a captured step keeps. */
static inline unsigned edge_split(mlff_backend *backend, const mlff_edges *edges, int64_t n_blocks, int n_edges)
{
  const int64_t n_target = 4 * (int64_t) mlff_cuda_of(backend)->n_multiprocessors;
  const int64_t per_atom = edges->n_local ? (edges->n_room / edges->n_local + n_edges - 1) / n_edges : 1;
  const int64_t n_split = n_blocks ? (n_target + n_blocks - 1) / n_blocks : 1, max_split = per_atom < 1 ? 1 : per_atom;
  return (unsigned) (n_split < max_split ? n_split : max_split);
}

/* ---- sums over lanes --------------------------------------------------------------------------------------------- */

/* x = sum over the slots of a warp, in a fixed order, in all of them. */
MLFF_DEVICE void slots_sum(vec *x)
{
#pragma unroll
  for (int distance = LANES; distance < WARP; distance *= 2)
#pragma unroll
    for (int b = 0; b < VEC; b++) x->v[b] += __shfl_xor_sync(FULL_WARP, x->v[b], distance);
}

/* One step of slot_sum: lanes at distance DISTANCE exchange halves of their values. */
template <int DISTANCE> MLFF_DEVICE void exchange_halves(real *v, int lane)
{
  constexpr int n = DISTANCE * PER_LANE;
  const bool high = (lane & DISTANCE) != 0;
#pragma unroll
  for (int b = 0; b < n; b++) {
    const real give = high ? v[b] : v[b + n], keep = high ? v[b + n] : v[b];
    v[b] = keep + __shfl_xor_sync(FULL_WARP, give, DISTANCE);
  }
}

/* sum[k] = sum of v[k] over the lanes of the slot, [16], in a fixed order. */
MLFF_DEVICE void slot_sum(real *v, int lane, real *sum)
{
#if MLFF_REAL_IS_DOUBLE
  exchange_halves<8>(v, lane);
#endif
  exchange_halves<4>(v, lane);
  exchange_halves<2>(v, lane);
  exchange_halves<1>(v, lane);
#pragma unroll
  for (int b = 0; b < PER_LANE; b++) sum[lane % LANES * PER_LANE + b] = v[b];
}

/* edge_grad of one edge = (or +=) gradient from dE/dr, dE/dY_1 .. dE/dY_15, each the sum of n parts, `stride` apart. */
MLFF_DEVICE void store_gradient(const real *line, const real *parts, int n, int stride, real *edge_grad, int accumulate)
{
  real gy[MLFF_NEQUIP_HARMONICS], g[3];
  for (int k = 0; k < MLFF_NEQUIP_HARMONICS; k++) {
    gy[k] = parts[k];
    for (int q = 1; q < n; q++) gy[k] += parts[q * stride + k];
  }
  const real gr = gy[0];
  gy[0] = 0; /* Y_0 is constant */
  mlff_nequip_edge_gradient(line + LINE_UNIT, line[LINE_INVERSE], gy, gr, g);
  for (int d = 0; d < 3; d++) edge_grad[d] = accumulate ? edge_grad[d] + g[d] : g[d];
  if (!accumulate) edge_grad[3] = 0;
}

#endif
