/* series.c: see series.h. */
#include "recorder/series.h"

#include <math.h>
#include <stdlib.h>

int mlffprof_series_create(mlffprof_series *s, int n_columns, int capacity)
{
  const int n = (capacity < 4 ? 4 : capacity) & ~1;
  const size_t per_column = (size_t) n, n_integers = (size_t) (1 + n_columns), n_doubles = (size_t) (1 + 3 * n_columns);
  *s = (mlffprof_series){.n_columns = n_columns, .capacity = n, .stride = 1};
  s->step = malloc(n_integers * per_column * sizeof *s->step);
  s->storage = malloc(n_doubles * per_column * sizeof *s->storage);
  if (!s->step || !s->storage) {
    mlffprof_series_free(s);
    return 0;
  }
  /* written now, so that pages are mapped before the run */
  for (size_t k = 0; k < n_integers * per_column; k++) s->step[k] = -1;
  for (size_t k = 0; k < n_doubles * per_column; k++) s->storage[k] = NAN;
  s->x = s->storage;
  for (int c = 0; c < n_columns; c++) {
    const size_t column = (size_t) c;
    s->count[c] = s->step + (1 + column) * per_column;
    s->value[c] = s->storage + (1 + 3 * column) * per_column;
    s->mean[c] = s->value[c] + per_column;
    s->mean_x[c] = s->mean[c] + per_column;
  }
  return 1;
}

void mlffprof_series_free(mlffprof_series *s)
{
  free(s->step);
  free(s->storage);
  *s = (mlffprof_series){.n = 0};
}

void mlffprof_series_clear(mlffprof_series *s)
{
  s->n = 0;
  s->stride = 1;
  s->filled = 0;
}

/* Merges points 2k and 2k+1 into point k. */
static void halve(mlffprof_series *s)
{
  for (int k = 0; k < s->n / 2; k++) {
    s->step[k] = s->step[2 * k];
    s->x[k] = s->x[2 * k];
    for (int c = 0; c < s->n_columns; c++) {
      const int64_t n0 = s->count[c][2 * k], n1 = s->count[c][2 * k + 1], n = n0 + n1;
      const double w0 = n ? (double) n0 / (double) n : 0, w1 = n ? (double) n1 / (double) n : 0;
      s->value[c][k] = s->value[c][2 * k];
      s->mean[c][k] = w0 * s->mean[c][2 * k] + w1 * s->mean[c][2 * k + 1];
      s->mean_x[c][k] = w0 * s->mean_x[c][2 * k] + w1 * s->mean_x[c][2 * k + 1];
      s->count[c][k] = n;
    }
  }
  s->n /= 2;
  s->stride *= 2;
}

static void begin_point(mlffprof_series *s, int64_t step, double x, const double *values)
{
  if (s->n == s->capacity) halve(s);
  s->step[s->n] = step;
  s->x[s->n] = x;
  for (int c = 0; c < s->n_columns; c++) {
    s->value[c][s->n] = values[c];
    s->mean[c][s->n] = s->mean_x[c][s->n] = 0;
    s->count[c][s->n] = 0;
  }
  s->n++;
  s->filled = 0;
}

void mlffprof_series_add(mlffprof_series *s, int64_t step, double x, const double *values)
{
  if (s->n == 0 || s->filled >= s->stride) begin_point(s, step, x, values);
  const int k = s->n - 1;
  s->filled++;
  for (int c = 0; c < s->n_columns; c++) {
    if (isnan(values[c])) continue;
    const double n = (double) ++s->count[c][k];
    s->mean[c][k] += (values[c] - s->mean[c][k]) / n;
    s->mean_x[c][k] += (x - s->mean_x[c][k]) / n;
  }
}
