/* writer.h: JSON to a stream, and files that are complete at any moment. */
#ifndef MLFF_BASE_WRITER_H
#define MLFF_BASE_WRITER_H

#include "status.h"

#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Text in quotes: escapes, and U+FFFD for bytes that are not UTF-8. */
void mlff_json_text(FILE *out, const char *text);
/* A number with up to `digits` significant digits, 0: as few as give the same double back; not finite: null. */
void mlff_json_number(FILE *out, double value, int digits);

/* ---- objects and arrays: commas and indentation ------------------------------------------------------------------ */

enum { MLFF_WRITER_DEPTH = 16 };

typedef struct mlff_writer {
  FILE *out;
  int depth, breaks;              /* values above this depth begin a line of their own */
  int n_items[MLFF_WRITER_DEPTH]; /* written so far, per level                         */
  char closing[MLFF_WRITER_DEPTH];
} mlff_writer;

/* Values down to `breaks` levels stand on lines of their own. */
mlff_writer mlff_writer_on(FILE *out, int breaks);

/* Keys are NULL inside arrays and for the outermost value. */
void mlff_write_object(mlff_writer *w, const char *key);
void mlff_write_array(mlff_writer *w, const char *key);
void mlff_write_end(mlff_writer *w);
void mlff_write_null(mlff_writer *w, const char *key);
void mlff_write_bool(mlff_writer *w, const char *key, int value);
void mlff_write_integer(mlff_writer *w, const char *key, int64_t value);
void mlff_write_number(mlff_writer *w, const char *key, double value);   /* all digits; not finite: null */
void mlff_write_text(mlff_writer *w, const char *key, const char *text); /* NULL: null                  */
/* [n] numbers with up to `digits` significant digits (0: all), times a factor. */
void mlff_write_numbers(mlff_writer *w, const char *key, const double *values, int64_t n, double factor, int digits);
void mlff_write_integers(mlff_writer *w, const char *key, const int64_t *values, int64_t n);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Writes what a file shall hold; what it returns, when not 0, is returned by mlff_atomic_write, without a fault. */
typedef int mlff_write_content(FILE *out, const void *user);

/* Writes a file by `write`: into a new file beside it, synchronised, then renamed, and the directory synchronised.
 * What is not a regular file (a pipe, /dev/null) is written to directly. On failure the old file is as it was. */
int mlff_atomic_write(const char *path, mlff_write_content *write, const void *user, mlff_fault *fault);

/* Adds all of a text to the end of an open file, or nothing. Returns 0, or errno of what went wrong; then *is_torn,
 * when not NULL, tells whether a part is left that could not be taken away again. */
int mlff_append(int file, const char *text, size_t n, int *is_torn);

#ifdef __cplusplus
}
#endif

#endif
