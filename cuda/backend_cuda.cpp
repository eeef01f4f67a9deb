/* backend_cuda.cpp: opens a device; memory, copies and failures. Without kernels, so compiled by the C++ compiler.
 * Twin: src/mlff/backend/cpu/backend_cpu.c. */
#include "backend_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

/* ---- failures ---------------------------------------------------------------------------------------------------- */

void mlff_cuda_remember(mlff_cuda_backend *cuda, cudaError_t error, const char *what)
{
  if (cuda->failure.code) return;
  if (cuda->replay.mode == MLFF_CUDA_CAPTURING && mlff_cuda_is_capture_error(error)) {
    cuda->replay.problem = error;
    cuda->replay.problem_in = what;
    return;
  }
  mlff_fail(&cuda->failure, MLFF_E_DEVICE,
            "GPU %d failed in %s: %s (%s). Restart from the last restart file; if it fails again, check the system log "
            "(dmesg) for 'Xid' errors and use 'device cpu'",
            cuda->device, what, cudaGetErrorString(error), cudaGetErrorName(error));
}

mlff_status mlff_cuda_status(mlff_cuda_backend *cuda, mlff_error *error)
{
  if (!cuda->failure.code) return MLFF_OK;
  if (error) *error = cuda->failure;
  return cuda->failure.code;
}

mlff_status mlff_cuda_check(mlff_cuda_backend *cuda, cudaError_t call, const char *what, mlff_error *error)
{
  if (call != cudaSuccess) {
    mlff_cuda_remember(cuda, call, what);
    cudaGetLastError(); /* clear: the next launch would report it again */
  }
  return mlff_cuda_status(cuda, error);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *alloc_cuda(mlff_backend *backend, size_t bytes)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  void *data = NULL;
  cudaSetDevice(cuda->device);
  const cudaError_t error = cudaMalloc(&data, bytes);
  mlff_cuda_drop_capture(cuda); /* the captured step has the old addresses */
  if (error == cudaSuccess) return data;
  cudaGetLastError();
  if (error != cudaErrorMemoryAllocation) mlff_cuda_remember(cuda, error, "cudaMalloc");
  return NULL;
}

void release_cuda(mlff_backend *backend, void *data)
{
  cudaSetDevice(mlff_cuda_of(backend)->device);
  if (data && cudaFree(data) != cudaSuccess) cudaGetLastError(); /* memory of a lost device is lost, too */
}

mlff_status memory_cuda(mlff_backend *backend, size_t *free_bytes, size_t *total_bytes, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  MLFF_TRY(mlff_cuda_status(cuda, error));
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  return mlff_cuda_check(cuda, cudaMemGetInfo(free_bytes, total_bytes), "cudaMemGetInfo", error);
}

static mlff_status enqueue_copy(mlff_cuda_backend *cuda, void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                                const char *what, mlff_error *error)
{
  MLFF_TRY(mlff_cuda_status(cuda, error));
  if (!bytes || cuda->base.forecast) return MLFF_OK;
  return mlff_cuda_check(cuda, cudaMemcpyAsync(dst, src, bytes, kind, cuda->stream), what, error);
}

mlff_status mlff_cuda_upload(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error)
{
  return enqueue_copy(mlff_cuda_of(backend), dst, src, bytes, cudaMemcpyHostToDevice, "an upload", error);
}

mlff_status mlff_cuda_copy(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error)
{
  return enqueue_copy(mlff_cuda_of(backend), dst, src, bytes, cudaMemcpyDeviceToDevice, "a copy", error);
}

