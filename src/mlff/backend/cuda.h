/* cuda.h: what the engine knows of the GPU backend, which lies in cuda/ and is linked in when MLFF_HAVE_CUDA is set. */
#ifndef MLFF_BACKEND_CUDA_H
#define MLFF_BACKEND_CUDA_H

#include "backend.h"

/* What is said where it is not. */
#define MLFF_NO_CUDA "this build has no CUDA backend (-DMLFF_CUDA=ON)"

/* Number of devices that can be used; when 0, why says what is missing. */
int mlff_cuda_n_devices(char *why, size_t why_size);

/* Opens device number `device` with precision "fp32", "fp64" or "mixed". An absent one, one that this build has no code
 * for and one without memory are errors. */
mlff_status mlff_cuda_open(int device, const char *precision, mlff_backend **backend, mlff_error *error);

/* What `mlff check` says of CUDA and of a GPU: mlff.h, mlff_platform and mlff_device. */
void mlff_cuda_read_platform(mlff_platform *platform);
mlff_status mlff_cuda_read_device(int number, int with_times, mlff_device *device, mlff_error *error);

#endif
