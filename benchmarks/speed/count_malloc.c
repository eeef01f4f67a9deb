/* count_malloc.c: counts heap allocations of a program, for the claim that a settled step makes none.
 *
 *   cc -shared -fPIC -O2 count_malloc.c -o count_malloc.so;  LD_PRELOAD=./count_malloc.so program
 *
 * On exit the count and the name of the program are written to file descriptor 2. Needs glibc, whose own functions do
 * the work.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static atomic_long count;

static void add_one(void)
{
  atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
  add_one();
  return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
  add_one();
  return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
  add_one();
  return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
  add_one();
  return __libc_memalign(alignment, size);
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

__attribute__((destructor)) static void report(void)
{
  char text[256];
  const int length =
      snprintf(text, sizeof(text), "allocations %ld of %.100s\n", atomic_load(&count), program_invocation_short_name);
  if (length > 0 && write(STDERR_FILENO, text, (size_t) length) < 0) return;
}
