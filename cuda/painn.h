/* painn.h: shared by the PaiNN ops of the GPU: lines of edges, which kernels compute where they need them. Twin:
 * cpu/painn.h. */
#ifndef MLFF_CUDA_PAINN_H
#define MLFF_CUDA_PAINN_H

#include "ops_cuda.h"
#include "vectors.h"

namespace { /* structures and kernels differ between element types */

/* Input of make_line: edges, and a CUBIC basis, whose rows have ld elements. Other bases: inverse_h = 0 and n = 1, so
 * that the first row is 0; their coefficients are not used. */
typedef struct line_source {
  const real *vec; /* [n_edges][4] */
  const int32_t *node;
  double inverse_h;
  int n, split, ld, unused; /* split: n if there is no second spline */
} line_source;

/* As a line of mlff_painn_radial, except for row, the offset of the first row, and tag, a value of the caller. */
typedef struct alignas(16) edge_line {
  vector_of<4> coef, slope, unit; /* unit: u = vec/r and 1/r */
  int row, node, tag, unused;
} edge_line;

} // namespace

/* n_terms: 4 for CUBIC. Lines of another basis have no coefficients, even if other layers have a spline. */
static inline line_source line_source_of(const mlff_edges *edges, const mlff_painn_radial *radial, int n_terms, int ld)
{
  const mlff_painn_spline *spline = &radial->spline;
  const bool has_spline = n_terms == 4 && spline->n;
  line_source source;
  memset(&source, 0, sizeof source);
  source.vec = (const real *) edges->vec.data;
  source.node = (const int32_t *) edges->node.data;
  source.inverse_h = has_spline ? spline->n / spline->cutoff : 0.0;
  source.n = has_spline ? spline->n : 1;
  source.split = has_spline && spline->split ? spline->split : source.n;
  source.ld = ld;
  return source;
}

/* Line of edge e: coef_t = sum_k piece[k][t] x^k, slope_t = dcoef_t/dr, with x = r/h - first, first = floor(r/h).
 * Twin: fill_cubic. */
MLFF_DEVICE edge_line make_line(const line_source &source, int64_t e, int tag)
{
  const real piece[4][4] = MLFF_SPLINE_PIECES, inverse_h = (real) source.inverse_h;
  const vector_of<4> vec = load_vector<4>(source.vec + 4 * e);
  const real r = vec.v[3], x = r * inverse_h, inverse = 1 / r;
  int first = (int) x;
  if (first >= source.n) first = source.n - 1; /* r was rounded up to the cutoff */
  const real t = x - (real) first;
  edge_line line;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const real c1 = piece[1][k], c2 = piece[2][k], c3 = piece[3][k];
    line.coef.v[k] = ((c3 * t + c2) * t + c1) * t + piece[0][k];
    line.slope.v[k] = ((3 * c3 * t + 2 * c2) * t + c1) * inverse_h;
    line.unit.v[k] = k < 3 ? vec.v[k] * inverse : inverse;
  }
  line.row = (first + (first >= source.split ? 3 : 0)) * source.ld;
  line.node = source.node[e];
  line.tag = tag;
  line.unused = 0;
  return line;
}

#endif
