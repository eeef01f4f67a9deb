/* halo.h: what travels between ranks. Features go straight from their owners (exchange/feature_exchange.h); owners of
 * ghosts, and what goes home, through LAMMPS' own communication, which calls back a pair style, or the fix of a second
 * model. */
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
  /* For the engine; nullptr on a single rank. */
  const mlff_halo *calls() const { return is_needed() ? &exchange : nullptr; }

  /* With a new list: the owner of each ghost. `home` is read from then on. Collective. */
  void find_owners(MLFFNodes &map);
  /* With an older list: types[g] of each ghost g is that of its owner now, or -1 if none was received. Collective. */
  void find_owner_types(std::vector<int> &types);
  /* Wanted row k of features is atom index[k] of rank[k]. Returns the atoms that others want of this. Collective. */
  const std::vector<int> &connect(const std::vector<int> &rank, const std::vector<int> &index);
  /* The engine has atom i as row row_of[i] from now on. */
  void set_order(const std::vector<int> &row_of);
  /* Adds rows of nodes of other ranks [n_nodes][row_width] to those of their owners. Collective. */
  void reverse_to_owners(double *rows, int row_width);
  /* Sums values [n_local + n_ghost][3] of ghosts into their owners, as LAMMPS does with forces. Collective. */
  void add_ghosts(double (*values)[3]);

  /* The communication functions of the style, and the doubles per atom that they need at most. */
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
  void *reverse_rows;    // rows of that width on their way home: of nodes or of atoms, of double or float
  bool rows_are_floats, rows_are_atoms, in_flight;
  std::vector<int> *owner_types;    // receives types instead of owners

  void forward();
  void reverse(void *values, int row_width, bool of_floats);
};

}    // namespace LAMMPS_NS

#endif
