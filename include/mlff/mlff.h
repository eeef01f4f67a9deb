/* mlff.h: public C API of the machine-learned force field engine.
 *
 * The engine reads a model file (name.yaml + name.safetensors) and computes energies, forces and virials from one
 * rank's neighbor graph. It does not depend on LAMMPS or MPI; the caller exchanges features between ranks in callbacks
 * (mlff_halo).
 *
 * Units: Angstrom, eV, eV/Angstrom.
 *
 * Errors: functions that can fail return mlff_status and fill a caller-owned mlff_error (last argument, may be NULL)
 * with what failed, the value, where, and how to fix it. Unless stated otherwise, outputs are unchanged on failure. The
 * library never exits, aborts, prints or reads the environment.
 *
 * Threads: use different models from different threads, and each model from one thread at a time.
 *
 * The file is longer than 500 lines because it is the whole public API, with a comment above each member.
 */
#ifndef MLFF_MLFF_H
#define MLFF_MLFF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define MLFF_API
#else
#define MLFF_API __attribute__((visibility("default")))
#endif

#define MLFF_VERSION "0.1.0"

/* Outcome of a call. MLFF_OK is 0. */
typedef enum mlff_status {
  MLFF_OK = 0,
  /* Invalid argument. */
  MLFF_E_ARG,
  /* Out of memory. */
  MLFF_E_NOMEM,
  /* A file cannot be opened, read or written. */
  MLFF_E_IO,
  /* Invalid file content: syntax, unknown or missing key, hash. */
  MLFF_E_FORMAT,
  /* Valid, but not supported by this build or model. */
  MLFF_E_UNSUPPORTED,
  /* A device is missing or failed. */
  MLFF_E_DEVICE,
  /* NaN or infinity, overlapping atoms, a failed self-test. */
  MLFF_E_NUMERIC
} mlff_status;

/* Caller-owned error text. */
typedef struct mlff_error {
  mlff_status code;
  char text[1024];
} mlff_error;

/* Properties of a model (mlff_info.traits); the property tests check them. */
enum {
  /* Forces are the negative gradient of the energy. */
  MLFF_CONSERVATIVE = 1u << 0,
  /* Rotations leave the energy unchanged, up to rounding. */
  MLFF_ROTATION_EXACT = 1u << 1,
  /* Energy and forces are continuous. */
  MLFF_SMOOTH = 1u << 2,
  /* A node energy depends on atoms within one cutoff only (no messages). */
  MLFF_STRICTLY_LOCAL = 1u << 3,
  /* The total energy is a sum of node energies, so per-atom energies exist. */
  MLFF_NODE_ENERGIES = 1u << 4,
  /* Inversion leaves the energy unchanged, up to rounding. */
  MLFF_INVERSION_EXACT = 1u << 5
};

/* Periodicity of the system. Only non-conservative models read it. */
typedef enum mlff_boundary {
  MLFF_BOUNDARY_UNKNOWN = 0,
  /* No periodic direction. */
  MLFF_BOUNDARY_OPEN,
  /* Three periodic directions. */
  MLFF_BOUNDARY_PERIODIC,
  /* One or two periodic directions. */
  MLFF_BOUNDARY_MIXED
} mlff_boundary;

/* One rank's neighbor graph. Angstrom.
 *
 * Atoms 0..n_local-1 are owned, n_local..n_all-1 are ghosts (images or atoms of other ranks). Nodes carry features:
 * node i < n_local is owned atom i; nodes n_local..n_nodes-1 are atoms owned by other ranks. A ghost that is a periodic
 * image of an atom of this rank has node[ghost] = its owner's index and shares the owner's features.
 *
 * The list is full: if j is a candidate of i then i (or its image) is a candidate of j, or of j's owner on its rank.
 */
