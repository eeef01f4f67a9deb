/* roof.c: measures the roofline of a core: multiply-adds of a kernel path, bandwidth of the second-level cache and of
 * memory. */
#include "cpu/backend_cpu.h"
#include "kernels.h"
#include "../model/spans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t in_cache = 192 << 10, in_memory = 256 << 20; /* bytes: beyond the first level, and beyond all */
static const double shortest = 0.01;                              /* s, of a measurement */
enum { N_TRIES = 5 }; /* the best one counts, because other programs may use the core */

static volatile double sink; /* prevents the removal of unused results */

/* Operations per second; with data, bytes read per second. */
static double best_rate(const mlff_cpu_roof *kernel, const void *data, int64_t bytes)
{
  double best = 0;
  for (int64_t n = 1, tries = 0; tries < N_TRIES;) {
    double done = (double) (n * bytes);
    const double begin = mlff_spans_now();
    sink = data ? kernel->read(data, bytes, n) : kernel->fma(n, &done);
    const double seconds = mlff_spans_now() - begin;
    if (seconds < shortest) {
      n *= 2;
      continue;
    }
    best = fmax(best, done / seconds);
    tries++;
  }
  return best;
}

mlff_status mlff_roof_read(const char *kernels, const char *precision, mlff_roof *roof, mlff_error *error)
{
  mlff_cpu_roof kernel;
  const char *path;
  if (!roof) return mlff_fail(error, MLFF_E_ARG, "mlff_roof_read: roof is NULL");
  *roof = (mlff_roof){.gflops = 0};
  const int is_double = precision && !strcmp(precision, "fp64");
  if (precision && !is_double && strcmp(precision, "fp32") != 0)
    return mlff_fail(error, MLFF_E_ARG, "precision '%s': the roofline is measured for fp32 and fp64", precision);
  MLFF_TRY(mlff_cpu_choose_kernels(kernels, is_double ? "fp64" : "fp32", &path, error));
  if (!mlff_cpu_find_roof(&kernel, is_double ? sizeof(double) : sizeof(float), path))
    return mlff_fail(error, MLFF_E_UNSUPPORTED, "kernels '%s' have no roofline measurement", path);
  void *data = malloc((size_t) in_memory);
  if (!data) return mlff_fail(error, MLFF_E_NOMEM, "out of memory for %lld bytes", (long long) in_memory);
  memset(data, 1, (size_t) in_memory); /* allocates the pages: zero pages are shared */
  roof->kernels = path;
  roof->precision = is_double ? "fp64" : "fp32";
  roof->gflops = 1e-9 * best_rate(&kernel, NULL, 0);
  roof->cache_gbs = 1e-9 * best_rate(&kernel, data, in_cache);
  roof->memory_gbs = 1e-9 * best_rate(&kernel, data, in_memory);
  free(data);
  return MLFF_OK;
}
