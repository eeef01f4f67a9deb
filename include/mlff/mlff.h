/* mlff.h: public C API of the machine-learned force field engine.
 *
 * The engine reads a model file (name.yaml + name.safetensors), takes one rank's view of an atomic system as a
 * neighbour graph, and returns energies, forces and virial. It knows nothing of LAMMPS or MPI; what it needs from
 * other ranks arrives through halo callbacks.
 *
 * Units everywhere: Angstrom, eV, eV/Angstrom.
 *
 * Errors: every function that can fail returns mlff_status and takes a caller-owned mlff_error last (NULL is allowed).
 * On failure `text` says what went wrong, which value, which file and line, and what to do; outputs are untouched
 * unless the function says otherwise. The library never exits, aborts, prints or reads the environment.
 *
 * Threads: different models may be used from different threads at once; one model from one thread at a time.
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
  MLFF_E_ARG,         /* the caller passed something impossible                              */
  MLFF_E_NOMEM,       /* out of memory                                                       */
  MLFF_E_IO,          /* a file cannot be opened, read or written                            */
  MLFF_E_FORMAT,      /* a file's content is wrong: syntax, unknown or missing key, hash     */
  MLFF_E_UNSUPPORTED, /* correct, but this build or model cannot do it                       */
  MLFF_E_DEVICE,      /* a device is missing or failed                                       */
  MLFF_E_NUMERIC      /* NaN or infinity, overlapping atoms, a failed self-test              */
} mlff_status;

/* Caller-owned error text. */
typedef struct mlff_error {
  mlff_status code;
  char text[1024];
} mlff_error;

/* What a model promises. Property tests read these. */
enum {
  MLFF_CONSERVATIVE = 1u << 0,   /* forces are the negative gradient of the energy                    */
  MLFF_ROTATION_EXACT = 1u << 1, /* energy is invariant under rotation up to rounding                 */
  MLFF_SMOOTH = 1u << 2,         /* energy and forces are continuous                                  */
  MLFF_STRICTLY_LOCAL = 1u << 3, /* a node energy depends on atoms within one cutoff (no messages)    */
  MLFF_NODE_ENERGIES = 1u << 4,  /* the total is a sum of node energies, so per-atom energies exist   */
  MLFF_INVERSION_EXACT = 1u << 5 /* mirror images have the same energy up to rounding                 */
};

/* Whether the system is periodic. Models with a stress need to know; others do not look. */
typedef enum mlff_boundary {
  MLFF_BOUNDARY_UNKNOWN = 0,
  MLFF_BOUNDARY_OPEN,     /* in no direction       */
  MLFF_BOUNDARY_PERIODIC, /* in all three          */
  MLFF_BOUNDARY_MIXED     /* in one or two of them */
} mlff_boundary;

/* One rank's view of the system. Angstrom.
 *
 * Atoms 0..n_local-1 are owned, n_local..n_all-1 are ghosts (images or atoms of other ranks). Nodes carry features:
 * node i < n_local is owned atom i; nodes n_local..n_nodes-1 are atoms owned by other ranks. A ghost that is a periodic
 * image of an atom of this rank has node[ghost] = its owner's index and so shares its owner's features at no cost.
 *
 * The list is full: if j is a candidate of i then i (or its image) is a candidate of j, or of j's owner on its rank.
 *
 * The first n_interior owned atoms are those that have to do with this rank only: none has a candidate that another
 * rank owns, and no other rank has one of them as a node. They are computed while features travel. 0 is always right.
 *
 * Arrays are in host memory, or, with on_device, species, node, row, nbr and pos in memory of the GPU that the model
 * was opened on (mlff_info.device_number), written completely before the call: the engine has a stream of its own. Then
 * only species, node and row come to the host, once for each list. A model on the CPU refuses on_device, as do
 * functions that do not say that they take it; a GPU refuses arrays that are not its own. Results are the same, to the
 * bit.
 *
 * A graph on the host may leave the list to a model on a GPU: row and nbr NULL, and `reach` the distance of candidates,
 * cutoff + skin. n_pairs is not read then. The list is made from the positions of the first evaluation with a list_id,
 * and again when one with another list_id came between. A model on the CPU refuses such a graph. Sums over neighbours
 * have another order than with the caller's list, so results differ by rounding. Where row and nbr are there, reach
 * tells mlff_model_forecast alone, which takes no graph without, that such graphs will follow.
 */