typedef struct mlff_graph {
  /* Owned atoms, all atoms, nodes. */
  int32_t n_local, n_all;
  int32_t n_nodes;
  /* The first n_interior owned atoms have no candidate on another rank and are a node of no other rank. They are
   * computed while features are exchanged. 0 is always valid. */
  int32_t n_interior;
  int64_t n_pairs;
  /* Changes whenever row, nbr, node, species or tag change. */
  uint64_t list_id;
  /* [n_all] index into the model's element list; -1 = not evaluated by this model (hybrid). */
  const int32_t *species;
  /* [n_all] node of each atom, 0..n_nodes-1. */
  const int32_t *node;
  /* [n_local+1] CSR offsets into nbr. */
  const int64_t *row;
  /* [n_pairs] neighbor j in 0..n_all-1, within cutoff + skin. */
  const int32_t *nbr;
  /* [n_all][3] positions, new every step. */
  const double (*pos)[3];
  /* A. Candidate distance (cutoff + skin) of a list that the GPU builds: row and nbr are NULL, n_pairs is not read. The
   * list is built from the positions of the first evaluation with a new list_id. Models on the CPU refuse such graphs.
   * Results differ from those with the caller's list by rounding (order of sums). With row and nbr,
   * mlff_model_forecast reads `reach` as an announcement of such graphs. */
  double reach;
  /* Required by models without MLFF_CONSERVATIVE: OPEN or PERIODIC. */
  mlff_boundary boundary;
  /* A^3 of the periodic cell, new every step. Not read with MLFF_BOUNDARY_OPEN. */
  double volume;
  /* [n_all] number of the atom, the same on all ranks and for all images. NULL = the node; requires
   * n_nodes == n_local. */
  const int64_t *tag;
  /* Non-zero: species, node, row, nbr and pos are in the memory of the model's GPU (mlff_info.device_number), complete
   * before the call because the engine uses a stream of its own. species, node and row are copied to the host once per
   * list. Results are bitwise the same. Refused by models on the CPU, for memory of another GPU, and by functions that
   * do not document it. */
  int on_device;
  /* Writes the user's name of atom i of n_all (of an image: its owner's), for errors and findings. NULL: "atom 5
   * counted from 1", by node. */
  void (*name)(void *context, int32_t i, char text[64]);
  void *name_context;
} mlff_graph;

/* Exchange between ranks, implemented by the caller. In one evaluation every rank makes the same calls in the same
 * order, also without atoms. A NULL halo is a single rank and requires n_nodes == n_local. */
typedef struct mlff_halo {
  /* First argument of all callbacks. */
  void *context;
  /* Copies features to other ranks. rows: host memory [n_nodes][row_bytes]; the engine has filled rows
   * n_interior..n_local-1. On return rows n_local..n_nodes-1 contain the owners' values. Do not write the rows below
   * n_interior. Also called after a GPU error, so that other ranks do not wait. */
  mlff_status (*forward)(void *context, void *rows, size_t row_bytes, mlff_error *error);
  /* Starts `forward`; both begin and finish may be NULL. At most one exchange is in flight. `rows` stays valid until
   * finish; the engine writes only rows below n_interior in between. */
  mlff_status (*begin)(void *context, void *rows, size_t row_bytes, mlff_error *error);
  /* Completes `begin`. Called also if begin failed. */
  mlff_status (*finish)(void *context, mlff_error *error);
  /* Called between begin and finish to let messages progress. May be NULL. */
  void (*progress)(void *context);
  /* [n_sent] rows that forward_device sends: host memory, new with list_id. */
  const int32_t *sent;
  int32_t n_sent;
  /* forward, begin and finish for GPU memory. packed: [n_sent][row_bytes], packed by the engine; on return arrivals
   * [n_nodes - n_local][row_bytes] contains the owners' values. The GPU neither writes nor reads both during the call.
   * NULL: rows are copied through the host. */
  mlff_status (*forward_device)(void *context, const void *packed, void *arrivals, size_t row_bytes, mlff_error *error);
  /* Sums features of ghosts into their owners. rows: host memory [n_nodes][width] of float or double (real_size 4 or
   * 8). On return rows 0..n_local-1 contain the sums over all ranks; the other rows are undefined. May be NULL if
   * mlff_info.reverse_width is 0. */
  mlff_status (*reverse)(void *context, void *rows, int width, size_t real_size, mlff_error *error);
  /* Sums values[n] over all ranks; the result is identical on every rank. May be NULL if mlff_info.reverse_width
   * is 0. */
  mlff_status (*reduce)(void *context, double *values, int n, mlff_error *error);
} mlff_halo;

