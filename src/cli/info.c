/* info.c: the commands info, cite, methods and verify. */
#define _POSIX_C_SOURCE 200809L

#include "../base/commit.h"
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* Opens a model without its self-test. */
static mlff_status open_to_read(const cli_options *options, const char *path, mlff_model **model, mlff_error *error)
{
  mlff_options open = options->open;
  open.skip_self_test = 1;
  return mlff_model_open(path, &open, model, error);
}

/* Prints what a model asks to be cited, or adds it to a text for mlff_bibtex. */
static int cite_one(const cli_options *options, int k, FILE *all)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  char path[CLI_PATH];
  const int code = cli_find_model("cite", options->arguments[k], path);
  if (code) return code;
  if (open_to_read(options, path, &model, &error)) return cli_fail(&error);
  const mlff_info *i = mlff_model_info(model);
  if (options->bibtex)
    fprintf(all, "%s; %s; ", i->citation, i->model_citation);
  else
    printf("%s\n  software      mlff %s (commit %s)\n  architecture  %s\n  model         %s\n  licence       %s\n",
           i->name, MLFF_VERSION, mlff_commit(), i->citation, i->model_citation, i->license);
  mlff_model_close(model);
  return CLI_OK;
}

int cli_cite(const cli_options *options)
{
  char *all = NULL, *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&all, &size);
  int code = file ? CLI_OK : cli_error(CLI_FAILED, "cite", "out of memory");
  for (int k = 0; !code && k < options->n_arguments; k++) code = cite_one(options, k, file);
  if (file && fclose(file) && !code) code = cli_error(CLI_FAILED, "cite", "out of memory");
  if (!code && options->bibtex) {
    size = mlff_bibtex(all, NULL, 0) + 1;
    text = malloc(size);
    if (!text) code = cli_error(CLI_FAILED, "cite", "out of memory");
    if (text) mlff_bibtex(all, text, size);
    if (text) fputs(text, stdout);
  }
  free(all);
  free(text);
  return code;
}

int cli_methods(const cli_options *options)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  if (open_to_read(options, options->arguments[0], &model, &error)) return cli_fail(&error);
  mlff_model_print_methods(model, stdout);
  printf("Software: mlff %s (commit %s).\n", MLFF_VERSION, mlff_commit());
  mlff_model_close(model);
  return CLI_OK;
}

int cli_info(const cli_options *options)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  if (!options->n_arguments) {
    cli_print_models(options->only_names);
    return CLI_OK;
  }
  if (open_to_read(options, options->arguments[0], &model, &error)) return cli_fail(&error);
  mlff_model_print(model, stdout);
  mlff_model_close(model);
  return CLI_OK;
}

static void print_test(const mlff_self_test *t)
{
  const double errors[3] = {t->energy_error, t->force_error, t->virial_error};
  const double allowed[3] = {t->energy_tolerance, t->force_tolerance, t->virial_tolerance};
  printf("%-24.24s %7d", t->name, t->n_atoms);
  for (int k = 0; k < 3; k++) printf("  %9.2e /%8.1e%c", errors[k], allowed[k], errors[k] <= allowed[k] ? ' ' : '!');
  printf("  %s\n", t->passed ? "ok" : "FAILED");
}

int cli_verify(const cli_options *options)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  int n_failed = 0;
  if (open_to_read(options, options->arguments[0], &model, &error)) return cli_fail(&error);
  const mlff_info *info = mlff_model_info(model);
  const int n = mlff_model_n_self_tests(model);
  printf("%s (%s), sha256 %.12s, header %.12s, on %s, %s, kernels %s\n", info->name, info->architecture, info->sha256,
         info->header_is_hashed ? info->header_sha256 : "not hashed", info->device, info->precision, info->kernels);
  if (info->device_why[0]) printf("no GPU: %s\n", info->device_why);
  printf("%-24s %7s  %-21s  %-21s  %-21s\n", "structure", "atoms", "energy eV/atom", "forces eV/A", "virial eV/atom");
  printf("%-24s %7s  %-21s  %-21s  %-21s\n", "", "", "error / tolerance", "error / tolerance", "error / tolerance");
  for (int k = 0; k < n; k++) {
    mlff_self_test test;
    if (mlff_model_self_test(model, k, &test, &error)) {
      n_failed++;
      cli_fail(&error);
      continue;
    }
    print_test(&test);
    n_failed += !test.passed;
  }
  mlff_model_close(model);
  if (n == 0)
    printf("the file has no self-test structures; nothing was verified\n");
  else
    printf("%d of %d passed\n", n - n_failed, n);
  return n_failed || n == 0 ? CLI_FAILED : CLI_OK;
}
