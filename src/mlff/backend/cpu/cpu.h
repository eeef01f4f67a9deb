/* cpu.h: declarations of the CPU ops, with the name suffix of this compilation (simd.h). */
#ifndef MLFF_CPU_H
#define MLFF_CPU_H

#include "../ops.h"
#include "../reserve.h"
#include "simd.h"

typedef vreal mlff_value;
#define MLFF_MATH MLFF_INLINE
#include "../ops_math.h"

#define OP(name, returns, parameters, arguments, span, forecast, bodies) returns MLFF_CPU(name##_cpu) parameters;
#define OP_HOST(...)
#include "../op_list.h"

/* table.c, linear_mixed.c: fill the table of this compilation; replace GEMMs by those in bf16. */
void MLFF_CPU(ops_cpu)(mlff_ops *);
void MLFF_CPU(ops_mixed)(mlff_ops *);

/* roof.c */
double MLFF_CPU(roof_fma)(int64_t n, double *flop);
double MLFF_CPU(roof_read)(const void *data, int64_t bytes, int64_t times);

#endif
