/* mlffprof_fields.h: table of a report's fields. The structs of mlffprof.h, the JSON and its reader, the metrics and
 * docs/profile.schema.json are generated from it (src/mlffprof/report/json.h).
 *
 * One list per block of the JSON, in its order. A row has the storage in struct S, the kind (below), the member, the
 * JSON name, the unit and the meaning:
 *
 *   FIELD    a member of S
 *   LATER    a member of S that older reports do not have
 *   AT       an expression on S; the member is declared in mlffprof.h
 *   LIST     an array of S with its length, and the block it was measured with: OF(S, kind, member), or ALL
 *   DERIVED  computed when the report is written: a member of mlffprof_derived
 *
 * To add a value, add a FIELD or LATER row and set the member (CONTRIBUTING.md, "A reported number").
 */
#ifndef MLFF_MLFFPROF_FIELDS_H
#define MLFF_MLFFPROF_FIELDS_H

#include <stdint.h>

// clang-format off

/* Kinds of fields and their types in C. NaN, NULL and MLFFPROF_UNKNOWN are null in the JSON. */
#define MLFFPROF_C_NUMBER      double
#define MLFFPROF_C_METRIC      double           /* a number that rules may name */
#define MLFFPROF_C_REAL        double           /* never null */
#define MLFFPROF_C_BOUND       double           /* >= 0; 0 when it is missing */
#define MLFFPROF_C_COUNT       int64_t          /* >= 0 */
#define MLFFPROF_C_MAYBE_COUNT int64_t          /* >= 0; null is 0 */
#define MLFFPROF_C_ATOMS       int64_t          /* >= 0 or null */
#define MLFFPROF_C_STRIDE      int64_t          /* >= 1 */
#define MLFFPROF_C_STEP        int64_t          /* number of the step in the program */
#define MLFFPROF_C_MAYBE_STEP  int64_t          /* the same, or null */
#define MLFFPROF_C_VERSION     int
#define MLFFPROF_C_RANKS       int              /* >= 1 */
#define MLFFPROF_C_MAYBE_RANK  int              /* >= 0 or null */
#define MLFFPROF_C_YES         int              /* bool, true when it is missing */
#define MLFFPROF_C_NO          int              /* bool, false when it is missing */
#define MLFFPROF_C_TEXT        const char *
#define MLFFPROF_C_TITLE       const char *     /* "profile" when it is NULL */
#define MLFFPROF_C_NAME        const char *     /* never null */
#define MLFFPROF_C_RELATION    const char *     /* "<" or ">" */
#define MLFFPROF_C_TAG         const char *     /* name of a tag, or "untagged" */
#define MLFFPROF_C_DRIFT_OF    const char *     /* "conserved", "total" or NULL */
#define MLFFPROF_C_ROLE        mlffprof_role    /* null, "energy", "forces" or "stress" */
#define MLFFPROF_C_VERDICT     mlffprof_verdict
#define MLFFPROF_C_STATUS      int              /* 1 "pass", 0 "fail", -1 "not measured" */
#define MLFFPROF_C_UNITS       int              /* 0 "metal", 1 "lj" */
#define MLFFPROF_C_TAGS        unsigned         /* array of names, empty when none was set */
#define MLFFPROF_C_BALANCE     mlffprof_balance
#define MLFFPROF_C_WORK        mlffprof_work
#define MLFFPROF_C_OUTSIDE     mlffprof_outside
#define MLFFPROF_C_MEMORY_KIND mlffprof_memory_result
#define MLFFPROF_C_MEMORY      mlffprof_memory_report
#define MLFFPROF_C_ENERGY      mlffprof_energy_report
#define MLFFPROF_C_ACCURACY    mlffprof_accuracy_report

/* X that declares the members of a struct. */
#define MLFFPROF_MEMBER(S, how, ...) MLFFPROF_MEMBER_##how(__VA_ARGS__)
#define MLFFPROF_MEMBER_FIELD(kind, member, name, unit, meaning) MLFFPROF_C_##kind member;
#define MLFFPROF_MEMBER_LATER(kind, member, name, unit, meaning) MLFFPROF_C_##kind member;
#define MLFFPROF_MEMBER_AT(kind, member, name, unit, meaning)
#define MLFFPROF_MEMBER_LIST(kind, member, length, of, name, unit, meaning)
#define MLFFPROF_MEMBER_DERIVED(kind, member, name, unit, meaning)

