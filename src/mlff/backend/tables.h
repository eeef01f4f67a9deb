/* tables.h: tables of operations that are made of a backend's own. */
#ifndef MLFF_BACKEND_TABLES_H
#define MLFF_BACKEND_TABLES_H

#include "ops.h"

/* For forecasts of memory: operations that reserve buffers and do nothing else. */
void mlff_ops_fill_dry(mlff_ops *dry, const mlff_ops *plain);

/* For users who want no fused operations: those that there are do one thing at a time. */
void mlff_ops_fill_unfused(mlff_ops *unfused, const mlff_ops *plain);

#endif
