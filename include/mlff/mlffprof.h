/* mlffprof.h: public C API of the profiler library.
 *
 * A recorder collects the measurements of each step in fixed memory. A report is made from it at any time, written as
 * JSON or as a table, read back, compared with another report and checked against rules:
 *
 *   recorder -> statistics -> report -> {json, table} -> compare, gate
 *
 * The library itself measures only host memory and time (mlffprof_host_memory, mlffprof_seconds). It does not depend on
 * LAMMPS, MPI or the engine: with several ranks, one of them records the largest time of all.
 *
 * Errors: functions that can fail return mlffprof_status and fill a caller-owned mlffprof_error (last argument, may be
 * NULL) with what failed, the value, where, and how to fix it. The library has no globals, never exits or reads the
 * environment, and writes only to the files and streams of its arguments.
 *
 * Not measured: NaN for a double, MLFFPROF_UNKNOWN for bytes, NULL for a text, null in JSON. Never 0.
 *
 * Locale: numbers have a decimal point in every locale. Texts are UTF-8; invalid bytes become U+FFFD.
 *
 * Threads: use different objects from different threads, and each object from one thread at a time.
 *
 * The file is longer than 500 lines because it is the whole public API, with a comment above each member.
 */
#ifndef MLFF_MLFFPROF_H
#define MLFF_MLFFPROF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "mlff/mlffprof_fields.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define MLFFPROF_API
#else
#define MLFFPROF_API __attribute__((visibility("default")))
#endif

/* Version of the report's JSON, docs/profile.schema.json. A version may gain fields; readers ignore unknown ones. */
enum { MLFFPROF_SCHEMA_VERSION = 1 };

/* Bytes, rank or number of atoms that was not measured. */
enum { MLFFPROF_UNKNOWN = -1 };

/* Outcome of a call. MLFFPROF_OK is 0. */
typedef enum mlffprof_status {
  MLFFPROF_OK = 0,
  /* Invalid argument. */
  MLFFPROF_E_ARG,
  /* Out of memory. */
  MLFFPROF_E_NOMEM,
  /* A file cannot be opened, read or written. */
  MLFFPROF_E_IO,
  /* Invalid report or rules: syntax, type, unknown key. */
  MLFFPROF_E_FORMAT,
  /* A report of a newer schema, or a measurement that this system does not support. */
  MLFFPROF_E_UNSUPPORTED
} mlffprof_status;

/* Caller-owned error text. */
typedef struct mlffprof_error {
  mlffprof_status code;
  char text[1024];
} mlffprof_error;

/* Name of a status, e.g. "MLFFPROF_E_FORMAT". */
MLFFPROF_API const char *mlffprof_status_name(mlffprof_status status);

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Possible reasons of a slow step; a step may have several. */
enum {
  /* "neighbor_rebuild": the neighbor list was rebuilt. */
  MLFFPROF_TAG_NEIGHBOR_REBUILD = 1u << 0,
  /* "box_change": the simulation box changed. */
  MLFFPROF_TAG_BOX_CHANGE = 1u << 1,
  /* "buffer_growth": a buffer of the engine grew. */
  MLFFPROF_TAG_BUFFER_GROWTH = 1u << 2,
  /* "output": thermo, dump or restart was written. */
  MLFFPROF_TAG_OUTPUT = 1u << 3,
  /* "other_rank": this rank waited for a slower one. */
  MLFFPROF_TAG_OTHER_RANK = 1u << 4,
  /* "graph_capture": a CUDA graph was captured again. */
  MLFFPROF_TAG_GRAPH_CAPTURE = 1u << 5,
  /* "preempted": another process used the processor. */
  MLFFPROF_TAG_PREEMPTED = 1u << 6
};
enum { MLFFPROF_N_TAGS = 7 };

/* Name of tag 1u << bit in the JSON; NULL for bit >= MLFFPROF_N_TAGS. */
MLFFPROF_API const char *mlffprof_tag_name(int bit);

/* Role of a component: its mean time is energy_time_ms, forces_time_ms or stress_time_ms of the report (summed over
 * components with the same role). Set it only if the program times that part separately. */
