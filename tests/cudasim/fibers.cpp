/* fibers.cpp: threads of a block as fibers, with barriers, votes, shuffles and shared memory.
 *
 * Warps of a block and lanes of a warp run round-robin, in order or, if launches are shuffled, in an order per block. A
 * fiber runs until it waits at a barrier or ends, and then switches to the next one. The program aborts with the name
 * of the kernel if no fiber can run before all have ended, or if threads wait at different barriers: a GPU would hang.
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
  ZONE = 64,
  STACK_ROOM = CUDASIM_ASAN ? 1 << 18 : 1 << 16,
  STACK_BYTES = STACK_ROOM - 4096 /* above a guard page */
};

#if defined(__x86_64__)
typedef void *cpu_context; /* the stack pointer; the registers are on the stack */
#else
typedef ucontext_t cpu_context;
#endif

struct fiber {
  cpu_context context;
  dim3 place;
  int has_waited; /* called cudasim_grid_dependency_wait */
};

struct warp {
  unsigned ready, waiting, mask, ended; /* lanes; mask: of the barrier */
  const char *what;
  int line;
  uint64_t given[32], taken[32];
  int source[32]; /* lane of a shuffle; -1: vote */
};

static struct {
  const cudasim_launch_info *info;
  const std::function<void()> *thread;
  fiber fibers[MAX_THREADS];
  warp warps[MAX_WARPS];
  int order[MAX_WARPS], n_warps;           /* order of the warps */
  int lanes[32];                           /* order of the lanes of a warp */
  int warp_index, lane_index;              /* of the current fiber, in these */
  int n_threads, n_ended, n_waiting, line; /* of the block barrier */
  int current;                             /* -1: no fiber runs */
  cpu_context scheduler;
  const void *scheduler_stack; /* for AddressSanitizer */
  size_t scheduler_stack_bytes;
} block = {};

/* Consecutive stacks of all fibers. AddressSanitizer sees them as one stack: it is notified when the first fiber of a
 * block begins and when the last one has ended. */
static char *stacks;

/* ---- shared memory ---- */

struct shared_array {
  int key;
  size_t offset, bytes;
};
static struct {
  alignas(64) char bytes[MOST_SHARED + 64 * ZONE];
  size_t used, total; /* used: with zones, total: without */
  std::vector<shared_array> arrays;
} shared;

static void *allocate_shared(int key, size_t bytes)
{
  for (const shared_array &a : shared.arrays) {
    if (a.key != key) continue;
    if (a.bytes != bytes) die("shared array %d has %zu bytes here and %zu elsewhere", key, bytes, a.bytes);
    return shared.bytes + a.offset;
  }
  const size_t room = (bytes + ZONE - 1) / ZONE * ZONE + ZONE;
  shared.total += bytes;
  const size_t most = block.info->shared > DEFAULT_SHARED ? block.info->shared : (size_t) DEFAULT_SHARED;
  if (shared.total > most) die("%zu bytes of shared memory, %zu are there", shared.total, most);
  const size_t offset = shared.used;
  shared.used += room;
  shared.arrays.push_back({key, offset, bytes});
  ASAN_UNPOISON_MEMORY_REGION(shared.bytes + offset, bytes);
  std::memset(shared.bytes + offset, 0xff, bytes);
  return shared.bytes + offset;
}

