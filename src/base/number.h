/* number.h: numbers from text and as text, with a point in every locale, for both libraries and what uses them. */
#ifndef MLFF_BASE_NUMBER_H
#define MLFF_BASE_NUMBER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whole text as a number of JSON, or +1, .5, 5. and 01: 1 when it is one and finite. Integers accept no fraction or
 * exponent. */
int mlff_number_parse(const char *text, double *value);
int mlff_integer_parse(const char *text, int64_t *value);

enum { MLFF_NUMBER_SIZE = 40 };

/* Writes a finite value with up to `digits` significant digits (1..17); digits = 0: as few as give the same double
 * back. Returns text. */
const char *mlff_number_format(double value, int digits, char text[MLFF_NUMBER_SIZE]);

/* The same with a fixed number of decimals; "-" for what is not finite. */
const char *mlff_number_fixed(double value, int decimals, char text[MLFF_NUMBER_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
