/* prof_beside.cpp: see prof_beside.h. */
#include "prof_beside.h"

#include "mlff/mlffprof.h"

#include <algorithm>

using namespace LAMMPS_NS;

/* The process has a new peak since the last part: the run has made it. */
void ProfBeside::note_peak(int64_t peak)
{
  if (peak > peak_after) peak_of_run = std::max(peak_of_run, peak - held());
}

void ProfBeside::begin()
{
  if (depth++ > 0) return;
  int64_t peak = 0;
  mlffprof_host_memory(&before, &peak, nullptr);
  note_peak(peak);
}

void ProfBeside::end()
{
  if (--depth > 0) return;
  int64_t now = 0;
  mlffprof_host_memory(&now, &peak_after, nullptr);
  sum += now - before;    // where the system does not tell, both are the same
}

void ProfBeside::take_off(int64_t &resident, int64_t &peak)
{
  if (resident < 0) return;
  note_peak(peak);
  resident = std::max<int64_t>(resident - held(), 0);
  peak = std::max(peak_of_run, resident);
}
