/* status.c: see status.h. */
#include "status.h"

#include "utf8.h"

#include <stdio.h>

static void repair(char *text)
{
  for (unsigned char *s = (unsigned char *) text; *s;) {
    unsigned code = 0;
    const int n = mlff_utf8_decode(s, &code);
    if (n == 0 || (code < 0x20 && code != '\n') || code == 0x7f) *s = '?';
    s += n ? n : 1;
  }
}

void mlff_error_text(char *text, size_t size, const char *format, va_list args)
{
  vsnprintf(text, size, format, args);
  repair(text);
}

int mlff_fault_set(mlff_fault *fault, int code, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  mlff_error_text(fault->text, sizeof fault->text, format, args);
  va_end(args);
  return fault->code = code;
}
