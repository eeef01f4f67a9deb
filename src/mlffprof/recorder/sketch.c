/* sketch.c: see sketch.h. */
#include "recorder/sketch.h"

#include <math.h>

/* ln g, and the index of the first bucket. */
static double log_base(void)
{
  return log1p(MLFFPROF_SKETCH_ERROR) - log1p(-MLFFPROF_SKETCH_ERROR);
}

static double first_index(void)
{
  return ceil(log(MLFFPROF_SKETCH_SMALLEST) / log_base());
}

static double bucket_value(int k)
{
  const double base = log_base();
  return 2.0 * exp((first_index() + k) * base) / (exp(base) + 1.0);
}

void mlffprof_sketch_add(mlffprof_sketch *s, double value)
{
  if (s->n == 0 || value < s->min) s->min = value;
  if (s->n == 0 || value > s->max) s->max = value;
  s->n++;
  if (value < MLFFPROF_SKETCH_SMALLEST) {
    s->n_zero++;
    return;
  }
  const double at = ceil(log(value) / log_base()) - first_index();
  s->count[at < 0 ? 0 : at > MLFFPROF_SKETCH_BUCKETS - 1 ? MLFFPROF_SKETCH_BUCKETS - 1 : (int) at]++;
}

static double clamp(const mlffprof_sketch *s, double value)
{
  return value < s->min ? s->min : value > s->max ? s->max : value;
}

/* Value of rank `rank` (0-based). *k: its bucket; *seen: values in the buckets before it. Ranks must not decrease
 * from call to call. */
static double value_of_rank(const mlffprof_sketch *s, double rank, int *k, int64_t *seen)
{
  if (rank <= 0 || rank < (double) s->n_zero) return s->min;
  if (rank >= (double) (s->n - 1)) return s->max;
  while (*k < MLFFPROF_SKETCH_BUCKETS - 1 && (double) (*seen + s->count[*k]) <= rank) *seen += s->count[(*k)++];
  return clamp(s, bucket_value(*k));
}

void mlffprof_sketch_quantiles(const mlffprof_sketch *s, const double *q, int n_q, double *values)
{
  int k = 0;
  int64_t seen = s->n_zero;
  for (int i = 0; i < n_q; i++) {
    if (s->n == 0) {
      values[i] = NAN;
      continue;
    }
    const double rank = q[i] * (double) (s->n - 1), low = floor(rank), high = ceil(rank);
    const double a = value_of_rank(s, low, &k, &seen);
    int k_high = k;
    int64_t seen_high = seen;
    const double b = value_of_rank(s, high, &k_high, &seen_high);
    values[i] = a + (rank - low) * (b - a);
  }
}

void mlffprof_sketch_above(const mlffprof_sketch *s, double bound, int64_t *n, double *sum)
{
  *n = 0;
  *sum = 0;
  for (int k = MLFFPROF_SKETCH_BUCKETS - 1; k >= 0 && bucket_value(k) > bound; k--) {
    *n += s->count[k];
    *sum += (double) s->count[k] * clamp(s, bucket_value(k));
  }
}
