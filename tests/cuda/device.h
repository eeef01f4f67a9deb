/* device.h: the GPU of these tests: the simulated one in builds with MLFF_CUDASIM, else a real one. Programs that need
 * one are skipped, by name, where there is none. */
#ifndef MLFF_TEST_DEVICE_H
#define MLFF_TEST_DEVICE_H

#include "backends.h"

/* test_main, or 77 and the reason. */
int device_main(const char *name, test_make_suite *make);

/* At the begin of a test. The simulator is as at the start of a program, with n GPUs. Returns how many GPUs
 * there are. */
int device_reset(int n);
/* Simulated: blocks and warps run in another order from now on. On a real GPU they always do. */
void device_shuffle(unsigned seed);
/* Simulated: fails the test when its memory was not given back. Of a real GPU, compute-sanitizer tells. */
void device_is_empty(void);

/* Arrays on GPU 0 through the CUDA runtime. What was written is there when the call returns. */
void *device_array(const void *host, size_t bytes);
void device_write(void *array, const void *host, size_t bytes);
void device_read(void *host, const void *array, size_t bytes);
void device_free(const void *array);

/* Fails the test unless numbers of different kernels that do the same are as near as between_kernels says. precision:
 * fp32, fp64 or mixed. */
void same_of_kernels(const char *what, const double *got, const double *ref, int64_t n, const char *precision);

#endif
