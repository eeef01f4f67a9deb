/* resident.c: see resident.h. */
#define _DEFAULT_SOURCE

#include "resident.h"

#if defined(__linux__)
#include <stdio.h>
#include <unistd.h>

/* The second and third number of /proc/self/statm, in pages. */
void mlff_resident(int64_t *resident, int64_t *of_files)
{
  long long size = 0, pages = 0, file_pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  const int n = file ? fscanf(file, "%lld %lld %lld", &size, &pages, &file_pages) : 0;
  if (file) fclose(file);
  *resident = n == 3 ? (int64_t) pages * (int64_t) sysconf(_SC_PAGESIZE) : -1;
  *of_files = n == 3 ? (int64_t) file_pages * (int64_t) sysconf(_SC_PAGESIZE) : -1;
}
#else
void mlff_resident(int64_t *resident, int64_t *of_files)
{
  *resident = *of_files = -1;
}
#endif
