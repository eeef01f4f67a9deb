/* xyz.c: structures from (extended) XYZ files. */
#include "../base/utf8.h"
#include "cli.h"
#include "mlff/mlff_xyz.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the characters that fit into `most` bytes. */
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

static mlff_status fail(mlff_error *error, mlff_status code, const char *path, const char *text)
{
  snprintf(error->text, sizeof error->text, "%s: %s", path, text);
  return error->code = code;
}

/* Copies a frame. Returns 0 if memory is short. */
static int copy_frame(const mlff_xyz_frame *read, int number, cli_frame *frame)
{
  const size_t n = (size_t) read->n_atoms;
  *frame = (cli_frame){.n_atoms = read->n_atoms, .has_cell = read->has_cell};
  frame->elements = calloc(n, sizeof *frame->elements);
  frame->species = calloc(n, sizeof *frame->species);
  frame->pos = malloc(n * sizeof *frame->pos);
  if (!frame->elements || !frame->species || !frame->pos) return 0;
  memcpy(frame->pos, read->positions, n * sizeof *frame->pos);
  memcpy(frame->cell, read->cell, sizeof frame->cell);
  memcpy(frame->pbc, read->pbc, sizeof frame->pbc);
  for (size_t i = 0; i < n; i++)
    snprintf(frame->elements[i], sizeof *frame->elements, "%s", mlff_chemical_symbol(read->numbers[i]));
  snprintf(frame->name, sizeof frame->name, "frame-%d", number);
  for (int k = 0; k < read->n_keys; k++)
    if (!strcmp(read->keys[k].name, "name") && read->keys[k].text)
      snprintf(frame->name, sizeof frame->name, "%.*s", whole_characters(read->keys[k].text, 60), read->keys[k].text);
  return 1;
}

static mlff_status read_frames(mlff_xyz *file, const char *path, cli_frame **frames, int *n_frames, mlff_error *error)
{
  const mlff_xyz_frame *read = NULL;
  for (;;) {
    const mlff_status status = mlff_xyz_next(file, &read, error);
    if (status) return status;
    if (!read) break;
    cli_frame *grown = realloc(*frames, ((size_t) *n_frames + 1) * sizeof **frames);
    if (!grown) return fail(error, MLFF_E_NOMEM, path, "out of memory");
    *frames = grown;
    ++*n_frames;
    if (!copy_frame(read, *n_frames, &grown[*n_frames - 1])) return fail(error, MLFF_E_NOMEM, path, "out of memory");
  }
  return *n_frames ? MLFF_OK : fail(error, MLFF_E_FORMAT, path, "the file contains no structure");
}

mlff_status cli_read_xyz(const char *path, cli_frame **frames, int *n_frames, mlff_error *error)
{
  mlff_xyz *file = NULL;
  cli_frame *list = NULL;
  int n = 0;
  mlff_status status = mlff_xyz_open(path, NULL, 0, &file, error);
  if (status) return status;
  status = read_frames(file, path, &list, &n, error);
  mlff_xyz_close(file);
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
               "%s, %s: atom %d is '%s', which is not an element of the model (see mlff info)", path, frame->name,
               (int) i + 1, frame->elements[i]);
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
