/* gpu_map.h: table of ranks and GPUs. Independent of LAMMPS and MPI. */
#ifndef LMP_MLFF_GPU_MAP_H
#define LMP_MLFF_GPU_MAP_H

#include <string>
#include <vector>

namespace LAMMPS_NS {

/* Device of one rank, sent as bytes. */
struct MLFFRankDevice {
  int rank, local_rank;    // in all ranks, and within the machine
  int number;              // N of cuda:N; -1: CPU
  char id[24];             // PCI address
  char host[64];
};

/* One line per rank, for the first 64. */
std::string mlff_gpu_table(const std::vector<MLFFRankDevice> &ranks);
/* Warning if a GPU has more than one rank, else empty. */
std::string mlff_shared_gpus(const std::vector<MLFFRankDevice> &ranks);

}    // namespace LAMMPS_NS

#endif
