/* kernels.cu: small kernels for test_cudasim.cpp that use each feature of the simulator, correctly and incorrectly. */
#include "kernels.h"

#include "launch.h"

#include <cuda_pipeline_primitives.h>

/* y[k] = 2 x[k] */
__global__ void twice_kernel(const float *x, float *y, int n)
{
  grid_dependency_wait();
  const int k = (int) (blockIdx.x * blockDim.x + threadIdx.x);
  if (k < n) y[k] = 2 * x[k];
}

/* y[block] = sum of x over the block, as a tree in shared memory. */
__global__ void tree_sum_kernel(const float *x, float *y)
{
  grid_dependency_wait();
  MLFF_SHARED(float, sums, 96);
  const int t = (int) threadIdx.x;
  sums[t] = x[blockIdx.x * 96 + threadIdx.x];
  for (int n = 48; n >= 3; n /= 2) {
    __syncthreads();
    if (t < n) sums[t] += sums[t + n];
  }
  __syncthreads();
  if (t == 0) y[blockIdx.x] = sums[0] + sums[1] + sums[2];
}

/* sum[t] = sum of all lanes of the warp; the results of up, down and indexed shuffles and of votes. */
__global__ void shuffle_kernel(int *sum, int *up, int *down, int *from3, unsigned *votes)
{
  grid_dependency_wait();
  const int t = (int) threadIdx.x, lane = t % 32;
  int x = t;
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  sum[t] = x;
  up[t] = __shfl_up_sync(0xffffffffu, t, 2);
  down[t] = __shfl_down_sync(0xffffffffu, t, 3, 8);
  from3[t] = __shfl_sync(0xffffffffu, t, 3, 16);
  votes[t] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  if (lane < 20) votes[t] += __popc(__ballot_sync(0x000fffffu, lane > 4));
}

/* counter = sum of the thread indices; order = blocks in the order of execution. */
__global__ void atomic_kernel(int *counter, int *least, int *order)
{
  grid_dependency_wait();
  atomicAdd(counter, (int) threadIdx.x);
  atomicMin(least, 100 - (int) threadIdx.x);
  if (threadIdx.x == 0) order[atomicAdd(order, 1) + 1] = (int) blockIdx.x;
}

/* order = number of warps, then their indices in the order of execution. */
__global__ void warp_order_kernel(int *order)
{
  grid_dependency_wait();
  if (threadIdx.x % 32 == 0) order[atomicAdd(order, 1) + 1] = (int) threadIdx.x / 32;
}

/* A missing barrier: correct only if lower lanes run first. */
__global__ void missing_barrier_kernel(int *y)
{
  grid_dependency_wait();
  MLFF_SHARED(int, given, 32);
  given[threadIdx.x] = (int) threadIdx.x;
  y[threadIdx.x] = given[threadIdx.x ? threadIdx.x - 1 : 0];
}

/* Dynamic shared memory, reversed within the block. */
__global__ void reverse_kernel(const float *x, float *y)
{
  grid_dependency_wait();
  MLFF_SHARED_DYNAMIC(float, all);
  const int t = (int) threadIdx.x, n = (int) blockDim.x;
  all[t] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = all[n - 1 - t];
}

/* y[t] = uninitialized shared memory. */
__global__ void fresh_shared_kernel(float *y)
{
  grid_dependency_wait();
  MLFF_SHARED(float, fresh, 32);
  y[threadIdx.x] = fresh[threadIdx.x];
  __syncthreads();
  fresh[threadIdx.x] = 1;
}

/* Shared memory during two groups of copies, x[t] and x[32 + t]: y [4][32] = the first one before any wait, both after
 * the wait for the first, the second after the wait for it. */
__global__ void async_copy_kernel(const float *x, float *y)
{
  grid_dependency_wait();
  MLFF_SHARED(float, copy, 64);
  const int t = (int) threadIdx.x;
  for (int group = 0; group < 2; group++) {
    __pipeline_memcpy_async(copy + 32 * group + t, x + 32 * group + t, sizeof *x);
    __pipeline_commit();
  }
  y[t] = copy[t];
  __pipeline_wait_prior(1);
  y[32 + t] = copy[t];
  y[64 + t] = copy[32 + t];
  __pipeline_wait_prior(0);
  y[96 + t] = copy[32 + t];
}

/* ---- incorrect kernels ---- */

