/* arrays.h: interface to atoms and neighbor lists that are not in the arrays of Atom, such as those of Kokkos
 * (kokkos/kokkos_arrays.h). MLFFNeighborGraph decides what to update; an implementation loops over atoms and pairs. */
#ifndef LMP_MLFF_ARRAYS_H
#define LMP_MLFF_ARRAYS_H

#include "mlff/mlff.h"

#include <vector>

namespace LAMMPS_NS {

class NeighList;

class MLFFArrays {
 public:
  virtual ~MLFFArrays() = default;

  /* Element of each type (-1: not of this model), owned atoms, owned and ghost atoms. */
  struct Atoms {
    const std::vector<int> &species_of_type;
    int n_local, n_all;
  };

  /* New list: marks owned atoms with neighbors of other ranks within reach, and these neighbors. */
  virtual void find_boundary(NeighList *list, const Atoms &atoms, double reach, const std::vector<int> &owner_rank,
                             int me, std::vector<char> &at_boundary, std::vector<char> &wanted_ghost) = 0;
  /* New list: row r of the engine is atom owned[r], atom i is row row_of[i] (empty: the order of LAMMPS). node: of
   * every row and ghost. ghost_of_node: the ghost that receives the forces of each node of other ranks. */
  virtual void set_order(const std::vector<int> &owned, const std::vector<int> &row_of,
                         const std::vector<int32_t> &node, const std::vector<int> &ghost_of_node) = 0;
  /* Updates elements of rows and ghosts; returns true if one has changed. */
  virtual bool update_species(const Atoms &atoms) = 0;
  /* Copies the neighbors within reach of atoms of this model; returns the number of pairs. */
  virtual int64_t copy_list(NeighList *list, const Atoms &atoms, double reach) = 0;
  /* Sets the arrays of the graph, which are complete on return. */
  virtual void fill(mlff_graph &view) = 0;
  /* f += scale * forces, rows [n_local] to owned atoms and, with_ghosts, the following rows to ghosts. on_host:
   * `forces` is on the host, otherwise where the arrays are. */
  virtual void add_forces(const double *forces, bool on_host, double scale, int n_local, bool with_ghosts) = 0;
  /* Waits until add_forces has finished, which may read `forces` asynchronously. */
  virtual void wait() = 0;

  /* Elements in host memory. */
  virtual const int32_t *species_on_host(int n_all) = 0;
  /* The graph in host memory, valid until the next call. */
  virtual mlff_graph graph_on_host(const mlff_graph &view) = 0;
  /* Copies positions, types, IDs and special bonds to Atom. */
  virtual void sync_atom() = 0;
  virtual double memory_usage() const = 0;
};

}    // namespace LAMMPS_NS

#endif
