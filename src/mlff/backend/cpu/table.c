/* table.c: the op table of one CPU backend; compiled once for each element type and instruction set. */
#include "cpu.h"

#define BODY_BOTH(body) body
#define BODY_GPU_ONLY(body) NULL
#define BODY_FUSED(body) NULL

void MLFF_CPU(ops_cpu)(mlff_ops *ops)
{
#define OP(name, returns, parameters, arguments, span, forecast, bodies) \
  ops->name = BODY_##bodies(MLFF_CPU(name##_cpu));
#define OP_HOST(...)
#define OP_SIZE(name, cpu, gpu) ops->name = cpu;
#include "../op_list.h"
}
