/* device.h: the GPU of these tests, simulated in builds with MLFF_CUDASIM. Programs are skipped, by name, without a
 * GPU. */
#ifndef MLFF_TEST_DEVICE_H
#define MLFF_TEST_DEVICE_H

#include "backends.h"

/* Runs test_main, or prints the reason and returns 77. */
int device_main(const char *name, test_make_suite *make);

/* Start of a test: resets the simulator, with n GPUs. Returns the number of GPUs. */
int device_reset(int n);
/* Simulator: blocks and warps run in a different order from now on. */
void device_shuffle(unsigned seed);
/* Simulator: fails the test if device memory leaked. For a real GPU use compute-sanitizer. */
void device_is_empty(void);

/* Arrays on GPU 0 through the CUDA runtime; blocking. */
void *device_array(const void *host, size_t bytes);
void device_write(void *array, const void *host, size_t bytes);
void device_read(void *host, const void *array, size_t bytes);
void device_free(const void *array);

/* Fails the test unless results of equivalent kernels agree within between_kernels. precision: fp32, fp64 or mixed. */
void same_of_kernels(const char *what, const double *got, const double *ref, int64_t n, const char *precision);

#endif
