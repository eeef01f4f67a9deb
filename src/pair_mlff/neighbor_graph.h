/* neighbor_graph.h: atoms and neighbor lists of LAMMPS as the engine's graph: types become species, the full list
 * becomes CSR offsets, ghosts get nodes, and atoms an order (nodes.h). Without a list the engine's GPU makes one. */
#ifndef LMP_MLFF_NEIGHBOUR_GRAPH_H
#define LMP_MLFF_NEIGHBOUR_GRAPH_H

#include "arrays.h"
#include "nodes.h"

#include "pointers.h"

#include <string>

namespace LAMMPS_NS {

class MLFFNeighborGraph : protected Pointers {
 public:
  MLFFNeighborGraph(class LAMMPS *lammps, class MLFFHalo &between_ranks);
  /* mapping[t]: index of atom type t into the model's elements, -1 = not ours. Entry 0 is unused. */
  void set_model(const mlff_info *info, const std::vector<int> &mapping);
  /* Atoms and lists are in these arrays from now on; nullptr: in those of Atom and of a plain list. Not owned. */
  void set_arrays(MLFFArrays *others);

  /* Whether the model's GPU can make the list, which saves LAMMPS the making. */
  bool can_build_list_on_gpu() const { return on_gpu && !arrays; }

  /* This step's graph. Collective when the lists are new; a problem on any rank stops all of them. An occasional list
   * is left to the GPU or, where that cannot be, built. */
  const mlff_graph *update(NeighList *list);
  /* Makes the next graph read the list again although it is not new: for a style that does not see all steps. */
  void forget_list();

  /* For init(), which sets the skin of the lists that follow. */
  void begin_run();
  /* For the end of a run: commands may then change what lists and ghosts contain. */
  void end_run() { run_ended = true; }

  /* What update() found on this rank: a problem (empty: none); whether atom types have changed since the list was made;
   * whether atoms have moved so far that the list may lack pairs. */
  const std::string &problem() const { return update_problem; }
  bool has_new_types() const { return new_types; }
  bool is_outrun() const { return outrun; }
  /* Where types have changed on any rank without a new list: gives ghosts the types of their owners. Returns true when
   * that changed the graph on any rank, which must then be evaluated again. Collective. */
  bool settle_types();
  /* After an evaluation, with mlff_result.n_edges: in the first evaluation of a run, and when any rank's list is
   * outrun, compares with the pairs that there are (pair_count.h); all ranks stop on a difference. Collective. */
  void check_pairs(int64_t n_edges, bool any_outrun, const std::string &who);
  /* Bits of the groups that `neigh_modify exclude group` keeps from all atoms: no list contains their atoms. */
  int excluded_bits() const;

  /* The last one; the same where the host reads it, with a list; and its order. */
  const mlff_graph &view() const { return graph; }
  mlff_graph on_host();
  const int32_t *species_on_host() const { return arrays ? arrays->species_on_host(graph.n_all) : graph.species; }
  const MLFFNodes &nodes() const { return node_map; }
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
  MLFFNodes node_map;
  std::vector<int> species_of_type, listed;
  double cutoff;
  bool on_gpu, tags_needed, reorders;
  bool unchecked, run_ended;        // unchecked: the pairs of this run must still be counted
  bool new_types, outrun;           // see above
  std::string update_problem;       // see problem()
  double skin;                      // of the lists, which `neighbor` alone does not change
  const class Comm *listed_comm;    // when the list was new
  NeighList *last_list;
  bigint last_build, last_step, run_first, run_last;    // of the last graph; run: the steps of its run
  std::vector<int32_t> species, nbr;
  std::vector<int64_t> row, tags;
  std::vector<tagint> listed_tags;    // of all atoms, when the list was new
  std::vector<double> listed_x;       // the same; empty where other arrays have atoms that LAMMPS watches
  std::vector<int> listed_types, last_types, owner_types;    // of all atoms: then; of the last graph; of their owners
  std::vector<double> positions;

  MLFFArrays::Atoms atoms_now() const { return {species_of_type, graph.n_local, graph.n_all}; }
  bool update_species();
  void keep_list();
  int32_t species_at(int a, int excluded) const;
  bool has_outrun_list() const;
  bool has_outrun_respa_list() const;
  bool is_respa() const;
  const double *listed_position(int i) const;
  std::string farthest_atom() const;
  bool delays_lists() const;
  void check_type(int a);
  double reach(int n_skins) const;
  bool is_built_on_gpu(const NeighList *list) const;
  void check_list_exists(const NeighList *list) const;
  void check_same_atoms();
  const double (*this_step())[3];
  int atom_of(int a) const { return a < graph.n_local ? node_map.owned[static_cast<size_t>(a)] : a; }
  std::string atom_name(int i) const;
};

}    // namespace LAMMPS_NS

#endif