static void begin_shared()
{
  static bool is_poisoned;
  ASAN_POISON_MEMORY_REGION(shared.bytes, is_poisoned ? shared.used : sizeof shared.bytes);
  is_poisoned = true;
  shared.used = shared.total = 0;
  shared.arrays.clear();
  forget_copies();
  if (block.info->shared) allocate_shared(-1, block.info->shared);
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

/* Continues at `to`; returns when somebody continues at what is kept in `from`. */
static void switch_to(cpu_context *source, cpu_context *to)
{
#if defined(__x86_64__)
  cudasim_switch(source, *to);
#else
  swapcontext(source, to);
#endif
}

/* The next fiber that can run, behind the current one in its warp, then in the warps after it, in turn; -1:
 * none can. */
static int next_fiber(void)
{
  for (int k = 0; k <= block.n_warps; k++) {
    const int w = block.order[block.warp_index];
    while (block.warps[w].ready && ++block.lane_index < 32) {
      const int lane = block.lanes[block.lane_index];
      if (block.warps[w].ready >> lane & 1) return w * 32 + lane;
    }
    block.lane_index = -1;
    if (++block.warp_index == block.n_warps) block.warp_index = 0;
  }
  return -1;
}

static void run_fiber(cpu_context *source, int k)
{
  block.current = k;
  block.warps[k / 32].ready &= ~(1u << k % 32);
  cudasim_here.threadIdx = block.fibers[k].place;
  switch_to(source, &block.fibers[k].context);
}

/* Switches from the current fiber, which waits or has ended, to the next one. */
static void switch_to_next()
{
  const int own = block.current, next = next_fiber();
  cpu_context *context = &block.fibers[own].context;
  if (next >= 0) {
    run_fiber(context, next);
  } else if (block.n_ended == block.n_threads) {
#if CUDASIM_ASAN
    __sanitizer_start_switch_fiber(nullptr, block.scheduler_stack, block.scheduler_stack_bytes);
#endif
    switch_to(context, &block.scheduler);
  } else {
    die("divergent barrier: %d of %d threads of the block have ended, %d wait at __syncthreads, the others in warps",
        block.n_ended, block.n_threads, block.n_waiting);
  }
}

/* has_waited of the running thread. Independent threads are not fibers and use the first entry. */
static int &has_waited()
{
  return block.fibers[block.info->independent ? 0 : block.current].has_waited;
}

static void check_waited()
{
  if (!has_waited()) die("has ended without grid_dependency_wait, which every thread must call");
}

/* Ends the running thread. Dies if others wait for it at a barrier. */
static void end_thread()
{
  check_waited();
  warp &w = block.warps[block.current / 32];
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
  if (!block.scheduler_stack)
    __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_stack, &block.scheduler_stack_bytes);
#endif
  (*block.thread)();
  end_thread();
  switch_to_next();
  std::abort(); /* an ended fiber is not resumed */
}

/* Allocates stacks for at least n fibers. */
static void make_stacks(int n)
{
  static int n_made;
  if (!stacks) {
    const size_t bytes = (size_t) MAX_THREADS * STACK_ROOM;
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) die("no memory for the stacks of fibers");
    stacks = (char *) memory;
  }
  for (; n_made < n; n_made++)
    if (mprotect(stacks + (size_t) n_made * STACK_ROOM, 4096, PROT_NONE)) die("mprotect failed for a fiber's stack");
}

static void start_fiber(int k, dim3 place)
{
  fiber &f = block.fibers[k];
  char *const top = stacks + (size_t) (k + 1) * STACK_ROOM;
  f.place = place;
  f.has_waited = 0;
  block.warps[k / 32].ready |= 1u << k % 32;
#if defined(__x86_64__)
  void **words = (void **) (void *) top;
  words[-1] = nullptr;
  words[-2] = (void *) fiber_main;
  for (int r = 3; r <= 8; r++) words[-r] = nullptr;
  f.context = words - 8;
#else
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = top - STACK_BYTES;
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

/* order = 0 .. n-1, permuted if the seed is not 0. */
static void make_order(int *order, int n, unsigned *seed)
{
  for (int k = 0; k < n; k++) order[k] = k;
  for (int k = n - 1; *seed && k > 0; k--) std::swap(order[k], order[random_next(seed) % (unsigned) (k + 1)]);
}

/* Index of the next thread. */
static void step_place(dim3 *place, const dim3 &size)
{
  if (++place->x < size.x) return;
  place->x = 0;
  if (++place->y < size.y) return;
  place->y = 0;
  place->z++;
}

static void run_fibers(unsigned *seed)
{
  const int n = block.n_threads;
  dim3 place(0, 0, 0);
  make_stacks(n);
  block.n_ended = block.n_waiting = block.warp_index = 0;
  block.lane_index = -1;
  block.n_warps = (n + 31) / 32;
  for (int w = 0; w < block.n_warps; w++) {
    warp &own = block.warps[w];
    own.ready = own.waiting = own.ended = 0;
    for (int lane = n - w * 32; lane < 32; lane++) own.ended |= 1u << lane;
  }
  for (int k = 0; k < n; k++, step_place(&place, cudasim_here.blockDim)) start_fiber(k, place);
  make_order(block.lanes, 32, seed);
  make_order(block.order, block.n_warps, seed);
#if CUDASIM_ASAN
  void *fake_stack = nullptr;
  block.scheduler_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stacks, (size_t) n * STACK_ROOM);
#endif
  run_fiber(&block.scheduler, next_fiber());
#if CUDASIM_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  block.current = -1;
}

static void run_loop(unsigned seed)
{
  const int n = block.n_threads;
  const dim3 &d = cudasim_here.blockDim;
  dim3 place(0, 0, 0);
  for (int t = 0; t < n; t++, step_place(&place, d)) {
    const int k = n - 1 - t;
    cudasim_here.threadIdx = seed ? dim3(k % d.x, k / d.x % d.y, k / d.x / d.y) : place;
    has_waited() = 0;
    (*block.thread)();
    check_waited();
  }
}

