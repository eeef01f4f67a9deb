/* lammps_data.c: the structure of a LAMMPS data file. Elements are those of the masses. */
#define _POSIX_C_SOURCE 200809L

#include "../base/elements.h"
#include "../base/number.h"
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char TYPE_LABELS[] = "type labels are not supported: write the file with `write_data FILE types numeric`";

enum { MAX_WORDS = 12, MAX_HEADER = 100, HEADER = 0, MASSES = 1, ATOMS = 2, OTHER = 3 };

/* Column of the type and of x in a line of Atoms, from 0. */
static const struct {
  const char *name;
  int type, x;
} STYLES[] = {{"atomic", 1, 2}, {"charge", 1, 3}, {"molecular", 2, 3}, {"full", 2, 4}};

typedef struct atom {
  int64_t id, type;
  double x[3];
} atom;

typedef struct data {
  const char *path;
  FILE *file;
  char *line;
  size_t room;
  int64_t number; /* of the line, from 1 */
  int n_words, section, style;
  char *words[MAX_WORDS + 1], *comment;
  int64_t n_atoms, n_types, n_read;
  double low[3], high[3], tilt[3];
  int n_bounds;
  char (*elements)[4];
  atom *atoms;
  mlff_error *error;
} data;

static mlff_status fail(data *d, const char *what)
{
  snprintf(d->error->text, sizeof d->error->text, "%s, line %lld: %s", d->path, (long long) d->number, what);
  return d->error->code = MLFF_E_FORMAT;
}

/* Reads the next line that has words into d->words; 0 at the end of the file. The comment follows #. */
static int next_line(data *d)
{
  for (;;) {
    if (getline(&d->line, &d->room, d->file) < 0) return 0;
    d->number++;
    d->comment = strchr(d->line, '#');
    if (d->comment) *d->comment++ = '\0';
    char *rest = NULL;
    d->n_words = 0;
    for (char *w = strtok_r(d->line, " \t\r\n", &rest); w && d->n_words <= MAX_WORDS;
         w = strtok_r(NULL, " \t\r\n", &rest))
      d->words[d->n_words++] = w;
    if (d->n_words) return 1;
  }
}

static int numbers(data *d, int first, int n, double *values)
{
  for (int k = 0; k < n; k++)
    if (first + k >= d->n_words || !mlff_number_parse(d->words[first + k], &values[k])) return 0;
  return 1;
}

/* The title of a file that write_data made has `units = STYLE`. */
static mlff_status check_title(data *d)
{
  if (getline(&d->line, &d->room, d->file) < 0) return fail(d, "the file is empty");
  d->number++;
  const char *found = strstr(d->line, "units = ");
  if (!found || !strncmp(found + 8, "metal", 5) || !strncmp(found + 8, "real", 4)) return MLFF_OK;
  return fail(d, "units are neither metal nor real, so lengths are not in A: write the file with `units metal`");
}

static mlff_status read_count(data *d, int64_t *count)
{
  if (!mlff_integer_parse(d->words[0], count) || *count < 1 || *count > INT32_MAX)
    return fail(d, "a positive number of atoms and of types is expected");
  return MLFF_OK;
}

static mlff_status read_header(data *d)
{
  static const char *const low[] = {"xlo", "ylo", "zlo"};
  const char *last = d->words[d->n_words - 1];
  if (d->n_words == 2 && !strcmp(last, "atoms")) return read_count(d, &d->n_atoms);
  if (d->n_words == 3 && !strcmp(d->words[1], "atom") && !strcmp(last, "types")) return read_count(d, &d->n_types);
  for (int k = 0; k < 3; k++)
    if (d->n_words == 4 && !strcmp(d->words[2], low[k])) {
      double bounds[2];
      if (!numbers(d, 0, 2, bounds) || !(bounds[0] < bounds[1])) return fail(d, "bounds of the box must be LOW HIGH");
      d->low[k] = bounds[0];
      d->high[k] = bounds[1];
      d->n_bounds |= 1 << k;
      return MLFF_OK;
    }
  if (!strcmp(last, "yz") && !numbers(d, 0, 3, d->tilt)) return fail(d, "three numbers are expected before xy xz yz");
  if (!strcmp(last, "avec") || !strcmp(last, "bvec") || !strcmp(last, "cvec"))
    return fail(
        d, "a general triclinic box is not supported: write the file with `write_data FILE` without triclinic/general");
  return MLFF_OK; /* counts of bonds and the like */
}