typedef struct mlff_graph {
  int32_t n_local, n_all;
  int32_t n_nodes;
  int32_t n_interior;
  int64_t n_pairs;
  uint64_t list_id;       /* changes whenever row, nbr, node, species or tag change                         */
  const int32_t *species; /* [n_all]     index into the model's element list; -1 = not ours (hybrid)        */
  const int32_t *node;    /* [n_all]     node that atom's features live in, 0..n_nodes-1                    */
  const int64_t *row;     /* [n_local+1] CSR offsets into nbr                                               */
  const int32_t *nbr;     /* [n_pairs]   neighbour j in 0..n_all-1, within cutoff + skin                    */
  const double (*pos)[3]; /* [n_all][3]  positions, new every step                                          */
  double reach;           /* A, of candidates where row and nbr are NULL and a GPU finds them (see above)   */
  /* Read by models that are not conservative (see mlff_info), which refuse MLFF_BOUNDARY_UNKNOWN and _MIXED: */
  mlff_boundary boundary;
  double volume;      /* A^3 of the periodic cell; new every step; not read when open                       */
  const int64_t *tag; /* [n_all]     number of the atom, the same on all ranks, its images and ghosts included;
                         NULL = its node, which needs n_nodes == n_local                                      */
  int on_device;      /* non-zero: arrays are in the memory of the model's GPU                                */
  /* Writes what the user calls atom i of n_all (an image: its owner), for errors and findings. NULL: "atom 5 counted
   * from 0", by its node. */
  void (*name)(void *context, int32_t i, char text[64]);
  void *name_context;
} mlff_graph;

/* Exchange between ranks. Every rank calls each function the same number of times per evaluation, in the same order,
 * also with no atoms. NULL halo = single rank (then n_nodes must equal n_local).
 *
 * forward: copies features. `rows` is host memory [n_nodes][row_bytes]; rows n_interior..n_local-1 of the graph are
 * filled, those before must not be touched; on return rows n_local..n_nodes-1 hold what their owners have. begin,
 * finish: the same in two parts, or both NULL. finish is called whatever begin returned; until then `rows` stays where
 * it is and only those before n_interior change. There is one exchange at a time. progress: called now and then between
 * the two, where moving messages takes a call. May be NULL. sent, n_sent, forward_device: where messages may lie in the
 * memory of a GPU; forward_device NULL: they may not, and rows go through the host. A model on a GPU then packs rows
 * sent[0..n_sent-1] (host memory, new with list_id) itself and calls forward_device instead of the three above:
 * `packed` [n_sent][row_bytes] and `arrivals` [n_nodes - n_local][row_bytes] are in the GPU's memory, complete and
 * unused by the GPU until it returns, when arrivals holds what the owners have. With a GPU that has failed `forward` is
 * called, so that other ranks do not wait. reverse: sums features. `rows` is float or double (real_size 4 or 8) host
 * memory [n_nodes][width]; on return rows 0..n_local-1 have been added what other ranks hold for them; the other rows
 * are undefined. reduce: values[n] are summed over all ranks and returned to all of them, equal on every rank. reverse
 * and reduce may be NULL for models whose reverse_width (mlff_info) is 0. */
