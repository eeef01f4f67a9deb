/* utf8.h: decoding UTF-8. */
#ifndef MLFF_BASE_UTF8_H
#define MLFF_BASE_UTF8_H

/* Returns the length of the UTF-8 sequence at s and sets its code point; 0 if it is invalid (overlong, surrogate,
 * truncated). */
int mlff_utf8_decode(const unsigned char *s, unsigned *code);

#endif
