/* dry.h: operations that reserve buffers and do nothing else, for forecasts of memory. */
#ifndef MLFF_BACKEND_DRY_H
#define MLFF_BACKEND_DRY_H

#include "ops.h"

void mlff_ops_fill_dry(mlff_ops *dry, const mlff_ops *plain);

#endif
