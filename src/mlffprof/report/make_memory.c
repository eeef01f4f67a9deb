/* make_memory.c: does the memory grow?
 *
 * What is judged are the samples after warm-up, less their first tenth, in which allocators and caches still settle. A
 * slope is significant when it is larger than both error bars: that of noise around a line, and that of a random walk,
 * for which a few jumps of an otherwise constant size are no trend (see statistics.h): large ones are not judged.
 * Growth below `noise_bytes` is what an allocator does by itself, and no verdict is based on it.
 */
#include "report/make.h"
#include "../../base/number.h"

#include <math.h>

enum { MIN_POINTS = 10 };
static const double noise_bytes = 131072;

/* Mean of the points [begin, end) by weight. */
static double mean_of(const double *y, const int64_t *w, int begin, int end)
{
  double sum = 0, weight = 0;
  for (int k = begin; k < end; k++) {
    if (w[k] == 0) continue;
    sum += (double) w[k] * y[k];
    weight += (double) w[k];
  }
  return weight > 0 ? sum / weight : NAN;
}

static void set_verdict(mlffprof_memory_result *m, double tolerance_bytes, double n_steps, mlff_arena *arena)
{
  const double growth = m->growth_bytes, slope = m->growth_per_1000_steps, error = m->growth_error;
  char text[4][MLFF_NUMBER_SIZE];
  mlff_number_fixed(growth / 1e6, 1, text[0]);
  mlff_number_fixed(tolerance_bytes / 1e6, 1, text[1]);
  mlff_number_fixed(slope / 1e6, 3, text[2]);
  mlff_number_fixed(error / 1e6, 3, text[3]);
  const int is_steady = slope - error > 0;
  if (growth > tolerance_bytes && !is_steady) {
    m->verdict = MLFFPROF_VERDICT_UNKNOWN;
    m->reason = mlffprof_arena_printf(arena,
                                      "grew by %s MB over %.0f steps, but not steadily: arrays that grew once, "
                                      "or the begin of a leak, which a longer run tells apart",
                                      text[0], n_steps);
  } else if (growth > tolerance_bytes) {
    m->verdict = MLFFPROF_VERDICT_LEAK;
    m->reason = mlffprof_arena_printf(arena, "grew by %s MB over %.0f steps, more than the %s MB that are tolerated",
                                      text[0], n_steps, text[1]);
  } else if (is_steady && growth > noise_bytes) {
    m->verdict = MLFFPROF_VERDICT_GROWING;
    m->reason = mlffprof_arena_printf(arena, "grows steadily by %s +- %s MB per 1000 steps", text[2], text[3]);
  } else {
    m->verdict = MLFFPROF_VERDICT_STABLE;
    m->reason =
        mlffprof_arena_printf(arena, "no growth beyond its noise: %s +- %s MB per 1000 steps", text[2], text[3]);
  }
}

void mlffprof_memory_judge(const double *x, const double *y, const int64_t *w, int n, double tolerance_bytes,
                           mlffprof_memory_result *m, mlff_arena *arena)
{
  const int begin = n - n / 10 >= MIN_POINTS ? n / 10 : 0, left = n - begin, tenth = left / 10;
  if (left < MIN_POINTS) {
    m->verdict = MLFFPROF_VERDICT_UNKNOWN;
    m->reason = mlffprof_arena_printf(arena, "%d samples after warm-up are too few for a verdict, which needs %d", left,
                                      (int) MIN_POINTS);
    return;
  }
  const mlffprof_slope line = mlffprof_regression(x + begin, y + begin, w + begin, left);
  double *scratch = mlff_arena_alloc(arena, (size_t) left, sizeof *scratch);
  if (!scratch) return;
  const mlffprof_slope walk = mlffprof_walk(x + begin, y + begin, w + begin, left, scratch);
  const double walk_error = walk.error + fabs(walk.slope - line.slope); /* holds the interval of the walk */
  m->growth_bytes = mean_of(y, w, n - tenth, n) - mean_of(y, w, begin, begin + tenth);
  m->growth_per_1000_steps = 1e3 * line.slope;
  m->growth_error = 1e3 * (line.error > walk_error ? line.error : walk_error);
  if (isnan(line.slope) || isnan(line.error) || isnan(walk_error)) {
    m->verdict = MLFFPROF_VERDICT_UNKNOWN;
    m->reason = mlff_arena_string(arena, "the samples are all of the same step");
    return;
  }
  set_verdict(m, tolerance_bytes, x[n - 1] - x[begin], arena);
}

static void make_kind(const mlffprof_recorder *r, int kind, mlffprof_memory_result *m, mlff_arena *arena)
{
  const mlffprof_moments *settled = &r->memory_settled[kind];
  const mlffprof_series *s = &r->memory;
  const int column = MLFFPROF_HOST_SETTLED + kind;
  m->n = settled->n;
  m->peak_bytes = r->memory_peak[kind];
  m->final_bytes = r->memory_last[kind];
  m->reference_bytes = r->memory_reference[kind];
  if (isnan(r->memory_last[kind])) return;
  m->initial_bytes = settled->n ? settled->first : NAN;
  m->delta_bytes = settled->n ? settled->last - settled->first : NAN;
  double *x = mlff_arena_alloc(arena, (size_t) s->n, sizeof *x),
         *y = mlff_arena_copy(arena, s->mean[column], (size_t) s->n, sizeof(double));
  int64_t *w = mlff_arena_copy(arena, s->count[column], (size_t) s->n, sizeof *w);
  int n = 0;
  if (!x || !y || !w) return;
  for (int k = 0; k < s->n; k++) { /* skip the warm-up */
    if (s->count[column][k] == 0) continue;
    x[n] = s->mean_x[column][k];
    y[n] = s->mean[column][k];
    w[n++] = s->count[column][k];
  }
  mlffprof_memory_judge(x, y, w, n, 1e6 * r->memory_tolerance_mb, m, arena);
}

/* 1 if the growth was measured and has no verdict. */
static int is_open(const mlffprof_memory_result *m)
{
  return m->verdict == MLFFPROF_VERDICT_UNKNOWN && !isnan(m->growth_bytes);
}

/* A run is not stable if the verdict on either kind of memory is unknown. */
static mlffprof_verdict worse_of(const mlffprof_memory_result *a, const mlffprof_memory_result *b)
{
  const mlffprof_verdict worse = a->verdict > b->verdict ? a->verdict : b->verdict;
  return worse == MLFFPROF_VERDICT_STABLE && (is_open(a) || is_open(b)) ? MLFFPROF_VERDICT_UNKNOWN : worse;
}

void mlffprof_make_memory(const mlffprof_recorder *r, mlffprof_report *report)
{
  mlffprof_memory_report *m = &report->memory;
  const mlffprof_series *s = &r->memory;
  m->tolerance_mb = r->memory_tolerance_mb;
  make_kind(r, MLFFPROF_HOST, &m->host, report->arena);
  make_kind(r, MLFFPROF_DEVICE, &m->device, report->arena);
  m->verdict = worse_of(&m->host, &m->device);
  m->stride = s->stride;
  m->step = mlff_arena_copy(report->arena, s->step, (size_t) s->n, sizeof *s->step);
  m->host_bytes = mlff_arena_copy(report->arena, s->value[MLFFPROF_HOST], (size_t) s->n, sizeof(double));
  m->device_bytes = mlff_arena_copy(report->arena, s->value[MLFFPROF_DEVICE], (size_t) s->n, sizeof(double));
  m->n_points = s->n;
}
