/* linear_loops.h: packing into panels, the epilogue, and the loops over panels and tiles, for all precisions. Part of
 * the template of linear_units.h. Requires
 *   TILE_ROWS, TILE_COLS  largest tile of outputs; panels are TILE_COLS wide
 *   ROW_STEP, COL_STEP    tiles at the ends have multiples of these rows and columns
 *   n_units(linear)       units of a column of the matrix, of all parts
 *   weight_unit           unit u of column col; zeros outside
 *   choose_tile           tile_function of at most TILE_COLS columns and TILE_ROWS rows
 */
#ifndef MLFF_LINEAR_LOOPS_H
#define MLFF_LINEAR_LOOPS_H

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Panels [panel][n_units][TILE_COLS] and the bias, both padded with zeros. */
static mlff_status pack_panels(mlff_backend *backend, mlff_linear *linear, const weights *w, const double *bias,
                               mlff_error *error)
{
  linear->n_in = w->rows;
  linear->n_out = w->cols;
  linear->transposed = w->transpose;
  const int units = n_units(linear), n_panels = (w->cols + TILE_COLS - 1) / TILE_COLS;
  const size_t n_packed = (size_t) n_panels * (size_t) units * TILE_COLS, n_bias = (size_t) n_panels * TILE_COLS;
  MLFF_TRY(mlff_buf_reserve(backend, &linear->packed, n_packed * sizeof(unit), error));
  MLFF_TRY(mlff_buf_reserve(backend, &linear->bias, n_bias * sizeof(real), error));
  unit *packed = linear->packed.data;
  real *packed_bias = linear->bias.data;
  for (int panel = 0; panel < n_panels; panel++) {
    for (int c = 0; c < TILE_COLS; c++) {
      const int col = panel * TILE_COLS + c;
      for (int u = 0; u < units; u++)
        packed[((size_t) panel * (size_t) units + (size_t) u) * TILE_COLS + (size_t) c] =
            weight_unit(linear, w, u, col);
      packed_bias[col] = bias && col < w->cols ? (real) bias[col] : (real) 0;
    }
  }
  return MLFF_OK;
}

/* ---- epilogue ---------------------------------------------------------------------------------------------------- */

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

/* Destination of the results. */
typedef struct target {
  real *y, *slope;
  const real *scale;
  int64_t ldy, ld_slope, ld_scale;
  int accumulate;
  real alpha, inverse_alpha;
} target;

/* Epilogue of one vector, n lanes of which are columns of y. act, is_scaled, whole: compile-time constants. */
MLFF_INLINE void epilogue_vector(const mlff_act act, const int is_scaled, const int whole, const target *t, vreal v,
                                 int64_t row, int col, int n)
{
  real *y = t->y + row * t->ldy + col;
  if (is_scaled) {
    const real *s = t->scale + row * t->ld_scale + col;
    const vreal scale = whole ? vload(s) : vload_part(s, n);
    v *= act == MLFF_ACT_CELU ? mlff_celu_slope(vmin(vset(0), scale), t->inverse_alpha) : scale;
  } else if (act != MLFF_ACT_NONE) {
    vreal slope;
    v = activate(act, t->alpha, v, &slope);
    if (t->slope) {
      real *s = t->slope + row * t->ld_slope + col;
      if (whole)
        vstore(s, slope);
      else
        vstore_part(s, slope, n);
    }
  }
  if (t->accumulate) v += whole ? vload(y) : vload_part(y, n);
  if (whole)
    vstore(y, v);
  else
    vstore_part(y, v, n);
}

/* Epilogue of one output tile at (row, col). */
MLFF_INLINE void epilogue_tile(const mlff_act act, const int is_scaled, const target *t, const real *tile, int64_t row,
                               int rows, int col, int cols)
{
  const int whole = cols / MLFF_VLEN, rest = cols % MLFF_VLEN;
  for (int r = 0; r < rows; r++, tile += TILE_COLS) {
    for (int v = 0; v < whole; v++)
      epilogue_vector(act, is_scaled, 1, t, vload(tile + v * MLFF_VLEN), row + r, col + v * MLFF_VLEN, MLFF_VLEN);
    if (rest)
      epilogue_vector(act, is_scaled, 0, t, vload(tile + whole * MLFF_VLEN), row + r, col + whole * MLFF_VLEN, rest);
  }
}

static void epilogue(const mlff_linear_args *a, const target *t, const real *tile, int64_t row, int rows, int col,
                     int cols)
{
  if (a->act == MLFF_ACT_NONE && !a->scale)
    epilogue_tile(MLFF_ACT_NONE, 0, t, tile, row, rows, col, cols);
  else if (a->act == MLFF_ACT_NONE)
    epilogue_tile(MLFF_ACT_NONE, 1, t, tile, row, rows, col, cols);
  else if (a->act == MLFF_ACT_SILU)
    epilogue_tile(MLFF_ACT_SILU, 0, t, tile, row, rows, col, cols);
  else if (a->act == MLFF_ACT_SSP)
    epilogue_tile(MLFF_ACT_SSP, 0, t, tile, row, rows, col, cols);
  else if (a->scale)
    epilogue_tile(MLFF_ACT_CELU, 1, t, tile, row, rows, col, cols);
  else
    epilogue_tile(MLFF_ACT_CELU, 0, t, tile, row, rows, col, cols);
}

/* ---- the loops --------------------------------------------------------------------------------------------------- */

/* Rows first_row .. first_row + n_rows of the GEMM; x: units of these rows, [n_rows][ldx]. */
static void multiply_rows(const mlff_linear *linear, const mlff_linear_args *a, const unit *x, int64_t ldx,
                          int64_t first_row, int64_t n_rows)
{
  const int units = n_units(linear), n_out = linear->n_out;
  const target t = {a->y,          a->slope,        a->scale,
                    a->ldy,        a->ld_slope,     a->ld_scale,
                    a->accumulate, (real) a->alpha, (real) (a->act == MLFF_ACT_CELU ? 1 / a->alpha : 0)};
  real tile[TILE_ROWS * TILE_COLS] __attribute__((aligned(64)));
  const int64_t n_tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS,
                step = n_tiles ? (TILE_COLS + n_tiles - 1) / n_tiles : 0;
  const int64_t fetch_step = step < LINE ? step : LINE;
  const int is_plain = a->act == MLFF_ACT_NONE && !a->scale && !a->accumulate;
  for (int col = 0; col < n_out; col += TILE_COLS) {
    const int cols = n_out - col < TILE_COLS ? n_out - col : TILE_COLS;
    const int in_place = is_plain && cols % COL_STEP == 0;
    const unit *panel = (const unit *) linear->packed.data + (size_t) col * (size_t) units;
    const real *bias = (const real *) linear->bias.data + col;
    const unit *fetch = panel + (size_t) units * TILE_COLS;
    if (col + TILE_COLS >= n_out) fetch = a->next ? a->next->packed.data : panel;
    for (int64_t row = 0; row < n_rows; row += TILE_ROWS, fetch += units * fetch_step) {
      const int rows = n_rows - row < TILE_ROWS ? (int) (n_rows - row) : TILE_ROWS;
      const int to_y = in_place && rows % ROW_STEP == 0;
      choose_tile(cols, rows)(linear, x + row * ldx, ldx, panel, bias,
                              to_y ? t.y + (first_row + row) * a->ldy + col : tile, to_y ? a->ldy : TILE_COLS, fetch,
                              fetch_step);
      if (!to_y) epilogue(a, &t, tile, first_row + row, rows, col, cols);
    }
  }
}

#endif
