/* number.c: see number.h.
 *
 * printf and strtod use the decimal point of the process locale, which may be any bytes. It is detected by printing
 * 0.5, which neither changes the locale nor reads the shared buffer of localeconv.
 */
#include "number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t decimal_point(char point[16])
{
  char half[24];
  const int n = snprintf(half, sizeof half, "%.1f", 0.5);
  const size_t length = n > 2 && n < 16 ? (size_t) n - 2 : 0;
  memcpy(point, half + 1, length);
  point[length] = 0;
  return length;
}

/* [+-] digits [. digits] [e [+-] digits], at least one digit before the exponent. */
static int is_number(const char *text)
{
  int n_digits = 0;
  if (*text == '+' || *text == '-') text++;
  for (; *text >= '0' && *text <= '9'; text++) n_digits++;
  if (*text == '.')
    for (text++; *text >= '0' && *text <= '9'; text++) n_digits++;
  if (!n_digits) return 0;
  if (*text == 'e' || *text == 'E') {
    text++;
    if (*text == '+' || *text == '-') text++;
    if (!(*text >= '0' && *text <= '9')) return 0;
    while (*text >= '0' && *text <= '9') text++;
  }
  return *text == 0;
}

/* strtod of a text with the decimal point of the locale. */
enum { LONGEST = 480 }; /* more than %f writes */

static double read_in_locale(const char *text)
{
  char buffer[LONGEST + 20], point[16];
  const size_t n_point = decimal_point(point);
  size_t n = 0;
  for (; *text; text++) {
    if (*text == '.') {
      memcpy(buffer + n, point, n_point);
      n += n_point;
    } else {
      buffer[n++] = *text;
    }
  }
  buffer[n] = 0;
  return strtod(buffer, NULL);
}

int mlff_number_parse(const char *text, double *value)
{
  char *end = NULL;
  if (!is_number(text) || strlen(text) > LONGEST) return 0;
  *value = strtod(text, &end);
  if (*end) *value = read_in_locale(text); /* another decimal point */
  return isfinite(*value) != 0;
}

int mlff_integer_parse(const char *text, int64_t *value)
{
  int64_t v = 0;
  const int negative = *text == '-';
  if (*text == '+' || *text == '-') text++;
  if (!*text || strlen(text) > 18) return 0;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return 0;
    v = 10 * v + (*text - '0');
  }
  *value = negative ? -v : v;
  return 1;
}

/* ---- to text ----------------------------------------------------------------------------------------------------- */

static void to_point(char *text)
{
  char point[16];
  const size_t n = decimal_point(point);
  char *found = n && strcmp(point, ".") ? strstr(text, point) : NULL;
  if (!found) return;
  *found = '.';
  memmove(found + 1, found + n, strlen(found + n) + 1);
}

const char *mlff_number_format(double value, int digits, char text[MLFF_NUMBER_SIZE])
{
  if (digits > 0) {
    snprintf(text, MLFF_NUMBER_SIZE, "%.*g", digits, value);
  } else {
    for (int d = 15; d <= 17; d++) {
      snprintf(text, MLFF_NUMBER_SIZE, "%.*g", d, value);
      if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value)) break;
    }
  }
  to_point(text);
  return text;
}

const char *mlff_number_fixed(double value, int decimals, char text[MLFF_NUMBER_SIZE])
{
  const int fits = isfinite(value) && fabs(value) < 1e15;
  if (!isfinite(value))
    snprintf(text, MLFF_NUMBER_SIZE, "-");
  else
    snprintf(text, MLFF_NUMBER_SIZE, fits ? "%.*f" : "%.*e", decimals, value);
  to_point(text);
  return text;
}
