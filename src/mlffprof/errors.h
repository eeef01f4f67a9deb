/* errors.h: errors of the profiler library. */
#ifndef MLFFPROF_ERRORS_H
#define MLFFPROF_ERRORS_H

#include "../base/status.h"
#include "mlff/mlffprof.h"

MLFF_DECLARE_FAIL(mlffprof);

/* Flushes a stream. An error, "WHAT cannot be written: ...", if any write to it has failed. */
mlffprof_status mlffprof_flushed(FILE *out, const char *what, mlffprof_error *error);

#endif
