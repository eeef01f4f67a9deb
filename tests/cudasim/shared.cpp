/* shared.cpp: limits of shared memory, and asynchronous copies to it (cuda_pipeline_primitives.h). Copies complete as
 * late as allowed or, when launches are shuffled, some of them immediately. */
#include "cuda_pipeline_primitives.h"
#include "cudasim_impl.h"

#include <map>

namespace cudasim {

struct async_copy {
  void *destination;
  const void *source;
  size_t bytes, group;
};

/* Asynchronous work of one thread: a ring of copies in flight and the number of committed groups. */
enum { MOST_COPIES = 256, MOST_THREADS = 1024 };
struct pipeline {
  async_copy copies[MOST_COPIES];
  size_t n_begun, n_done, n_groups;
};

static pipeline pipelines[MOST_THREADS];
static size_t n_used; /* of them by the running block */

static pipeline &own()
{
  const dim3 &t = cudasim_here.threadIdx, &d = cudasim_here.blockDim;
  const size_t k = t.x + (size_t) d.x * (t.y + (size_t) d.y * t.z);
  if (n_used <= k) n_used = k + 1;
  return pipelines[k];
}

void forget_copies()
{
  for (size_t k = 0; k < n_used; k++) pipelines[k].n_begun = pipelines[k].n_done = pipelines[k].n_groups = 0;
  n_used = 0;
}

/* Whether the next copy completes immediately. */
static bool is_early()
{
  static unsigned n = 0;
  return state.shuffle && (state.shuffle + n++) * 2654435761u >> 31;
}

/* Bytes that kernels have asked for. */
static std::map<const void *, size_t> opted_in;

size_t most_shared(const void *kernel)
{
  const auto found = opted_in.find(kernel);
  return found == opted_in.end() ? (size_t) DEFAULT_SHARED : found->second;
}

} // namespace cudasim

using namespace cudasim;

cudaError_t cudasim_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > (int) MOST_SHARED)
    return cudaErrorInvalidValue;
  opted_in[kernel] = value > (int) DEFAULT_SHARED ? (size_t) value : (size_t) DEFAULT_SHARED;
  return cudaSuccess;
}

void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes)
{
  if (bytes != 4 && bytes != 8 && bytes != 16) die("__pipeline_memcpy_async of %zu bytes", bytes);
  if ((uintptr_t) shared % bytes || (uintptr_t) global % bytes)
    die("__pipeline_memcpy_async of %zu bytes from %p to %p, which are not aligned to that", bytes, global, shared);
  pipeline &p = own();
  if (p.n_begun - p.n_done == MOST_COPIES) die("more than %d copies of a thread are under way", (int) MOST_COPIES);
  if (is_early())
    std::memcpy(shared, global, bytes);
  else
    p.copies[p.n_begun++ % MOST_COPIES] = {shared, global, bytes, p.n_groups};
}

void __pipeline_commit()
{
  own().n_groups++;
}

void __pipeline_wait_prior(size_t n)
{
  pipeline &p = own();
  while (p.n_done < p.n_begun && p.copies[p.n_done % MOST_COPIES].group + n < p.n_groups) {
    const async_copy &c = p.copies[p.n_done++ % MOST_COPIES];
    std::memcpy(c.destination, c.source, c.bytes);
  }
}
