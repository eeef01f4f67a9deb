/* pages.c: see pages.h. A region is a row of blocks, each behind a header; the first free one that is long enough is cut. */
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
  struct block *before, *after; /* neighbours in the region */
  size_t bytes;                 /* without this header */
  int is_free;
} block;

enum { HEADER = (sizeof(block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT };

typedef struct mlff_region {
  struct mlff_region *next;
  size_t bytes;
  block *first;
} mlff_region;

static size_t round_up(size_t bytes, size_t to)
{
  return (bytes + to - 1) / to * to;
}

/* As large as a quarter of what there is, so that there are few. */
static mlff_region *add_region(mlff_pages *pages, size_t bytes)
{
  const size_t least = bytes + 2 * (size_t) HEADER, more = pages->bytes / 4;
  const size_t size = round_up(least > more ? least : more, HUGE_PAGE);
  mlff_region *region = aligned_alloc(HUGE_PAGE, size);
  if (!region) return NULL;
#ifdef MADV_HUGEPAGE
  madvise(region, size, MADV_HUGEPAGE); /* a failure costs speed, nothing else */
#endif
  block *all = (block *) (void *) ((char *) region + HEADER);
  *region = (mlff_region){.next = pages->regions, .bytes = size, .first = all};
  *all = (block){.region = region, .bytes = size - 2 * (size_t) HEADER, .is_free = 1};
  pages->regions = region;
  pages->bytes += size;
  return region;
}

static block *find(const mlff_region *region, size_t bytes)
{
  for (block *b = region->first; b; b = b->after)
    if (b->is_free && b->bytes >= bytes) return b;
  return NULL;
}

/* Cuts what is too much off the block, where that is enough for another one. */
static void cut(block *b, size_t bytes)
{
  if (b->bytes < bytes + HEADER + ALIGNMENT) return;
  block *rest = (block *) (void *) ((char *) b + HEADER + bytes);
  *rest =
      (block){.region = b->region, .before = b, .after = b->after, .bytes = b->bytes - bytes - HEADER, .is_free = 1};
  if (b->after) b->after->before = rest;
  b->after = rest;
  b->bytes = bytes;
}

void *mlff_pages_alloc(mlff_pages *pages, size_t bytes)
{
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = round_up(bytes, ALIGNMENT);
  if (PLAIN) return aligned_alloc(ALIGNMENT, bytes);
  block *b = NULL;
  for (const mlff_region *r = pages->regions; r && !b; r = r->next) b = find(r, bytes);
  if (!b) {
    const mlff_region *region = add_region(pages, bytes);
    if (!region) return NULL;
    b = region->first;
  }
  cut(b, bytes);
  b->is_free = 0;
  return (char *) b + HEADER;
}

/* Adds the block behind b to b, if both are free. */
static void join(block *b)
{
  block *after = b->after;
  if (!b->is_free || !after || !after->is_free) return;
  b->bytes += HEADER + after->bytes;
  b->after = after->after;
  if (b->after) b->after->before = b;
}

static void drop_region(mlff_pages *pages, mlff_region *region)
{
  mlff_region **link = &pages->regions;
  while (*link != region) link = &(*link)->next;
  *link = region->next;
  pages->bytes -= region->bytes;
  free(region);
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
  if (b->before) join(b->before);
  if (region->first->is_free && !region->first->after) drop_region(pages, region);
}
