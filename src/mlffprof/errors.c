/* errors.c: see errors.h. */
#include "errors.h"

#include <errno.h>
#include <string.h>

MLFF_DEFINE_FAIL(mlffprof, MLFFPROF);

mlffprof_status mlffprof_flushed(FILE *out, const char *what, mlffprof_error *error)
{
  if (!fflush(out) && !ferror(out)) return MLFFPROF_OK;
  return mlffprof_fail(error, MLFFPROF_E_IO, "%s cannot be written: %s", what, strerror(errno));
}

const char *mlffprof_status_name(mlffprof_status status)
{
  static const char *const names[] = {"MLFFPROF_OK",   "MLFFPROF_E_ARG",    "MLFFPROF_E_NOMEM",
                                      "MLFFPROF_E_IO", "MLFFPROF_E_FORMAT", "MLFFPROF_E_UNSUPPORTED"};
  const int n = (int) (sizeof names / sizeof names[0]);
  return (int) status >= 0 && (int) status < n ? names[status] : "unknown status";
}