mlff_status mlff_cuda_pin(mlff_backend *backend, mlff_cuda_pinned *pinned, size_t bytes, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (bytes <= pinned->bytes) return MLFF_OK;
  MLFF_TRY(mlff_cuda_status(cuda, error));
  const size_t room = pinned->bytes ? bytes + bytes / 4 : bytes;
  char *data = NULL;
  mlff_cuda_drop_capture(cuda);
  const cudaError_t failed = cudaMallocHost(&data, room);
  if (failed == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return mlff_fail(error, MLFF_E_NOMEM,
                     "could not allocate %.1f MB of pinned host memory: use fewer atoms per rank or more nodes",
                     (double) room / 1e6);
  }
  MLFF_TRY(mlff_cuda_check(cuda, failed, "cudaMallocHost", error));
  if (pinned->data) cudaFreeHost(pinned->data);
  pinned->data = data;
  pinned->bytes = room;
  backend->memory.n_growths++;
  return MLFF_OK;
}

/* Slots move only when results grow. Captured steps are safe: a plain step with the same slots precedes a capture. */
mlff_status mlff_cuda_result_slot(mlff_backend *backend, size_t bytes, char **slot, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  *slot = NULL;
  MLFF_TRY(mlff_cuda_status(cuda, error));
  if (!bytes || backend->forecast) return MLFF_OK;
  if (!cuda->in_step) cuda->results_used = 0;
  const size_t end = cuda->results_used + (bytes + 63) / 64 * 64;
  MLFF_TRY(mlff_cuda_pin(backend, &cuda->results, end, error));
  *slot = cuda->results.data + cuda->results_used;
  cuda->results_used = end;
  return MLFF_OK;
}

mlff_status mlff_cuda_download(mlff_cuda_backend *cuda, void *dst, const void *src, size_t bytes, mlff_error *error)
{
  const void *const what[] = {dst, src, (const void *) bytes};
  mlff_cuda_hash(cuda, what, sizeof what);
  return enqueue_copy(cuda, dst, src, bytes, cudaMemcpyDeviceToHost, "a download", error);
}

mlff_status mlff_cuda_wait(mlff_cuda_backend *cuda, mlff_error *error)
{
  return mlff_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "waiting for results", error);
}

mlff_status mlff_cuda_wait_results(mlff_backend *backend, bool *are_ready, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  *are_ready = false;
  MLFF_TRY(mlff_cuda_status(cuda, error));
  if (backend->forecast || cuda->replay.mode == MLFF_CUDA_CAPTURING) return MLFF_OK;
  if (cuda->replay.mode == MLFF_CUDA_REPLAYING && cuda->replay.next < cuda->replay.n_parts)
    return mlff_cuda_check(cuda, cudaErrorInvalidValue, "a captured step: more exchanges than the step", error);
  if (cuda->replay.mode == MLFF_CUDA_PLAIN || cuda->replay.in_flight) MLFF_TRY(mlff_cuda_wait(cuda, error));
  cuda->replay.in_flight = 0;
  *are_ready = true;
  return MLFF_OK;
}

/* *slot: a copy of src on the host; NULL in a forecast and in a capture. */
static mlff_status download_to_slot(mlff_backend *backend, const void *src, size_t bytes, char **slot,
                                    mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  bool are_ready = false;
  MLFF_TRY(mlff_cuda_result_slot(backend, bytes, slot, error));
  if (!*slot) return MLFF_OK;
  if (cuda->replay.mode != MLFF_CUDA_REPLAYING) MLFF_TRY(mlff_cuda_download(cuda, *slot, src, bytes, error));
  MLFF_TRY(mlff_cuda_wait_results(backend, &are_ready, error));
  if (!are_ready) *slot = NULL;
  return MLFF_OK;
}

mlff_status download_cuda(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error)
{
  char *slot = NULL;
  MLFF_TRY(download_to_slot(backend, src, bytes, &slot, error));
  if (slot) memcpy(dst, slot, bytes);
  return MLFF_OK;
}

/* Blocking: the caller may change or free the source afterwards. */
mlff_status upload_cuda(mlff_backend *backend, void *dst, const void *src, size_t bytes, mlff_error *error)
{
  MLFF_TRY(mlff_cuda_upload(backend, dst, src, bytes, error));
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  return mlff_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "an upload", error);
}

