/* prof_beside.cpp: see prof_beside.h. */
#include "prof_beside.h"

#include "../base/resident.h"

#include "mlff/mlffprof.h"

#include <algorithm>

using namespace LAMMPS_NS;

/* Resident bytes without those of files: code that the side work runs first is also that of the run. */
static int64_t own_bytes()
{
  int64_t resident, of_files;
  mlff_resident(&resident, &of_files);
  return resident - of_files;    // 0 if the system does not report them
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
