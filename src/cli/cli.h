/* cli.h: what the commands of the program `mlff` share. */
#ifndef MLFF_CLI_H
#define MLFF_CLI_H

#include "../base/writer.h"
#include "mlff/mlff.h"
#include "mlff/mlffprof.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NO_GPU = 3 };
enum { CLI_PATH = 4096 }; /* characters of a path, at most */

/* What stands after the command. Strings are borrowed from argv. */
typedef struct cli_options {
  const char **arguments; /* [n_arguments] */
  int n_arguments;
  int has_sides, n_before; /* --with is there; arguments in front of it, -1: it is there again */
  mlff_options open;
  int forces, json, all, only_names;
  int n_calls; /* 0 = the command's default */
  int n_replicas;
  double skin;
  int measures_roof, wants_gpu; /* of check */
  char model[CLI_PATH];         /* of arguments[0], where that is a model */
  const char *file, *trace, *gate, *targets, *roof;
  const char *against; /* "cpu" */
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
int cli_explain(const cli_options *options);
int cli_batch(const cli_options *options);

/* Runs the command of a whole command line, argv[0] included. in_batch: without commands that become another process,
 * and without batch. Returns its exit status. */
int cli_run(int argc, char **argv, int in_batch);

/* The known word that differs least from a wrong one; NULL: none is near. */
const char *cli_nearest(const char *word, const char *const *known, int n_known);

/* The path of a model: the name itself if it is one, else NAME.yaml here, in a folder of $MLFF_MODELS or among the
 * models of this project. Prints which there are if it is none of them: CLI_FAILED. */
int cli_find_model(const char *command, const char *name, char path[CLI_PATH]);
/* A table of those that a name finds, or only their names. */
void cli_print_models(int only_names);

/* What the system calls the processor; "" when it does not say. */
const char *cli_processor(void);

/* Becomes `python3 -m mlff_tools NAME ARGUMENTS`; returns only when there is no Python, with CLI_FAILED. */
int cli_python(const char *name, int argc, char **argv);

/* Prints "mlff WHO: text", or "mlff: text" when who is NULL, to stderr, and returns `code`. All errors are printed by
 * it. */
int cli_error(int code, const char *who, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What the first error since cli_error_forget said; "" when there was none. */
const char *cli_error_text(void);
void cli_error_forget(void);

/* The same for an error of the engine; returns CLI_FAILED. */
int cli_fail(const mlff_error *error);

/* The same for an error of the profiler library. */
int cli_fail_report(const mlffprof_error *error);

/* A line to stderr when a model's file has nothing that checks its numbers. */
void cli_warn_untested(const char *who, const mlff_model *model);

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

/* Structures of a file, to be given back by the command that has taken them; then they may be kept (structures.c). */
typedef struct cli_file {
  cli_frame *frames;
  int n_frames;
} cli_file;
mlff_status cli_file_take(const char *path, cli_file **file, mlff_error *error);
void cli_file_give_back(cli_file *file); /* NULL is fine */

/* The neighbour list of a structure, or of n_replicas copies of it, whose species have been looked up; to be given back
 * before its file. */
typedef struct cli_list cli_list;
mlff_status cli_list_take(cli_file *file, int frame, double reach, int n_replicas, cli_list **list, mlff_error *error);
void cli_list_give_back(cli_list *list); /* NULL is fine */
const mlff_graph *cli_list_graph(const cli_list *list);

/* How much of what was given back is kept from now on; 0, as at first: nothing. */
void cli_structures_keep(size_t bytes);
/* What structures and lists take now. */
size_t cli_structures_bytes(void);

/* Prints which atoms of a graph with these results are outside of the training of their model: lines, or with is_json
 * the key "outside" and a list of texts. Atoms count from 1. */
mlff_status cli_print_outside(const mlff_info *info, const mlff_graph *graph, const mlff_result *result, int is_json,
                              mlff_error *error);

/* An evaluation held against one in double precision on the CPU. */
typedef struct cli_against {
  double energy, (*forces)[3]; /* of the CPU, [n_atoms]; free(forces) */
  double energy_difference;    /* eV/atom                             */
  double force_difference;     /* largest, eV/A                       */
  double force_rms_ratio;      /* root mean squares: of the differences to that of the forces */
} cli_against;

/* Evaluates the reference, opened on the CPU with fp64. */
mlff_status cli_against_begin(mlff_model *reference, const mlff_graph *graph, cli_against *against, mlff_error *error);
/* Compares. An error is printed when the differences are beyond what the precision may have: CLI_FAILED. */
int cli_against_end(cli_against *against, const mlff_info *info, const mlff_result *result, int32_t n_atoms);

/* Repeated evaluations of the first structure of a file, on a recorder. */
typedef struct cli_calls {
  mlff_model *model;
  cli_file *file;
  cli_list *list;
  int n_calls;
  int64_t n_growths; /* of buffers, after warm-up */
  mlff_result result;
  int n_atoms;                          /* of all replicas */
  mlff_memory memory;                   /* afterwards */
  cli_against against;                  /* of o->against */
  double first_seconds, record_seconds; /* of the first call, and of recording a step (mlff_model_record) */
  mlffprof_report *report;
} cli_calls;

/* Warms up with a tenth as many calls, times n_calls, and samples memory after every memory_every-th call (0 = never).
 * Writes o->trace and o->file when they are given. Returns a CLI_ status; prints what failed. Free in any case. */
int cli_calls_run(const cli_options *o, int n_calls, int memory_every, cli_calls *calls);
void cli_calls_free(cli_calls *calls);

#endif
