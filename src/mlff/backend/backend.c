/* backend.c: opens a backend by name; growing buffers. */
#include "backend.h"

#include "../graph/graph.h"
#include "cpu/backend_cpu.h"
#include "cuda.h"
#include "kernels.h"
#include "tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *text, const char *word)
{
  return strcmp(text, word) == 0;
}

/* ---- which device ------------------------------------------------------------------------------------------------ */

enum { DEVICE_ANY_GPU = -3, DEVICE_AUTO = -2, DEVICE_CPU = -1 }; /* else the number of a GPU */

static mlff_status read_device(const char *device, int *number, mlff_error *error)
{
  *number = !device || is(device, "auto") ? DEVICE_AUTO : DEVICE_CPU;
  if (!device || is(device, "auto") || is(device, "cpu")) return MLFF_OK;
  if (strncmp(device, "cuda", 4) != 0 || (device[4] != '\0' && device[4] != ':'))
    return mlff_fail(error, MLFF_E_ARG, "device '%s' is unknown; use auto, cpu, cuda or cuda:N", device);
  *number = DEVICE_ANY_GPU;
  if (device[4] == '\0') return MLFF_OK;
  char *end = NULL;
  const long n = strtol(device + 5, &end, 10);
  if (end == device + 5 || *end || n < 0 || n > 999)
    return mlff_fail(error, MLFF_E_ARG, "device '%s': N of cuda:N must be an integer from 0", device);
  *number = (int) n;
  return MLFF_OK;
}

static int n_gpus(char *why, size_t size)
{
#if MLFF_HAVE_CUDA
  return mlff_cuda_n_devices(why, size);
#else
  snprintf(why, size, MLFF_NO_CUDA);
  return 0;
#endif
}

static mlff_status open_gpu(int number, const char *precision, mlff_backend **backend, mlff_error *error)
{
#if MLFF_HAVE_CUDA
  return mlff_cuda_open(number, precision, backend, error);
#else
  (void) precision;
  (void) backend;
  return mlff_fail(error, MLFF_E_UNSUPPORTED, "device 'cuda:%d': " MLFF_NO_CUDA "; use 'device cpu'", number);
#endif
}

/* *precision: one of the three names. */
static mlff_status check_precision(const char *asked, const char **precision, mlff_error *error)
{
  static const char *const names[] = {"fp32", "fp64", "mixed"};
  for (int k = 0; k < 3; k++) {
    if (asked && !is(asked, names[k])) continue;
    *precision = names[k];
    return MLFF_OK;
  }
  return mlff_fail(error, MLFF_E_ARG, "precision '%s' is unknown; use fp32, fp64 or mixed", asked);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static void close_cpu(mlff_backend *backend)
{
  mlff_buf_release(backend, &((mlff_cpu_backend *) backend)->rounded);
  free(backend); /* the base is the first member of the allocated structure */
}

static mlff_status fill_cpu(mlff_cpu_backend *cpu, mlff_error *error)
{
  const mlff_backend *b = &cpu->base;
  const int is_mixed = is(b->precision, "mixed");
  mlff_ops portable; /* emulates bf16 instructions */
  const char *common = mlff_cpu_common_kernels(b->kernels), *twin = is(b->kernels, "amx") ? "generic" : "avx512";
  if (!mlff_cpu_fill_ops(&cpu->ops, b->real_size, common) || (is_mixed && !mlff_cpu_fill_mixed(&cpu->ops, b->kernels)))
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "kernels '%s' were not compiled into this build; use 'auto'",
                     b->kernels);
  mlff_ops_fill_dry(&cpu->dry, &cpu->ops);
  if (is(common, b->kernels)) return MLFF_OK;
  mlff_cpu_fill_mixed(&portable, twin);
  return mlff_cpu_compare_products(&cpu->base, &portable, error);
}

static mlff_status open_cpu(const char *kernels, const char *precision, mlff_backend **backend, mlff_error *error)
{
  const int is_double = is(precision, "fp64");
  const char *path = NULL;
  MLFF_TRY(mlff_cpu_choose_kernels(kernels, precision, &path, error));
  mlff_cpu_backend *cpu = calloc(1, sizeof *cpu);
  if (!cpu) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a backend");
  cpu->base = (mlff_backend){.name = is_double ? "cpu64" : "cpu",
                             .kernels = path,
                             .precision = precision,
                             .real_size = is_double ? sizeof(double) : sizeof(float),
                             .ops = &cpu->ops,
                             .dry = &cpu->dry,
                             .splits = is(precision, "mixed"), /* docs/decisions/0008 */
                             .number = -1,
                             .close = close_cpu};
  const mlff_status status = fill_cpu(cpu, error);
  if (status)
    close_cpu(&cpu->base);
  else
    *backend = &cpu->base;
  return status;
}

