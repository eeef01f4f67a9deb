/* cuda_runtime.h: the part of the CUDA runtime that cuda/ uses, for the C++ compiler of the host. Included instead of
 * NVIDIA's header with -DMLFF_CUDASIM=1.
 *
 * A thread of a block is a fiber or, in kernels launched as independent threads, one iteration of a loop. Blocks run
 * one after the other; work on a stream runs immediately. Not simulated: races within a warp, caches, clocks, textures.
 */
#ifndef MLFF_CUDASIM_CUDA_RUNTIME_H
#define MLFF_CUDASIM_CUDA_RUNTIME_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

using std::isfinite;
using std::isnan;

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

/* ---- thread and block indices ---- */

struct cudasim_place {
  dim3 threadIdx, blockIdx, blockDim, gridDim;
};
extern cudasim_place cudasim_here;
#define threadIdx cudasim_here.threadIdx
#define blockIdx cudasim_here.blockIdx
#define blockDim cudasim_here.blockDim
#define gridDim cudasim_here.gridDim
enum { warpSize = 32 };

/* ---- barriers, votes, shuffles; `line`: of the call in the source ---- */

void cudasim_block_barrier(int line);
void cudasim_warp_barrier(unsigned mask, const char *what, int line);
/* Every lane of mask passes 8 bytes and returns those of lane `source`. */
uint64_t cudasim_warp_exchange(unsigned mask, uint64_t bits, int source, const char *what, int line);
unsigned cudasim_warp_vote(unsigned mask, int predicate, const char *what, int line);
int cudasim_lane();
/* grid_dependency_wait of launch.h: every thread must call it. */
void cudasim_grid_dependency_wait();

static inline void __syncthreads(int line = __builtin_LINE())
{
  cudasim_block_barrier(line);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE())
{
  cudasim_warp_barrier(mask, "__syncwarp", line);
}

template <typename T> T cudasim_shuffle(unsigned mask, T value, int source, const char *what, int line)
{
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "shuffles move up to 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = cudasim_warp_exchange(mask, bits, source, what, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T> T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE())
{
  const int base = cudasim_lane() & ~(width - 1);
  return cudasim_shuffle(mask, value, base + (source & (width - 1)), "__shfl_sync", line);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, int line = __builtin_LINE())
{
  const int lane = cudasim_lane(), source = lane ^ lane_mask;
  const int inside = source < (lane & ~(width - 1)) + width;
  return cudasim_shuffle(mask, value, inside ? source : lane, "__shfl_xor_sync", line);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE())
{
  const int lane = cudasim_lane(), source = lane - (int) delta;
  return cudasim_shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source, "__shfl_up_sync", line);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE())
{
  const int lane = cudasim_lane(), source = lane + (int) delta;
  return cudasim_shuffle(mask, value, source >= (lane & ~(width - 1)) + width ? lane : source, "__shfl_down_sync",
                         line);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE())
{
  return cudasim_warp_vote(mask, predicate, "__ballot_sync", line);
}
static inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE())
{
  return cudasim_warp_vote(mask, predicate, "__any_sync", line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE())
{
  return cudasim_warp_vote(mask, predicate, "__all_sync", line) == mask;
}
static inline int __popc(unsigned x)
{
  return __builtin_popcount(x);
}

/* ---- atomics: only one fiber runs at a time, so plain operations are atomic ---- */

static inline void __threadfence() {}

template <typename T> T atomicAdd(T *address, T value)
{
  const T old = *address;
  *address = old + value;
  return old;
}
template <typename T> T atomicMin(T *address, T value)
{
  const T old = *address;
  if (value < old) *address = value;
  return old;
}
template <typename T> T atomicMax(T *address, T value)
{
  const T old = *address;
  if (value > old) *address = value;
  return old;
}
template <typename T> T atomicExch(T *address, T value)
{
  const T old = *address;
  *address = value;
  return old;
}
template <typename T> T atomicCAS(T *address, T compare, T value)
{
  const T old = *address;
  if (old == compare) *address = value;
  return old;
}

/* ---- shared memory; with AddressSanitizer, gaps between arrays and the unused rest are poisoned ---- */

/* Array `key` of the running kernel: the same for all threads of a block, filled with NaN at the start of a block. */
void *cudasim_shared_array(int key, size_t bytes);
void *cudasim_shared_dynamic();
#define CUDASIM_SHARED(type, name, n) type *const name = (type *) cudasim_shared_array(__COUNTER__, (n) * sizeof(type))
#define CUDASIM_SHARED_DYNAMIC(type, name) type *const name = (type *) cudasim_shared_dynamic()

/* ---- the runtime ---- */

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorGraphExecUpdateFailure = 910
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum { cudaEventRecordDefault = 0, cudaEventRecordExternal = 1 };
enum cudaDeviceAttr {
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock;
  int major, minor, multiProcessorCount, pciDomainID, pciBusID, pciDeviceID;
};
struct cudaFuncAttributes {
  int binaryVersion, ptxVersion, numRegs;
};
enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};
typedef struct cudasim_stream *cudaStream_t;
typedef struct cudasim_event *cudaEvent_t;
typedef struct cudasim_graph *cudaGraph_t;
typedef struct cudasim_graph *cudaGraphExec_t;
typedef struct cudasim_node *cudaGraphNode_t;
enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel,
  cudaGraphNodeTypeMemcpy,
  cudaGraphNodeTypeMemset,
  cudaGraphNodeTypeEventRecord = 7
};

const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudasim_malloc(void **data, size_t bytes);
cudaError_t cudasim_malloc_host(void **data, size_t bytes);
template <typename T> cudaError_t cudaMalloc(T **data, size_t bytes)
{
  return cudasim_malloc((void **) data, bytes);
}
template <typename T> cudaError_t cudaMallocHost(T **data, size_t bytes)
{
  return cudasim_malloc_host((void **) data, bytes);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *data);
cudaError_t cudaFree(void *data);
cudaError_t cudaFreeHost(void *data);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *data, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n_nodes);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudasim_attributes(cudaFuncAttributes *attributes);
template <typename F> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, F *)
{
  return cudasim_attributes(attributes);
}

/* Opts a kernel in to more than 48 kB of dynamic shared memory. */
cudaError_t cudasim_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value);
template <typename F> cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute attribute, int value)
{
  return cudasim_set_attribute((const void *) kernel, attribute, value);
}

/* ---- launching ---- */

/* Launch configuration. */
struct cudasim_launch_info {
  const char *name;
  dim3 grid, block;
  size_t shared;
  int independent;    /* no barrier, vote, shuffle or shared memory: threads run as a loop */
  const void *kernel; /* set by cudasim_launch_kernel */
};
cudaError_t cudasim_launch(const cudasim_launch_info &info, cudaStream_t stream, const std::function<void()> &thread,
                           const void *const *arguments, const size_t *sizes, int n_arguments);

/* Checks an argument of a launch: overloads are found in the namespace of its type (atoms_check.h). */
template <typename T> static inline void cudasim_check_argument(const T &) {}

/* kernel<<<grid, block, shared, stream>>>(arguments ...) */
template <typename... P, typename... A>
cudaError_t cudasim_launch_kernel(cudasim_launch_info info, cudaStream_t stream, void (*kernel)(P...), A... a)
{
  info.kernel = (const void *) kernel;
  (cudasim_check_argument(a), ...);
  const void *arguments[] = {&a..., nullptr};
  const size_t sizes[] = {sizeof(a)..., 0};
  return cudasim_launch(
      info, stream, [=] { kernel(a...); }, arguments, sizes, (int) sizeof...(A));
}

#include "cudasim.h"

#endif
