/* gpu_mpi.cpp: see gpu_mpi.h. */
#include "gpu_mpi.h"

#include "mlff/mlff.h"

#include <dlfcn.h>

using namespace LAMMPS_NS;

static constexpr int MPICH_CUDA = 0;    // MPIX_GPU_SUPPORT_CUDA of its mpi.h

/* Name of the function that was asked; empty if the library has none. */
static std::string ask(MLFFLookup find, bool &takes_gpu)
{
  takes_gpu = false;
  // Open MPI and relatives (mpi-ext.h)
  if (void *query = find("MPIX_Query_cuda_support")) {
    takes_gpu = reinterpret_cast<int (*)()>(query)() == 1;
    return "MPIX_Query_cuda_support";
  }
  // MPICH and relatives
  if (void *query = find("MPIX_GPU_query_support")) {
    int answer = 0;
    const int failed = reinterpret_cast<int (*)(int, int *)>(query)(MPICH_CUDA, &answer);
    takes_gpu = failed == 0 && answer != 0;
    return "MPIX_GPU_query_support";
  }
  return "";
}

MLFFGpuMPI LAMMPS_NS::mlff_gpu_mpi(const std::string &wanted, MLFFLookup find)
{
  static const char *const staged = "through pinned host memory";
  static const char *const way = "from GPU to GPU by MPI";
  const int answer = mlff_yes_or_no(wanted.c_str());
  if (answer == 1) return {true, std::string(way) + " (gpu_mpi yes)"};
  if (answer == 0) return {false, std::string(staged) + " (gpu_mpi no)"};
  bool takes_gpu = false;
  const std::string who = ask(find, takes_gpu);
  if (who.empty()) return {false, std::string(staged) + " (MPI does not report support for GPU memory)"};
  if (!takes_gpu) return {false, std::string(staged) + " (" + who + ": MPI does not support GPU memory)"};
  return {true, std::string(way) + " (" + who + ")"};
}

MLFFGpuMPI LAMMPS_NS::mlff_gpu_mpi(const std::string &wanted)
{
  return mlff_gpu_mpi(wanted, [](const char *name) { return dlsym(RTLD_DEFAULT, name); });
}