/* A line that begins with a letter names a section. */
static mlff_status begin_section(data *d)
{
  double mass;
  if (d->section == MASSES && d->n_words == 2 && numbers(d, 1, 1, &mass)) return fail(d, TYPE_LABELS);
  d->section = !strcmp(d->words[0], "Masses") ? MASSES : !strcmp(d->words[0], "Atoms") ? ATOMS : OTHER;
  if (d->section == OTHER) return MLFF_OK;
  if (!d->n_atoms || !d->n_types || d->n_bounds != 7)
    return fail(d, "the header needs lines with atoms, atom types, xlo xhi, ylo yhi and zlo zhi");
  if (d->section == MASSES) {
    if (!d->elements) d->elements = calloc((size_t) d->n_types, sizeof *d->elements);
    if (!d->elements) return fail(d, "out of memory");
    return MLFF_OK;
  }
  char *rest = NULL, *style = d->comment ? strtok_r(d->comment, " \t\r\n", &rest) : NULL;
  for (d->style = 0; style && strcmp(STYLES[d->style].name, style);)
    if (++d->style == (int) (sizeof STYLES / sizeof *STYLES))
      return fail(d, "the atom style is none of atomic, charge, molecular, full: write the file with one of these");
  if (!d->elements) return fail(d, "the section Masses must come before Atoms: elements are those of the masses");
  if (!d->atoms) d->atoms = malloc((size_t) d->n_atoms * sizeof *d->atoms);
  return d->atoms ? MLFF_OK : fail(d, "out of memory");
}

static mlff_status read_mass(data *d)
{
  int64_t type;
  double mass;
  if (d->n_words != 2 || !mlff_integer_parse(d->words[0], &type) || type < 1 || type > d->n_types ||
      !numbers(d, 1, 1, &mass))
    return fail(d, "TYPE MASS is expected, with numbers");
  const char *element = mlff_element_of_mass(mass);
  if (!mlff_mass_fits(element, mass)) return fail(d, "no element has this mass");
  snprintf(d->elements[type - 1], sizeof *d->elements, "%s", element);
  return MLFF_OK;
}

static mlff_status read_atom(data *d)
{
  const int type = STYLES[d->style].type, x = STYLES[d->style].x;
  if (d->n_read == d->n_atoms) return fail(d, "there are more atoms than in the header");
  atom *a = &d->atoms[d->n_read++];
  if ((d->n_words != x + 3 && d->n_words != x + 6) || !mlff_integer_parse(d->words[0], &a->id) ||
      !mlff_integer_parse(d->words[type], &a->type) || !numbers(d, x, 3, a->x)) {
    double label;
    int64_t type_number;
    const int has_label = d->n_words > type && !mlff_integer_parse(d->words[type], &type_number) &&
                          !mlff_number_parse(d->words[type], &label);
    if (has_label) return fail(d, TYPE_LABELS);
    char text[128];
    snprintf(text, sizeof text, "the line does not fit atom style %s: write `Atoms # STYLE`", STYLES[d->style].name);
    return fail(d, text);
  }
  if (a->type < 1 || a->type > d->n_types || !*d->elements[a->type - 1]) return fail(d, "the type has no mass");
  return MLFF_OK;
}

