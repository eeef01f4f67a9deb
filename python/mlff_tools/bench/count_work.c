/* count_work.c: counts heap allocations and MPI messages of a program, which no other load on the machine changes.
 *
 *   cc -shared -fPIC -O2 count_work.c -o count_work.so -ldl;  LD_PRELOAD=./count_work.so program
 *
 * On exit one line of counts with the name of the program is written to file descriptor 2. Needs glibc, whose own
 * functions do the work. The header of MPI is not needed: communicators, types and requests, int in some libraries and
 * pointers in others, are words that are passed on as they are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

/* live: bytes that were not freed, as large as glibc made them. */
static atomic_long allocations, bytes, live, messages, message_bytes;

/* Calls of MPI that this thread is in. What they allocate is not the program's work, and a matter of timing: MPICH makes
 * room of 1 MB for messages that come before their receiver asks for them. This kind of thread-local storage is read
 * without malloc. */
static __thread int in_mpi __attribute__((tls_model("initial-exec")));

static void add(atomic_long *number, size_t more)
{
  atomic_fetch_add_explicit(number, (long) more, memory_order_relaxed);
}

/* ---- heap -------------------------------------------------------------------------------------------------------- */

static void *taken(void *memory, size_t size)
{
  if (in_mpi) return memory;
  add(&allocations, 1);
  add(&bytes, size);
  add(&live, malloc_usable_size(memory));
  return memory;
}

static void given_back(void *memory)
{
  if (in_mpi) return;
  atomic_fetch_sub_explicit(&live, (long) malloc_usable_size(memory), memory_order_relaxed);
}

void *malloc(size_t size)
{
  return taken(__libc_malloc(size), size);
}

void *calloc(size_t n, size_t size)
{
  return taken(__libc_calloc(n, size), n * size);
}

void *realloc(void *old, size_t size)
{
  const size_t before = malloc_usable_size(old);
  void *memory = __libc_realloc(old, size);
  if (!memory && size) return NULL; /* the old one stays */
  if (!in_mpi) atomic_fetch_sub_explicit(&live, (long) before, memory_order_relaxed);
  return taken(memory, size);
}

