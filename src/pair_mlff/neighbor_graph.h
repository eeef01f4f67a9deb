/* neighbor_graph.h: converts atoms and the full neighbor list of LAMMPS to the graph of the engine: types to species,
 * the list to CSR rows, ghosts to nodes (nodes.h). Without a list of LAMMPS the GPU builds one. */
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
  /* mapping[t]: element index of atom type t, -1 = not of this model. Entry 0 is unused. */
  void set_model(const mlff_info *info, const std::vector<int> &mapping);
  /* Arrays with atoms and lists, not owned; nullptr: those of Atom and NeighList. */
  void set_arrays(MLFFArrays *others);

  /* Whether the GPU can build the list, so that LAMMPS need not. */
  bool can_build_list_on_gpu() const { return on_gpu && !arrays; }

  /* Graph of this step. An occasional list is built by the GPU or, if it cannot, by LAMMPS. Collective if the list is
   * new. */
  const mlff_graph *update(NeighList *list);
  /* The next graph reads the list again, for a style that does not see all steps. */
  void forget_list();

  /* To be called in init(), when the skin of the next lists is known. */
  void begin_run();
  /* After a run, commands may change lists and ghosts. */
  void end_run() { run_ended = true; }

  /* Findings of update() on this rank: an error or ""; whether atom types have changed since the list was built;
   * whether atoms have moved so far that the list may lack pairs. */
  const std::string &problem() const { return update_problem; }
  bool has_new_types() const { return new_types; }
  bool is_outrun() const { return outrun; }
  /* After a change of types without a new list: gives ghosts the types of their owners. Returns true if the graph of
   * any rank changed and must be evaluated again. Collective. */
  bool settle_types();
  /* In the first evaluation of a run, with each list of a run without setup, and if any_outrun: compares n_edges of the
   * evaluation with the pairs within the cutoff (pair_count.h), and stops all ranks on a difference. Collective. */
  void check_pairs(int64_t n_edges, bool any_outrun, const std::string &who);
  /* Bits of the groups that `neigh_modify exclude group` excludes from all atoms. */
  int excluded_bits() const;

  /* The last graph; a copy in host memory, with a list; its species; and the order of atoms. */
  const mlff_graph &view() const { return graph; }
  mlff_graph on_host();
  const int32_t *species_on_host() const { return arrays ? arrays->species_on_host(graph.n_all) : graph.species; }
  const MLFFNodes &nodes() const { return node_map; }
  bool has_order() const { return reorders; }
  MLFFArrays *other_arrays() const { return arrays; }
  /* Waits until asynchronous copies from this graph have finished. */
  void wait() const;
  /* Whether LAMMPS evaluates a trial of a fix like gcmc, unless this is the first evaluation of the step. */
  bool is_trial() const;
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
  bool unchecked, run_ended;        // unchecked: the pairs of this run are not counted yet
  bool no_setup;                    // the run was started with `pre no`
  bool new_types, outrun;           // see above
  std::string update_problem;       // see problem()
  double skin;                      // of the current lists
  const class Comm *listed_comm;    // when the list was built
  NeighList *last_list;
  bigint last_build, last_step, run_first, run_last;    // of the last graph; run: first and last step
  std::vector<int32_t> species, nbr;
  std::vector<int64_t> row, tags;
  std::vector<tagint> listed_tags;    // of all atoms, when the list was built
  std::vector<double> listed_x;       // the same; empty if LAMMPS compares displacements of atoms on a GPU
  std::vector<int> listed_types, last_types,
      owner_types;    // of all atoms: when the list was built; of the last graph; of their owners
  std::vector<double> positions;

  MLFFArrays::Atoms atoms_now() const { return {species_of_type, graph.n_local, graph.n_all}; }
  bool update_species();
  void keep_list();
  int32_t species_at(int a, int excluded) const;
  bool has_outrun_list() const;
  bool has_outrun_respa_list() const;
  bool is_respa() const;
  bool excludes_pairs() const;
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
