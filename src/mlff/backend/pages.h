/* pages.h: memory of a CPU backend, in a few regions that are aligned to huge pages.
 *
 * A step reads rows of some kB scattered over several MB, which misses the TLB with pages of 4 KiB. Huge pages take 0
 * to 10 % less time (Ice Lake, virtual machine). If transparent huge pages are off
 * (/sys/kernel/mm/transparent_hugepage/enabled is never), these are plain pages. With AddressSanitizer every array is
 * allocated by malloc, to detect overruns.
 */
#ifndef MLFF_PAGES_H
#define MLFF_PAGES_H

#include <stddef.h>

/* Zero-initialise. Empty regions, and free huge pages, are returned to the system. */
typedef struct mlff_pages {
  struct mlff_region *regions;
  size_t bytes; /* of all regions */
} mlff_pages;

/* Allocates `bytes` (at least one), aligned to 64; NULL if memory is short. */
void *mlff_pages_alloc(mlff_pages *pages, size_t bytes);
/* data: from mlff_pages_alloc, or NULL. */
void mlff_pages_release(mlff_pages *pages, void *data);

#endif
