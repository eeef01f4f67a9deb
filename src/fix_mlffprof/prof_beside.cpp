/* prof_beside.cpp: see prof_beside.h. */
#include "prof_beside.h"

#include "mlff/mlffprof.h"

#include <algorithm>

using namespace LAMMPS_NS;

/* A peak of the process above that of the last part belongs to the run. */
void ProfBeside::note_peak(int64_t peak)
{
  if (peak > peak_after) peak_of_run = std::max(peak_of_run, peak - held());
}

void ProfBeside::begin()
{
  if (depth++ > 0) return;
  int64_t peak = 0;
  mlffprof_host_memory(&bytes_at_begin, &peak, nullptr);
  note_peak(peak);
}

void ProfBeside::end()
{
  if (--depth > 0) return;
  int64_t now = 0;
  mlffprof_host_memory(&now, &peak_after, nullptr);
  sum += now - bytes_at_begin;    // 0 if the system does not report memory
}

void ProfBeside::subtract(int64_t &resident, int64_t &peak)
{
  if (resident < 0) return;
  note_peak(peak);
  resident = std::max<int64_t>(resident - held(), 0);
  peak = std::max(peak_of_run, resident);
}
