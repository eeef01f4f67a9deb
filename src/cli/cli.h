/* cli.h: shared functions of the commands of the program `mlff`. */
#ifndef MLFF_CLI_H
#define MLFF_CLI_H

#include "../base/writer.h"
#include "mlff/mlff.h"
#include "mlff/mlffprof.h"

/* Exit status of a command. CLI_FAILED: a check or a run failed. CLI_WRONG: what was given cannot be used.
 * CLI_HELP: help was printed. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_WRONG = 2, CLI_NO_GPU = 3, CLI_HELP = -1 };
/* Most characters of a path. */
enum { CLI_PATH = 4096 };

/* Parsed arguments and options of a command. Strings are borrowed from argv. */
typedef struct cli_options {
  /* [n_arguments] */
  const char **arguments;
  int n_arguments;
  /* Number of --with, and arguments before it; -1 if there are several. */
  int has_sides, n_before;
  mlff_options open;
  int forces, json, all, only_names, bibtex;
  /* 0 = default of the command. */
  int n_calls;
  int n_replicas;
  double skin;
  int measures_roof, needs_gpu;
  /* Path of arguments[0] if that is a model. */
  char model[CLI_PATH];
  const char *file, *trace, *gate, *targets, *roof;
  /* "cpu" */
  const char *against;
} cli_options;

typedef struct cli_command {
  const char *name;
  /* For the usage line. */
  const char *arguments;
  /* Fewest and most arguments. */
  int n_arguments, n_most;
  /* Options of mlff_options that it accepts, e.g. "device precision". The others: options.c. */
  const char *model_options;
  const char *summary;
  int (*run)(const cli_options *options);
} cli_command;

int cli_check(const cli_options *options);
int cli_info(const cli_options *options);
int cli_cite(const cli_options *options);
int cli_methods(const cli_options *options);
int cli_verify(const cli_options *options);
int cli_evaluate(const cli_options *options);
int cli_time(const cli_options *options);
int cli_soak(const cli_options *options);
int cli_show(const cli_options *options);
int cli_compare(const cli_options *options);
int cli_explain(const cli_options *options);
int cli_batch(const cli_options *options);

/* Runs a command line, argv[0] included, and returns its exit status. in_batch: refuses commands that replace the
 * process, and batch. */
int cli_run(int argc, char **argv, int in_batch);

/* Parses options and arguments of a command into o. Returns CLI_HELP after --help. */
int cli_options_parse(const cli_command *command, int argc, char **argv, cli_options *o);
/* Prints that a command (command: NULL) or an option of a command is unknown, with the nearest known one. Returns
 * CLI_WRONG. */
int cli_unknown_word(const char *command, const char *word, const char *const *known, int n_known);

/* The known word nearest to a wrong one; NULL if none is near. */
const char *cli_nearest(const char *word, const char *const *known, int n_known);

/* Path of a model: the argument if it is a path, else NAME.yaml in the current folder, in a folder of $MLFF_MODELS or
 * among the models of this project. If there is none, prints the known names and returns CLI_WRONG. */
int cli_find_model(const char *command, const char *name, char path[CLI_PATH]);
/* Prints a table of the models that cli_find_model finds, or only their names. */
void cli_print_models(int only_names);

/* Name of the processor; "" if unknown. */
const char *cli_processor(void);

/* Replaces this process by `python3 -m mlff_tools NAME ARGUMENTS`. Returns CLI_WRONG if there is no Python. */
int cli_python(const char *name, int argc, char **argv);