/* ---- lists ------------------------------------------------------------------------------------------------------- */

#define MLFFPROF_COMPONENT_FIELDS(X, S) \
  X(S, FIELD, NAME, name, name, "", "") \
  X(S, FIELD, TEXT, parent, parent, "", "null: of the top level") \
  X(S, FIELD, ROLE, role, role, "", "") \
  X(S, FIELD, COUNT, n, n_steps, "", "in which it was measured") \
  X(S, FIELD, NUMBER, mean_ms, mean_ms, "ms", "per step in which it was measured") \
  X(S, FIELD, NUMBER, max_ms, max_ms, "ms", "") \
  X(S, FIELD, NUMBER, share, share, "", "of the wall time of those steps, 0..1") \
  X(S, LATER, NUMBER, gflop, gflop, "", \
    "1e9 floating-point operations of a step, counted from the sizes of what was computed; mean of the ranks; " \
    "null: not counted") \
  X(S, LATER, NUMBER, gbyte, gbyte, "GB", "that these read and write, once for each element of an array")

#define MLFFPROF_SLOW_STEP_FIELDS(X, S) \
  X(S, FIELD, STEP, step, step, "", "number of the step in the program") \
  X(S, FIELD, REAL, latency_ms, latency_ms, "ms", "") \
  X(S, FIELD, NUMBER, times_median, times_median, "", "latency / median") \
  X(S, FIELD, TAGS, tags, tags, "", "") \
  X(S, FIELD, MAYBE_RANK, slowest_rank, slowest_rank, "", "")

#define MLFFPROF_TAG_RESULT_FIELDS(X, S) \
  X(S, FIELD, TAG, name, name, "", "") \
  X(S, FIELD, COUNT, n_steps, n_steps, "", "") \
  X(S, FIELD, NUMBER, mean_latency_ms, mean_latency_ms, "ms", "") \
  X(S, FIELD, NUMBER, share, share, "", "of the total time, 0..1") \
  X(S, FIELD, NUMBER, times_untagged, times_untagged, "", "mean / mean of untagged steps")

#define MLFFPROF_SLOWEST_RANK_FIELDS(X, S) \
  X(S, AT, RANK, slowest_rank, rank, "", "") \
  X(S, AT, COUNT, slowest_rank_steps, n_steps, "", "")

#define MLFFPROF_TARGET_FIELDS(X, S) \
  X(S, FIELD, NAME, metric, metric, "", "see mlffprof_report_metric") \
  X(S, FIELD, RELATION, relation, relation, "", "") \
  X(S, FIELD, REAL, bound, bound, "", "") \
  X(S, FIELD, NUMBER, value, value, "", "") \
  X(S, FIELD, STATUS, passed, status, "", "")

#define MLFFPROF_HOTSPOT_FIELDS(X, S) \
  X(S, FIELD, NAME, component, component, "", "") \
  X(S, FIELD, REAL, share, share, "", "of the step, 0..1") \
  X(S, FIELD, NAME, advice, advice, "", "") \
  X(S, LATER, NUMBER, gain, gain, "", \
    "largest expected speed-up of the advice; null: none, or unknown")

/* ---- ranks, memory ----------------------------------------------------------------------------------------------- */

#define MLFFPROF_BALANCE_FIELDS(X, S) \
  X(S, FIELD, COUNT, n, n_steps, "", "in which it was measured") \
  X(S, FIELD, NUMBER, busy_most_ms, busy_most_ms, "ms", "work without waiting, of the busiest rank") \
  X(S, FIELD, NUMBER, busy_mean_ms, busy_mean_ms, "ms", "the mean of all ranks") \
  X(S, FIELD, NUMBER, imbalance, imbalance, "", "busy_most_ms / busy_mean_ms") \
  X(S, FIELD, NUMBER, waiting, waiting, "", "(busy_most_ms - busy_mean_ms) / time of a step") \
  X(S, FIELD, NUMBER, atoms_imbalance, atoms_imbalance, "", "atoms of the rank with most / mean")

