/* main.c: the program `mlff`: its commands. */
#include "../base/commit.h"
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ANY_NUMBER = 1 << 20 };

#define EVALUATION "device precision kernels radial_intervals replay fuse"

static const cli_command commands[] = {
    {"check", "", 0, 0, "", "print what this computer, its GPUs and this build support", cli_check},
    {"info", "[MODEL]", 0, 1, "",
     "print identity, provenance, domain and accuracy of a model; without MODEL, list models", cli_info},
    {"cite", "MODEL...", 1, ANY_NUMBER, "", "print what to cite for models, and their licences", cli_cite},
    {"methods", "MODEL", 1, 1, "", "print a paragraph for the methods section of a paper", cli_methods},
    {"verify", "MODEL", 1, 1, EVALUATION, "run the self-test of a model, or compare it --against a package",
     cli_verify},
    {"evaluate", "MODEL STRUCTURES.xyz", 2, 2, EVALUATION " e0 members",
     "print energy, forces and virial of each structure, of extended XYZ or a LAMMPS data file", cli_evaluate},
    {"time", "MODEL STRUCTURE.xyz", 2, 2, EVALUATION " e0 members",
     "time repeated evaluations of the first structure, of extended XYZ or a LAMMPS data file", cli_time},
    {"soak", "MODEL STRUCTURE.xyz", 2, 2, EVALUATION " e0 members",
     "repeat evaluations of the first structure; fail if memory grows", cli_soak},
    {"show", "REPORT.json...", 1, ANY_NUMBER, "", "print one report, or a table of several", cli_show},
    {"compare", "A.json... B.json...", 1, ANY_NUMBER, "",
     "compare B with A, several reports with the first, runs --with runs, or reports with rules (--gate)", cli_compare},
    {"explain", "REPORT.json", 1, 1, "", "print time, work and roofline fraction of each part of a step, with advice",
     cli_explain},
    {"batch", "", 0, 0, "", "run commands from standard input, one per line, and print a line of JSON after each",
     cli_batch},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* Commands of the Python package mlff_tools. */
static const struct {
  const char *name, *summary;
} scripts[] = {
    {"examples", "list example input scripts of LAMMPS, and copy them (Python)"},
    {"convert", "convert published parameters to a model file (Python)"},
    {"bench", "run the benchmark suite (Python)"},
    {"scaling", "measure strong and weak scaling over ranks, and of replicas (Python)"},
    {"validate", "check energy conservation of a model in NVE runs (Python)"},
    {"plot", "draw logs, dumps, reports and certificates as PNG, PDF or SVG (Python)"},
    {"report", "make an HTML page of reports (Python)"},
    {"distill", "train and certify a model from a recipe (Python)"},
    {"certify", "check a model against its teacher and the thresholds of a recipe (Python)"},
    {"uncertainty", "add the uncertainty of atoms to a model, and test it (Python)"},
    {"label", "label structures with a teacher: a model, LAMMPS, ASE or a file of labels (Python)"},
};
enum { N_SCRIPTS = sizeof scripts / sizeof *scripts };

static void print_usage(FILE *out)
{
  fprintf(out, "usage: mlff COMMAND ARGUMENTS [OPTIONS]\n\n");
  for (int k = 0; k < N_COMMANDS; k++)
    fprintf(out, "  mlff %-12s%-28s%s\n", commands[k].name, commands[k].arguments, commands[k].summary);
  for (int k = 0; k < N_SCRIPTS; k++) fprintf(out, "  mlff %-12s%-28s%s\n", scripts[k].name, "...", scripts[k].summary);
  fprintf(out, "\n  mlff COMMAND --help     options of a command\n  mlff --version          version\n"
               "  eval \"$(mlff --completion)\"      Tab completion of commands, options and models (bash, zsh)\n\n"
               "Exit status: 0 success; 1 a check or a run failed; 2 wrong usage or input; 3 undecided; check --gpu: "
               "none can be used.\n");
}

/* For bash, and zsh with bashcompinit. Words are read from --help. */
static const char completion[] =
    "[ -z \"${ZSH_VERSION-}\" ] || { autoload -U +X compinit bashcompinit && compinit -u && bashcompinit; }\n"
    "_mlff() {\n"
    "  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} known\n"
    "  COMPREPLY=()\n"
    "  while read -r known; do case $known in \"$word\"*) COMPREPLY+=(\"$known\") ;; esac; done < <(\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then mlff --help | awk '$1 == \"mlff\" && $2 ~ /^[a-z]+$/ {print $2}'\n"
    "    elif [ \"${word#-}\" != \"$word\" ]; then mlff \"$command\" --help 2>&1 | grep -oE -e '--[a-z][a-z_-]*' | "
    "sort -u\n"
    "    elif mlff \"$command\" --help 2>&1 | sed '/^$/q' | grep -q MODEL; then mlff info --names; fi)\n"
    "}\n"
    "complete -o default -F _mlff mlff\n";

static int unknown_command(const char *word)
{
  const char *known[N_COMMANDS + N_SCRIPTS];
  for (int k = 0; k < N_COMMANDS; k++) known[k] = commands[k].name;
  for (int k = 0; k < N_SCRIPTS; k++) known[N_COMMANDS + k] = scripts[k].name;
  return cli_unknown_word(NULL, word, known, N_COMMANDS + N_SCRIPTS);
}

static int run_command(const cli_command *command, int argc, char **argv)
{
  cli_options o = {.skin = 2.0, .n_replicas = 1, .arguments = calloc((size_t) argc + 1, sizeof *o.arguments)};
  if (!o.arguments) return CLI_FAILED;
  int code = cli_options_parse(command, argc, argv, &o);
  if (code == CLI_OK)
    code = command->run(&o);
  else if (code == CLI_HELP)
    code = CLI_OK;
  free(o.arguments);
  return code;
}

/* Replaces this process by a command of the Python package. */
static int run_python(const char *name, int argc, char **argv, int in_batch)
{
  if (!in_batch) return cli_python(name, argc - 2, argv + 2);
  return cli_error(CLI_WRONG, argv[1],
                   "this command replaces the process and cannot run in a batch: run it on its own");
}

int cli_run(int argc, char **argv, int in_batch)
{
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    print_usage(stdout);
    return CLI_OK;
  }
  const int is_word = !strcmp(argv[1], "--version") || !strcmp(argv[1], "--completion");
  if (is_word && argc > 2) return cli_error(CLI_WRONG, argv[1], "takes no argument, and got '%s'", argv[2]);
  if (!strcmp(argv[1], "--version")) {
    printf("mlff %s (commit %s)\n", MLFF_VERSION, mlff_commit());
    return CLI_OK;
  }
  if (!strcmp(argv[1], "--completion")) {
    fputs(completion, stdout);
    return CLI_OK;
  }
  for (int k = 2; k < argc && !strcmp(argv[1], "verify"); k++)
    if (!strncmp(argv[k], "--against", 9)) return run_python("against", argc, argv, in_batch);
  if (in_batch && !strcmp(argv[1], "batch")) return cli_error(CLI_WRONG, "batch", "a batch cannot run a batch");
  for (int k = 0; k < N_COMMANDS; k++)
    if (!strcmp(argv[1], commands[k].name)) return run_command(&commands[k], argc - 2, argv + 2);
  for (int k = 0; k < N_SCRIPTS; k++)
    if (!strcmp(argv[1], scripts[k].name)) return run_python(scripts[k].name, argc, argv, in_batch);
  return unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
  if (argc < 2) {
    print_usage(stderr);
    return CLI_WRONG;
  }
  const int code = cli_run(argc, argv, 0);
  if ((fflush(stdout) || ferror(stdout)) && (code == CLI_OK || code == CLI_NO_GPU))
    return cli_error(CLI_FAILED, argv[1], "cannot write to standard output: %s", strerror(errno));
  return code;
}
