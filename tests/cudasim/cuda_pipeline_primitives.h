/* cuda_pipeline_primitives.h: asynchronous copies from device memory to shared memory. A copy is done at the wait, so a
 * kernel that reads too early finds the old contents, initially NaN. If launches are shuffled, some copies are done
 * immediately, so a kernel that starts them too early overwrites data in use. */
#ifndef MLFF_CUDASIM_CUDA_PIPELINE_PRIMITIVES_H
#define MLFF_CUDASIM_CUDA_PIPELINE_PRIMITIVES_H

#include "cuda_runtime.h"

/* 4, 8 or 16 bytes, both addresses multiples of that. */
void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes);
/* The copies since the last commit are a group. */
void __pipeline_commit();
/* Waits for all groups but the last n. */
void __pipeline_wait_prior(size_t n);

#endif
