/* number.h: parses and formats numbers with a decimal point in every locale. */
#ifndef MLFF_BASE_NUMBER_H
#define MLFF_BASE_NUMBER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parses the whole text as a JSON number, also +1, .5, 5. and 01. Returns 1 if it is valid and finite. Integers have no
 * fraction or exponent. */
int mlff_number_parse(const char *text, double *value);
int mlff_integer_parse(const char *text, int64_t *value);

enum { MLFF_NUMBER_SIZE = 40 };

/* Writes a finite value with up to `digits` significant digits (1..17); 0 = the fewest that round-trip. Returns text.
 * */
const char *mlff_number_format(double value, int digits, char text[MLFF_NUMBER_SIZE]);

/* The same with a fixed number of decimals; "-" for non-finite values. */
const char *mlff_number_fixed(double value, int decimals, char text[MLFF_NUMBER_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
