/* runtime.cpp: devices, memory, streams, events, graphs and launches of the simulator.
 *
 * Device memory is an address range that only kernels and copies can access; other host code that dereferences a device
 * pointer dies. New memory is filled with NaN. AddressSanitizer also detects accesses around an allocation.
 */
#include "cudasim_impl.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace cudasim {

settings state;

/* ---- memory ---- */

enum { GRAIN = 256 };
static const size_t ARENA_BYTES = (size_t) 1 << 36;
/* Granularity of mprotect: huge pages, because its time is proportional to the number of pages. */
static const size_t PAGE = (size_t) 1 << 21;

static struct {
  char *base;
  size_t high;                     /* end of the highest allocation ever, whole pages */
  std::map<size_t, size_t> blocks; /* offset -> requested bytes */
  std::map<size_t, int> devices;   /* offset -> current device */
  std::map<void *, size_t> host;   /* of cudaMallocHost */
  size_t in_use, left;             /* left: in use at the last reset */
  int open;                        /* device_access objects for all of it */
} arena;

static size_t room_of(size_t bytes)
{
  return (bytes + GRAIN - 1) / GRAIN * GRAIN + GRAIN; /* and a gap */
}

static void touched_device_memory(int signal, siginfo_t *info, void *)
{
  const char *address = (const char *) info->si_addr;
  if (address >= arena.base && address < arena.base + ARENA_BYTES && !arena.open) {
    static const char text[] = "cudasim: host code touched device memory outside of a kernel or copy\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(1);
  }
  ::signal(signal, SIG_DFL);
  raise(signal);
}

static void make_arena()
{
  if (arena.base) return;
  void *base = mmap(nullptr, ARENA_BYTES + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) die("no addresses for device memory");
  arena.base = (char *) (((uintptr_t) base + PAGE - 1) / PAGE * PAGE);
  madvise(arena.base, ARENA_BYTES, MADV_HUGEPAGE); /* optional */
  if (CUDASIM_ASAN) return;                        /* reports such accesses itself */
  struct sigaction action = {};
  action.sa_sigaction = touched_device_memory;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

static void protect(char *begin, size_t bytes, int protection)
{
  if (bytes && mprotect(begin, bytes, protection)) die("mprotect failed at %p", (void *) begin);
}

device_access::device_access() : is_whole(1), begin(arena.base), bytes(arena.open++ ? 0 : arena.high)
{
  protect(begin, bytes, PROT_READ | PROT_WRITE);
}

device_access::device_access(const void *data, size_t n) : is_whole(0), begin(arena.base), bytes(0)
{
  if (arena.open || !is_device(data)) return;
  const size_t offset = (size_t) ((const char *) data - arena.base), first = offset / PAGE * PAGE;
  begin += first;
  bytes = (offset + n - first + PAGE - 1) / PAGE * PAGE;
  protect(begin, bytes, PROT_READ | PROT_WRITE);
}

device_access::~device_access()
{
  arena.open -= is_whole;
  protect(begin, bytes, PROT_NONE);
}

int is_device(const void *data)
{
  return arena.base && (const char *) data >= arena.base && (const char *) data < arena.base + ARENA_BYTES;
}

int is_allocated(const void *data, size_t bytes)
{
  if (!is_device(data)) return 0;
  const size_t offset = (size_t) ((const char *) data - arena.base);
  auto after = arena.blocks.upper_bound(offset);
  if (after == arena.blocks.begin()) return 0;
  --after;
  return offset - after->first <= after->second && bytes <= after->second - (offset - after->first);
}

static cudaError_t fail(cudaError_t error)
{
  if (error) state.last_error = error;
  return error;
}

/* Fails, as the driver does, in a process that was forked after a call of CUDA. */
static cudaError_t initialise()
{
  static const pid_t owner = getpid();
  return owner == getpid() ? cudaSuccess : cudaErrorInitializationError;
}

/* Fails if there is no device or it was lost. */
static cudaError_t device_status()
{
  const cudaError_t error = initialise();
  return fail(error ? error : state.n_devices < 1 ? cudaErrorNoDevice : state.lost);
}

/* ---- streams ---- */

} // namespace cudasim

struct cudasim_stream {
  cudasim_graph *capture;
};
struct cudasim_event {
  double time;
};
struct cudasim_node {
  cudaGraphNodeType type;
  std::function<void()> work;
};
struct cudasim_graph {
  std::vector<cudasim_node> nodes;
  bool is_invalid = false; /* by a call that is not allowed in a capture */
};

