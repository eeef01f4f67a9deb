/* words.c: see xyz_impl.h. */
#include "../../base/number.h"
#include "xyz_impl.h"

#include <math.h>
#include <string.h>
#include <strings.h>

int mlff_xyz_real(const char *word, double *value)
{
  if (mlff_number_parse(word, value)) return 1;
  const char *bare = word + (*word == '+' || *word == '-');
  if (!strcasecmp(bare, "nan")) {
    *value = NAN;
    return 1;
  }
  if (!strcasecmp(bare, "inf") || !strcasecmp(bare, "infinity")) {
    *value = *word == '-' ? -INFINITY : INFINITY;
    return 1;
  }
  char text[512];
  const size_t n = strlen(word), exponent = strcspn(word, "dD");
  if (exponent == n || n >= sizeof text) return 0;
  memcpy(text, word, n + 1);
  text[exponent] = 'e';
  return mlff_number_parse(text, value);
}

int mlff_xyz_integer(const char *word, double *value)
{
  int64_t whole = 0;
  if (!mlff_integer_parse(word, &whole)) return 0;
  *value = (double) whole;
  return 1;
}

int mlff_xyz_logical(const char *word, double *value)
{
  static const char *const words[] = {"T", "True", "true", "TRUE", "F", "False", "false", "FALSE"};
  for (int k = 0; k < 8; k++) {
    if (strcmp(words[k], word)) continue;
    *value = k < 4;
    return 1;
  }
  return 0;
}

int mlff_xyz_value(const char *word, char kind, double *value)
{
  if (kind == 'R') return mlff_xyz_real(word, value);
  if (kind == 'I') return mlff_xyz_integer(word, value);
  return kind == 'L' && mlff_xyz_logical(word, value);
}