typedef enum mlffprof_role {
  MLFFPROF_ROLE_NONE = 0,
  MLFFPROF_ROLE_ENERGY,
  MLFFPROF_ROLE_FORCES,
  MLFFPROF_ROLE_STRESS
} mlffprof_role;

/* A part of a step. Components of the same parent, or without one, do not overlap. Hotspots have advice for the names
 * pair, neigh, comm, modify, output, and below pair: descriptor, message, dense, forces, exchange, copy. "other" is
 * reserved for the time outside all top-level components. */
typedef struct mlffprof_component {
  /* Unique, not empty. */
  const char *name;
  /* Name of a component earlier in the list; NULL = top level. */
  const char *parent;
  mlffprof_role role;
} mlffprof_component;

/* Options of a recorder; all zero is valid. Strings and arrays are copied. */
typedef struct mlffprof_options {
  /* Name of the run; NULL = "profile". */
  const char *name;
  /* NULL = not known. */
  const char *model_name;
  /* E.g. "cpu", "cuda:0"; NULL = not known. */
  const char *device;
  /* "nve", "nvt", "npt", "minimize"; NULL = not known. */
  const char *ensemble;
  /* Free text; NULL = none. */
  const char *notes;
  /* "2025-11-23 10:30:00", UTC; NULL = now. */
  const char *timestamp;
  /* 0 = unknown: set by the first step with n_atoms. */
  int64_t n_atoms;
  /* The first n_warmup steps are excluded from all statistics. */
  int64_t n_warmup;
  /* 0 = 1. */
  int n_ranks;
  /* 1 = reduced units; `drift` in eV/atom/ps is null. */
  int lj_units;
  /* Limits of memory; 0 = default. */
  /* Quantiles are exact up to this many steps, and from the sketch beyond (docs/statistics.md). Default: 100000. */
  int64_t n_exact;
  /* Entries of latencies_ms, beyond which every 2nd, 4th, ... step is kept. Default: 10000. */
  int n_latencies;
  /* Points of the memory, energy and accuracy series, beyond which every 2nd, 4th, ... is kept. Default: 2000. */
  int n_series;
  /* Slowest steps listed. Default: 20. */
  int n_slow_steps;
  /* [n_components] NULL = none. */
  const mlffprof_component *components;
  /* At most 64. */
  int n_components;
  /* Reference model of the accuracy samples (the teacher); NULL = none. */
  const char *reference;
  /* [n_elements] chemical symbols for errors per element; NULL = none. */
  const char *const *elements;
  /* At most 118. */
  int n_elements;
  /* K. A run above it has exploded. 0 = 20000; negative = never. */
  double explosion_temperature;
  /* eV/atom. A run with |conserved - first| above it has exploded; without a conserved quantity the total energy is
   * used if ensemble is "nve". 0 = 1; negative = never. With lj_units both limits are off unless set. */
  double explosion_energy;
  /* MB = 1e6 bytes. Steady growth above it is a leak. 0 = 10. */
  double memory_tolerance_mb;
} mlffprof_options;

/* One step. */
typedef struct mlffprof_step {
  /* Number of the step in the program, listed in slow_steps. */
  int64_t step;
  /* Wall time, finite and >= 0; maximum over ranks. */
  double seconds;
  /* Simulated time; 0 = no dynamics (ns_per_day is null if all are 0). */
  double dt_ps;
  /* Sum over all ranks; 0 = unchanged. */
  int64_t n_atoms;
  /* MLFFPROF_TAG_... */
  unsigned tags;
  /* Rank that took `seconds`; MLFFPROF_UNKNOWN allowed. */
  int slowest_rank;
  /* [n_components] seconds, in the order of the options; NaN = not measured in this step; NULL = none measured. On
   * several ranks: of the slowest rank, or means. */
  const double *components;
  /* [n_components] floating-point operations, and bytes read and written, means over ranks; 0 = not counted; NULL =
   * none counted. */
  const double *flop, *bytes;
  /* Processor time of the thread that steps, mean over ranks; 0 = not measured. */
  double cpu_seconds;
  /* Seconds of work without waiting: maximum and mean over ranks; 0 = not measured. */
  double busy_most, busy_mean;
  /* Maximum over ranks; 0 = unknown. */
  int64_t atoms_most;
} mlffprof_step;