typedef struct mlff_halo {
  void *context;
  mlff_status (*forward)(void *context, void *rows, size_t row_bytes, mlff_error *error);
  mlff_status (*begin)(void *context, void *rows, size_t row_bytes, mlff_error *error);
  mlff_status (*finish)(void *context, mlff_error *error);
  void (*progress)(void *context);
  const int32_t *sent;
  int32_t n_sent;
  mlff_status (*forward_device)(void *context, const void *packed, void *arrivals, size_t row_bytes, mlff_error *error);
  mlff_status (*reverse)(void *context, void *rows, int width, size_t real_size, mlff_error *error);
  mlff_status (*reduce)(void *context, double *values, int n, mlff_error *error);
} mlff_halo;

/* How to open a model. Zero-initialise, then set what you need. */
typedef struct mlff_options {
  const char *device;    /* "auto" (default): a GPU that can be used, else the CPU; "cpu", "cuda", "cuda:N"     */
  int local_rank;        /* of this process on its machine: "auto" and "cuda" take GPU local_rank modulo their number */
  const char *precision; /* "fp32" (default), "fp64", "mixed"                                             */
  const char *kernels;   /* "auto" (default: the best that the processor has), "generic", on x86-64 "avx2",
                            "avx512", on aarch64 "neon", "sve256", "sve512"; with precision mixed also
                            "avx512_bf16", "amx": products in bf16 by instructions for them, which "auto" wants and
                            the others compute slowly                                                        */
  const char *const *elements; /* [n_elements] elements that will occur, NULL = all of the model's; columns and
                                    networks of others are left out, which is exact and faster                    */
  int n_elements;
  int skip_self_test;  /* non-zero: do not run the file's self-test when opening                        */
  const char *members; /* of an ensemble, from 0: NULL or "all", or "0:2,5" = members 0, 1, 2 and 5; the energy is their
                          mean. The self-test when opening is that of the whole ensemble all the same          */
  const char *graph;   /* option `replay`. "yes" (default): settled steps on a GPU are recorded as one CUDA graph and
                          replayed; "no"                                                                       */
  const char
      *radial_intervals; /* of tables of radial functions, which backends of floats use (docs/pair_mlff_tuning.md):
                                   "auto" (default), or a number; with one, backends of doubles use a table, too */
  const char *fuse; /* "yes" (default): fused kernels on a GPU, which round differently; "no": one per operation  */
  const char *e0;   /* "yes" (default): energies contain the file's energy_offsets, one per atom of each element; "no":
                       they do not, and neither do those of atoms and members; forces and virials are the same      */
} mlff_options;

/* An option that is a word. `pair_style mlff`, `compare` of fix mlffprof and the program mlff have the same names. */
typedef struct mlff_option {
  const char *name;     /* of its field in mlff_options; `replay` is the field `graph` */
  const char *values;   /* with a space between two; N stands for a number, capitals for a text of one's own */
  const char *standard; /* what NULL means                                                             */
  const char *help;     /* one line                                                                    */
} mlff_option;

/* Row k of all of them; NULL after the last one. */
MLFF_API const mlff_option *mlff_option_at(int k);
/* The row of this name, NULL without one. `graph` is an older name of `replay`. */
MLFF_API const mlff_option *mlff_option_find(const char *name);
/* Sets the field of option `name`; value is borrowed. MLFF_E_ARG when one of them is not known, with what is. */
MLFF_API mlff_status mlff_options_set(mlff_options *options, const char *name, const char *value, mlff_error *error);
/* MLFF_OK when the option, which may be one of the caller's own, has such a value; else the text says which it has. */
MLFF_API mlff_status mlff_option_check(const mlff_option *option, const char *value, mlff_error *error);
/* 1 for yes, on, true; 0 for no, off, false; else -1. Options that have yes and no take all of these. */
MLFF_API int mlff_yes_or_no(const char *text);

