/* new_list.h: what MLFFNeighborGraph does with a new list: nodes of ghosts, order of atoms, rows of candidates. For
 * neighbor_graph.cpp and new_list.cpp only. */
#ifndef LMP_MLFF_NEW_LIST_H
#define LMP_MLFF_NEW_LIST_H

#include "neighbor_graph.h"

#include "atom.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFNeighborGraph::NewList : protected Pointers {
 public:
  NewList(MLFFNeighborGraph &parent, NeighList *full) :
      Pointers(parent.lmp), owner(parent), graph(owner.graph), node_map(owner.node_map), list(full),
      on_gpu(owner.is_built_on_gpu(full)), reach(owner.reach(owner.is_respa() ? 2 : 1))
  {
  }
  void build();
  void copy_rows();

 private:
  MLFFNeighborGraph &owner;
  mlff_graph &graph;
  MLFFNodes &node_map;
  NeighList *list;
  const bool on_gpu;    // the GPU builds the list
  // Candidates beyond this distance belong to a style with a longer cutoff and cannot come into reach before the next
  // rebuild. With run_style respa atoms have already moved by up to half a skin.
  const double reach;
  std::vector<char> at_boundary, wanted_ghost;
  std::vector<int> remote_rank, remote_index;    // of nodes of other ranks that receive features

  bool is_ours(int i) const { return owner.species_of_type[atom->type[i]] >= 0; }
  template <class Use> void for_neighbors(int i, Use use) const;
  void find_owners();
  void find_boundary();
  void find_boundary_by_cells();
  std::string assign_nodes();
  std::string check_special_bonds() const;
  std::string check_exclusions() const;
  void order_atoms(const std::vector<int> &sent);
  void copy_tags();
};

}    // namespace LAMMPS_NS

#endif
