/* mlffprof.h: public C API of the profiler library.
 *
 * A recorder takes what a program measures, step by step, in fixed memory however long the run; a report is made of
 * it at any time; a report is written as JSON or as a table, read back, compared with another one and held against
 * rules:
 *
 *   recorder -> statistics -> report -> {json, table} -> compare, gate
 *
 * The library measures nothing by itself but host memory and time (mlffprof_host_memory, mlffprof_seconds), and only
 * when asked. It knows nothing of LAMMPS, MPI or the engine: with several ranks, one of them records the largest time
 * of all.
 *
 * Errors: every function that can fail returns mlffprof_status and takes a caller-owned mlffprof_error last (NULL is
 * allowed); the text says what, which value, which file and line, and what to do. The library has no globals, never
 * exits, and neither prints nor reads the environment; it writes to the files and streams that it is given.
 *
 * Not measured: a double is NaN, a count of bytes is MLFFPROF_UNKNOWN, a text is NULL; JSON has null. Never 0.
 *
 * Locale: numbers are written and read with a point in every locale. Texts are UTF-8; bytes that are not become
 * U+FFFD.
 *
 * Threads: different objects may be used from different threads at once; one object from one thread at a time.
 *
 * It is longer than 500 lines because it is the whole public API with the meaning of every field.
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

/* Version of the report's JSON, docs/profile.schema.json. Fields may be added within a version; readers ignore those
 * that they do not know. */
enum { MLFFPROF_SCHEMA_VERSION = 1 };

/* A number of bytes, a rank or an atom count that was not measured. */
enum { MLFFPROF_UNKNOWN = -1 };

/* Outcome of a call. MLFFPROF_OK is 0. */
typedef enum mlffprof_status {
  MLFFPROF_OK = 0,
  MLFFPROF_E_ARG,        /* the caller passed something impossible                              */
  MLFFPROF_E_NOMEM,      /* out of memory                                                       */
  MLFFPROF_E_IO,         /* a file cannot be opened, read or written                            */
  MLFFPROF_E_FORMAT,     /* a file is not a report (or not rules): syntax, kind, unknown key    */
  MLFFPROF_E_UNSUPPORTED /* a report of a newer schema, or a measurement this system has not    */
} mlffprof_status;

/* Caller-owned error text. */
typedef struct mlffprof_error {
  mlffprof_status code;
  char text[1024];
} mlffprof_error;

/* Name of a status, e.g. "MLFFPROF_E_FORMAT". */
MLFFPROF_API const char *mlffprof_status_name(mlffprof_status status);

/* ---- what is recorded ------------------------------------------------------------------------------------------- */

/* Why a step may have been slow; several may hold at once. */
enum {
  MLFFPROF_TAG_NEIGHBOR_REBUILD = 1u << 0, /* "neighbor_rebuild"  the neighbour list was rebuilt in this step     */
  MLFFPROF_TAG_BOX_CHANGE = 1u << 1,       /* "box_change"        the simulation box changed                      */
  MLFFPROF_TAG_BUFFER_GROWTH = 1u << 2,    /* "buffer_growth"     a buffer of the engine was enlarged             */
  MLFFPROF_TAG_OUTPUT = 1u << 3,           /* "output"            thermo, dump or restart was written             */
  MLFFPROF_TAG_OTHER_RANK = 1u << 4,       /* "other_rank"        this rank waited: another one took clearly longer */
  MLFFPROF_TAG_GRAPH_CAPTURE = 1u << 5,    /* "graph_capture"     a CUDA graph was captured again                 */
  MLFFPROF_TAG_PREEMPTED = 1u << 6         /* "preempted"         another process had the processor meanwhile     */
};
enum { MLFFPROF_N_TAGS = 7 };

/* Name of the tag 1u << bit as the JSON has it; NULL for bit >= MLFFPROF_N_TAGS. */
MLFFPROF_API const char *mlffprof_tag_name(int bit);

/* Components whose mean time is energy_time_ms, forces_time_ms and stress_time_ms of the report (added up when several
 * have the same role). Use them only where the program really times that part by itself. */