/* What one evaluation returns. The caller owns all arrays; NULL = not wanted. Arrays are overwritten.
 *
 * Models without MLFF_CONSERVATIVE have forces and a stress of their own instead of gradients: virial is then this
 * rank's share of -stress * volume, in open systems that of sum (x_i - centroid) f_i; energy is this rank's share of a
 * function of all atoms; forces of other ranks' rows are zero; atom_energy (without MLFF_NODE_ENERGIES), atom_virial
 * and atom_centroid are MLFF_E_UNSUPPORTED. */
typedef struct mlff_result {
  double energy;       /* sum of the energies of owned atoms, eV                                                  */
  double virial[6];    /* xx yy zz xy xz yz, sum over this rank's edges of (x_i - x_j) f_ij, eV (LAMMPS sign)      */
  double (*forces)[3]; /* [n_nodes][3] eV/A; rows n_local.. are this rank's contributions to atoms of other ranks
                                and must be added by their owners. Required, but for graphs on the device */
  double *atom_energy; /* [n_local] eV, sums to energy                                                            */
  double (*atom_virial)[9]; /* [n_nodes][9] xx yy zz xy xz yz yx zx zy, eV: half of each edge's term to both ends; sums
                                to virial over all ranks */
  double (
      *atom_centroid)[9]; /* [n_nodes][9] same order: each edge's whole term to the neighbour, which is the exact form
                                for heat flux of strictly local models; MLFF_E_UNSUPPORTED for others */
  double *member_energy;  /* [n_members] eV, energies of the ensemble's members summed over owned atoms              */
  double *atom_spread;    /* [n_local] eV, standard deviation (n-1) of an atom's energy over the members             */
  double (
      *member_forces)[3]; /* [n_members][n_nodes][3] as `forces`, of each member by itself: the networks run once more
                                  for every member, so ask now and then; MLFF_E_UNSUPPORTED without members */
  double (*member_virial)[6]; /* [n_members][6] as `virial`; written when member_forces is wanted                     */
  const double (
      *device_forces)[3]; /* set for graphs on the device, else untouched: `forces` in the memory of the GPU, the
                                engine's, valid until the model's next call; complete when the evaluation returns */
  int64_t n_edges;        /* active edges r < cutoff                                                                 */
  double min_distance;    /* smallest distance between neighbours seen (A); infinity without edges                   */
} mlff_result;

/* What a model is. Strings live as long as the model. */
typedef struct mlff_info {
  const char *name;            /* `name:` of the file                                                     */
  const char *architecture;    /* "painn", "ani", ...                                                     */
  const char *citation;        /* paper of the architecture                                               */
  const char *sha256;          /* of the weights, 64 hex digits                                           */
  const char *device;          /* device in use, "cpu" or "cuda"                                          */
  int device_number;           /* of the GPU, as in cuda:N; -1 on the CPU                                 */
  const char *device_id;       /* PCI address of the GPU, which tells ranks that share one; "" on the CPU */
  const char *device_why;      /* why "auto" did not take a GPU; "" when it did or was not asked          */
  const char *precision;       /* precision in use                                                        */
  const char *kernels;         /* kernel path in use, e.g. "avx512", "sm_90" on a GPU                     */
  unsigned traits;             /* MLFF_CONSERVATIVE | ...                                                 */
  double cutoff;               /* A                                                                       */
  int n_elements;              /* of the model                                                            */
  const char *const *elements; /* [n_elements] chemical symbols; species index = position here           */
  const int *trained;          /* [n_elements] 1 = element occurred in training, 0 = unknown or not        */
  int n_members;               /* ensemble size as opened, 1 for single networks                          */
  int n_members_of_file;       /* members that the file has; more than n_members when some were chosen    */
  int64_t n_parameters;
  int exchange_width; /* largest number of bytes per row that a halo exchange uses; 0 = none      */
  int reverse_width;  /* largest width of the halo's `reverse`; 0 = neither reverse nor reduce is called */
  /* What the structures of the training spanned; NULL where the file does not say. */
  const double *temperature; /* [2] lowest and highest, K                                                 */
  const double *density;     /* [2] of periodic ones, g/cm3                                               */
  const double *distances;   /* [n_elements][n_elements] shortest, A; 0 = no such pair within the cutoff  */
  const double *pressure;    /* [2] of periodic ones, GPa, without its kinetic part                       */
  const double *triples;     /* [n_elements][n_elements][n_elements] of an atom, the first, with two neighbours: the
                                smaller distance within which both were, A; 0 = no such triple within the cutoff */
  double max_force;          /* largest on an atom, eV/A; 0 = the file does not say                       */
  const char *header_sha256; /* of the keys of the YAML that results depend on, weights included, 64 hex digits */
  int header_is_hashed;      /* the file states this hash; 0: it is from before there was one             */
  int n_self_tests;          /* structures in the file                                                    */
  int n_self_tests_passed;   /* when it was opened: fewer where some have only elements that are not used, or all were
                                skipped */
} mlff_info;

