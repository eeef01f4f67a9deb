/* sketch.h: quantiles of any number of times in fixed memory, within a relative error.
 *
 * DDSketch: C. Masson, J. E. Rim, H. K. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error
 * guarantees", PVLDB 12(12), 2019, with all buckets allocated at once. With a = MLFFPROF_SKETCH_ERROR and
 * g = (1 + a) / (1 - a), bucket i counts the values in (g^(i-1), g^i] and stands for 2 g^i / (g + 1), which is within
 * a factor 1 +- a of each of them. Values below MLFFPROF_SKETCH_SMALLEST count as 0, those above the largest bucket
 * are put into it; the smallest and the largest value are kept exactly.
 */
#ifndef MLFFPROF_SKETCH_H
#define MLFFPROF_SKETCH_H

#include <stdint.h>

#define MLFFPROF_SKETCH_ERROR 0.005
#define MLFFPROF_SKETCH_SMALLEST 1e-9 /* s */
#define MLFFPROF_SKETCH_LARGEST 1e6   /* s */
enum { MLFFPROF_SKETCH_BUCKETS = 3456 };

typedef struct mlffprof_sketch {
  int64_t n, n_zero;
  double min, max;
  int64_t count[MLFFPROF_SKETCH_BUCKETS];
} mlffprof_sketch;

void mlffprof_sketch_add(mlffprof_sketch *s, double value);

/* Quantiles for q[n_q] in increasing order, linear between neighboring ranks; NaN when nothing was added. */
void mlffprof_sketch_quantiles(const mlffprof_sketch *s, const double *q, int n_q, double *values);

/* How many values are above a bound, and (about) their sum. */
void mlffprof_sketch_above(const mlffprof_sketch *s, double bound, int64_t *n, double *sum);

#endif
