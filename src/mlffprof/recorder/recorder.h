/* recorder.h: what a recorder holds. recorder.c makes it, record.c fills it, context.c keeps its context,
 * make_report.c reads it. */
#ifndef MLFFPROF_RECORDER_H
#define MLFFPROF_RECORDER_H

#include "../errors.h"
#include "series.h"
#include "sketch.h"
#include "statistics.h"

enum { MLFFPROF_MAX_COMPONENTS = 64, MLFFPROF_MAX_ELEMENTS = 118, MLFFPROF_MAX_RANKS = 1 << 20 };
enum { MLFFPROF_MAX_CONTEXT = 500, MLFFPROF_MAX_KEY = 100, MLFFPROF_MAX_LEVELS = 4 };

/* Columns of the memory series: all samples, and those after warm-up. */
enum { MLFFPROF_HOST = 0, MLFFPROF_DEVICE, MLFFPROF_HOST_SETTLED, MLFFPROF_DEVICE_SETTLED, MLFFPROF_N_MEMORY };
/* Columns of the accuracy series. */
enum {
  MLFFPROF_ENERGY_ERROR = 0,
  MLFFPROF_FORCE_RMSE,
  MLFFPROF_FORCE_MAX,
  MLFFPROF_COSINE,
  MLFFPROF_STRESS_RMSE,
  MLFFPROF_PRESSURE_ERROR,
  MLFFPROF_N_ACCURACY
};

/* Moments of a stream by Welford's update, which does not cancel for long steady runs. */
typedef struct mlffprof_moments {
  int64_t n;
  double mean, m2, m3; /* m2 = sum (x - mean)^2, m3 = sum (x - mean)^3 */
  double min, max, first, last, excursion;
} mlffprof_moments;

typedef struct mlffprof_texts {
  char *name, *model_name, *device, *ensemble, *notes, *timestamp, *reference;
} mlffprof_texts;

typedef struct mlffprof_component_sum {
  char *name;
  int parent; /* index; -1 = top level */
  mlffprof_role role;
  int64_t n;
  double seconds, max, wall; /* wall: of the steps in which it was measured */
  double flop, bytes;
} mlffprof_component_sum;

typedef struct mlffprof_slow {
  int64_t step;
  double seconds;
  unsigned tags;
  int rank;
} mlffprof_slow;

typedef struct mlffprof_tag_sum {
  int64_t n;
  double seconds;
} mlffprof_tag_sum;

typedef struct mlffprof_error_sum {
  int64_t n;
  double sum, absolute, square, max;
} mlffprof_error_sum;

typedef struct mlffprof_element_sum {
  char *name;
  int64_t n;
  double square, absolute;
} mlffprof_element_sum;

typedef struct mlffprof_context_item {
  char *key, *text; /* text NULL = a number */
  double number;
} mlffprof_context_item;

struct mlffprof_recorder {
  mlffprof_texts text;
  int n_ranks, lj_units, n_latencies;
  double explosion_temperature, explosion_energy, memory_tolerance_mb; /* explosion: infinity = never */

  /* steps */
  int64_t n_atoms, warmup_left;
  mlffprof_moments latency, warmup; /* seconds */
  mlffprof_sketch sketch;
  double *kept; /* [n_kept_max] seconds of every kept_stride-th step: all steps while the stride is 1 */
  int64_t n_kept, n_kept_max, kept_stride;
  double last_seconds, total_seconds, warmup_seconds, simulated_ps;
  double seconds_per_atom;      /* sum over steps of seconds / atoms */
  double cpu_seconds, cpu_wall; /* of the steps in which it was measured */
  int64_t n_per_atom;
  mlffprof_slow *slow; /* [n_slow_max] slowest first */
  int n_slow, n_slow_max;
  mlffprof_tag_sum tags[MLFFPROF_N_TAGS + 1]; /* last: untagged */
  mlffprof_component_sum *components;         /* [n_components + 1] last: other */
  int n_components;
  int64_t *rank_steps; /* [n_ranks] how often each was the slowest */
  int64_t n_busy, n_counted;
  double busy_most, busy_mean, busy_wall, atoms_ratio; /* sums over the steps in which they were measured */

  mlffprof_outside outside;

  /* memory, bytes */
  mlffprof_series memory;
  int64_t n_memory;
  mlffprof_moments memory_settled[2]; /* host, device; after warm-up */
  double memory_peak[2], memory_last[2], memory_reference[2];

  /* energy */
  mlffprof_series energy;
  mlffprof_moments quantity[MLFFPROF_N_QUANTITIES];
  int64_t n_energy, energy_first_step, energy_last_step;
  double energy_first_time, energy_last_time;
  int finite, exploded;
  int64_t first_bad_step;

  /* accuracy */
  mlffprof_series accuracy;
  int64_t n_accuracy, worst_step;
  mlffprof_error_sum energy_error, force, stress, pressure_error;
  mlffprof_moments cosine;
  mlffprof_element_sum *elements; /* [n_elements] */
  int n_elements;
  double last_force_rmse, last_force_max, last_energy_error, last_stress_rmse, last_pressure_error;

  mlffprof_context_item *context; /* [n_context] */
  int n_context;
};

/* Replaces *to by a copy of text; NULL leaves it as it is. 0 when memory is out. */
int mlffprof_text_set(char **to, const char *text);

void mlffprof_moments_add(mlffprof_moments *m, double x);
double mlffprof_moments_std(const mlffprof_moments *m);  /* NaN for n < 2                                      */
double mlffprof_moments_skew(const mlffprof_moments *m); /* m3 / n / (m2 / n)^1.5; NaN for n < 3 or no spread  */

/* Everything but quantiles, times a factor; NaN for n = 0. */
mlffprof_stats mlffprof_moments_stats(const mlffprof_moments *m, double factor);

/* Quantity that `drift` is of: conserved when it was measured, otherwise total; MLFFPROF_N_QUANTITIES when neither
 * was. */
mlffprof_quantity_id mlffprof_drift_quantity(const mlffprof_recorder *r);
/* Slope over the series of a quantity, per ps; energies per atom (NaN without a number of atoms). */
mlffprof_slope mlffprof_quantity_slope(const mlffprof_recorder *r, mlffprof_quantity_id id, double divide_by);

#endif
