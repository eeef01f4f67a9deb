/* backend_cuda.h: state of a GPU as a backend, and the functions that the files of cuda/ share. All work is enqueued on
 * one stream, in the order of the calls. */
#ifndef MLFF_CUDA_BACKEND_H
#define MLFF_CUDA_BACKEND_H

#include <cuda_runtime.h>

extern "C" {
#include "../src/mlff/backend/cuda.h"
#include "../src/mlff/backend/ops.h"
}

/* Summary of the edges of a step, copied to the host. */
typedef struct mlff_cuda_summary {
  int64_t n_edges;
  double closest2; /* smallest r^2, infinity without edges, and the first such pair in the list */
  int32_t closest[2];
  int32_t bad;           /* first atom with a non-finite position, MLFF_CUDA_NONE_BAD: none */
  int32_t no_close_pair; /* 0: an edge is shorter than its repulsion cutoff; otherwise MLFF_CUDA_NONE_BAD */
} mlff_cuda_summary;

enum { MLFF_CUDA_NONE_BAD = 0x7f7f7f7f }; /* beyond any atom; equal bytes, for memset */

/* How ops run; see mlff_replay_ops in backend/ops.h. */
typedef enum mlff_cuda_mode { MLFF_CUDA_PLAIN = 0, MLFF_CUDA_CAPTURING, MLFF_CUDA_REPLAYING } mlff_cuda_mode;

/* Growable pinned host memory. */
typedef struct mlff_cuda_pinned {
  char *data;
  size_t bytes;
} mlff_cuda_pinned;

/* The captured step: replay.cpp. */
typedef struct mlff_cuda_replay {
  mlff_cuda_mode mode, paused; /* paused: mode before and after the current exchange */
  cudaGraphExec_t *parts;      /* [n_parts] CUDA graphs in order; NULL: an empty part */
  int n_parts, next;           /* next: part to launch next */
  int in_flight;               /* parts were launched and not waited for */
  uint64_t hash, captured;     /* of the work enqueued by the step; of the captured step */
  int64_t n_nodes, n_kernels;  /* of all parts */
  cudaError_t problem;         /* why the current capture failed */
  const char *problem_in;
} mlff_cuda_replay;

/* Deferred ops: atoms.cu. */
enum { MLFF_CUDA_QUEUE_BYTES = 4000 };
typedef struct mlff_cuda_queue {
  int64_t n_atoms;               /* 0: nothing is deferred */
  void (*start)(mlff_backend *); /* does them */
  int n, most_shared;            /* bytes that a block can have, once it was asked for */
  alignas(16) char steps[MLFF_CUDA_QUEUE_BYTES];
} mlff_cuda_queue;

typedef struct mlff_cuda_backend {
  mlff_backend base; /* first member: the engine's pointer is a pointer to this */
  mlff_ops ops;
  int device;
  cudaStream_t stream;
  mlff_error failure;                  /* first failure of the device; code 0: none */
  mlff_cuda_summary *summary;          /* pinned; written by a kernel */
  char *staging;                       /* pinned [MLFF_CUDA_STAGING], for conversions */
  mlff_buf force_sums;                 /* doubles: forces.cu */
  mlff_buf sums;                       /* double [width]: orb.cu */
  mlff_buf device_forces;              /* double [n_nodes][3], of graphs on the device */
  mlff_buf candidates;                 /* candidates.cu */
  double *device_positions;            /* [all_room][3] of the last list: edges.cu */
  mlff_cuda_pinned positions, results; /* uploads and downloads of a step */
  mlff_cuda_pinned rows;               /* of exchanges through the host */
  mlff_buf sent, packed;               /* of exchanges by GPU-aware MPI: int32 rows to send, packed rows */
  uint64_t sent_list_id;               /* list of `sent`; 0: none */
  cudaEvent_t rows_ready;
  size_t results_used; /* bytes used by this step */
  int in_step;         /* from op `edges` to the end of the evaluation */
  mlff_cuda_replay replay;
  mlff_cuda_queue queue;
  int n_multiprocessors;
  int has_dependent_launch; /* programmatic dependent launch: launch.h */
  int most_shared_mixed;    /* bytes that a block of linear.cu's mixed kernels can have, once it was asked for */
  cudaEvent_t *stamps;      /* [stamps_room] of a step, made when they are first needed */
  int n_stamps, stamps_room;
} mlff_cuda_backend;

enum { MLFF_CUDA_STAGING = 1 << 18 };

static inline mlff_cuda_backend *mlff_cuda_of(mlff_backend *backend)
{
  return (mlff_cuda_backend *) backend;
}

/* Stores the first failure; `what`: the kernel or call. */
void mlff_cuda_remember(mlff_cuda_backend *cuda, cudaError_t error, const char *what);
/* Returns MLFF_OK or the stored failure. */
mlff_status mlff_cuda_status(mlff_cuda_backend *cuda, mlff_error *error);
/* Stores `call` if it is a failure, then returns as mlff_cuda_status. */
mlff_status mlff_cuda_check(mlff_cuda_backend *cuda, cudaError_t call, const char *what, mlff_error *error);
/* Whether kernels and memsets are enqueued: not after a failure, in a memory forecast, or while a captured step, which
 * contains them, is replayed. */