/* What `mlff bench --count` adds to a report: a longer run of the same deck less a shorter one, all ranks together. */
#define MLFFPROF_WORK_FIELDS(X, S) \
  X(S, FIELD, COUNT, n, n_steps, "", "by which the runs differ") \
  X(S, FIELD, TEXT, kernels, kernels, "", "kernel path whose instructions were counted; valgrind has no AVX-512") \
  X(S, FIELD, METRIC, instructions_per_atom, instructions_per_atom, "", \
    "of a step without a new neighbor list, on one rank") \
  X(S, FIELD, METRIC, bytes_moved_per_atom, bytes_moved_per_atom, "byte", "that these instructions load and store") \
  X(S, FIELD, METRIC, allocations_per_step, allocations_per_step, "", "on the heap") \
  X(S, FIELD, METRIC, allocated_bytes_per_step, allocated_bytes_per_step, "byte", "") \
  X(S, FIELD, METRIC, leaked_bytes_per_step, leaked_bytes_per_step, "byte", "never freed, to the end of the program") \
  X(S, FIELD, METRIC, messages_per_step, messages_per_step, "", "MPI: messages sent and calls of collectives") \
  X(S, FIELD, METRIC, message_bytes_per_step, message_bytes_per_step, "byte", "") \
  X(S, FIELD, METRIC, list_builds_per_step, list_builds_per_step, "", "new neighbor lists")

/* Names and order are those of mlff_watched (mlff_watch.h). */
#define MLFFPROF_OUTSIDE_FIELDS(X, S) \
  X(S, FIELD, COUNT, n, n_looks, "", "checks against the training domain, including those of warm-up and set-up") \
  X(S, FIELD, COUNT, temperature, temperature, "", "checks outside; means of ten checks") \
  X(S, FIELD, COUNT, density, density, "", "") \
  X(S, FIELD, COUNT, pressure, pressure, "", "without the kinetic part; means of ten checks") \
  X(S, FIELD, COUNT, pair, pair, "", "a pair of elements within the cutoff that does not occur in the training data") \
  X(S, FIELD, COUNT, distance, distance, "", "a pair of atoms closer than in the training data") \
  X(S, FIELD, COUNT, triple, triple, "", "an atom with two neighbors closer than in the training data") \
  X(S, FIELD, COUNT, force, force, "", "a force larger than any in the training data") \
  X(S, LATER, COUNT, uncertainty, uncertainty, "", "an uncertainty above the limit of the model file")

/* Bytes are doubles. */
#define MLFFPROF_MEMORY_KIND_FIELDS(X, S) \
  X(S, FIELD, COUNT, n, n_samples, "", "after warm-up") \
  X(S, FIELD, NUMBER, initial_bytes, initial_bytes, "byte", "first sample after warm-up") \
  X(S, FIELD, NUMBER, peak_bytes, peak_bytes, "byte", "largest sample, or peak of the process where available") \
  X(S, FIELD, NUMBER, final_bytes, final_bytes, "byte", "last sample") \
  X(S, FIELD, NUMBER, delta_bytes, delta_bytes, "byte", "final - initial") \
  X(S, FIELD, NUMBER, growth_bytes, growth_bytes, "byte", \
    "mean of the last tenth - mean of the first tenth, once settled; decides the verdict") \
  X(S, FIELD, NUMBER, growth_per_1000_steps, growth_per_1000_steps_bytes, "byte", "slope") \
  X(S, FIELD, NUMBER, growth_error, growth_error_bytes, "byte", "half-width of its 95 % interval, per 1000 steps") \
  X(S, FIELD, VERDICT, verdict, verdict, "", "") \
  X(S, FIELD, TEXT, reason, reason, "", "one sentence") \
  X(S, LATER, NUMBER, reference_bytes, reference_bytes, "byte", \
    "of the reference model, last sample; not included in the other values; null without one")

#define MLFFPROF_MEMORY_SERIES_FIELDS(X, S) \
  X(S, AT, STRIDE, stride, stride, "", "samples per point") \
  X(S, LIST, STEPS, step, n_points, ALL, step, "", "number of the step in the program") \
  X(S, LIST, SAMPLES, host_bytes, n_points, OF(S, MEMORY_KIND, host), host_bytes, "byte", "") \
  X(S, LIST, SAMPLES, device_bytes, n_points, OF(S, MEMORY_KIND, device), device_bytes, "byte", "")

