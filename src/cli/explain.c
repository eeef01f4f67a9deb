/* explain.c: mlff explain prints where the time of a step goes. */
#include "cli.h"

#include <string.h>

/* Measures the roofline for the kernels and precision of the report, if it is from this processor. Returns 0 if not. */
static int measure_here(const mlffprof_report *p, mlffprof_roof *roof, mlff_error *error)
{
  mlff_roof roof_here;
  const char *cpu = mlffprof_context_text(p, "cpu"), *kernels = mlffprof_context_text(p, "kernels"),
             *precision = mlffprof_context_text(p, "precision");
  if (!cpu || strcmp(cpu, cli_processor()) != 0 || !kernels || !precision || !strcmp(precision, "mixed")) return 0;
  if (!p->device || strcmp(p->device, "cpu") != 0 || mlff_roof_read(kernels, precision, &roof_here, error)) return 0;
  *roof = (mlffprof_roof){roof_here.gflops, roof_here.cache_gbs, roof_here.memory_gbs, "measured now"};
  return 1;
}

int cli_explain(const cli_options *o)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  mlff_error engine = {.code = MLFF_OK};
  mlffprof_report *report = NULL;
  mlffprof_roof roof = {.source = o->roof};
  if (mlffprof_report_read(o->arguments[0], &report, &error)) return cli_fail_report(&error);
  int known = 0, code = CLI_OK;
  if (o->roof) {
    known = 1;
    if (mlffprof_roof_read(o->roof, report, &roof, &error)) code = cli_fail_report(&error);
  } else {
    known = measure_here(report, &roof, &engine);
  }
  if (!code && engine.code) code = cli_fail(&engine);
  if (!code && mlffprof_explain(report, known ? &roof : NULL, o->json, stdout, &error)) code = cli_fail_report(&error);
  mlffprof_report_free(report);
  return code;
}
