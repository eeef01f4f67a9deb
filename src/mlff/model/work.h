/* work.h: what operations have to do, counted from their arguments. */
#ifndef MLFF_WORK_H
#define MLFF_WORK_H

#include "../backend/ops.h"

/* Of one call. flop: floating-point operations of the formulas in ops.h and in the headers of the families, a
 * multiplication with an addition as two. bytes: of the arrays that a call reads and writes, once for each element, and
 * for each edge what it gathers from a neighbour. */
typedef struct mlff_work {
  double flop, bytes;
} mlff_work;

/* A function for each operation that is counted, with the operation's arguments; NULL for the others. Called before the
 * operation. Arrays of edges are read, so that it is for CPUs alone. */
typedef struct mlff_work_table {
#define OP(name, returns, parameters, arguments, span, forecast, bodies) mlff_work(*name) parameters;
#include "../backend/op_list.h"
} mlff_work_table;

extern const mlff_work_table mlff_works;

#endif
