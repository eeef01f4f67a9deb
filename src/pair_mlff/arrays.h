/* arrays.h: atoms and their graph in arrays that are not those of Atom: on the host or on a GPU, as the style has them
 * (kokkos/kokkos_arrays.h). MLFFNeighborGraph says when something is new and in which order the engine has atoms;
 * these do what goes over all atoms or pairs. */
#ifndef LMP_MLFF_ARRAYS_H
#define LMP_MLFF_ARRAYS_H

#include "mlff/mlff.h"

#include <vector>

namespace LAMMPS_NS {

class NeighList;

class MLFFArrays {
 public:
  virtual ~MLFFArrays() = default;

  /* Who has which atom: a number of each element for each type, -1 = not ours; owned atoms, and those with ghosts. */
  struct Atoms {
    const std::vector<int> &species_of_type;
    int n_local, n_all;
  };

  /* With a new list: marks owned atoms that have candidates of other ranks, and those candidates.
   * reach: cutoff and skin. */
  virtual void find_boundary(NeighList *list, const Atoms &atoms, double reach, const std::vector<int> &owner_rank,
                             int me, std::vector<char> &at_boundary, std::vector<char> &wanted_ghost) = 0;
  /* With a new list: row r of the engine is owned[r], and atom i is row row_of[i] (empty: the order of LAMMPS); node of
   * every row and ghost; the ghost that gets the forces of each node of other ranks. */
  virtual void set_order(const std::vector<int> &owned, const std::vector<int> &row_of,
                         const std::vector<int32_t> &node, const std::vector<int> &ghost_of_node) = 0;
  /* Elements of rows and ghosts; returns true if one has changed. */
  virtual bool update_species(const Atoms &atoms) = 0;
  /* Rows of the candidates within reach, for atoms of the list that have an element; returns the number of pairs. */
  virtual int64_t copy_list(NeighList *list, const Atoms &atoms, double reach) = 0;
  /* Sets the graph's arrays; on return they are complete. */
  virtual void fill(mlff_graph &view) = 0;
  /* Adds scale times forces [n_local] to f of owned atoms and, with_ghosts, the rows behind them to those of ghosts.
   * on_host: where `forces` is, else where the arrays are. */
  virtual void add_forces(const double *forces, bool on_host, double scale, int n_local, bool with_ghosts) = 0;
  /* On return that is done: a GPU may read `forces` after add_forces has returned. */
  virtual void wait() = 0;

  /* Elements where the host reads them. */
  virtual const int32_t *species_on_host(int n_all) = 0;
  /* The graph where the host reads it; valid until the next call of any of these. */
  virtual mlff_graph graph_on_host(const mlff_graph &view) = 0;
  /* Brings Atom's positions, types, IDs and bonded neighbors up to date. */
  virtual void sync_atom() = 0;
  virtual double memory_usage() const = 0;
};

}    // namespace LAMMPS_NS

#endif
