/* info.c: the commands info and verify. */
#include "cli.h"

int cli_info(const cli_options *options)
{
  mlff_error error = {.code = MLFF_OK};
  mlff_model *model = NULL;
  mlff_options open = options->open;
  open.skip_self_test = 1;
  if (!options->n_arguments) {
    cli_print_models(options->only_names);
    return CLI_OK;
  }
  if (mlff_model_open(options->arguments[0], &open, &model, &error)) return cli_fail(&error);
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
  mlff_options open = options->open;
  int n_failed = 0;
  open.skip_self_test = 1;
  if (mlff_model_open(options->arguments[0], &open, &model, &error)) return cli_fail(&error);
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
