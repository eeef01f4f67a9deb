/* status.h: raising and passing on errors inside the profiler library. */
#ifndef MLFFPROF_STATUS_H
#define MLFFPROF_STATUS_H

#include "../base/status.h"
#include "mlff/mlffprof.h"

/* Writes code and printf-style text into error (NULL allowed) and returns code. */
mlffprof_status mlffprof_fail(mlffprof_error *error, mlffprof_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Ends what was written to a stream: an error, "WHAT cannot be written: ...", where any of it has failed. */
mlffprof_status mlffprof_flushed(FILE *out, const char *what, mlffprof_error *error);

/* An error of base as one of this library. */
mlffprof_status mlffprof_fail_as(mlffprof_error *error, const mlff_fault *fault);

/* Returns from the calling function when `call` fails. Only where nothing is owned. */
#define MLFFPROF_TRY(call)                                 \
  do {                                                     \
    const mlffprof_status mlffprof_try_status_ = (call);   \
    if (mlffprof_try_status_) return mlffprof_try_status_; \
  } while (0)

#endif