void *memalign(size_t alignment, size_t size)
{
  return taken(__libc_memalign(alignment, size), size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
  return memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
  void *memory = memalign(alignment, size);
  if (!memory) return ENOMEM;
  *result = memory;
  return 0;
}

void free(void *memory)
{
  given_back(memory);
  __libc_free(memory);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef uintptr_t word;

/* A collective counts once for each rank that calls it, with what this rank puts in. */
static void sent(int n, word type)
{
  static int (*type_size)(word, int *);
  int size = 0;
  if (!type_size) type_size = (int (*)(word, int *)) dlsym(RTLD_NEXT, "MPI_Type_size");
  if (n > 0 && type_size) type_size(type, &size);
  add(&messages, 1);
  add(&message_bytes, (size_t) (n > 0 ? n : 0) * (size_t) size);
}

/* MPI's function `name`: its own is called after `first`. */
#define CALLS(name, first, arguments, values)                   \
  int name arguments;                                           \
  int name arguments                                            \
  {                                                             \
    static int(*own) arguments;                                 \
    if (!own) own = (int(*) arguments) dlsym(RTLD_NEXT, #name); \
    first;                                                      \
    in_mpi++;                                                   \
    const int result = own values;                              \
    in_mpi--;                                                   \
    return result;                                              \
  }

/* `n` elements of `type` are sent. */
#define SENDS(name, n, type, arguments, values) CALLS(name, sent(n, type), arguments, values)

#define POINT (word data, int n, word type, word to, word tag, word comm)
#define POINT_VALUES (data, n, type, to, tag, comm)
SENDS(MPI_Send, n, type, POINT, POINT_VALUES)
SENDS(MPI_Ssend, n, type, POINT, POINT_VALUES)
SENDS(MPI_Rsend, n, type, POINT, POINT_VALUES)
SENDS(MPI_Isend, n, type, (word data, int n, word type, word to, word tag, word comm, word request),
      (data, n, type, to, tag, comm, request))
SENDS(MPI_Sendrecv, n, type,
      (word data, int n, word type, word to, word tag, word in, word n_in, word type_in, word from, word tag_in,
       word comm, word status),
      (data, n, type, to, tag, in, n_in, type_in, from, tag_in, comm, status))

SENDS(MPI_Barrier, 0, 0, (word comm), (comm))
SENDS(MPI_Bcast, n, type, (word data, int n, word type, word root, word comm), (data, n, type, root, comm))
SENDS(MPI_Ibcast, n, type, (word data, int n, word type, word root, word comm, word request),
      (data, n, type, root, comm, request))
#define REDUCE (word data, word out, int n, word type, word op, word comm)
#define REDUCE_VALUES (data, out, n, type, op, comm)
SENDS(MPI_Allreduce, n, type, REDUCE, REDUCE_VALUES)
SENDS(MPI_Scan, n, type, REDUCE, REDUCE_VALUES)
SENDS(MPI_Iallreduce, n, type, (word data, word out, int n, word type, word op, word comm, word request),
      (data, out, n, type, op, comm, request))
SENDS(MPI_Reduce, n, type, (word data, word out, int n, word type, word op, word root, word comm),
      (data, out, n, type, op, root, comm))
SENDS(MPI_Gather, n, type, (word data, int n, word type, word out, word n_out, word type_out, word root, word comm),
      (data, n, type, out, n_out, type_out, root, comm))
SENDS(MPI_Gatherv, n, type,
      (word data, int n, word type, word out, word n_out, word at, word type_out, word root, word comm),
      (data, n, type, out, n_out, at, type_out, root, comm))
SENDS(MPI_Allgather, n, type, (word data, int n, word type, word out, word n_out, word type_out, word comm),
      (data, n, type, out, n_out, type_out, comm))
SENDS(MPI_Allgatherv, n, type, (word data, int n, word type, word out, word n_out, word at, word type_out, word comm),
      (data, n, type, out, n_out, at, type_out, comm))

static int n_ranks(word comm)
{
  static int (*comm_size)(word, int *);
  int n = 0;
  if (!comm_size) comm_size = (int (*)(word, int *)) dlsym(RTLD_NEXT, "MPI_Comm_size");
  if (comm_size) comm_size(comm, &n);
  return n;
}

static int sum(const int *numbers, word comm)
{
  int n = 0;
  for (int rank = n_ranks(comm) - 1; rank >= 0; rank--) n += numbers[rank];
  return n;
}

SENDS(MPI_Alltoall, n *n_ranks(comm), type,
      (word data, int n, word type, word out, word n_out, word type_out, word comm),
      (data, n, type, out, n_out, type_out, comm))
SENDS(MPI_Alltoallv, sum(n, comm), type,
      (word data, const int *n, word at, word type, word out, word n_out, word at_out, word type_out, word comm),
      (data, n, at, type, out, n_out, at_out, type_out, comm))

/* Others that may receive what others sent early, or free what those allocated. */
#define OTHER(name, arguments, values) CALLS(name, (void) 0, arguments, values)
OTHER(MPI_Init, (word n, word words), (n, words))
OTHER(MPI_Finalize, (void), ())
OTHER(MPI_Recv, (word data, int n, word type, word from, word tag, word comm, word status),
      (data, n, type, from, tag, comm, status))
OTHER(MPI_Irecv, (word data, int n, word type, word from, word tag, word comm, word request),
      (data, n, type, from, tag, comm, request))
OTHER(MPI_Iprobe, (word from, word tag, word comm, word flag, word status), (from, tag, comm, flag, status))
OTHER(MPI_Wait, (word request, word status), (request, status))
OTHER(MPI_Waitall, (int n, word requests, word statuses), (n, requests, statuses))
OTHER(MPI_Waitany, (int n, word requests, word which, word status), (n, requests, which, status))
OTHER(MPI_Test, (word request, word flag, word status), (request, flag, status))
OTHER(MPI_Testall, (int n, word requests, word flag, word statuses), (n, requests, flag, statuses))
OTHER(MPI_Request_free, (word request), (request))
OTHER(MPI_Type_contiguous, (int n, word type, word made), (n, type, made))
OTHER(MPI_Type_commit, (word type), (type))
OTHER(MPI_Type_free, (word type), (type))
OTHER(MPI_Comm_split, (word comm, int color, int key, word made), (comm, color, key, made))
OTHER(MPI_Comm_dup, (word comm, word made), (comm, made))
OTHER(MPI_Comm_create, (word comm, word group, word made), (comm, group, made))
OTHER(MPI_Comm_free, (word comm), (comm))
OTHER(MPI_Cart_create, (word comm, int n, word sizes, word periodic, int reorder, word made),
      (comm, n, sizes, periodic, reorder, made))

/* ---- report ------------------------------------------------------------------------------------------------------ */

__attribute__((destructor)) static void report(void)
{
  char text[300];
  const int length =
      snprintf(text, sizeof text,
               "\nwork: allocations %ld allocated_bytes %ld leaked_bytes %ld messages %ld message_bytes %ld "
               "of %.100s\n",
               atomic_load(&allocations), atomic_load(&bytes), atomic_load(&live), atomic_load(&messages),
               atomic_load(&message_bytes), program_invocation_short_name);
  if (length > 0 && write(STDERR_FILENO, text, (size_t) length) < 0) return;
}