/* GPU local_rank modulo the number of GPUs; 0 if there is none, which is an error when it is opened. */
static int gpu_of_rank(int local_rank)
{
  char why[200] = "";
  const int n = n_gpus(why, sizeof why);
  return n > 0 && local_rank > 0 ? local_rank % n : 0;
}

/* Opens a GPU. NULL, and why, if there is none or this build has no code for it. */
static mlff_backend *try_gpu(int local_rank, const char *kernels, const char *precision, char *why, size_t size)
{
  mlff_error error = {0};
  mlff_backend *backend = NULL;
  if (kernels && !is(kernels, "auto")) {
    snprintf(why, size, "kernels '%.20s' are for the CPU", kernels);
    return NULL;
  }
  if (n_gpus(why, size) == 0) return NULL;
  if (open_gpu(gpu_of_rank(local_rank), precision, &backend, &error))
    snprintf(why, size, "%.*s", (int) size - 1, error.text);
  return backend;
}

mlff_status mlff_backend_open(const char *device, int local_rank, const char *precision, const char *kernels,
                              mlff_backend **backend, mlff_error *error)
{
  int number = DEVICE_CPU;
  char why[sizeof((mlff_backend *) 0)->why] = "";
  MLFF_TRY(read_device(device, &number, error));
  MLFF_TRY(check_precision(precision, &precision, error));
  if (number == DEVICE_ANY_GPU) number = gpu_of_rank(local_rank);
  if (number >= 0) {
    if (kernels && !is(kernels, "auto"))
      return mlff_fail(error, MLFF_E_ARG, "kernels '%s' are for device cpu; use 'auto' on a GPU", kernels);
    return open_gpu(number, precision, backend, error);
  }
  if (number == DEVICE_AUTO) {
    mlff_backend *gpu = try_gpu(local_rank, kernels, precision, why, sizeof why);
    if (gpu) {
      *backend = gpu;
      return MLFF_OK;
    }
  }
  MLFF_TRY(open_cpu(kernels, precision, backend, error));
  memcpy((*backend)->why, why, sizeof why);
  return MLFF_OK;
}

void mlff_backend_close(mlff_backend *backend)
{
  if (backend) backend->close(backend);
}

mlff_status mlff_edges_bad_position(const mlff_graph *graph, int32_t atom, mlff_error *error)
{
  char name[MLFF_NAME];
  return mlff_fail(error, MLFF_E_NUMERIC,
                   "the position of %s is not finite: the simulation has become unstable; reduce the time step or "
                   "check the starting structure [mlff-43]",
                   mlff_atom_name(graph, atom, name));
}

const char *mlff_backend_overflow(const mlff_backend *backend)
{
  const int has_halves = is(backend->precision, "mixed") && !is(backend->name, "cpu");
  return has_halves ? "; or the network has numbers above 65504, where precision mixed of GPUs ends: try fp32" : "";
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static mlff_status out_of_memory(mlff_backend *backend, size_t wanted, mlff_error *error)
{
  size_t free_bytes = 0, total_bytes = 0;
  if (!backend->ops->memory)
    return mlff_fail(error, MLFF_E_NOMEM,
                     "out of memory: cannot allocate %.1f MB on %s, %.1f MB in use; use fewer atoms per rank",
                     (double) wanted / 1e6, backend->name, (double) backend->memory.bytes / 1e6);
  MLFF_TRY(backend->ops->memory(backend, &free_bytes, &total_bytes, error)); /* the device may have failed */
  const double held = (double) backend->memory.bytes, others = (double) (total_bytes - free_bytes) - held;
  return mlff_fail(error, MLFF_E_NOMEM,
                   "out of memory: cannot allocate %.1f MB on %s, where %.1f of %.1f MB are free, %.1f MB in use by "
                   "this model and %.1f MB by others; use fewer atoms per rank, or a GPU that no other rank or program "
                   "uses (nvidia-smi lists them)",
                   (double) wanted / 1e6, backend->name, (double) free_bytes / 1e6, (double) total_bytes / 1e6,
                   held / 1e6, others > 0.0 ? others / 1e6 : 0.0);
}

mlff_status mlff_buf_reserve(mlff_backend *backend, mlff_buf *buf, size_t bytes, mlff_error *error)
{
  if (bytes == 0) bytes = 1; /* empty arrays have an address */
  if (bytes <= buf->capacity) return MLFF_OK;
  if (backend->forecast) {
    const size_t before = buf->forecast == backend->n_forecasts ? buf->foreseen : buf->capacity;
    if (bytes > before) *backend->forecast += bytes - before;
    buf->foreseen = bytes > before ? bytes : before;
    buf->forecast = backend->n_forecasts;
    return MLFF_OK;
  }
  const size_t wanted = buf->capacity && bytes < SIZE_MAX / 2 ? bytes + bytes / 4 : bytes;
  void *data = backend->ops->alloc(backend, wanted);
  if (!data) return out_of_memory(backend, wanted, error);
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
