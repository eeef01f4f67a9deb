/* fuzz_xyz.c: bytes as (extended) XYZ files, whose frames are read in full (mlff_xyz.h), and of which the program mlff
 * makes neighbor lists. */
#include "fuzz.h"

#include "cli/cli.h"
#include "mlff/mlff_xyz.h"

#include <math.h>
#include <string.h>

enum { MOST_ATOMS = 200, CHEAP_PAIRS = 1 << 20 };

/* Cells that are much smaller than the cutoff have lists that take long: those are for a test of time. */
static int is_cheap(const cli_frame *f, double cutoff)
{
  const double(*a)[3] = f->cell;
  double det = 0;
  for (int k = 0; k < 3; k++)
    det += a[0][k] * (a[1][(k + 1) % 3] * a[2][(k + 2) % 3] - a[1][(k + 2) % 3] * a[2][(k + 1) % 3]);
  const double pairs = f->n_atoms * (double) f->n_atoms * 4.2 * cutoff * cutoff * cutoff / fabs(det);
  return f->n_atoms <= MOST_ATOMS && (!f->has_cell || pairs < CHEAP_PAIRS);
}

static void use(cli_frame *frame)
{
  static const char *const elements[] = {"H", "C", "O", "Si"};
  const mlff_info info = {.n_elements = 4, .elements = elements};
  const double cutoff = 3.0;
  mlff_error error = {.text = ""};
  mlff_system *system = NULL;
  if (frame->n_atoms < 1) fuzz_stop("a frame without atoms", frame->name);
  if (cli_frame_species(frame, &info, "fuzz", &error)) {
    if (!error.text[0]) fuzz_stop("an unknown element without a text", "");
    return;
  }
  if (!is_cheap(frame, cutoff)) return;
  const mlff_status status = cli_frame_system(frame, cutoff, &system, &error);
  if (status && !error.text[0]) fuzz_stop("no list, without a text", "");
  if (!status && mlff_graph_check(mlff_system_graph(system), 4, &error)) fuzz_stop("a wrong list", error.text);
  mlff_system_free(system);
}

static size_t n_words(const char *text)
{
  size_t n = 0;
  for (const char *s = text; *s; s++) n += *s == ' ' || *s == '\n';
  return n + 1;
}

/* Reads all that a frame points to. */
static void check_frame(const mlff_xyz_frame *f, size_t size)
{
  if (f->n_atoms < 1 || f->end > (int64_t) size || (f->comment && f->n_keys)) fuzz_stop("a frame", "of wrong numbers");
  for (int k = 0; k < f->n_keys; k++) {
    const mlff_xyz_key *key = &f->keys[k];
    double sum = 0;
    for (int v = 0; key->values && v < key->n_values; v++) sum += key->values[v];
    if (!strchr("RILS", key->kind) || (key->raw == NULL) != (key->text == NULL) ||
        (key->values && isnan(sum) && key->kind != 'R'))
      fuzz_stop("a key", key->name);
  }
  for (int k = 0; k < f->n_columns; k++) {
    const mlff_xyz_column *c = &f->columns[k];
    const size_t n = (size_t) f->n_atoms * (size_t) c->width;
    double sum = 0;
    for (size_t v = 0; c->values && v < n; v++) sum += c->values[v];
    if (strlen(c->text) != c->text_size || n_words(c->text) != n || (isnan(sum) && c->kind != 'R'))
      fuzz_stop("a column", c->name);
  }
  for (int32_t i = 0; i < f->n_atoms; i++)
    if (!mlff_chemical_symbol(f->numbers[i]) || !isfinite(f->positions[i][0] + f->positions[i][1] + f->positions[i][2]))
      fuzz_stop("an atom", "");
}

/* The same bytes in memory, as Python gives them: the outcome must be that of the file. */
static void read_memory(const uint8_t *data, size_t size, mlff_status expected, int n_expected)
{
  mlff_error error = {.text = ""};
  mlff_xyz *file = NULL;
  const mlff_xyz_frame *frame = NULL;
  int n = 0;
  mlff_status status = mlff_xyz_open("memory", size ? (const void *) data : "", size, &file, &error);
  while (!status && !(status = mlff_xyz_next(file, &frame, &error)) && frame) {
    check_frame(frame, size);
    n++;
  }
  if (expected ? !status && n : status || n != n_expected) fuzz_stop("memory and file differ", error.text);
  mlff_xyz_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cli_frame *frames = NULL;
  int n = 0;
  mlff_error error = {.text = ""};
  const mlff_status status = cli_read_xyz(fuzz_path(data, size), &frames, &n, &error);
  if (status && (!error.text[0] || error.code != status || frames)) fuzz_stop("refused without a text", error.text);
  if (!status && n < 1) fuzz_stop("accepted without a frame", "");
  fuzz_n_refused += status != MLFF_OK;
  fuzz_n_accepted += status == MLFF_OK;
  read_memory(data, size, status, n);
  for (int k = 0; k < n && !status; k++) use(&frames[k]);
  if (!status) cli_frames_free(frames, n);
  return 0;
}

static const char *const words[] =
    {"1\n",  "0",   "-1",     "1e308",    "nan",   "inf",          "99999999", "\n",  "\"",    " ",    "\t",   "H",
     "Xx",   "T",   "F",      "T T F",    "pbc=",  "Lattice=",     ":",        ".5",  "name=", "\r\n", "1e-9", "=",
     "S:1:", "R:3", "pos:",   "species:", "0x1",   "Properties=",  "'",        "\\",  "{",     "}",    "[",    "]",
     "(",    ")",   "Z:I:1:", "L:1:",     "1D+00", "\xef\xbb\xbf", "\r",       " = ", ",",     NULL};
const fuzz_target fuzz_this = {.name = "xyz", .words = words};