/* Options of mlff_model_open. Zero-initialise, then set what you need. Texts are borrowed. */
typedef struct mlff_options {
  /* "auto" (default): a usable GPU, else the CPU; "cpu", "cuda", "cuda:N". */
  const char *device;
  /* Local rank of this process on its machine: "auto" and "cuda" use GPU local_rank modulo the number of GPUs. */
  int local_rank;
  /* "fp32" (default), "fp64", "mixed". */
  const char *precision;
  /* "auto" (default): the fastest of this processor; "generic"; x86-64: "avx2", "avx512"; aarch64: "neon", "sve256",
   * "sve512"; with precision mixed: "avx512_bf16", "amx" (bf16 instructions, which "auto" requires; the other paths
   * emulate them slowly). */
  const char *kernels;
  /* [n_elements] elements that will occur, NULL = all of the model. Columns and networks of others are omitted: exact
   * and faster. */
  const char *const *elements;
  int n_elements;
  /* Non-zero: mlff_model_open does not run the self-test of the file. */
  int skip_self_test;
  /* Members of an ensemble, from 0: NULL or "all", or "0:2,5" = members 0, 1, 2 and 5. The energy is their mean. The
   * self-test covers the whole ensemble. */
  const char *members;
  /* "yes" (default): settled steps on a GPU are captured as one CUDA graph and replayed; "no". */
  const char *replay;
  /* Intervals of radial tables, which single precision uses (docs/pair_mlff_tuning.md): "auto" (default) or a number,
   * which also selects a table in double precision. */
  const char *radial_intervals;
  /* "yes" (default): fused kernels on a GPU, which round differently; "no": one kernel per operation. */
  const char *fuse;
  /* "yes" (default): energies include the file's energy_offsets, one per atom of each element; "no": energies, also of
   * atoms and members, exclude them. Forces and virials do not depend on it. */
  const char *e0;
} mlff_options;

/* A text option. `pair_style mlff`, `compare` of fix mlffprof and the program mlff use the same names. */
typedef struct mlff_option {
  /* Also the field of mlff_options. */
  const char *name;
  /* Values, separated by a space; N stands for a number, capitals for a text. */
  const char *values;
  /* Value of NULL. */
  const char *standard;
  /* One line. */
  const char *help;
} mlff_option;

/* Row k of the options; NULL after the last one. */
MLFF_API const mlff_option *mlff_option_at(int k);
/* The option of this name; NULL if unknown. `graph` is accepted for `replay`. */
MLFF_API const mlff_option *mlff_option_find(const char *name);
/* Sets the field of option `name`; value is borrowed. MLFF_E_ARG if name or value is unknown. */
MLFF_API mlff_status mlff_options_set(mlff_options *options, const char *name, const char *value, mlff_error *error);
/* Checks a value of an option, which may be the caller's own. MLFF_E_ARG, with the known values, if it is unknown. */
MLFF_API mlff_status mlff_option_check(const mlff_option *option, const char *value, mlff_error *error);
/* 1 for yes, on, true; 0 for no, off, false; else -1. Options with "yes no" accept all of these. */
MLFF_API int mlff_yes_or_no(const char *text);

/* Results of one evaluation. The caller owns all arrays, which are overwritten; NULL = not computed.
 *
 * Models without MLFF_CONSERVATIVE predict forces and stress directly. virial is then this rank's share of
 * -stress * volume, in open systems of sum (x_i - centroid) f_i; energy is this rank's share of a function of all
 * atoms; forces of rows of other ranks are zero; atom_energy (without MLFF_NODE_ENERGIES), atom_virial and
 * atom_centroid are MLFF_E_UNSUPPORTED. */
