/* gpu_mpi.h: whether messages may lie in the memory of a GPU. */
#ifndef LMP_MLFF_GPU_MPI_H
#define LMP_MLFF_GPU_MPI_H

#include <string>

namespace LAMMPS_NS {

/* Address of a function of this program by its name, or nullptr. */
using MLFFLookup = void *(*) (const char *name);

struct MLFFGpuMPI {
  bool is_gpu_aware;    // MPI is given addresses on the GPU
  std::string text;     // what the log says
};

/* Open MPI and MPICH have functions that tell; they are looked up while running, so that a plugin compiled with another
 * release finds them as well. wanted: "auto" (what they tell), "yes" (it is taken for granted), "no". */
MLFFGpuMPI mlff_gpu_mpi(const std::string &wanted, MLFFLookup find);
MLFFGpuMPI mlff_gpu_mpi(const std::string &wanted);

}    // namespace LAMMPS_NS

#endif
