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
  int32_t bad; /* first position that is not finite, INT32_MAX: none */
  int32_t unused;
} mlff_cuda_summary;

typedef struct mlff_cuda_backend {
  mlff_backend base; /* first member: the engine's pointer is a pointer to this */
  mlff_ops ops;
  int device;
  cudaStream_t stream;
  mlff_error failure;         /* the first failure of the device; code 0: none */
  mlff_cuda_summary *summary; /* pinned */
  double *virial;             /* pinned [9] */
  char *staging;              /* pinned [MLFF_CUDA_STAGING]: conversions and uploads of lists */
  char *rows;                 /* host memory for halo exchanges */
  size_t rows_bytes;
  mlff_buf virial_parts; /* double [n][9] and the sum: forces.cu */
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
/* Copies on the stream; `download` waits until the bytes are there. */
mlff_status mlff_cuda_upload(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error);
mlff_status mlff_cuda_download(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error);

/* table.cu, compiled once for each element type. probe: cudaSuccess when this build has code for the current device. */
cudaError_t mlff_cuda_probe_f32(void);
cudaError_t mlff_cuda_probe_f64(void);
void mlff_cuda_ops_f32(mlff_ops *ops);
void mlff_cuda_ops_f64(mlff_ops *ops);

#endif
