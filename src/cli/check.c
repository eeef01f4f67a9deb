/* check.c: mlff check prints what this computer, its GPUs and this build support. */
#define _GNU_SOURCE

#include "../base/commit.h"
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#else
#define gnu_get_libc_version() "none"
#endif

enum { MAX_DEVICES = 64, MAX_ROOFS = 6 };

typedef struct check {
  mlff_platform platform;
  mlff_device devices[MAX_DEVICES];
  int n_devices, n_usable;
  mlff_roof roofs[MAX_ROOFS]; /* of the kernel paths */
  int n_roofs;
  int gpu_aware; /* MPI: 1, 0, -1 = unknown */
  const char *gpu_aware_from;
} check;

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

static int is_set(const char *name)
{
  const char *value = getenv(name);
  return value && *value && strcmp(value, "0");
}

/* 1 or 0 by Open MPI's ompi_info; -1 if it is not installed. */
static int ask_ompi_info(void)
{
  char line[512];
  int answer = -1;
  FILE *pipe = popen("ompi_info --parsable --all 2>/dev/null", "r");
  while (pipe && fgets(line, sizeof line, pipe))
    if (strstr(line, "mpi_built_with_cuda_support:value:")) answer = strstr(line, "value:true") != NULL;
  if (pipe) pclose(pipe);
  return answer;
}

/* This program is not linked with MPI: read the environment and ompi_info. */
static void check_mpi(check *c)
{
  c->gpu_aware = -1;
  c->gpu_aware_from = "neither MPICH_GPU_SUPPORT_ENABLED nor ompi_info found";
  if (is_set("MPICH_GPU_SUPPORT_ENABLED")) {
    c->gpu_aware = 1;
    c->gpu_aware_from = "MPICH_GPU_SUPPORT_ENABLED is set";
    return;
  }
  const int answer = ask_ompi_info();
  if (answer < 0) return;
  c->gpu_aware = answer;
  c->gpu_aware_from = "ompi_info, mpi_built_with_cuda_support";
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_version(const char *name, int version)
{
  if (version)
    printf("  %-10s %d.%d\n", name, version / 1000, version % 1000 / 10);
  else
    printf("  %-10s none\n", name);
}

static void print_device(const mlff_device *d)
{
  printf("cuda:%d      %s, sm_%d%d, %d multiprocessors\n", d->number, d->name, d->major, d->minor,
         d->n_multiprocessors);
  printf("  memory     %.1f GB, %.1f GB free\n", 1e-9 * (double) d->total_bytes, 1e-9 * (double) d->free_bytes);
  if (isfinite(d->clock_mhz)) printf("  clocks     %.0f MHz, memory %.0f MHz\n", d->clock_mhz, d->memory_clock_mhz);
  if (isfinite(d->copy_gbs))
    printf("  copies     %.1f GB/s up, %.1f GB/s down, %.0f GB/s on the device\n", d->up_gbs, d->down_gbs, d->copy_gbs);
  if (isfinite(d->node_us))
    printf("  launches   %.2f us a kernel, %.2f us with synchronisation, %.2f us in a graph\n", d->launch_us,
           d->round_trip_us, d->node_us);
  printf("  usable     %s%s\n", d->can_run ? "yes" : "no: ", d->can_run ? "" : d->why);
}

/* Rooflines of each kernel path of this processor, in single and double precision. */
static int measure_roofs(check *c)
{
  char paths[sizeof c->platform.kernels], *rest = NULL;
  mlff_error error = {.code = MLFF_OK};
  memcpy(paths, c->platform.kernels, sizeof paths);
  for (const char *path = strtok_r(paths, " ", &rest); path; path = strtok_r(NULL, " ", &rest))
    for (int k = 0; k < 2 && c->n_roofs < MAX_ROOFS; k++)
      if (mlff_roof_read(path, k ? "fp64" : "fp32", &c->roofs[c->n_roofs++], &error)) return cli_fail(&error);
  return CLI_OK;
}

static void print_text(const check *c)
{
  const mlff_platform *p = &c->platform;
  printf("mlff       %s (commit %s), compiler %s, libyaml %s, glibc %s\n", p->version, mlff_commit(), p->compiler,
         p->yaml, gnu_get_libc_version());
  printf("cpu        %ld processors, kernels %s\n", sysconf(_SC_NPROCESSORS_ONLN), p->kernels);
  printf("  mixed    %s\n", p->mixed);
  for (int k = 0; k < c->n_roofs; k++)
    printf("  core     %s, %s: %.1f GFLOP/s of multiply-adds, %.1f GB/s from its cache, %.1f GB/s from memory\n",
           c->roofs[k].kernels, c->roofs[k].precision, c->roofs[k].gflops, c->roofs[k].cache_gbs,
           c->roofs[k].memory_gbs);
  printf("memory     huge pages %s\n", !*p->huge_pages ? "unknown"
                                       : strcmp(p->huge_pages, "never")
                                           ? p->huge_pages
                                           : "never: large boxes are slower on the CPU (docs/performance.md)");
  printf("cuda       %s%s\n", p->has_cuda ? "in this build, code for " : "not in this build", p->gpu_code);
  if (p->has_cuda) {
    print_version("driver", p->driver);
    print_version("runtime", p->runtime);
  }
  for (int k = 0; k < c->n_devices; k++) print_device(&c->devices[k]);
  printf("mpi        GPU-aware: %s (%s); otherwise features of other ranks are copied through host memory\n",
         c->gpu_aware < 0 ? "unknown"
         : c->gpu_aware   ? "yes"
                          : "no",
         c->gpu_aware_from);
  if (c->n_usable)
    printf("verdict    %d of %d GPUs are usable\n", c->n_usable, c->n_devices);
  else
    printf("verdict    no usable GPU: %s. The CPU is usable.\n", c->n_devices ? c->devices[0].why : p->why);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_text(FILE *out, const char *key, const char *text, const char *end)
{
  fprintf(out, "\"%s\": ", key);
  mlff_json_text(out, text);
  fputs(end, out);
}

static void json_device(FILE *out, const mlff_device *d)
{
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"clock_mhz", d->clock_mhz},         {"memory_clock_mhz", d->memory_clock_mhz},
                 {"up_gb_per_s", d->up_gbs},          {"down_gb_per_s", d->down_gbs},
                 {"copy_gb_per_s", d->copy_gbs},      {"launch_us", d->launch_us},
                 {"round_trip_us", d->round_trip_us}, {"graph_node_us", d->node_us}};
  fprintf(out, "    {\"device\": \"cuda:%d\", ", d->number);
  json_text(out, "name", d->name, ", ");
  fprintf(out,
          "\"compute_capability\": \"%d.%d\", \"multiprocessors\": %d, \"memory_bytes\": %zu, \"free_bytes\": %zu, ",
          d->major, d->minor, d->n_multiprocessors, d->total_bytes, d->free_bytes);
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
    fprintf(out, "\"%s\": ", numbers[k].name);
    mlff_json_number(out, numbers[k].value, 0);
    fputs(", ", out);
  }
  fprintf(out, "\"usable\": %s, ", d->can_run ? "true" : "false");
  json_text(out, "why_not", d->why, "}");
}

