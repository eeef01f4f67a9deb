/* clock.c: the two things that the library measures: time and host memory; and timing a function with both. */
#define _DEFAULT_SOURCE

#include "recorder/recorder.h"

#include "../../base/resident.h"

#include <time.h>
#if defined(__linux__)
#include <sys/resource.h>
#endif

double mlffprof_seconds(void)
{
  struct timespec t = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

double mlffprof_cpu_seconds(void)
{
#ifdef CLOCK_THREAD_CPUTIME_ID
  struct timespec t = {0, 0};
  if (!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t)) return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
#endif
  return 0;
}

#if defined(__linux__)
static int64_t peak_bytes(void)
{
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) ? MLFFPROF_UNKNOWN : (int64_t) usage.ru_maxrss * 1024;
}
#else
static int64_t peak_bytes(void)
{
  return MLFFPROF_UNKNOWN;
}
#endif

mlffprof_status mlffprof_host_memory(int64_t *resident, int64_t *peak, mlffprof_error *error)
{
  int64_t now, of_files;
  mlff_resident(&now, &of_files);
  const int64_t most = peak_bytes();
  if (resident) *resident = now;
  if (peak) *peak = most > now ? most : now; /* the kernel updates its peak late */
  return now >= 0
             ? MLFFPROF_OK
             : mlffprof_fail(error, MLFFPROF_E_UNSUPPORTED, "this system has no /proc/self/statm to read memory from");
}

static mlffprof_status sample_memory(mlffprof_recorder *r, int64_t step, mlffprof_error *error)
{
  mlffprof_memory_sample s = {.step = step, .device_bytes = MLFFPROF_UNKNOWN};
  mlffprof_host_memory(&s.host_bytes, &s.host_peak_bytes, NULL);
  return mlffprof_recorder_memory(r, &s, error);
}

mlffprof_status mlffprof_recorder_time(mlffprof_recorder *r, mlffprof_function *function, void *user, int64_t n_calls,
                                       int64_t memory_every, mlffprof_error *error)
{
  if (!function || n_calls < 0 || memory_every < 0)
    return mlffprof_fail(error, MLFFPROF_E_ARG, "no function, or a negative number of calls");
  for (int64_t k = 0, n_done = 0; n_done < n_calls; k++) {
    const double cpu = mlffprof_cpu_seconds(), start = mlffprof_seconds();
    const int code = function(user);
    const double seconds = mlffprof_seconds() - start;
    if (code) return mlffprof_fail(error, MLFFPROF_E_ARG, "the function returned %d in call %lld", code, (long long) k);
    const mlffprof_step step = {.step = k,
                                .seconds = seconds,
                                .cpu_seconds = mlffprof_cpu_seconds() - cpu,
                                .slowest_rank = MLFFPROF_UNKNOWN};
    n_done += r->warmup_left == 0;
    MLFF_TRY(mlffprof_recorder_step(r, &step, error));
    if (memory_every && (k + 1) % memory_every == 0) MLFF_TRY(sample_memory(r, k, error));
  }
  return MLFFPROF_OK;
}
