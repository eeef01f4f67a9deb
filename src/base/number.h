/* number.h: numbers from text, with a point in every locale, for both libraries and what uses them. */
#ifndef MLFF_BASE_NUMBER_H
#define MLFF_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whole text as a JSON-like number: 1 when it is one and finite. Integers accept no fraction or exponent. */
int mlff_number_parse(const char *text, double *value);
int mlff_integer_parse(const char *text, int64_t *value);

/* The locale's decimal point, ending in 0; returns its length. */
size_t mlff_decimal_point(char point[16]);

#ifdef __cplusplus
}
#endif

#endif
