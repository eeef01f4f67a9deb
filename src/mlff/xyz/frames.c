/* frames.c: see mlff_xyz.h. */
#include "xyz_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ATOMS = 100000000 };

struct mlff_xyz {
  xyz_lines lines;
  xyz_comment comment;
  xyz_table table;
  char *free_text; /* a second line without keys */
  mlff_xyz_frame frame;
  int64_t n_frames;
  int is_cut;
};

mlff_status mlff_xyz_open(const char *path, const void *data, size_t size, mlff_xyz **file, mlff_error *error)
{
  mlff_xyz *f = calloc(1, sizeof *f);
  if (!f) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for reading %s", path);
  const mlff_status status = mlff_xyz_lines_open(&f->lines, path, data, size, error);
  if (status) {
    mlff_xyz_close(f);
    return status;
  }
  *file = f;
  return MLFF_OK;
}

void mlff_xyz_close(mlff_xyz *file)
{
  if (!file) return;
  mlff_xyz_lines_close(&file->lines);
  mlff_xyz_comment_free(&file->comment);
  mlff_xyz_table_free(&file->table);
  free(file->free_text);
  free(file);
}

int mlff_xyz_is_cut(const mlff_xyz *file)
{
  return file->is_cut;
}

static mlff_status read_count(mlff_xyz *f, mlff_error *error)
{
  char *text = f->lines.line;
  text += strspn(text, " \t\v\f");
  const size_t length = strcspn(text, " \t\v\f");
  const int ends = !text[length + strspn(text + length, " \t\v\f")];
  double n = 0;
  text[length] = ends ? 0 : text[length];
  if (*text < '0' || *text > '9' || !mlff_xyz_integer(text, &n) || n < 1)
    return mlff_xyz_fail(&f->lines, error, "expected the number of atoms, at least 1, not '%.40s'%s", text,
                         f->n_frames ? ""
                                     : ": structures are read from extended XYZ files, as ase convert writes them");
  if (n > MOST_ATOMS)
    return mlff_xyz_fail(&f->lines, error, "%.40s atoms; a frame has at most %d", text, (int) MOST_ATOMS);
  f->frame.n_atoms = (int32_t) n;
  return MLFF_OK;
}

static mlff_status read_lattice(mlff_xyz *f, mlff_error *error)
{
  const mlff_xyz_key *key = mlff_xyz_comment_find(&f->comment, "Lattice");
  if (!key) return MLFF_OK;
  int fine = key->n_values == 9 && (key->kind == 'R' || key->kind == 'I');
  for (int k = 0; k < 9 && fine; k++) {
    f->frame.cell[k / 3][k % 3] = key->values[k];
    fine = isfinite(key->values[k]) != 0;
  }
  if (!fine) return mlff_xyz_fail(&f->lines, error, "Lattice must be nine numbers, not %.80s", key->raw);
  f->frame.has_cell = f->frame.pbc[0] = f->frame.pbc[1] = f->frame.pbc[2] = 1;
  return MLFF_OK;
}

static mlff_status read_pbc(mlff_xyz *f, mlff_error *error)
{
  const mlff_xyz_key *key = mlff_xyz_comment_find(&f->comment, "pbc");
  if (!key) return MLFF_OK;
  const int is_word = key->kind == 'L' || key->kind == 'I';
  int fine = is_word && (key->n_values == 3 || key->n_values == 1), any = 0;
  for (int k = 0; k < 3 && fine; k++) {
    const double value = key->values[key->n_values == 3 ? k : 0];
    f->frame.pbc[k] = value > 0;
    any |= value > 0;
    fine = !(value < 0 || value > 1);
  }
  if (!fine)
    return mlff_xyz_fail(&f->lines, error, "pbc must be three of T and F, e.g. pbc=\"T T F\", not %.80s", key->raw);
  if (any && !f->frame.has_cell) return mlff_xyz_fail(&f->lines, error, "pbc without Lattice");
  return MLFF_OK;
}

/* Copies a line without blanks at its ends. */
static mlff_status keep_free_text(mlff_xyz *f, mlff_error *error)
{
  const char *first = f->lines.line + strspn(f->lines.line, " \t\v\f");
  size_t n = strlen(first);
  while (n && strchr(" \t\v\f", first[n - 1])) n--;
  char *text = realloc(f->free_text, n + 1);
  if (!text) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for a comment of an XYZ file");
  memcpy(text, first, n);
  text[n] = 0;
  f->free_text = text;
  f->frame.comment = text;
  return MLFF_OK;
}

static mlff_status read_comment(mlff_xyz *f, mlff_error *error)
{
  int found = 0;
  MLFF_TRY(mlff_xyz_lines_next(&f->lines, &found, error));
  f->is_cut = !found;
  if (!found) return mlff_xyz_fail(&f->lines, error, "the comment line of a frame is missing");
  MLFF_TRY(mlff_xyz_comment_read(&f->comment, &f->lines, &f->frame.why, error));
  if (f->frame.why) MLFF_TRY(keep_free_text(f, error));
  MLFF_TRY(read_lattice(f, error));
  MLFF_TRY(read_pbc(f, error));
  const mlff_xyz_key *properties = mlff_xyz_comment_find(&f->comment, "Properties");
  return mlff_xyz_table_begin(&f->table, properties ? properties->text : NULL, &f->lines, error);
}

static mlff_status read_atoms(mlff_xyz *f, mlff_error *error)
{
  const int32_t n = f->frame.n_atoms;
  for (int32_t i = 0; i < n; i++) {
    int found = 0;
    MLFF_TRY(mlff_xyz_lines_next(&f->lines, &found, error));
    f->is_cut = !found;
    if (!found) return mlff_xyz_fail(&f->lines, error, "the file ends after %d of %d atoms", (int) i, (int) n);
    MLFF_TRY(mlff_xyz_table_row(&f->table, i, n, &f->lines, error));
  }
  return MLFF_OK;
}

mlff_status mlff_xyz_next(mlff_xyz *file, const mlff_xyz_frame **frame, mlff_error *error)
{
  int found = 1;
  *frame = NULL;
  do {
    MLFF_TRY(mlff_xyz_lines_next(&file->lines, &found, error));
    if (!found) return MLFF_OK;
  } while (!file->lines.line[strspn(file->lines.line, " \t\v\f")]); /* blank lines between frames */
  file->frame = (mlff_xyz_frame){.line = file->lines.number};
  MLFF_TRY(read_count(file, error));
  MLFF_TRY(read_comment(file, error));
  MLFF_TRY(read_atoms(file, error));
  mlff_xyz_frame *f = &file->frame;
  const xyz_table *t = &file->table;
  f->keys = file->comment.keys;
  f->n_keys = file->comment.n_keys;
  f->columns = t->columns;
  f->n_columns = t->n_columns;
  f->numbers = t->numbers;
  f->positions = (const double(*)[3]) t->memory[t->positions].values;
  f->end = file->lines.chunk_offset + (int64_t) file->lines.next;
  file->n_frames++;
  *frame = f;
  return MLFF_OK;
}