typedef enum mlffprof_role {
  MLFFPROF_ROLE_NONE = 0,
  MLFFPROF_ROLE_ENERGY,
  MLFFPROF_ROLE_FORCES,
  MLFFPROF_ROLE_STRESS
} mlffprof_role;

/* A part of a step. Components without a parent do not overlap; those of one parent do not overlap either. Known names
 * get advice in the hotspots: pair, neigh, comm, modify, output, and below pair: descriptor, message, dense, forces,
 * exchange, copy. "other" is reserved: the report adds it for the time that no top-level component has. */
typedef struct mlffprof_component {
  const char *name;   /* unique, not empty                                                   */
  const char *parent; /* name of a component earlier in the list; NULL = a part of the step  */
  mlffprof_role role;
} mlffprof_component;

/* Options of a recorder; all zero is legal. Strings and arrays are copied. */
typedef struct mlffprof_options {
  const char *name;       /* of the run; NULL = "profile"                                                        */
  const char *model_name; /* NULL = not known                                                                    */
  const char *device;     /* e.g. "cpu", "cuda:0"; NULL = not known                                              */
  const char *ensemble;   /* "nve", "nvt", "npt", "minimize"; NULL = not known                                   */
  const char *notes;      /* free text; NULL = none                                                              */
  const char *timestamp;  /* "2025-11-23 10:30:00", UTC; NULL = now                                              */
  int64_t n_atoms;        /* 0 = not known yet: the first step that says so counts                               */
  int64_t n_warmup;       /* the first n_warmup steps are warm-up: kept apart from all statistics                */
  int n_ranks;            /* 0 = 1                                                                               */
  int lj_units;           /* 1 = energies, times, ... are reduced: `drift` in eV/atom/ps is null then            */
  /* Bounds on memory. 0 = the default in brackets.                                                              */
  int64_t n_exact;  /* [100000] quantiles are exact up to this many steps, then of the sketch (docs/benchmarks.md) */
  int n_latencies;  /* [10000]  latencies_ms of a report has at most this many entries, then every 2nd, 4th, ...  */
  int n_series;     /* [2000]   points of the memory, energy and accuracy series, then every 2nd, 4th, ... sample */
  int n_slow_steps; /* [20]     slowest steps that are listed                                                    */
  const mlffprof_component *components; /* [n_components] NULL = none                                            */
  int n_components;                     /* at most 64                                                            */
  const char *reference;                /* model that accuracy samples compare with (the teacher); NULL = none   */
  const char *const *elements;          /* [n_elements] chemical symbols for errors per element; NULL = none     */
  int n_elements;                       /* at most 118                                                           */
  double explosion_temperature;         /* K; above it a run has exploded. 0 = 20000; negative = never           */
  double explosion_energy;    /* eV/atom; |conserved - first| above it is an explosion (total energy without a conserved
                              quantity, but only when ensemble is "nve"). 0 = 1; negative = never. With lj_units both
                              checks are off unless set */
  double memory_tolerance_mb; /* steady growth over the trajectory that is a leak, MB = 1e6 bytes. 0 = 10           */
} mlffprof_options;

/* One step. */
typedef struct mlffprof_step {
  int64_t step;               /* number of the step in the program: appears in slow_steps                             */
  double seconds;             /* wall time, >= 0 and finite; with several ranks the largest of all ranks              */
  double dt_ps;               /* simulated time of the step; 0 = no dynamics (ns_per_day is null when all are 0)      */
  int64_t n_atoms;            /* of all ranks; 0 = as before                                                          */
  unsigned tags;              /* MLFFPROF_TAG_...                                                                     */
  int slowest_rank;           /* rank that took `seconds`; MLFFPROF_UNKNOWN allowed                                   */
  const double *components;   /* [n_components] seconds, in the order of the options; NaN = this one was not measured in
                               this step; NULL = none was. On several ranks: of the slowest rank, or means    */
  const double *flop, *bytes; /* [n_components] work of the components: floating-point operations, and bytes read and
                                 written; 0 = not counted; NULL = none was. Means over ranks                   */
  double busy_most, busy_mean; /* seconds of work without waiting, of the rank with most and the mean over ranks; 0 =
                                  not measured                                                                */
  int64_t atoms_most;          /* of the rank with most atoms; 0 = not known                                   */
} mlffprof_step;

