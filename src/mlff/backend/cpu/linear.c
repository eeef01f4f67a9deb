/* linear.c: y = act(x W^T + b) on the CPU.
 *
 * Weights are packed once into panels of TILE_VECTORS vectors of output columns, [panel][n_in][TILE_COLS], padded with
 * zeros. A tile of TILE_ROWS x TILE_COLS outputs stays in registers while the panel streams past (on AVX-512 6 x 64
 * floats: 24 accumulators); panels are the outer loop, so that one panel is read from the first-level cache for all
 * rows. Results of a tile go through a small buffer to the epilogue (bias is where the accumulators start).
 */
#include "cpu.h"

enum {
  TILE_ROWS = 6,
#if MLFF_KERNELS_AVX512
  TILE_VECTORS = 4,
#else
  TILE_VECTORS = 2, /* 12 of 16 registers are accumulators */
#endif
  TILE_COLS = TILE_VECTORS * MLFF_VBYTES / (int) sizeof(real)
};

mlff_status MLFF_CPU(linear_pack_cpu)(mlff_backend *backend, mlff_linear *linear, const double *weight, const double *bias,
                                      int n_out, int n_in, int transpose, mlff_error *error)
{
  const int rows = transpose ? n_out : n_in, cols = transpose ? n_in : n_out; /* of the product x[rows] -> y[cols] */
  const int n_panels = (cols + TILE_COLS - 1) / TILE_COLS;
  MLFF_TRY(mlff_buf_reserve(backend, &linear->packed, (size_t) n_panels * (size_t) rows * TILE_COLS * sizeof(real), error));
  MLFF_TRY(mlff_buf_reserve(backend, &linear->bias, (size_t) n_panels * TILE_COLS * sizeof(real), error));
  linear->n_in = rows;
  linear->n_out = cols;
  real *packed = linear->packed.data, *packed_bias = linear->bias.data;
  for (int panel = 0; panel < n_panels; panel++) {
    for (int c = 0; c < TILE_COLS; c++) {
      const int col = panel * TILE_COLS + c;
      for (int k = 0; k < rows; k++) {
        const double w = col >= cols ? 0.0 : transpose ? weight[(size_t) k * (size_t) n_in + (size_t) col]
                                                       : weight[(size_t) col * (size_t) n_in + (size_t) k];
        packed[((size_t) panel * (size_t) rows + (size_t) k) * TILE_COLS + (size_t) c] = (real) w;
      }
      packed_bias[panel * TILE_COLS + c] = bias && col < cols ? (real) bias[col] : (real) 0;
    }
  }
  return MLFF_OK;
}

/* tile[mr][nv] = bias + x[mr][n_in] * panel; mr and nv are constants at every call, so the loops unroll. */
MLFF_INLINE void tile_product(const int mr, const int nv, int n_in, const real *x, int64_t ldx, const real *panel,
                              const real *bias, real *tile)
{
  vreal acc[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 6
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) acc[r][v] = vload(bias + v * MLFF_VLEN);
  for (int k = 0; k < n_in; k++, panel += TILE_COLS) {
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
    for (int v = 0; v < nv; v++) vstore(tile + r * TILE_COLS + v * MLFF_VLEN, acc[r][v]);
}

typedef void tile_function(int n_in, const real *x, int64_t ldx, const real *panel, const real *bias, real *tile);

#define TILE(mr, nv)                                                                                                      \
  static void tile_##mr##_##nv(int n_in, const real *x, int64_t ldx, const real *panel, const real *bias, real *tile)     \
  {                                                                                                                       \
    tile_product(mr, nv, n_in, x, ldx, panel, bias, tile);                                                                \
  }
#define TILES(nv) TILE(1, nv) TILE(2, nv) TILE(3, nv) TILE(4, nv) TILE(5, nv) TILE(6, nv)
#define TILE_NAMES(nv) {tile_1_##nv, tile_2_##nv, tile_3_##nv, tile_4_##nv, tile_5_##nv, tile_6_##nv}
TILES(1)
TILES(2)
#if MLFF_KERNELS_AVX512
TILES(3)
TILES(4)
static tile_function *const tiles[TILE_VECTORS][TILE_ROWS] = {TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3), TILE_NAMES(4)};
#else
static tile_function *const tiles[TILE_VECTORS][TILE_ROWS] = {TILE_NAMES(1), TILE_NAMES(2)};
#endif

/* value and slope of the activation */
MLFF_INLINE vreal activate(mlff_act act, real alpha, vreal x, vreal *slope)
{
  if (act == MLFF_ACT_SILU) { /* x s(x);  s (1 + x (1 - s)) */
    const vreal s = vsigmoid(x);
    *slope = s + x * s * ((real) 1 - s);
    return x * s;
  }
  if (act == MLFF_ACT_CELU) { /* x or alpha (exp(x/alpha) - 1);  1 or exp(x/alpha): both at once, since exp(0) is 1 */
    const vreal e = vexp(vmin(vset(0), x) * ((real) 1 / alpha));
    *slope = e;
    return vmax(vset(0), x) + alpha * (e - (real) 1);
  }
  *slope = vset(1);
  return x;
}

/* One vector of results to its place: n of its lanes are columns of y. */
MLFF_INLINE void finish_vector(const mlff_linear_args *a, vreal v, int64_t row, int64_t col, int n)
{
  real *y = (real *) a->y + row * a->ldy + col;
  const int whole = n == MLFF_VLEN;
  if (a->act != MLFF_ACT_NONE) {
    vreal slope;
    v = activate(a->act, (real) a->alpha, v, &slope);
    if (a->slope) {
      real *s = (real *) a->slope + row * a->ld_slope + col;
      if (whole) vstore(s, slope);
      else vstore_part(s, slope, n);
    }
  } else if (a->scale) {
    const real *s = (const real *) a->scale + row * a->ld_scale + col;
    v *= whole ? vload(s) : vload_part(s, n);
  }
  if (a->accumulate) v += whole ? vload(y) : vload_part(y, n);
  if (whole) vstore(y, v);
  else vstore_part(y, v, n);
}

void MLFF_CPU(linear_cpu)(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *a)
{
  (void) backend;
  const int n_in = linear->n_in, n_out = linear->n_out;
  real tile[TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
  for (int first = 0; first < n_out; first += TILE_COLS) {
    const int cols = n_out - first < TILE_COLS ? n_out - first : TILE_COLS;
    const int n_vectors = (cols + MLFF_VLEN - 1) / MLFF_VLEN;
    const real *panel = (const real *) linear->packed.data + (size_t) first * (size_t) n_in;
    const real *bias = (const real *) linear->bias.data + first;
    for (int64_t row = 0; row < a->n_rows; row += TILE_ROWS) {
      const int rows = a->n_rows - row < TILE_ROWS ? (int) (a->n_rows - row) : TILE_ROWS;
      tiles[n_vectors - 1][rows - 1](n_in, (const real *) a->x + row * a->ldx, a->ldx, panel, bias, tile);
      for (int r = 0; r < rows; r++) {
        for (int v = 0; v < n_vectors; v++) {
          const int left = cols - v * MLFF_VLEN;
          finish_vector(a, vload(tile + r * TILE_COLS + v * MLFF_VLEN), row + r, first + v * MLFF_VLEN,
                        left < MLFF_VLEN ? left : MLFF_VLEN);
        }
      }
    }
  }
}
