/* check.cpp: lists the GPUs for `mlff check`, tests whether this build can use them, and measures copies and
 * launches. */
#include "backend_cuda.h"

#include <chrono>
#include <cmath>
#include <cstring>

extern "C" void mlff_cuda_read_platform(mlff_platform *platform)
{
  platform->has_cuda = 1;
  platform->gpu_code = MLFF_CUDA_CODE;
  if (cudaDriverGetVersion(&platform->driver) != cudaSuccess) platform->driver = 0;
  if (cudaRuntimeGetVersion(&platform->runtime) != cudaSuccess) platform->runtime = 0;
  cudaGetLastError();
  platform->n_devices = mlff_cuda_n_devices(platform->why, sizeof platform->why);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

namespace {

/* State of the measurements. After a failure, which is stored, all calls do nothing. */
struct bench {
  cudaStream_t stream = NULL;
  cudaEvent_t begin = NULL, end = NULL;
  char *host = NULL, *src = NULL, *dst = NULL;
  cudaError_t failed = cudaSuccess;

  void keep(cudaError_t error)
  {
    if (failed == cudaSuccess) failed = error;
  }
  /* Seconds on the device of the work enqueued by `work`, best of n_rounds; NaN after a failure. */
  template <typename F> double seconds(int n_rounds, F work)
  {
    float best = INFINITY;
    for (int round = 0; round < n_rounds && failed == cudaSuccess; round++) {
      float ms = NAN;
      keep(cudaEventRecord(begin, stream));
      work();
      keep(cudaEventRecord(end, stream));
      keep(cudaEventSynchronize(end));
      if (failed == cudaSuccess) keep(cudaEventElapsedTime(&ms, begin, end));
      if (ms < best) best = ms;
    }
    return failed == cudaSuccess ? 1e-3 * (double) best : NAN;
  }
  ~bench()
  {
    if (host) cudaFreeHost(host);
    if (src) cudaFree(src);
    if (dst) cudaFree(dst);
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    if (stream) cudaStreamDestroy(stream);
    cudaGetLastError();
  }
};

} // namespace

#if MLFF_CUDASIM
enum { HOST_BYTES = 1 << 20, DEVICE_BYTES = 1 << 20, N_LAUNCHES = 10, N_NODES = 10, N_ROUNDS = 2 };
#else
enum { HOST_BYTES = 32 << 20, DEVICE_BYTES = 128 << 20, N_LAUNCHES = 1000, N_NODES = 100, N_ROUNDS = 5 };
#endif

static void measure_copies(bench &b, mlff_device *device)
{
  b.keep(cudaMallocHost(&b.host, HOST_BYTES));
  b.keep(cudaMalloc(&b.src, DEVICE_BYTES));
  b.keep(cudaMalloc(&b.dst, DEVICE_BYTES));
  if (b.failed != cudaSuccess) return;
  b.keep(cudaMemsetAsync(b.src, 0, DEVICE_BYTES, b.stream));
  const double up = b.seconds(N_ROUNDS, [&] {
    b.keep(cudaMemcpyAsync(b.src, b.host, HOST_BYTES, cudaMemcpyHostToDevice, b.stream));
  });
  const double down = b.seconds(N_ROUNDS, [&] {
    b.keep(cudaMemcpyAsync(b.host, b.src, HOST_BYTES, cudaMemcpyDeviceToHost, b.stream));
  });
  const double copy = b.seconds(N_ROUNDS, [&] {
    b.keep(cudaMemcpyAsync(b.dst, b.src, DEVICE_BYTES, cudaMemcpyDeviceToDevice, b.stream));
  });
  device->up_gbs = 1e-9 * HOST_BYTES / up;
  device->down_gbs = 1e-9 * HOST_BYTES / down;
  device->copy_gbs = 2e-9 * DEVICE_BYTES / copy; /* read and written */
}

static double measure_round_trip(bench &b)
{
  using clock = std::chrono::steady_clock;
  const clock::time_point begin = clock::now();
  for (int k = 0; k < N_LAUNCHES; k++) {
    b.keep(mlff_cuda_launch_empty_f32(b.stream));
    b.keep(cudaStreamSynchronize(b.stream));
  }
  return 1e6 * std::chrono::duration<double>(clock::now() - begin).count() / N_LAUNCHES;
}

static double measure_graph(bench &b)
{
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  double seconds = NAN;
  if (b.failed != cudaSuccess) return NAN; /* a capture must be ended */
  b.keep(cudaStreamBeginCapture(b.stream, cudaStreamCaptureModeThreadLocal));
  if (b.failed != cudaSuccess) return NAN;
  for (int k = 0; k < N_NODES; k++) b.keep(mlff_cuda_launch_empty_f32(b.stream));
  b.keep(cudaStreamEndCapture(b.stream, &graph));
  if (graph) b.keep(cudaGraphInstantiate(&exec, graph, 0));
  if (b.failed == cudaSuccess) seconds = b.seconds(N_ROUNDS, [&] { b.keep(cudaGraphLaunch(exec, b.stream)); });
  if (exec) cudaGraphExecDestroy(exec);
  if (graph) cudaGraphDestroy(graph);
  return 1e6 * seconds / N_NODES;
}

static cudaError_t measure(mlff_device *device)
{
  bench b;
  b.keep(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
  b.keep(cudaEventCreate(&b.begin));
  b.keep(cudaEventCreate(&b.end));
  if (b.failed != cudaSuccess) return b.failed;
  measure_copies(b, device);
  device->launch_us = 1e6 / N_LAUNCHES * b.seconds(N_ROUNDS, [&] {
    for (int k = 0; k < N_LAUNCHES; k++) b.keep(mlff_cuda_launch_empty_f32(b.stream));
  });
  device->round_trip_us = measure_round_trip(b);
  device->node_us = measure_graph(b);
  return b.failed;
}

/* ---- a device ---------------------------------------------------------------------------------------------------- */

extern "C" mlff_status mlff_cuda_read_device(int number, int with_times, mlff_device *device, mlff_error *error)
{
  char kernels[16], id[24];
  mlff_error why = {MLFF_OK, ""};
  cudaDeviceProp prop;
  int khz = 0, memory_khz = 0;
  cudaError_t failed = cudaGetDeviceProperties(&prop, number);
  if (failed != cudaSuccess) {
    cudaGetLastError();
    return mlff_fail(error, MLFF_E_DEVICE, "could not read the properties of cuda:%d: %s (%s)", number,
                     cudaGetErrorString(failed), cudaGetErrorName(failed));
  }
  snprintf(device->name, sizeof device->name, "%s", prop.name);
  device->major = prop.major;
  device->minor = prop.minor;
  device->n_multiprocessors = prop.multiProcessorCount;
  device->total_bytes = prop.totalGlobalMem;
  if (cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, number) == cudaSuccess) device->clock_mhz = 1e-3 * khz;
  if (cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, number) == cudaSuccess)
    device->memory_clock_mhz = 1e-3 * memory_khz;
  device->can_run = mlff_cuda_check_device(number, kernels, id, &why) == MLFF_OK;
  if (device->can_run) {
    failed = cudaMemGetInfo(&device->free_bytes, &device->total_bytes);
    if (failed == cudaSuccess && with_times) failed = measure(device);
    if (failed != cudaSuccess)
      mlff_fail(&why, MLFF_E_DEVICE, "cuda:%d failed or is out of memory: %s (%s)", number, cudaGetErrorString(failed),
                cudaGetErrorName(failed));
    device->can_run = failed == cudaSuccess;
  }
  cudaGetLastError();
  snprintf(device->why, sizeof device->why, "%.*s", (int) sizeof device->why - 1, why.text);
  return MLFF_OK;
}
