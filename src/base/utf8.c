/* utf8.c: see utf8.h. */
#include "utf8.h"

int mlff_utf8_decode(const unsigned char *s, unsigned *code)
{
  static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const int n = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;
  if (n <= 1) {
    *code = *s;
    return n;
  }
  *code = *s & (0xffu >> (n + 1));
  for (int k = 1; k < n; k++) {
    if ((s[k] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (s[k] & 0x3fu);
  }
  return *code < smallest[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}
