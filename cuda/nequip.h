/* nequip.h: what the NequIP ops of the GPU share: where lanes are, radial weights, sums over lanes.
 *
 * A warp takes CHUNK channels of SLOTS edges at a time: a lane VEC consecutive channels, which are 16 bytes, of one
 * edge. Scalars of an edge, read once by a lane, then serve VEC channels. Twin: cpu/nequip.h.
 */
#ifndef MLFF_CUDA_NEQUIP_H
#define MLFF_CUDA_NEQUIP_H

#include "ops_cuda.h"

enum { VEC = 16 / sizeof(real), CHUNK = 32, LANES = CHUNK / VEC, SLOTS = WARP / LANES };
enum { PER_LANE = MLFF_NEQUIP_HARMONICS / LANES }; /* values that a lane has after slot_sum */

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

MLFF_DEVICE vec vec_load(const real *from)
{
  return *(const vec *) (const void *) from;
}

MLFF_DEVICE void vec_store(real *to, const vec &x)
{
  *(vec *) (void *) to = x;
}

/* sum += s x, rounded once: slopes are small differences of large rows. A GPU would do so anyway, the simulated one
 * would not. */
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

/* Weights of an edge at VEC columns, and their slopes by r unless `slope` is NULL (a constant at every call).
 * rows: R of the edge's species at the first of the columns. */
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

/* Blocks that the edges of an atom are shared out to, `at_once` edges each: of n_blocks blocks for all atoms, so many
 * that every multiprocessor has some. Made of what does not change while a recorded step is used. */
static inline unsigned edge_shares(mlff_backend *backend, const mlff_edges *edges, int64_t n_blocks, int at_once)
{
  const int64_t wanted = 4 * (int64_t) mlff_cuda_of(backend)->n_multiprocessors;
  const int64_t per_atom = edges->n_local ? (edges->n_room / edges->n_local + at_once - 1) / at_once : 1;
  const int64_t shares = n_blocks ? (wanted + n_blocks - 1) / n_blocks : 1, most = per_atom < 1 ? 1 : per_atom;
  return (unsigned) (shares < most ? shares : most);
}

/* ---- sums over lanes --------------------------------------------------------------------------------------------- */

/* Sum over the slots of a warp, in a fixed order, to all of them. */
MLFF_DEVICE void slots_sum(vec *x)
{
#pragma unroll
  for (int with = LANES; with < WARP; with *= 2)
#pragma unroll
    for (int b = 0; b < VEC; b++) x->v[b] += __shfl_xor_sync(FULL_WARP, x->v[b], with);
}

/* One step of slot_sum: lanes that are WITH apart halve the values between them. */
template <int WITH> MLFF_DEVICE void halve(real *v, int lane)
{
  constexpr int n = WITH * PER_LANE;
  const bool high = (lane & WITH) != 0;
#pragma unroll
  for (int b = 0; b < n; b++) {
    const real give = high ? v[b] : v[b + n], keep = high ? v[b + n] : v[b];
    v[b] = keep + __shfl_xor_sync(FULL_WARP, give, WITH);
  }
}

/* to[k] = sum of v[k] over the lanes of the slot, for 16 values, in a fixed order. */
MLFF_DEVICE void slot_sum(real *v, int lane, real *to)
{
#if MLFF_REAL_IS_DOUBLE
  halve<8>(v, lane);
#endif
  halve<4>(v, lane);
  halve<2>(v, lane);
  halve<1>(v, lane);
#pragma unroll
  for (int b = 0; b < PER_LANE; b++) to[lane % LANES * PER_LANE + b] = v[b];
}

/* edge_grad of one edge = or += from dE/dr, dE/dY_1 .. dE/dY_15, each in n parts `apart` from one another. */
MLFF_DEVICE void store_gradient(const real *line, const real *parts, int n, int apart, real *to, int accumulate)
{
  real gy[MLFF_NEQUIP_HARMONICS], g[3];
  for (int k = 0; k < MLFF_NEQUIP_HARMONICS; k++) {
    gy[k] = parts[k];
    for (int q = 1; q < n; q++) gy[k] += parts[q * apart + k];
  }
  const real gr = gy[0];
  gy[0] = 0; /* of a constant */
  mlff_nequip_edge_gradient(line + LINE_UNIT, line[LINE_INVERSE], gy, gr, g);
  for (int d = 0; d < 3; d++) to[d] = accumulate ? to[d] + g[d] : g[d];
  if (!accumulate) to[3] = 0;
}

#endif
