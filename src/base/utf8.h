/* utf8.h: decoding UTF-8. */
#ifndef MLFF_BASE_UTF8_H
#define MLFF_BASE_UTF8_H

/* Length of the UTF-8 sequence at s and its code point; 0 when it is none (overlong, surrogate, cut short). */
int mlff_utf8_decode(const unsigned char *s, unsigned *code);

#endif
