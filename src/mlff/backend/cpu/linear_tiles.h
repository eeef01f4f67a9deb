/* linear_tiles.h: tiles of a GEMM with accumulators in vector registers: the inner loops of linear.c, and of
 * linear_mixed.c without AMX. Part of the template of linear_units.h. Tiles of six rows use 24 of 32 registers (on
 * AVX-512 6 x 64 floats), or 12 of 16.
 *
 * Requires TILE_ROWS = 6, TILE_VECTORS, TILE_COLS, SUM_UNITS (units per accumulator before it is added to the tile),
 *   parts_of(linear)            1, or 2 if a value is the sum of two parts, one after the other
 *   n_units(linear)             units of a column of the matrix, of all parts
 *   vunit                       a vector of MLFF_VLEN units
 *   set_units(x), load_units(p) broadcast of a unit, and MLFF_VLEN units from memory
 *   multiply_add(acc, x, w)     acc + x w; of pairs: the sum of both products
 */
#ifndef MLFF_LINEAR_TILES_H
#define MLFF_LINEAR_TILES_H

/* tile[mr][nv] = or += sums, which are then set to 0. */
MLFF_INLINE void put_sums(const int mr, const int nv, vreal sums[TILE_ROWS][TILE_VECTORS], real *tile, int64_t ld,
                          const int accumulate)
{
#pragma GCC unroll 6
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) {
      real *out = tile + r * ld + v * MLFF_VLEN;
      vstore(out, accumulate ? vload(out) + sums[r][v] : sums[r][v]);
      sums[r][v] = vset(0);
    }
}

/* tile_function of mr rows and nv vectors, which are compile-time constants, so that the loops unroll. Every SUM_UNITS
 * units the accumulators are added to the tile, because long sums have larger rounding errors. */
MLFF_INLINE void tile_product(const int mr, const int nv, const mlff_linear *linear, const unit *x, int64_t ldx,
                              const unit *panel, const real *bias, real *tile, int64_t ld, const unit *fetch,
                              int64_t fetch_step)
{
  const int n_parts = parts_of(linear), n = n_units(linear) / n_parts;
  vreal acc[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 6
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) acc[r][v] = vload(bias + v * MLFF_VLEN);
  int n_put = 0;
  for (int term = 0; term < terms_of(n_parts); term++) {
    const unit *xt = x + x_part(term) * (ldx / n_parts), *wt = panel + (int64_t) w_part(term) * n * TILE_COLS;
    for (int begin = 0, end; begin < n; begin = end) {
      if (begin) put_sums(mr, nv, acc, tile, ld, n_put++ > 0);
      end = n - begin > SUM_UNITS ? begin + SUM_UNITS : n;
      for (int k = begin; k < end; k++, wt += TILE_COLS) {
        if (term < n_parts) __builtin_prefetch(fetch, 0, 2), fetch += fetch_step;
        vunit w[TILE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) w[v] = load_units(wt + v * MLFF_VLEN);
#pragma GCC unroll 6
        for (int r = 0; r < mr; r++) {
          const vunit xr = set_units(xt[r * ldx + k]);
#pragma GCC unroll 4
          for (int v = 0; v < nv; v++) acc[r][v] = multiply_add(acc[r][v], xr, w[v]);
        }
      }
    }
  }
  put_sums(mr, nv, acc, tile, ld, n_put > 0);
}

#define TILE(mr, nv)                                                                                            \
  static void tile_##mr##_##nv(const mlff_linear *linear, const unit *x, int64_t ldx, const unit *panel,        \
                               const real *bias, real *tile, int64_t ld, const unit *fetch, int64_t fetch_step) \
  {                                                                                                             \
    tile_product(mr, nv, linear, x, ldx, panel, bias, tile, ld, fetch, fetch_step);                             \
  }
#define TILES(nv) TILE(1, nv) TILE(2, nv) TILE(3, nv) TILE(4, nv) TILE(5, nv) TILE(6, nv)
#define TILE_NAMES(nv)                                                           \
  {                                                                              \
    tile_1_##nv, tile_2_##nv, tile_3_##nv, tile_4_##nv, tile_5_##nv, tile_6_##nv \
  }
TILES(1)
TILES(2)
#if MLFF_32_REGISTERS
TILES(3)
TILES(4)
static tile_function *const tiles[TILE_VECTORS][TILE_ROWS] = {TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3),
                                                              TILE_NAMES(4)};
#else
static tile_function *const tiles[TILE_VECTORS][TILE_ROWS] = {TILE_NAMES(1), TILE_NAMES(2)};
#endif

static tile_function *choose_tile(int cols, int rows)
{
  return tiles[(cols - 1) / MLFF_VLEN][rows - 1];
}

#endif