namespace cudasim {

static cudasim_stream default_stream;
static cudasim_graph *capturing; /* graph of the current capture */

/* Invalidates the current capture, as calls that allocate or synchronize do on a device. */
static cudaError_t forbidden_in_capture()
{
  if (!capturing) return cudaSuccess;
  capturing->is_invalid = true;
  return fail(cudaErrorStreamCaptureUnsupported);
}

/* Runs the work, or adds it to the graph of the current capture. */
static void submit(cudaStream_t stream, cudaGraphNodeType type, std::function<void()> work)
{
  cudasim_stream *s = stream ? stream : &default_stream;
  if (s->capture)
    s->capture->nodes.push_back({type, std::move(work)});
  else
    work();
}

/* ---- checks of a launch ---- */

/* Whether a word of the arguments of a kernel is an address of unpinned host memory. Words below 2^32 are taken for
 * pairs of smaller fields: only programs that are not position independent, such as lmp from PyPI, have memory
 * there. */
static int is_host_address(uint64_t word)
{
  if (!(word >> 32) || word >> 47) return 0;
  if (CUDASIM_ASAN && word < 0x10007fff8000) return 0; /* shadow memory */
  if (is_device((const void *) word)) return 0;
  const auto after = arena.host.upper_bound((void *) word); /* pinned memory is accessible */
  if (after != arena.host.begin()) {
    const auto &[begin, bytes] = *std::prev(after);
    if (word - (uint64_t) begin < bytes) return 0;
  }
  return msync((void *) (word & ~(uint64_t) 4095), 4096, MS_ASYNC) == 0;
}

static void check_arguments(const char *name, const void *const *arguments, const size_t *sizes, int n)
{
  for (int a = 0; a < n; a++) {
    for (size_t byte = 0; byte + 8 <= sizes[a]; byte += 8) {
      uint64_t word;
      std::memcpy(&word, (const char *) arguments[a] + byte, 8);
      if (is_host_address(word))
        die("kernel %s: argument %d holds host address %p at byte %zu", name, a, (void *) word, byte);
      if (is_device((const void *) word) && !is_allocated((const void *) word, 0))
        die("kernel %s: argument %d holds address %p at byte %zu, which is not or no longer allocated", name, a,
            (void *) word, byte);
    }
  }
}

} // namespace cudasim

using namespace cudasim;

cudaError_t cudasim_launch(const cudasim_launch_info &info, cudaStream_t stream, const std::function<void()> &thread,
                           const void *const *arguments, const size_t *sizes, int n_arguments)
{
  if (device_status()) return state.last_error;
  const uint64_t n_threads = (uint64_t) info.block.x * info.block.y * info.block.z;
  if (!n_threads || n_threads > 1024 || !info.grid.x || !info.grid.y || !info.grid.z || info.grid.x > 0x7fffffffu ||
      info.grid.y > 65535 || info.grid.z > 65535 || info.block.z > 64)
    return fail(cudaErrorInvalidConfiguration);
  if (info.shared > most_shared(info.kernel)) return fail(cudaErrorInvalidValue);
  size_t bytes = 0;
  for (int a = 0; a < n_arguments; a++) bytes += sizes[a];
  if (bytes > 4000) die("kernel %s: %zu bytes of arguments, 4096 at most", info.name, bytes);
  if (!state.has_code) return fail(cudaErrorNoKernelImageForDevice);
  state.n_launches++;
  if (state.fail_launch && --state.fail_launch == 0) return fail(state.lost = cudaErrorLaunchFailure);
  check_arguments(info.name, arguments, sizes, n_arguments);
  submit(stream, cudaGraphNodeTypeKernel, [info, thread] { run_grid(info, thread); });
  return cudaSuccess;
}

