/* backend_cuda.h: one NVIDIA GPU as a backend: its state, and what the files of cuda/ share. Everything is done on one
 * stream, in the order of the calls. */
#ifndef MLFF_CUDA_BACKEND_H
#define MLFF_CUDA_BACKEND_H

#include <cuda_runtime.h>

extern "C" {
#include "../src/mlff/backend/cuda.h"
#include "../src/mlff/backend/ops.h"
}

/* What the host learns of the edges of a step. */
typedef struct mlff_cuda_summary {
  int64_t n_edges;
  double closest2; /* smallest r^2, infinity without edges; min() of all, the first pair of the list that has it */
  int32_t closest[2];
  int32_t bad;   /* first position that is not finite, MLFF_CUDA_NONE_BAD: none */
  int32_t apart; /* 0: an edge is shorter than the cutoff of its repulsion; else MLFF_CUDA_NONE_BAD */
} mlff_cuda_summary;

enum { MLFF_CUDA_NONE_BAD = 0x7f7f7f7f }; /* of bytes of one value, so that a memset writes it; beyond any atom */

/* What ops do; see mlff_replay_ops in backend/ops.h. */
typedef enum mlff_cuda_mode { MLFF_CUDA_PLAIN = 0, MLFF_CUDA_RECORDING, MLFF_CUDA_HANDING_OUT } mlff_cuda_mode;

/* Pinned host memory that grows. */
typedef struct mlff_cuda_pinned {
  char *data;
  size_t bytes;
} mlff_cuda_pinned;

/* Recorded steps: replay.cpp. */
typedef struct mlff_cuda_replay {
  mlff_cuda_mode mode, paused; /* paused: the mode outside of the exchange that is going on */
  cudaGraphExec_t *parts;      /* [n_parts] in their order; 0: no recording. NULL: a part in which nothing is done */
  int n_parts, next;           /* next: to be started */
  int is_behind;               /* parts were started that the host has not waited for */
  uint64_t hash, recorded;     /* of what the step put on the stream since its positions; of the recorded one */
  int64_t n_nodes, n_kernels;  /* of all parts */
  cudaError_t problem;         /* why the recording that is being made is useless */
  const char *problem_in;
} mlff_cuda_replay;

/* Deferred operations: atoms.cu. */
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
  mlff_error failure;                  /* the first failure of the device; code 0: none */
  mlff_cuda_summary *summary;          /* pinned; written by a kernel */
  char *staging;                       /* pinned [MLFF_CUDA_STAGING]: conversions and uploads of lists */
  mlff_buf force_sums;                 /* doubles: forces.cu */
  mlff_buf sums;                       /* double [width]: orb.cu */
  mlff_buf device_forces;              /* double [n_nodes][3], of graphs on the device */
  mlff_buf candidates;                 /* what a list is made from: candidates.cu */
  double *device_positions;            /* [all_room][3] of the last list: edges.cu */
  mlff_cuda_pinned positions, results; /* what goes up in a step, and what comes down */
  mlff_cuda_pinned rows;               /* of an exchange */
  mlff_buf sent, packed;               /* of one without the host: rows that are sent, int32, and what they hold */
  uint64_t sent_list_id;               /* of the list that `sent` belongs to; 0: none */
  cudaEvent_t rows_are_there;
  size_t results_used; /* by this step so far */
  int in_step;         /* from the op `edges` to the end of the evaluation */
  mlff_cuda_replay replay;
  mlff_cuda_queue queue;
  int n_multiprocessors;
  int can_start_early;   /* kernels, before those before them have ended: launch.h */
  int has_warpgroups;    /* tensor cores that take their numbers from shared memory (sm_90a), and code for them */
  int most_shared_mixed; /* bytes that a block of linear.cu's mixed kernels can have, once it was asked for */
  cudaEvent_t *stamps;   /* [stamps_room] of a step, made when they are first needed */
  int n_stamps, stamps_room;
} mlff_cuda_backend;

enum { MLFF_CUDA_STAGING = 1 << 18 };

static inline mlff_cuda_backend *mlff_cuda_of(mlff_backend *backend)
{
  return (mlff_cuda_backend *) backend;
}

/* Keeps the first failure; `what` is the kernel or call. */
void mlff_cuda_remember(mlff_cuda_backend *cuda, cudaError_t error, const char *what);
/* MLFF_OK, or the failure kept. */
mlff_status mlff_cuda_status(mlff_cuda_backend *cuda, mlff_error *error);
/* Remembers when error is one; then as mlff_cuda_status. */
mlff_status mlff_cuda_check(mlff_cuda_backend *cuda, cudaError_t call, const char *what, mlff_error *error);
/* Copies on the stream; `copy`: within the device, not part of a recording; download_cuda waits until the bytes are
 * there, but see mlff_replay_ops. */
mlff_status mlff_cuda_upload(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error);
mlff_status mlff_cuda_copy(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error);