typedef struct mlff_result {
  /* eV, sum over owned atoms. */
  double energy;
  /* eV: xx yy zz xy xz yz, sum over this rank's edges of (x_i - x_j) f_ij (LAMMPS sign). */
  double virial[6];
  /* [n_nodes][3] eV/A. Rows n_local.. are contributions to atoms of other ranks, which their owners must add. Required,
   * except for graphs on the device. */
  double (*forces)[3];
  /* [n_local] eV; sums to energy. */
  double *atom_energy;
  /* [n_nodes][9] eV: xx yy zz xy xz yz yx zx zy, half of each edge's term to both atoms; sums to virial over all
   * ranks. */
  double (*atom_virial)[9];
  /* [n_nodes][9] eV, components as atom_virial: W_j = sum_i (x_i - x_j) de_i/dx_j over the energies e_i of all atoms,
   * the form for the heat flux, J = sum_j e_j v_j + W_j v_j. Message-passing models evaluate the network four times
   * more, with as many halo exchanges; their lists must be on the host. */
  double (*atom_centroid)[9];
  /* [n_members] eV, energy of each ensemble member, sum over owned atoms. */
  double *member_energy;
  /* [n_local] eV, standard deviation (n-1) over the members of an atom's energy. */
  double *atom_spread;
  /* [n_members][n_nodes][3] as forces, of each member. Evaluates the networks once more per member.
   * MLFF_E_UNSUPPORTED without members. */
  double (*member_forces)[3];
  /* [n_members][6] as virial. Written only with member_forces. */
  double (*member_virial)[6];
  /* [n_local] uncertainty_unit of mlff_info. MLFF_E_UNSUPPORTED if that is NULL. */
  double *atom_uncertainty;
  /* [n_local][n_features] of the last layer. MLFF_E_UNSUPPORTED if n_features is 0. */
  double *atom_features;
  /* Output: set for graphs on the device, otherwise unchanged. `forces` in GPU memory of the engine, complete on return
   * and valid until the next call with this model. */
  const double (*device_forces)[3];
  /* Active edges (r < cutoff). */
  int64_t n_edges;
  /* Smallest distance between neighbors, A; infinity without edges. */
  double min_distance;
} mlff_result;

/* Description of a model. Strings live as long as the model. */
typedef struct mlff_info {
  /* `name:` of the file. */
  const char *name;
  /* "painn", "ani", ... */
  const char *architecture;
  /* Paper of the architecture. */
  const char *citation;
  /* SHA-256 of the weights, 64 hex digits. */
  const char *sha256;
  /* Device in use: "cpu" or "cuda". */
  const char *device;
  /* N of cuda:N; -1 on the CPU. */
  int device_number;
  /* PCI address of the GPU, to detect ranks that share one; "" on the CPU. */
  const char *device_id;
  /* Why "auto" did not select a GPU; "" if it did or was not requested. */
  const char *device_why;
  /* Precision in use. */
  const char *precision;
  /* Kernel path in use, e.g. "avx512"; "sm_90" on a GPU. */
  const char *kernels;
  /* MLFF_CONSERVATIVE | ... */
  unsigned traits;
  /* A. */
  double cutoff;
  int n_elements;
  /* [n_elements] chemical symbols; the species is the index into this array. */
  const char *const *elements;
  /* [n_elements] 1 = in the training data, 0 = not or unknown. */
  const int *trained;
  /* Ensemble size as opened; 1 for single networks. */
  int n_members;
  /* Members in the file. */
  int n_members_of_file;
  int64_t n_parameters;
  /* Largest row_bytes of a halo exchange; 0 = none. */
  int exchange_width;
  /* Largest width of mlff_halo.reverse; 0 = reverse and reduce are not called. */
  int reverse_width;
  /* Training domain; NULL where the file does not state it. */
  /* [2] lowest and highest, K. */
  const double *temperature;
  /* [2] of periodic structures, g/cm3. */
  const double *density;
  /* [n_elements][n_elements] shortest distances, A; 0 = no such pair within the cutoff. */
  const double *distances;
  /* [2] of periodic structures, GPa, without the kinetic part. */
  const double *pressure;
  /* [n_elements][n_elements][n_elements] of an atom (first index) and two neighbors: the smallest distance within which
   * both were found, A; 0 = no such triple within the cutoff. */
  const double *triples;
  /* Largest force on an atom, eV/A; 0 = not stated. */
  double max_force;
  /* The training distances are unknown, and distances are the cutoffs of the repulsion (kind clamped). */
  int distances_are_cutoffs;
  /* Features of an atom in the last layer, with a block uncertainty those of the block; 0 = none. */
  int n_features;
  /* "eV/A": expected error of a component of the force on an atom; "relative": 1 is the limit of the frames that the
   * block was made of; NULL: no uncertainty, because of uncertainty_why. */
  const char *uncertainty_unit;
  const char *uncertainty_why;
  /* Above it an atom counts as unlike those of the training. */
  double uncertainty_limit;
  /* SHA-256 of the YAML keys that affect results, including the weights, 64 hex digits. */
  const char *header_sha256;
  /* The file states header_sha256; 0 in older files. */
  int header_is_hashed;
  /* Known failures of the model, for a warning when a run starts; NULL: none in the file. */
  const char *caution;
  /* Self-test structures in the file. */
  int n_self_tests;
  /* Structures that passed when the model was opened. Fewer than n_self_tests if some contain omitted elements only, or
   * if the self-test was skipped. */
  int n_self_tests_passed;
  /* Publications and licence of this model: provenance.citation and provenance.license of the file. */
  const char *model_citation, *license;
} mlff_info;

