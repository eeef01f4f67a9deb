/* gpu_mpi.h: whether MPI supports GPU memory. */
#ifndef LMP_MLFF_GPU_MPI_H
#define LMP_MLFF_GPU_MPI_H

#include <string>

namespace LAMMPS_NS {

/* Address of a function of this program by its name, or nullptr. */
using MLFFLookup = void *(*) (const char *name);

struct MLFFGpuMPI {
  bool is_gpu_aware;    // MPI is given addresses on the GPU
  std::string text;     // line of the log
};

/* Asks functions of Open MPI and MPICH, looked up at run time, because the plugin may be compiled with another release.
 * wanted: "auto" (ask), "yes", "no". */
MLFFGpuMPI mlff_gpu_mpi(const std::string &wanted, MLFFLookup find);
MLFFGpuMPI mlff_gpu_mpi(const std::string &wanted);

}    // namespace LAMMPS_NS

#endif
