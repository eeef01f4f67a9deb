/* timing.cpp: CUDA events for spans, also in captured steps, and NVTX ranges. NVTX is header-only and has no effect
 * without a profiler. */
#include "backend_cuda.h"

#include <cmath>
#include <cstdlib>

#if defined(__has_include)
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define RANGE_BEGIN(name) nvtxRangePushA(name)
#define RANGE_END() nvtxRangePop()
#endif
#endif
#ifndef RANGE_BEGIN
#define RANGE_BEGIN(name) ((void) (name))
#define RANGE_END() ((void) 0)
#endif

static void restart_cuda(mlff_backend *backend)
{
  mlff_cuda_of(backend)->n_stamps = 0;
}

/* Makes room for one more event; 0 after a failure. */
static int make_stamp(mlff_cuda_backend *cuda)
{
  if (cuda->n_stamps < cuda->stamps_room) return 1;
  cudaEvent_t event = NULL;
  cudaEvent_t *stamps = (cudaEvent_t *) realloc(cuda->stamps, ((size_t) cuda->stamps_room + 1) * sizeof *stamps);
  if (!stamps) return 0;
  cuda->stamps = stamps;
  if (mlff_cuda_check(cuda, cudaEventCreate(&event), "cudaEventCreate", NULL)) return 0;
  stamps[cuda->stamps_room++] = event;
  return 1;
}

static int stamp_cuda(mlff_backend *backend, const char *range)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  if (range)
    RANGE_BEGIN(range);
  else
    RANGE_END();
  if (!mlff_cuda_enqueues(cuda) || !make_stamp(cuda)) return -1;
  const unsigned flags = cuda->replay.mode == MLFF_CUDA_CAPTURING ? cudaEventRecordExternal : cudaEventRecordDefault;
  const cudaError_t recorded = cudaEventRecordWithFlags(cuda->stamps[cuda->n_stamps], cuda->stream, flags);
  if (mlff_cuda_check(cuda, recorded, "cudaEventRecord", NULL)) return -1;
  return cuda->n_stamps++;
}

static double seconds_cuda(mlff_backend *backend, int begin, int end)
{
  mlff_cuda_backend *cuda = mlff_cuda_of(backend);
  float ms = 0;
  if (mlff_cuda_check(cuda, cudaEventSynchronize(cuda->stamps[end]), "cudaEventSynchronize", NULL)) return NAN;
  if (mlff_cuda_check(cuda, cudaEventElapsedTime(&ms, cuda->stamps[begin], cuda->stamps[end]), "cudaEventElapsedTime",
                      NULL))
    return NAN;
  return 1e-3 * (double) ms;
}

void mlff_cuda_timing_ops(mlff_timing_ops *ops)
{
  ops->restart = restart_cuda;
  ops->stamp = stamp_cuda;
  ops->seconds = seconds_cuda;
}

void mlff_cuda_timing_close(mlff_cuda_backend *cuda)
{
  for (int k = 0; k < cuda->stamps_room; k++)
    if (cudaEventDestroy(cuda->stamps[k]) != cudaSuccess) cudaGetLastError();
  free(cuda->stamps);
}
