/* series.h: a bounded series of samples: when it is full, every second point goes and the stride doubles.
 *
 * A point stands for `stride` neighboring samples. It keeps the first of them, for plots and histograms, and the
 * mean of them all, for regression, so that no sample is lost to the slope.
 */
#ifndef MLFFPROF_SERIES_H
#define MLFFPROF_SERIES_H

#include <stdint.h>

enum { MLFFPROF_SERIES_COLUMNS = 8 };

typedef struct mlffprof_series {
  int n_columns, capacity, n;
  int64_t stride, filled; /* samples in the last point                                                    */
  int64_t *step;          /* [capacity]                                                                   */
  double *x;              /* [capacity] abscissa of the first sample                                      */
  double *value[MLFFPROF_SERIES_COLUMNS];  /* [capacity] first sample; NaN = not measured                 */
  double *mean[MLFFPROF_SERIES_COLUMNS];   /* [capacity] mean of the measured samples; undefined for 0    */
  double *mean_x[MLFFPROF_SERIES_COLUMNS]; /* [capacity] their mean abscissa                              */
  int64_t *count[MLFFPROF_SERIES_COLUMNS]; /* [capacity] how many were measured                           */
  double *storage;
} mlffprof_series;

/* capacity >= 4, made even. 0 when memory is out. */
int mlffprof_series_create(mlffprof_series *s, int n_columns, int capacity);
void mlffprof_series_free(mlffprof_series *s);
void mlffprof_series_clear(mlffprof_series *s);
/* values[n_columns]; NaN = not measured. */
void mlffprof_series_add(mlffprof_series *s, int64_t step, double x, const double *values);

#endif
