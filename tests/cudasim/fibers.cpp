/* fibers.cpp: threads of a block as fibers, with barriers, votes, shuffles and shared memory.
 *
 * A block's warps are resumed in turn; a fiber runs until it waits at a barrier or ends. When nobody can run and not
 * all have ended, or threads wait at different places, the program ends with the kernel's name: on a GPU that is a
 * hang or worse.
 */
#include "cudasim_impl.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

cudasim_place cudasim_here;

namespace cudasim {

enum {
  MAX_THREADS = 1024,
  MAX_WARPS = 32,
  SHARED_BYTES = 49152,
  ZONE = 64,
  STACK_BYTES = CUDASIM_ASAN ? 1 << 18 : 1 << 16
};

enum fiber_state { READY, AT_WARP, AT_BLOCK, ENDED };

struct fiber {
#if defined(__x86_64__)
  void *sp;
#else
  ucontext_t context;
#endif
  char *stack; /* lowest address; a page before it cannot be touched */
  fiber_state state;
  dim3 place;
  void *fake_stack; /* of AddressSanitizer */
};

struct warp {
  unsigned waiting, mask, ended; /* lanes; mask: whom the waiting ones wait for */
  const char *what;
  int line;
  uint64_t given[32], taken[32];
  int source[32]; /* of a shuffle; -1: vote */
};

static struct {
  const cudasim_launch_info *info;
  const std::function<void()> *thread;
  fiber fibers[MAX_THREADS];
  warp warps[MAX_WARPS];
  int n_threads, n_ended, n_waiting, line; /* of the block barrier */
  int current;                             /* -1: no fiber runs */
#if defined(__x86_64__)
  void *scheduler_sp;
#else
  ucontext_t scheduler;
#endif
  void *scheduler_fake;
  const void *scheduler_stack;
  size_t scheduler_stack_bytes;
} block = {};

/* ---- shared memory ---- */

struct shared_array {
  int key;
  size_t offset, bytes;
};
static struct {
  alignas(64) char bytes[SHARED_BYTES + 64 * ZONE];
  size_t used, total; /* used: with zones, total: without */
  std::vector<shared_array> arrays;
} shared;

static void *take_shared(int key, size_t bytes)
{
  for (const shared_array &a : shared.arrays) {
    if (a.key != key) continue;
    if (a.bytes != bytes) die("shared array %d has %zu bytes here and %zu elsewhere", key, bytes, a.bytes);
    return shared.bytes + a.offset;
  }
  const size_t room = (bytes + ZONE - 1) / ZONE * ZONE + ZONE;
  shared.total += bytes;
  if (shared.total > SHARED_BYTES) die("%zu bytes of shared memory, %d are there", shared.total, (int) SHARED_BYTES);
  const size_t offset = shared.used;
  shared.used += room;
  shared.arrays.push_back({key, offset, bytes});
  ASAN_UNPOISON_MEMORY_REGION(shared.bytes + offset, bytes);
  std::memset(shared.bytes + offset, 0xff, bytes);
  return shared.bytes + offset;
}

static void begin_shared()
{
  ASAN_POISON_MEMORY_REGION(shared.bytes, sizeof shared.bytes);
  shared.used = shared.total = 0;
  shared.arrays.clear();
  if (block.info->shared) take_shared(-1, block.info->shared);
}

/* ---- errors ---- */

void die(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "cudasim: ");
  if (block.info) {
    const cudasim_place &h = cudasim_here;
    std::fprintf(stderr, "kernel %s, block (%u %u %u), thread (%u %u %u): ", block.info->name, h.blockIdx.x,
                 h.blockIdx.y, h.blockIdx.z, h.threadIdx.x, h.threadIdx.y, h.threadIdx.z);
  }
  std::vfprintf(stderr, format, arguments);
  std::fprintf(stderr, "\n");
  va_end(arguments);
  std::abort();
}

/* ---- switching ---- */

#if defined(__x86_64__)
/* Saves what the calling convention lets a callee keep, and continues on the other stack. */
extern "C" void cudasim_switch(void **save, void *to);
__asm__(R"(
.text
.globl cudasim_switch
.hidden cudasim_switch
.type cudasim_switch, @function
cudasim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cudasim_switch, .-cudasim_switch
)");
#endif

static void to_scheduler(bool for_good)
{
  fiber &f = block.fibers[block.current];
#if CUDASIM_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &f.fake_stack, block.scheduler_stack,
                                 block.scheduler_stack_bytes);
#else
  (void) for_good;
#endif
#if defined(__x86_64__)
  cudasim_switch(&f.sp, block.scheduler_sp);
