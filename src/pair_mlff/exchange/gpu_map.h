/* gpu_map.h: which rank computes on which GPU, as text. Sees neither LAMMPS nor MPI. */
#ifndef LMP_MLFF_GPU_MAP_H
#define LMP_MLFF_GPU_MAP_H

#include <string>
#include <vector>

namespace LAMMPS_NS {

/* Of one rank; the same bytes on all of them. */
struct MLFFRankDevice {
  int rank, local_rank;    // of all, and within the machine
  int number;              // of the GPU, as in cuda:N; -1 on the CPU
  char id[24];             // PCI address, which tells GPUs of a machine apart whatever their number
  char host[64];
};

/* A line for each rank, for the first ones of many. */
std::string mlff_gpu_table(const std::vector<MLFFRankDevice> &ranks);
/* What to say when a GPU has more than one rank; empty when none has. */
std::string mlff_shared_gpus(const std::vector<MLFFRankDevice> &ranks);

}    // namespace LAMMPS_NS

#endif