/* Memory and growth counters since opening. */
typedef struct mlff_memory {
  size_t bytes; /* held by buffers and packed weights now         */
  size_t peak_bytes;
  int64_t n_growths; /* times a buffer grew: constant in a settled run */
} mlff_memory;

/* Memory of evaluations before the first one is made. "Device" is where the model computes, be it the host. */
typedef struct mlff_forecast {
  size_t model_bytes; /* of held_bytes: weights and tables, whatever the number of atoms                          */
  size_t held_bytes;  /* on the device now                                                                         */
  size_t first_bytes; /* on the device after the first evaluation of the graph                                     */
  size_t later_bytes; /* on the device when arrays of pairs and edges, with other ranks those of atoms, too, have
                         grown once, which they do by a quarter; while one grows, it is there twice                 */
  size_t host_bytes;  /* on the host besides, still to come                                                        */
  size_t free_bytes, total_bytes; /* of a GPU; 0 on the CPU                                                        */
} mlff_forecast;

typedef struct mlff_model mlff_model;

/* Opens model file `path` (the YAML; weights are found beside it), checks every key, shape and hash, prepares the
 * network on the device, and runs the file's self-test there unless told not to. Close with mlff_model_close. */
MLFF_API mlff_status mlff_model_open(const char *path, const mlff_options *options, mlff_model **model,
                                     mlff_error *error);

/* The same from memory: `yaml` [yaml_size] and `weights` [weights_size] as read by mlff_model_read; `path` is used in
 * error texts only. Both may be freed after the call. */
MLFF_API mlff_status mlff_model_open_memory(const char *path, const char *yaml, size_t yaml_size, const void *weights,
                                            size_t weights_size, const mlff_options *options, mlff_model **model,
                                            mlff_error *error);

/* Reads both files of a model into memory (free both with free()), so that one rank can read and broadcast. */
MLFF_API mlff_status mlff_model_read(const char *path, char **yaml, size_t *yaml_size, void **weights,
                                     size_t *weights_size, mlff_error *error);

/* NULL is fine. */
MLFF_API void mlff_model_close(mlff_model *model);

/* Never NULL for an open model; lives as long as the model. */
MLFF_API const mlff_info *mlff_model_info(const mlff_model *model);
MLFF_API mlff_memory mlff_model_memory(const mlff_model *model);

/* What evaluating `graph`, on the host, with the arrays of `wanted` will take. Nothing is allocated or evaluated; no
 * exchanges. */
MLFF_API mlff_status mlff_model_forecast(mlff_model *model, const mlff_graph *graph, mlff_result *wanted,
                                         mlff_forecast *forecast, mlff_error *error);

/* Energy, forces and virial of `graph`. Fails with MLFF_E_NUMERIC on NaN or infinity and on atoms closer than the
 * model's smallest distance; then the arrays in `result` are undefined, but all halo exchanges have been made, so that
 * other ranks do not wait. */