#else
  swapcontext(&f.context, &block.scheduler);
#endif
#if CUDASIM_ASAN
  __sanitizer_finish_switch_fiber(f.fake_stack, &block.scheduler_stack, &block.scheduler_stack_bytes);
#endif
}

static void to_fiber(int k)
{
  fiber &f = block.fibers[k];
  block.current = k;
  cudasim_here.threadIdx = f.place;
#if CUDASIM_ASAN
  __sanitizer_start_switch_fiber(&block.scheduler_fake, f.stack, STACK_BYTES);
#endif
#if defined(__x86_64__)
  cudasim_switch(&block.scheduler_sp, f.sp);
#else
  swapcontext(&block.scheduler, &f.context);
#endif
#if CUDASIM_ASAN
  __sanitizer_finish_switch_fiber(block.scheduler_fake, nullptr, nullptr);
#endif
  block.current = -1;
}

/* Wakes a barrier's waiting threads once the last one is there; threads that have ended never come. */
static void end_thread()
{
  fiber &f = block.fibers[block.current];
  warp &w = block.warps[block.current / 32];
  f.state = ENDED;
  block.n_ended++;
  w.ended |= 1u << (block.current % 32);
  if (block.n_waiting) die("has ended, but others of its block wait at __syncthreads (line %d)", block.line);
  if (w.waiting & w.mask) {
    if (w.mask & w.ended) die("has ended, but others of its warp wait for it at %s (line %d)", w.what, w.line);
  }
}

static void fiber_main()
{
#if CUDASIM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_stack, &block.scheduler_stack_bytes);
#endif
  (*block.thread)();
  end_thread();
  to_scheduler(true);
  std::abort(); /* an ended fiber is not resumed */
}