__global__ void divergent_block_kernel(float *y)
{
  grid_dependency_wait();
  if (threadIdx.x < 16) __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void divergent_lines_kernel(float *y)
{
  grid_dependency_wait();
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void divergent_warp_kernel(int *y)
{
  grid_dependency_wait();
  if (threadIdx.x == 7) return;
  y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

__global__ void wrong_mask_kernel(int *y)
{
  grid_dependency_wait();
  y[threadIdx.x] = (int) __ballot_sync(0x0000ffffu, 1);
}

/* A thread ends without grid_dependency_wait. */
__global__ void early_end_kernel(float *y)
{
  if (threadIdx.x == 7) return;
  grid_dependency_wait();
  y[threadIdx.x] = 1;
}

__global__ void shared_overrun_kernel(float *y, int offset)
{
  grid_dependency_wait();
  MLFF_SHARED(float, first, 32);
  MLFF_SHARED(float, second, 32);
  first[threadIdx.x] = second[threadIdx.x] = 0;
  __syncthreads();
  y[threadIdx.x] = first[offset + (int) threadIdx.x];
}

void launch_twice(mlff_backend *b, const float *x, float *y, int n)
{
  MLFF_LAUNCH_INDEPENDENT(b, twice_kernel, mlff_cuda_blocks(n, 64), 64, x, y, n);
}

void launch_tree_sum(mlff_backend *b, const float *x, float *y, int n_blocks)
{
  MLFF_LAUNCH(b, tree_sum_kernel, (unsigned) n_blocks, 96, 0, x, y);
}

void launch_tree_sum_as_independent(mlff_backend *b, const float *x, float *y)
{
  MLFF_LAUNCH_INDEPENDENT(b, tree_sum_kernel, 1, 96, x, y);
}

void launch_shuffle(mlff_backend *b, int *sum, int *up, int *down, int *from3, unsigned *votes)
{
  MLFF_LAUNCH(b, shuffle_kernel, 1, 64, 0, sum, up, down, from3, votes);
}

void launch_atomic(mlff_backend *b, int *counter, int *least, int *order, int n_blocks)
{
  MLFF_LAUNCH(b, atomic_kernel, (unsigned) n_blocks, 64, 0, counter, least, order);
}

void launch_warp_order(mlff_backend *b, int *order, int n_warps)
{
  MLFF_LAUNCH(b, warp_order_kernel, 1, 32 * (unsigned) n_warps, 0, order);
}

void launch_missing_barrier(mlff_backend *b, int *y, int n_lanes)
{
  MLFF_LAUNCH(b, missing_barrier_kernel, 1, (unsigned) n_lanes, 0, y);
}

void launch_reverse(mlff_backend *b, const float *x, float *y, int n_blocks, int n_threads, int shared_bytes)
{
  MLFF_LAUNCH(b, reverse_kernel, (unsigned) n_blocks, (unsigned) n_threads, (size_t) shared_bytes, x, y);
}

void launch_fresh_shared(mlff_backend *b, float *y)
{
  MLFF_LAUNCH(b, fresh_shared_kernel, 2, 32, 0, y);
}

void launch_async_copy(mlff_backend *b, const float *x, float *y)
{
  MLFF_LAUNCH(b, async_copy_kernel, 2, 32, 0, x, y);
}

cudaError_t allow_reverse(int shared_bytes)
{
  return cudaFuncSetAttribute(reverse_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

void launch_wrong(mlff_backend *b, int which, float *y)
{
  int *ints = (int *) (void *) y;
  if (which == WRONG_BLOCK) MLFF_LAUNCH(b, divergent_block_kernel, 1, 64, 0, y);
  if (which == WRONG_LINES) MLFF_LAUNCH(b, divergent_lines_kernel, 1, 64, 0, y);
  if (which == WRONG_WARP) MLFF_LAUNCH(b, divergent_warp_kernel, 1, 64, 0, ints);
  if (which == WRONG_MASK) MLFF_LAUNCH(b, wrong_mask_kernel, 1, 64, 0, ints);
  if (which == WRONG_END) MLFF_LAUNCH(b, early_end_kernel, 1, 64, 0, y);
  if (which == WRONG_TURN) MLFF_LAUNCH_INDEPENDENT(b, early_end_kernel, 1, 64, y);
  if (which == WRONG_SHARED) MLFF_LAUNCH(b, shared_overrun_kernel, 1, 32, 0, y, 1);
  if (which == WRONG_DEVICE) MLFF_LAUNCH_INDEPENDENT(b, twice_kernel, 2, 64, (const float *) y, y, 128);
}
