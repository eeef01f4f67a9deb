/* painn.h: what the PaiNN ops of the GPU share: lines of edges, which kernels make where they use them. Twin:
 * cpu/painn.h. */
#ifndef MLFF_CUDA_PAINN_H
#define MLFF_CUDA_PAINN_H

#include "ops_cuda.h"
#include "vectors.h"

namespace { /* structures and kernels differ between element types */

/* What lines of edges are made from: edges, and a basis CUBIC, whose rows have ld numbers. Where there is none, the
 * first row is 0 and coefficients are of no use: inverse_h = 0, n = 1. */
typedef struct line_source {
  const real *vec; /* [n_edges][4] */
  const int32_t *node;
  double inverse_h;
  int n, split, ld, unused; /* split: n where there is no second spline */
} line_source;

/* As a line of mlff_painn_radial, but for where the first row begins, and `own`, which is the caller's. */
typedef struct alignas(16) edge_line {
  vector_of<4> coef, slope, unit; /* unit: u = vec/r and 1/r */
  int row, node, own, unused;
} edge_line;

} // namespace

/* n_terms: 4 for CUBIC; lines of another basis have no coefficients, also where there is a spline for other layers. */
static inline line_source line_source_of(const mlff_edges *edges, const mlff_painn_radial *radial, int n_terms, int ld)
{
  const mlff_painn_spline *spline = &radial->spline;
  const bool has_spline = n_terms == 4 && spline->n;
  line_source from;
  memset(&from, 0, sizeof from);
  from.vec = (const real *) edges->vec.data;
  from.node = (const int32_t *) edges->node.data;
  from.inverse_h = has_spline ? spline->n / spline->cutoff : 0.0;
  from.n = has_spline ? spline->n : 1;
  from.split = has_spline && spline->split ? spline->split : from.n;
  from.ld = ld;
  return from;
}

/* coef_t = sum_k piece[k][t] x^k, slope_t = its derivative / h, with x = r/h - first, first = floor(r/h); of edge e.
 * Twin: fill_cubic. */
MLFF_DEVICE edge_line make_line(const line_source &from, int64_t e, int own)
{
  const real piece[4][4] = MLFF_SPLINE_PIECES, inverse_h = (real) from.inverse_h;
  const vector_of<4> vec = load_vector<4>(from.vec + 4 * e);
  const real r = vec.of[3], x = r * inverse_h, inverse = 1 / r;
  int first = (int) x;
  if (first >= from.n) first = from.n - 1; /* r rounded up to the cutoff */
  const real t = x - (real) first;
  edge_line line;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const real c1 = piece[1][k], c2 = piece[2][k], c3 = piece[3][k];
    line.coef.of[k] = ((c3 * t + c2) * t + c1) * t + piece[0][k];
    line.slope.of[k] = ((3 * c3 * t + 2 * c2) * t + c1) * inverse_h;
    line.unit.of[k] = k < 3 ? vec.of[k] * inverse : inverse;
  }
  line.row = (first + (first >= from.split ? 3 : 0)) * from.ld;
  line.node = from.node[e];
  line.own = own;
  line.unused = 0;
  return line;
}

#endif
