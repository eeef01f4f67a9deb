/* ops.h: the contract of every operation that a backend provides.
 *
 * `real` is float or double, the backend's element type; matrices are row-major with a leading dimension (ld, in
 * elements). All sizes may be 0. Outputs do not alias inputs unless stated, and are `=` unless stated `+=`. Ops do not
 * allocate, and fail only if they return mlff_status.
 * CPU implementations: cpu/<stem>.c; CUDA twins: cuda/<stem>.cu. op_list.h has a row for each.
 */
#ifndef MLFF_OPS_H
#define MLFF_OPS_H

#include "backend.h"
#include "ops_ani.h"
#include "ops_mace.h"
#include "ops_nequip.h"
#include "ops_orb.h"
#include "ops_painn.h"
#include "ops_tensornet.h"

/* ---- memory: cpu/backend_cpu.c, cuda/backend_cuda.cpp ------------------------------------------------------------
 *
 *   alloc            NULL if memory is short
 *   memory           free and total memory of the device; NULL on the host
 *   upload_reals     converts n doubles on the host to reals on the backend; download_reals: the reverse
 *   owns_graph       MLFF_OK if the arrays of a graph with on_device are in this backend's memory; checks only the
 *                    positions unless the list is new. NULL if callers cannot write this backend's memory */

/* ---- linear.c -------------------------------------------------------------------------------------------------
 *
 *   linear_pack      weight: double [n_out][n_in] row-major, bias [n_out] or NULL. transpose: pack so that linear
 *                    computes y[n_in] = x[n_out] W, the GEMM of the backward pass (bias must be NULL)
 *   linear_many      n independent GEMMs of any shapes
 *   atoms_begin      from here to atoms_end, `linear`, painn_mix_* and painn_readout on rows of n_atoms atoms may be
 *                    deferred and done by one fused kernel. None of them reads rows that another one writes for another
 *                    atom, and an array has the same rows of atoms in all of them. Any other operation sees their
 *                    results. NULL if nothing is deferred */

/* A packed weight matrix, made at load. Opaque: the layout depends on the backend. */
typedef struct mlff_linear {
  int n_in, n_out; /* of the GEMM (after transposition) */
  int transposed;  /* packed for the backward pass      */
  int n_parts;     /* cpu/linear_mixed.c: a value is the sum of 1 or 2 bf16 */
  mlff_buf packed, bias;
} mlff_linear;

/* SSP is the shifted softplus log(1 + exp(x)) - ln 2, x - ln 2 above 20. */
typedef enum mlff_act { MLFF_ACT_NONE = 0, MLFF_ACT_SILU, MLFF_ACT_CELU, MLFF_ACT_SSP } mlff_act;

/* y = act(x W^T + b), or y = (x W^T) * scale, for n_rows rows.
 *   x      real [n_rows][ldx], first n_in columns are read
 *   y      real [n_rows][ldy], first n_out columns are written (accumulate: +=)
 *   slope  real [n_rows][ld_slope] or NULL: act'(x W^T + b), for the backward pass
 *   scale  real [n_rows][ld_scale] or NULL: multiplies the result element by element, after bias. With act CELU,
 *          `scale` contains CELU values, whose slopes multiply the result, which is not activated; no other act
 *   next   hint: matrix of the next GEMM, to be prefetched, or NULL
 * y must not alias x; y may alias scale. */
typedef struct mlff_linear_args {
  int64_t n_rows;
  const void *x;
  int64_t ldx;
  void *y;
  int64_t ldy;
  int accumulate;
  mlff_act act;
  double alpha; /* of CELU */
  void *slope;
  int64_t ld_slope;
  const void *scale;
  int64_t ld_scale;
  const mlff_linear *next;
} mlff_linear_args;

/* ---- edges.c ---------------------------------------------------------------------------------------------------
 *
 *   edges            uploads changed arrays and finds the active edges. Positions are checked here, because r < cutoff
 *                    drops NaN distances: a non-finite one is MLFF_E_NUMERIC with the atom (edges are then empty but
 *                    valid) */

/* Most candidates of a center, for a graph on the host. */
static inline int32_t mlff_longest_row(const mlff_graph *graph)
{
  int64_t longest = 0;
  for (int32_t i = 0; i < graph->n_local; i++)
    if (graph->row[i + 1] - graph->row[i] > longest) longest = graph->row[i + 1] - graph->row[i];
  return (int32_t) longest;
}