/* Operations that do not depend on the element type: backend_cuda.cpp, exchange.cpp. */
#define OP(...)
#define OP_HOST(name, returns, parameters, arguments, span, forecast, bodies) returns name##_cuda parameters;
#include "../src/mlff/backend/op_list.h"

/* Whether so few atoms do not fill the GPU, so that a step takes as long as its longest chain: then operations on atoms
 * are fused (atoms.cu), and several warps share out the edges of an atom. By size alone, not by options: with the same
 * sums in the same order. */
enum { MLFF_CUDA_SMALL_PER_SM = 16 };
static inline bool mlff_cuda_is_small(const mlff_cuda_backend *cuda, int64_t n_atoms)
{
  return n_atoms <= (int64_t) MLFF_CUDA_SMALL_PER_SM * cuda->n_multiprocessors;
}

/* Starts a copy to the host; what is on the stream is done. */
mlff_status mlff_cuda_copy_down(mlff_cuda_backend *cuda, void *dst, const void *src, size_t bytes, mlff_error *error);
mlff_status mlff_cuda_wait(mlff_cuda_backend *cuda, mlff_error *error);

/* *slot: pinned memory for `bytes` of this step's results, which kernels can write; the next slot may move it. NULL in
 * a forecast. expect_results waits for them; *are_there: false in a forecast and in a recording. */
mlff_status mlff_cuda_result_slot(mlff_backend *backend, size_t bytes, char **slot, mlff_error *error);
mlff_status mlff_cuda_expect_results(mlff_backend *backend, bool *are_there, mlff_error *error);

/* At least `bytes` of pinned memory; contents are lost when it grows. */
mlff_status mlff_cuda_pin(mlff_backend *backend, mlff_cuda_pinned *pinned, size_t bytes, mlff_error *error);

/* replay.cpp. begin_step: forgets what the last step put on the stream. note: adds to it. */
void mlff_cuda_begin_step(mlff_cuda_backend *cuda);
void mlff_cuda_note(mlff_cuda_backend *cuda, const void *data, size_t bytes);
/* Positions into pinned memory, those of a graph on the device to device_positions; zeros behind them. */
mlff_status mlff_cuda_set_positions(mlff_cuda_backend *cuda, const mlff_graph *graph, const mlff_edges *edges,
                                    mlff_error *error);
/* What came down of the edges into `edges`; an error when a position is not finite. */
mlff_status mlff_cuda_take_summary(const mlff_cuda_backend *cuda, const mlff_graph *graph, mlff_edges *edges,
                                   mlff_error *error);
/* Lives as long as what an exchange does on the stream and with other ranks, which is done and not recorded: a
 * recording ends a part and then begins the next one, which a replayed step starts. */
struct mlff_cuda_exchange_pause {
  mlff_cuda_backend *const cuda;
  explicit mlff_cuda_exchange_pause(mlff_cuda_backend *);
  ~mlff_cuda_exchange_pause();
};
void mlff_cuda_replay_ops(mlff_replay_ops *ops);
void mlff_cuda_forget(mlff_cuda_backend *cuda); /* the recording */
/* 1 when the error says that a step cannot be recorded, not that the device failed. */
int mlff_cuda_is_recording_error(cudaError_t error);

/* timing.cpp */
void mlff_cuda_timing_ops(mlff_timing_ops *ops);
void mlff_cuda_timing_close(mlff_cuda_backend *cuda);

/* Whether this build can use the device; makes it the current one. kernels [16] and id [24]:
 * as in mlff_backend. */
mlff_status mlff_cuda_check_device(int device, char *kernels, char *id, mlff_error *error);

/* table.cu, compiled once for each element type. probe: cudaSuccess when this build has code for the current device;
 * *architecture, unless it is NULL: what it was compiled for, 90 for compute_90, not more than the device is. */
cudaError_t mlff_cuda_probe_f32(int *architecture);
cudaError_t mlff_cuda_probe_f64(int *architecture);
/* A kernel that does nothing. */
cudaError_t mlff_cuda_launch_empty_f32(cudaStream_t stream);
cudaError_t mlff_cuda_launch_empty_f64(cudaStream_t stream);
void mlff_cuda_ops_f32(mlff_ops *ops);
void mlff_cuda_ops_f64(mlff_ops *ops);
/* packed[k] = rows[sent[k]], rows of `width` numbers; all on the device. rows.cu */
void mlff_cuda_pack_rows_f32(mlff_backend *backend, const void *rows, const int32_t *sent, int64_t n_sent,
                             int64_t width, void *packed);
void mlff_cuda_pack_rows_f64(mlff_backend *backend, const void *rows, const int32_t *sent, int64_t n_sent,
                             int64_t width, void *packed);
/* After mlff_cuda_ops_f32: products on tensor cores. linear.cu. */
void mlff_cuda_ops_mixed(mlff_ops *ops);

#endif
