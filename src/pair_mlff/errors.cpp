/* errors.cpp: see errors.h. */
#include "errors.h"

#include "point_locale.h"

#include "comm.h"
#include "error.h"
#include "lammps.h"

#include <cstdarg>
#include <cstdio>

using namespace LAMMPS_NS;

std::string LAMMPS_NS::mlff_format(const char *format, ...)
{
  const MLFFPointLocale points;
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return text;
}

void LAMMPS_NS::mlff_stop_together(LAMMPS *lmp, const std::string &problem)
{
  const int me = lmp->comm->me, n_ranks = lmp->comm->nprocs;
  if (n_ranks == 1) {
    if (!problem.empty()) lmp->error->all(FLERR, problem);
    return;
  }
  int mine = problem.empty() ? n_ranks : me, lowest;
  MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, lmp->world);
  if (lowest == n_ranks) return;
  char text[2048] = "";
  if (me == lowest) snprintf(text, sizeof(text), "%s", problem.c_str());
  MPI_Bcast(text, sizeof(text), MPI_CHAR, lowest, lmp->world);
  lmp->error->all(FLERR, std::string(text));
}
