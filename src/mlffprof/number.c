/* number.c: see number.h. */
#include "number.h"

#include "../base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void to_point(char *text)
{
  char point[16];
  const size_t n = mlff_decimal_point(point);
  char *at = n && strcmp(point, ".") ? strstr(text, point) : NULL;
  if (!at) return;
  *at = '.';
  memmove(at + 1, at + n, strlen(at + n) + 1);
}

const char *mlffprof_number_format(double value, int digits, char text[MLFFPROF_NUMBER_SIZE])
{
  if (digits > 0) {
    snprintf(text, MLFFPROF_NUMBER_SIZE, "%.*g", digits, value);
  } else {
    for (int d = 15; d <= 17; d++) {
      snprintf(text, MLFFPROF_NUMBER_SIZE, "%.*g", d, value);
      if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value)) break;
    }
  }
  to_point(text);
  return text;
}

const char *mlffprof_number_fixed(double value, int decimals, char text[MLFFPROF_NUMBER_SIZE])
{
  const int fits = isfinite(value) && fabs(value) < 1e15;
  if (!isfinite(value))
    snprintf(text, MLFFPROF_NUMBER_SIZE, "-");
  else
    snprintf(text, MLFFPROF_NUMBER_SIZE, fits ? "%.*f" : "%.*e", decimals, value);
  to_point(text);
  return text;
}