/* Memory, all ranks together. */
typedef struct mlffprof_memory_sample {
  int64_t step;
  int64_t host_bytes;      /* resident set; MLFFPROF_UNKNOWN                                                */
  int64_t host_peak_bytes; /* largest since the process started; MLFFPROF_UNKNOWN or 0 = not known          */
  int64_t device_bytes;    /* in use on the device; MLFFPROF_UNKNOWN without a device                       */
  /* Of a reference model that is evaluated beside, and that the numbers above do not have; 0 = none.            */
  int64_t host_reference_bytes, device_reference_bytes;
} mlffprof_memory_sample;

/* Quantities of an energy sample, in the order of mlffprof_energy_sample.value and of the report's energy.value. */
typedef enum mlffprof_quantity_id {
  MLFFPROF_POTENTIAL = 0, /* "potential"    eV                                                               */
  MLFFPROF_KINETIC,       /* "kinetic"      eV                                                               */
  MLFFPROF_TOTAL,         /* "total"        eV, potential + kinetic                                          */
  MLFFPROF_CONSERVED,     /* "conserved"    eV, what the integrator conserves (LAMMPS: econserve)            */
  MLFFPROF_TEMPERATURE,   /* "temperature"  K                                                                */
  MLFFPROF_PRESSURE,      /* "pressure"     bar                                                              */
  MLFFPROF_VOLUME,        /* "volume"       A^3                                                              */
  MLFFPROF_N_QUANTITIES
} mlffprof_quantity_id;

/* Name of a quantity as the JSON has it; NULL when out of range. */
MLFFPROF_API const char *mlffprof_quantity_name(mlffprof_quantity_id id);

/* Energies of the whole system. What is measured is said by `has`, so that a NaN that was measured is an explosion and
 * not a gap. */
typedef struct mlffprof_energy_sample {
  int64_t step;
  double time_ps;                      /* simulated time; must not decrease (a sample that does is an error)     */
  unsigned has;                        /* 1u << MLFFPROF_POTENTIAL | ...: which values are measured              */
  double value[MLFFPROF_N_QUANTITIES]; /* the others are ignored                                                 */
} mlffprof_energy_sample;

/* Another model (the reference, e.g. the teacher) on the same positions. */
typedef struct mlffprof_accuracy_sample {
  int64_t step;
  double energy_error; /* (E - E_reference) / n_atoms, eV/atom, with its sign; NaN = not measured              */
  double force_rmse;   /* over all components of all atoms, eV/A                                               */
  double force_mae;    /* the same, eV/A                                                                       */
  double force_max;    /* largest |F - F_reference| of an atom, eV/A                                           */
  double force_cosine; /* F.F_reference / (|F| |F_reference|), all components as one vector; 1 = same direction */
  const double *element_rmse; /* [n_elements] force RMSE of the atoms of an element; NaN = no such atom; NULL = none  */
  const double *element_mae;  /* [n_elements]                                                                         */
  int has_stress;             /* non-zero: the next two, of the virial, are measured                                */
  double stress_rmse;         /* over xx, yy, zz, xy, xz, yz, GPa                                                   */
  double pressure_error;      /* P - P_reference, bar, with its sign                                                */
} mlffprof_accuracy_sample;

/* ---- recorder ---------------------------------------------------------------------------------------------------- */

typedef struct mlffprof_recorder mlffprof_recorder;
typedef struct mlffprof_report mlffprof_report;

/* Makes a recorder. All its memory is taken and touched here (with the defaults about 1.5 MB), so that recording does
 * not show up as memory growth of the program. Free with mlffprof_recorder_free. */
MLFFPROF_API mlffprof_status mlffprof_recorder_create(const mlffprof_options *options, mlffprof_recorder **recorder,
                                                      mlffprof_error *error);
/* NULL is fine. */
MLFFPROF_API void mlffprof_recorder_free(mlffprof_recorder *recorder);

/* The next n steps are warm-up as well, for example at the start of a second run. Does not shorten a warm-up that is
 * going on. Memory samples taken during warm-up are in the series but not in the verdict. */
