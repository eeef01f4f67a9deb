/* halo.h: communication between ranks. Features go directly from their owners (exchange/feature_exchange.h). Owners of
 * ghosts, and values for owners, use the communication of LAMMPS, which calls back a pair style or a fix. */
#ifndef LMP_MLFF_HALO_H
#define LMP_MLFF_HALO_H

#include "exchange/feature_exchange.h"
#include "nodes.h"

#include "mlff/mlff.h"
#include "pointers.h"

namespace LAMMPS_NS {

class MLFFHalo : protected Pointers {
 public:
  MLFFHalo(class LAMMPS *lammps, class Pair *pair_style, class Fix *fix_style);    // one of them is nullptr
  void set_model(const mlff_info *info);
  /* How features travel: from GPU to GPU by MPI, or through memory that ranks of a machine share. Returns a line for
   * the log. After set_model. Collective. */
  std::string set_ways(bool gpu_aware, bool shared);

  bool is_needed() const { return n_ranks > 1; }
  bool has_features() const { return is_needed() && exchange_width > 0; }
  /* Callbacks for the engine; nullptr on a single rank. */
  const mlff_halo *calls() const { return is_needed() ? &exchange : nullptr; }

  /* New list: sets the owner of each ghost in `map`, which is read later as well. Collective. */
  void find_owners(MLFFNodes &map);
  /* Existing list: types[g] of each ghost g is the current type of its owner, or -1 if none was received.
   * Collective. */
  void find_owner_types(std::vector<int> &types);
  /* Requests features: row k is atom index[k] of rank[k]. Returns the atoms that other ranks request. Collective. */
  const std::vector<int> &connect(const std::vector<int> &rank, const std::vector<int> &index);
  /* The engine uses row row_of[i] for atom i. */
  void set_order(const std::vector<int> &row_of);
  /* Adds rows [n_nodes][row_width] of nodes of other ranks to those of their owners. Collective. */
  void reverse_to_owners(double *rows, int row_width);
  /* Adds values [n_local + n_ghost][3] of ghosts to their owners, as LAMMPS does with forces. Collective. */
  void add_ghosts(double (*values)[3]);

  /* Communication functions of the style, and the maximum number of doubles per atom. */
  int pack_forward(int n, const int *atoms, double *buf) const;
  void unpack_forward(int n, int first, const double *buf);
  int pack_reverse(int n, int first, double *buf) const;
  void unpack_reverse(int n, const int *atoms, const double *buf);
  int forward_width() const;
  int reverse_width() const { return max_reverse_width; }
  double memory_usage() const { return features.memory_usage(); }

 private:
  struct Calls;
  class Pair *pair;
  class Fix *fix;
  int n_ranks, exchange_width, max_reverse_width, width;
  mlff_halo exchange;
  MLFFFeatureExchange features;
  MLFFNodes *nodes;
  void *reverse_rows;    // rows of the current reverse communication: of nodes or of atoms, double or float
  bool rows_are_floats, rows_are_atoms, in_flight;
  std::vector<int> *owner_types;    // set: forward communication of types instead of owners

  void forward();
  void reverse(void *values, int row_width, bool of_floats);
};

}    // namespace LAMMPS_NS

#endif
