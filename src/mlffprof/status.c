/* status.c: see status.h. */
#include "status.h"

#include <errno.h>
#include <string.h>

mlffprof_status mlffprof_fail(mlffprof_error *error, mlffprof_status code, const char *format, ...)
{
  if (error) {
    va_list args;
    va_start(args, format);
    mlff_error_text(error->text, sizeof error->text, format, args);
    va_end(args);
    error->code = code;
  }
  return code;
}

mlffprof_status mlffprof_flushed(FILE *out, const char *what, mlffprof_error *error)
{
  if (!fflush(out) && !ferror(out)) return MLFFPROF_OK;
  return mlffprof_fail(error, MLFFPROF_E_IO, "%s cannot be written: %s", what, strerror(errno));
}

_Static_assert((int) MLFFPROF_E_ARG == MLFF_FAULT_ARG && (int) MLFFPROF_E_FORMAT == MLFF_FAULT_FORMAT, "codes of base");

mlffprof_status mlffprof_fail_as(mlffprof_error *error, const mlff_fault *fault)
{
  return mlffprof_fail(error, (mlffprof_status) fault->code, "%s", fault->text);
}

const char *mlffprof_status_name(mlffprof_status status)
{
  static const char *const names[] = {"MLFFPROF_OK",   "MLFFPROF_E_ARG",    "MLFFPROF_E_NOMEM",
                                      "MLFFPROF_E_IO", "MLFFPROF_E_FORMAT", "MLFFPROF_E_UNSUPPORTED"};
  const int n = (int) (sizeof names / sizeof names[0]);
  return (int) status >= 0 && (int) status < n ? names[status] : "unknown status";
}
