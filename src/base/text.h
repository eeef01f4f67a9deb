/* text.h: UTF-8, and values in JSON. */
#ifndef MLFF_BASE_TEXT_H
#define MLFF_BASE_TEXT_H

#include <stdio.h>

/* Length of the UTF-8 sequence at s and its code point; 0 when it is none (overlong, surrogate, cut short). */
int mlff_utf8_decode(const unsigned char *s, unsigned *code);

/* Text in quotes: escapes, and U+FFFD for bytes that are not UTF-8. */
void mlff_json_text(FILE *out, const char *text);
/* A number with up to `digits` significant digits, 0: as few as give the same double back; not finite: null. */
void mlff_json_number(FILE *out, double value, int digits);

#endif
