/* backend.h: a backend: a table of operations (ops.h) and its buffers.
 *
 * Architectures are written once against this table and do not depend on the backend. The element type of `real` arrays
 * is a property of the backend: float or double. Array arguments of ops are device pointers (void *), on CPUs plain
 * pointers. Buffers only grow, so a settled run allocates nothing; growths are counted.
 */
#ifndef MLFF_BACKEND_H
#define MLFF_BACKEND_H

#include "../errors.h"

typedef struct mlff_ops mlff_ops;
typedef struct mlff_backend mlff_backend;
typedef struct mlff_spans mlff_spans;

/* A persistent array of the backend. Zero-initialise; mlff_buf_reserve grows it; contents are lost when it grows. */
typedef struct mlff_buf {
  void *data;
  size_t capacity; /* bytes */
  size_t foreseen; /* bytes counted for it by forecast number `forecast` */
  unsigned forecast;
} mlff_buf;

struct mlff_backend {
  const char *name;      /* "cpu", "cpu64", "cuda", "cuda64"              */
  const char *kernels;   /* kernel path; "sm_90" on GPUs                  */
  const char *precision; /* "fp32", "fp64", "mixed"                       */
  size_t real_size;      /* sizeof(real): 4 or 8                          */
  const mlff_ops *ops;
  mlff_memory memory;
  mlff_spans *spans;     /* timed ops add to it (model/spans.c); NULL while timing is off */
  int records;           /* steps will be captured (model/replay.c) */
  size_t *forecast;      /* not NULL: ops allocate and compute nothing, and add the bytes that they would allocate */
  unsigned n_forecasts;  /* number of the current or last forecast */
  const mlff_ops *dry;   /* ops for forecasts, which only reserve; NULL if the plain ops check `forecast` */
  int splits;            /* CPU, precision mixed: matrices are sums of two bf16; 0 (one bf16) in tests */
  int number;            /* N of cuda:N; -1 on the CPU */
  char device_id[24];    /* PCI address of the GPU; empty on the CPU */
  char kernels_text[16]; /* storage of `kernels` if it is made at run time */
  char why[200];         /* why 'auto' did not select a GPU; empty if it did or was not requested */
  void (*close)(mlff_backend *);
};

/* Opens a backend. device: NULL, "auto", "cpu", "cuda[:N]"; precision: NULL, "fp32", "fp64", "mixed"; kernels: NULL,
 * "auto" or a path (kernels.h). An unknown or unavailable one is an error that lists the available ones. "auto" selects
 * a usable GPU, else the CPU, and sets `why`; kernels of the CPU imply the CPU. "auto" and "cuda" use GPU local_rank
 * modulo the number of GPUs. */
mlff_status mlff_backend_open(const char *device, int local_rank, const char *precision, const char *kernels,
                              mlff_backend **backend, mlff_error *error);
void mlff_backend_close(mlff_backend *backend);

/* Grows the buffer to at least `bytes`, by an extra 25 % if it has grown before. Data are aligned to 64 bytes and, on
 * the CPU, followed by 64 readable bytes. */
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