/* Memory and growth since opening. */
typedef struct mlff_memory {
  /* Held by buffers and packed weights. */
  size_t bytes;
  size_t peak_bytes;
  /* Number of buffer growths; constant in a settled run. */
  int64_t n_growths;
} mlff_memory;

/* Memory of evaluations, computed before the first one. "Device" is where the model is evaluated: GPU or CPU. */
typedef struct mlff_forecast {
  /* Weights and tables, independent of the number of atoms; part of held_bytes. */
  size_t model_bytes;
  /* On the device now. */
  size_t held_bytes;
  /* On the device after the first evaluation of the graph. */
  size_t first_bytes;
  /* On the device after arrays of pairs and edges (on several ranks: also of atoms) have grown once, by a quarter, with
   * the old and the new array of the largest allocated at the same time. */
  size_t later_bytes;
  /* Additional host memory. */
  size_t host_bytes;
  /* GPU memory; 0 on the CPU. */
  size_t free_bytes, total_bytes;
} mlff_forecast;

typedef struct mlff_model mlff_model;

/* Opens model file `path` (the YAML; the weights are in the same folder): checks every key, shape and hash, prepares
 * the network on the device, and runs the self-test of the file. Close with mlff_model_close. */
MLFF_API mlff_status mlff_model_open(const char *path, const mlff_options *options, mlff_model **model,
                                     mlff_error *error);

/* Opens a model from memory: yaml [yaml_size] and weights [weights_size] from mlff_model_read, which may be freed after
 * the call. `path` is for error texts. */
MLFF_API mlff_status mlff_model_open_memory(const char *path, const char *yaml, size_t yaml_size, const void *weights,
                                            size_t weights_size, const mlff_options *options, mlff_model **model,
                                            mlff_error *error);

/* Reads both files of a model into memory, for example to broadcast them. Free both with free(). */
MLFF_API mlff_status mlff_model_read(const char *path, char **yaml, size_t *yaml_size, void **weights,
                                     size_t *weights_size, mlff_error *error);

/* model: NULL is allowed. */
MLFF_API void mlff_model_close(mlff_model *model);

/* Never NULL for an open model; lives as long as the model. */
MLFF_API const mlff_info *mlff_model_info(const mlff_model *model);
MLFF_API mlff_memory mlff_model_memory(const mlff_model *model);

/* Memory that evaluating `graph` (on the host) with the arrays of `wanted` will take. Allocates, evaluates and
 * exchanges nothing. */
MLFF_API mlff_status mlff_model_forecast(mlff_model *model, const mlff_graph *graph, mlff_result *wanted,
                                         mlff_forecast *forecast, mlff_error *error);

