/* linear_mixed.c: y = act(x W^T + b) with bf16 inputs and float accumulators on the CPU, for `precision mixed`.
 *
 * Weights are packed at load, rounded to bf16, in panels of pairs [panel][part][pairs of n_in][TILE_COLS]; rows of x
 * are rounded block by block into a buffer of the backend. With two parts (mlff_backend.splits) a value is the sum of
 * two bf16, the rounded value and the rounded remainder, and a product the sum of three: 16 bits of mantissa instead
 * of 8. Loops and epilogue are those of linear.c.
 *
 * Tiles by kernel path:
 *   avx512_bf16, and others     accumulators in vector registers, two products per lane (VDPBF16PS or its emulation)
 *   amx, generic                accumulators in up to four tiles of 16 x 16 (TDPBF16PS or its emulation)
 */
#include "backend_cpu.h"
#include "bf16.h"
#include "cpu.h"

#include <limits.h>

#define MLFF_TILES_AMX (MLFF_KERNELS_AMX || MLFF_KERNELS_GENERIC)
#if MLFF_TILES_AMX
#include "amx.h"
#endif

enum {
#if MLFF_TILES_AMX
  TILE_ROWS = 2 * AMX_ROWS,
  TILE_COLS = 2 * AMX_PAIRS,
  ROW_STEP = AMX_ROWS,
  COL_STEP = AMX_PAIRS,
  PAIR_STEP = AMX_PAIRS, /* pairs of a part are padded to multiples of it */
#else
  TILE_ROWS = 6,
#if MLFF_32_REGISTERS
  TILE_VECTORS = 4,
#else
  TILE_VECTORS = 2,
#endif
  TILE_COLS = TILE_VECTORS * MLFF_VLEN,
  ROW_STEP = 1,
  COL_STEP = MLFF_VLEN,
  PAIR_STEP = 1,
  SUM_UNITS = INT_MAX, /* as AMX tiles */
#endif
  ROW_PAIRS = 16,       /* pairs of a part of x are padded to multiples of this */
  BLOCK_BYTES = 1 << 18 /* of rows of x that are rounded at a time */
};

typedef uint32_t unit; /* a pair */

MLFF_INLINE int parts_of(const mlff_linear *linear)
{
  return linear->n_parts;
}

MLFF_INLINE int padded_pairs(int n_in, int step)
{
  return ((n_in + 1) / 2 + step - 1) / step * step;
}

MLFF_INLINE int n_units(const mlff_linear *linear)
{
  return parts_of(linear) * padded_pairs(linear->n_in, PAIR_STEP);
}

#include "linear_units.h"

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Part 0 of x is its rounded value, part 1 the rounded remainder. */
MLFF_INLINE vbits part_bits(vreal x, int part)
{
  const vbits high = vround_bf16(x);
  return part ? vround_bf16(x - (vreal) high) : high;
}

static uint32_t weight_unit(const mlff_linear *linear, const weights *w, int u, int col)
{
  const int n = n_units(linear) / parts_of(linear), part = u / n, k = 2 * (u % n);
  const vbits even = part_bits(vset((float) weight_at(w, k, col)), part),
              odd = part_bits(vset((float) weight_at(w, k + 1, col)), part);
  return even[0] >> 16 | odd[0];
}

static int64_t units_of_row(const mlff_linear *linear)
{
  return (int64_t) parts_of(linear) * padded_pairs(linear->n_in, ROW_PAIRS);
}

static int64_t rows_of_block(const mlff_linear *linear)
{
  const int64_t n = BLOCK_BYTES / ((int64_t) sizeof(unit) * units_of_row(linear)) / TILE_ROWS;
  return (n ? n : 1) * TILE_ROWS;
}

/* ---- rows of x --------------------------------------------------------------------------------------------------- */

MLFF_INLINE vreal without_high(vreal x)
{
  return x - (vreal) vround_bf16(x);
}

