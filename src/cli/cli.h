/* cli.h: what the commands of the program `mlff` share. */
#ifndef MLFF_CLI_H
#define MLFF_CLI_H

#include "mlff/mlff.h"
#include "mlff/mlffprof.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NO_GPU = 3 };

/* What stands after the command. Strings are borrowed from argv. */
typedef struct cli_options {
  const char **arguments; /* [n_arguments] */
  int n_arguments;
  mlff_options open;
  int forces, json;
  int n_calls; /* 0 = the command's default */
  int n_replicas;
  double skin;
  const char *file, *trace, *gate, *targets;
} cli_options;

typedef struct cli_command {
  const char *name;
  const char *arguments;   /* for the usage line                                 */
  int n_arguments, n_most; /* at least and at most                              */
  const char *options;     /* names that it takes, e.g. "device precision json"   */
  const char *summary;
  int (*run)(const cli_options *options);
} cli_command;

int cli_check(const cli_options *options);
int cli_info(const cli_options *options);
int cli_verify(const cli_options *options);
int cli_evaluate(const cli_options *options);
int cli_time(const cli_options *options);
int cli_soak(const cli_options *options);
int cli_show(const cli_options *options);
int cli_compare(const cli_options *options);

/* Becomes `python3 -m mlff_tools.NAME ARGUMENTS`; returns only when there is no Python, with CLI_FAILED. */
int cli_python(const char *name, int argc, char **argv);

/* Prints "mlff: text" to stderr and returns CLI_FAILED. */
int cli_fail(const mlff_error *error);

/* The same for an error of the profiler library. */
int cli_fail_report(const mlffprof_error *error);

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

/* Repeated evaluations of the first structure of a file, on a recorder. */
typedef struct cli_calls {
  mlff_model *model;
  cli_frame *frames;
  int n_frames, n_calls;
  int64_t n_growths; /* of buffers, after warm-up */
  mlff_result result;
  int n_atoms;                          /* of all replicas */
  mlff_memory memory;                   /* afterwards */
  double first_seconds, record_seconds; /* of the first call, and of recording a step (mlff_model_record) */
  mlffprof_report *report;
} cli_calls;

/* Warms up with a tenth as many calls, times n_calls, and samples memory after every memory_every-th call (0 = never).
 * Writes o->trace and o->file when they are given. Returns a CLI_ status; prints what failed. Free in any case. */
int cli_calls_run(const cli_options *o, int n_calls, int memory_every, cli_calls *calls);
void cli_calls_free(cli_calls *calls);

/* Text in quotes with JSON escapes, and a number with all its digits (null when not finite). */
void cli_json_text(FILE *out, const char *text);
void cli_json_number(FILE *out, double value);

#endif