#define MLFFPROF_MEMORY_FIELDS(X, S) \
  X(S, FIELD, REAL, tolerance_mb, tolerance_mb, "MB", "steady growth above it is a leak; MB = 1e6 bytes") \
  X(S, FIELD, VERDICT, verdict, verdict, "", "the worse of both; unknown if one grew in jumps and none steadily") \
  X(S, FIELD, MEMORY_KIND, host, host, "", "null when it was not measured") \
  X(S, FIELD, MEMORY_KIND, device, device, "", "null when it was not measured") \
  X(S, AT, MEMORY_SERIES, stride, series, "", "warm-up included")

/* ---- energy, accuracy -------------------------------------------------------------------------------------------- */

#define MLFFPROF_HISTOGRAM_FIELDS(X, S) \
  X(S, AT, REAL, bin_low, low, "", "") \
  X(S, AT, REAL, bin_high, high, "", "") \
  X(S, AT, BINS, bins, counts, "", "")

/* In the unit of the quantity. Energies are those of the whole system, unless stated per atom. */
#define MLFFPROF_QUANTITY_FIELDS(X, S) \
  X(S, FIELD, COUNT, n, n_samples, "", "samples in which it was measured") \
  X(S, FIELD, NUMBER, initial, initial, "", "") \
  X(S, FIELD, NUMBER, final, final, "", "") \
  X(S, FIELD, NUMBER, mean, mean, "", "") \
  X(S, FIELD, NUMBER, std, std, "", "of a sample (n - 1)") \
  X(S, FIELD, NUMBER, min, min, "", "") \
  X(S, FIELD, NUMBER, max, max, "", "") \
  X(S, FIELD, NUMBER, skew, skew, "", "") \
  X(S, FIELD, NUMBER, fluctuation, fluctuation, "", "std / |mean|") \
  X(S, FIELD, NUMBER, max_excursion, max_excursion, "", "largest |value - initial|") \
  X(S, FIELD, NUMBER, change_percent, change_percent, "%", "100 (final - initial) / |initial|") \
  X(S, FIELD, NUMBER, drift, drift, "", "slope per ps by linear regression; energies: per atom and ps") \
  X(S, FIELD, NUMBER, drift_error, drift_error, "", "half-width of its 95 % interval, autocorrelation included") \
  X(S, FIELD, NUMBER, drift_percent, drift_percent, "%", "100 x slope x time / |initial|") \
  X(S, FIELD, NUMBER, drift_percent_error, drift_percent_error, "%", "half-width of its 95 % interval") \
  X(S, AT, HISTOGRAM, bins, histogram, "", "equal bins from low to high, of the points of the series")

#define MLFFPROF_ENERGY_SERIES_FIELDS(X, S) \
  X(S, AT, STRIDE, stride, stride, "", "samples per point") \
  X(S, LIST, STEPS, step, n_points, ALL, step, "", "number of the step in the program") \
  X(S, LIST, SAMPLES, time, n_points, ALL, time_ps, "ps", "") \
  X(S, LIST, QUANTITY_SAMPLES, series[MLFFPROF_POTENTIAL], n_points, OF(S, QUANTITY, value[MLFFPROF_POTENTIAL]), \
    potential, "eV", "") \
  X(S, LIST, QUANTITY_SAMPLES, series[MLFFPROF_KINETIC], n_points, OF(S, QUANTITY, value[MLFFPROF_KINETIC]), \
    kinetic, "eV", "") \
  X(S, LIST, QUANTITY_SAMPLES, series[MLFFPROF_TOTAL], n_points, OF(S, QUANTITY, value[MLFFPROF_TOTAL]), \
    total, "eV", "") \
  X(S, LIST, QUANTITY_SAMPLES, series[MLFFPROF_CONSERVED], n_points, OF(S, QUANTITY, value[MLFFPROF_CONSERVED]), \
    conserved, "eV", "") \
  X(S, LIST, QUANTITY_SAMPLES, series[MLFFPROF_TEMPERATURE], n_points, OF(S, QUANTITY, value[MLFFPROF_TEMPERATURE]), \
    temperature, "K", "") \
  X(S, LIST, QUANTITY_SAMPLES, series[MLFFPROF_PRESSURE], n_points, OF(S, QUANTITY, value[MLFFPROF_PRESSURE]), \
    pressure, "bar", "") \
  X(S, LIST, QUANTITY_SAMPLES, series[MLFFPROF_VOLUME], n_points, OF(S, QUANTITY, value[MLFFPROF_VOLUME]), \
    volume, "A^3", "")