/* Row [n_parts][pairs] of one row of x. */
static void round_row(const mlff_linear *linear, const float *x, unit *out)
{
  const int n_in = linear->n_in, n_pairs = padded_pairs(n_in, ROW_PAIRS);
  for (int k = 0; k < 2 * n_pairs; k += 2 * MLFF_VLEN) {
    vreal v[2];
    for (int half = 0; half < 2; half++) {
      const int column = k + half * MLFF_VLEN, left = n_in - column;
      v[half] = left >= MLFF_VLEN ? vload(x + column) : vload_part(x + column, left > 0 ? left : 0);
    }
    store_pairs(out + k / 2, v[0], v[1]);
    if (parts_of(linear) == 2) store_pairs(out + n_pairs + k / 2, without_high(v[0]), without_high(v[1]));
  }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

#if MLFF_TILES_AMX

/* AMX tiles 0 to 3 are accumulators of 2 x 2 tiles, 4 and 5 rows of x, 6 and 7 columns of weights. */
MLFF_INLINE void tile_product(const int two_rows, const int two_cols, const mlff_linear *linear, const unit *x,
                              int64_t ldx, const unit *panel, const real *bias, real *tile, int64_t ld,
                              const unit *fetch, int64_t fetch_step)
{
  const int n = n_units(linear) / parts_of(linear);
  const size_t x_bytes = (size_t) ldx * sizeof(unit), panel_bytes = TILE_COLS * sizeof(unit),
               tile_bytes = (size_t) ld * sizeof(real);
  amx_tiles tiles;
  AMX_LOAD(&tiles, 0, bias, 0); /* the same row in all 16 rows */
  if (two_cols) AMX_LOAD(&tiles, 1, bias + AMX_PAIRS, 0);
  if (two_rows) AMX_LOAD(&tiles, 2, bias, 0);
  if (two_rows && two_cols) AMX_LOAD(&tiles, 3, bias + AMX_PAIRS, 0);
  for (int term = 0; term < terms_of(parts_of(linear)); term++) {
    const unit *xt = x + x_part(term) * (ldx / parts_of(linear)), *wt = panel + (int64_t) w_part(term) * n * TILE_COLS;
    for (int k = 0; k < n; k += AMX_PAIRS, xt += AMX_PAIRS, wt += AMX_PAIRS * TILE_COLS) {
      if (term < parts_of(linear))
        for (const unit *end = fetch + AMX_PAIRS * fetch_step; fetch < end; fetch += LINE)
          __builtin_prefetch(fetch, 0, 2);
      AMX_LOAD(&tiles, 4, xt, x_bytes);
      AMX_LOAD(&tiles, 6, wt, panel_bytes);
      AMX_PRODUCT(&tiles, 0, 4, 6);
      if (two_cols) AMX_LOAD(&tiles, 7, wt + AMX_PAIRS, panel_bytes);
      if (two_cols) AMX_PRODUCT(&tiles, 1, 4, 7);
      if (two_rows) AMX_LOAD(&tiles, 5, xt + AMX_ROWS * ldx, x_bytes);
      if (two_rows) AMX_PRODUCT(&tiles, 2, 5, 6);
      if (two_rows && two_cols) AMX_PRODUCT(&tiles, 3, 5, 7);
    }
  }
  AMX_STORE(&tiles, 0, tile, tile_bytes);
  if (two_cols) AMX_STORE(&tiles, 1, tile + AMX_PAIRS, tile_bytes);
  if (two_rows) AMX_STORE(&tiles, 2, tile + AMX_ROWS * ld, tile_bytes);
  if (two_rows && two_cols) AMX_STORE(&tiles, 3, tile + AMX_ROWS * ld + AMX_PAIRS, tile_bytes);
}

#define TILE(two_rows, two_cols)                                                                                     \
  static void tile_##two_rows##_##two_cols(const mlff_linear *linear, const unit *x, int64_t ldx, const unit *panel, \
                                           const real *bias, real *tile, int64_t ld, const unit *fetch,              \
                                           int64_t fetch_step)                                                       \
  {                                                                                                                  \
    tile_product(two_rows, two_cols, linear, x, ldx, panel, bias, tile, ld, fetch, fetch_step);                      \
  }
TILE(0, 0)
TILE(0, 1)
TILE(1, 0)
TILE(1, 1)

static tile_function *choose_tile(int cols, int rows)
{
  static tile_function *const tiles[2][2] = {{tile_0_0, tile_1_0}, {tile_0_1, tile_1_1}};
  return tiles[cols > AMX_PAIRS][rows > AMX_ROWS];
}

#else

typedef vbits vunit;
typedef uint32_t pairs_unaligned __attribute__((vector_size(MLFF_VBYTES), aligned(4), may_alias));

MLFF_INLINE vunit set_units(unit x)
{
  return set_pairs(x);
}

MLFF_INLINE vunit load_units(const unit *p)
{
  return *(const pairs_unaligned *) p;
}

MLFF_INLINE vreal multiply_add(vreal acc, vunit x, vunit w)
{
  return dot_bf16(acc, x, w);
}

#include "linear_tiles.h"

#endif

#include "linear_loops.h"

/* ---- operations -------------------------------------------------------------------------------------------------- */

static mlff_status linear_pack_mixed(mlff_backend *backend, mlff_linear *linear, const double *weight,
                                     const double *bias, int n_out, int n_in, int transpose, mlff_error *error)
{
  const weights w = {weight, transpose ? n_out : n_in, transpose ? n_in : n_out, transpose};
  linear->n_parts = backend->splits ? 2 : 1;
  MLFF_TRY(pack_panels(backend, linear, &w, bias, error));
  const size_t n = (size_t) (rows_of_block(linear) * units_of_row(linear));
  return mlff_buf_reserve(backend, &((mlff_cpu_backend *) backend)->rounded, n * sizeof(unit), error);
}

static void linear_mixed(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *a)
{
  unit *rounded = ((mlff_cpu_backend *) backend)->rounded.data;
  const int64_t ld = units_of_row(linear), most = rows_of_block(linear);
#if MLFF_TILES_AMX
  amx_begin();
#endif
  for (int64_t first = 0; first < a->n_rows; first += most) {
    const int64_t n = a->n_rows - first < most ? a->n_rows - first : most;
    for (int64_t r = 0; r < n; r++) round_row(linear, (const float *) a->x + (first + r) * a->ldx, rounded + r * ld);
    multiply_rows(linear, a, rounded, ld, first, n);
  }
#if MLFF_TILES_AMX
  amx_end();
#endif
}

static void linear_many_mixed(mlff_backend *backend, int n, const mlff_linear *const *linears,
                              const mlff_linear_args *args)
{
  for (int k = 0; k < n; k++) linear_mixed(backend, linears[k], &args[k]);
}

void MLFF_CPU(ops_mixed)(mlff_ops *ops)
{
  ops->linear_pack = linear_pack_mixed;
  ops->linear = linear_mixed;
  ops->linear_many = linear_many_mixed;
}
