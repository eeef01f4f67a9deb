/* text.c: see text.h. */
#include "text.h"

#include "number.h"

#include <math.h>

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

/* Controls, and what YAML readers take for line breaks or refuse (they read JSON too). */
static int needs_escape(unsigned code)
{
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
         (code & 0xfffe) == 0xfffe;
}

static void write_escape(FILE *out, unsigned code)
{
  if (code == '\n')
    fputs("\\n", out);
  else if (code == '\t')
    fputs("\\t", out);
  else if (code < 0x10000)
    fprintf(out, "\\u%04x", code);
  else
    fprintf(out, "\\u%04x\\u%04x", 0xd7c0u + (code >> 10), 0xdc00u + (code & 0x3ff));
}

void mlff_json_text(FILE *out, const char *text)
{
  fputc('"', out);
  for (const unsigned char *s = (const unsigned char *) text; *s;) {
    unsigned code = 0;
    const int n = mlff_utf8_decode(s, &code);
    if (n == 0)
      fputs("\xef\xbf\xbd", out);
    else if (code == '"' || code == '\\')
      fprintf(out, "\\%c", (int) code);
    else if (needs_escape(code))
      write_escape(out, code);
    else
      fwrite(s, 1, (size_t) n, out);
    s += n ? n : 1;
  }
  fputc('"', out);
}

void mlff_json_number(FILE *out, double value, int digits)
{
  char text[MLFF_NUMBER_SIZE];
  fputs(isfinite(value) ? mlff_number_format(value, digits, text) : "null", out);
}