static void start_fiber(int k)
{
  fiber &f = block.fibers[k];
  if (!f.stack) {
    char *memory =
        (char *) mmap(nullptr, STACK_BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("no memory for a fiber's stack");
    mprotect(memory, 4096, PROT_NONE);
    f.stack = memory + 4096;
  }
  f.state = READY;
  f.fake_stack = nullptr;
  const dim3 &d = cudasim_here.blockDim;
  f.place = dim3(k % d.x, k / d.x % d.y, k / d.x / d.y);
#if defined(__x86_64__)
  void **top = (void **) (void *) (f.stack + STACK_BYTES);
  top[-1] = nullptr;
  top[-2] = (void *) fiber_main;
  for (int r = 3; r <= 8; r++) top[-r] = nullptr;
  f.sp = top - 8;
#else
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = STACK_BYTES;
  f.context.uc_link = nullptr;
  makecontext(&f.context, fiber_main, 0);
#endif
}

/* ---- a block ---- */

static unsigned random_next(unsigned *seed)
{
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

/* 0 .. n-1 in order, or in another one when seed is not 0. */
static void make_order(std::vector<int> &order, int n, unsigned *seed)
{
  order.resize((size_t) n);
  for (int k = 0; k < n; k++) order[(size_t) k] = k;
  for (int k = n - 1; *seed && k > 0; k--) std::swap(order[(size_t) k], order[random_next(seed) % (unsigned) (k + 1)]);
}

static void run_fibers(unsigned *seed)
{
  static std::vector<int> order;
  const int n = block.n_threads, n_warps = (n + 31) / 32;
  block.n_ended = block.n_waiting = 0;
  for (int w = 0; w < n_warps; w++) {
    block.warps[w] = warp{};
    for (int lane = 0; lane < 32; lane++)
      if (w * 32 + lane >= n) block.warps[w].ended |= 1u << lane;
  }
  for (int k = 0; k < n; k++) start_fiber(k);
  make_order(order, n_warps, seed);
  while (block.n_ended < n) {
    bool moved = false;
    for (int w : order) {
      const int end = w * 32 + 32 < n ? w * 32 + 32 : n;
      for (int k = w * 32; k < end; k++) {
        if (block.fibers[k].state != READY) continue;
        moved = true;
        to_fiber(k);
      }
    }
    if (!moved)
      die("divergent barrier: %d of %d threads of the block have ended, %d wait at __syncthreads, the others in warps",
          block.n_ended, n, block.n_waiting);
  }
}

static void run_loop(unsigned seed)
{
  const int n = block.n_threads;
  const dim3 &d = cudasim_here.blockDim;
  for (int t = 0; t < n; t++) {
    const int k = seed ? n - 1 - t : t;
    cudasim_here.threadIdx = dim3(k % d.x, k / d.x % d.y, k / d.x / d.y);
    (*block.thread)();
  }
}

void run_grid(const cudasim_launch_info &info, const std::function<void()> &thread)
{
  static std::vector<int> order;
  const dim3 &g = info.grid;
  unsigned seed = state.shuffle ? state.shuffle + (unsigned) state.n_launches * 7919u : 0;
  if (block.info) die("launches another kernel");
  device_access access;
  block.info = &info;
  block.thread = &thread;
  block.n_threads = (int) (info.block.x * info.block.y * info.block.z);
  block.current = -1;
  cudasim_here.gridDim = info.grid;
  cudasim_here.blockDim = info.block;
  make_order(order, (int) (g.x * g.y * g.z), &seed);
  for (int k : order) {
    cudasim_here.blockIdx = dim3(k % g.x, k / g.x % g.y, k / g.x / g.y);
    begin_shared();
    if (info.independent)
      run_loop(seed);
    else
      run_fibers(&seed);
  }
  block.info = nullptr;
}

/* ---- barriers ---- */

static fiber &waiting_fiber(const char *what)
{
  if (!block.info) die("%s outside of a kernel", what);
  if (block.info->independent) die("%s in a kernel that was launched as independent threads", what);
  return block.fibers[block.current];
}

/* Waits for the lanes of mask, which all must come to the same place. The last one hands out what was given. */
static void wait_for_warp(unsigned mask, const char *what, int line)
{
  fiber &f = waiting_fiber(what);
  warp &w = block.warps[block.current / 32];
  const unsigned own = 1u << (block.current % 32);
  if (!(mask & own)) die("%s (line %d) by a lane that is not in its mask %08x", what, line, mask);
  if (mask & w.ended) die("%s (line %d) with mask %08x, but lanes %08x have ended", what, line, mask, w.ended);
  if (!w.waiting) {
    w.mask = mask;
    w.what = what;
    w.line = line;
  }
  if (w.mask != mask || w.line != line || std::strcmp(w.what, what))
    die("divergent barrier: %s (line %d, mask %08x), but other lanes of the warp wait at %s (line %d, mask %08x)", what,
        line, mask, w.what, w.line, w.mask);
  w.waiting |= own;
  if (w.waiting != w.mask) {
    f.state = AT_WARP;
    to_scheduler(false);
    return;
  }
  w.waiting = 0;
  uint64_t votes = 0;
  for (int lane = 0; lane < 32; lane++)
    if (mask >> lane & 1 && w.given[lane]) votes |= (uint64_t) 1 << lane;
  for (int lane = 0; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    const int from = w.source[lane];
    if (from >= 0 && !(mask >> from & 1))
      die("%s (line %d) reads lane %d, which is not in mask %08x", what, line, from, mask);
    w.taken[lane] = from < 0 ? votes : w.given[from];
    block.fibers[block.current / 32 * 32 + lane].state = READY;
  }
}

} // namespace cudasim

using namespace cudasim;

void cudasim_block_barrier(int line)
{
  fiber &f = waiting_fiber("__syncthreads");
  if (block.n_ended)
    die("divergent barrier: __syncthreads (line %d), but %d threads of the block have ended", line, block.n_ended);
  if (block.n_waiting && block.line != line)
    die("divergent barrier: __syncthreads (line %d), but others wait at line %d", line, block.line);
  block.line = line;
  if (++block.n_waiting < block.n_threads) {
    f.state = AT_BLOCK;
    to_scheduler(false);
    return;
  }
  block.n_waiting = 0;
  for (int k = 0; k < block.n_threads; k++) block.fibers[k].state = READY;
}

int cudasim_lane()
{
  return block.current % 32;
}

uint64_t cudasim_warp_exchange(unsigned mask, uint64_t bits, int source, const char *what, int line)
{
  waiting_fiber(what);
  warp &w = block.warps[block.current / 32];
  const int lane = cudasim_lane();
  w.given[lane] = bits;
  w.source[lane] = source;
  wait_for_warp(mask, what, line);
  return w.taken[lane];
}

unsigned cudasim_warp_vote(unsigned mask, int predicate, const char *what, int line)
{
  return (unsigned) cudasim_warp_exchange(mask, predicate != 0, -1, what, line);
}

void cudasim_warp_barrier(unsigned mask, const char *what, int line)
{
  cudasim_warp_exchange(mask, 0, -1, what, line);
}

void *cudasim_shared_array(int key, size_t bytes)
{
  waiting_fiber("shared memory");
  return take_shared(key, bytes);
}

void *cudasim_shared_dynamic()
{
  waiting_fiber("shared memory");
  if (!block.info->shared) die("was launched without dynamic shared memory");
  return shared.bytes;
}
