/* common.c: errors, the processor, JSON scalars, and the commands info and verify. */
#include "cli.h"

#include <stdarg.h>
#include <string.h>

static char first_error[2048];

int cli_error(int code, const char *who, const char *format, ...)
{
  char text[sizeof first_error];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "mlff%s%s: %s\n", who ? " " : "", who ? who : "", text);
  if (!*first_error) snprintf(first_error, sizeof first_error, "%s", text);
  return code;
}

const char *cli_error_text(void)
{
  return first_error;
}

void cli_error_forget(void)
{
  *first_error = 0;
}

const char *cli_processor(void)
{
  static char name[256];
  char line[512];
  FILE *file = *name ? NULL : fopen("/proc/cpuinfo", "r");
  while (file && fgets(line, sizeof line, file)) {
    const char *value = strncmp(line, "model name", 10) ? NULL : strchr(line, ':');
    if (!value) continue;
    value += 1 + strspn(value + 1, " \t");
    snprintf(name, sizeof name, "%.*s", (int) strcspn(value, "\n"), value);
    break;
  }
  if (file) fclose(file);
  return name;
}

int cli_fail(const mlff_error *error)
{
  return cli_error(CLI_FAILED, NULL, "%s", error->text);
}

int cli_fail_report(const mlffprof_error *error)
{
  return cli_error(CLI_FAILED, NULL, "%s", error->text);
}

void cli_warn_untested(const char *who, const mlff_model *model)
{
  if (!mlff_model_n_self_tests(model))
    fprintf(stderr, "mlff %s: warning: model %s has no self-test structures: nothing checks what it computes\n", who,
            mlff_model_info(model)->name);
}

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
  printf("%-24s %7s  %-21s  %-21s  %-21s\n", "", "", "error / allowed", "error / allowed", "error / allowed");
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
    printf("the file has no self-test structures: nothing was verified\n");
  else
    printf("%d of %d passed\n", n - n_failed, n);
  return n_failed || n == 0 ? CLI_FAILED : CLI_OK;
}
