/* linear.c: y = act(x W^T + b) on the CPU: a GEMM with an epilogue.
 *
 * Weights are packed at load into panels of TILE_VECTORS vectors of output columns, [panel][n_in][TILE_COLS], padded
 * with zeros. A tile of TILE_ROWS x TILE_COLS outputs stays in registers while the panel is read (on AVX-512 6 x 64
 * floats: 24 accumulators). Panels are the outer loop, so that a panel is read from the first-level cache for all
 * rows. In float, accumulators are added to the tile after 64 products. Tiles pass through a small buffer to the
 * epilogue (the bias initialises the accumulators), or are stored in place if there is no epilogue. The next panel is
 * prefetched into the second-level cache, evenly over the tiles: weights of a large network are read from the third
 * level, and waiting for them took a third of the time.
 */
#include "cpu.h"

#include <limits.h>

enum {
  TILE_ROWS = 6,
#if MLFF_32_REGISTERS
  TILE_VECTORS = 4,
#else
  TILE_VECTORS = 2, /* 12 accumulators in 16 registers */
#endif
  TILE_COLS = TILE_VECTORS * MLFF_VLEN,
  ROW_STEP = 1,
  COL_STEP = MLFF_VLEN,
  SUM_UNITS = MLFF_REAL_IS_DOUBLE ? INT_MAX : 64
};

typedef real unit;
typedef vreal vunit;

MLFF_INLINE int parts_of(const mlff_linear *linear)
{
  (void) linear;
  return 1;
}

MLFF_INLINE int n_units(const mlff_linear *linear)
{
  return linear->n_in;
}

#include "linear_units.h"

static real weight_unit(const mlff_linear *linear, const weights *w, int u, int col)
{
  (void) linear;
  return (real) weight_at(w, u, col);
}

MLFF_INLINE vreal set_units(real x)
{
  return vset(x);
}

MLFF_INLINE vreal load_units(const real *p)
{
  return vload(p);
}

MLFF_INLINE vreal multiply_add(vreal acc, vreal x, vreal w)
{
  return acc + x * w;
}

#include "linear_tiles.h"
#include "linear_loops.h"

mlff_status MLFF_CPU(linear_pack_cpu)(mlff_backend *backend, mlff_linear *linear, const double *weight,
                                      const double *bias, int n_out, int n_in, int transpose, mlff_error *error)
{
  const weights w = {weight, transpose ? n_out : n_in, transpose ? n_in : n_out, transpose};
  return pack_panels(backend, linear, &w, bias, error);
}

void MLFF_CPU(linear_cpu)(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *a)
{
  (void) backend;
  multiply_rows(linear, a, a->x, a->ldx, 0, a->n_rows);
}

void MLFF_CPU(linear_many_cpu)(mlff_backend *backend, int n, const mlff_linear *const *linears,
                               const mlff_linear_args *args)
{
  for (int k = 0; k < n; k++) MLFF_CPU(linear_cpu)(backend, linears[k], &args[k]);
}