void zero_cuda(mlff_backend *backend, void *data, size_t bytes)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (!bytes || !mlff_cuda_enqueues(cuda)) return;
  const void *const what[] = {data, (const void *) bytes};
  mlff_cuda_hash(cuda, what, sizeof what);
  mlff_cuda_check(cuda, cudaMemsetAsync(data, 0, bytes, cuda->stream), "cudaMemsetAsync", NULL);
}

mlff_status upload_reals_cuda(mlff_backend *backend, void *dst, const double *src, int64_t n, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (backend->real_size == sizeof(double)) return upload_cuda(backend, dst, src, (size_t) n * sizeof(double), error);
  const int64_t max_reals = MLFF_CUDA_STAGING / sizeof(float);
  float *staging = (float *) (void *) cuda->staging;
  for (int64_t k = 0; k < n; k += max_reals) {
    const int64_t part = n - k < max_reals ? n - k : max_reals;
    for (int64_t q = 0; q < part; q++) staging[q] = (float) src[k + q];
    MLFF_TRY(upload_cuda(backend, (float *) dst + k, staging, (size_t) part * sizeof(float), error));
  }
  return mlff_cuda_status(cuda, error);
}

mlff_status download_reals_cuda(mlff_backend *backend, double *dst, const void *src, int64_t n, mlff_error *error)
{
  if (backend->real_size == sizeof(double)) return download_cuda(backend, dst, src, (size_t) n * sizeof(double), error);
  char *slot = NULL;
  MLFF_TRY(download_to_slot(backend, src, (size_t) n * sizeof(float), &slot, error));
  const float *reals = (const float *) (const void *) slot;
  for (int64_t k = 0; slot && k < n; k++) dst[k] = (double) reals[k];
  return MLFF_OK;
}

/* ---- graphs on the device ---------------------------------------------------------------------------------------- */

/* Checks that array [n] is in the memory of this GPU. Managed memory, which Kokkos may use, is accepted. */
static mlff_status owns_array(mlff_cuda_backend *cuda, const char *name, const void *array, int64_t n,
                              mlff_error *error)
{
  cudaPointerAttributes found = {};
  if (n == 0) return MLFF_OK;
  if (!array) return mlff_fail(error, MLFF_E_ARG, "graph.%s is NULL", name);
  const cudaError_t failed = cudaPointerGetAttributes(&found, array);
  if (failed != cudaErrorInvalidValue)
    MLFF_TRY(mlff_cuda_check(cuda, failed, "cudaPointerGetAttributes", error));
  else
    cudaGetLastError(); /* some drivers return this for host memory */
  if (found.type == cudaMemoryTypeManaged) return MLFF_OK;
  if (failed != cudaSuccess || found.type != cudaMemoryTypeDevice)
    return mlff_fail(error, MLFF_E_ARG,
                     "graph.%s is not in the memory of a GPU, but graph.on_device is set: pass arrays of GPU %d, or "
                     "host arrays without on_device",
                     name, cuda->device);
  if (found.device == cuda->device) return MLFF_OK;
  return mlff_fail(error, MLFF_E_ARG,
                   "graph.%s is in the memory of GPU %d, but the model uses GPU %d: open the model with device cuda:%d",
                   name, found.device, cuda->device, found.device);
}

mlff_status owns_graph_cuda(mlff_backend *backend, const mlff_graph *graph, int is_new, mlff_error *error)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  MLFF_TRY(mlff_cuda_check(cuda, cudaSetDevice(cuda->device), "cudaSetDevice", error));
  MLFF_TRY(owns_array(cuda, "pos", graph->pos, graph->n_all, error));
  if (!is_new) return MLFF_OK;
  MLFF_TRY(owns_array(cuda, "row", graph->row, graph->n_local + 1, error));
  MLFF_TRY(owns_array(cuda, "nbr", graph->nbr, graph->n_pairs, error));
  MLFF_TRY(owns_array(cuda, "node", graph->node, graph->n_all, error));
  return owns_array(cuda, "species", graph->species, graph->n_all, error);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

