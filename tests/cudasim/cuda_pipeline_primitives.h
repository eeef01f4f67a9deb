/* cuda_pipeline_primitives.h: copies from device memory to shared memory that a thread starts and waits for later.
 * Nothing is there before it has waited: a kernel that reads too early finds what the memory held, at first NaN. When
 * launches are shuffled, some copies are there at once: a kernel that starts them too early overwrites what is read. */
#ifndef MLFF_CUDASIM_CUDA_PIPELINE_PRIMITIVES_H
#define MLFF_CUDASIM_CUDA_PIPELINE_PRIMITIVES_H

#include "cuda_runtime.h"

/* 4, 8 or 16 bytes, both addresses multiples of that. */
void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes);
/* The copies since the last commit are a group. */
void __pipeline_commit();
/* All groups but the last n are there. */
void __pipeline_wait_prior(size_t n);

#endif
