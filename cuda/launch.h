/* launch.h: kernel launches, grid dependency wait and shared memory, for GPUs and for the simulator tests/cudasim.
 *
 *   MLFF_LAUNCH(backend, kernel, grid, block, shared_bytes, arguments ...)
 *   MLFF_LAUNCH_INDEPENDENT(backend, kernel, grid, block, arguments ...)   kernel without barrier, vote, shuffle and
 *                                                                          shared memory
 *   grid_dependency_wait()               in every thread of a kernel, once
 *   MLFF_SHARED(type, name, n)           __shared__ type name[n]
 *   MLFF_SHARED_DYNAMIC(type, name)      the shared_bytes of the launch
 *
 * A launch does nothing for a grid of 0 blocks or after a failure of the backend. It stores errors in the backend; the
 * next op that returns a status returns them. The hash of a step includes the arguments (replay.cpp), so argument
 * structures must not have padding; tests/lint checks it.
 */
#ifndef MLFF_CUDA_LAUNCH_H
#define MLFF_CUDA_LAUNCH_H

#include "backend_cuda.h"

#if MLFF_CUDASIM
#define MLFF_SHARED(type, name, n) CUDASIM_SHARED(type, name, n)
#define MLFF_SHARED_DYNAMIC(type, name) CUDASIM_SHARED_DYNAMIC(type, name)
#else
#define MLFF_SHARED(type, name, n) __shared__ type name[n]
#define MLFF_SHARED_DYNAMIC(type, name)                \
  extern __shared__ __align__(32) char name##_bytes[]; \
  type *const name = (type *) name##_bytes
#endif

/* Grid dependency wait: returns when the preceding kernel in the stream has completed, then lets the next kernel start,
 * which waits here in turn. Every thread of every kernel calls it once, also one without work: otherwise the next
 * kernel could complete while the preceding one still runs. Code above the call may run early
 * (mlff_cuda_is_dependent_launch). It may only touch shared memory and what no kernel of a step writes: arguments,
 * tables and weights. Kernels that write those run outside of steps, and the first kernel of a step begins with this
 * call. */
static __device__ __forceinline__ void grid_dependency_wait()
{
#if MLFF_CUDASIM
  cudasim_grid_dependency_wait();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Whether to use programmatic dependent launch: in a step, for small grids. The blocks of a large grid would crowd on
 * the multiprocessors that become free first. */
enum { PDL_BLOCKS_PER_SM = 2 };
static inline bool mlff_cuda_is_dependent_launch(const mlff_cuda_backend *cuda, dim3 grid)
{
  const int64_t max_blocks = (int64_t) PDL_BLOCKS_PER_SM * cuda->n_multiprocessors;
  return cuda->has_dependent_launch && cuda->in_step && (int64_t) grid.x * grid.y * grid.z <= max_blocks;
}

/* Number of blocks for n items. The limit of 2^31 - 1 blocks exceeds the memory of any device. */
static inline unsigned mlff_cuda_blocks(int64_t n, int per_block)
{
  return (unsigned) ((n + per_block - 1) / per_block);
}

template <typename... P, typename... A>
static cudaError_t mlff_cuda_start(const char *name, int independent, bool is_dependent, void (*kernel)(P...),
                                   dim3 grid, dim3 block, size_t shared, cudaStream_t stream, A... arguments)
{
#if MLFF_CUDASIM
  (void) is_dependent; /* the simulator runs one kernel at a time */
  const cudasim_launch_info info = {name, grid, block, shared, independent, NULL};
  return cudasim_launch_kernel(info, stream, kernel, arguments...);
#else
  (void) name;
  (void) independent;
  cudaLaunchAttribute dependent = {};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &dependent;
  config.numAttrs = is_dependent;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error != cudaSuccess) cudaGetLastError(); /* clear: the next call would report it again */
  return error;
#endif
}

template <typename... P, typename... A>
static void mlff_cuda_launch(mlff_backend *backend, const char *name, int independent, void (*kernel)(P...), dim3 grid,
                             dim3 block, size_t shared, A... arguments)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (cuda->queue.n) cuda->queue.start(backend);
  if (!mlff_cuda_enqueues(cuda) || grid.x == 0 || grid.y == 0) return;
  const unsigned shape[] = {grid.x, grid.y, grid.z, block.x, (unsigned) shared};
  mlff_cuda_hash(cuda, shape, sizeof shape);
  mlff_cuda_hash(cuda, (const void *) &kernel, sizeof kernel);
  (mlff_cuda_hash(cuda, &arguments, sizeof arguments), ...);
  const bool is_dependent = mlff_cuda_is_dependent_launch(cuda, grid);
  const cudaError_t error =
      mlff_cuda_start(name, independent, is_dependent, kernel, grid, block, shared, cuda->stream, arguments...);
  if (error != cudaSuccess) mlff_cuda_remember(cuda, error, name);
}

/* Opts the kernels in to all shared memory of a block. *max_bytes: its bytes; 0 after a failure. */
template <typename... K>
static cudaError_t mlff_cuda_opt_in_shared(mlff_cuda_backend *cuda, int *max_bytes, K... kernels)
{
  const cudaFuncAttribute attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  cudaError_t failed = cudaDeviceGetAttribute(max_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->device);
  ((failed = failed == cudaSuccess ? cudaFuncSetAttribute(kernels, attribute, *max_bytes) : failed), ...);
  if (failed != cudaSuccess) *max_bytes = 0;
  return failed;
}

#define MLFF_LAUNCH(backend, kernel, grid, block, shared, ...) \
  mlff_cuda_launch(backend, #kernel, 0, kernel, grid, block, shared, __VA_ARGS__)
#define MLFF_LAUNCH_INDEPENDENT(backend, kernel, grid, block, ...) \
  mlff_cuda_launch(backend, #kernel, 1, kernel, grid, block, 0, __VA_ARGS__)

#endif
