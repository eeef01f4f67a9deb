/* machine.h: the ranks of `world` that share a machine. */
#ifndef LMP_MLFF_MACHINE_H
#define LMP_MLFF_MACHINE_H

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace LAMMPS_NS {

/* Collective on `world`. Without MPI_Comm_split_type, which the MPI stubs of serial LAMMPS do not have. */
class MLFFMachine {
 public:
  explicit MLFFMachine(MPI_Comm world)
  {
    int me = 0, n_ranks = 1, length = 0;
    char name[1024] = "";    // longer than any MPI_MAX_PROCESSOR_NAME
    MPI_Comm_rank(world, &me);
    MPI_Comm_size(world, &n_ranks);
    MPI_Get_processor_name(name, &length);
    uint64_t mine = 14695981039346656037u;    // FNV-1a
    for (int k = 0; k < length; k++) mine = (mine ^ static_cast<unsigned char>(name[k])) * 1099511628211u;
    std::vector<uint64_t> all(static_cast<size_t>(n_ranks));
    MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, world);
    int first = 0;
    while (all[static_cast<size_t>(first)] != mine) first++;
    MPI_Comm_split(world, first, me, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
  }
  MLFFMachine(const MLFFMachine &) = delete;
  MLFFMachine &operator=(const MLFFMachine &) = delete;
  ~MLFFMachine() { MPI_Comm_free(&comm); }

  MPI_Comm comm;
  int rank, size;    // within the machine
};

}    // namespace LAMMPS_NS

#endif