/* Memory, all ranks together. */
typedef struct mlffprof_memory_sample {
  int64_t step;
  /* Resident set; MLFFPROF_UNKNOWN. */
  int64_t host_bytes;
  /* Peak since the process started; MLFFPROF_UNKNOWN or 0 = unknown. */
  int64_t host_peak_bytes;
  /* In use on the device; MLFFPROF_UNKNOWN without a device. */
  int64_t device_bytes;
  /* Memory of a reference model in the same process, excluded from the values above; 0 = none. */
  int64_t host_reference_bytes, device_reference_bytes;
} mlffprof_memory_sample;

/* Quantities of an energy sample, in the order of mlffprof_energy_sample.value and of the report's energy.value. */
typedef enum mlffprof_quantity_id {
  /* "potential", eV. */
  MLFFPROF_POTENTIAL = 0,
  /* "kinetic", eV. */
  MLFFPROF_KINETIC,
  /* "total", eV: potential + kinetic. */
  MLFFPROF_TOTAL,
  /* "conserved", eV: conserved quantity of the integrator (LAMMPS: econserve). */
  MLFFPROF_CONSERVED,
  /* "temperature", K. */
  MLFFPROF_TEMPERATURE,
  /* "pressure", bar. */
  MLFFPROF_PRESSURE,
  /* "volume", A^3. */
  MLFFPROF_VOLUME,
  MLFFPROF_N_QUANTITIES
} mlffprof_quantity_id;

/* Name of a quantity in the JSON; NULL if out of range. */
MLFFPROF_API const char *mlffprof_quantity_name(mlffprof_quantity_id id);

/* Energies of the whole system. `has` lists the measured values: a measured NaN is an explosion, not a gap. */
typedef struct mlffprof_energy_sample {
  int64_t step;
  /* Simulated time; must not decrease. */
  double time_ps;
  /* Measured values: 1u << MLFFPROF_POTENTIAL | ... */
  unsigned has;
  double value[MLFFPROF_N_QUANTITIES];
} mlffprof_energy_sample;

/* Comparison with a reference model (e.g. the teacher) on the same positions. */
typedef struct mlffprof_accuracy_sample {
  int64_t step;
  /* (E - E_reference) / n_atoms, eV/atom; NaN = not measured. */
  double energy_error;
  /* RMSE and MAE over all components of all atoms, eV/A. */
  double force_rmse;
  double force_mae;
  /* Largest |F - F_reference| of an atom, eV/A. */
  double force_max;
  /* F.F_reference / (|F| |F_reference|) of the 3N-vectors. */
  double force_cosine;
  /* [n_elements] force RMSE and MAE of the atoms of an element; NaN = no such atom; NULL = not measured. */
  const double *element_rmse;
  const double *element_mae;
  /* Non-zero: stress_rmse and pressure_error, of the virial, are measured. */
  int has_stress;
  /* Over xx yy zz xy xz yz, GPa. */
  double stress_rmse;
  /* P - P_reference, bar. */
  double pressure_error;
} mlffprof_accuracy_sample;

/* ---- recorder ---------------------------------------------------------------------------------------------------- */

typedef struct mlffprof_recorder mlffprof_recorder;
typedef struct mlffprof_report mlffprof_report;

/* Creates a recorder. It allocates and touches all of its memory (1.5 MB by default), so that recording is not measured
 * as memory growth. Free with mlffprof_recorder_free. */
MLFFPROF_API mlffprof_status mlffprof_recorder_create(const mlffprof_options *options, mlffprof_recorder **recorder,
                                                      mlffprof_error *error);
/* NULL is allowed. */
MLFFPROF_API void mlffprof_recorder_free(mlffprof_recorder *recorder);

/* Excludes the next n steps as warm-up, for example at the start of a second run. Does not shorten a current warm-up.
 * Memory samples of the warm-up are in the series but not in the verdict. */
MLFFPROF_API mlffprof_status mlffprof_recorder_warmup(mlffprof_recorder *recorder, int64_t n, mlffprof_error *error);

