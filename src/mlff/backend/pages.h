/* pages.h: memory of a CPU backend, in few regions that begin and end where huge pages do.
 *
 * A step reads rows of some kB from all over several MB. With pages of 4 KiB the processor looks up more addresses than
 * it can remember. Measured three times (Ice Lake, in a virtual machine, up to 13 rounds in turn): less time by 1 to 5
 * % for the student in boxes of 192 atoms, 0 to 9 % in larger ones, 7 to 10 % for the teacher; once 2 to 6 % more for
 * the student, where the system may have had its small pages in good order. Where transparent huge pages are off
 * (/sys/kernel/mm/transparent_hugepage/enabled says never) these are plain pages. With AddressSanitizer every array is
 * malloc's own, so that it sees what lies beside it.
 */
#ifndef MLFF_PAGES_H
#define MLFF_PAGES_H

#include <stddef.h>

/* Zero-initialise. Regions go back to the system when nothing is left in them, and memory of free huge pages before. */
typedef struct mlff_pages {
  struct mlff_region *regions;
  size_t bytes; /* of all regions */
} mlff_pages;

/* `bytes` (at least one), aligned to 64; NULL when there is no memory. */
void *mlff_pages_alloc(mlff_pages *pages, size_t bytes);
/* data: of mlff_pages_alloc, or NULL */
void mlff_pages_release(mlff_pages *pages, void *data);

#endif