/* Computes energy, forces and virial of `graph`. MLFF_E_NUMERIC on NaN or infinity and on atoms closer than the model's
 * smallest distance. On failure the arrays of `result` are undefined, but all halo exchanges have been made, so that
 * other ranks do not wait. */
MLFF_API mlff_status mlff_model_evaluate(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo,
                                         mlff_result *result, mlff_error *error);

/* ---- captured steps ---------------------------------------------------------------------------------------------- */

/* On a GPU, the second evaluation with the same list is captured as a CUDA graph, which is replayed from then on.
 * Results are bitwise the same. Steps with a new list, and steps that read features of other ranks, launch each
 * operation. */
typedef struct mlff_replays {
  /* Capture is enabled and possible. */
  int is_on;
  /* Why steps are not captured; "" if they are. Lives as long as the model. */
  const char *why;
  int64_t n_steps, n_replayed, n_recorded;
  /* Replayed steps with more edges than the arrays could hold; evaluated again without the graph. */
  int64_t n_overflows;
  /* Time spent on capture. */
  double record_seconds;
  /* Nodes of the current graph: kernels, copies, fills and events; 0 without a graph. */
  int64_t n_nodes;
  /* Kernels among them. */
  int64_t n_kernels;
} mlff_replays;

/* Counts since opening, without self-tests. */
MLFF_API mlff_replays mlff_model_replays(const mlff_model *model);

/* Captures the step now if the next evaluation of `graph` with the arrays of `result` would capture it. Call it after
 * an evaluation of the same graph, before a run is timed. Without exchanges it evaluates into `result`; with exchanges
 * `result` is unchanged, and none is made. *seconds: time of the capture and, without exchanges, of one replay; 0 if
 * there was nothing to do. Does not count as a step. MLFF_OK if the driver refuses: see mlff_model_replays. Other
 * errors as mlff_model_evaluate. */
MLFF_API mlff_status mlff_model_record(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo,
                                       mlff_result *result, double *seconds, mlff_error *error);

/* ---- timing ------------------------------------------------------------------------------------------------------ */

/* Timed parts of an evaluation. All but MLFF_SPAN_EVALUATE lie within it and do not overlap; small operations are not
 * included. The name in quotes is mlff_span.name. */
typedef enum mlff_span_id {
  /* "evaluate": mlff_model_evaluate. */
  MLFF_SPAN_EVALUATE = 0,
  /* "edges": candidates -> active edges. */
  MLFF_SPAN_EDGES,
  /* "descriptor": AEVs of ANI, radial functions of PaiNN. */
  MLFF_SPAN_DESCRIPTOR,
  /* "message": sums over neighbors. */
  MLFF_SPAN_MESSAGE,
  /* "dense": layers per atom: GEMMs, activations, readout. */
  MLFF_SPAN_DENSE,
  /* "descriptor_backward". */
  MLFF_SPAN_DESCRIPTOR_BACKWARD,
  /* "message_backward". */
  MLFF_SPAN_MESSAGE_BACKWARD,
  /* "dense_backward". */
  MLFF_SPAN_DENSE_BACKWARD,
  /* "forces": edge gradients -> forces and virials. */
  MLFF_SPAN_FORCES,
  /* "exchange": halo exchanges, including the wait for other ranks. */
  MLFF_SPAN_EXCHANGE,
  /* "copy": between host and device. */
  MLFF_SPAN_COPY,
  /* "stress": Orb's stress head, on the host. */
  MLFF_SPAN_STRESS,
  MLFF_N_SPANS
} mlff_span_id;

/* Totals of one part since mlff_spans_start. */
typedef struct mlff_span {
  const char *name;
  /* What requires it: "energy", "forces" (with virials of conservative models), "stress"; NULL = several. */
  const char *part;
  double seconds;
  int64_t calls;
  /* On CPUs: floating-point operations of the formulas (multiply-add = 2) and bytes of the arrays (each element once);
   * 0 if not counted. */
  double flop, bytes;
} mlff_span;

/* One call, or a part of one (an exchange has several), for a trace: seconds of CLOCK_MONOTONIC. */
typedef struct mlff_stamp {
  mlff_span_id span;
  double begin, end;
} mlff_stamp;