/* Prints "mlff WHO: text" ("mlff: text" if who is NULL) to stderr and returns `code`. All errors are printed by it. */
int cli_error(int code, const char *who, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Text of the first error since cli_error_forget; "" if there was none. */
const char *cli_error_text(void);
void cli_error_forget(void);

/* Exit status after an error of the engine: CLI_FAILED if memory, a device or a calculation failed, else CLI_WRONG. */
int cli_status(mlff_status status);
/* Print an error of the engine or of the profiler library and return its exit status. */
int cli_fail(const mlff_error *error);
int cli_fail_report(const mlffprof_error *error);

/* Warns on stderr of known failures of the model, and if it has no self-test. */
void cli_warn(const char *who, const mlff_model *model);

/* A frame of an (extended) XYZ file or a LAMMPS data file. */
typedef struct cli_frame {
  char name[64];
  int32_t n_atoms;
  char (*elements)[4];
  /* Set by cli_frame_species. */
  int32_t *species;
  double (*pos)[3];
  double cell[3][3];
  int pbc[3];
  int has_cell;
} cli_frame;

/* Whether a file looks like a LAMMPS data file: `N atoms` is among the numbers after its title. */
int cli_is_lammps_data(const char *path);
/* Read all frames; free them with cli_frames_free. A data file has one, ordered by atom ID, periodic, in A. */
mlff_status cli_read_lammps_data(const char *path, cli_frame **frames, int *n_frames, mlff_error *error);
mlff_status cli_read_xyz(const char *path, cli_frame **frames, int *n_frames, mlff_error *error);
void cli_frames_free(cli_frame *frames, int n_frames);
/* Sets the species of the frame's elements. */
mlff_status cli_frame_species(cli_frame *frame, const mlff_info *info, const char *path, mlff_error *error);
/* Builds the neighbor graph of a frame. */
mlff_status cli_frame_system(const cli_frame *frame, double cutoff, mlff_system **system, mlff_error *error);

/* Structures of a file. The command releases them with cli_file_give_back; structures.c may then cache them. */
typedef struct cli_file {
  cli_frame *frames;
  int n_frames;
} cli_file;
mlff_status cli_file_take(const char *path, cli_file **file, mlff_error *error);
/* NULL is allowed. */
void cli_file_give_back(cli_file *file);

/* Neighbor list of a structure, or of n_replicas copies of it, after cli_frame_species. Release it before its file. */
typedef struct cli_list cli_list;
mlff_status cli_list_take(cli_file *file, int frame, double reach, int n_replicas, cli_list **list, mlff_error *error);
/* NULL is allowed. */
void cli_list_give_back(cli_list *list);
const mlff_graph *cli_list_graph(const cli_list *list);

/* Sets the size of the cache of structures and lists; 0 by default. */
void cli_structures_keep(size_t bytes);
/* Memory of structures and lists. */
size_t cli_structures_bytes(void);

/* Prints the atoms outside the training domain as lines, or with is_json as the key "outside" with a list of texts.
 * Atoms count from 1. */
mlff_status cli_print_outside(const mlff_info *info, const mlff_graph *graph, const mlff_result *result, int is_json,
                              mlff_error *error);

/* Comparison with an evaluation in double precision on the CPU. */
typedef struct cli_against {
  /* Reference energy and forces [n_atoms]; free(forces). */
  double energy, (*forces)[3];
  /* eV/atom */
  double energy_difference;
  /* Largest, eV/A. */
  double force_difference;
  /* RMS of the force differences / RMS of the forces. */
  double force_rms_ratio;
} cli_against;

/* Evaluates the reference model, opened on the CPU in fp64. */
mlff_status cli_against_begin(mlff_model *reference, const mlff_graph *graph, cli_against *against, mlff_error *error);
/* Compares. Prints an error and returns CLI_FAILED if the differences exceed the tolerance of the precision. */
int cli_against_end(cli_against *against, const mlff_info *info, const mlff_result *result, int32_t n_atoms);

/* Repeated evaluations of the first structure of a file, on a recorder. */
typedef struct cli_calls {
  mlff_model *model;
  cli_file *file;
  cli_list *list;
  int n_calls;
  /* Buffer growths after warm-up. */
  int64_t n_growths;
  mlff_result result;
  /* Atoms of all replicas. */
  int n_atoms;
  /* After the calls. */
  mlff_memory memory;
  cli_against against;
  /* Time of the first call, and of mlff_model_record. */
  double first_seconds, record_seconds;
  mlffprof_report *report;
} cli_calls;

/* Times n_calls calls after a warm-up of a tenth of them, and samples memory after every memory_every-th call (0 =
 * never). Writes o->trace and o->file if set. Prints errors and returns a CLI_ status. Always call cli_calls_free. */
int cli_calls_run(const cli_options *o, int n_calls, int memory_every, cli_calls *calls);
void cli_calls_free(cli_calls *calls);

#endif
