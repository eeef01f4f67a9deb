/* bins.c: see bins.h. */
#include "bins.h"

#include "../errors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sets the number of bins, and the bins per unit of each coordinate. */
static void choose_numbers(mlff_bins *b, const double low[3], const double high[3], const double reach[3],
                           double per_unit[3])
{
  double count[3];
  for (int k = 0; k < 3; k++) count[k] = fmax(1.0, floor(fmin((high[k] - low[k]) / reach[k], 1e6)));
  while (count[0] * count[1] * count[2] > 4.0 * b->n_atoms + 64.0) {
    int most = 0;
    for (int k = 1; k < 3; k++)
      if (count[k] > count[most]) most = k;
    count[most] = ceil(count[most] / 2);
  }
  for (int k = 0; k < 3; k++) {
    b->n[k] = (int32_t) count[k];
    per_unit[k] = high[k] > low[k] ? count[k] / (high[k] - low[k]) : 0.0;
  }
}

mlff_status mlff_bins_make(int32_t n, const double (*coords)[3], const double low[3], const double high[3],
                           const double reach[3], const double (*pos)[3], mlff_bins *bins, mlff_error *error)
{
  double per_unit[3];
  mlff_bins *b = bins;
  memset(b, 0, sizeof *b);
  b->n_atoms = n;
  choose_numbers(b, low, high, reach, per_unit);
  const int64_t n_bins = mlff_bins_number(b);
  b->bin = malloc(((size_t) n + 1) * sizeof *b->bin);
  b->order = malloc(((size_t) n + 1) * sizeof *b->order);
  b->start = calloc((size_t) n_bins + 2, sizeof *b->start);
  b->x = malloc(((size_t) n + 1) * 3 * sizeof *b->x);
  if (!b->bin || !b->order || !b->start || !b->x)
    return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a neighbor list");
  for (int32_t a = 0; a < n; a++) {
    int32_t bin = 0;
    for (int k = 0; k < 3; k++) {
      const double c = (coords[a][k] - low[k]) * per_unit[k];
      bin = bin * b->n[k] + (c >= b->n[k] ? b->n[k] - 1 : c > 0 ? (int32_t) c : 0);
    }
    b->bin[a] = bin;
    b->start[bin + 2]++;
  }
  for (int64_t k = 2; k <= n_bins + 1; k++) b->start[k] += b->start[k - 1];
  b->y = b->x + n;
  b->z = b->y + n;
  for (int32_t a = 0; a < n; a++) { /* start[k + 1] advances from the begin of bin k to its end */
    const int32_t place = b->start[b->bin[a] + 1]++;
    b->order[place] = a;
    b->x[place] = pos[a][0];
    b->y[place] = pos[a][1];
    b->z[place] = pos[a][2];
  }
  return MLFF_OK;
}

mlff_status mlff_bins_of_positions(int32_t n, const double (*pos)[3], double reach, mlff_bins *bins, mlff_error *error)
{
  const double thickness[3] = {reach, reach, reach};
  double low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
  int is_first = 1;
  for (int32_t a = 0; a < n; a++) {
    if (!isfinite(pos[a][0]) || !isfinite(pos[a][1]) || !isfinite(pos[a][2])) continue;
    for (int k = 0; k < 3; k++) {
      if (is_first || pos[a][k] < low[k]) low[k] = pos[a][k];
      if (is_first || pos[a][k] > high[k]) high[k] = pos[a][k];
    }
    is_first = 0;
  }
  return mlff_bins_make(n, pos, low, high, thickness, pos, bins, error);
}

void mlff_bins_free(mlff_bins *bins)
{
  free(bins->bin);
  free(bins->order);
  free(bins->start);
  free(bins->x);
  memset(bins, 0, sizeof *bins);
}
