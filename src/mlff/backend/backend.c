/* backend.c: opening a backend by name, and its growing buffers. */
#include "backend.h"

#include "cpu/backend_cpu.h"

#include <stdlib.h>
#include <string.h>

typedef struct cpu_backend {
  mlff_backend base;
  mlff_ops ops;
} cpu_backend;

static int is(const char *text, const char *word)
{
  return strcmp(text, word) == 0;
}

static mlff_status choose_kernels(const char *asked, const char **kernels, mlff_error *error)
{
  static const char *const paths[] = {"generic", "avx2", "avx512"};
  if (!asked || is(asked, "auto")) {
    *kernels = mlff_cpu_best_kernels();
    return MLFF_OK;
  }
  for (int k = 0; k < 3; k++) {
    if (!is(asked, paths[k])) continue;
    if (!mlff_cpu_has_kernels(asked))
      return mlff_fail(error, MLFF_E_UNSUPPORTED, "kernels '%s': this processor cannot run them; use 'auto' (here: %s)",
                       asked, mlff_cpu_best_kernels());
    *kernels = paths[k];
    return MLFF_OK;
  }
  return mlff_fail(error, MLFF_E_ARG, "kernels '%s' is unknown; use auto, generic, avx2 or avx512", asked);
}

static mlff_status check_device(const char *device, mlff_error *error)
{
  if (!device || is(device, "auto") || is(device, "cpu")) return MLFF_OK;
  if (strncmp(device, "cuda", 4) == 0 && (device[4] == '\0' || device[4] == ':'))
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "device '%s': this build has no CUDA backend; use 'device cpu'",
                     device);
  return mlff_fail(error, MLFF_E_ARG, "device '%s' is unknown; use auto, cpu, cuda or cuda:N", device);
}

mlff_status mlff_backend_open(const char *device, const char *precision, const char *kernels, mlff_backend **backend,
                              mlff_error *error)
{
  const char *path = NULL;
  MLFF_TRY(check_device(device, error));
  const int is_double = precision && is(precision, "fp64");
  if (precision && is(precision, "mixed"))
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "precision 'mixed' is not available on the cpu; use fp32 or fp64");
  if (precision && !is_double && !is(precision, "fp32"))
    return mlff_fail(error, MLFF_E_ARG, "precision '%s' is unknown; use fp32, fp64 or mixed", precision);
  MLFF_TRY(choose_kernels(kernels, &path, error));

  cpu_backend *cpu = calloc(1, sizeof *cpu);
  if (!cpu) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a backend");
  cpu->base = (mlff_backend){.name = is_double ? "cpu64" : "cpu",
                             .kernels = path,
                             .precision = is_double ? "fp64" : "fp32",
                             .real_size = is_double ? sizeof(double) : sizeof(float),
                             .ops = &cpu->ops};
  if (!mlff_cpu_fill_ops(&cpu->ops, cpu->base.real_size, path)) {
    free(cpu);
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "kernels '%s' were not compiled into this build; use 'auto'", path);
  }
  *backend = &cpu->base;
  return MLFF_OK;
}

void mlff_backend_close(mlff_backend *backend)
{
  free(backend); /* the base is the first member of what was allocated */
}

mlff_status mlff_buf_reserve(mlff_backend *backend, mlff_buf *buf, size_t bytes, mlff_error *error)
{
  if (bytes == 0) bytes = 1; /* an empty array has an address too */
  if (bytes <= buf->capacity) return MLFF_OK;
  const size_t wanted = buf->capacity && bytes < SIZE_MAX / 2 ? bytes + bytes / 4 : bytes;
  void *data = backend->ops->alloc(backend, wanted);
  if (!data)
    return mlff_fail(error, MLFF_E_NOMEM,
                     "out of memory: %.1f MB more wanted on %s, %.1f MB in use; use fewer atoms per rank",
                     (double) wanted / 1e6, backend->name, (double) backend->memory.bytes / 1e6);
  backend->ops->release(backend, buf->data);
  backend->memory.bytes += wanted - buf->capacity;
  if (backend->memory.bytes > backend->memory.peak_bytes) backend->memory.peak_bytes = backend->memory.bytes;
  backend->memory.n_growths++;
  buf->data = data;
  buf->capacity = wanted;
  return MLFF_OK;
}

void mlff_buf_release(mlff_backend *backend, mlff_buf *buf)
{
  if (buf->data) backend->ops->release(backend, buf->data);
  backend->memory.bytes -= buf->capacity;
  *buf = (mlff_buf){0};
}
