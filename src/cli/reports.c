/* reports.c: mlff show and mlff compare. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static int print_reports(const cli_options *o, mlffprof_report *const *reports, int n)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  const mlffprof_status status =
      n == 1 ? mlffprof_report_print(reports[0], o->all, stdout, &error)
             : mlffprof_reports_print((const mlffprof_report *const *) reports, n, stdout, &error);
  return status ? cli_fail_report(&error) : CLI_OK;
}

/* Whether a file is a trace, which lies next to reports: a JSON array of events with a phase. */
static int is_trace(const char *path)
{
  FILE *file = fopen(path, "r");
  char head[1024];
  if (!file) return 0;
  head[fread(head, 1, sizeof head - 1, file)] = 0;
  fclose(file);
  return head[strspn(head, " \t\r\n")] == '[' && strstr(head, "\"ph\"");
}

/* Prints the files of `mlff scaling`, passes over traces, which are counted, and returns the others in `rest`. */
static int show_others(const cli_options *o, cli_options *rest, int *n_traces)
{
  for (int k = 0; k < o->n_arguments; k++) {
    mlffprof_error error = {.code = MLFFPROF_OK};
    int is_scaling = 0;
    if (is_trace(o->arguments[k])) {
      fprintf(stderr, "mlff: %s: a trace, no report; ui.perfetto.dev shows it\n", o->arguments[k]);
      (*n_traces)++;
      continue;
    }
    if (mlffprof_scaling_print(o->arguments[k], stdout, &is_scaling, &error)) return cli_fail_report(&error);
    if (!is_scaling) rest->arguments[rest->n_arguments++] = o->arguments[k];
    if (is_scaling && k + 1 < o->n_arguments) putchar('\n');
  }
  return CLI_OK;
}

/* Reads all reports; --targets replaces the targets in the files. */
static int read_reports(const cli_options *o, mlffprof_report **reports)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_rules *rules = NULL;
  mlffprof_status status = o->targets ? mlffprof_rules_read(o->targets, &rules, &error) : MLFFPROF_OK;
  for (int k = 0; k < o->n_arguments && !status; k++) {
    status = mlffprof_report_read(o->arguments[k], &reports[k], &error);
    if (!status && rules) status = mlffprof_report_targets(reports[k], rules, &error);
  }
  mlffprof_rules_free(rules);
  return status ? cli_fail_report(&error) : CLI_OK;
}

static void free_reports(mlffprof_report **reports, int n)
{
  for (int k = 0; k < n; k++) mlffprof_report_free(reports[k]);
  free(reports);
}

int cli_show(const cli_options *o)
{
  cli_options rest = *o;
  rest.n_arguments = 0;
  rest.arguments = calloc((size_t) o->n_arguments, sizeof *rest.arguments);
  mlffprof_report **reports = calloc((size_t) o->n_arguments, sizeof *reports);
  int n_traces = 0, code = rest.arguments && reports ? show_others(o, &rest, &n_traces) : CLI_FAILED;
  if (!code) code = read_reports(&rest, reports);
  if (!code && rest.n_arguments) code = print_reports(o, reports, rest.n_arguments);
  if (!code && n_traces == o->n_arguments) code = cli_error(CLI_WRONG, "show", "no report among these files");
  if (reports) free_reports(reports, rest.n_arguments);
  free(rest.arguments);
  return code;
}

static int run_gate(const cli_options *o, mlffprof_report *const *reports)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlffprof_rules *rules = NULL;
  int n_failed = 0;
  mlffprof_status status = mlffprof_rules_read(o->gate, &rules, &error);
  if (!status)
    status = mlffprof_gate(rules, reports[0], o->n_arguments > 1 ? reports[1] : NULL, stdout, &n_failed, &error);
  mlffprof_rules_free(rules);
  if (status) return cli_fail_report(&error);
  return n_failed ? CLI_FAILED : CLI_OK;
}

static mlffprof_status print_comparison(const cli_options *o, mlffprof_report *const *reports, mlffprof_error *error)
{
  const mlffprof_report *const *all = (const mlffprof_report *const *) reports;
  const int n = o->n_arguments, n_a = o->n_before;
  if (n_a) return mlffprof_compare_sides_print(all, n_a, all + n_a, n - n_a, stdout, error);
  if (n == 2) return mlffprof_compare_print(reports[0], reports[1], stdout, error);
  return mlffprof_compare_all_print(all, n, stdout, error);
}

int cli_compare(const cli_options *o)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  if (!o->gate && o->n_arguments < 2)
    return cli_error(CLI_WRONG, "compare", "expected two reports, or one with --gate RULES.yaml; got %d",
                     o->n_arguments);
  if (o->has_sides && (o->n_before < 1 || o->n_before == o->n_arguments || o->gate))
    return cli_error(CLI_WRONG, "compare",
                     "--with must occur once, between the reports of A and those of B, and not with --gate");
  if (o->gate && o->n_arguments > 2)
    return cli_error(CLI_WRONG, "compare", "--gate expects one or two reports; got %d", o->n_arguments);
  mlffprof_report **reports = calloc((size_t) o->n_arguments, sizeof *reports);
  if (!reports) return CLI_FAILED;
  int code = read_reports(o, reports);
  if (!code && o->gate)
    code = run_gate(o, reports);
  else if (!code && print_comparison(o, reports, &error))
    code = cli_fail_report(&error);
  free_reports(reports, o->n_arguments);
  return code;
}
