/* backend_cpu.c: memory of the CPU backends, and the operations of a kernel path. */
#include "backend_cpu.h"

#include "kernel_paths.h"

#include <string.h>

enum { TAIL = 64 };

static void *alloc_cpu(mlff_backend *backend, size_t bytes)
{
  if (bytes > SIZE_MAX - TAIL) return NULL;
  char *data = mlff_pages_alloc(&((mlff_cpu_backend *) backend)->pages, bytes + TAIL);
  if (data) memset(data + bytes, 0, TAIL);
  return data;
}

static void release_cpu(mlff_backend *backend, void *data)
{
  mlff_pages_release(&((mlff_cpu_backend *) backend)->pages, data);
}

static mlff_status upload_cpu(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error)
{
  (void) backend;
  (void) error;
  if (bytes) memcpy(dst, src, bytes);
  return MLFF_OK;
}

static mlff_status download_cpu(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error)
{
  return upload_cpu(backend, dst, src, bytes, error);
}

static void zero_cpu(mlff_backend *backend, void *data, size_t bytes)
{
  (void) backend;
  if (bytes) memset(data, 0, bytes);
}

static mlff_status upload_reals_cpu(mlff_backend *backend, void *dst, const double *src, int64_t n, mlff_error *error)
{
  (void) error;
  float *f = dst;
  double *d = dst;
  if (backend->real_size == sizeof(float))
    for (int64_t k = 0; k < n; k++) f[k] = (float) src[k];
  else
    for (int64_t k = 0; k < n; k++) d[k] = src[k];
  return MLFF_OK;
}

static mlff_status download_reals_cpu(mlff_backend *backend, double *dst, const void *src, int64_t n, mlff_error *error)
{
  (void) error;
  const float *f = src;
  const double *d = src;
  if (backend->real_size == sizeof(float))
    for (int64_t k = 0; k < n; k++) dst[k] = (double) f[k];
  else
    for (int64_t k = 0; k < n; k++) dst[k] = d[k];
  return MLFF_OK;
}

static mlff_status exchange_begin_cpu(mlff_backend *backend, const mlff_exchange_args *a, mlff_error *error)
{
  if (!a->halo || !a->halo->begin) return MLFF_OK;
  return a->halo->begin(a->halo->context, a->rows, (size_t) a->width * backend->real_size, error);
}

static void exchange_progress_cpu(mlff_backend *backend, const mlff_exchange_args *a)
{
  (void) backend;
  if (a->halo && a->halo->begin && a->halo->progress) a->halo->progress(a->halo->context);
}

static mlff_status exchange_finish_cpu(mlff_backend *backend, const mlff_exchange_args *a, mlff_error *error)
{
  const mlff_halo *halo = a->halo;
  if (!halo) return MLFF_OK;
  if (halo->begin) return halo->finish(halo->context, error);
  return halo->forward(halo->context, a->rows, (size_t) a->width * backend->real_size, error);
}

static mlff_status exchange_sum_cpu(mlff_backend *backend, const mlff_halo *halo, void *rows, int64_t n_nodes,
                                    int64_t width, mlff_error *error)
{
  (void) n_nodes;
  if (!halo) return MLFF_OK;
  return halo->reverse(halo->context, rows, (int) width, backend->real_size, error);
}

/* Paths of this build are in kernel_paths.h. */
#define DECLARE(real, kernels)                           \
  void ops_cpu_##real##_##kernels(mlff_ops *);           \
  double roof_fma_##real##_##kernels(int64_t, double *); \
  double roof_read_##real##_##kernels(const void *, int64_t, int64_t);
MLFF_KERNEL_PATHS(DECLARE)

/* Kernel paths of bf16 GEMMs in this build. */
#define DECLARE_MIXED(kernels) void ops_mixed_f32_##kernels(mlff_ops *);
MLFF_MIXED_PATHS(DECLARE_MIXED)

int mlff_cpu_fill_ops(mlff_ops *ops, size_t real_size, const char *kernels)
{
  memset(ops, 0, sizeof *ops);
#define BODY_BOTH(body) body
#define BODY_GPU_ONLY(body) NULL
#define OP(...)
#define OP_HOST(name, returns, parameters, arguments, span, forecast, bodies) ops->name = BODY_##bodies(name##_cpu);
#include "../op_list.h"
  const char *real_name = real_size == sizeof(float) ? "f32" : "f64";
#define FILL(real, path)                                              \
  if (strcmp(real_name, #real) == 0 && strcmp(kernels, #path) == 0) { \
    ops_cpu_##real##_##path(ops);                                     \
    return 1;                                                         \
  }
  MLFF_KERNEL_PATHS(FILL)
  return 0;
}

int mlff_cpu_fill_mixed(mlff_ops *ops, const char *kernels)
{
#define FILL_MIXED(path)             \
  if (strcmp(kernels, #path) == 0) { \
    ops_mixed_f32_##path(ops);       \
    return 1;                        \
  }
  MLFF_MIXED_PATHS(FILL_MIXED)
  return 0;
}

int mlff_cpu_find_roof(mlff_cpu_roof *roof, size_t real_size, const char *kernels)
{
  const char *real_name = real_size == sizeof(float) ? "f32" : "f64";
#define FIND(real, path)                                                          \
  if (strcmp(real_name, #real) == 0 && strcmp(kernels, #path) == 0) {             \
    *roof = (mlff_cpu_roof){roof_fma_##real##_##path, roof_read_##real##_##path}; \
    return 1;                                                                     \
  }
  MLFF_KERNEL_PATHS(FIND)
  return 0;
}
