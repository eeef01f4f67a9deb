/* counting_clock.c: preloaded into LAMMPS, a clock that counts how often it is read: one microsecond per reading. */
#define _POSIX_C_SOURCE 199309L
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now)
{
  static long long readings;
  const long long us = ++readings;
  (void) id;
  now->tv_sec = (time_t) (us / 1000000);
  now->tv_nsec = (long) (us % 1000000) * 1000;
  return 0;
}