MLFF_API mlff_status mlff_model_evaluate(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo,
                                         mlff_result *result, mlff_error *error);

/* ---- recorded steps ---------------------------------------------------------------------------------------------- */

/* On a GPU a step is recorded as one CUDA graph when it follows one with the same list, and replayed from then on, with
 * the same bits as without. Steps run op by op when their list is new and where features of other ranks' atoms are
 * needed. Never on a CPU. */
typedef struct mlff_replays {
  int is_on;       /* steps are recorded where they can be                                          */
  const char *why; /* "" or why nothing is (any more); lives as long as the model                   */
  int64_t n_steps, n_replayed, n_recorded;
  int64_t n_overflows;   /* replayed steps with more edges than there was room for; run again plainly */
  double record_seconds; /* spent on recording                                                        */
  int64_t n_nodes;       /* of the recording that there is: kernels, copies, fills and events; 0: none */
  int64_t n_kernels;     /* those that are kernels                                                    */
} mlff_replays;

/* Since opening, without self-tests. */
MLFF_API mlff_replays mlff_model_replays(const mlff_model *model);

/* Records a step now, if the next evaluation of `graph` with the arrays of `result` would, so that it does not: to be
 * called after an evaluation of the same graph, before a run is timed. `result` is then that of this graph, or as it
 * was where an evaluation makes exchanges: none are made. *seconds is what recording and, without exchanges, one replay
 * have taken, 0 when there was nothing to do. Not counted among the steps. When the driver refuses, MLFF_OK, and
 * mlff_model_replays says why. Errors are those of an evaluation. */
MLFF_API mlff_status mlff_model_record(mlff_model *model, const mlff_graph *graph, const mlff_halo *halo,
                                       mlff_result *result, double *seconds, mlff_error *error);

/* ---- where the time goes ---------------------------------------------------------------------------------------- */

/* Parts of an evaluation that are timed while spans are on. MLFF_SPAN_EVALUATE is the whole; the others lie within it,
 * do not overlap, and leave out what is small. */
typedef enum mlff_span_id {
  MLFF_SPAN_EVALUATE = 0,        /* "evaluate"            all of mlff_model_evaluate                                */
  MLFF_SPAN_EDGES,               /* "edges"               candidates -> active edges                                */
  MLFF_SPAN_DESCRIPTOR,          /* "descriptor"          ANI: AEVs; PaiNN: radial functions                        */
  MLFF_SPAN_MESSAGE,             /* "message"             PaiNN: sums over neighbours                               */
  MLFF_SPAN_DENSE,               /* "dense"               layers of atoms: products, activations, readout           */
  MLFF_SPAN_DESCRIPTOR_BACKWARD, /* "descriptor_backward" the same on the way back, towards the forces              */
  MLFF_SPAN_MESSAGE_BACKWARD,    /* "message_backward"                                                              */
  MLFF_SPAN_DENSE_BACKWARD,      /* "dense_backward"                                                                */
  MLFF_SPAN_FORCES,              /* "forces"              edge gradients -> forces and virials                      */
  MLFF_SPAN_EXCHANGE,            /* "exchange"            halo exchanges, with the waiting for other ranks          */
  MLFF_SPAN_COPY,                /* "copy"                between host and device                                   */
  MLFF_SPAN_STRESS,              /* "stress"              Orb: the head of the stress, on the host                  */
  MLFF_N_SPANS
} mlff_span_id;

/* What a part has taken since mlff_spans_start. `part` says what it is needed for: "energy", "forces" (virials of
 * conservative models come with them), "stress" or NULL = more than one. On CPUs also what it had to do, counted from
 * the sizes of its operations: floating-point operations of the formulas (a multiplication with an addition as two) and
 * bytes of the arrays, once for each element; 0 where it is not counted. */
typedef struct mlff_span {
  const char *name, *part;
  double seconds;
  int64_t calls;
  double flop, bytes;
} mlff_span;

