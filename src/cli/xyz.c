/* xyz.c: reading (extended) XYZ: any number of frames of
 *   N
 *   Lattice="ax ay az bx by bz cx cy cz" pbc="T T T" Properties=species:S:1:pos:R:3:... name=...
 *   symbol x y z ...
 * All keys of the second line are optional: without Lattice nothing is periodic; without pbc a Lattice is periodic in
 * all directions; without Properties the columns are symbol, x, y, z.
 */
#define _POSIX_C_SOURCE 200809L

#include "../base/utf8.h"
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct reader {
  const char *path;
  FILE *file;
  char *line;
  size_t capacity;
  long number;                    /* of the line            */
  int species_column, pos_column; /* of the present frame   */
  mlff_error *error;
} reader;

static mlff_status fail(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static mlff_status fail(const reader *r, const char *format, ...)
{
  char what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  snprintf(r->error->text, sizeof r->error->text, "%s:%ld: %s", r->path, r->number, what);
  return r->error->code = MLFF_E_FORMAT;
}

enum { LONGEST_LINE = 1 << 20 };

static int put(reader *r, size_t n, int c)
{
  if (n == r->capacity) {
    char *line = realloc(r->line, 2 * n + 128);
    if (!line) return 0;
    r->line = line;
    r->capacity = 2 * n + 128;
  }
  r->line[n] = (char) c;
  return 1;
}

/* MLFF_OK and *there is 0 at the end of the file. */
static mlff_status next_line(reader *r, int *there)
{
  size_t n = 0;
  int c;
  r->number++;
  while ((c = getc_unlocked(r->file)) != EOF && c != '\n') {
    if (!c) return fail(r, "the line has a byte that is zero: this is no text");
    if (n == LONGEST_LINE) return fail(r, "the line has more than %d bytes", (int) LONGEST_LINE);
    if (!put(r, n++, c)) return fail(r, "out of memory for a line");
  }
  if (c == EOF && ferror(r->file)) {
    fail(r, "cannot be read on: %s", strerror(errno));
    return r->error->code = MLFF_E_IO;
  }
  *there = c != EOF || n > 0;
  if (!*there) r->number--;
  while (n > 0 && r->line[n - 1] == '\r') n--;
  return put(r, n, 0) ? MLFF_OK : fail(r, "out of memory for a line");
}

/* Copies the value of key=value or key="a b c" in the comment line; 0 when there is no such key. */
static int find_key(const char *line, const char *key, char *value, size_t size)
{
  const size_t n = strlen(key);
  int in_quotes = 0;
  for (const char *p = line; *p; p++) {
    if (*p == '"') in_quotes = !in_quotes;
    if (in_quotes || (p != line && p[-1] != ' ' && p[-1] != '\t') || strncasecmp(p, key, n) || p[n] != '=') continue;
    const char *first = p + n + 1, *ends = " \t";
    if (*first == '"') {
      first++;
      ends = "\"";
    }
    size_t length = strcspn(first, ends);
    if (length >= size) length = size - 1;
    memcpy(value, first, length);
    value[length] = 0;
    return 1;
  }
  return 0;
}

static mlff_status read_pbc(const reader *r, const char *text, int pbc[3])
{
  static const char *const words[] = {"T", "True", "1", "F", "False", "0"}, *const between = " ,[]";
  int n = 0;
  for (text += strspn(text, between); *text; text += strspn(text, between)) {
    const size_t length = strcspn(text, between);
    size_t k = 0;
    while (k < 6 && (strlen(words[k]) != length || strncasecmp(text, words[k], length) != 0)) k++;
    if (n == 3 || k == 6) return fail(r, "pbc must be three of T and F, e.g. pbc=\"T T F\"");
    pbc[n++] = k < 3;
    text += length;
  }
  return n == 3 ? MLFF_OK : fail(r, "pbc must be three of T and F, e.g. pbc=\"T T F\"");
}

/* species:S:1:pos:R:3:...: columns count from 0. */
static mlff_status read_properties(reader *r, char *text)
{
  int column = 0;
  r->species_column = r->pos_column = -1;
  char *save = NULL;
  for (char *name = strtok_r(text, ":", &save); name; name = strtok_r(NULL, ":", &save)) {
    const char *type = strtok_r(NULL, ":", &save), *count = strtok_r(NULL, ":", &save);
    const long n = count ? strtol(count, NULL, 10) : 0;
    if (!type || n < 1 || n > 1000) return fail(r, "Properties must be triples of name, type and number of columns");
    if (!strcmp(name, "species") && n == 1) r->species_column = column;
    if (!strcmp(name, "pos") && n == 3) r->pos_column = column;
    column += (int) n;
  }
  if (r->species_column < 0 || r->pos_column < 0) return fail(r, "Properties must have species:S:1 and pos:R:3");
  return MLFF_OK;
}

/* Bytes of the first characters of a text, at most so many; a byte that is no UTF-8 is a character. */
static int whole_characters(const char *text, int most)
{
  int n = 0;
  while (text[n]) {
    unsigned code;
    const int length = mlff_utf8_decode((const unsigned char *) text + n, &code);
    if (n + (length ? length : 1) > most) break;
    n += length ? length : 1;
  }
  return n;
}

static mlff_status read_comment(reader *r, int number, cli_frame *frame)
{
  char value[1024];
  snprintf(frame->name, sizeof frame->name, "frame-%d", number);
  if (find_key(r->line, "name", value, sizeof value))
    snprintf(frame->name, sizeof frame->name, "%.*s", whole_characters(value, 60), value);
  r->species_column = 0;
  r->pos_column = 1;
  if (find_key(r->line, "Properties", value, sizeof value) && read_properties(r, value)) return r->error->code;
  if (find_key(r->line, "Lattice", value, sizeof value)) {
    char *at = value;
    for (int k = 0; k < 9; k++) {
      char *end = NULL;
      frame->cell[k / 3][k % 3] = strtod(at, &end);
      if (end == at || !isfinite(frame->cell[k / 3][k % 3])) return fail(r, "Lattice must be nine numbers");
      at = end;
    }
    if (at[strspn(at, " \t")]) return fail(r, "Lattice must be nine numbers");
    frame->has_cell = frame->pbc[0] = frame->pbc[1] = frame->pbc[2] = 1;
  }
  if (!find_key(r->line, "pbc", value, sizeof value)) return MLFF_OK;
  if (read_pbc(r, value, frame->pbc)) return r->error->code;
  if (!frame->has_cell && (frame->pbc[0] || frame->pbc[1] || frame->pbc[2]))
    return fail(r, "pbc is given, but there is no Lattice");
  return MLFF_OK;
}

static mlff_status read_atom(reader *r, cli_frame *frame, int32_t i)
{
  int column = 0;
  unsigned found = 0;
  char *save = NULL;
  for (char *word = strtok_r(r->line, " \t", &save); word; word = strtok_r(NULL, " \t", &save), column++) {
    const int c = column - r->pos_column;
    if (column == r->species_column) {
      if (strlen(word) >= sizeof frame->elements[i]) return fail(r, "'%.20s' is not a chemical symbol", word);
      snprintf(frame->elements[i], sizeof frame->elements[i], "%s", word);
      found |= 8;
    } else if (c >= 0 && c < 3) {
      char *end = NULL;
      frame->pos[i][c] = strtod(word, &end);
      if (*end || !isfinite(frame->pos[i][c])) return fail(r, "'%.30s' is not a finite number", word);
      found |= 1u << c;
    }
  }
  return found == 15 ? MLFF_OK : fail(r, "a symbol and three coordinates are expected for atom %d", (int) i + 1);
}

/* Room for atom i, twice as much as before and at most for `most`: a frame takes no more memory than its lines warrant,
 * whatever number of atoms it begins with. Returns for how many there is room; 0: out of memory. */
static int make_room(cli_frame *frame, int32_t i, int32_t most)
{
  const int32_t room = i < most / 2 - 512 ? 2 * i + 1024 : most;
  void *elements = realloc(frame->elements, (size_t) room * sizeof *frame->elements);
  if (elements) frame->elements = elements;
  void *pos = realloc(frame->pos, (size_t) room * sizeof *frame->pos);
  if (pos) frame->pos = pos;
  return elements && pos ? room : 0;
}

static mlff_status read_frame(reader *r, int number, cli_frame *frame)
{
  char *end = NULL;
  const long n = strtol(r->line, &end, 10);
  if (end == r->line || end[strspn(end, " \t")] || n < 1 || n > 100000000)
    return fail(r, "the number of atoms is expected, at least 1, not '%.40s'%s", r->line,
                number > 1 ? "" : ": structures are read from extended XYZ files, as ase convert writes them");
  int there = 0;
  if (next_line(r, &there)) return r->error->code;
  if (!there) return fail(r, "the comment line of a frame is missing");
  if (read_comment(r, number, frame)) return r->error->code;
  frame->n_atoms = (int32_t) n;
  for (int32_t i = 0, room = 0; i < frame->n_atoms; i++) {
    if (i == room) room = make_room(frame, i, frame->n_atoms);
    if (!room) return fail(r, "out of memory for %ld atoms", n);
    if (next_line(r, &there)) return r->error->code;
    if (!there) return fail(r, "the file ends after %d of %ld atoms", (int) i, n);
    if (read_atom(r, frame, i)) return r->error->code;
  }
  frame->species = calloc((size_t) n, sizeof *frame->species);
  return frame->species ? MLFF_OK : fail(r, "out of memory for %ld atoms", n);
}

static mlff_status read_frames(reader *r, cli_frame **frames, int *n_frames)
{
  for (int there = 0;;) {
    if (next_line(r, &there)) return r->error->code;
    if (!there) break;
    if (!r->line[strspn(r->line, " \t")]) continue; /* blank lines between frames */
    cli_frame *grown = realloc(*frames, ((size_t) *n_frames + 1) * sizeof **frames);
    if (!grown) return fail(r, "out of memory");
    *frames = grown;
    grown[*n_frames] = (cli_frame){.n_atoms = 0};
    (*n_frames)++;
    const mlff_status status = read_frame(r, *n_frames, &grown[*n_frames - 1]);
    if (status) return status;
  }
  return *n_frames ? MLFF_OK : fail(r, "the file has no structure");
}

mlff_status cli_read_xyz(const char *path, cli_frame **frames, int *n_frames, mlff_error *error)
{
  reader r = {.path = path, .file = fopen(path, "r"), .error = error};
  cli_frame *list = NULL;
  int n = 0;
  if (!r.file) {
    snprintf(error->text, sizeof error->text, "%s: cannot be opened: %s", path, strerror(errno));
    return error->code = MLFF_E_IO;
  }
  const mlff_status status = read_frames(&r, &list, &n);
  fclose(r.file);
  free(r.line);
  if (status) {
    cli_frames_free(list, n);
    return status;
  }
  *frames = list;
  *n_frames = n;
  return MLFF_OK;
}

void cli_frames_free(cli_frame *frames, int n_frames)
{
  for (int k = 0; k < n_frames; k++) {
    free(frames[k].elements);
    free(frames[k].species);
    free(frames[k].pos);
  }
  free(frames);
}

mlff_status cli_frame_species(cli_frame *frame, const mlff_info *info, const char *path, mlff_error *error)
{
  for (int32_t i = 0; i < frame->n_atoms; i++) {
    int s = 0;
    while (s < info->n_elements && strcmp(info->elements[s], frame->elements[i])) s++;
    if (s == info->n_elements) {
      snprintf(error->text, sizeof error->text,
               "%s, %s: atom %d is '%s', which the model does not know (see mlff info)", path, frame->name, (int) i + 1,
               frame->elements[i]);
      return error->code = MLFF_E_ARG;
    }
    frame->species[i] = s;
  }
  return MLFF_OK;
}

mlff_status cli_frame_system(const cli_frame *frame, double cutoff, mlff_system **system, mlff_error *error)
{
  return mlff_system_create(frame->n_atoms, frame->species, (const double(*)[3]) frame->pos,
                            frame->has_cell ? (const double(*)[3]) frame->cell : NULL, frame->pbc, cutoff, system,
                            error);
}
