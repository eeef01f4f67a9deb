/* number.h: numbers as text with a point in every locale, without touching the locale. */
#ifndef MLFFPROF_NUMBER_H
#define MLFFPROF_NUMBER_H

enum { MLFFPROF_NUMBER_SIZE = 40 };

/* Writes a finite value with up to `digits` significant digits (1..17); digits = 0: as few as give the same double
 * back. Returns text. */
const char *mlffprof_number_format(double value, int digits, char text[MLFFPROF_NUMBER_SIZE]);

/* The same with a fixed number of decimals; "-" for what is not finite. */
const char *mlffprof_number_fixed(double value, int decimals, char text[MLFFPROF_NUMBER_SIZE]);

#endif
