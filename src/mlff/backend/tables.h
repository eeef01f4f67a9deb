/* tables.h: tables of operations derived from a backend's table. */
#ifndef MLFF_BACKEND_TABLES_H
#define MLFF_BACKEND_TABLES_H

#include "ops.h"

/* For memory forecasts: operations that only reserve buffers. */
void mlff_ops_fill_dry(mlff_ops *dry, const mlff_ops *plain);

/* Without fused operations (mlff_options.fuse "no"). */
void mlff_ops_fill_unfused(mlff_ops *unfused, const mlff_ops *plain);

#endif
