/* nequip.h: what the NequIP ops of the CPU share: radial weights of an edge. */
#ifndef MLFF_CPU_NEQUIP_H
#define MLFF_CPU_NEQUIP_H

#include "painn.h"

MLFF_INLINE const real *edge_line(const mlff_nequip_radial *radial, int64_t e)
{
  return (const real *) radial->lines->line.data + e * MLFF_PAINN_LINE;
}

MLFF_INLINE const real *edge_terms(const mlff_nequip_radial *radial, int64_t e)
{
  return (const real *) radial->terms + e * 2 * radial->n_terms;
}

/* w [n_weights] of edge e, and dw/dr when dw is not NULL (a constant at every call). rows: R of the edge's species. */
MLFF_INLINE void edge_weights(const mlff_nequip_radial *radial, const real *rows, int64_t e, real *w, real *dw)
{
  const int64_t ld = radial->n_weights;
  if (radial->n_terms == 4) {
    const real *line = edge_line(radial, e), *r = rows + line_load_index(line).first * ld;
    const vreal a0 = vset(line[0]), a1 = vset(line[1]), a2 = vset(line[2]), a3 = vset(line[3]);
    const vreal b0 = vset(line[4]), b1 = vset(line[5]), b2 = vset(line[6]), b3 = vset(line[7]);
    for (int64_t c = 0; c < ld; c += MLFF_VLEN) {
      const vreal r0 = vload(r + c), r1 = vload(r + ld + c), r2 = vload(r + 2 * ld + c), r3 = vload(r + 3 * ld + c);
      vstore(w + c, a0 * r0 + a1 * r1 + a2 * r2 + a3 * r3);
      if (dw) vstore(dw + c, b0 * r0 + b1 * r1 + b2 * r2 + b3 * r3);
    }
    return;
  }
  const real *coef = edge_terms(radial, e), *slope = coef + radial->n_terms;
  for (int64_t c = 0; c < ld; c += MLFF_VLEN) {
    vreal sum = vset(0), dsum = vset(0);
    for (int t = 0; t < radial->n_terms; t++) {
      const vreal r = vload(rows + t * ld + c);
      sum += coef[t] * r;
      if (dw) dsum += slope[t] * r;
    }
    vstore(w + c, sum);
    if (dw) vstore(dw + c, dsum);
  }
}

/* dE/d(x_j - x_i) of edge e from dE/dY (lanes still apart) and dE/dr. */
MLFF_INLINE void edge_store_gradient(const mlff_nequip_radial *radial, int64_t e, const vreal *gy, vreal gr,
                                     real *edge_grad, int accumulate)
{
  const real *line = edge_line(radial, e);
  real sums[MLFF_NEQUIP_HARMONICS], g[3];
  sums[0] = 0; /* of a constant */
  for (int k = 1; k < MLFF_NEQUIP_HARMONICS; k++) sums[k] = vsum(gy[k]);
  mlff_nequip_edge_gradient(line + LINE_UNIT, line[LINE_INVERSE], sums, vsum(gr), g);
  v4 sum = {g[0], g[1], g[2], 0};
  if (accumulate) sum += v4_load(edge_grad + 4 * e);
  v4_store(edge_grad + 4 * e, sum);
}

#endif