/* Short-range repulsion of a pair of elements (mlff_zbl in ops_math.h). */
typedef struct mlff_repulsion_pair {
  double cutoff;  /* A; 0 = none                                                    */
  double inverse; /* 1/A, of the screening length                                   */
  double factor;  /* Z_i Z_j e^2/(8 pi epsilon_0), in A and the model's unit of energy */
} mlff_repulsion_pair;

typedef struct mlff_repulsion {
  int n_species;
  int is_always;  /* part of the network: added in every step, not only if edges->is_close */
  int is_mace;    /* of mlff_zbl */
  int is_clamped; /* the network gets clamped distances */
  double reach;   /* A, the largest cutoff of a pair                         */
  double power;   /* of mlff_zbl */
  mlff_buf pairs; /* mlff_repulsion_pair [n_species][n_species], symmetric   */
} mlff_repulsion;

/* Active edges (r_ij < cutoff), found every step among the candidate pairs. Edges of center i: row[i] <= e < row[i+1],
 * in the order of the graph's list. Index arrays are on the backend. */
typedef struct mlff_edges {
  int32_t n_interior, n_local, n_nodes, n_all; /* of the graph */
  int32_t longest_row; /* most candidates, and so most edges, of a center. Set by the caller of `edges` for a graph on
                          the device */
  int64_t n_pairs, n_edges;
  int64_t n_room; /* capacity of edge arrays: n_edges, or more if a captured step may find more */
  double cutoff, min_distance;
  int32_t closest[2];              /* graph indices of the closest pair */
  int is_close;                    /* an edge is shorter than the cutoff of the repulsion of its elements */
  const mlff_repulsion *repulsion; /* set by the caller of `edges`; NULL = none */
  mlff_buf row;                    /* int64 [n_local+1]                                                           */
  mlff_buf nbr;                    /* int32 [n_edges]     graph index j, 0..n_all-1                               */
  mlff_buf node;                   /* int32 [n_edges]     node of j                                               */
  mlff_buf species;                /* int32 [n_edges]     species of j                                            */
  mlff_buf vec;                    /* real  [n_edges][4]  x_j - x_i and r, formed in double and then rounded      */
  mlff_buf center_species;         /* int32 [n_nodes] species of the nodes                                 */
  uint64_t list_id;                /* of the uploaded graph                                                       */
  int64_t all_room, pairs_room;    /* backends that capture steps: capacity of scratch                           */
  mlff_buf scratch;
} mlff_edges;

/* ---- repulsion.c ------------------------------------------------------------------------------------------------ */

/* Copies edges->vec to vec, real [n_edges][4], and clamps the lengths of edges below the cutoff of the repulsion of
 * their elements (mlff_clamp). */
typedef struct mlff_clamp_args {
  mlff_edges *edges;
  void *vec;
} mlff_clamp_args;

/* Adds edges->repulsion to the outputs of a network, half of a pair's energy to each atom. Called only if
 * edges->is_close or repulsion->is_always.
 *   vec            that of mlff_clamp_args, or NULL: makes grad that of these vectors, and restores edges->vec
 *   grad           real [n_edges][4] += dE/d(x_j - x_i); fourth element untouched
 *   node_energy    real [n_local] +=, or NULL
 *   member_energy  real [n_members][n_local] +=, or NULL */
typedef struct mlff_repulsion_args {
  const mlff_edges *edges;
  const void *vec;
  void *grad, *node_energy, *member_energy;
  int n_members;
} mlff_repulsion_args;

/* ---- last_features.c --------------------------------------------------------------------------------------------- */

/* What is wanted of the features of atoms in the last layer. Rows of atoms without an element are zero. */
typedef struct mlff_last_features {
  int width;           /* of matrices and rows; features beyond those of an atom's network count as zero */
  const void *weights; /* real [n_species][width + 1][width]: A transposed, then b                       */
  void *uncertainty;   /* real [n_local] = |A f + b|, or NULL                                            */
  void *rows;          /* real [n_local][width] = f, or NULL                                             */
} mlff_last_features;

/* Features [n][ld] of n atoms, of which `width` are used: of atoms[k], or with atoms = NULL of first + k. */
typedef struct mlff_last_features_args {
  const mlff_last_features *last;
  int64_t n, first, width, ld;
  const int32_t *atoms, *center_species;
  const void *features;
} mlff_last_features_args;

