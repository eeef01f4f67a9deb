/* dry.c: the operations of a forecast on a backend whose own operations compute whatever they are asked.
 *
 * Those that reserve buffers (edges, radial, orb.graph) are the plain ones, which stop after that while backend->forecast
 * is set. All others do nothing. The scratch of the AEVs, some kB for one atom at a time, is left out.
 */
#include "dry.h"

#include "ops_simple.h"

static mlff_status dry_copy(mlff_backend *backend, void *to, const void *from, size_t bytes, mlff_error *error)
{
  (void) backend, (void) to, (void) from, (void) bytes, (void) error;
  return MLFF_OK;
}

static void dry_zero(mlff_backend *backend, void *data, size_t bytes)
{
  (void) backend, (void) data, (void) bytes;
}

static mlff_status dry_upload_reals(mlff_backend *backend, void *to, const double *from, int64_t n, mlff_error *error)
{
  (void) backend, (void) to, (void) from, (void) n, (void) error;
  return MLFF_OK;
}

static mlff_status dry_download_reals(mlff_backend *backend, double *to, const void *from, int64_t n, mlff_error *error)
{
  (void) backend, (void) to, (void) from, (void) n, (void) error;
  return MLFF_OK;
}

static mlff_status dry_exchange(mlff_backend *backend, const mlff_exchange_args *args, mlff_error *error)
{
  (void) backend, (void) args, (void) error;
  return MLFF_OK;
}

static mlff_status dry_exchange_sum(mlff_backend *backend, const mlff_halo *halo, void *rows, int64_t n_nodes,
                                    int64_t width, mlff_error *error)
{
  (void) backend, (void) halo, (void) rows, (void) n_nodes, (void) width, (void) error;
  return MLFF_OK;
}

static void dry_linear(mlff_backend *backend, const mlff_linear *linear, const mlff_linear_args *args)
{
  (void) backend, (void) linear, (void) args;
}

static mlff_status dry_forces(mlff_backend *backend, const mlff_forces_args *args, mlff_error *error)
{
  (void) backend, (void) args, (void) error;
  return MLFF_OK;
}

static mlff_status dry_aev(mlff_backend *backend, mlff_aev *aev, const mlff_aev_args *args, mlff_error *error)
{
  (void) backend, (void) aev, (void) args, (void) error;
  return MLFF_OK;
}

#define DEFINE_DRY(family, name, type, span)                                 \
  static void dry_##family##_##name(mlff_backend *backend, const type *args) \
  {                                                                          \
    (void) backend, (void) args;                                             \
  }
MLFF_SIMPLE_OPS(DEFINE_DRY)

void mlff_ops_fill_dry(mlff_ops *dry, const mlff_ops *plain)
{
  *dry = *plain;
  dry->upload = dry->download = dry_copy;
  dry->zero = dry_zero;
  dry->upload_reals = dry_upload_reals;
  dry->download_reals = dry_download_reals;
  dry->exchange_begin = dry->exchange_finish = dry_exchange;
  dry->exchange_sum = dry_exchange_sum;
  dry->linear = dry_linear;
  dry->forces = dry_forces;
  dry->ani.aev_forward = dry->ani.aev_backward = dry_aev;
#define FILL_DRY(family, name, type, span) dry->family.name = dry_##family##_##name;
  MLFF_SIMPLE_OPS(FILL_DRY)
}
