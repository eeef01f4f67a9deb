/* api.c: errors, names, version and sizes of the C API. */
#include "../errors.h"

#include "mlff/mlff_watch.h"
#include "mlff/mlff_xyz.h"

#include <string.h>

MLFF_DEFINE_FAIL(mlff, MLFF);

const char *mlff_status_name(mlff_status status)
{
  static const char *const names[] = {"MLFF_OK",       "MLFF_E_ARG",         "MLFF_E_NOMEM",  "MLFF_E_IO",
                                      "MLFF_E_FORMAT", "MLFF_E_UNSUPPORTED", "MLFF_E_DEVICE", "MLFF_E_NUMERIC"};
  const int n = (int) (sizeof names / sizeof names[0]);
  return (int) status >= 0 && (int) status < n ? names[status] : "unknown status";
}

const char *mlff_version(void)
{
  return MLFF_VERSION;
}

size_t mlff_size_of(const char *type)
{
  static const struct {
    const char *name;
    size_t size;
  } types[] = {{"mlff_error", sizeof(mlff_error)},
               {"mlff_options", sizeof(mlff_options)},
               {"mlff_graph", sizeof(mlff_graph)},
               {"mlff_result", sizeof(mlff_result)},
               {"mlff_info", sizeof(mlff_info)},
               {"mlff_memory", sizeof(mlff_memory)},
               {"mlff_option", sizeof(mlff_option)},
               {"mlff_finding", sizeof(mlff_finding)},
               {"mlff_watch_system", sizeof(mlff_watch_system)},
               {"mlff_xyz_key", sizeof(mlff_xyz_key)},
               {"mlff_xyz_column", sizeof(mlff_xyz_column)},
               {"mlff_xyz_frame", sizeof(mlff_xyz_frame)}};
  for (size_t k = 0; k < sizeof types / sizeof *types; k++)
    if (!strcmp(types[k].name, type)) return types[k].size;
  return 0;
}
