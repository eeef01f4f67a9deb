/* platform.c: properties of this computer and this build, for `mlff check` and the selection of devices. */
#include "backend.h"
#include "cuda.h"
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#if defined(__VERSION__)
#define COMPILER __VERSION__
#else
#define COMPILER "unknown"
#endif

/* Reads the word in brackets of "always [madvise] never". */
static void read_huge_pages(char *word, size_t size)
{
  char line[64] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (!file) return;
  const char *begin = fgets(line, sizeof line, file) ? strchr(line, '[') : NULL;
  if (begin) snprintf(word, size, "%.*s", (int) strcspn(begin + 1, "]"), begin + 1);
  fclose(file);
}

void mlff_platform_read(mlff_platform *platform)
{
  *platform = (mlff_platform){.version = MLFF_VERSION, .compiler = COMPILER, .yaml = yaml_get_version_string()};
  for (int k = 0; mlff_cpu_kernels_at(k); k++) {
    const char *const name = mlff_cpu_kernels_at(k);
    const size_t length = strlen(platform->kernels);
    if (mlff_cpu_has_kernels(name))
      snprintf(platform->kernels + length, sizeof platform->kernels - length, "%s%s", length ? " " : "", name);
  }
  mlff_cpu_describe_mixed(platform->mixed, sizeof platform->mixed);
  read_huge_pages(platform->huge_pages, sizeof platform->huge_pages);
  platform->gpu_code = "";
#if MLFF_HAVE_CUDA
  mlff_cuda_read_platform(platform);
#else
  snprintf(platform->why, sizeof platform->why, MLFF_NO_CUDA);
#endif
}

mlff_status mlff_device_read(int number, int with_times, mlff_device *device, mlff_error *error)
{
  if (!device) return mlff_fail(error, MLFF_E_ARG, "mlff_device_read: device is NULL");
  *device = (mlff_device){.number = number,
                          .clock_mhz = NAN,
                          .memory_clock_mhz = NAN,
                          .up_gbs = NAN,
                          .down_gbs = NAN,
                          .copy_gbs = NAN,
                          .launch_us = NAN,
                          .round_trip_us = NAN,
                          .node_us = NAN};
#if MLFF_HAVE_CUDA
  return mlff_cuda_read_device(number, with_times, device, error);
#else
  (void) with_times;
  return mlff_fail(error, MLFF_E_UNSUPPORTED, "cuda:%d: " MLFF_NO_CUDA, number);
#endif
}
