/* mlff_xyz.h: reading (extended) XYZ files, frame by frame.
 *
 *   N
 *   Lattice="ax ay az bx by bz cx cy cz" pbc="T T T" Properties=species:S:1:pos:R:3:... key=value word ...
 *   symbol x y z ...
 *
 * Keys and values are those that ASE writes and reads: values without blanks, in quotes "..." or '...' with escapes by
 * a backslash, or in brackets {...} [...] (...), which may be nested; blanks around the equals sign. Without Lattice
 * nothing is periodic; without pbc a Lattice is periodic in all directions; without Properties the columns are symbol,
 * x, y, z. Numbers may have Fortran's exponent D. Files are UTF-8, with line ends of any system.
 *
 * Refused, with file and line: keys that occur twice; a line in which the words Lattice, pbc or Properties occur and
 * are not keys; quotes and brackets in which ASE would lose a key; values that are not of the kind of their column.
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
  const char *name;     /* without quotes                                                             */
  const char *raw;      /* the value as the file has it; NULL: a lone word                            */
  const char *text;     /* the value without quotes, escapes and outer brackets; NULL: a lone word    */
  const double *values; /* [n_values], of logicals 0 and 1; NULL for texts                            */
  int n_values;         /* words of the text                                                          */
  char kind;            /* of all words                                                               */
} mlff_xyz_key;

/* A property of atoms. */
typedef struct mlff_xyz_column {
  const char *name;
  const char *text;     /* n_atoms lines of `width` words with a blank between, as the file has them  */
  const double *values; /* [n_atoms][width], of logicals 0 and 1; NULL for texts                      */
  size_t text_size;     /* bytes, without the final zero                                              */
  int width;
  char kind;
} mlff_xyz_column;

/* One structure. Everything belongs to the file and is valid until its next call. */
typedef struct mlff_xyz_frame {
  const char *comment;            /* the second line when it has no keys but free text; else NULL */
  const char *why;                /* with a comment: why it has no keys */
  const mlff_xyz_key *keys;       /* [n_keys], also Lattice, pbc and Properties; none with a comment */
  const mlff_xyz_column *columns; /* [n_columns], also those of species and positions */
  const int32_t *numbers;         /* [n_atoms] atomic numbers */
  const double (*positions)[3];   /* [n_atoms] Angstrom, finite */
  int64_t line;                   /* where the frame begins, from 1 */
  int64_t end;                    /* bytes of the file up to the end of the frame */
  double cell[3][3];              /* rows are cell vectors; zero without has_cell */
  int32_t n_atoms;
  int n_keys;
  int n_columns;
  int has_cell;
  int pbc[3]; /* 0 or 1; none without has_cell */
} mlff_xyz_frame;

typedef struct mlff_xyz mlff_xyz;

/* Opens a file, or with data != NULL its content in memory: borrowed, size bytes; path is then what errors call it. */
MLFF_API mlff_status mlff_xyz_open(const char *path, const void *data, size_t size, mlff_xyz **file, mlff_error *error);
/* The next frame; NULL at the end. After an error only mlff_xyz_is_cut and mlff_xyz_close may be called. */
MLFF_API mlff_status mlff_xyz_next(mlff_xyz *file, const mlff_xyz_frame **frame, mlff_error *error);
/* Whether the error was that the file ends within a frame. */
MLFF_API int mlff_xyz_is_cut(const mlff_xyz *file);
/* NULL is fine. */
MLFF_API void mlff_xyz_close(mlff_xyz *file);

/* "H" for 1; NULL unless 1 to 118. */
MLFF_API const char *mlff_chemical_symbol(int atomic_number);

#ifdef __cplusplus
}
#endif
#endif