#define MLFFPROF_ENERGY_FIELDS(X, S) \
  X(S, FIELD, COUNT, n_samples, n_samples, "", "") \
  X(S, FIELD, UNITS, lj_units, units, "", "metal: eV, ps, K, bar, A^3; lj: reduced") \
  X(S, FIELD, STEP, first_step, first_step, "", "number of the step in the program") \
  X(S, FIELD, STEP, last_step, last_step, "", "number of the step in the program") \
  X(S, FIELD, NUMBER, time_ps, time_ps, "ps", "between the first and the last sample") \
  X(S, FIELD, YES, finite, finite, "", "") \
  X(S, FIELD, NO, exploded, exploded, "", "") \
  X(S, FIELD, MAYBE_STEP, first_bad_step, first_bad_step, "", "at which exploded was first true") \
  X(S, AT, QUANTITY, value[MLFFPROF_POTENTIAL], potential, "eV", "null when it was not measured") \
  X(S, AT, QUANTITY, value[MLFFPROF_KINETIC], kinetic, "eV", "null when it was not measured") \
  X(S, AT, QUANTITY, value[MLFFPROF_TOTAL], total, "eV", "null when it was not measured") \
  X(S, AT, QUANTITY, value[MLFFPROF_CONSERVED], conserved, "eV", "null when it was not measured") \
  X(S, AT, QUANTITY, value[MLFFPROF_TEMPERATURE], temperature, "K", "null when it was not measured") \
  X(S, AT, QUANTITY, value[MLFFPROF_PRESSURE], pressure, "bar", "null when it was not measured") \
  X(S, AT, QUANTITY, value[MLFFPROF_VOLUME], volume, "A^3", "null when it was not measured") \
  X(S, AT, ENERGY_SERIES, stride, series, "", "one array per quantity that was measured")

#define MLFFPROF_ELEMENT_FIELDS(X, S) \
  X(S, FIELD, NAME, name, name, "", "") \
  X(S, FIELD, COUNT, n, n_samples, "", "in which it occurred") \
  X(S, FIELD, NUMBER, force_rmse, force_rmse, "eV/A", "") \
  X(S, FIELD, NUMBER, force_mae, force_mae, "eV/A", "")

#define MLFFPROF_ACCURACY_SERIES_FIELDS(X, S) \
  X(S, AT, STRIDE, stride, stride, "", "samples per point") \
  X(S, LIST, STEPS, step, n_points, ALL, step, "", "number of the step in the program") \
  X(S, LIST, COLUMN, energy_error, n_points, ALL, energy_error, "eV/atom", "") \
  X(S, LIST, COLUMN, force_rmse_series, n_points, ALL, force_rmse, "eV/A", "") \
  X(S, LIST, COLUMN, force_max_series, n_points, ALL, force_max, "eV/A", "") \
  X(S, LIST, COLUMN, cosine_series, n_points, ALL, force_cosine, "", "") \
  X(S, LIST, LATER_COLUMN, stress_rmse_series, n_points, ALL, stress_rmse, "GPa", "") \
  X(S, LIST, LATER_COLUMN, pressure_error, n_points, ALL, pressure_error, "bar", "")

#define MLFFPROF_ACCURACY_FIELDS(X, S) \
  X(S, FIELD, TEXT, reference, reference, "", "") \
  X(S, FIELD, COUNT, n_samples, n_samples, "", "") \
  X(S, FIELD, METRIC, energy_mae, energy_mae, "eV/atom", "") \
  X(S, FIELD, METRIC, energy_rmse, energy_rmse, "eV/atom", "") \
  X(S, FIELD, NUMBER, energy_bias, energy_bias, "eV/atom", "mean of E - E_reference") \
  X(S, FIELD, NUMBER, energy_max, energy_max, "eV/atom", "") \
  X(S, FIELD, METRIC, force_rmse, force_rmse, "eV/A", "") \
  X(S, FIELD, METRIC, force_mae, force_mae, "eV/A", "") \
  X(S, FIELD, METRIC, force_max, force_max, "eV/A", "") \
  X(S, FIELD, METRIC, force_cosine, force_cosine, "", "mean") \
  X(S, FIELD, NUMBER, force_cosine_min, force_cosine_min, "", "smallest") \
  X(S, FIELD, MAYBE_STEP, worst_step, worst_step, "", "of force_max") \
  X(S, LATER, METRIC, stress_rmse, stress_rmse, "GPa", \
    "over xx, yy, zz, xy, xz, yz; null where the system is not periodic or a stress was not computed") \
  X(S, LATER, METRIC, pressure_rmse, pressure_rmse, "bar", "") \
  X(S, LATER, METRIC, pressure_bias, pressure_bias, "bar", "mean of P - P_reference, with its sign") \
  X(S, LIST, ELEMENT, elements, n_elements, ALL, elements, "", "") \
  X(S, AT, ACCURACY_SERIES, stride, series, "", "")

