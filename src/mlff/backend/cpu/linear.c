/* linear.c: y = act(x W^T + b) on the CPU.
 *
 * Weights are packed once into panels of TILE_VECTORS vectors of output columns, [panel][n_in][TILE_COLS], padded with
 * zeros. A tile of TILE_ROWS x TILE_COLS outputs stays in registers while the panel streams past (on AVX-512 6 x 64
 * floats: 24 accumulators); panels are the outer loop, so that one panel is read from the first-level cache for all
 * rows. Results of a tile go through a small buffer to the epilogue (bias is where the accumulators start), or to their
 * place where there is nothing else to do. While the tiles of a panel are computed, the next panel is fetched into the
 * second-level cache, evenly over all of them: the weights of a large network come from the third level, and waiting for
 * them cost a third of the time.
 */
#include "cpu.h"

enum {
  TILE_ROWS = 6,
#if MLFF_KERNELS_AVX512
  TILE_VECTORS = 4,
#else
  TILE_VECTORS = 2, /* 12 of 16 registers are accumulators */
#endif
  TILE_COLS = TILE_VECTORS * MLFF_VBYTES / (int) sizeof(real),
  LINE = 64 / (int) sizeof(real) /* reals in a cache line */
};

mlff_status MLFF_CPU(linear_pack_cpu)(mlff_backend *backend, mlff_linear *linear, const double *weight,
                                      const double *bias, int n_out, int n_in, int transpose, mlff_error *error)
{
  const int rows = transpose ? n_out : n_in, cols = transpose ? n_in : n_out; /* of the product x[rows] -> y[cols] */
  const int n_panels = (cols + TILE_COLS - 1) / TILE_COLS;
  MLFF_TRY(
      mlff_buf_reserve(backend, &linear->packed, (size_t) n_panels * (size_t) rows * TILE_COLS * sizeof(real), error));
  MLFF_TRY(mlff_buf_reserve(backend, &linear->bias, (size_t) n_panels * TILE_COLS * sizeof(real), error));
  linear->n_in = rows;
  linear->n_out = cols;
  linear->transposed = transpose;
  real *packed = linear->packed.data, *packed_bias = linear->bias.data;
  for (int panel = 0; panel < n_panels; panel++) {
    for (int c = 0; c < TILE_COLS; c++) {
      const int col = panel * TILE_COLS + c;
      for (int k = 0; k < rows; k++) {
        const double w = col >= cols ? 0.0
                         : transpose ? weight[(size_t) k * (size_t) n_in + (size_t) col]
                                     : weight[(size_t) col * (size_t) n_in + (size_t) k];
        packed[((size_t) panel * (size_t) rows + (size_t) k) * TILE_COLS + (size_t) c] = (real) w;
      }
      packed_bias[panel * TILE_COLS + c] = bias && col < cols ? (real) bias[col] : (real) 0;
    }
  }
  return MLFF_OK;
}

/* tile[mr][nv] = bias + x[mr][n_in] * panel, rows of the tile ld reals apart; mr and nv are constants at every call, so
 * the loops unroll. Fetches n_in * fetch_step reals from `fetch` on into the cache. */
MLFF_INLINE void tile_product(const int mr, const int nv, int n_in, const real *x, int64_t ldx, const real *panel,
                              const real *bias, real *tile, int64_t ld, const real *fetch, int64_t fetch_step)
{
  vreal acc[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 6
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) acc[r][v] = vload(bias + v * MLFF_VLEN);
  for (int k = 0; k < n_in; k++, panel += TILE_COLS, fetch += fetch_step) {
    __builtin_prefetch(fetch, 0, 2);
    vreal w[TILE_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) w[v] = vload(panel + v * MLFF_VLEN);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++) {
      const vreal xr = vset(x[r * ldx + k]);
#pragma GCC unroll 4
      for (int v = 0; v < nv; v++) acc[r][v] += xr * w[v];
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) vstore(tile + r * ld + v * MLFF_VLEN, acc[r][v]);
}

typedef void tile_function(int n_in, const real *x, int64_t ldx, const real *panel, const real *bias, real *tile,
                           int64_t ld, const real *fetch, int64_t fetch_step);

#define TILE(mr, nv)                                                                                                  \
  static void tile_##mr##_##nv(int n_in, const real *x, int64_t ldx, const real *panel, const real *bias, real *tile, \
                               int64_t ld, const real *fetch, int64_t fetch_step)                                     \
  {                                                                                                                   \
    tile_product(mr, nv, n_in, x, ldx, panel, bias, tile, ld, fetch, fetch_step);                                     \
  }
#define TILES(nv) TILE(1, nv) TILE(2, nv) TILE(3, nv) TILE(4, nv) TILE(5, nv) TILE(6, nv)
#define TILE_NAMES(nv)                                                           \
  {                                                                              \
    tile_1_##nv, tile_2_##nv, tile_3_##nv, tile_4_##nv, tile_5_##nv, tile_6_##nv \
  }
TILES(1)
TILES(2)
#if MLFF_KERNELS_AVX512
TILES(3)
TILES(4)
static tile_function *const tiles[TILE_VECTORS][TILE_ROWS] = {TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3),
                                                              TILE_NAMES(4)};
