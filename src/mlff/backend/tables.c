/* tables.c: tables derived from a backend's table: without fused operations, and for forecasts on the CPU.
 *
 * In a forecast, operations that reserve buffers are those of reserve.h. All others do nothing (op_list.h). The scratch
 * of the AEVs, some kB, is not counted.
 */
#include "tables.h"

#include "reserve.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of empty bodies */

#define DONE_void
#define DONE_mlff_status MLFF_OK

#define DEFINE_RUNS(...)
#define DEFINE_RESERVES(...)
#define DEFINE_SKIPPED(name, returns, parameters) \
  static returns dry_##name parameters            \
  {                                               \
    return DONE_##returns;                        \
  }
#define OP(name, returns, parameters, arguments, span, forecast, bodies) DEFINE_##forecast(name, returns, parameters)
#include "op_list.h"

#define FILL_RUNS(name)
#define FILL_RESERVES(name) dry->name = mlff_reserve_##name;
#define FILL_SKIPPED(name) dry->name = dry_##name;

void mlff_ops_fill_dry(mlff_ops *dry, const mlff_ops *plain)
{
  *dry = *plain;
  dry->painn_depth_first = 0; /* without a halo, although the list may contain nodes of other ranks */
#define OP(name, returns, parameters, arguments, span, forecast, bodies) FILL_##forecast(name)
#include "op_list.h"
}

#define UNFUSED_BOTH(op) op
#define UNFUSED_GPU_ONLY(op) op
#define UNFUSED_FUSED(op) NULL

void mlff_ops_fill_unfused(mlff_ops *unfused, const mlff_ops *plain)
{
  *unfused = *plain;
#define OP(name, returns, parameters, arguments, span, forecast, bodies) unfused->name = UNFUSED_##bodies(plain->name);
#include "op_list.h"
  unfused->ani_members = 1;
}