/* Adds counts of domain checks. */
struct mlffprof_outside;
MLFFPROF_API void mlffprof_recorder_outside(mlffprof_recorder *recorder, const struct mlffprof_outside *more);

/* Each adds one sample without allocating. A rejected sample (E_ARG: negative or non-finite time, decreasing time_ps,
 * ...) changes nothing. */
MLFFPROF_API mlffprof_status mlffprof_recorder_step(mlffprof_recorder *recorder, const mlffprof_step *step,
                                                    mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_recorder_memory(mlffprof_recorder *recorder, const mlffprof_memory_sample *sample,
                                                      mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_recorder_energy(mlffprof_recorder *recorder, const mlffprof_energy_sample *sample,
                                                      mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_recorder_accuracy(mlffprof_recorder *recorder,
                                                        const mlffprof_accuracy_sample *sample, mlffprof_error *error);

/* Restarts the energy statistics at the start of a new trajectory (a second `run` after a change of ensemble or
 * velocities), because the drift is that of one trajectory. Latency and memory continue. `ensemble` as in the options,
 * NULL = unchanged. */
MLFFPROF_API mlffprof_status mlffprof_recorder_restart_energy(mlffprof_recorder *recorder, const char *ensemble,
                                                              mlffprof_error *error);

/* Sets an entry of the report's block `context`, replacing an earlier value. `key` is a path, "host" or "deck/steps":
 * each / opens a nested block. Keys have 1 to 100 bytes and at most 4 levels, none empty; there are at most 500
 * entries. A key must not be both a value and a block. Usual keys: host cpu gpu driver ranks threads lammps plugin
 * model_sha256 precision kernels pair_style units deck/NAME. */
MLFFPROF_API mlffprof_status mlffprof_recorder_context(mlffprof_recorder *recorder, const char *key, const char *text,
                                                       mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_recorder_context_number(mlffprof_recorder *recorder, const char *key,
                                                              double value, mlffprof_error *error);
/* Changes texts of the options; NULL = unchanged. */
MLFFPROF_API mlffprof_status mlffprof_recorder_names(mlffprof_recorder *recorder, const char *name,
                                                     const char *model_name, const char *device, const char *notes,
                                                     mlffprof_error *error);

/* Current values, for thermo output and for limits that warn or stop. Computed in microseconds. */
typedef struct mlffprof_summary {
  int64_t n_steps, n_warmup;
  /* Values of the last step, including warm-up. */
  double last_ms;
  double mean_ms, std_ms, min_ms, max_ms, cv;
  /* From the sketch, within 0.5 %. */
  double median_ms, p95_ms, p99_ms;
  double us_per_atom, steps_per_second, ns_per_day;
  /* Last sample, and last - first sample after warm-up; MB = 1e6 bytes. */
  double host_mb, host_growth_mb;
  double device_mb, device_growth_mb;
  /* Per atom and ps, by linear regression, as `drift` of the report. */
  double drift;
  /* Drift x time / |initial energy|, percent. */
  double drift_percent;
  /* Largest |E - E_first| per atom, of the same quantity as drift. */
  double excursion;
  /* Last sample. */
  double temperature;
  /* Last accuracy sample. */
  double force_rmse, force_max, energy_error;
  double stress_rmse, pressure_error;
  /* 0 = a measured energy, temperature, ... was NaN or infinite. */
  int finite;
  /* 1 = not finite, or above explosion_temperature or explosion_energy. */
  int exploded;
} mlffprof_summary;
MLFFPROF_API void mlffprof_recorder_summary(const mlffprof_recorder *recorder, mlffprof_summary *summary);
/* `exploded` of the summary, and `finite` (may be NULL), without computing the summary. */
MLFFPROF_API int mlffprof_recorder_exploded(const mlffprof_recorder *recorder, int *finite);

/* Makes a report of everything recorded so far; recording continues. Free with mlffprof_report_free. */
MLFFPROF_API mlffprof_status mlffprof_recorder_report(const mlffprof_recorder *recorder, mlffprof_report **report,
                                                      mlffprof_error *error);

/* Times a function of the caller: calls it n_warmup (recorder option) + n_calls times and records each call as a step,
 * and the host memory after every memory_every-th call (0 = never). A non-zero return value stops with MLFFPROF_E_ARG;
 * earlier calls stay recorded. */
typedef int mlffprof_function(void *user);
MLFFPROF_API mlffprof_status mlffprof_recorder_time(mlffprof_recorder *recorder, mlffprof_function *function,
                                                    void *user, int64_t n_calls, int64_t memory_every,
                                                    mlffprof_error *error);

/* Monotonic clock, seconds. */
MLFFPROF_API double mlffprof_seconds(void);
/* Processor time of the calling thread, seconds; 0 where the system does not tell. A call takes 0.2 us. */
MLFFPROF_API double mlffprof_cpu_seconds(void);
/* Resident set of this process and its peak, bytes; either pointer may be NULL. MLFFPROF_E_UNSUPPORTED, and
 * MLFFPROF_UNKNOWN in both, if the system does not provide them. */
MLFFPROF_API mlffprof_status mlffprof_host_memory(int64_t *resident, int64_t *peak, mlffprof_error *error);

/* ---- report ------------------------------------------------------------------------------------------------------ */

/* A report is read-only plain data, allocated by mlffprof_recorder_report or mlffprof_report_read. Most members are
 * rows of mlffprof_fields.h, with JSON name, unit and meaning; the others are declared here. */

/* Statistics of n values. std is that of a sample (n - 1), NaN for n < 2; cv = std / mean; quantiles are interpolated
 * linearly (as in numpy). All NaN for n = 0. */
typedef struct mlffprof_stats {
  int64_t n;
  double mean, median, std, min, max, p95, p99, cv;
} mlffprof_stats;

typedef struct mlffprof_component_result {
  MLFFPROF_COMPONENT_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_component_result;

typedef struct mlffprof_slow_step {
  MLFFPROF_SLOW_STEP_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_slow_step;

/* Steps with a tag, or "untagged". A step with two tags counts for both. */
typedef struct mlffprof_tag_result {
  MLFFPROF_TAG_RESULT_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_tag_result;

typedef enum mlffprof_verdict {
  /* "unknown": not measured, fewer than ten samples after warm-up, or large jumps. */
  MLFFPROF_VERDICT_UNKNOWN = 0,
  /* "stable". */
  MLFFPROF_VERDICT_STABLE,
  /* "growing": significantly positive slope, below the tolerance so far. */
  MLFFPROF_VERDICT_GROWING,
  /* "leak": steady growth above the tolerance. */
  MLFFPROF_VERDICT_LEAK
} mlffprof_verdict;
MLFFPROF_API const char *mlffprof_verdict_name(mlffprof_verdict verdict);

/* Memory of one kind (host or device). Bytes as doubles; NaN = not measured. */
typedef struct mlffprof_memory_result {
  MLFFPROF_MEMORY_KIND_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_memory_result;

typedef struct mlffprof_memory_report {
  MLFFPROF_MEMORY_FIELDS(MLFFPROF_MEMBER, )
  int n_points;
  int64_t stride;
  /* [n_points] */
  const int64_t *step;
  /* [n_points] */
  const double *host_bytes;
  /* [n_points] */
  const double *device_bytes;
} mlffprof_memory_report;

enum { MLFFPROF_N_BINS = 40 };

/* Statistics of one quantity over all samples. Energies are those of the whole system, eV. */
typedef struct mlffprof_quantity {
  MLFFPROF_QUANTITY_FIELDS(MLFFPROF_MEMBER, )
  /* "histogram". */
  double bin_low, bin_high;
  int64_t bins[MLFFPROF_N_BINS];
} mlffprof_quantity;

typedef struct mlffprof_energy_report {
  MLFFPROF_ENERGY_FIELDS(MLFFPROF_MEMBER, )
  /* null in the JSON if n = 0. */
  mlffprof_quantity value[MLFFPROF_N_QUANTITIES];
  int n_points;
  int64_t stride;
  /* [n_points] */
  const int64_t *step;
  /* [n_points] "time_ps". */
  const double *time;
  /* [n_points] each; NaN where not measured. */
  const double *series[MLFFPROF_N_QUANTITIES];
} mlffprof_energy_report;

typedef struct mlffprof_element_result {
  MLFFPROF_ELEMENT_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_element_result;

/* Errors against the reference model, over all samples. RMSE is the root of the mean over samples of the square. */
typedef struct mlffprof_accuracy_report {
  MLFFPROF_ACCURACY_FIELDS(MLFFPROF_MEMBER, )
  int n_elements;
  /* [n_elements] */
  const mlffprof_element_result *elements;
  int n_points;
  int64_t stride;
  /* [n_points] */
  const int64_t *step;
  /* [n_points] */
  const double *energy_error, *force_rmse_series, *force_max_series, *cosine_series;
  /* [n_points] */
  const double *stress_rmse_series, *pressure_error;
} mlffprof_accuracy_report;

/* A rule and its result. */
typedef struct mlffprof_target {
  MLFFPROF_TARGET_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_target;

/* A component above 10 % of the step, with advice. */
typedef struct mlffprof_hotspot {
  MLFFPROF_HOTSPOT_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_hotspot;

typedef struct mlffprof_context_entry {
  /* Path with / between levels. */
  const char *key;
  /* NULL = a number. */
  const char *text;
  double number;
} mlffprof_context_entry;

/* Load balance between ranks: means over the steps in which it was measured. "balance" in the JSON. */
typedef struct mlffprof_balance {
  MLFFPROF_BALANCE_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_balance;

/* Counted work of a step. "work" in the JSON, written by `mlff bench --count`. */
typedef struct mlffprof_work {
  MLFFPROF_WORK_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_work;

/* Domain checks of a run, and those outside the training domain. "outside" in the JSON. */
typedef struct mlffprof_outside {
  MLFFPROF_OUTSIDE_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_outside;

struct mlffprof_report {
  MLFFPROF_REPORT_FIELDS(MLFFPROF_MEMBER, )
  int64_t n_warmup;
  /* ms. Only n, mean, std, min, max and cv; read from a file: only n, mean and max. */
  mlffprof_stats warmup;
  /* ms */
  mlffprof_stats latency;
  int quantiles_exact;
  /* Relative error of the sketch. */
  double quantile_error;
  int n_latencies;
  /* [n_latencies] */
  const double *latencies_ms;
  int n_components;
  const mlffprof_component_result *components;
  int n_slow_steps;
  const mlffprof_slow_step *slow_steps;
  int n_tags;
  const mlffprof_tag_result *tags;
  int n_slowest_ranks;
  /* [n_slowest_ranks] */
  const int *slowest_rank;
  const int64_t *slowest_rank_steps;
  int n_targets;
  const mlffprof_target *targets;
  int n_hotspots;
  const mlffprof_hotspot *hotspots;
  int n_context;
  const mlffprof_context_entry *context;
  /* Private: owns the members above. */
  struct mlff_arena *arena;
};

/* NULL is allowed. */
MLFFPROF_API void mlffprof_report_free(mlffprof_report *report);

/* Writes the JSON to a stream, or to a file. The file is replaced atomically: a temporary file is synchronised and
 * renamed. */
MLFFPROF_API mlffprof_status mlffprof_report_json(const mlffprof_report *report, FILE *out, mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_report_write(const mlffprof_report *report, const char *path,
                                                   mlffprof_error *error);

/* Reads a report of schema version 1. Unknown fields are ignored; a field of the wrong type, a file that is not a
 * report and a newer schema version are errors. Free with mlffprof_report_free. */
MLFFPROF_API mlffprof_status mlffprof_report_read(const char *path, mlffprof_report **report, mlffprof_error *error);
/* Reads a report from memory; `path` is for error texts. */
MLFFPROF_API mlffprof_status mlffprof_report_parse(const char *path, const char *text, size_t size,
                                                   mlffprof_report **report, mlffprof_error *error);

/* Prints the report as text (`mlff show`). all: with the slowest steps and the context. */
MLFFPROF_API mlffprof_status mlffprof_report_print(const mlffprof_report *report, int all, FILE *out,
                                                   mlffprof_error *error);
/* Prints one line per report, with the speed-up against the first. */
MLFFPROF_API mlffprof_status mlffprof_reports_print(const mlffprof_report *const *reports, int n_reports, FILE *out,
                                                    mlffprof_error *error);

/* Text of a context entry; NULL if there is none or it is a number. */
MLFFPROF_API const char *mlffprof_context_text(const mlffprof_report *report, const char *key);

/* Roofline of one core (mlff_roof of mlff.h). NaN = unknown. */
typedef struct mlffprof_roof {
  /* 1e9 operations/s of multiply-adds. */
  double gflops;
  /* 1e9 bytes/s read. */
  double cache_gbs, memory_gbs;
  /* File of the rates, for the text. */
  const char *source;
} mlffprof_roof;

/* Reads a file of `mlff check --roof --json FILE`: the rates of the report's kernel path and precision. An error if the
 * file is from another processor or has no such rates. */
MLFFPROF_API mlffprof_status mlffprof_roof_read(const char *path, const mlffprof_report *report, mlffprof_roof *roof,
                                                mlffprof_error *error);

/* Prints, as text or JSON, the time, work and fraction of the roofline of each component, then advice in the order of
 * expected gain. roof: of the report's kernel path and precision, or NULL. */
MLFFPROF_API mlffprof_status mlffprof_explain(const mlffprof_report *report, const mlffprof_roof *roof, int as_json,
                                              FILE *out, mlffprof_error *error);

/* Prints a report of `mlff scaling` as a table. *is_scaling = 0, and nothing is printed, for other files. */
MLFFPROF_API mlffprof_status mlffprof_scaling_print(const char *path, FILE *out, int *is_scaling,
                                                    mlffprof_error *error);

/* ---- metrics, targets, comparison ------------------------------------------------------------------------------- */

/* Value of a metric: names of the JSON (mean_latency_ms, p99_latency_ms, cv, us_per_atom, drift, ...) and derived ones
 * (p95_over_mean, memory_delta_mb, force_rmse, ...), listed in docs/gates.md. Returns 1 and the value (NaN = not
 * measured), or 0 for an unknown metric. */
MLFFPROF_API int mlffprof_report_metric(const mlffprof_report *report, const char *name, double *value);
/* Name of metric k = 0, 1, ...; NULL after the last. */
MLFFPROF_API const char *mlffprof_metric_name(int k);

/* Rules: limits for one report (targets) and for the change between two (gate), in a YAML file (docs/gates.md):
 *   rules:
 *     - {metric: p95_over_mean, below: 2}
 *     - {metric: us_per_atom, below: 10, model: water-painn}     only for reports of this model
 *     - {metric: median_latency_ms, ratio_below: 1.10}           B / A
 * Unknown keys, metrics and duplicates are errors. */
typedef struct mlffprof_rules mlffprof_rules;
MLFFPROF_API mlffprof_status mlffprof_rules_read(const char *path, mlffprof_rules **rules, mlffprof_error *error);
MLFFPROF_API void mlffprof_rules_free(mlffprof_rules *rules);
/* Default rules: p95 < 2 mean, p99 < 3 mean, cv < 0.2, memory delta < 10 MB. */
MLFFPROF_API mlffprof_status mlffprof_rules_default(mlffprof_rules **rules, mlffprof_error *error);

/* Replaces the report's targets by those of the rules for one report. rules: NULL = default. */
MLFFPROF_API mlffprof_status mlffprof_report_targets(mlffprof_report *report, const mlffprof_rules *rules,
                                                     mlffprof_error *error);

/* Compares B with the baseline A: ratios with 95 % intervals (block bootstrap), the Mann-Whitney test on medians of
 * blocks of steps ("not enough" below nine samples on a side), memory, drift and accuracy. */
MLFFPROF_API mlffprof_status mlffprof_compare_print(const mlffprof_report *a, const mlffprof_report *b, FILE *out,
                                                    mlffprof_error *error);

/* 1 where wall times of a run on a CPU are in doubt: another program had the processor for more than a tenth of the
 * time, or in steps of more than a twentieth of it. */
MLFFPROF_API int mlffprof_is_disturbed(const mlffprof_report *report);
/* Speed-up of B over A: ratio of the median times per step and atom. NaN = not measured. */
MLFFPROF_API double mlffprof_speed_up(const mlffprof_report *a, const mlffprof_report *b);
/* Compares n_reports >= 1 reports with the first: speed-up with its 95 % interval, test, memory, errors. */
MLFFPROF_API mlffprof_status mlffprof_compare_all_print(const mlffprof_report *const *reports, int n_reports, FILE *out,
                                                        mlffprof_error *error);

/* Compares n_b runs of B with n_a runs of A, 1 to 20 each, with runs as samples: the median of the ratios of each run
 * of B to each run of A, and with 4 or more runs on a side its 95 % interval. */
MLFFPROF_API mlffprof_status mlffprof_compare_sides_print(const mlffprof_report *const *a, int n_a,
                                                          const mlffprof_report *const *b, int n_b, FILE *out,
                                                          mlffprof_error *error);

/* Ratio of a latency metric (mean, median, p95, p99: "mean_latency_ms", ...). */
typedef struct mlffprof_ratio {
  /* B / A; NaN = not measured. */
  double ratio;
  /* 95 % interval; NaN below nine samples on a side. */
  double low, high;
  /* Two-sided Mann-Whitney test on the medians of blocks; NaN below nine samples on a side. */
  double p;
  /* Samples (blocks of steps) on each side. */
  int n_a, n_b;
} mlffprof_ratio;
MLFFPROF_API mlffprof_status mlffprof_compare_latency(const mlffprof_report *a, const mlffprof_report *b,
                                                      const char *metric, mlffprof_ratio *ratio, mlffprof_error *error);

/* Two-sided p-value of the Mann-Whitney U test of x[n_x] against y[n_y]: exact for up to 20 values without ties,
 * otherwise by the normal approximation with tie correction. NaN if either is empty. */
MLFFPROF_API double mlffprof_mann_whitney(const double *x, int n_x, const double *y, int n_y);

/* Checks A, or the change from A to B (NULL = none), against the rules and prints a line for each. *n_failed: failed
 * rules, including those whose metric was not measured and rules for a change without B. */
MLFFPROF_API mlffprof_status mlffprof_gate(const mlffprof_rules *rules, const mlffprof_report *a,
                                           const mlffprof_report *b, FILE *out, int *n_failed, mlffprof_error *error);

/* ---- trace ------------------------------------------------------------------------------------------------------- */

/* Spans in trace-event JSON for Perfetto (ui.perfetto.dev) and chrome://tracing. It is written during the run; these
 * viewers also open the file of a killed run, which lacks the closing bracket. */
typedef struct mlffprof_trace mlffprof_trace;
/* max_events: 0 = 1,000,000. Later events are dropped; their number is written at the end. */
MLFFPROF_API mlffprof_status mlffprof_trace_open(const char *path, int64_t max_events, mlffprof_trace **trace,
                                                 mlffprof_error *error);
/* Names a row of the viewer: pid is the rank, tid a row of that rank (0, 1, ...). */
MLFFPROF_API mlffprof_status mlffprof_trace_row(mlffprof_trace *trace, int pid, int tid, const char *process,
                                                const char *row, mlffprof_error *error);
/* Writes a span from `begin` (seconds, any common origin) of length `seconds`. Spans of a row may nest. step: shown in
 * the viewer unless MLFFPROF_UNKNOWN. tags: MLFFPROF_TAG_..., shown by name. */
MLFFPROF_API mlffprof_status mlffprof_trace_span(mlffprof_trace *trace, int pid, int tid, const char *name,
                                                 double begin, double seconds, int64_t step, unsigned tags,
                                                 mlffprof_error *error);
/* Writes a value over time, e.g. "host MB". */
MLFFPROF_API mlffprof_status mlffprof_trace_counter(mlffprof_trace *trace, int pid, const char *name, double time,
                                                    double value, mlffprof_error *error);
/* Completes the file and frees the trace, also if writing fails. NULL is allowed. */
MLFFPROF_API mlffprof_status mlffprof_trace_close(mlffprof_trace *trace, mlffprof_error *error);

#ifdef __cplusplus
}
#endif
#endif
