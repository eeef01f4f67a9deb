/* fuzz_xyz.c: bytes as (extended) XYZ files, of whose frames the program mlff makes neighbour lists. */
#include "fuzz.h"

#include "cli/cli.h"

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
  for (int k = 0; k < n && !status; k++) use(&frames[k]);
  if (!status) cli_frames_free(frames, n);
  return 0;
}

static const char *const words[] = {"1\n",  "0",        "-1",   "1e308",    "nan",   "inf",         "99999999", "\n",
                                    "\"",   " ",        "\t",   "H",        "Xx",    "T",           "F",        "T T F",
                                    "pbc=", "Lattice=", ":",    ".5",       "name=", "\r\n",        "1e-9",     "=",
                                    "S:1:", "R:3",      "pos:", "species:", "0x1",   "Properties=", NULL};
const fuzz_target fuzz_this = {.name = "xyz", .words = words};
