/* status.h: raising and passing on errors inside the engine. */
#ifndef MLFF_STATUS_H
#define MLFF_STATUS_H

#include "../base/status.h"
#include "mlff/mlff.h"

/* Writes code and printf-style text into error (NULL allowed) and returns code. */
mlff_status mlff_fail(mlff_error *error, mlff_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* An error of base as one of the engine. */
mlff_status mlff_fail_as(mlff_error *error, const mlff_fault *fault);

/* Keeps the first failure where a step goes on after one, so that no rank waits for this one. */
static inline void mlff_keep_first(mlff_status *first, mlff_status status)
{
  if (!*first) *first = status;
}

/* Returns from the calling function when `call` fails. Only where nothing is owned; otherwise `goto done`. */
#define MLFF_TRY(call)                             \
  do {                                             \
    const mlff_status mlff_try_status_ = (call);   \
    if (mlff_try_status_) return mlff_try_status_; \
  } while (0)

#endif
