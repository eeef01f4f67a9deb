/* linear_units.h: types of the GEMMs in all precisions. The GEMM is a template of three headers, included in this order
 * by linear.c and linear_mixed.c, each after what it requires:
 *   linear_units.h  requires unit (element of panels and rows of x: a real, or a pair of bf16)
 *   linear_tiles.h  tiles in vector registers; defines choose_tile (AMX defines its own in linear_mixed.c)
 *   linear_loops.h  packing, epilogue, loops over panels and tiles; requires choose_tile and weight_unit
 */
#ifndef MLFF_LINEAR_UNITS_H
#define MLFF_LINEAR_UNITS_H

enum { LINE = 64 / (int) sizeof(unit) }; /* units per cache line */

/* tile = bias + x * panel; rows of the tile are ld reals apart, rows of x ldx units. Prefetches n_units * fetch_step
 * units from `fetch` into the second-level cache. */
typedef void tile_function(const mlff_linear *linear, const unit *x, int64_t ldx, const unit *panel, const real *bias,
                           real *tile, int64_t ld, const unit *fetch, int64_t fetch_step);
/* Products of parts: high * high, with two parts also high * low + low * high; low * low is below rounding. */
MLFF_INLINE int terms_of(int n_parts)
{
  return n_parts == 1 ? 1 : 3;
}

MLFF_INLINE int x_part(int term)
{
  return term == 2;
}

MLFF_INLINE int w_part(int term)
{
  return term == 1;
}

/* The matrix of a GEMM x[rows] -> y[cols], in the order of the file. */
typedef struct weights {
  const double *values; /* [cols][rows], transposed [rows][cols] */
  int rows, cols, transpose;
} weights;

MLFF_INLINE double weight_at(const weights *w, int row, int col)
{
  if (row >= w->rows || col >= w->cols) return 0.0;
  return w->values[w->transpose ? (size_t) row * (size_t) w->cols + (size_t) col
                                : (size_t) col * (size_t) w->rows + (size_t) row];
}

#endif