void run_grid(const cudasim_launch_info &info, const std::function<void()> &thread)
{
  static std::vector<int> order;
  const dim3 &g = info.grid;
  unsigned seed = state.shuffle ? state.shuffle + (unsigned) state.n_launches * 7919u : 0;
  if (block.info) die("launches another kernel");
  if (state.trace)
    std::fprintf(stderr, "cudasim: %s: %u blocks of %u threads\n", info.name, g.x * g.y * g.z,
                 info.block.x * info.block.y * info.block.z);
  device_access access;
  block.info = &info;
  block.thread = &thread;
  block.n_threads = (int) (info.block.x * info.block.y * info.block.z);
  block.current = -1;
  cudasim_here.gridDim = info.grid;
  cudasim_here.blockDim = info.block;
  order.resize((size_t) g.x * g.y * g.z);
  make_order(order.data(), (int) order.size(), &seed);
  for (int k : order) {
    cudasim_here.blockIdx = dim3(k % g.x, k / g.x % g.y, k / g.x / g.y);
    if (info.independent) {
      run_loop(seed);
    } else {
      begin_shared();
      run_fibers(&seed);
    }
  }
  block.info = nullptr;
}

/* ---- barriers ---- */

static void check_may_wait(const char *what)
{
  if (!block.info) die("%s outside of a kernel", what);
  if (block.info->independent) die("%s in a kernel that was launched as independent threads", what);
}

/* Barrier of the lanes of mask, which must all call it on the same line. The last one distributes the values. */
static void wait_for_warp(unsigned mask, const char *what, int line)
{
  warp &w = block.warps[block.current / 32];
  const unsigned own = 1u << (block.current % 32);
  if (!(mask & own)) die("%s (line %d) by a lane that is not in its mask %08x", what, line, mask);
  if (mask & w.ended) die("%s (line %d) with mask %08x, but lanes %08x have ended", what, line, mask, w.ended);
  if (!w.waiting) {
    w.mask = mask;
    w.what = what;
    w.line = line;
  }
  if (w.mask != mask || w.line != line || (w.what != what && std::strcmp(w.what, what)))
    die("divergent barrier: %s (line %d, mask %08x), but other lanes of the warp wait at %s (line %d, mask %08x)", what,
        line, mask, w.what, w.line, w.mask);
  w.waiting |= own;
  if (w.waiting != w.mask) {
    switch_to_next();
    return;
  }
  w.waiting = 0;
  w.ready |= mask & ~own;
  uint64_t votes = 0;
  for (int lane = 0; lane < 32; lane++)
    if (mask >> lane & 1 && w.given[lane]) votes |= (uint64_t) 1 << lane;
  for (int lane = 0; lane < 32; lane++) {
    if (!(mask >> lane & 1)) continue;
    const int source = w.source[lane];
    if (source >= 0 && !(mask >> source & 1))
      die("%s (line %d) reads lane %d, which is not in mask %08x", what, line, source, mask);
    w.taken[lane] = source < 0 ? votes : w.given[source];
  }
}

} // namespace cudasim

using namespace cudasim;

void cudasim_block_barrier(int line)
{
  check_may_wait("__syncthreads");
  if (block.n_ended)
    die("divergent barrier: __syncthreads (line %d), but %d threads of the block have ended", line, block.n_ended);
  if (block.n_waiting && block.line != line)
    die("divergent barrier: __syncthreads (line %d), but others wait at line %d", line, block.line);
  block.line = line;
  if (++block.n_waiting < block.n_threads) {
    switch_to_next();
    return;
  }
  block.n_waiting = 0;
  for (int w = 0; w < block.n_warps; w++) block.warps[w].ready = ~block.warps[w].ended;
  block.warps[block.current / 32].ready &= ~(1u << block.current % 32);
}

void cudasim_grid_dependency_wait()
{
  if (!block.info) die("grid_dependency_wait outside of a kernel");
  has_waited() = 1;
}

int cudasim_lane()
{
  return block.current % 32;
}

uint64_t cudasim_warp_exchange(unsigned mask, uint64_t bits, int source, const char *what, int line)
{
  check_may_wait(what);
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
  check_may_wait("shared memory");
  return allocate_shared(key, bytes);
}

void *cudasim_shared_dynamic()
{
  check_may_wait("shared memory");
  if (!block.info->shared) die("was launched without dynamic shared memory");
  return shared.bytes;
}
