/* neighbour_graph.h: atoms and neighbour lists of LAMMPS as the engine's graph: types become species, the full list
 * becomes CSR offsets, ghosts get nodes, and atoms an order (nodes.h). Without a list the engine's GPU makes one. */
#ifndef LMP_MLFF_NEIGHBOUR_GRAPH_H
#define LMP_MLFF_NEIGHBOUR_GRAPH_H

#include "arrays.h"
#include "nodes.h"

#include "pointers.h"

#include <array>
#include <string>

namespace LAMMPS_NS {

class MLFFNeighbourGraph : protected Pointers {
 public:
  MLFFNeighbourGraph(class LAMMPS *lammps, class MLFFHalo &between_ranks);
  /* mapping[t]: index of atom type t into the model's elements, -1 = not ours. Entry 0 is unused. */
  void set_model(const mlff_info *info, const std::vector<int> &mapping);
  /* Atoms and lists are in these arrays from now on; nullptr: in those of Atom and of a plain list. Not owned. */
  void set_arrays(MLFFArrays *others);

  /* Whether the model's GPU can make the list, which saves LAMMPS the making. */
  bool can_leave_list() const { return on_gpu && !arrays; }

  /* This step's graph. Collective when the lists are new; a problem on any rank stops all of them. An occasional list
   * is left to the GPU or, where that cannot be, built. */
  const mlff_graph *update(NeighList *list);
  /* Makes the next graph read the list again although it is not new: for a style that does not see all steps. */
  void forget_list() { last_list = nullptr; }

  /* For init(): commands may have changed what lists and ghosts have. */
  void begin_run() { counted = false; }
  /* After an evaluation, with mlff_result.n_edges: of the first list of a run, whether the model has seen all pairs
   * that there are (pair_count.h); all ranks stop where it has not. Collective. */
  void check_pairs(int64_t n_edges, const char *who);

  /* The last one; the same where the host reads it, with a list; and its order. */
  const mlff_graph &view() const { return graph; }
  mlff_graph on_host();
  const int32_t *species_on_host() const { return arrays ? arrays->species_on_host(graph.n_all) : graph.species; }
  const MLFFNodes &nodes() const { return home; }
  bool has_order() const { return reorders; }
  MLFFArrays *other_arrays() const { return arrays; }
  /* Before the last graph is evaluated again: until what other arrays were given has been read. */
  void wait() const;
  /* `atom ID` of row or ghost a. */
  std::string name_of(int a) const { return atom_name(atom_of(a)); }
  double memory_usage() const;

 private:
  class NewList;
  MLFFHalo &halo;
  MLFFArrays *arrays;
  mlff_graph graph;
  MLFFNodes home;
  std::vector<int> species_of_type, listed;
  double cutoff;
  bool on_gpu, tags_needed, reorders, unchecked, counted;    // counted: the pairs of this run; unchecked: shall be
  NeighList *last_list;
  bigint last_build, last_step, run_first, run_last;    // of the last graph; run: the steps of its run
  std::vector<int32_t> species, nbr;
  std::vector<int64_t> row, tags;
  std::array<double, 12> last_box;    // of the last graph
  std::vector<tagint> listed_tags;    // of all atoms, when the list was new
  std::vector<double> positions;

  MLFFArrays::Atoms atoms_now() const { return {species_of_type, graph.n_local, graph.n_all}; }
  bool update_species();
  double reach(int n_skins) const;
  bool leaves(const NeighList *list) const;
  std::array<double, 12> box_now() const;
  void check_same_atoms();
  const double (*this_step())[3];
  int atom_of(int a) const { return a < graph.n_local ? home.owned[static_cast<size_t>(a)] : a; }
  std::string atom_name(int i) const;
};

}    // namespace LAMMPS_NS

#endif
