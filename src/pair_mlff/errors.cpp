/* errors.cpp: see errors.h. */
#include "errors.h"

#include "../base/cxx/point_locale.h"

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

std::string LAMMPS_NS::mlff_agree(LAMMPS *lmp, const std::string &problem, int *flags, int n_flags)
{
  const int me = lmp->comm->me, n_ranks = lmp->comm->nprocs;
  if (n_ranks == 1) return problem;
  int mine[5] = {problem.empty() ? n_ranks : me}, lowest[5];
  for (int k = 0; k < n_flags; k++) mine[k + 1] = -flags[k];
  MPI_Allreduce(mine, lowest, n_flags + 1, MPI_INT, MPI_MIN, lmp->world);
  for (int k = 0; k < n_flags; k++) flags[k] = -lowest[k + 1];
  if (lowest[0] == n_ranks) return "";
  char text[2048] = "";
  if (me == lowest[0]) snprintf(text, sizeof(text), "%s", problem.c_str());
  MPI_Bcast(text, sizeof(text), MPI_CHAR, lowest[0], lmp->world);
  return text;
}

void LAMMPS_NS::mlff_stop_together(LAMMPS *lmp, const std::string &problem)
{
  const std::string text = mlff_agree(lmp, problem, nullptr, 0);
  if (!text.empty()) lmp->error->all(FLERR, text);
}
