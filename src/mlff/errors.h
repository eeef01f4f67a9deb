/* errors.h: errors of the engine. */
#ifndef MLFF_ERRORS_H
#define MLFF_ERRORS_H

#include "../base/status.h"
#include "mlff/mlff.h"

MLFF_DECLARE_FAIL(mlff);

/* Keeps the first failure of a step that continues, so that other ranks do not wait. */
static inline void mlff_keep_first(mlff_status *first, mlff_status status)
{
  if (!*first) *first = status;
}

#endif