cudaError_t cudasim_malloc(void **data, size_t bytes)
{
  if (device_status() || forbidden_in_capture()) return state.last_error;
  make_arena();
  state.n_allocations++;
  *data = nullptr;
  if (state.fail_allocation && --state.fail_allocation == 0) return fail(cudaErrorMemoryAllocation);
  if (bytes > state.memory || arena.in_use + bytes > state.memory) return fail(cudaErrorMemoryAllocation);
  if (bytes == 0) return cudaSuccess;
  size_t offset = GRAIN;
  for (const auto &b : arena.blocks) {
    if (b.first >= offset + room_of(bytes)) break;
    offset = b.first + room_of(b.second);
  }
  if (offset + room_of(bytes) > ARENA_BYTES) return fail(cudaErrorMemoryAllocation);
  arena.blocks[offset] = bytes;
  arena.devices[offset] = state.device;
  arena.in_use += bytes;
  const size_t end = (offset + room_of(bytes) + PAGE - 1) / PAGE * PAGE;
  if (end > arena.high) {
    if (arena.open) protect(arena.base, end, PROT_READ | PROT_WRITE);
    arena.high = end;
  }
  device_access access(arena.base + offset, bytes);
  char *p = arena.base + offset;
  ASAN_POISON_MEMORY_REGION(p - GRAIN, GRAIN + room_of(bytes));
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  std::memset(p, 0xff, bytes);
  *data = p;
  return cudaSuccess;
}

cudaError_t cudaFree(void *data)
{
  if (!data) return cudaSuccess;
  if (initialise()) return fail(cudaErrorInitializationError);
  if (forbidden_in_capture()) return state.last_error;
  const auto b = is_device(data) ? arena.blocks.find((size_t) ((char *) data - arena.base)) : arena.blocks.end();
  if (b == arena.blocks.end()) die("cudaFree(%p): that was not allocated", data);
  ASAN_POISON_MEMORY_REGION(data, b->second);
  arena.in_use -= b->second;
  arena.devices.erase(b->first);
  arena.blocks.erase(b);
  return device_status();
}

static bool is_pinned(const void *data, size_t bytes)
{
  for (const auto &h : arena.host)
    if ((const char *) data >= (const char *) h.first &&
        (const char *) data + bytes <= (const char *) h.first + h.second)
      return true;
  return false;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *data)
{
  *attributes = cudaPointerAttributes{};
  if (device_status()) return state.last_error;
  attributes->hostPointer = (void *) data;
  attributes->type = is_pinned(data, 0) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  if (!is_device(data)) return cudaSuccess;
  if (!is_allocated(data, 0)) return fail(cudaErrorInvalidValue);
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = (--arena.devices.upper_bound((size_t) ((const char *) data - arena.base)))->second;
  attributes->devicePointer = (void *) data;
  attributes->hostPointer = nullptr;
  return cudaSuccess;
}

