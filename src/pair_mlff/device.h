/* device.h: which device each rank of a run takes. */
#ifndef LMP_MLFF_DEVICE_H
#define LMP_MLFF_DEVICE_H

#include <mpi.h>
#include <string>

namespace LAMMPS_NS {

struct MLFFDevice {
  std::string name;       // for mlff_options.device
  std::string map;        // which rank takes what, for the log of rank 0; empty on one rank and on CPUs
  std::string problem;    // why it cannot be done, the same text on all ranks; else empty
};

/* `asked` is the keyword `device`. "cuda" and "auto" on several ranks: every rank of a node takes a GPU of its own, by the
 * order of ranks. Collective on world. */
MLFFDevice mlff_choose_device(const std::string &asked, MPI_Comm world);

}    // namespace LAMMPS_NS

#endif
