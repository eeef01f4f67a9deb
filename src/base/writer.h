/* writer.h: JSON to a stream, and atomic replacement of files. */
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
/* A number with up to `digits` significant digits, 0 = the fewest that round-trip; null if not finite. */
void mlff_json_number(FILE *out, double value, int digits);

/* ---- objects and arrays: commas and indentation ------------------------------------------------------------------ */

enum { MLFF_WRITER_DEPTH = 16 };

typedef struct mlff_writer {
  FILE *out;
  int depth, breaks;              /* values above this depth start a new line          */
  int n_items[MLFF_WRITER_DEPTH]; /* written so far, per level                         */
  char closing[MLFF_WRITER_DEPTH];
} mlff_writer;

/* Values down to `breaks` levels start a new line. */
mlff_writer mlff_writer_on(FILE *out, int breaks);

/* Keys are NULL inside arrays and for the outermost value. */
void mlff_write_object(mlff_writer *w, const char *key);
void mlff_write_array(mlff_writer *w, const char *key);
void mlff_write_end(mlff_writer *w);
void mlff_write_null(mlff_writer *w, const char *key);
void mlff_write_bool(mlff_writer *w, const char *key, int value);
void mlff_write_integer(mlff_writer *w, const char *key, int64_t value);
/* All digits; null if not finite. */
void mlff_write_number(mlff_writer *w, const char *key, double value);
/* text: NULL is null. */
void mlff_write_text(mlff_writer *w, const char *key, const char *text);
/* [n] numbers times a factor, with up to `digits` significant digits (0 = all). */
void mlff_write_numbers(mlff_writer *w, const char *key, const double *values, int64_t n, double factor, int digits);
void mlff_write_integers(mlff_writer *w, const char *key, const int64_t *values, int64_t n);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Writes the content of a file. mlff_atomic_write returns its result if it is not 0, without a fault. */
typedef int mlff_write_content(FILE *out, const void *user);

/* Replaces a file: writes a temporary file in the same folder, synchronises it, renames it and synchronises the folder.
 * Other than regular files (a pipe, /dev/null) are written directly. On failure the old file is unchanged. */
int mlff_atomic_write(const char *path, mlff_write_content *write, const void *user, mlff_fault *fault);

/* Appends all of a text to an open file, or nothing. Returns 0 or errno; then *is_torn (may be NULL) is 1 if a part was
 * written and could not be removed. */
int mlff_append(int file, const char *text, size_t n, int *is_torn);

#ifdef __cplusplus
}
#endif

#endif