static void json_roof(FILE *out, const mlff_roof *r, const char *end)
{
  fputs("\n    {", out);
  json_text(out, "kernels", r->kernels, ", ");
  json_text(out, "precision", r->precision, ", ");
  fprintf(out, "\"gflops\": %.1f, \"cache_gb_per_s\": %.1f, \"memory_gb_per_s\": %.1f}%s", r->gflops, r->cache_gbs,
          r->memory_gbs, end);
}

static int write_json(FILE *out, const void *user)
{
  const check *c = user;
  const mlff_platform *p = &c->platform;
  fputs("{\n  ", out);
  json_text(out, "mlff", p->version, ",\n  ");
  json_text(out, "commit", mlff_commit(), ",\n  ");
  json_text(out, "compiler", p->compiler, ",\n  ");
  json_text(out, "libyaml", p->yaml, ",\n  ");
  json_text(out, "glibc", gnu_get_libc_version(), ",\n  ");
  fprintf(out, "\"processors\": %ld,\n  ", sysconf(_SC_NPROCESSORS_ONLN));
  json_text(out, "kernels", p->kernels, ",\n  ");
  json_text(out, "mixed", p->mixed, ",\n  ");
  json_text(out, "huge_pages", p->huge_pages, ",\n  ");
  json_text(out, "cpu", cli_processor(), ",\n  ");
  fputs("\"roofs\": [", out);
  for (int k = 0; k < c->n_roofs; k++) json_roof(out, &c->roofs[k], k + 1 < c->n_roofs ? "," : "\n  ");
  fputs("],\n  ", out);
  fprintf(out, "\"cuda\": {\"in_this_build\": %s, ", p->has_cuda ? "true" : "false");
  json_text(out, "code", p->gpu_code, ", ");
  fprintf(out, "\"driver\": %d, \"runtime\": %d, \"n_devices\": %d, \"n_usable\": %d, ", p->driver, p->runtime,
          c->n_devices, c->n_usable);
  json_text(out, "why_none", p->why, "},\n  ");
  fputs("\"devices\": [", out);
  for (int k = 0; k < c->n_devices; k++) {
    fputs(k ? ",\n" : "\n", out);
    json_device(out, &c->devices[k]);
  }
  fprintf(out, "],\n  \"mpi\": {\"gpu_aware\": %s, ", c->gpu_aware < 0 ? "null" : c->gpu_aware ? "true" : "false");
  json_text(out, "from", c->gpu_aware_from, "}\n}\n");
  return 0;
}

static int save_json(const check *c, const char *path)
{
  mlff_fault fault;
  return mlff_atomic_write(path, write_json, c, &fault) ? cli_error(CLI_WRONG, NULL, "%s", fault.text) : CLI_OK;
}

int cli_check(const cli_options *options)
{
  static check c;
  mlff_error error = {.code = MLFF_OK};
  memset(&c, 0, sizeof c);
  mlff_platform_read(&c.platform);
  c.n_devices = c.platform.n_devices < MAX_DEVICES ? c.platform.n_devices : MAX_DEVICES;
  for (int k = 0; k < c.n_devices; k++) {
    if (mlff_device_read(k, 1, &c.devices[k], &error))
      snprintf(c.devices[k].why, sizeof c.devices[k].why, "%.*s", (int) sizeof c.devices[k].why - 1, error.text);
    c.n_usable += c.devices[k].can_run;
  }
  check_mpi(&c);
  if (options->measures_roof && measure_roofs(&c)) return CLI_FAILED;
  print_text(&c);
  if (options->file && save_json(&c, options->file)) return CLI_WRONG;
  return options->needs_gpu && !c.n_usable ? CLI_NO_GPU : CLI_OK;
}
