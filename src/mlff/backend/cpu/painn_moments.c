/* painn_moments.c: the first layer of PaiNN as moments of the environment, on the CPU.
 *
 * Moments do not depend on F, which the GEMM after them expands; a general message costs 5 to 7 times as much. The
 * backward pass runs over receivers and needs no data of other ranks.
 */
#include "painn.h"

/* Moments of one atom: q, x, y, z, each n_slots * n_rows. */
typedef struct moment_rows {
  real *q, *x, *y, *z;
} moment_rows;

MLFF_INLINE moment_rows rows_of(const mlff_painn_moments_args *a, int64_t i)
{
  real *mu = (real *) a->moments_mu + (i - a->begin) * 3 * a->ld_mu;
  return (moment_rows){(real *) a->moments_q + (i - a->begin) * a->ld_q, mu, mu + a->ld_mu, mu + 2 * a->ld_mu};
}

MLFF_INLINE void add4(real *p, v4 v)
{
  v4_store(p, v4_load(p) + v);
}

MLFF_INLINE void add(real *p, vreal v)
{
  vstore(p, vload(p) + v);
}

/* m_q += coef, m_mu += coef u for one edge whose rows start at column c. */
MLFF_INLINE void moment_cubic(const moment_rows *m, int64_t c, const real *line)
{
  const v4 coef = v4_load(line + LINE_COEF);
  add4(m->q + c, coef);
  add4(m->x + c, coef * line[LINE_UNIT]);
  add4(m->y + c, coef * line[LINE_UNIT + 1]);
  add4(m->z + c, coef * line[LINE_UNIT + 2]);
}

MLFF_INLINE void moment_dense(const moment_rows *m, int64_t c, const real *line, const real *coef, int n_terms)
{
  const real ux = line[LINE_UNIT], uy = line[LINE_UNIT + 1], uz = line[LINE_UNIT + 2];
  for (int t = 0; t < n_terms; t += MLFF_VLEN) {
    const vreal v = vload(coef + t);
    add(m->q + c + t, v);
    add(m->x + c + t, v * ux);
    add(m->y + c + t, v * uy);
    add(m->z + c + t, v * uz);
  }
}

void MLFF_CPU(painn_moments_cpu)(mlff_backend *backend, const mlff_painn_moments_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data;
  const int32_t *center_species = a->edges->center_species.data;
  const real *lines = a->radial->line.data, *terms = a->radial->terms.data;
  const int n_columns = a->n_slots * a->n_rows;
  for (int64_t i = a->begin; i < a->end; i++) {
    const moment_rows m = rows_of(a, i);
    memset(m.q, 0, (size_t) (n_columns + a->n_slots) * sizeof(real));
    memset(m.x, 0, (size_t) n_columns * sizeof(real));
    memset(m.y, 0, (size_t) n_columns * sizeof(real));
    memset(m.z, 0, (size_t) n_columns * sizeof(real));
    if (center_species[i] >= 0 && a->slot[center_species[i]] >= 0) m.q[n_columns + a->slot[center_species[i]]] = 1;
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const real *line = lines + e * MLFF_PAINN_LINE;
      const line_index index = line_load_index(line);
      const int64_t first = (int64_t) a->slot[index.species] * a->n_rows;
      if (first < 0) continue;
      if (a->n_terms == 4)
        moment_cubic(&m, first + index.first, line);
      else
        moment_dense(&m, first, line, terms + e * 2 * a->n_terms, a->n_terms);
    }
  }
}

/* (dE/du, dE/dr) of one edge from the adjoints of its atom's moments: m_q += coef, m_mu += coef u. */
MLFF_INLINE v4 edge_cubic(const moment_rows *g, int64_t c, const real *line)
{
  const v4 coef = v4_load(line + LINE_COEF), slope = v4_load(line + LINE_SLOPE);
  const v4 gx = v4_load(g->x + c), gy = v4_load(g->y + c), gz = v4_load(g->z + c);
  const v4 along = v4_load(g->q + c) + gx * line[LINE_UNIT] + gy * line[LINE_UNIT + 1] + gz * line[LINE_UNIT + 2];
  return v4_sums(coef * gx, coef * gy, coef * gz, slope * along);
}

MLFF_INLINE v4 edge_dense(const moment_rows *g, int64_t c, const real *line, const real *coef, int n_terms)
{
  const real ux = line[LINE_UNIT], uy = line[LINE_UNIT + 1], uz = line[LINE_UNIT + 2];
  vreal sx = vset(0), sy = vset(0), sz = vset(0), sr = vset(0);
  for (int t = 0; t < n_terms; t += MLFF_VLEN) {
    const vreal v = vload(coef + t), gx = vload(g->x + c + t), gy = vload(g->y + c + t), gz = vload(g->z + c + t);
    sx += v * gx;
    sy += v * gy;
    sz += v * gz;
    sr += vload(coef + n_terms + t) * (vload(g->q + c + t) + ux * gx + uy * gy + uz * gz);
  }
  return (v4){vsum(sx), vsum(sy), vsum(sz), vsum(sr)};
}

void MLFF_CPU(painn_moments_backward_cpu)(mlff_backend *backend, const mlff_painn_moments_args *a)
{
  (void) backend;
  const int64_t *row = a->edges->row.data;
  const real *lines = a->radial->line.data, *terms = a->radial->terms.data;
  real *edge_grad = a->edge_grad;
  for (int64_t i = a->begin; i < a->end; i++) {
    const moment_rows g = rows_of(a, i);
    for (int64_t e = row[i]; e < row[i + 1]; e++) {
      const real *line = lines + e * MLFF_PAINN_LINE;
      const line_index index = line_load_index(line);
      const int64_t first = (int64_t) a->slot[index.species] * a->n_rows;
      v4 sum = {0};
      if (first >= 0) {
        sum = a->n_terms == 4 ? edge_cubic(&g, first + index.first, line)
                              : edge_dense(&g, first, line, terms + e * 2 * a->n_terms, a->n_terms);
      }
      if (a->accumulate) sum += v4_load(edge_grad + 4 * e);
      /* u = vec/r:  dE/dvec = dE/dr u + (dE/du - u (u.dE/du))/r */
      const v4 u = v4_load(line + LINE_UNIT);
      const real along = sum[0] * u[0] + sum[1] * u[1] + sum[2] * u[2];
      v4_store(edge_grad + 4 * e, sum * line[LINE_INVERSE] + u * (sum[3] - along * line[LINE_INVERSE]));
    }
  }
}
