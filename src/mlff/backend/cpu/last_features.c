/* last_features.c: copies the features of the last layer, and measures how unusual they are. */
#include "cpu.h"

/* |A f + b| of one atom; weights [width + 1][width] are A transposed and b. */
static real length_of(const real *f, int64_t n_features, const real *weights, int64_t width)
{
  enum { TILE = 16 };
  real total = 0;
  for (int64_t first = 0; first < width; first += TILE) {
    const int64_t n = width - first < TILE ? width - first : TILE;
    real sum[TILE] = {0};
    for (int64_t r = 0; r < n; r++) sum[r] = weights[width * width + first + r];
    if (n == TILE)
      for (int64_t c = 0; c < n_features; c++)
        for (int r = 0; r < TILE; r++) sum[r] += f[c] * weights[c * width + first + r];
    else
      for (int64_t c = 0; c < n_features; c++)
        for (int64_t r = 0; r < n; r++) sum[r] += f[c] * weights[c * width + first + r];
    for (int64_t r = 0; r < n; r++) total += sum[r] * sum[r];
  }
  return MLFF_REAL_IS_DOUBLE ? (real) sqrt((double) total) : (real) sqrtf((float) total);
}

void MLFF_CPU(last_features_cpu)(mlff_backend *backend, const mlff_last_features_args *a)
{
  (void) backend;
  const mlff_last_features *last = a->last;
  const int64_t width = last->width;
  const real *features = a->features, *weights = last->weights;
  real *uncertainty = last->uncertainty, *rows = last->rows;
  for (int64_t k = 0; k < a->n; k++) {
    const int64_t i = a->atoms ? a->atoms[k] : a->first + k;
    const int32_t species = a->center_species[i];
    const real *f = features + k * a->ld;
    if (rows)
      for (int64_t c = 0; c < width; c++) rows[i * width + c] = species >= 0 && c < a->width ? f[c] : 0;
    if (uncertainty)
      uncertainty[i] = species >= 0 ? length_of(f, a->width, weights + species * (width + 1) * width, width) : 0;
  }
}
