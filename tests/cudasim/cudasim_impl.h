/* cudasim_impl.h: what the simulator's files share. Not seen by the code under test. */
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

/* What tests set, and counters. */
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
  cudaError_t lost = cudaSuccess;       /* once the device failed, everything does */
  cudaError_t last_error = cudaSuccess; /* of cudaGetLastError */
};
extern settings state;

/* Bytes of shared memory of a block: without asking for more, and with (those of sm_80, which later GPUs have too). */
enum { DEFAULT_SHARED = 49152, MOST_SHARED = 166912 };
/* shared.cpp. most_shared: what a launch of the kernel may have. forget_copies: of the last block. has_products: of the
 * running thread, some that it has not waited for. */
size_t most_shared(const void *kernel);
void forget_copies();
bool has_products();

/* Ends the program with a message that names the running kernel, block and thread. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* 1 when [data, data+bytes) lies within one device allocation; is_device: when it points into device memory at all. */
int is_allocated(const void *data, size_t bytes);
int is_device(const void *data);

/* Device memory can be touched while one of these exists: in kernels and copies, not by host code in between. Of a copy
 * only the pages that it touches: changing the protection of all of them took most of the time of the tests. */
struct device_access {
  device_access();
  device_access(const void *data, size_t bytes); /* host memory is left alone */
  device_access(const device_access &) = delete;
  ~device_access();
  int is_whole;
  char *begin;
  size_t bytes;
};

/* Runs one launch, now: fibers.cpp. */
void run_grid(const cudasim_launch_info &info, const std::function<void()> &thread);

} // namespace cudasim

#endif
