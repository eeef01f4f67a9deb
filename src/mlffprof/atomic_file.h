/* atomic_file.h: files that are complete at any moment. */
#ifndef MLFFPROF_ATOMIC_FILE_H
#define MLFFPROF_ATOMIC_FILE_H

#include "status.h"

typedef mlffprof_status mlffprof_write_content(FILE *out, const void *user, mlffprof_error *error);

/* Writes a file by `write`: into a new file beside it, synchronised, then renamed, and the directory synchronised.
 * What is not a regular file (a pipe, /dev/null) is written to directly. On failure the old file is as it was. */
mlffprof_status mlffprof_atomic_write(const char *path, mlffprof_write_content *write, const void *user,
                                      mlffprof_error *error);

#endif
