/* columns.c: Properties and lines of atoms; see xyz_impl.h. */
#include "../model/modelfile_impl.h"
#include "xyz_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char STANDARD[] = "species:S:1:pos:R:3";
static const char BETWEEN[] = " \t\v\f";

static mlff_status fail_memory(mlff_error *error)
{
  return mlff_fail(error, MLFF_E_NOMEM, "out of memory for the atoms of an XYZ file");
}

/* Splits off a word at the next colon; NULL at the end of the text. */
static char *next_part(char **text)
{
  char *part = *text, *colon = part ? strchr(part, ':') : NULL;
  if (colon) *colon = 0;
  *text = colon ? colon + 1 : NULL;
  return part;
}

static mlff_status add_column(xyz_table *t, const char *name, const char *kind, const char *count, const xyz_lines *l,
                              mlff_error *error)
{
  double width = 0;
  if (!kind || !count || !*name || !mlff_xyz_integer(count, &width) || !(width >= 1 && width <= XYZ_MOST_WORDS) ||
      strlen(kind) != 1 || !strchr("RILS", *kind))
    return mlff_xyz_fail(
        l, error, "Properties must be triples of name, kind (R, I, L or S) and number of columns, not '%.60s:%s:%s'",
        name, kind ? kind : "", count ? count : "");
  for (int k = 0; k < t->n_columns; k++)
    if (!strcmp(t->columns[k].name, name)) return mlff_xyz_fail(l, error, "Properties has a duplicate '%.60s'", name);
  if (t->n_columns == XYZ_MOST_COLUMNS || t->n_words + (int) width > XYZ_MOST_WORDS)
    return mlff_xyz_fail(l, error, "Properties has more than %d names or %d columns", (int) XYZ_MOST_COLUMNS,
                         (int) XYZ_MOST_WORDS);
  mlff_xyz_column *column = &t->columns[t->n_columns];
  *column = (mlff_xyz_column){.name = name, .width = (int) width, .kind = *kind};
  if (!strcmp(name, "species") && *kind == 'S' && column->width == 1) t->species = t->n_columns;
  if (!strcmp(name, "Z") && *kind == 'I' && column->width == 1) t->atomic_numbers = t->n_columns;
  if (!strcmp(name, "pos") && *kind == 'R' && column->width == 3) t->positions = t->n_columns;
  t->n_columns++;
  t->n_words += column->width;
  return MLFF_OK;
}

/* Memory of columns depends on kind and width: a table of another shape starts from zero. */
static void forget(xyz_table *t)
{
  for (int k = 0; k < t->n_columns; k++) {
    free(t->memory[k].text);
    free(t->memory[k].values);
    t->memory[k] = (xyz_column){NULL, NULL, 0};
  }
  free(t->names);
  free(t->numbers);
  t->names = NULL;
  t->numbers = NULL;
  t->room = t->n_columns = t->n_words = 0;
  t->species = t->atomic_numbers = t->positions = -1;
}

void mlff_xyz_table_free(xyz_table *t)
{
  forget(t);
}

