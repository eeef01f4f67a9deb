/* main.c: the program `mlff`: commands and their options. */
#include "../base/number.h"
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ANY_NUMBER = 1 << 20 };

static const cli_command commands[] = {
    {"check", "", 0, 0, "gpu json-file roof", "print what this computer, its GPUs and this build can do", cli_check},
    {"info", "[MODEL]", 0, 1, "names",
     "print what a model is, where it comes from and what it was made for; without one, which models there are",
     cli_info},
    {"verify", "MODEL", 1, 1, "device precision kernels radial_intervals replay fuse against-package",
     "run the model's self-test here, or compare it --against a package", cli_verify},
    {"evaluate", "MODEL STRUCTURES.xyz", 2, 2,
     "device precision kernels radial_intervals replay fuse e0 members forces json",
     "energy, forces and virial of each structure", cli_evaluate},
    {"time", "MODEL STRUCTURE.xyz", 2, 2,
     "device precision kernels radial_intervals replay fuse e0 members calls replicas skin against json file trace",
     "time repeated evaluations of the first structure", cli_time},
    {"soak", "MODEL STRUCTURE.xyz", 2, 2,
     "device precision kernels radial_intervals replay fuse e0 members calls skin json file",
     "does memory grow over many evaluations? fails when it does", cli_soak},
    {"show", "REPORT.json...", 1, ANY_NUMBER, "all targets", "print one report, or a table of many", cli_show},
    {"compare", "A.json... B.json...", 1, ANY_NUMBER, "with gate",
     "B against A: ratios, intervals, test; many against the first; runs --with runs; or rules with --gate",
     cli_compare},
    {"explain", "REPORT.json", 1, 1, "roof-file json",
     "why is it slow: what each part of a step does, what a core can do, what would help", cli_explain},
    {"batch", "", 0, 0, "", "run commands from standard input, one a line, in one process; a line of JSON after each",
     cli_batch},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* Options of the commands beside those of models. values: NULL where none follows. */
static const mlff_option own_options[] = {
    {"json-file", "FILE", NULL, "write what is printed as JSON"}, /* --json of commands that print text as well */
    {"names", NULL, NULL, "without MODEL: only the names"},
    {"all", NULL, NULL, "of one report also its slowest steps, and what is known of the run and the machine"},
    {"gpu", NULL, NULL, "exit status 3 if no GPU can be used"},
    {"roof", NULL, NULL, "measure what a core can do: multiply-adds of each kernel path, reading (some seconds)"},
    {"roof-file", "FILE", NULL,
     "what mlff check --roof --json FILE wrote, on the computer of the report; here: measured"},
    {"forces", NULL, NULL, "print the forces as well (always in JSON)"},
    {"json", NULL, NULL, "write JSON with all digits"},
    {"calls", "N", NULL, "number of evaluations, 100 by default (soak: 2000); a tenth as many warm up"},
    {"replicas", "N", "1", "that many copies of the structure in one evaluation"},
    {"skin", "LENGTH", "2", "A, added to the cutoff of the neighbour list as in dynamics"},
    {"against", "cpu", NULL, "first compare with fp64 on the CPU; fails when energies or forces differ too much"},
    {"against-package", "PACKAGE", NULL, "compare with torchani, orb-models, schnetpack, nequix or sevenn (Python)"},
    {"file", "FILE", NULL, "write the report as JSON (docs/reports.md)"},
    {"trace", "FILE", NULL, "write the calls for a trace viewer (ui.perfetto.dev)"},
    {"targets", "FILE", NULL, "rules to hold the reports against instead of the project's own bars"},
    {"with", NULL, NULL, "between the runs of A and those of B: several a side, from 4 each on with an interval"},
    {"gate", "FILE", NULL, "hold A, or the change from A to B, against rules; fails when one is broken"},
};
enum { N_OWN = sizeof own_options / sizeof *own_options };

/* Option k, first those of models; NULL after the last one. */
static const mlff_option *option_at(int k)
{
  int n = 0;
  while (n < k && mlff_option_at(n)) n++;
  return mlff_option_at(n) ? mlff_option_at(n) : k - n < N_OWN ? &own_options[k - n] : NULL;
}

/* What stands on the command line for it. */
static const char *typed(const mlff_option *option)
{
  static const char *const same[] = {"json", "roof", "against"}; /* one word, of which commands make different things */
  for (size_t k = 0; k < sizeof same / sizeof *same; k++)
    if (!strncmp(option->name, same[k], strlen(same[k])) && option->name[strlen(same[k])] == '-') return same[k];
  return option->name;
}

/* Commands of the Python package mlff_tools. */
static const struct {
  const char *name, *summary;
} scripts[] = {
    {"convert", "turn published parameters into a model file (Python)"},
    {"bench", "run the benchmark suite (Python)"},
    {"scaling", "measure strong and weak scaling over ranks, and replicas (Python)"},
    {"validate", "does a model conserve energy? NVE of a molecule or any structure, judged (Python)"},
    {"report", "make a page of reports (Python)"},
    {"distill", "from a recipe to a trained and certified model (Python)"},
    {"certify", "hold a model against its teacher and the bars of a recipe (Python)"},
    {"label", "label structures by a teacher: a model, LAMMPS, ASE or a file of labels (Python)"},
};
enum { N_SCRIPTS = sizeof scripts / sizeof *scripts };

static void print_usage(FILE *out)
{
  fprintf(out, "usage: mlff COMMAND ARGUMENTS [OPTIONS]\n\n");
  for (int k = 0; k < N_COMMANDS; k++)
    fprintf(out, "  mlff %-9s%-28s%s\n", commands[k].name, commands[k].arguments, commands[k].summary);
  for (int k = 0; k < N_SCRIPTS; k++) fprintf(out, "  mlff %-9s%-28s%s\n", scripts[k].name, "...", scripts[k].summary);
  fprintf(out, "\n  mlff COMMAND --help     options of a command\n  mlff --version          version\n"
               "  eval \"$(mlff --completion)\"      the Tab key completes commands, options and models (bash, zsh)\n\n"
               "Exit status: 0 success, 1 failure, 2 wrong usage; of check --gpu: 3 no GPU that this build can use;\n"
               "of validate: 3 too short to say.\n");
}

/* For bash, and for zsh, which has what it takes from bash. What may stand there is what --help says. */
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

static int takes_option(const cli_command *command, const char *name)
{
  const size_t n = strlen(name);
  for (const char *at = strstr(command->options, name); n && at; at = strstr(at + n, name))
    if ((at == command->options || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return 1;
  return 0;
}

static void print_command(const cli_command *command)
{
  printf("usage: mlff %s %s%s\n\n%s\n", command->name, command->arguments, *command->options ? " [OPTIONS]" : "",
         command->summary);
  for (int k = 0; option_at(k); k++) {
    const mlff_option *o = option_at(k);
    if (!takes_option(command, o->name)) continue;
    printf("  --%-17s%s%s%s%s%s%s\n", typed(o), o->values ? o->values : "", o->values ? ": " : "", o->help,
           o->standard ? " (default " : "", o->standard ? o->standard : "", o->standard ? ")" : "");
  }
}

/* Word k of those that may stand there: commands without one, else the options of the command; NULL after the last. */
static const char *word_at(const cli_command *command, int k)
{
  if (!command)
    return k < N_COMMANDS ? commands[k].name : k - N_COMMANDS < N_SCRIPTS ? scripts[k - N_COMMANDS].name : NULL;
  for (int n = 0; option_at(n); n++)
    if (takes_option(command, option_at(n)->name) && k-- == 0) return typed(option_at(n));
  return NULL;
}

static int see_help(const cli_command *command)
{
  fprintf(stderr, "Try 'mlff%s%s --help'.\n", command ? " " : "", command ? command->name : "");
  return CLI_USAGE;
}

static int wrong_usage(const cli_command *command, const char *what, const char *which)
{
  cli_error(CLI_USAGE, command ? command->name : NULL, "%s '%s'", what, which);
  return see_help(command);
}

/* A word that is no command, or with a command none of its options; says which one is near. */
static int unknown_word(const cli_command *command, const char *word)
{
  const char *known[64], *dashes = command ? "--" : "";
  int n = 0;
  while (n < 64 && (known[n] = word_at(command, n))) n++;
  const char *meant = cli_nearest(word + strlen(dashes), known, n);
  cli_error(CLI_USAGE, command ? command->name : NULL, "unknown %s '%s'%s%s%s%s", command ? "option" : "command", word,
            meant ? "; is it '" : "", meant ? dashes : "", meant ? meant : "", meant ? "'?" : "");
  return see_help(command);
}

static int read_number(const char *text, double low, double high, double *value)
{
  return mlff_number_parse(text, value) && *value >= low && *value <= high;
}

static int read_count(const char *text, double most, int *count)
{
  double number = 0;
  if (!read_number(text, 1, most, &number) || number != floor(number)) return 0;
  *count = (int) number;
  return 1;
}

/* Sets one of own_options from its text. Returns NULL, or words for what is possible when this text is not. */
static const char *set_option(cli_options *o, const char *name, const char *value)
{
  if (!strcmp(name, "forces")) o->forces = 1;
  if (!strcmp(name, "json")) o->json = 1;
  if (!strcmp(name, "file") || !strcmp(name, "json-file")) o->file = value;
  if (!strcmp(name, "trace")) o->trace = value;
  if (!strcmp(name, "roof")) o->measures_roof = 1;
  if (!strcmp(name, "gpu")) o->wants_gpu = 1;
  if (!strcmp(name, "all")) o->all = 1;
  if (!strcmp(name, "names")) o->only_names = 1;
  if (!strcmp(name, "roof-file")) o->roof = value;
  if (!strcmp(name, "gate")) o->gate = value;
  if (!strcmp(name, "with")) o->n_before = o->has_sides++ ? -1 : o->n_arguments;
  if (!strcmp(name, "targets")) o->targets = value;
  if (!strcmp(name, "against")) {
    if (strcmp(value, "cpu")) return "cpu";
    o->against = value;
  }
  if (!strcmp(name, "calls") && !read_count(value, 1e7, &o->n_calls)) return "a whole number from 1 to 10000000";
  if (!strcmp(name, "replicas") && !read_count(value, 1e6, &o->n_replicas)) return "a whole number from 1 to 1000000";
  if (!strcmp(name, "skin") && !read_number(value, 0, 100, &o->skin)) return "a number from 0 to 100";
  return NULL;
}

/* --name VALUE, --name=VALUE or a flag at argv[*at]; advances past the value. */
static int read_option(const cli_command *command, int argc, char **argv, int *at, cli_options *o)
{
  char name[32];
  const char *text = argv[*at] + 2, *value = strchr(text, '=');
  const size_t n = value ? (size_t) (value - text) : strlen(text);
  int k = 0;
  if (n >= sizeof name) return unknown_word(command, argv[*at]);
  memcpy(name, text, n);
  name[n] = 0;
  const mlff_option *of_model = mlff_option_find(name);
  const char *known = of_model ? of_model->name : name;
  while (option_at(k) && !(!strcmp(typed(option_at(k)), known) && takes_option(command, option_at(k)->name))) k++;
  const mlff_option *option = option_at(k);
  if (!option) return unknown_word(command, argv[*at]);
  const int wants_value = option->values != NULL;
  if (value)
    value++;
  else if (wants_value && *at + 1 < argc)
    value = argv[++*at];
  if (!wants_value != !value)
    return wrong_usage(command, wants_value ? "a value is missing after" : "no value goes with", argv[*at]);
  mlff_error error = {.code = MLFF_OK};
  if (of_model && mlff_options_set(&o->open, option->name, value, &error))
    return cli_error(CLI_USAGE, command->name, "%s", error.text);
  const char *possible = of_model ? NULL : set_option(o, option->name, value);
  return possible ? cli_error(CLI_USAGE, command->name, "--%s cannot be '%s', only %s", name, value, possible) : CLI_OK;
}

/* Options and arguments into o, or a usage error. -1: help was printed. */
static int read_line(const cli_command *command, int argc, char **argv, cli_options *o)
{
  for (int at = 0; at < argc; at++) {
    if (!strcmp(argv[at], "--help") || !strcmp(argv[at], "-h")) {
      print_command(command);
      return -1;
    }
    if (!strncmp(argv[at], "--", 2)) {
      const int code = read_option(command, argc, argv, &at, o);
      if (code) return code;
    } else if (o->n_arguments == command->n_most) {
      return wrong_usage(command, "one argument too many:", argv[at]);
    } else {
      o->arguments[o->n_arguments++] = argv[at];
    }
  }
  if (o->n_arguments < command->n_arguments)
    return wrong_usage(command, "arguments are missing; expected", command->arguments);
  if (!o->n_arguments || strncmp(command->arguments + (*command->arguments == '['), "MODEL", 5) != 0) return CLI_OK;
  const int code = cli_find_model(command->name, o->arguments[0], o->model);
  o->arguments[0] = o->model;
  return code;
}

static int run_command(const cli_command *command, int argc, char **argv)
{
  cli_options o = {.skin = 2.0, .n_replicas = 1, .arguments = calloc((size_t) argc + 1, sizeof *o.arguments)};
  if (!o.arguments) return CLI_FAILED;
  int code = read_line(command, argc, argv, &o);
  code = code < 0 ? CLI_OK : code ? code : command->run(&o);
  free(o.arguments);
  return code;
}

/* A command of Python, which takes the place of this process. */
static int run_python(const char *name, int argc, char **argv, int in_batch)
{
  if (!in_batch) return cli_python(name, argc - 2, argv + 2);
  return cli_error(CLI_USAGE, argv[1], "becomes another process, after which a batch cannot go on: run it by itself");
}

int cli_run(int argc, char **argv, int in_batch)
{
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    print_usage(stdout);
    return CLI_OK;
  }
  if (!strcmp(argv[1], "--version")) {
    printf("mlff %s\n", MLFF_VERSION);
    return CLI_OK;
  }
  if (!strcmp(argv[1], "--completion")) {
    fputs(completion, stdout);
    return CLI_OK;
  }
  for (int k = 2; k < argc && !strcmp(argv[1], "verify"); k++)
    if (!strncmp(argv[k], "--against", 9)) return run_python("against", argc, argv, in_batch);
  if (in_batch && !strcmp(argv[1], "batch")) return cli_error(CLI_USAGE, "batch", "a batch cannot run a batch");
  for (int k = 0; k < N_COMMANDS; k++)
    if (!strcmp(argv[1], commands[k].name)) return run_command(&commands[k], argc - 2, argv + 2);
  for (int k = 0; k < N_SCRIPTS; k++)
    if (!strcmp(argv[1], scripts[k].name)) return run_python(scripts[k].name, argc, argv, in_batch);
  return unknown_word(NULL, argv[1]);
}

int main(int argc, char **argv)
{
  if (argc < 2) {
    print_usage(stderr);
    return CLI_USAGE;
  }
  const int code = cli_run(argc, argv, 0);
  if ((fflush(stdout) || ferror(stdout)) && (code == CLI_OK || code == CLI_NO_GPU))
    return cli_error(CLI_FAILED, argv[1], "what it prints cannot be written: %s", strerror(errno));
  return code;
}