cudaError_t cudasim_malloc_host(void **data, size_t bytes)
{
  if (device_status() || forbidden_in_capture()) return state.last_error;
  state.n_allocations++;
  *data = nullptr;
  if (state.fail_allocation && --state.fail_allocation == 0) return fail(cudaErrorMemoryAllocation);
  *data = std::malloc(bytes ? bytes : 1);
  if (!*data) return fail(cudaErrorMemoryAllocation);
  std::memset(*data, 0xff, bytes);
  arena.host[*data] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *data)
{
  if (data && !arena.host.erase(data)) die("cudaFreeHost(%p): that was not allocated", data);
  std::free(data);
  return device_status();
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
  if (device_status()) return state.last_error;
  const int to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
  if (!bytes) return cudaSuccess;
  if (to_device ? !is_allocated(dst, bytes) : is_device(dst))
    die("cudaMemcpyAsync: %zu bytes to %p, which is not such memory", bytes, dst);
  if (from_device ? !is_allocated(src, bytes) : is_device(src))
    die("cudaMemcpyAsync: %zu bytes from %p, which is not such memory", bytes, src);
  const void *const host = to_device ? src : dst;
  if (capturing && kind != cudaMemcpyDeviceToDevice && !is_pinned(host, bytes))
    die("cudaMemcpyAsync in a capture: host memory %p is not pinned", host);
  if (kind != cudaMemcpyDeviceToDevice) state.n_copied++;
  submit(stream, cudaGraphNodeTypeMemcpy, [=] {
    const device_access dst_access(dst, bytes), src_access(src, bytes);
    if (kind != cudaMemcpyDeviceToDevice) state.n_bytes_copied += (long) bytes;
    std::memcpy(dst, src, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *data, int byte, size_t bytes, cudaStream_t stream)
{
  if (device_status()) return state.last_error;
  if (!bytes) return cudaSuccess;
  if (!is_allocated(data, bytes)) die("cudaMemsetAsync: %zu bytes at %p, which is not such memory", bytes, data);
  submit(stream, cudaGraphNodeTypeMemset, [=] {
    const device_access access(data, bytes);
    std::memset(data, byte, bytes);
  });
  return cudaSuccess;
}

/* ---- devices ---- */

const char *cudaGetErrorName(cudaError_t error)
{
  switch (error) {
  case cudaSuccess: return "cudaSuccess";
  case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
  case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
  case cudaErrorInitializationError: return "cudaErrorInitializationError";
  case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
  case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
  case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
  case cudaErrorUnsupportedPtxVersion: return "cudaErrorUnsupportedPtxVersion";
  case cudaErrorNoDevice: return "cudaErrorNoDevice";
  case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
  case cudaErrorNoKernelImageForDevice: return "cudaErrorNoKernelImageForDevice";
  case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
  case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
  case cudaErrorNotSupported: return "cudaErrorNotSupported";
  case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
  case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
  case cudaErrorGraphExecUpdateFailure: return "cudaErrorGraphExecUpdateFailure";
  }
  return "unknown error";
}

const char *cudaGetErrorString(cudaError_t error)
{
  return cudaGetErrorName(error);
}

cudaError_t cudaGetLastError()
{
  const cudaError_t error = state.last_error;
  state.last_error = state.lost;
  return error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
  const cudaError_t error = initialise();
  *count = error ? 0 : state.n_devices;
  return fail(error ? error : *count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
  if (device_status()) return state.last_error;
  if (device < 0 || device >= state.n_devices) return fail(cudaErrorInvalidDevice);
  state.device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
  *device = state.device;
  return device_status();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device)
{
  if (initialise()) return fail(cudaErrorInitializationError);
  if (device < 0 || device >= state.n_devices) return fail(cudaErrorInvalidDevice);
  *prop = cudaDeviceProp{};
  std::snprintf(prop->name, sizeof prop->name, "simulated device");
  prop->totalGlobalMem = state.memory;
  prop->sharedMemPerBlock = DEFAULT_SHARED;
  prop->major = state.major;
  prop->multiProcessorCount = state.n_multiprocessors;
  prop->pciBusID = 16 + device;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
  *total = state.memory;
  *free = state.memory - arena.in_use;
  return device_status();
}

cudaError_t cudasim_attributes(cudaFuncAttributes *attributes)
{
  *attributes = cudaFuncAttributes{90, 90, 32};
  if (device_status()) return state.last_error;
  return state.has_code ? cudaSuccess : fail(cudaErrorNoKernelImageForDevice);
}

/* ---- streams, events, graphs ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
  if (device_status()) return state.last_error;
  *stream = new cudasim_stream();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  delete stream;
  return device_status();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  if (forbidden_in_capture()) return state.last_error;
  state.n_synchronisations++;
  (void) stream;
  return device_status();
}

cudaError_t cudaDeviceSynchronize()
{
  if (forbidden_in_capture()) return state.last_error;
  state.n_synchronisations++;
  return device_status();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
  if (device_status()) return state.last_error;
  *event = new cudasim_event();
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
  return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  delete event;
  return device_status();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  submit(stream, cudaGraphNodeTypeEventRecord, [=] {
    using namespace std::chrono;
    event->time = duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
  });
  return device_status();
}

/* As on a device: events recorded in a graph and read outside of it must be external. */
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
  if ((flags == cudaEventRecordExternal) != (capturing != nullptr)) return fail(cudaErrorStreamCaptureUnsupported);
  return cudaEventRecord(event, stream);
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
  if (device < 0 || device >= state.n_devices) return fail(cudaErrorInvalidDevice);
  *value = attribute == cudaDevAttrMultiProcessorCount            ? state.n_multiprocessors
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? (int) MOST_SHARED
           : attribute == cudaDevAttrClockRate                    ? 1000000
                                                                  : 2000000;
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t)
{
  return device_status();
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
  *ms = (float) (end->time - start->time);
  return device_status();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
  if (!stream || capturing || state.fail_capture == 1) return fail(cudaErrorStreamCaptureUnsupported);
  capturing = stream->capture = new cudasim_graph();
  return device_status();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
  if (!stream || !stream->capture) return fail(cudaErrorStreamCaptureUnsupported);
  *graph = stream->capture;
  capturing = stream->capture = nullptr;
  if ((*graph)->is_invalid || state.fail_capture == 2) {
    delete *graph;
    *graph = nullptr;
    return fail(cudaErrorStreamCaptureInvalidated);
  }
  return device_status();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
  if (state.fail_capture == 3) return fail(cudaErrorMemoryAllocation);
  *exec = new cudasim_graph(*graph);
  return device_status();
}

/* Without `nodes`: their number; otherwise at most *n_nodes of them. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n_nodes)
{
  if (!graph || !n_nodes) return fail(cudaErrorInvalidValue);
  const size_t n = nodes ? std::min(*n_nodes, graph->nodes.size()) : graph->nodes.size();
  for (size_t k = 0; nodes && k < n; k++) nodes[k] = &graph->nodes[k];
  *n_nodes = n;
  return device_status();
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type)
{
  if (!node) return fail(cudaErrorInvalidValue);
  *type = node->type;
  return device_status();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
  if (device_status()) return state.last_error;
  state.n_launches++;
  state.n_graph_launches++;
  if (state.fail_launch && --state.fail_launch == 0) return fail(state.lost = cudaErrorLaunchFailure);
  for (const auto &node : exec->nodes) submit(stream, node.type, node.work);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  delete graph;
  return device_status();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
  delete exec;
  return device_status();
}

/* ---- control by tests ---- */

static long from_environment(const char *name, long otherwise)
{
  const char *text = std::getenv(name);
  return text ? std::atol(text) : otherwise;
}

/* Rank of this process from MPICH; 0 without mpiexec. */
static long own_rank()
{
  return from_environment("PMI_RANK", 0);
}

/* Also reads the environment, for tests of whole programs (tests/gpu). */
void cudasim_reset()
{
  state = settings();
  arena.left = arena.in_use;
  capturing = nullptr;
  state.n_devices = (int) from_environment("MLFF_CUDASIM_DEVICES", 1);
  state.n_multiprocessors = (int) from_environment("MLFF_CUDASIM_MULTIPROCESSORS", 2);
  state.major = (int) from_environment("MLFF_CUDASIM_MAJOR", 9);
  state.shuffle = (unsigned) from_environment("MLFF_CUDASIM_SHUFFLE", 0);
  state.trace = (int) from_environment("MLFF_CUDASIM_TRACE", 0);
  state.memory = (size_t) from_environment("MLFF_CUDASIM_MEMORY", (long) state.memory);
  state.has_code = (int) from_environment("MLFF_CUDASIM_CODE", 1);
  state.fail_capture = (int) from_environment("MLFF_CUDASIM_FAIL_CAPTURE", 0);
  if (own_rank() == from_environment("MLFF_CUDASIM_FAIL_RANK", 0))
    state.fail_launch = from_environment("MLFF_CUDASIM_FAIL_LAUNCH", 0);
}

static const int initialised = (cudasim_reset(), 0);

void cudasim_set_devices(int n)
{
  state.n_devices = n;
}

void cudasim_set_memory(size_t bytes)
{
  state.memory = bytes;
}

void cudasim_set_code(int has_code)
{
  state.has_code = has_code;
}

void cudasim_set_shuffle(unsigned seed)
{
  state.shuffle = seed;
}

void cudasim_fail_allocation(long n)
{
  state.fail_allocation = n;
}

void cudasim_fail_launch(long n)
{
  state.fail_launch = n;
}

void cudasim_fail_capture(int which)
{
  state.fail_capture = which;
}

long cudasim_n_graph_launches()
{
  return state.n_graph_launches;
}

long cudasim_n_synchronisations()
{
  return state.n_synchronisations;
}

long cudasim_n_allocations()
{
  return state.n_allocations;
}

long cudasim_n_launches()
{
  return state.n_launches;
}

long cudasim_n_copied()
{
  return state.n_copied;
}

long cudasim_n_bytes_copied()
{
  return state.n_bytes_copied;
}

size_t cudasim_bytes_in_use()
{
  return arena.in_use - arena.left + 0 * (size_t) initialised;
}

int cudasim_push_range(const char *name)
{
  state.last_range = name;
  state.n_ranges++;
  return (int) state.open_ranges++;
}

int cudasim_pop_range()
{
  if (state.open_ranges < 1) die("nvtxRangePop without nvtxRangePush");
  return (int) --state.open_ranges;
}

long cudasim_open_ranges()
{
  return state.open_ranges;
}

long cudasim_n_ranges()
{
  return state.n_ranges;
}

const char *cudasim_last_range()
{
  return state.last_range;
}

void cudasim_allow_host_access(int allow)
{
  static std::unique_ptr<device_access> guest;
  if (allow)
    guest.reset(new device_access());
  else
    guest.reset();
}
