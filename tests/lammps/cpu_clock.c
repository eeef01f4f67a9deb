/* cpu_clock.c: preloaded into LAMMPS, makes its clock that of its processor time: programs that run at the same time do
 * not change what is measured (harness.launch). */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
  return (int) syscall(SYS_clock_gettime, clock == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : clock, time);
}