static inline bool mlff_cuda_enqueues(const mlff_cuda_backend *cuda)
{
  return !cuda->failure.code && !cuda->base.forecast && cuda->replay.mode != MLFF_CUDA_REPLAYING;
}

/* Asynchronous copies on the stream; none in a memory forecast. mlff_cuda_copy: within the device; it must not be
 * captured. */
mlff_status mlff_cuda_upload(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error);
mlff_status mlff_cuda_copy(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error);

/* Ops that do not depend on the element type: backend_cuda.cpp, exchange.cpp. */
#define OP(...)
#define OP_HOST(name, returns, parameters, arguments, span, forecast, bodies) returns name##_cuda parameters;
#include "../src/mlff/backend/op_list.h"

/* Whether the atoms are too few to fill the GPU, so that latency limits the step. Then ops on atoms are fused
 * (atoms.cu) and several warps split the edges of an atom. The choice depends on the size only, so results are
 * reproducible. */
enum { MLFF_CUDA_SMALL_ATOMS_PER_SM = 16 };
static inline bool mlff_cuda_is_small_system(const mlff_cuda_backend *cuda, int64_t n_atoms)
{
  return n_atoms <= (int64_t) MLFF_CUDA_SMALL_ATOMS_PER_SM * cuda->n_multiprocessors;
}

/* Enqueues a copy to the host, none in a memory forecast; wait: until the stream is idle. */
mlff_status mlff_cuda_download(mlff_cuda_backend *cuda, void *dst, const void *src, size_t bytes, mlff_error *error);
mlff_status mlff_cuda_wait(mlff_cuda_backend *cuda, mlff_error *error);

/* *slot: pinned memory for `bytes` of results of this step, writable by kernels, valid until the next slot is
 * requested; NULL in a forecast. wait_results waits for them; *are_ready: false in a forecast and in a capture. */
mlff_status mlff_cuda_result_slot(mlff_backend *backend, size_t bytes, char **slot, mlff_error *error);
mlff_status mlff_cuda_wait_results(mlff_backend *backend, bool *are_ready, mlff_error *error);

/* Allocates at least `bytes` of pinned memory; contents are lost when it grows. */
mlff_status mlff_cuda_pin(mlff_backend *backend, mlff_cuda_pinned *pinned, size_t bytes, mlff_error *error);

/* replay.cpp. begin_step: restarts the hash of the step. hash: adds data to it. */
void mlff_cuda_begin_step(mlff_cuda_backend *cuda);
void mlff_cuda_hash(mlff_cuda_backend *cuda, const void *data, size_t bytes);
/* Copies positions to pinned memory, or those of a graph on the device to device_positions, and zero-fills the rest. */
mlff_status mlff_cuda_set_positions(mlff_cuda_backend *cuda, const mlff_graph *graph, const mlff_edges *edges,
                                    mlff_error *error);
/* Copies the summary into `edges`; fails if a position is not finite. */
mlff_status mlff_cuda_read_summary(const mlff_cuda_backend *cuda, const mlff_graph *graph, mlff_edges *edges,
                                   mlff_error *error);
/* Scope of an exchange, whose work is executed and not captured: a capture ends a part before it and begins the next
 * one after it; a replayed step launches the next part after it. */
struct mlff_cuda_exchange_pause {
  mlff_cuda_backend *const cuda;
  explicit mlff_cuda_exchange_pause(mlff_cuda_backend *);
  ~mlff_cuda_exchange_pause();
};
void mlff_cuda_replay_ops(mlff_replay_ops *ops);
void mlff_cuda_drop_capture(mlff_cuda_backend *cuda);
/* Whether the error means that a step cannot be captured, not that the device failed. */
int mlff_cuda_is_capture_error(cudaError_t error);

/* timing.cpp */
void mlff_cuda_timing_ops(mlff_timing_ops *ops);
void mlff_cuda_timing_close(mlff_cuda_backend *cuda);

/* Makes the device current; fails if this build cannot use it. kernels [16], id [24]: as in mlff_backend. */
mlff_status mlff_cuda_check_device(int device, char *kernels, char *id, mlff_error *error);

/* table.cu, compiled once per element type. probe: cudaSuccess if this build has code for the current device.
 * *architecture (or NULL): the compute capability that the code was compiled for, 90 for compute_90. */
cudaError_t mlff_cuda_probe_f32(int *architecture);
cudaError_t mlff_cuda_probe_f64(int *architecture);
/* Launches an empty kernel. */
cudaError_t mlff_cuda_launch_empty_f32(cudaStream_t stream);
cudaError_t mlff_cuda_launch_empty_f64(cudaStream_t stream);
void mlff_cuda_ops_f32(mlff_ops *ops);
void mlff_cuda_ops_f64(mlff_ops *ops);
/* rows.cu: packed[k] = rows[sent[k]], rows [][width]; all on the device. */
void mlff_cuda_pack_rows_f32(mlff_backend *backend, const void *rows, const int32_t *sent, int64_t n_sent,
                             int64_t width, void *packed);
void mlff_cuda_pack_rows_f64(mlff_backend *backend, const void *rows, const int32_t *sent, int64_t n_sent,
                             int64_t width, void *packed);
/* linear.cu: replaces ops of mlff_cuda_ops_f32 by those on tensor cores. */
void mlff_cuda_ops_mixed(mlff_ops *ops);

#endif
