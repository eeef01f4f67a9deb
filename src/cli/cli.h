/* cli.h: what the commands of the program `mlff` share. */
#ifndef MLFF_CLI_H
#define MLFF_CLI_H

#include "mlff/mlff.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* What stands after the command. Strings are borrowed from argv. */
typedef struct cli_options {
  const char *arguments[4];
  int n_arguments;
  mlff_options open;
  int forces, json, help;
  int n_calls;
  double skin;
} cli_options;

typedef struct cli_command {
  const char *name;
  const char *arguments; /* for the usage line                                 */
  int n_arguments;
  const char *options; /* names that it takes, e.g. "device precision json"   */
  const char *summary;
  int (*run)(const cli_options *options);
} cli_command;

int cli_info(const cli_options *options);
int cli_verify(const cli_options *options);
int cli_evaluate(const cli_options *options);
int cli_time(const cli_options *options);

/* Prints "mlff: text" to stderr and returns CLI_FAILED. */
int cli_fail(const mlff_error *error);

/* A frame of an (extended) XYZ file. */
typedef struct cli_frame {
  char name[64];
  int32_t n_atoms;
  char (*elements)[4];
  int32_t *species; /* filled by cli_frame_species */
  double (*pos)[3];
  double cell[3][3];
  int pbc[3];
  int has_cell;
} cli_frame;

/* Reads all frames; free them with cli_frames_free. */
mlff_status cli_read_xyz(const char *path, cli_frame **frames, int *n_frames, mlff_error *error);
void cli_frames_free(cli_frame *frames, int n_frames);
/* Looks up the elements in the model. */
mlff_status cli_frame_species(cli_frame *frame, const mlff_info *info, const char *path, mlff_error *error);
/* Neighbour graph of a frame. */
mlff_status cli_frame_system(const cli_frame *frame, double cutoff, mlff_system **system, mlff_error *error);

/* Text in quotes with JSON escapes, and a number with all its digits (null when not finite). */
void cli_json_text(FILE *out, const char *text);
void cli_json_number(FILE *out, double value);

#endif