/* ---- the report -------------------------------------------------------------------------------------------------- */

#define MLFFPROF_WARMUP_FIELDS(X, S) \
  X(S, AT, COUNT, n_warmup, n_steps, "", "") \
  X(S, AT, NUMBER, warmup.mean, mean_latency_ms, "ms", "") \
  X(S, AT, NUMBER, warmup.max, max_latency_ms, "ms", "") \
  X(S, DERIVED, NUMBER, warmup_time_s, total_time_s, "s", "")

#define MLFFPROF_QUANTILES_FIELDS(X, S) \
  X(S, AT, YES, quantiles_exact, exact, "", "") \
  X(S, AT, BOUND, quantile_error, relative_error, "", "bound for median, p95 and p99; 0 when exact")

#define MLFFPROF_REPORT_FIELDS(X, S) \
  X(S, FIELD, VERSION, schema_version, schema_version, "", "") \
  X(S, FIELD, TITLE, name, name, "", "of the run") \
  X(S, FIELD, TEXT, model_name, model_name, "", "") \
  X(S, FIELD, COUNT, n_steps, n_steps, "", "measured steps, without warm-up") \
  X(S, FIELD, TEXT, device, device, "", "") \
  X(S, LIST, NUMBERS, latencies_ms, n_latencies, ALL, latencies_ms, "ms", \
    "wall time of steps after warm-up; every latencies_stride-th") \
  X(S, FIELD, STRIDE, latencies_stride, latencies_stride, "", "") \
  X(S, AT, METRIC, latency.mean, mean_latency_ms, "ms", "") \
  X(S, AT, METRIC, latency.median, median_latency_ms, "ms", "") \
  X(S, AT, METRIC, latency.std, std_latency_ms, "ms", "") \
  X(S, AT, METRIC, latency.min, min_latency_ms, "ms", "") \
  X(S, AT, METRIC, latency.max, max_latency_ms, "ms", "") \
  X(S, AT, METRIC, latency.p95, p95_latency_ms, "ms", "") \
  X(S, AT, METRIC, latency.p99, p99_latency_ms, "ms", "") \
  X(S, AT, METRIC, latency.cv, cv, "", "std / mean") \
  X(S, FIELD, METRIC, energy_time_ms, energy_time_ms, "ms", \
    "mean per step of the part that computes energies, if it is timed separately") \
  X(S, FIELD, METRIC, forces_time_ms, forces_time_ms, "ms", "") \
  X(S, FIELD, METRIC, stress_time_ms, stress_time_ms, "ms", \
    "of a separate stress output; null if the virial comes with the forces") \
  X(S, DERIVED, METRIC, memory_initial_gb, memory_initial_gb, "GB", \
    "GB = 1e9 bytes; of the device or the host, see memory_of") \
  X(S, DERIVED, METRIC, memory_final_gb, memory_final_gb, "GB", "") \
  X(S, DERIVED, METRIC, memory_peak_gb, memory_peak_gb, "GB", "") \
  X(S, DERIVED, SERIES_GB, memory_per_step_gb, memory_per_step_gb, "GB", \
    "samples over the run, warm-up included; steps in memory.series.step") \
  X(S, DERIVED, MEMORY_OF, memory_of, memory_of, "", "") \
  X(S, FIELD, ATOMS, n_atoms, n_atoms, "", "of the last step") \
  X(S, DERIVED, TEXT, system_size, system_size, "", "for example 64 atoms") \
  X(S, FIELD, METRIC, total_time_s, total_time_s, "s", "of the measured steps") \
  X(S, FIELD, METRIC, steps_per_second, steps_per_second, "1/s", "n_steps / total_time_s") \
  X(S, LATER, METRIC, cpu_ms, cpu_ms, "ms", \
    "processor time of the thread that steps, per step, mean of the ranks; null: not measured") \
  X(S, LATER, METRIC, cpu_share, cpu_share, "", \
    "cpu_ms / mean_latency_ms; below 0.9 the processor was busy otherwise") \
  X(S, FIELD, TEXT, timestamp, timestamp, "", "UTC, for example 2025-11-23 10:30:00") \
  X(S, FIELD, TEXT, notes, notes, "", "") \
  X(S, FIELD, METRIC, us_per_atom, us_per_atom, "us", "mean latency / atoms of the step") \
  X(S, FIELD, METRIC, ns_per_day, ns_per_day, "ns/day", "") \
  X(S, FIELD, METRIC, drift, drift, "eV/atom/ps", \
    "of the conserved quantity if measured, otherwise of the total energy") \
  X(S, FIELD, DRIFT_OF, drift_of, drift_of, "", "") \
  X(S, FIELD, TEXT, ensemble, ensemble, "", "nve, nvt, npt, minimize") \
  X(S, FIELD, RANKS, n_ranks, n_ranks, "", "") \
  X(S, AT, WARMUP, warmup, warmup, "", "steps excluded from all other values") \
  X(S, AT, QUANTILES, quantiles_exact, quantiles, "", "") \
  X(S, LIST, COMPONENT, components, n_components, ALL, components, "", \
    "parts of the step, parents before children; the shares of the top level, with its last, other, sum to 1") \
  X(S, FIELD, MAYBE_COUNT, n_slow, n_slow_steps, "", "steps above twice the median (of the sketch)") \
  X(S, FIELD, METRIC, slow_share, slow_share, "", "their share of the total time") \
  X(S, LIST, SLOW_STEP, slow_steps, n_slow_steps, ALL, slow_steps, "", "the slowest, slowest first") \
  X(S, LIST, TAG_RESULT, tags, n_tags, ALL, tags, "", "steps by cause; a step with two causes is in both") \
  X(S, LATER, BALANCE, balance, balance, "", \
    "load balance between ranks: means over the steps in which it was measured; null on one rank") \
  X(S, LIST, SLOWEST_RANK, slowest_rank, n_slowest_ranks, ALL, slowest_ranks, "", \
    "how often a rank was the slowest, most frequent first, at most 16; empty on one rank") \
  X(S, LATER, WORK, work, work, "", "counted by `mlff bench --count`; null elsewhere") \
  X(S, LATER, OUTSIDE, outside, outside, "", \
    "how often the run was outside the training domain of its model; null: not checked") \
  X(S, FIELD, MEMORY, memory, memory, "", "") \
  X(S, FIELD, ENERGY, energy, energy, "", "") \
  X(S, FIELD, ACCURACY, accuracy, accuracy, "", "against the reference model, over all samples") \
  X(S, LIST, TARGET, targets, n_targets, ALL, targets, "", "rules and their results") \
  X(S, LIST, HOTSPOT, hotspots, n_hotspots, ALL, hotspots, "", \
    "components above 10 % of the step; imbalance: waiting for the busiest rank; spread: time above the median step, " \
    "if steps differ; memory: share that the run added, if it grows") \
  X(S, LIST, CONTEXT, context, n_context, ALL, context, "", \
    "environment: host, cpu, gpu, driver, ranks, threads, versions, model hash, precision, kernels, deck")

/* Values of `fix mlffprof` in an input script, f_ID[1] and so on: member of mlffprof_summary, unit. Append only. */
#define MLFFPROF_SUMMARY_VALUES(X) \
  X(last_ms, "ms") X(mean_ms, "ms") X(median_ms, "ms") X(p95_ms, "ms") X(p99_ms, "ms") X(max_ms, "ms") X(cv, "") \
  X(us_per_atom, "us/atom") X(steps_per_second, "steps/s") X(ns_per_day, "ns/day") X(host_mb, "MB") \
  X(host_growth_mb, "MB") X(device_mb, "MB") X(drift, "eV/atom/ps") X(drift_percent, "%") X(excursion, "eV/atom") \
  X(force_rmse, "eV/A") X(force_max, "eV/A") X(energy_error, "eV/atom") X(n_steps, "") X(exploded, "") \
  X(stress_rmse, "GPa") X(pressure_error, "bar")

// clang-format on

#endif