/* ---- weight_rows.c ----------------------------------------------------------------------------------------------- */

/* y[i][k] = weight[i] x[i][k], or with `accumulate` y[i][k] += weight[i] x[i][k], for i < n and k < width. x and y may
 * be the same array; `=` only. */
typedef struct mlff_weight_rows_args {
  int64_t n, width, ld;
  const void *weight; /* real [n]     */
  const void *x;      /* real [n][ld] */
  void *y;            /* real [n][ld] */
  int accumulate;
} mlff_weight_rows_args;

/* ---- exchange: cpu/backend_cpu.c, cuda/exchange.cpp --------------------------------------------------------------
 *
 *   exchange_begin, exchange_progress, exchange_finish
 *                    an exchange in parts, to overlap it with work on interior atoms, during which progress is called.
 *                    finish is called even if begin failed
 *   exchange_sum     calls halo->reverse on node rows [n_nodes][width]: adds rows of nodes of other ranks to those of
 *                    their owners. Nothing when halo is NULL */

/* Copies rows of nodes of other ranks from their owners. Nothing if halo is NULL.
 *   edges  n_interior, n_local and n_nodes of the graph
 *   rows   real [n_nodes][width]: n_interior .. n_local-1 are sent, n_local .. n_nodes-1 received. From begin to finish
 *          only rows below n_interior may be accessed */
typedef struct mlff_exchange_args {
  const mlff_halo *halo;
  const mlff_edges *edges;
  void *rows;
  int64_t width;
} mlff_exchange_args;

/* ---- forces.c -------------------------------------------------------------------------------------------------- */

/* Converts gradients of the energy by edge vectors to forces and virials; the only place for signs and component order.
 *   grad   real [n_edges][4]: dE/d(x_j - x_i) of directed edge e, in units of the model; fourth element ignored
 *   scale  converts to eV/A
 *   on_device  forces stay on the device, as result->device_forces
 *   node_energy  real [n_local] or NULL
 *   energy, bad  if not NULL: = the sum of node_energy over atoms with an element, in units of the model; and the first
 *          node whose force is not finite, or -1
 *   result forces [n_nodes][3] = (on_device: if not NULL), virial [6] =, atom_virial and atom_centroid [n_nodes][9] =
 *          if not NULL
 *   F_i += g_e;  F_node(j) -= g_e;  W_ab -= r_a g_b (symmetrised for `virial`) */
typedef struct mlff_forces_args {
  const mlff_edges *edges;
  const void *grad;
  double scale;
  int on_device;
  mlff_result *result;
  const void *node_energy;
  double *energy;
  int32_t *bad;
} mlff_forces_args;

/* Index of the first of n forces that is not finite, or -1. */
static inline int32_t mlff_first_bad_force(const double (*forces)[3], int32_t n)
{
  double probe = 0;
  for (int32_t i = 0; i < n; i++) probe += forces[i][0] * 0.0 + forces[i][1] * 0.0 + forces[i][2] * 0.0;
  for (int32_t i = 0; probe != 0.0 && i < n; i++)
    if (forces[i][0] * 0.0 + forces[i][1] * 0.0 + forces[i][2] * 0.0 != 0.0) return i;
  return -1;
}

/* ---- cuda/replay.cpp ------------------------------------------------------------------------------------------- */

/* Capture and replay of a step; all NULL if the backend does not support it. model/replay.c has the order of calls.
 *   begin     starts the capture, after a plain step with the same list: ops are captured, not run. Downloads leave
 *             their destinations unchanged.
 *   end       ends the capture. MLFF_E_UNSUPPORTED: it failed without other effects; run steps plainly.
 *   state     whether there is a captured step, and whether the last plain step was the same: every array and size
 *   start     runs the captured step with new positions and waits; sets edges as the op `edges` does. *overflow: 1 if
 *             there were more edges than n_room, so that nothing was computed. After MLFF_OK, and until `finish`,
 *             `forces` and downloads of the same sizes and order return the results. With exchanges it runs the part
 *             before the first one; ops of exchanges also run the part before the next one.
 *   finish    ends every step, plain or not: ops run plainly again
 *   count     nodes of the captured step, and kernels among them; 0 without one */