/* One call, or a part of one (an exchange has several), for a trace: seconds of the monotonic clock
 * (CLOCK_MONOTONIC). */
typedef struct mlff_stamp {
  mlff_span_id span;
  double begin, end;
} mlff_stamp;

/* Starts timing from zero, with room for n_stamps calls (0 = sums only). While spans are off (the default) evaluations
 * run the very code that they would run without them; on, each operation reads the clock twice. On a GPU parts are
 * timed by events on its stream, in replayed steps too, and are ranges in NVIDIA's profilers. Results are the same. */
MLFF_API mlff_status mlff_spans_start(mlff_model *model, size_t n_stamps, mlff_error *error);
/* Spans off; sums and stamps remain readable. */
MLFF_API void mlff_spans_stop(mlff_model *model);
/* The sums, [MLFF_N_SPANS], valid until the model is closed and growing while spans are on. Never NULL: before the
 * first start everything is 0. */
MLFF_API const mlff_span *mlff_spans_read(const mlff_model *model);
/* The stamps since the start or the last call of this function, in the order of their ends, valid until the next
 * evaluation; *n is their number. They are forgotten by this call. *n_dropped (NULL is fine): how many more there would
 * have been with more room. */
MLFF_API const mlff_stamp *mlff_spans_take(mlff_model *model, size_t *n, size_t *n_dropped);

/* One line of a self-test. */
typedef struct mlff_self_test {
  char name[64]; /* of the structure                                               */
  int n_atoms;
  double energy_error; /* |E - E_ref| / n_atoms, or a tenth of the largest of an atom, eV/atom */
  double force_error;  /* max |F - F_ref|, eV/A                                          */
  double virial_error; /* max |W - W_ref| / n_atoms, eV/atom                             */
  double energy_tolerance, force_tolerance, virial_tolerance; /* of this precision           */
  int passed;
} mlff_self_test;

/* Number of self-test structures in the file. */
MLFF_API int mlff_model_n_self_tests(const mlff_model *model);
/* Runs self-test k on the model's own device and precision. MLFF_OK also when it did not pass: read `passed`. */
MLFF_API mlff_status mlff_model_self_test(mlff_model *model, int k, mlff_self_test *test, mlff_error *error);

/* Prints what `mlff info` prints: identity, provenance, domain, accuracy. */
MLFF_API void mlff_model_print(const mlff_model *model, FILE *out);

/* A neighbour graph built by the library for callers without a neighbour list of their own. cell: rows are the three
 * cell vectors (A), NULL = no periodic direction; pbc: which of them are periodic, NULL = all three. Boxes may be
 * smaller than the cutoff; images become ghosts, 200000 and 200 of each atom at most, else MLFF_E_ARG. Periodic vectors
 * and distances of atoms from the cell are at most 1e7 A, up to which wrapped positions are precise to 1e-9 A. Free
 * with mlff_system_free. */
typedef struct mlff_system mlff_system;
MLFF_API mlff_status mlff_system_create(int32_t n_atoms, const int32_t *species, const double (*pos)[3],
                                        const double (*cell)[3], const int *pbc, double cutoff, mlff_system **system,
                                        mlff_error *error);
MLFF_API const mlff_graph *mlff_system_graph(const mlff_system *system);
/* Moves the atoms of a system whose list was made with a larger cutoff than `cutoff`, the model's: pos [n_atoms][3];
 * cell as given when it was made, or another with the same periodic directions. Atoms may have been wrapped in between.
 * *is_stale: whether pairs within `cutoff` may be missing by now; then make a new system. Not for joined systems. */
MLFF_API mlff_status mlff_system_move(mlff_system *system, const double (*pos)[3], const double (*cell)[3],
                                      double cutoff, int *is_stale, mlff_error *error);
