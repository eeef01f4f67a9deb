/* options.c: options of the commands: their table, help and parsing. */
#include "../base/number.h"
#include "cli.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* How the value of an option is stored in cli_options. */
typedef enum option_kind {
  OPTION_FLAG,   /* int, 1 */
  OPTION_TEXT,   /* const char *, one of the option's values */
  OPTION_COUNT,  /* int, from 1 to `limit` */
  OPTION_NUMBER, /* double, from 0 to `limit` */
  OPTION_SIDES   /* separates the runs of A from those of B */
} option_kind;

typedef struct option_row {
  /* Commands that accept it. */
  const char *commands;
  option_kind kind;
  /* Offset of the member of cli_options. */
  size_t offset;
  double limit;
  /* values: NULL for a flag. */
  mlff_option option;
} option_row;

#define MEMBER(name) offsetof(cli_options, name)

// clang-format off

/* In the order of --help. A name may have several rows, for different commands. */
static const option_row rows[] = {
    {"check", OPTION_TEXT, MEMBER(file), 0, {"json", "FILE", NULL, "write the printed values as JSON"}},
    {"info", OPTION_FLAG, MEMBER(only_names), 0, {"names", NULL, NULL, "without MODEL: print names only"}},
    {"cite", OPTION_FLAG, MEMBER(bibtex), 0, {"bibtex", NULL, NULL, "print BibTeX, each publication once"}},
    {"show", OPTION_FLAG, MEMBER(all), 0,
     {"all", NULL, NULL, "for one report: print the slowest steps and the context"}},
    {"check", OPTION_FLAG, MEMBER(needs_gpu), 0, {"gpu", NULL, NULL, "exit with status 3 if there is no usable GPU"}},
    {"check", OPTION_FLAG, MEMBER(measures_roof), 0,
     {"roof", NULL, NULL, "measure the roofline of a core: multiply-adds of each kernel path, bandwidth (seconds)"}},
    {"explain", OPTION_TEXT, MEMBER(roof), 0,
     {"roof", "FILE", NULL, "file of mlff check --roof --json from the computer of the report; else measured here"}},
    {"evaluate", OPTION_FLAG, MEMBER(forces), 0, {"forces", NULL, NULL, "print the forces (always in JSON)"}},
    {"evaluate time soak explain", OPTION_FLAG, MEMBER(json), 0, {"json", NULL, NULL, "print JSON with all digits"}},
    {"time soak", OPTION_COUNT, MEMBER(n_calls), 1e7,
     {"calls", "N", NULL, "number of evaluations, 100 by default (soak: 2000), after a warm-up of a tenth of it"}},
    {"time", OPTION_COUNT, MEMBER(n_replicas), 1e6,
     {"replicas", "N", "1", "number of copies of the structure in one evaluation"}},
    {"time soak", OPTION_NUMBER, MEMBER(skin), 100,
     {"skin", "LENGTH", "2", "A, added to the cutoff of the neighbor list as in dynamics"}},
    {"time", OPTION_TEXT, MEMBER(against), 0,
     {"against", "cpu", NULL, "compare with fp64 on the CPU first; fail if energies or forces differ too much"}},
    {"verify", OPTION_TEXT, MEMBER(against), 0, /* for --help: cli_run starts Python for it */
     {"against", "PACKAGE", NULL,
      "compare with torchani, orb-models, schnetpack, nequix, sevenn, nequip, mace or matgl (Python)"}},
    {"time soak", OPTION_TEXT, MEMBER(file), 0,
     {"file", "FILE", NULL, "write the report as JSON (docs/reports.md)"}},
    {"time", OPTION_TEXT, MEMBER(trace), 0,
     {"trace", "FILE", NULL, "write the calls for a trace viewer (ui.perfetto.dev)"}},
    {"show", OPTION_TEXT, MEMBER(targets), 0,
     {"targets", "FILE", NULL, "rules for the reports instead of the default rules"}},
    {"compare", OPTION_SIDES, 0, 0,
     {"with", NULL, NULL, "separate the runs of A from the runs of B; with 4 or more a side, print an interval"}},
    {"compare", OPTION_TEXT, MEMBER(gate), 0,
     {"gate", "FILE", NULL, "check A, or the change from A to B, against rules; fail if one is broken"}},
};

// clang-format on

enum { N_ROWS = sizeof rows / sizeof *rows };

/* ---- lookup ------------------------------------------------------------------------------------------------------ */

static int has_word(const char *list, const char *word)
{
  const size_t n = strlen(word);
  for (const char *found = strstr(list, word); n && found; found = strstr(found + n, word))
    if ((found == list || found[-1] == ' ') && (found[n] == ' ' || !found[n])) return 1;
  return 0;
}

/* Option k of a command, first those of models; NULL after the last. row: NULL for options of models. */
static const mlff_option *option_at(const cli_command *command, int k, const option_row **row)
{
  *row = NULL;
  for (int n = 0; mlff_option_at(n); n++)
    if (has_word(command->model_options, mlff_option_at(n)->name) && k-- == 0) return mlff_option_at(n);
  for (int n = 0; n < N_ROWS; n++)
    if (has_word(rows[n].commands, command->name) && k-- == 0) return &(*row = &rows[n])->option;
  return NULL;
}

static const mlff_option *find_option(const cli_command *command, const char *name, const option_row **row)
{
  const mlff_option *option, *model_option = mlff_option_find(name);
  if (model_option) name = model_option->name;
  for (int k = 0; (option = option_at(command, k, row)); k++)
    if (!strcmp(option->name, name)) break;
  return option;
}