mlff_status mlff_xyz_table_begin(xyz_table *t, const char *properties, const xyz_lines *l, mlff_error *error)
{
  if (!properties) properties = STANDARD;
  forget(t);
  const size_t n = strlen(properties) + 1;
  t->names = malloc(n);
  if (!t->names) return fail_memory(error);
  memcpy(t->names, properties, n);
  for (char *rest = t->names; rest;) {
    const char *name = next_part(&rest), *kind = next_part(&rest), *count = next_part(&rest);
    MLFF_TRY(add_column(t, name, kind, count, l, error));
  }
  if ((t->species < 0 && t->atomic_numbers < 0) || t->positions < 0)
    return mlff_xyz_fail(l, error, "Properties must have species:S:1 (or Z:I:1) and pos:R:3, not '%.60s'", properties);
  return MLFF_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int grow(void *array, size_t bytes)
{
  void **pointer = array, *grown = realloc(*pointer, bytes);
  if (grown) *pointer = grown;
  return grown != NULL;
}

/* Reserves memory for atom i, doubling up to `most`: memory depends on the lines of a frame, not on its stated number
 * of atoms. */
static mlff_status make_room(xyz_table *t, int32_t i, int32_t most, mlff_error *error)
{
  if (i < t->room) return MLFF_OK;
  const int32_t room = i < most / 2 - 32 ? 2 * i + 64 : most;
  int fine = grow(&t->numbers, (size_t) room * sizeof *t->numbers);
  for (int k = 0; k < t->n_columns && fine; k++) {
    const size_t n = (size_t) room * (size_t) t->columns[k].width;
    if (t->columns[k].kind != 'S') fine = grow(&t->memory[k].values, n * sizeof(double));
  }
  if (!fine) return fail_memory(error);
  t->room = room;
  return MLFF_OK;
}

static mlff_status append_word(xyz_table *t, int k, const char *word, char between, mlff_error *error)
{
  xyz_column *memory = &t->memory[k];
  const size_t n = strlen(word), used = t->columns[k].text_size + (between != 0), wanted = used + n + 1;
  if (wanted > memory->text_capacity) {
    if (!grow(&memory->text, 2 * wanted + 256)) return fail_memory(error);
    memory->text_capacity = 2 * wanted + 256;
  }
  if (between) memory->text[used - 1] = between;
  memcpy(memory->text + used, word, n + 1);
  t->columns[k].text_size = used + n;
  return MLFF_OK;
}

/* As in ASE, AL and al are Al. Returns 0 for other texts. */
static int32_t symbol_number(const char *word)
{
  char symbol[4] = "";
  for (int k = 0; word[k]; k++) {
    const char c = word[k];
    if (k == 2 || !((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))) return 0;
    symbol[k] = (char) (k ? c | 0x20 : c & ~0x20);
  }
  return mlff_atomic_number(symbol);
}

static mlff_status set_element(xyz_table *t, int32_t i, const char *word, int is_symbol, const xyz_lines *l,
                               mlff_error *error)
{
  double number = is_symbol ? symbol_number(word) : 0;
  if (!is_symbol && !mlff_xyz_integer(word, &number)) number = 0;
  if (is_symbol && number < 1)
    return mlff_xyz_fail(l, error, "'%.20s' is not a chemical symbol%s", word,
                         *word >= '0' && *word <= '9' ? ": a column of atomic numbers is Z:I:1 in Properties" : "");
  if (!mlff_chemical_symbol((int) (fabs(number) < 1000 ? number : 0)))
    return mlff_xyz_fail(l, error, "'%.20s' is not an atomic number from 1 to 118", word);
  const int32_t z = (int32_t) number;
  if (t->species >= 0 && t->atomic_numbers >= 0) {
    const int is_second = is_symbol == (t->species > t->atomic_numbers);
    if (is_second && t->numbers[i] != z)
      return mlff_xyz_fail(l, error, "species and Z of atom %d contradict each other", (int) i + 1);
  }
  t->numbers[i] = z;
  return MLFF_OK;
}

static mlff_status read_word(xyz_table *t, int32_t i, int k, int c, const char *word, const xyz_lines *l,
                             mlff_error *error)
{
  const mlff_xyz_column *column = &t->columns[k];
  if (column->kind != 'S') {
    static const char *const kinds[] = {"a number", "an integer", "T or F"};
    double *value = &t->memory[k].values[(size_t) i * (size_t) column->width + (size_t) c];
    if (!mlff_xyz_value(word, column->kind, value))
      return mlff_xyz_fail(l, error, "%.60s of atom %d is '%.30s', not %s", column->name, (int) i + 1, word,
                           kinds[column->kind == 'R'   ? 0
                                 : column->kind == 'I' ? 1
                                                       : 2]);
    if (k == t->positions && !isfinite(*value))
      return mlff_xyz_fail(l, error, "pos of atom %d is '%.30s', not a finite number", (int) i + 1, word);
  }
  if (k == t->species || k == t->atomic_numbers) MLFF_TRY(set_element(t, i, word, k == t->species, l, error));
  return append_word(t, k, word, (char) (c ? ' ' : i ? '\n' : 0), error);
}

mlff_status mlff_xyz_table_row(xyz_table *t, int32_t i, int32_t n_atoms, xyz_lines *l, mlff_error *error)
{
  MLFF_TRY(make_room(t, i, n_atoms, error));
  char *rest = l->line;
  int n = 0;
  for (int k = 0; k < t->n_columns; k++) {
    for (int c = 0; c < t->columns[k].width; c++, n++) {
      char *word = rest + strspn(rest, BETWEEN), *end = word + strcspn(word, BETWEEN);
      if (!*word)
        return mlff_xyz_fail(l, error, "atom %d has %d of %d columns%s", (int) i + 1, n, t->n_words,
                             n || t->n_words != 4 ? "" : ": a symbol and three coordinates");
      rest = *end ? end + 1 : end;
      *end = 0;
      MLFF_TRY(read_word(t, i, k, c, word, l, error));
    }
    t->columns[k].text = t->memory[k].text; /* which may have moved */
    t->columns[k].values = t->memory[k].values;
  }
  return MLFF_OK;
}