#else
static tile_function *const tiles[TILE_VECTORS][TILE_ROWS] = {TILE_NAMES(1), TILE_NAMES(2)};
#endif

/* value and slope of the activation */
MLFF_INLINE vreal activate(mlff_act act, real alpha, vreal x, vreal *slope)
{
  if (act == MLFF_ACT_SILU) return mlff_silu(x, vsigmoid(x), slope);
  if (act == MLFF_ACT_CELU)
    return mlff_celu(vmax(vset(0), x), vexp(vmin(vset(0), x) * ((real) 1 / alpha)), alpha, slope);
  if (act == MLFF_ACT_SSP) {
    *slope = vsigmoid(x);
    return vssp(x);
  }
  *slope = vset(1);
  return x;
}

/* Where a tile of results goes. */
typedef struct target {
  real *y, *slope;
  const real *scale;
  int64_t ldy, ld_slope, ld_scale;
  int accumulate;
  real alpha;
} target;

/* One vector of results to its place; act and whole are constants at every call; n lanes are columns of y. */
MLFF_INLINE void finish_vector(const mlff_act act, const int whole, const target *t, vreal v, int64_t row, int col,
                               int n)
{
  real *y = t->y + row * t->ldy + col;
  if (act != MLFF_ACT_NONE) {
    vreal slope;
    v = activate(act, t->alpha, v, &slope);
    if (t->slope) {
      real *s = t->slope + row * t->ld_slope + col;
      if (whole)
        vstore(s, slope);
      else
        vstore_part(s, slope, n);
    }
  } else if (t->scale) {
    const real *s = t->scale + row * t->ld_scale + col;
    v *= whole ? vload(s) : vload_part(s, n);
  }
  if (t->accumulate) v += whole ? vload(y) : vload_part(y, n);
  if (whole)
    vstore(y, v);
  else
    vstore_part(y, v, n);
}

/* The tile's rows and columns from (row, col) on. */
MLFF_INLINE void finish_tile(const mlff_act act, const target *t, const real *tile, int64_t row, int rows, int col,
                             int cols)
{
  const int whole = cols / MLFF_VLEN, rest = cols % MLFF_VLEN;
  for (int r = 0; r < rows; r++, tile += TILE_COLS) {
    for (int v = 0; v < whole; v++)
      finish_vector(act, 1, t, vload(tile + v * MLFF_VLEN), row + r, col + v * MLFF_VLEN, MLFF_VLEN);
    if (rest) finish_vector(act, 0, t, vload(tile + whole * MLFF_VLEN), row + r, col + whole * MLFF_VLEN, rest);
  }
}

static void finish(const mlff_linear_args *a, const target *t, const real *tile, int64_t row, int rows, int col,
                   int cols)
{
  if (a->act == MLFF_ACT_NONE)
    finish_tile(MLFF_ACT_NONE, t, tile, row, rows, col, cols);
  else if (a->act == MLFF_ACT_SILU)
    finish_tile(MLFF_ACT_SILU, t, tile, row, rows, col, cols);
  else if (a->act == MLFF_ACT_SSP)
    finish_tile(MLFF_ACT_SSP, t, tile, row, rows, col, cols);
  else
    finish_tile(MLFF_ACT_CELU, t, tile, row, rows, col, cols);
}

void MLFF_CPU(linear_cpu)(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *a)
{
  (void) backend;
  const int n_in = linear->n_in, n_out = linear->n_out;
  const target t = {a->y, a->slope, a->scale, a->ldy, a->ld_slope, a->ld_scale, a->accumulate, (real) a->alpha};
  real tile[TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
  const int64_t n_tiles = (a->n_rows + TILE_ROWS - 1) / TILE_ROWS,
                step = n_tiles ? (TILE_COLS + n_tiles - 1) / n_tiles : 0;
  const int64_t fetch_step = step < LINE ? step : LINE;
  const int is_plain = a->act == MLFF_ACT_NONE && !a->scale && !a->accumulate;
  for (int col = 0; col < n_out; col += TILE_COLS) {
    const int cols = n_out - col < TILE_COLS ? n_out - col : TILE_COLS;
    const int n_vectors = (cols + MLFF_VLEN - 1) / MLFF_VLEN, in_place = is_plain && cols % MLFF_VLEN == 0;
    const real *panel = (const real *) linear->packed.data + (size_t) col * (size_t) n_in;
    const real *bias = (const real *) linear->bias.data + col, *fetch = panel + (size_t) n_in * TILE_COLS;
    if (col + TILE_COLS >= n_out) fetch = a->next ? a->next->packed.data : panel;
    for (int64_t row = 0; row < a->n_rows; row += TILE_ROWS, fetch += n_in * fetch_step) {
      const int rows = a->n_rows - row < TILE_ROWS ? (int) (a->n_rows - row) : TILE_ROWS;
      tiles[n_vectors - 1][rows - 1](n_in, (const real *) a->x + row * a->ldx, a->ldx, panel, bias,
                                     in_place ? t.y + row * a->ldy + col : tile, in_place ? a->ldy : TILE_COLS, fetch,
                                     fetch_step);
      if (!in_place) finish(a, &t, tile, row, rows, col, cols);
    }
  }
}
