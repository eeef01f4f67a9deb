/* atomic_file.h: files that are complete at any moment. */
#ifndef MLFF_BASE_ATOMIC_FILE_H
#define MLFF_BASE_ATOMIC_FILE_H

#include "status.h"

#include <stdio.h>

/* Writes what a file shall hold; what it returns, when not 0, is returned by mlff_atomic_write, without a fault. */
typedef int mlff_write_content(FILE *out, const void *user);

/* Writes a file by `write`: into a new file beside it, synchronised, then renamed, and the directory synchronised.
 * What is not a regular file (a pipe, /dev/null) is written to directly. On failure the old file is as it was. */
int mlff_atomic_write(const char *path, mlff_write_content *write, const void *user, mlff_fault *fault);

#endif
