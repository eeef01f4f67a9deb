/* cudasim_impl.h: internals of the simulator. Not included by the code under test. */
#ifndef MLFF_CUDASIM_IMPL_H
#define MLFF_CUDASIM_IMPL_H

#include "cuda_runtime.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#if defined(__SANITIZE_ADDRESS__)
#define CUDASIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDASIM_ASAN 1
#endif
#endif
#ifndef CUDASIM_ASAN
#define CUDASIM_ASAN 0
#endif
#if CUDASIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void) (address), (void) (size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void) (address), (void) (size))
#endif

namespace cudasim {

/* Settings of tests, and counters. */
struct settings {
  int n_devices = 1, has_code = 1, device = 0, n_multiprocessors = 2, major = 9;
  size_t memory = (size_t) 4 << 30;
  unsigned shuffle = 0;
  long fail_allocation = 0, fail_launch = 0;
  int fail_capture = 0, trace = 0;
  long n_allocations = 0, n_launches = 0, n_copied = 0, n_bytes_copied = 0, n_graph_launches = 0,
       n_synchronisations = 0;
  long open_ranges = 0, n_ranges = 0;
  const char *last_range = "";
  cudaError_t lost = cudaSuccess;       /* after a failure of the device every call fails */
  cudaError_t last_error = cudaSuccess; /* of cudaGetLastError */
};
extern settings state;

/* Bytes of shared memory of a block: without asking for more, and with (those of sm_80, which later GPUs have too). */
enum { DEFAULT_SHARED = 49152, MOST_SHARED = 166912 };
/* shared.cpp. most_shared: what a launch of the kernel may have. forget_copies: of the last block. */
size_t most_shared(const void *kernel);
void forget_copies();

/* Ends the program with a message that names the running kernel, block and thread. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether [data, data+bytes) is within one device allocation; is_device: whether data is a device address. */
int is_allocated(const void *data, size_t bytes);
int is_device(const void *data);

/* Device memory is accessible while an object exists: in kernels and copies, not to other host code. A copy opens only
 * the pages that it accesses, because mprotect of all pages dominated the time of the tests. */
struct device_access {
  device_access();
  device_access(const void *data, size_t bytes); /* no effect for host memory */
  device_access(const device_access &) = delete;
  ~device_access();
  int is_whole;
  char *begin;
  size_t bytes;
};

/* fibers.cpp: runs a launch. */
void run_grid(const cudasim_launch_info &info, const std::function<void()> &thread);

} // namespace cudasim

#endif
