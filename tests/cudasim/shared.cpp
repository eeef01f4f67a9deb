/* shared.cpp: how much shared memory kernels may have, and copies into it that a thread starts and waits for later
 * (cuda_pipeline_primitives.h). */
#include "cuda_pipeline_primitives.h"
#include "cudasim_impl.h"

#include <map>
#include <vector>

namespace cudasim {

struct async_copy {
  void *to;
  const void *from;
  size_t bytes, group;
};

/* Of one thread: copies that are under way, and how many groups were committed. */
struct pipeline {
  std::vector<async_copy> copies;
  size_t n_groups;
};

static std::vector<pipeline> pipelines;
static bool is_used;

static pipeline &own()
{
  const dim3 &t = cudasim_here.threadIdx, &d = cudasim_here.blockDim;
  const size_t k = t.x + (size_t) d.x * (t.y + (size_t) d.y * t.z);
  if (pipelines.size() <= k) pipelines.resize(k + 1);
  is_used = true;
  return pipelines[k];
}

void forget_copies()
{
  if (is_used) pipelines.clear();
  is_used = false;
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
  p.copies.push_back({shared, global, bytes, p.n_groups});
}

void __pipeline_commit()
{
  own().n_groups++;
}

void __pipeline_wait_prior(size_t n)
{
  pipeline &p = own();
  size_t n_done = 0;
  while (n_done < p.copies.size() && p.copies[n_done].group + n < p.n_groups) {
    const async_copy &c = p.copies[n_done++];
    std::memcpy(c.to, c.from, c.bytes);
  }
  p.copies.erase(p.copies.begin(), p.copies.begin() + (std::ptrdiff_t) n_done);
}
