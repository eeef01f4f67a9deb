/* device.cpp: see device.h. */
extern "C" {
#include "device.h"

#include "backend/cuda.h"
}

#include <cuda_runtime.h>

#include <cstring>

extern "C" int device_main(const char *name, test_make_suite *make)
{
  char why[200] = "";
  if (mlff_cuda_n_devices(why, sizeof why) > 0) return test_main(make);
  test_skip("%s: %s", name, why);
  return 77;
}

extern "C" int device_reset(int n)
{
#if MLFF_CUDASIM
  cudasim_reset();
  cudasim_set_devices(n);
#else
  (void) n;
#endif
  char why[200] = "";
  return mlff_cuda_n_devices(why, sizeof why);
}

extern "C" void device_shuffle(unsigned seed)
{
#if MLFF_CUDASIM
  cudasim_set_shuffle(seed);
#else
  (void) seed;
#endif
}

extern "C" void device_is_empty(void)
{
#if MLFF_CUDASIM
  ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
#endif
}

static void works(cudaError_t error, const char *what)
{
  ck_assert_msg(error == cudaSuccess, "%s: %s", what, cudaGetErrorString(error));
}

extern "C" void *device_array(const void *host, size_t bytes)
{
  char *array = nullptr;
  works(cudaSetDevice(0), "cudaSetDevice");
  works(cudaMalloc(&array, bytes ? bytes : 1), "cudaMalloc");
  device_write(array, host, bytes);
  return array;
}

/* Models compute on a stream that does not wait for this one. */
static void copy_and_wait(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
  works(cudaMemcpyAsync(to, from, bytes, kind, nullptr), "cudaMemcpyAsync");
  works(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

extern "C" void device_write(void *array, const void *host, size_t bytes)
{
  copy_and_wait(array, host, bytes, cudaMemcpyHostToDevice);
}

extern "C" void device_read(void *host, const void *array, size_t bytes)
{
  copy_and_wait(host, array, bytes, cudaMemcpyDeviceToHost);
}

extern "C" void device_free(const void *array)
{
  if (cudaFree(const_cast<void *>(array)) != cudaSuccess) cudaGetLastError(); /* of a lost device, too */
}

extern "C" void same_of_kernels(const char *what, const double *got, const double *ref, int64_t n,
                                const char *precision)
{
  char text[512];
  const double apart = between_kernels(strcmp(precision, "fp64") == 0);
  if (!test_near(text, sizeof text, what, got, ref, n, 0.0, apart)) ck_abort_msg("%s", text);
}
