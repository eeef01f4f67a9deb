/* nodes.h: nodes of atoms, which own features, forces and virials.
 *
 * With each new list every ghost receives the rank and the local index of its owner. A ghost owned by this rank is a
 * periodic image and shares the node of its owner, without communication. All images of an atom of another rank share
 * one node. Neither tags nor an atom map are needed.
 *
 * The engine uses the order of LAMMPS for owned atoms. If features are exchanged, atoms without neighbors on other
 * ranks come first, so that they are computed during the exchange. Ghosts have the same index in both orders.
 */
#ifndef LMP_MLFF_NODES_H
#define LMP_MLFF_NODES_H

#include <cstdint>
#include <vector>

namespace LAMMPS_NS {

/* New with every list. MLFFNeighborGraph writes it, MLFFHalo and MLFFResults read it. */
struct MLFFNodes {
  int n_local = 0;
  std::vector<int> owner_rank;       // [n_all]
  std::vector<int32_t> node;         // [n_all] of every row and ghost; first the index at the owner
  std::vector<int> row_of, owned;    // [n_local] row of owned atom i in the engine, and the inverse
  std::vector<int> ghost_of_node;    // [n_nodes - n_local] ghost that receives the values of a node of another rank
};

}    // namespace LAMMPS_NS

#endif
