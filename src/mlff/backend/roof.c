/* roof.c: measures the roofline of a core: multiply-adds of a kernel path, bandwidth of the second-level cache and of
 * memory. */
#include "cpu/backend_cpu.h"
#include "kernels.h"
#include "../model/spans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t in_cache = 192 << 10, in_memory = 256 << 20; /* bytes: beyond the first level, and beyond all */
static const int64_t piece = 2 << 20;                             /* bytes that are read from memory at a time */
/* s, of a window and of all windows. A window is much shorter than the time slice of a processor, and the best one
 * counts: other programs may use the core half of the time and are in none of the best. */
static const double window = 1e-4, together = 0.15;

static volatile double sink; /* prevents the removal of unused results */

/* Operations per second; with data, bytes read per second in pieces of `bytes` of `all` in turn. */
static double best_rate(const mlff_cpu_roof *kernel, const char *data, int64_t bytes, int64_t all)
{
  double best = 0, now = mlff_spans_now();
  const double end = now + together;
  for (int64_t n = 1, at = 0; now < end || best == 0;) {
    double done = (double) (n * bytes);
    const double begin = mlff_spans_now();
    sink = data ? kernel->read(data + at, bytes, n) : kernel->fma(n, &done);
    now = mlff_spans_now();
    at = at + bytes < all ? at + bytes : 0;
    if (now - begin < window && bytes == all)
      n *= 2;
    else
      best = fmax(best, done / (now - begin));
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
  roof->gflops = 1e-9 * best_rate(&kernel, NULL, 0, 0);
  roof->cache_gbs = 1e-9 * best_rate(&kernel, data, in_cache, in_cache);
  roof->memory_gbs = 1e-9 * best_rate(&kernel, data, piece, in_memory);
  free(data);
  return MLFF_OK;
}
