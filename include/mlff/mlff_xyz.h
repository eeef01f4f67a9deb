/* mlff_xyz.h: reader of (extended) XYZ files, frame by frame.
 *
 *   N
 *   Lattice="ax ay az bx by bz cx cy cz" pbc="T T T" Properties=species:S:1:pos:R:3:... key=value word ...
 *   symbol x y z ...
 *
 * The syntax of keys and values is ASE's: values without blanks, in quotes "..." or '...' with backslash escapes, or in
 * nested brackets {...} [...] (...); blanks around the equals sign. Without Lattice nothing is periodic; a Lattice
 * without pbc is periodic in all directions; without Properties the columns are symbol, x, y, z. Numbers may have
 * Fortran's exponent D. Files are UTF-8, with any line ends.
 *
 * Errors, with file and line: duplicate keys; Lattice, pbc or Properties as a word that is not a key; quotes and
 * brackets in which ASE would lose a key; values that do not match the kind of their column.
 */
#ifndef MLFF_MLFF_XYZ_H
#define MLFF_MLFF_XYZ_H

#include "mlff.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of values, as in Properties: 'R' real, 'I' integer, 'L' logical, 'S' text. */

/* A key of the second line. */
typedef struct mlff_xyz_key {
  /* Without quotes. */
  const char *name;
  /* Value as in the file; NULL = a word without a value. */
  const char *raw;
  /* Value without quotes, escapes and outer brackets; NULL = a word without a value. */
  const char *text;
  /* [n_values], 0 and 1 for logicals; NULL for texts. */
  const double *values;
  /* Number of words of the text. */
  int n_values;
  /* Kind of all words. */
  char kind;
} mlff_xyz_key;

/* A property of atoms. */
typedef struct mlff_xyz_column {
  const char *name;
  /* n_atoms lines of `width` words as in the file, separated by a blank. */
  const char *text;
  /* [n_atoms][width], 0 and 1 for logicals; NULL for texts. */
  const double *values;
  /* Bytes, without the terminating zero. */
  size_t text_size;
  int width;
  char kind;
} mlff_xyz_column;

/* One structure. Its memory belongs to the file and is valid until the next call. */
typedef struct mlff_xyz_frame {
  /* Second line if it is free text without keys; else NULL. */
  const char *comment;
  /* Why the comment has no keys; NULL without a comment. */
  const char *why;
  /* [n_keys], including Lattice, pbc and Properties; none with a comment. */
  const mlff_xyz_key *keys;
  /* [n_columns], including species and positions. */
  const mlff_xyz_column *columns;
  /* [n_atoms] atomic numbers. */
  const int32_t *numbers;
  /* [n_atoms][3] Angstrom, finite. */
  const double (*positions)[3];
  /* First line of the frame, from 1. */
  int64_t line;
  /* Offset of the end of the frame in the file, bytes. */
  int64_t end;
  /* Rows are cell vectors; zero without has_cell. */
  double cell[3][3];
  int32_t n_atoms;
  int n_keys;
  int n_columns;
  int has_cell;
  /* 0 or 1; 0 without has_cell. */
  int pbc[3];
} mlff_xyz_frame;

typedef struct mlff_xyz mlff_xyz;

/* Opens a file, or with data != NULL its content in memory (borrowed, size bytes); path is then for error texts. */
MLFF_API mlff_status mlff_xyz_open(const char *path, const void *data, size_t size, mlff_xyz **file, mlff_error *error);
/* Reads the next frame; NULL at the end. After an error call only mlff_xyz_is_cut and mlff_xyz_close. */
MLFF_API mlff_status mlff_xyz_next(mlff_xyz *file, const mlff_xyz_frame **frame, mlff_error *error);
/* Whether the file ended within a frame, after an error. */
MLFF_API int mlff_xyz_is_cut(const mlff_xyz *file);
/* NULL is allowed. */
MLFF_API void mlff_xyz_close(mlff_xyz *file);

/* "H" for 1; NULL unless 1 to 118. */
MLFF_API const char *mlff_chemical_symbol(int atomic_number);

#ifdef __cplusplus
}
#endif
#endif