/* n systems as one, so that one evaluation computes all of them: atoms of the first, of the second, ..., all owned ones
 * before all images. Forces and energies of atoms are those of each system alone; a system's energy is the sum of its
 * atoms'. Not for models whose energy is no sum over atoms (they refuse it). The parts are not needed any more
 * afterwards. */
MLFF_API mlff_status mlff_system_join(const mlff_system *const *systems, int n, mlff_system **joined,
                                      mlff_error *error);
MLFF_API void mlff_system_free(mlff_system *system);

/* Checks the laws of a graph (offsets, index ranges, node map) in O(n_pairs); for tests and debugging. */
MLFF_API mlff_status mlff_graph_check(const mlff_graph *graph, int n_species, mlff_error *error);

/* What this computer and this build have. */
typedef struct mlff_platform {
  const char *version, *compiler, *yaml; /* of this library, what compiled it, of libyaml                     */
  char kernels[64];                      /* CPU kernel paths that can be run here, the best last            */
  char mixed[160];                       /* the same of precision mixed on the CPU, or why not              */
  char huge_pages[16];                   /* of the kernel: "always", "madvise" (both do), "never"; "" unknown */
  int has_cuda;                          /* the GPU backend is in this build                                */
  const char *gpu_code;                  /* architectures that it has code for, as CMAKE_CUDA_ARCHITECTURES */
  int driver, runtime;                   /* CUDA versions, 1000 major + 10 minor; 0: none                   */
  int n_devices;
  char why[200]; /* why there is none, else "" */
} mlff_platform;

/* A GPU. Numbers that are not known or were not measured are NaN. */
typedef struct mlff_device {
  int number; /* of cuda:N */
  char name[256];
  int major, minor; /* compute capability */
  int n_multiprocessors;
  size_t total_bytes, free_bytes;
  double clock_mhz, memory_clock_mhz;
  double up_gbs, down_gbs, copy_gbs; /* copies from and to pinned memory; read and written by one on the device   */
  double launch_us, round_trip_us;   /* of a kernel that does nothing: one of many, and with waiting for each     */
  double node_us;                    /* the same as one of many in a CUDA graph                                     */
  int can_run;                       /* this build can use it */
  char why[400];                     /* why not, else "" */
} mlff_device;

MLFF_API void mlff_platform_read(mlff_platform *platform);
/* with_times: measures copies and launches, in well under a second. MLFF_OK also when can_run is 0. */
MLFF_API mlff_status mlff_device_read(int number, int with_times, mlff_device *device, mlff_error *error);

/* The kernel path that `auto` takes on this processor with a precision: "avx512", "avx2", ...; with "mixed" "amx" or
 * "avx512_bf16", NULL where it has neither. */
MLFF_API const char *mlff_cpu_best_kernels(const char *precision);

/* The rates of one core that bound every part of an evaluation. */
typedef struct mlff_roof {
  const char *kernels, *precision; /* the path, as in mlff_options; "fp32" or "fp64" */
  double gflops;                /* 1e9 operations/s of vector multiply-adds that wait for nothing, each counted as 2 */
  double cache_gbs, memory_gbs; /* 1e9 bytes/s read from the second-level cache and from memory                      */
} mlff_roof;

/* Measures them on the core that calls, in about 0.5 s and with 256 MiB. kernels: NULL, "auto" or a path; precision:
 * NULL, "fp32" or "fp64". */
MLFF_API mlff_status mlff_roof_read(const char *kernels, const char *precision, mlff_roof *roof, mlff_error *error);

/* MLFF_VERSION of the library, and sizeof a structure of this header by its name ("mlff_result"; 0 for other names):
 * for callers that are not compiled with this header, to see whether they fit. */
MLFF_API const char *mlff_version(void);
MLFF_API size_t mlff_size_of(const char *type);

/* Name of a status, e.g. "MLFF_E_FORMAT". */
MLFF_API const char *mlff_status_name(mlff_status status);

#ifdef __cplusplus
}
#endif
#endif
