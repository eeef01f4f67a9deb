/* status.c: errors. */
#include "status.h"

#include "writer.h"

#include <stdarg.h>

/* Texts quote files, and quotations are cut: what is not UTF-8, or a control character, becomes a question mark. */
static void repair(char *text)
{
  for (unsigned char *s = (unsigned char *) text; *s;) {
    unsigned code = 0;
    const int n = mlffprof_utf8_decode(s, &code);
    if (n == 0 || (code < 0x20 && code != '\n') || code == 0x7f) *s = '?';
    s += n ? n : 1;
  }
}

mlffprof_status mlffprof_fail(mlffprof_error *error, mlffprof_status code, const char *format, ...)
{
  if (error) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    repair(error->text);
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