extern "C" int mlff_cuda_n_devices(char *why, size_t why_size)
{
  int n = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&n);
  if (error == cudaSuccess && n > 0) return n;
  cudaGetLastError();
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (error == cudaErrorInsufficientDriver && driver > 0)
    snprintf(why, why_size, "the NVIDIA driver supports CUDA %d.%d, this build needs CUDA %d.%d: update the driver",
             driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  else if (error == cudaErrorInsufficientDriver)
    snprintf(why, why_size, "no NVIDIA driver is installed");
  else
    snprintf(why, why_size, "no NVIDIA GPU is visible (%s)", cudaGetErrorString(error));
  return 0;
}

static void close_cuda(mlff_backend *backend)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  cudaSetDevice(cuda->device);
  mlff_buf_release(backend, &cuda->force_sums);
  mlff_buf_release(backend, &cuda->sums);
  mlff_buf_release(backend, &cuda->device_forces);
  mlff_buf_release(backend, &cuda->candidates);
  mlff_buf_release(backend, &cuda->sent);
  mlff_buf_release(backend, &cuda->packed);
  if (cuda->summary) cudaFreeHost(cuda->summary);
  mlff_cuda_drop_capture(cuda);
  mlff_cuda_timing_close(cuda);
  if (cuda->positions.data) cudaFreeHost(cuda->positions.data);
  if (cuda->results.data) cudaFreeHost(cuda->results.data);
  if (cuda->rows.data) cudaFreeHost(cuda->rows.data);
  if (cuda->staging) cudaFreeHost(cuda->staging);
  if (cuda->rows_ready) cudaEventDestroy(cuda->rows_ready);
  if (cuda->stream) cudaStreamDestroy(cuda->stream);
  cudaGetLastError();
  free(cuda);
}

/* kernels [16] and id [24]: as in mlff_backend. */
mlff_status mlff_cuda_check_device(int device, char *kernels, char *id, mlff_error *error)
{
  char why[200] = "";
  const int n = mlff_cuda_n_devices(why, sizeof why);
  if (n == 0) return mlff_fail(error, MLFF_E_DEVICE, "device cuda: %s; use 'device cpu'", why);
  if (device < 0 || device >= n)
    return mlff_fail(error, MLFF_E_DEVICE,
                     "device cuda:%d does not exist: this machine has %d GPU%s, use cuda:0 to cuda:%d", device, n,
                     n == 1 ? "" : "s", n - 1);
  cudaDeviceProp prop;
  cudaError_t failed = cudaSetDevice(device);
  if (failed == cudaSuccess) failed = cudaGetDeviceProperties(&prop, device);
  if (failed == cudaSuccess) {
    failed = mlff_cuda_probe_f32(NULL);
    if (failed == cudaErrorNoKernelImageForDevice || failed == cudaErrorInvalidDeviceFunction ||
        failed == cudaErrorUnsupportedPtxVersion) {
      cudaGetLastError();
      return mlff_fail(error, MLFF_E_UNSUPPORTED,
                       "this build has no code for device cuda:%d, a %s (sm_%d%d; %s): rebuild with "
                       "-DMLFF_CUDA_ARCHITECTURES=%d%d, or use 'device cpu'",
                       device, prop.name, prop.major, prop.minor, cudaGetErrorName(failed), prop.major, prop.minor);
    }
  }
  cudaGetLastError();
  if (failed != cudaSuccess)
    return mlff_fail(error, MLFF_E_DEVICE, "device cuda:%d failed: %s (%s); use another GPU or 'device cpu'", device,
                     cudaGetErrorString(failed), cudaGetErrorName(failed));
  snprintf(kernels, sizeof((mlff_backend *) 0)->kernels_text, "sm_%d%d", prop.major, prop.minor);
  snprintf(id, sizeof((mlff_backend *) 0)->device_id, "%04x:%02x:%02x", (unsigned) prop.pciDomainID,
           (unsigned) prop.pciBusID, (unsigned) prop.pciDeviceID);
  return MLFF_OK;
}

