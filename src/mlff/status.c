/* status.c: see status.h. */
#include "status.h"

#include <stdarg.h>

mlff_status mlff_fail(mlff_error *error, mlff_status code, const char *format, ...)
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

const char *mlff_status_name(mlff_status status)
{
  static const char *const names[] = {"MLFF_OK",       "MLFF_E_ARG",         "MLFF_E_NOMEM",  "MLFF_E_IO",
                                      "MLFF_E_FORMAT", "MLFF_E_UNSUPPORTED", "MLFF_E_DEVICE", "MLFF_E_NUMERIC"};
  const int n = (int) (sizeof names / sizeof names[0]);
  return (int) status >= 0 && (int) status < n ? names[status] : "unknown status";
}
