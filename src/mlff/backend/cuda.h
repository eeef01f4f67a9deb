/* cuda.h: interface of the GPU backend in cuda/, which is linked if MLFF_HAVE_CUDA is set. */
#ifndef MLFF_BACKEND_CUDA_H
#define MLFF_BACKEND_CUDA_H

#include "backend.h"

/* Message of builds without it. */
#define MLFF_NO_CUDA "this build has no CUDA backend (-DMLFF_CUDA=ON)"

/* Number of usable devices; if 0, `why` is the reason. */
int mlff_cuda_n_devices(char *why, size_t why_size);

/* Opens device number `device` with precision "fp32", "fp64" or "mixed". Errors: no such device, no code for it in this
 * build, no memory. */
mlff_status mlff_cuda_open(int device, const char *precision, mlff_backend **backend, mlff_error *error);

/* mlff_platform_read and mlff_device_read (mlff.h) for GPUs. */
void mlff_cuda_read_platform(mlff_platform *platform);
mlff_status mlff_cuda_read_device(int number, int with_times, mlff_device *device, mlff_error *error);

#endif
