/* pages.c: see pages.h.
 *
 * A region is a sequence of blocks with headers. Blocks are taken from the ends of free ones and regions grow at their
 * beginning, where the system places new mappings, so that free memory is contiguous: at most a part of one huge page
 * is unused, unless another mapping is in the way.
 */
#define _GNU_SOURCE
#include "pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIN 1
#endif
#endif
#ifndef PLAIN
#define PLAIN 0
#endif

enum { ALIGNMENT = 64, HUGE_PAGE = 1 << 21 };

typedef struct block {
  struct mlff_region *region;
  struct block *previous, *next; /* adjacent blocks of the region */
  size_t bytes;                  /* without this header */
  int is_free;
} block;

enum { HEADER = (sizeof(block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT };

typedef struct mlff_region {
  struct mlff_region *next;
  size_t bytes;
  block *first; /* first block */
} mlff_region;

static size_t round_up(size_t bytes, size_t unit)
{
  return (bytes + unit - 1) / unit * unit;
}

/* Maps whole huge pages at `address`, or anywhere if it is NULL. NULL if that fails. */
static char *map(char *address, size_t bytes)
{
  const size_t more = address ? 0 : HUGE_PAGE;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_FIXED_NOREPLACE
  if (address) flags |= MAP_FIXED_NOREPLACE;
#endif
  char *data = mmap(address, bytes + more, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (data == MAP_FAILED) return NULL;
  if (address && data != address) {
    munmap(data, bytes);
    return NULL;
  }
  const size_t skip = address ? 0 : round_up((uintptr_t) data, HUGE_PAGE) - (uintptr_t) data;
  if (skip) munmap(data, skip);
  if (more - skip) munmap(data + skip + bytes, more - skip);
#ifdef MADV_HUGEPAGE
  madvise(data + skip, bytes, MADV_HUGEPAGE); /* optional: failure only costs speed */
#endif
  return data + skip;
}

/* Merges b and the next block if both are free. */
static void join(block *b)
{
  block *after = b->next;
  if (!b->is_free || !after || !after->is_free) return;
  b->bytes += HEADER + after->bytes;
  b->next = after->next;
  if (b->next) b->next->previous = b;
}

/* Adds a free block of new memory before the first one. */
static void put_first(mlff_pages *pages, mlff_region *region, char *data, size_t bytes)
{
  block *b = (block *) (void *) data;
  *b = (block){.region = region, .next = region->first, .bytes = bytes - HEADER, .is_free = 1};
  if (region->first) region->first->previous = b;
  region->first = b;
  region->bytes += bytes;
  pages->bytes += bytes;
  join(b);
}

/* Grows the first block of the newest region to at least `bytes`. */
static int grow(mlff_pages *pages, size_t bytes)
{
  mlff_region *region = pages->regions;
  const size_t free_bytes = region && region->first->is_free ? region->first->bytes : 0;
  const size_t missing = round_up(bytes - free_bytes, HUGE_PAGE);
  if (!region || (uintptr_t) region->first <= missing) return 0;
  char *data = map((char *) region->first - missing, missing);
  if (data) put_first(pages, region, data, missing);
  return data != NULL;
}

static int add_region(mlff_pages *pages, size_t bytes)
{
  const size_t size = round_up(bytes + HEADER, HUGE_PAGE);
  mlff_region *region = calloc(1, sizeof *region);
  char *data = region ? map(NULL, size) : NULL;
  if (!data) {
    free(region);
    return 0;
  }
  region->next = pages->regions;
  pages->regions = region;
  put_first(pages, region, data, size);
  return 1;
}

static block *find(const mlff_pages *pages, size_t bytes)
{
  for (const mlff_region *r = pages->regions; r; r = r->next)
    for (block *b = r->first; b; b = b->next)
      if (b->is_free && b->bytes >= bytes) return b;
  return NULL;
}

/* Takes the end of a free block, or all of it if the rest is too small. */
static block *take(block *b, size_t bytes)
{
  if (b->bytes < bytes + HEADER + ALIGNMENT) return b;
  b->bytes -= bytes + HEADER;
  block *end = (block *) (void *) ((char *) b + HEADER + b->bytes);
  *end = (block){.region = b->region, .previous = b, .next = b->next, .bytes = bytes};
  if (end->next) end->next->previous = end;
  b->next = end;
  return end;
}

void *mlff_pages_alloc(mlff_pages *pages, size_t bytes)
{
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = round_up(bytes, ALIGNMENT);
  if (PLAIN) return aligned_alloc(ALIGNMENT, bytes);
  block *b = find(pages, bytes);
  if (!b && (grow(pages, bytes + HEADER) || add_region(pages, bytes))) b = find(pages, bytes);
  if (!b) return NULL;
  b = take(b, bytes);
  b->is_free = 0;
  return (char *) b + HEADER;
}

static void drop_region(mlff_pages *pages, mlff_region *region)
{
  mlff_region **link = &pages->regions;
  while (*link != region) link = &(*link)->next;
  *link = region->next;
  pages->bytes -= region->bytes;
  munmap(region->first, region->bytes);
  free(region);
}

/* Returns the huge pages within a free block to the system, for example those of a self-test's networks between those
 * of the run and its arrays. The addresses stay reserved. */
static void empty(const block *b)
{
  const uintptr_t data = (uintptr_t) b + HEADER;
  const uintptr_t begin = round_up(data, HUGE_PAGE), end = (data + b->bytes) / HUGE_PAGE * HUGE_PAGE;
  if (begin < end) madvise((char *) b + (begin - (uintptr_t) b), end - begin, MADV_DONTNEED); /* optional */
}

void mlff_pages_release(mlff_pages *pages, void *data)
{
  if (PLAIN) {
    free(data);
    return;
  }
  if (!data) return;
  block *b = (block *) (void *) ((char *) data - HEADER);
  mlff_region *region = b->region;
  b->is_free = 1;
  join(b);
  block *const before = b->previous;
  const int has_joined = before && before->is_free;
  if (has_joined) join(before);
  if (region->first->is_free && !region->first->next)
    drop_region(pages, region);
  else
    empty(has_joined ? before : b);
}
