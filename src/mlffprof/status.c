/* status.c: errors, and the names of what the JSON calls by name. */
#include "status.h"

#include <stdarg.h>

mlffprof_status mlffprof_fail(mlffprof_error *error, mlffprof_status code, const char *format, ...)
{
  if (error) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    error->code = code;
  }
  return code;
}

const char *mlffprof_status_name(mlffprof_status status)
{
  static const char *const names[] = {"MLFFPROF_OK",   "MLFFPROF_E_ARG",    "MLFFPROF_E_NOMEM",
                                      "MLFFPROF_E_IO", "MLFFPROF_E_FORMAT", "MLFFPROF_E_UNSUPPORTED"};
  const int n = (int) (sizeof names / sizeof names[0]);
  return (int) status >= 0 && (int) status < n ? names[status] : "unknown status";
}

const char *mlffprof_tag_name(int bit)
{
  static const char *const names[MLFFPROF_N_TAGS] = {"neighbor_rebuild", "box_change", "buffer_growth",
                                                     "output",           "other_rank", "graph_capture"};
  return bit >= 0 && bit < MLFFPROF_N_TAGS ? names[bit] : NULL;
}

const char *mlffprof_quantity_name(mlffprof_quantity_id id)
{
  static const char *const names[MLFFPROF_N_QUANTITIES] = {"potential",   "kinetic",  "total", "conserved",
                                                           "temperature", "pressure", "volume"};
  return (int) id >= 0 && id < MLFFPROF_N_QUANTITIES ? names[id] : NULL;
}

const char *mlffprof_verdict_name(mlffprof_verdict verdict)
{
  static const char *const names[] = {"unknown", "stable", "growing", "leak"};
  return (int) verdict >= 0 && (int) verdict < 4 ? names[verdict] : "unknown";
}
