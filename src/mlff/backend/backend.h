/* backend.h: where numbers live and what can be done with them.
 *
 * A backend is a table of operations (ops.h) with its buffers. Architectures are written once against it and never ask
 * which backend they run on. Element type of `real` arrays is a property of the backend: float or double. Array
 * arguments of ops are device pointers (void *), which for the CPU backends are plain pointers.
 *
 * Buffers only grow, so a settled run allocates nothing; growths are counted.
 */
#ifndef MLFF_BACKEND_H
#define MLFF_BACKEND_H

#include "../status.h"

typedef struct mlff_ops mlff_ops;
typedef struct mlff_backend mlff_backend;
typedef struct mlff_spans mlff_spans;

/* A persistent array of the backend. Zero-initialise; mlff_buf_reserve grows it; contents are lost when it grows. */
typedef struct mlff_buf {
  void *data;
  size_t capacity; /* bytes */
  size_t foreseen; /* bytes that forecast number `forecast` has counted for it */
  unsigned forecast;
} mlff_buf;

struct mlff_backend {
  const char *name;      /* "cpu", "cpu64", "cuda", "cuda64"              */
  const char *kernels;   /* as below; "sm_90" of GPUs                     */
  const char *precision; /* "fp32", "fp64", "mixed"                       */
  size_t real_size;      /* sizeof(real): 4 or 8                          */
  const mlff_ops *ops;
  mlff_memory memory;
  mlff_spans *spans;    /* while spans are on: what the timed ops add to (model/spans.c); else NULL */
  int records;          /* steps are going to be recorded (model/replay.c) */
  size_t *forecast;     /* not NULL: nothing is allocated or computed, bytes that would be allocated are added here */
  unsigned n_forecasts; /* number of the forecast in progress, or of the last one */
  const mlff_ops *dry;  /* operations for forecasts, which only reserve; NULL where the plain ones know of `forecast` */
  int splits;           /* precision mixed of the CPU: matrices are packed as sums of two bf16; 0 in tests, one */
  int number;           /* of the GPU; -1 on the CPU */
  char device_id[24];   /* of the GPU, whatever its number: its PCI address; empty on the CPU */
  char kernels_text[16]; /* kernels, where it is made at run time */
  char why[200];         /* why 'auto' did not take a GPU, empty when it did or was not asked */
  void (*close)(mlff_backend *);
};

/* Opens a backend. device: NULL, "auto", "cpu", "cuda[:N]"; precision: NULL, "fp32", "fp64", "mixed"; kernels: NULL,
 * "auto" or a path (kernels.h). An unknown or unavailable one is an error that lists what there is. "auto" is
 * a GPU that can be used, else the CPU, and `why` says why; naming kernels of the CPU means the CPU. "auto" and "cuda"
 * take GPU local_rank modulo the number of GPUs. */
mlff_status mlff_backend_open(const char *device, int local_rank, const char *precision, const char *kernels,
                              mlff_backend **backend, mlff_error *error);
void mlff_backend_close(mlff_backend *backend);

/* Makes room for `bytes` (at least; grows by a quarter more than asked for once it has grown before). Data are aligned
 * to 64 bytes and, on the CPU, followed by 64 readable bytes. */
mlff_status mlff_buf_reserve(mlff_backend *backend, mlff_buf *buf, size_t bytes, mlff_error *error);
void mlff_buf_release(mlff_backend *backend, mlff_buf *buf);

/* Address of element k of a real array. */
static inline void *mlff_at(const mlff_backend *backend, const void *array, int64_t k)
{
  return (char *) array + (size_t) k * backend->real_size;
}

/* 1 if this processor and this build can run the kernel path (kernels.h says why not). */
int mlff_cpu_has_kernels(const char *kernels);

#endif