MLFFPROF_API mlffprof_status mlffprof_recorder_warmup(mlffprof_recorder *recorder, int64_t n, mlffprof_error *error);

/* Adds looks at whether the run is like the training of its model. */
struct mlffprof_outside;
MLFFPROF_API void mlffprof_recorder_outside(mlffprof_recorder *recorder, const struct mlffprof_outside *more);

/* Each adds one sample; a rejected one (E_ARG: negative or non-finite time, decreasing time_ps, ...) changes nothing.
 * A step costs about 0.1 us without components and does not allocate. */
MLFFPROF_API mlffprof_status mlffprof_recorder_step(mlffprof_recorder *recorder, const mlffprof_step *step,
                                                    mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_recorder_memory(mlffprof_recorder *recorder, const mlffprof_memory_sample *sample,
                                                      mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_recorder_energy(mlffprof_recorder *recorder, const mlffprof_energy_sample *sample,
                                                      mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_recorder_accuracy(mlffprof_recorder *recorder,
                                                        const mlffprof_accuracy_sample *sample, mlffprof_error *error);

/* Begins a new stretch of simulated time (a second `run` after a change of ensemble or velocities): energy statistics
 * start again, so that a report's drift is that of one undisturbed trajectory. Latency and memory go on. `ensemble`
 * as in the options, NULL = as before. */
MLFFPROF_API mlffprof_status mlffprof_recorder_restart_energy(mlffprof_recorder *recorder, const char *ensemble,
                                                              mlffprof_error *error);

/* An entry of the report's block `context`. `key` is a path, "host" or "deck/steps": each / opens a nested block. The
 * same key again replaces its value. Keys: 1 to 100 bytes, at most 4 levels, no empty part; at most 500 entries. A
 * key that is a value and a block at once is an error. Usual keys: host cpu gpu driver ranks threads lammps plugin
 * model_sha256 precision kernels pair_style units deck/NAME. */
MLFFPROF_API mlffprof_status mlffprof_recorder_context(mlffprof_recorder *recorder, const char *key, const char *text,
                                                       mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_recorder_context_number(mlffprof_recorder *recorder, const char *key,
                                                              double value, mlffprof_error *error);
/* Changes texts of the options after creation; a NULL leaves the text as it is. */
MLFFPROF_API mlffprof_status mlffprof_recorder_names(mlffprof_recorder *recorder, const char *name,
                                                     const char *model_name, const char *device, const char *notes,
                                                     mlffprof_error *error);

/* Numbers of this moment, in microseconds of work, for thermo output and for bounds that warn or stop. */
typedef struct mlffprof_summary {
  int64_t n_steps, n_warmup; /* recorded so far                                                             */
  double last_ms;            /* of the last step, warm-up or not                                            */
  double mean_ms, std_ms, min_ms, max_ms, cv;
  double median_ms, p95_ms, p99_ms; /* of the sketch: within 0.5 % (relative)                                */
  double us_per_atom, steps_per_second, ns_per_day;
  double host_mb, host_growth_mb;     /* last sample, and last - first after warm-up; MB = 1e6 bytes         */
  double device_mb, device_growth_mb; /* the same of the device                                              */
  double drift;         /* per atom and ps by regression over the samples so far, as `drift` of the report   */
  double drift_percent; /* drift x time / |initial energy|, percent                                          */
  double excursion;     /* largest |E - E_first| so far, per atom, of the quantity that drift is of          */
  double temperature;   /* last sample                                                                       */
  double force_rmse, force_max, energy_error; /* last accuracy sample                                        */
  double stress_rmse, pressure_error;         /* the same                                                    */
  int finite;   /* 0 = a measured energy, temperature, ... was NaN or infinite                       */
  int exploded; /* 1 = not finite, or above explosion_temperature or explosion_energy                */
} mlffprof_summary;
MLFFPROF_API void mlffprof_recorder_summary(const mlffprof_recorder *recorder, mlffprof_summary *summary);
/* `exploded` of the summary, and `finite` (NULL is fine), at no cost: for a look at every sample. */
MLFFPROF_API int mlffprof_recorder_exploded(const mlffprof_recorder *recorder, int *finite);

/* A report of everything recorded so far; the recorder goes on. Free with mlffprof_report_free. */
MLFFPROF_API mlffprof_status mlffprof_recorder_report(const mlffprof_recorder *recorder, mlffprof_report **report,
                                                      mlffprof_error *error);

/* Times a function of the caller: calls it n_warmup (of the recorder's options) + n_calls times, records each call as
 * a step, and the process' host memory after every memory_every-th call (0 = never). A return value other than 0
 * stops with MLFFPROF_E_ARG and the value in the text; the calls before it stay recorded. */
typedef int mlffprof_function(void *user);
MLFFPROF_API mlffprof_status mlffprof_recorder_time(mlffprof_recorder *recorder, mlffprof_function *function,
                                                    void *user, int64_t n_calls, int64_t memory_every,
                                                    mlffprof_error *error);

/* Monotonic clock, seconds. */
MLFFPROF_API double mlffprof_seconds(void);
/* Resident set of this process and the largest so far, in bytes. MLFFPROF_E_UNSUPPORTED (and MLFFPROF_UNKNOWN in both)
 * where the system does not tell; either pointer may be NULL. */
MLFFPROF_API mlffprof_status mlffprof_host_memory(int64_t *resident, int64_t *peak, mlffprof_error *error);

/* ---- report -------------------------------------------------------------------------------------------------------
 * Plain data, made by mlffprof_recorder_report or mlffprof_report_read, to be read and not written; reports are
 * allocated by the library alone. Most members stand in mlffprof_fields.h, with their names in the JSON, units and
 * meanings, one row each; arrays, and what the JSON has at other places, stand here. */

/* Statistics of n numbers. std is that of a sample (n - 1), NaN for n < 2; cv = std / mean; quantiles are linear
 * between neighbours (numpy's default). All NaN for n = 0. */
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

/* Steps with a tag (a step with two tags is in both), and "untagged". */
typedef struct mlffprof_tag_result {
  MLFFPROF_TAG_RESULT_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_tag_result;

typedef enum mlffprof_verdict {
  MLFFPROF_VERDICT_UNKNOWN = 0, /* "unknown"  not measured, fewer than ten samples after warm-up, or large jumps */
  MLFFPROF_VERDICT_STABLE,      /* "stable"                                                                      */
  MLFFPROF_VERDICT_GROWING,     /* "growing"  slope significantly positive, below the tolerance so far           */
  MLFFPROF_VERDICT_LEAK         /* "leak"     steady growth over the trajectory above the tolerance              */
} mlffprof_verdict;
MLFFPROF_API const char *mlffprof_verdict_name(mlffprof_verdict verdict);

/* Memory of one kind (host or device). Bytes as doubles; NaN = not measured. */
typedef struct mlffprof_memory_result {
  MLFFPROF_MEMORY_KIND_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_memory_result;

typedef struct mlffprof_memory_report {
  MLFFPROF_MEMORY_FIELDS(MLFFPROF_MEMBER, )
  int n_points; /* of the series */
  int64_t stride;
  const int64_t *step;        /* [n_points] */
  const double *host_bytes;   /* [n_points] */
  const double *device_bytes; /* [n_points] */
} mlffprof_memory_report;

enum { MLFFPROF_N_BINS = 40 };

/* Statistics of one quantity over all samples. Energies of the whole system in eV, unless `drift` says per atom. */
typedef struct mlffprof_quantity {
  MLFFPROF_QUANTITY_FIELDS(MLFFPROF_MEMBER, )
  double bin_low, bin_high; /* "histogram" */
  int64_t bins[MLFFPROF_N_BINS];
} mlffprof_quantity;

typedef struct mlffprof_energy_report {
  MLFFPROF_ENERGY_FIELDS(MLFFPROF_MEMBER, )
  mlffprof_quantity value[MLFFPROF_N_QUANTITIES]; /* null in the JSON when n = 0 */
  int n_points;                                   /* of the series */
  int64_t stride;
  const int64_t *step;                         /* [n_points] */
  const double *time;                          /* [n_points] "time_ps" */
  const double *series[MLFFPROF_N_QUANTITIES]; /* [n_points] each; NaN where not measured */
} mlffprof_energy_report;

typedef struct mlffprof_element_result {
  MLFFPROF_ELEMENT_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_element_result;

/* Against the reference model, over all samples. RMSE is the root of the mean square. */
typedef struct mlffprof_accuracy_report {
  MLFFPROF_ACCURACY_FIELDS(MLFFPROF_MEMBER, )
  int n_elements;
  const mlffprof_element_result *elements; /* [n_elements] */
  int n_points;                            /* of the series */
  int64_t stride;
  const int64_t *step;                                                               /* [n_points] */
  const double *energy_error, *force_rmse_series, *force_max_series, *cosine_series; /* [n_points] */
  const double *stress_rmse_series, *pressure_error;                                 /* [n_points] */
} mlffprof_accuracy_report;

/* A bar and how the run stands against it. */
typedef struct mlffprof_target {
  MLFFPROF_TARGET_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_target;

/* A component above a tenth of the step, and what to do about it in this run. */
typedef struct mlffprof_hotspot {
  MLFFPROF_HOTSPOT_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_hotspot;

typedef struct mlffprof_context_entry {
  const char *key;  /* path with /                                                                               */
  const char *text; /* NULL = a number                                                                           */
  double number;
} mlffprof_context_entry;

/* How evenly the ranks work: means over the steps in which it was measured. "balance" in the JSON. */
typedef struct mlffprof_balance {
  MLFFPROF_BALANCE_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_balance;

/* Counted work of a step. "work" in the JSON; the library reads it, and `mlff bench --count` adds it to reports. */
typedef struct mlffprof_work {
  MLFFPROF_WORK_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_work;

/* Looks at a run, and those in which it was outside of the training of its model. "outside" in the JSON. */
typedef struct mlffprof_outside {
  MLFFPROF_OUTSIDE_FIELDS(MLFFPROF_MEMBER, )
} mlffprof_outside;

struct mlffprof_report {
  MLFFPROF_REPORT_FIELDS(MLFFPROF_MEMBER, )
  int64_t n_warmup;
  mlffprof_stats warmup;  /* ms: n, mean, std, min, max and cv only; of a file n, mean and max */
  mlffprof_stats latency; /* ms */
  int quantiles_exact;
  double quantile_error; /* relative */
  int n_latencies;
  const double *latencies_ms; /* [n_latencies] */
  int n_components;
  const mlffprof_component_result *components;
  int n_slow_steps;
  const mlffprof_slow_step *slow_steps;
  int n_tags;
  const mlffprof_tag_result *tags;
  int n_slowest_ranks;
  const int *slowest_rank; /* [n_slowest_ranks] */
  const int64_t *slowest_rank_steps;
  int n_targets;
  const mlffprof_target *targets;
  int n_hotspots;
  const mlffprof_hotspot *hotspots;
  int n_context;
  const mlffprof_context_entry *context;
  struct mlff_arena *arena; /* private: owns everything above */
};

/* NULL is fine. */
MLFFPROF_API void mlffprof_report_free(mlffprof_report *report);

/* Writes the JSON to a stream, or to a file: into a temporary file beside it, which is synchronised and then renamed,
 * so that the file is the old one or the new one at any moment. */
MLFFPROF_API mlffprof_status mlffprof_report_json(const mlffprof_report *report, FILE *out, mlffprof_error *error);
MLFFPROF_API mlffprof_status mlffprof_report_write(const mlffprof_report *report, const char *path,
                                                   mlffprof_error *error);

/* Reads a report of schema version 1. Fields it does not know are ignored; a field of the wrong kind, a file that is
 * not a report, and a newer schema version are errors. Free with mlffprof_report_free. */
MLFFPROF_API mlffprof_status mlffprof_report_read(const char *path, mlffprof_report **report, mlffprof_error *error);
/* The same from memory; `path` is used in error texts only. */
MLFFPROF_API mlffprof_status mlffprof_report_parse(const char *path, const char *text, size_t size,
                                                   mlffprof_report **report, mlffprof_error *error);

/* The report as text: what `mlff show` prints and a log wants. all: with the slowest steps and the context. */
MLFFPROF_API mlffprof_status mlffprof_report_print(const mlffprof_report *report, int all, FILE *out,
                                                   mlffprof_error *error);
/* One line per report under one heading, with the speed-up against the first. */
MLFFPROF_API mlffprof_status mlffprof_reports_print(const mlffprof_report *const *reports, int n_reports, FILE *out,
                                                    mlffprof_error *error);

/* What stands in the context of a report under a key; NULL: nothing, or a number. */
MLFFPROF_API const char *mlffprof_context_text(const mlffprof_report *report, const char *key);

/* What a core of the computer can do (mlff_roof of mlff.h). NaN: not known. */
typedef struct mlffprof_roof {
  double gflops;                /* 1e9 operations/s of multiply-adds           */
  double cache_gbs, memory_gbs; /* 1e9 bytes/s read                            */
  const char *from;             /* where the numbers are from, for the text    */
} mlffprof_roof;

/* Of what `mlff check --roof --json FILE` wrote, the rates of the kernels and precision of the report. An error when
 * the file is of another processor, or has none. */
MLFFPROF_API mlffprof_status mlffprof_roof_read(const char *path, const mlffprof_report *report, mlffprof_roof *roof,
                                                mlffprof_error *error);

/* Why a step takes as long as it does: for each part its time, its work, and what share that is of what a core can do;
 * then what would make the run faster, the largest gain first. roof: of the kernel path and precision of the report, or
 * NULL. As text or as JSON. */
MLFFPROF_API mlffprof_status mlffprof_explain(const mlffprof_report *report, const mlffprof_roof *roof, int as_json,
                                              FILE *out, mlffprof_error *error);

/* A report of `mlff scaling` as a table. *is_scaling = 0, and nothing is printed, when the file is something else. */
MLFFPROF_API mlffprof_status mlffprof_scaling_print(const char *path, FILE *out, int *is_scaling,
                                                    mlffprof_error *error);

/* ---- metrics, targets, comparison ------------------------------------------------------------------------------- */

/* A number of the report by its name: the names of the JSON (mean_latency_ms, p99_latency_ms, cv, us_per_atom, drift,
 * ...) and derived ones (p95_over_mean, memory_delta_mb, force_rmse, ...); docs/benchmarks.md has the list. 1 and the
 * value (NaN: not measured), or 0 when there is no such metric. */
MLFFPROF_API int mlffprof_report_metric(const mlffprof_report *report, const char *name, double *value);
/* Name of metric k = 0, 1, ...; NULL behind the last. */
MLFFPROF_API const char *mlffprof_metric_name(int k);

/* Rules: bars for one report (targets) and for the change between two (gate). The file is YAML, see
 * docs/benchmarks.md:
 *   rules:
 *     - {metric: p95_over_mean, below: 2}
 *     - {metric: us_per_atom, below: 10, model: water-painn}     only for reports of this model
 *     - {metric: median_latency_ms, ratio_below: 1.10}           B / A
 * Unknown keys, metrics and duplicates are errors. */
typedef struct mlffprof_rules mlffprof_rules;
MLFFPROF_API mlffprof_status mlffprof_rules_read(const char *path, mlffprof_rules **rules, mlffprof_error *error);
MLFFPROF_API void mlffprof_rules_free(mlffprof_rules *rules);
/* The project's own bars: p95 < 2 mean, p99 < 3 mean, cv < 0.2, memory delta < 10 MB. */
MLFFPROF_API mlffprof_status mlffprof_rules_default(mlffprof_rules **rules, mlffprof_error *error);

/* Fills the report's targets from the rules that are about one report; they replace earlier ones. rules NULL =
 * default. */
MLFFPROF_API mlffprof_status mlffprof_report_targets(mlffprof_report *report, const mlffprof_rules *rules,
                                                     mlffprof_error *error);

/* Prints B against A: ratios with 95 % intervals (block bootstrap), the Mann-Whitney test on medians of blocks of
 * steps ("not enough" below nine samples on a side), memory, drift and accuracy side by side. A is what B is compared
 * with: the teacher and the student, before and after. */
MLFFPROF_API mlffprof_status mlffprof_compare_print(const mlffprof_report *a, const mlffprof_report *b, FILE *out,
                                                    mlffprof_error *error);

/* Median time of a step for an atom in A over that in B: how many times as fast B is. NaN: one was not measured. */
MLFFPROF_API double mlffprof_speed_up(const mlffprof_report *a, const mlffprof_report *b);
/* Prints each of n_reports >= 1 reports against the first: speed-up with its 95 % interval, test, memory, errors. */
MLFFPROF_API mlffprof_status mlffprof_compare_all_print(const mlffprof_report *const *reports, int n_reports, FILE *out,
                                                        mlffprof_error *error);

/* Prints n_b runs of B against n_a of A, 1 to 20 each, with the runs as samples: the median of the ratios of each run
 * of B to each of A, and from 4 runs a side on its 95 % interval (the test allows no smaller p than 0.1 for 3). */
MLFFPROF_API mlffprof_status mlffprof_compare_sides_print(const mlffprof_report *const *a, int n_a,
                                                          const mlffprof_report *const *b, int n_b, FILE *out,
                                                          mlffprof_error *error);

/* Ratio of one latency metric (mean, median, p95, p99: "mean_latency_ms", ...) of B to that of A. */
typedef struct mlffprof_ratio {
  double ratio;     /* value of B / value of A; NaN when one was not measured                                    */
  double low, high; /* 95 % interval; NaN below nine samples on a side                                           */
  double p;         /* two-sided Mann-Whitney on the medians of blocks; NaN below nine samples on a side         */
  int n_a, n_b;     /* samples (blocks of steps) on each side                                                    */
} mlffprof_ratio;
MLFFPROF_API mlffprof_status mlffprof_compare_latency(const mlffprof_report *a, const mlffprof_report *b,
                                                      const char *metric, mlffprof_ratio *ratio, mlffprof_error *error);

/* Two-sided p-value of the Mann-Whitney U test of x[n_x] against y[n_y], ties corrected: exact for samples up to 20
 * without ties, otherwise by the normal approximation. NaN when either is empty. */
MLFFPROF_API double mlffprof_mann_whitney(const double *x, int n_x, const double *y, int n_y);

/* Holds A, or the change from A to B (NULL = none), against the rules and prints a line for each. *n_failed counts
 * those that failed; a rule whose metric was not measured fails, and so does a rule about a change without B. */
MLFFPROF_API mlffprof_status mlffprof_gate(const mlffprof_rules *rules, const mlffprof_report *a,
                                           const mlffprof_report *b, FILE *out, int *n_failed, mlffprof_error *error);

/* ---- trace ---------------------------------------------------------------------------------------------------------
 * Spans in the trace-event JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open. Written as it goes; a run
 * that is killed leaves a file that those viewers still open (they do not need the closing bracket). */
typedef struct mlffprof_trace mlffprof_trace;
/* max_events: 0 = 1,000,000; later events are dropped, counted, and the number is written at the end. */
MLFFPROF_API mlffprof_status mlffprof_trace_open(const char *path, int64_t max_events, mlffprof_trace **trace,
                                                 mlffprof_error *error);
/* Names a row of the viewer; pid is the rank, tid a row of it (0, 1, ...). */
MLFFPROF_API mlffprof_status mlffprof_trace_row(mlffprof_trace *trace, int pid, int tid, const char *process,
                                                const char *row, mlffprof_error *error);
/* A span from `begin` (seconds, any common origin) that takes `seconds`. Spans of a row nest when they lie within each
 * other. step: MLFFPROF_UNKNOWN, or shown in the viewer. tags: MLFFPROF_TAG_... shown by name. */
MLFFPROF_API mlffprof_status mlffprof_trace_span(mlffprof_trace *trace, int pid, int tid, const char *name,
                                                 double begin, double seconds, int64_t step, unsigned tags,
                                                 mlffprof_error *error);
/* A value over time, drawn as a graph: e.g. "host MB". */
MLFFPROF_API mlffprof_status mlffprof_trace_counter(mlffprof_trace *trace, int pid, const char *name, double time,
                                                    double value, mlffprof_error *error);
/* Ends the file; the trace is freed also when writing failed. NULL is fine. */
MLFFPROF_API mlffprof_status mlffprof_trace_close(mlffprof_trace *trace, mlffprof_error *error);

#ifdef __cplusplus
}
#endif
#endif
