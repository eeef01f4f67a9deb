/* work.h: work of operations, counted from their arguments. */
#ifndef MLFF_WORK_H
#define MLFF_WORK_H

#include "../backend/ops.h"

/* Work of one call. flop: floating-point operations of the formulas in ops.h and ops_*.h (multiply-add = 2). bytes:
 * arrays read and written, each element once, and the data gathered from neighbors, once per edge. */
typedef struct mlff_work {
  double flop, bytes;
} mlff_work;

/* A function per counted operation, with the operation's arguments; NULL for the others. Called before the operation.
 * Reads arrays of edges, so it is for CPUs only. */
typedef struct mlff_work_table {
#define OP(name, returns, parameters, arguments, span, forecast, bodies) mlff_work(*name) parameters;
#include "../backend/op_list.h"
} mlff_work_table;

extern const mlff_work_table mlff_works;

#endif
