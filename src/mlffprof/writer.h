/* writer.h: JSON to a stream: commas and indentation, escapes, null for what is not finite. */
#ifndef MLFFPROF_WRITER_H
#define MLFFPROF_WRITER_H

#include <stdint.h>
#include <stdio.h>

enum { MLFFPROF_WRITER_DEPTH = 16 };

typedef struct mlffprof_writer {
  FILE *out;
  int depth, breaks;                  /* values above this depth begin a line of their own */
  int n_items[MLFFPROF_WRITER_DEPTH]; /* written so far, per level                         */
  char closing[MLFFPROF_WRITER_DEPTH];
} mlffprof_writer;

/* Values down to `breaks` levels stand on lines of their own. */
mlffprof_writer mlffprof_writer_on(FILE *out, int breaks);

/* Keys are NULL inside arrays and for the outermost value. */
void mlffprof_write_object(mlffprof_writer *w, const char *key);
void mlffprof_write_array(mlffprof_writer *w, const char *key);
void mlffprof_write_end(mlffprof_writer *w);
void mlffprof_write_null(mlffprof_writer *w, const char *key);
void mlffprof_write_bool(mlffprof_writer *w, const char *key, int value);
void mlffprof_write_integer(mlffprof_writer *w, const char *key, int64_t value);
void mlffprof_write_number(mlffprof_writer *w, const char *key, double value);   /* all digits; not finite: null */
void mlffprof_write_text(mlffprof_writer *w, const char *key, const char *text); /* NULL: null                  */
/* [n] numbers with up to `digits` significant digits (0: all), times a factor. */
void mlffprof_write_numbers(mlffprof_writer *w, const char *key, const double *values, int64_t n, double factor,
                            int digits);
void mlffprof_write_integers(mlffprof_writer *w, const char *key, const int64_t *values, int64_t n);

#endif
