/* blocks.c: see blocks.h. */
#include "compare/blocks.h"

#include "recorder/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int mlffprof_blocks_make(const mlffprof_report *report, mlffprof_blocks *b)
{
  const size_t room = (size_t) report->n_latencies + MLFFPROF_N_BLOCKS;
  *b = (mlffprof_blocks){.values = malloc(room * sizeof *b->values), .scratch = malloc(2 * room * sizeof *b->scratch)};
  if (!b->values || !b->scratch) {
    mlffprof_blocks_free(b);
    return 0;
  }
  for (int k = 0; k < report->n_latencies; k++)
    if (isfinite(report->latencies_ms[k])) b->values[b->n++] = report->latencies_ms[k];
  b->n_blocks = b->n < MLFFPROF_N_BLOCKS ? b->n : MLFFPROF_N_BLOCKS;
  for (int k = 0; k < b->n_blocks; k++) {
    b->begin[k + 1] = (int) ((int64_t) b->n * (k + 1) / b->n_blocks);
    const int n = b->begin[k + 1] - b->begin[k];
    memcpy(b->scratch, b->values + b->begin[k], (size_t) n * sizeof *b->scratch);
    mlffprof_sort(b->scratch, n);
    b->median[k] = mlffprof_quantile(b->scratch, n, 0.5);
  }
  return 1;
}

void mlffprof_blocks_free(mlffprof_blocks *b)
{
  free(b->values);
  free(b->scratch);
  b->values = b->scratch = NULL;
}

/* Steele's splitmix64: a fixed seed makes the same interval every time. */
static uint64_t next_random(uint64_t *state)
{
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Moves the value of rank k to v[k], smaller ones before it and larger ones after it (Hoare's selection). */
static void select_rank(double *v, int n, int k)
{
  int low = 0, high = n - 1;
  while (low < high) {
    const double pivot = v[low + (high - low) / 2];
    int i = low, j = high;
    while (i <= j) {
      while (v[i] < pivot) i++;
      while (v[j] > pivot) j--;
      if (i > j) break;
      const double swap = v[i];
      v[i++] = v[j];
      v[j--] = swap;
    }
    if (k <= j)
      high = j;
    else if (k >= i)
      low = i;
    else
      return;
  }
}

static double quantile_unsorted(double *v, int n, double q)
{
  const double at = q * (n - 1);
  const int low = (int) at;
  select_rank(v, n, low);
  if (low + 1 >= n) return v[low];
  double next = v[low + 1];
  for (int k = low + 2; k < n; k++) next = fmin(next, v[k]);
  return v[low] + (at - low) * (next - v[low]);
}

double mlffprof_blocks_resample(const mlffprof_blocks *b, double q, uint64_t *random)
{
  int n = 0;
  double sum = 0;
  for (int k = 0; k < b->n_blocks; k++) {
    const int pick = (int) (next_random(random) % (uint64_t) b->n_blocks), size = b->begin[pick + 1] - b->begin[pick];
    memcpy(b->scratch + n, b->values + b->begin[pick], (size_t) size * sizeof *b->scratch);
    n += size;
  }
  if (q >= 0) return quantile_unsorted(b->scratch, n, q);
  for (int k = 0; k < n; k++) sum += b->scratch[k];
  return sum / n;
}
