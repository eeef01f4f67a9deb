/* reports.c: mlff show and mlff compare. */
#include "cli.h"

#include <stdlib.h>

static int print_reports(mlffprof_report *const *reports, int n)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  const mlffprof_status status =
      n == 1 ? mlffprof_report_print(reports[0], stdout, &error)
             : mlffprof_reports_print((const mlffprof_report *const *) reports, n, stdout, &error);
  return status ? cli_fail_report(&error) : CLI_OK;
}

/* Reads all reports, with the targets of --targets instead of those in the files. */
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
  mlffprof_report **reports = calloc((size_t) o->n_arguments, sizeof *reports);
  if (!reports) return CLI_FAILED;
  int code = read_reports(o, reports);
  if (!code) code = print_reports(reports, o->n_arguments);
  free_reports(reports, o->n_arguments);
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

int cli_compare(const cli_options *o)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  if (!o->gate && o->n_arguments < 2) {
    fprintf(stderr, "mlff compare: two reports are expected; one is enough with --gate RULES.yaml\n");
    return CLI_USAGE;
  }
  mlffprof_report **reports = calloc((size_t) o->n_arguments, sizeof *reports);
  if (!reports) return CLI_FAILED;
  int code = read_reports(o, reports);
  if (!code && o->gate)
    code = run_gate(o, reports);
  else if (!code && mlffprof_compare_print(reports[0], reports[1], stdout, &error))
    code = cli_fail_report(&error);
  free_reports(reports, o->n_arguments);
  return code;
}
