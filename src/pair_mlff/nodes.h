/* nodes.h: whose features, forces and virials an atom carries.
 *
 * With each new list every ghost learns the rank and the local index of its owner. A ghost owned by this rank is a
 * periodic image: it shares its owner's node, so its forces and virials land on the owner without communication. Atoms
 * of other ranks get nodes, which all ghosts that are images of one share. No tags and no atom map are needed.
 *
 * The engine has owned atoms in the order of LAMMPS, except where features travel: then those that have to do with this
 * rank only stand first, so that they can be computed meanwhile. Ghosts have the same index on both sides.
 */
#ifndef LMP_MLFF_NODES_H
#define LMP_MLFF_NODES_H

#include <cstdint>
#include <vector>

namespace LAMMPS_NS {

/* New with every list. MLFFNeighborGraph makes it, MLFFHalo and MLFFResults read it. */
struct MLFFNodes {
  int n_local = 0;
  std::vector<int> owner_rank;       // [n_all]
  std::vector<int32_t> node;         // [n_all] of every row and ghost; at first the index at the owner
  std::vector<int> row_of, owned;    // [n_local] row of owned atom i in the engine's arrays; and its inverse
  std::vector<int> ghost_of_node;    // [n_nodes - n_local] the ghost that gets what belongs to a node of another rank
};

}    // namespace LAMMPS_NS

#endif