typedef enum mlff_replay_state { MLFF_REPLAY_NONE = 0, MLFF_REPLAY_OTHER, MLFF_REPLAY_SAME } mlff_replay_state;

typedef struct mlff_replay_ops {
  mlff_status (*begin)(mlff_backend *, mlff_error *);
  mlff_status (*end)(mlff_backend *, mlff_error *);
  mlff_replay_state (*state)(mlff_backend *);
  mlff_status (*start)(mlff_backend *, const mlff_graph *, mlff_edges *, int *overflow, mlff_error *);
  void (*finish)(mlff_backend *);
  void (*count)(mlff_backend *, int64_t *n_nodes, int64_t *n_kernels);
} mlff_replay_ops;

/* ---- cuda/timing.cpp ------------------------------------------------------------------------------------------- */

/* Timing on an asynchronous device; all NULL if ops complete before they return.
 *   restart   starts a step: its stamps are numbered from 0
 *   stamp     records an event on the stream; returns its number, or -1 while results of a replayed step are returned.
 *             `range`: name of the NVTX range that begins; NULL ends the last one
 *   seconds   between two stamps of the last step, or of its capture; waits for them */
typedef struct mlff_timing_ops {
  void (*restart)(mlff_backend *);
  int (*stamp)(mlff_backend *, const char *range);
  double (*seconds)(mlff_backend *, int begin, int end);
} mlff_timing_ops;

struct mlff_ops {
#define OP(name, returns, parameters, arguments, span, forecast, bodies) returns(*name) parameters;
#define OP_SIZE(name, cpu, gpu) int64_t name;
#include "op_list.h"
  mlff_replay_ops replay;
  mlff_timing_ops timing;
};

/* Error of `edges` for a position that is not finite (backend.c). */
mlff_status mlff_edges_bad_position(const mlff_graph *graph, int32_t atom, mlff_error *error);

/* Another cause of values that are not finite, as the end of a message ("; or ..."); "" if there is none. */
const char *mlff_backend_overflow(const mlff_backend *backend);

/* atoms_begin and atoms_end, on backends that defer operations. */
static inline void mlff_atoms_begin(mlff_backend *backend, int64_t n_atoms)
{
  if (backend->ops->atoms_begin) backend->ops->atoms_begin(backend, n_atoms);
}

static inline void mlff_atoms_end(mlff_backend *backend)
{
  if (backend->ops->atoms_end) backend->ops->atoms_end(backend);
}

/* A whole exchange. */
static inline mlff_status mlff_exchange(mlff_backend *backend, const mlff_exchange_args *args, mlff_error *error)
{
  const mlff_status begun = backend->ops->exchange_begin(backend, args, error);
  const mlff_status finished = backend->ops->exchange_finish(backend, args, begun ? NULL : error);
  return begun ? begun : finished;
}

/* Reserves n_rows rows of `width` reals. */
static inline mlff_status mlff_buf_reserve_rows(mlff_backend *backend, mlff_buf *buf, int64_t n_rows, int64_t width,
                                                mlff_error *error)
{
  return mlff_buf_reserve(backend, buf, (size_t) (n_rows * width) * backend->real_size, error);
}

/* Reserves n reals and sets them from doubles on the host. */
static inline mlff_status mlff_buf_fill(mlff_backend *backend, mlff_buf *buf, const double *values, int64_t n,
                                        mlff_error *error)
{
  MLFF_TRY(mlff_buf_reserve_rows(backend, buf, n, 1, error));
  return backend->ops->upload_reals(backend, buf->data, values, n, error);
}

/* Packs a matrix with its bias (NULL = none) and, unless `backward` is NULL, its transpose for the backward pass. */
static inline mlff_status mlff_linear_make(mlff_backend *backend, mlff_linear *forward, mlff_linear *backward,
                                           const double *weight, const double *bias, int n_out, int n_in,
                                           mlff_error *error)
{
  const mlff_status status = backend->ops->linear_pack(backend, forward, weight, bias, n_out, n_in, 0, error);
  if (status || !backward) return status;
  return backend->ops->linear_pack(backend, backward, weight, NULL, n_out, n_in, 1, error);
}

/* Releases both buffers of a packed matrix. */
static inline void mlff_linear_release(mlff_backend *backend, mlff_linear *linear)
{
  mlff_buf_release(backend, &linear->packed);
  mlff_buf_release(backend, &linear->bias);
}

#endif
