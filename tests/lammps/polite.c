/* polite.c: preloaded into ranks of MPICH that share a core, lets a rank that waits sleep, so that the one it waits for
 * runs. MPICH calls sched_yield there if MPIR_CVAR_POLLS_BEFORE_YIELD is 1 (tests/support/polite.py). */
#define _POSIX_C_SOURCE 199309L
#include <sched.h>
#include <time.h>

int sched_yield(void)
{
  const struct timespec moment = {0, 1000};
  return nanosleep(&moment, NULL);
}
