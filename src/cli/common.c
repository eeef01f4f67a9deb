/* common.c: errors, warnings and the processor. */
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

int cli_status(mlff_status status)
{
  return status == MLFF_E_NOMEM || status == MLFF_E_DEVICE || status == MLFF_E_NUMERIC ? CLI_FAILED : CLI_WRONG;
}

int cli_fail(const mlff_error *error)
{
  return cli_error(cli_status(error->code), NULL, "%s", error->text);
}

int cli_fail_report(const mlffprof_error *error)
{
  return cli_error(error->code == MLFFPROF_E_NOMEM ? CLI_FAILED : CLI_WRONG, NULL, "%s", error->text);
}

void cli_warn(const char *who, const mlff_model *model)
{
  const mlff_info *info = mlff_model_info(model);
  if (info->caution)
    fprintf(stderr, "mlff %s: warning: model %s has a known failure: %s [mlff-45]\n", who, info->name, info->caution);
  if (!mlff_model_n_self_tests(model))
    fprintf(stderr, "mlff %s: warning: model %s has no self-test structures, so its results are not checked\n", who,
            info->name);
}
