/* prof_beside.cpp: see prof_beside.h. */
#include "prof_beside.h"

#include "mlff/mlffprof.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

using namespace LAMMPS_NS;

/* Resident pages without those of files: code that the side work runs first is also that of the run. 0 if the system
 * does not report them. */
static int64_t own_bytes()
{
  long long size = 0, resident = 0, shared = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) return 0;
  const int n = fscanf(file, "%lld %lld %lld", &size, &resident, &shared);
  fclose(file);
  return n == 3 ? static_cast<int64_t>(resident - shared) * sysconf(_SC_PAGESIZE) : 0;
}

/* A peak of the process above that of the last part belongs to the run. */
void ProfBeside::note_peak(int64_t peak)
{
  if (peak > peak_after) peak_of_run = std::max(peak_of_run, peak - held());
}

void ProfBeside::begin()
{
  if (depth++ > 0) return;
  int64_t peak = 0;
  mlffprof_host_memory(nullptr, &peak, nullptr);
  note_peak(peak);
  bytes_at_begin = own_bytes();
}

void ProfBeside::end()
{
  if (--depth > 0) return;
  mlffprof_host_memory(nullptr, &peak_after, nullptr);
  sum += own_bytes() - bytes_at_begin;
}

void ProfBeside::subtract(int64_t &resident, int64_t &peak)
{
  if (resident < 0) return;
  note_peak(peak);
  resident = std::max<int64_t>(resident - held(), 0);
  peak = std::max(peak_of_run, resident);
}
