/* xyz_impl.h: internals of the reader of extended XYZ (mlff_xyz.h). */
#ifndef MLFF_XYZ_IMPL_H
#define MLFF_XYZ_IMPL_H

#include "../errors.h"
#include "mlff/mlff_xyz.h"

/* lines.c: lines of a file or of memory, ended by LF, CR LF or CR. */
typedef struct xyz_lines {
  char *path;
  FILE *file; /* NULL: memory */
  unsigned char *chunk;
  const unsigned char *bytes; /* [n_bytes], the chunk or the memory */
  size_t n_bytes, next;
  int64_t chunk_offset; /* bytes of the file before the chunk */
  char *line;           /* current line, zero-terminated */
  size_t capacity, length;
  int64_t number; /* of the line, from 1 */
} xyz_lines;

mlff_status mlff_xyz_lines_open(xyz_lines *l, const char *path, const void *data, size_t size, mlff_error *error);
/* Reads the next line; *found is 0 at the end of the file. */
mlff_status mlff_xyz_lines_next(xyz_lines *l, int *found, mlff_error *error);
void mlff_xyz_lines_close(xyz_lines *l);
/* MLFF_E_FORMAT with "path:line: ...". */
mlff_status mlff_xyz_fail(const xyz_lines *l, mlff_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* words.c */
/* Parse a real number (with Fortran exponents, nan and inf), an integer, a logical (T, F, ... as 1 and 0). */
int mlff_xyz_real(const char *word, double *value);
int mlff_xyz_integer(const char *word, double *value);
int mlff_xyz_logical(const char *word, double *value);
/* Parses a word of a kind. */
int mlff_xyz_value(const char *word, char kind, double *value);

/* comment.c: the keys of a line. */
enum { XYZ_MOST_KEYS = 4096 };
typedef struct xyz_comment {
  mlff_xyz_key *keys;
  int n_keys;
  char *texts; /* memory of names, raw and text */
  double *values;
  size_t texts_capacity, values_capacity;
} xyz_comment;

/* Reads the keys of the current line; why: NULL, or why it is free text without keys. */
mlff_status mlff_xyz_comment_read(xyz_comment *c, const xyz_lines *l, const char **why, mlff_error *error);
/* NULL if there is no such key, or it has no value. */
const mlff_xyz_key *mlff_xyz_comment_find(const xyz_comment *c, const char *name);
void mlff_xyz_comment_free(xyz_comment *c);

/* columns.c: properties of atoms. */
typedef struct xyz_column {
  char *text;
  double *values;
  size_t text_capacity;
} xyz_column;
enum { XYZ_MOST_COLUMNS = 256, XYZ_MOST_WORDS = 10000 };
typedef struct xyz_table {
  char *names;
  mlff_xyz_column columns[XYZ_MOST_COLUMNS];
  xyz_column memory[XYZ_MOST_COLUMNS];
  int n_columns, n_words;                 /* words of a row */
  int species, atomic_numbers, positions; /* index of the column; -1 = none */
  int32_t *numbers;
  int32_t room; /* capacity, atoms */
} xyz_table;

/* Sets the columns from the text of Properties; NULL = symbol and position. */
mlff_status mlff_xyz_table_begin(xyz_table *t, const char *properties, const xyz_lines *l, mlff_error *error);
/* Reads the current line as atom i of n_atoms; modifies the line. */
mlff_status mlff_xyz_table_row(xyz_table *t, int32_t i, int32_t n_atoms, xyz_lines *l, mlff_error *error);
void mlff_xyz_table_free(xyz_table *t);

#endif