/* Starts timing from zero, with room for n_stamps calls (0 = totals only). Timing is off by default and then has no
 * cost; when on, each operation reads the clock twice. On a GPU parts are timed by events on the stream, also in
 * replayed steps, and are NVTX ranges. Results do not depend on it. */
MLFF_API mlff_status mlff_spans_start(mlff_model *model, size_t n_stamps, mlff_error *error);
/* Stops timing. Totals and stamps remain readable. */
MLFF_API void mlff_spans_stop(mlff_model *model);
/* Totals [MLFF_N_SPANS], never NULL and valid until the model is closed; 0 before the first start. */
MLFF_API const mlff_span *mlff_spans_read(const mlff_model *model);
/* Returns and removes the *n stamps since the start or the last call, in the order of their ends; valid until the next
 * evaluation. *n_dropped (may be NULL): stamps that did not fit. */
MLFF_API const mlff_stamp *mlff_spans_take(mlff_model *model, size_t *n, size_t *n_dropped);

/* ---- self-tests -------------------------------------------------------------------------------------------------- */

/* Result for one self-test structure. */
typedef struct mlff_self_test {
  char name[64];
  int n_atoms;
  /* |E - E_ref| / n_atoms, or a tenth of the largest error of an atomic energy, eV/atom. */
  double energy_error;
  /* max |F - F_ref|, eV/A. */
  double force_error;
  /* max |W - W_ref| / n_atoms, eV/atom. */
  double virial_error;
  /* Tolerances for this precision. */
  double energy_tolerance, force_tolerance, virial_tolerance;
  int passed;
} mlff_self_test;

/* Number of self-test structures in the file. */
MLFF_API int mlff_model_n_self_tests(const mlff_model *model);
/* Runs self-test k on the device and in the precision of the model. MLFF_OK also if it fails: read `passed`. */
MLFF_API mlff_status mlff_model_self_test(mlff_model *model, int k, mlff_self_test *test, mlff_error *error);

/* Prints the text of `mlff info`: identity, provenance, domain, accuracy. */
MLFF_API void mlff_model_print(const mlff_model *model, FILE *out);
/* Prints a paragraph for the methods section of a paper: network, labels, data, errors, domain, known failures. */
MLFF_API void mlff_model_print_methods(const mlff_model *model, FILE *out);
/* Writes BibTeX of mlff and of each publication in a text such as mlff_info.citation, divided by "; ", each once, as
 * snprintf does: returns the length of the whole text. Publications are found by DOI, arXiv number or pages; others are
 * @misc with their text. text: [size]; NULL with size 0 for the length. */
MLFF_API size_t mlff_bibtex(const char *citation, char *text, size_t size);

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* A neighbor graph built by the library, for callers without a neighbor list. */
typedef struct mlff_system mlff_system;

/* Builds the graph of n_atoms atoms. pos: [n_atoms][3] A. cell: rows are the cell vectors, A; NULL = not periodic. pbc:
 * [3] periodic directions; NULL = all. The box may be smaller than the cutoff: images become ghosts, at most 200 per
 * atom and 200000, otherwise MLFF_E_ARG. Periodic vectors and distances of atoms from the cell are limited to 1e7 A,
 * where wrapped positions are accurate to 1e-9 A. Free with mlff_system_free. */
MLFF_API mlff_status mlff_system_create(int32_t n_atoms, const int32_t *species, const double (*pos)[3],
                                        const double (*cell)[3], const int *pbc, double cutoff, mlff_system **system,
                                        mlff_error *error);
MLFF_API const mlff_graph *mlff_system_graph(const mlff_system *system);
/* Moves the atoms of a system that was built with a larger cutoff than `cutoff`, the model's. pos: [n_atoms][3], may be
 * wrapped; cell: the same or another one with the same periodic directions. *is_stale: pairs within `cutoff` may be
 * missing; build a new system. Not for joined systems. */
MLFF_API mlff_status mlff_system_move(mlff_system *system, const double (*pos)[3], const double (*cell)[3],
                                      double cutoff, int *is_stale, mlff_error *error);
