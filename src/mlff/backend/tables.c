/* tables.c: tables of operations that are made of a backend's own: without fused ones, and of a forecast on a backend
 * whose own operations compute whatever they are asked.
 *
 * Of a forecast, those that reserve buffers are the plain ones, which stop after that while backend->forecast is set.
 * All others do nothing (op_list.h says which). The scratch of the AEVs, some kB for one atom at a time, is left out.
 */
#include "tables.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* nothing is done with them */

#define DONE_void
#define DONE_mlff_status MLFF_OK

#define DEFINE_RUNS(...)
#define DEFINE_SKIPPED(name, returns, parameters) \
  static returns dry_##name parameters            \
  {                                               \
    return DONE_##returns;                        \
  }
#define OP(name, returns, parameters, arguments, span, forecast, bodies) DEFINE_##forecast(name, returns, parameters)
#include "op_list.h"

#define FILL_RUNS(name)
#define FILL_SKIPPED(name) dry->name = dry_##name;

void mlff_ops_fill_dry(mlff_ops *dry, const mlff_ops *plain)
{
  *dry = *plain;
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