static void fill_ops(mlff_ops *ops, const char *precision)
{
#define OP(...)
#define OP_HOST(name, returns, parameters, arguments, span, forecast, bodies) ops->name = name##_cuda;
#include "../src/mlff/backend/op_list.h"
  mlff_cuda_replay_ops(&ops->replay);
  mlff_cuda_timing_ops(&ops->timing);
  if (strcmp(precision, "fp64") == 0)
    mlff_cuda_ops_f64(ops);
  else
    mlff_cuda_ops_f32(ops);
  if (strcmp(precision, "mixed") == 0) mlff_cuda_ops_mixed(ops);
}

/* Whether programmatic dependent launch works, also in CUDA graphs. Code that the driver compiles from PTX of an older
 * architecture has no grid dependency wait. */
static bool has_dependent_launch(void)
{
  enum { ARCHITECTURE = 90, IN_GRAPHS = 12030 };
  int architecture = 0, driver = 0, runtime = 0;
  cudaError_t failed = mlff_cuda_probe_f32(&architecture);
  if (failed == cudaSuccess) failed = cudaDriverGetVersion(&driver);
  if (failed == cudaSuccess) failed = cudaRuntimeGetVersion(&runtime);
  return failed == cudaSuccess && architecture >= ARCHITECTURE && driver >= IN_GRAPHS && runtime >= IN_GRAPHS;
}

extern "C" mlff_status mlff_cuda_open(int device, const char *precision, mlff_backend **backend, mlff_error *error)
{
  const bool is_double = strcmp(precision, "fp64") == 0;
  char kernels[sizeof((mlff_backend *) 0)->kernels_text], id[sizeof((mlff_backend *) 0)->device_id];
  MLFF_TRY(mlff_cuda_check_device(device, kernels, id, error));
  mlff_cuda_backend *cuda = (mlff_cuda_backend *) calloc(1, sizeof *cuda);
  if (!cuda) return mlff_fail(error, MLFF_E_NOMEM, "out of memory: state of a GPU");
  memcpy(cuda->base.kernels_text, kernels, sizeof kernels);
  memcpy(cuda->base.device_id, id, sizeof id);
  cuda->base.number = device;
  cuda->base.name = is_double ? "cuda64" : "cuda";
  cuda->base.kernels = cuda->base.kernels_text;
  cuda->base.precision = precision;
  cuda->base.real_size = is_double ? sizeof(double) : sizeof(float);
  cuda->base.ops = &cuda->ops;
  cuda->base.close = close_cuda;
  cuda->device = device;
  cuda->has_dependent_launch = has_dependent_launch();
  fill_ops(&cuda->ops, precision);
  cudaError_t failed = cudaDeviceGetAttribute(&cuda->n_multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (failed == cudaSuccess) failed = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
  if (failed == cudaSuccess) failed = cudaMallocHost(&cuda->summary, sizeof *cuda->summary);
  if (failed == cudaSuccess) failed = cudaMallocHost(&cuda->staging, MLFF_CUDA_STAGING);
  if (failed != cudaSuccess) {
    close_cuda(&cuda->base);
    if (failed == cudaErrorMemoryAllocation)
      return mlff_fail(
          error, MLFF_E_NOMEM,
          "device cuda:%d is out of memory: other programs use it, see nvidia-smi. Use another GPU or 'device cpu'",
          device);
    return mlff_fail(error, MLFF_E_DEVICE, "device cuda:%d failed: %s (%s); use another GPU or 'device cpu'", device,
                     cudaGetErrorString(failed), cudaGetErrorName(failed));
  }
  *backend = &cuda->base;
  return MLFF_OK;
}