/* ---- help and usage errors --------------------------------------------------------------------------------------- */

static void print_help(const cli_command *command)
{
  const option_row *row;
  const mlff_option *o;
  const int has_options = option_at(command, 0, &row) != NULL;
  printf("usage: mlff %s %s%s\n\n%s\n", command->name, command->arguments, has_options ? " [OPTIONS]" : "",
         command->summary);
  for (int k = 0; (o = option_at(command, k, &row)); k++)
    printf("  --%-17s%s%s%s%s%s%s\n", o->name, o->values ? o->values : "", o->values ? ": " : "", o->help,
           o->standard ? " (default " : "", o->standard ? o->standard : "", o->standard ? ")" : "");
}

static int hint_help(const char *command)
{
  fprintf(stderr, "Try 'mlff%s%s --help'.\n", command ? " " : "", command ? command : "");
  return CLI_WRONG;
}

static int usage_error(const cli_command *command, const char *problem, const char *word)
{
  cli_error(CLI_WRONG, command->name, "%s '%s'", problem, word);
  return hint_help(command->name);
}

int cli_unknown_word(const char *command, const char *word, const char *const *known, int n_known)
{
  const char *dashes = command ? "--" : "", *nearest = cli_nearest(word + strlen(dashes), known, n_known);
  cli_error(CLI_WRONG, command, "unknown %s '%s'%s%s%s%s", command ? "option" : "command", word,
            nearest ? "; did you mean '" : "", nearest ? dashes : "", nearest ? nearest : "", nearest ? "'?" : "");
  return hint_help(command);
}

static int unknown_option(const cli_command *command, const char *word)
{
  enum { MOST = 64 };
  const char *known[MOST];
  const option_row *row;
  const mlff_option *option;
  int n = 0;
  while (n < MOST && (option = option_at(command, n, &row))) known[n++] = option->name;
  return cli_unknown_word(command->name, word, known, n);
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

static int parse_number(const char *text, double low, double high, double *value)
{
  return mlff_number_parse(text, value) && *value >= low && *value <= high;
}

/* Stores a value. Returns 0 with the expected values in `expected` if it is invalid. */
static int store(const option_row *row, const char *value, cli_options *o, char *expected, size_t size)
{
  void *const member = (char *) o + row->offset;
  const int flag = 1;
  double number = 0;
  switch (row->kind) {
  case OPTION_FLAG: memcpy(member, &flag, sizeof flag); return 1;
  case OPTION_TEXT:
    memcpy(member, &value, sizeof value);
    snprintf(expected, size, "%s", row->option.values);
    return !mlff_option_check(&row->option, value, NULL);
  case OPTION_COUNT:
    snprintf(expected, size, "an integer from 1 to %.0f", row->limit);
    if (!parse_number(value, 1, row->limit, &number) || number != floor(number)) return 0;
    memcpy(member, &(const int){(int) number}, sizeof(int));
    return 1;
  case OPTION_NUMBER:
    snprintf(expected, size, "a number from 0 to %.0f", row->limit);
    if (!parse_number(value, 0, row->limit, &number)) return 0;
    memcpy(member, &number, sizeof number);
    return 1;
  case OPTION_SIDES: o->n_before = o->has_sides++ ? -1 : o->n_arguments; return 1;
  }
  return 0;
}

/* --name VALUE, --name=VALUE or a flag at argv[*k]; advances *k past the value. */
static int parse_option(const cli_command *command, int argc, char **argv, int *k, cli_options *o)
{
  char name[32], expected[128] = "";
  const char *word = argv[*k], *value = strchr(word, '=');
  const size_t n = (value ? (size_t) (value - word) : strlen(word)) - 2;
  if (n >= sizeof name) return unknown_option(command, word);
  memcpy(name, word + 2, n);
  name[n] = 0;
  const option_row *row;
  const mlff_option *option = find_option(command, name, &row);
  if (!option) return unknown_option(command, word);
  if (value)
    value++;
  else if (option->values && *k + 1 < argc)
    value = argv[++*k];
  if (option->values && !value) return usage_error(command, "missing value after", word);
  if (!option->values && value) return usage_error(command, "unexpected value of flag", word);
  mlff_error error = {.code = MLFF_OK};
  if (!row)
    return mlff_options_set(&o->open, option->name, value, &error)
               ? cli_error(CLI_WRONG, command->name, "%s", error.text)
               : CLI_OK;
  if (store(row, value, o, expected, sizeof expected)) return CLI_OK;
  return cli_error(CLI_WRONG, command->name, "invalid value '%.80s' of --%s: expected %s", value, name, expected);
}

int cli_options_parse(const cli_command *command, int argc, char **argv, cli_options *o)
{
  for (int k = 0; k < argc; k++) {
    if (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h")) {
      print_help(command);
      return CLI_HELP;
    }
    if (!strncmp(argv[k], "--", 2)) {
      const int code = parse_option(command, argc, argv, &k, o);
      if (code) return code;
    } else if (o->n_arguments == command->n_most) {
      return usage_error(command, "unexpected argument", argv[k]);
    } else {
      o->arguments[o->n_arguments++] = argv[k];
    }
  }
  if (o->n_arguments < command->n_arguments)
    return usage_error(command, "missing arguments; expected", command->arguments);
  if (!o->n_arguments || strncmp(command->arguments + (*command->arguments == '['), "MODEL", 5) != 0) return CLI_OK;
  const int code = cli_find_model(command->name, o->arguments[0], o->model);
  o->arguments[0] = o->model;
  return code;
}