static mlff_status read_lines(data *d)
{
  if (check_title(d)) return d->error->code;
  while (next_line(d)) {
    const char first = d->words[0][0];
    const int is_name = (first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z');
    const mlff_status status = is_name                ? begin_section(d)
                               : d->section == HEADER ? read_header(d)
                               : d->section == MASSES ? read_mass(d)
                               : d->section == ATOMS  ? read_atom(d)
                                                      : MLFF_OK;
    if (status) return status;
  }
  if (ferror(d->file)) return fail(d, "read error");
  if (!d->atoms || d->n_read < d->n_atoms) return fail(d, "the file ends before the last atom");
  return MLFF_OK;
}

static int by_id(const void *a, const void *b)
{
  const int64_t left = ((const atom *) a)->id, right = ((const atom *) b)->id;
  return (left > right) - (left < right);
}

/* Atoms in the order of their IDs, in a box that is periodic along all edges. */
static mlff_status make_frame(data *d, cli_frame *frame)
{
  const size_t n = (size_t) d->n_atoms;
  qsort(d->atoms, n, sizeof *d->atoms, by_id);
  for (size_t i = 1; i < n; i++)
    if (d->atoms[i].id == d->atoms[i - 1].id) return fail(d, "two atoms have the same ID");
  *frame = (cli_frame){.n_atoms = (int32_t) n, .has_cell = 1, .pbc = {1, 1, 1}, .name = "frame-1"};
  frame->elements = calloc(n, sizeof *frame->elements);
  frame->species = calloc(n, sizeof *frame->species);
  frame->pos = malloc(n * sizeof *frame->pos);
  if (!frame->elements || !frame->species || !frame->pos) return fail(d, "out of memory");
  for (int k = 0; k < 3; k++) frame->cell[k][k] = d->high[k] - d->low[k];
  frame->cell[1][0] = d->tilt[0];
  frame->cell[2][0] = d->tilt[1];
  frame->cell[2][1] = d->tilt[2];
  for (size_t i = 0; i < n; i++) {
    memcpy(frame->elements[i], d->elements[d->atoms[i].type - 1], sizeof *frame->elements);
    for (int k = 0; k < 3; k++) frame->pos[i][k] = d->atoms[i].x[k] - d->low[k];
  }
  return MLFF_OK;
}

/* The second line of a data file is empty or a comment, or one of its header; that of an XYZ file is a comment. */
int cli_is_lammps_data(const char *path)
{
  mlff_error error;
  data d = {.path = path, .file = fopen(path, "r"), .error = &error};
  if (!d.file) return 0;
  int64_t n;
  int has_atoms = 0, has_types = 0, is_counted = 0;
  if (getline(&d.line, &d.room, d.file) >= 0) {
    d.line[strcspn(d.line, "\r\n")] = '\0';
    is_counted = mlff_integer_parse(d.line + strspn(d.line, " \t"), &n); /* as the number of atoms in XYZ */
  }
  for (int k = 0; k < MAX_HEADER && !(has_atoms && has_types) && next_line(&d); k++) {
    if (!mlff_integer_parse(d.words[0], &n)) break;
    has_atoms |= d.n_words == 2 && !strcmp(d.words[1], "atoms");
    has_types |= d.n_words == 3 && !strcmp(d.words[1], "atom") && !strcmp(d.words[2], "types");
  }
  free(d.line);
  fclose(d.file);
  return has_atoms && (has_types || !is_counted);
}

mlff_status cli_read_lammps_data(const char *path, cli_frame **frames, int *n_frames, mlff_error *error)
{
  data d = {.path = path, .file = fopen(path, "r"), .error = error};
  if (!d.file) {
    snprintf(error->text, sizeof error->text, "%s: cannot be opened", path);
    return error->code = MLFF_E_IO;
  }
  cli_frame *frame = calloc(1, sizeof *frame);
  mlff_status status = frame ? read_lines(&d) : fail(&d, "out of memory");
  if (!status) status = make_frame(&d, frame);
  fclose(d.file);
  free(d.line);
  free(d.elements);
  free(d.atoms);
  if (status) {
    cli_frames_free(frame, frame ? 1 : 0);
    return status;
  }
  *frames = frame;
  *n_frames = 1;
  return MLFF_OK;
}