/* Joins n systems for one evaluation: atoms in the order of the systems, owned atoms before images. Forces and energies
 * of atoms are those of each system; the energy of a system is the sum over its atoms. Refused by models without
 * MLFF_NODE_ENERGIES. `systems` may be freed after the call. */
MLFF_API mlff_status mlff_system_join(const mlff_system *const *systems, int n, mlff_system **joined,
                                      mlff_error *error);
/* system: NULL is allowed. */
MLFF_API void mlff_system_free(mlff_system *system);

/* Checks offsets, index ranges and the node map in O(n_pairs); for tests and debugging. */
MLFF_API mlff_status mlff_graph_check(const mlff_graph *graph, int n_species, mlff_error *error);

/* ---- computer ---------------------------------------------------------------------------------------------------- */

/* This computer and this build. */
typedef struct mlff_platform {
  /* Versions of this library, its compiler and libyaml. */
  const char *version, *compiler, *yaml;
  /* CPU kernel paths available here, the fastest last. */
  char kernels[64];
  /* The same for precision mixed, or why there is none. */
  char mixed[160];
  /* Transparent huge pages of the kernel: "always", "madvise", "never"; "" = unknown. */
  char huge_pages[16];
  /* The GPU backend is in this build. */
  int has_cuda;
  /* GPU architectures of this build, as CMAKE_CUDA_ARCHITECTURES. */
  const char *gpu_code;
  /* CUDA versions, 1000 major + 10 minor; 0 = none. */
  int driver, runtime;
  int n_devices;
  /* Why there is no device; else "". */
  char why[200];
} mlff_platform;

/* A GPU. Unknown or unmeasured values are NaN. */
typedef struct mlff_device {
  /* N of cuda:N. */
  int number;
  char name[256];
  /* Compute capability. */
  int major, minor;
  int n_multiprocessors;
  size_t total_bytes, free_bytes;
  double clock_mhz, memory_clock_mhz;
  /* Copies from and to pinned memory; read and written by a copy on the device. 1e9 bytes/s. */
  double up_gbs, down_gbs, copy_gbs;
  /* An empty kernel: one of many launches, and a launch with synchronisation. */
  double launch_us, round_trip_us;
  /* An empty kernel as one of many nodes of a CUDA graph. */
  double node_us;
  /* This build supports it. */
  int can_run;
  /* Why not; else "". */
  char why[400];
} mlff_device;

MLFF_API void mlff_platform_read(mlff_platform *platform);
/* with_times: measures copies and launches, in less than a second. MLFF_OK also if can_run is 0. */
MLFF_API mlff_status mlff_device_read(int number, int with_times, mlff_device *device, mlff_error *error);

/* Kernel path that `auto` selects on this processor for a precision: "avx512", "avx2", ...; for "mixed" "amx",
 * "avx512_bf16", or NULL if there is none. */
MLFF_API const char *mlff_cpu_best_kernels(const char *precision);

/* Peak rates of one core: the roofline of an evaluation. */
typedef struct mlff_roof {
  /* Kernel path, as in mlff_options, and "fp32" or "fp64". */
  const char *kernels, *precision;
  /* 1e9 operations/s of independent vector multiply-adds, each counted as 2. */
  double gflops;
  /* 1e9 bytes/s read from the second-level cache and from memory. */
  double cache_gbs, memory_gbs;
} mlff_roof;

/* Measures the roofline of the calling core, in about 0.5 s and with 256 MiB. kernels: NULL, "auto" or a path;
 * precision: NULL, "fp32" or "fp64". */
MLFF_API mlff_status mlff_roof_read(const char *kernels, const char *precision, mlff_roof *roof, mlff_error *error);

/* MLFF_VERSION of the library, and sizeof a structure of this header by name ("mlff_result"; 0 if unknown). Callers
 * that are not compiled with this header use them to check compatibility. */
MLFF_API const char *mlff_version(void);
MLFF_API size_t mlff_size_of(const char *type);

/* Name of a status, e.g. "MLFF_E_FORMAT". */
MLFF_API const char *mlff_status_name(mlff_status status);

#ifdef __cplusplus
}
#endif
#endif
