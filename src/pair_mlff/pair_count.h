/* pair_count.h: how many neighbors there are, found without LAMMPS' ghosts and neighbor lists. */
#ifndef LMP_MLFF_PAIR_COUNT_H
#define LMP_MLFF_PAIR_COUNT_H

#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

/* Compares what a model has seen with what is there. Whatever makes lists or ghosts incomplete (comm_modify group,
 * pair_coeff of another style in hybrid, neigh_modify, special_bonds, commands that are not known yet) shows as pairs
 * that are missing. Costs about as much as a new neighbor list. */
class MLFFPairCount : protected Pointers {
 public:
  /* excluded_bits: of the groups whose atoms no list contains. */
  MLFFPairCount(class LAMMPS *lammps, int excluded_bits) : Pointers(lammps), excluded(excluded_bits) {}
  /* n_seen: directed pairs within the cutoff that this rank's atoms have, of types with species >= 0. Empty when their
   * sum over the ranks is that of all such pairs, else what is wrong; the same on all ranks. Collective. */
  std::string compare(bigint n_seen, double cutoff, const std::vector<int> &species_of_type);

 private:
  int excluded;
  std::vector<double> points;    // of this rank's atoms, then images and atoms of other ranks near them
  std::vector<double> arrived;

  void collect_own(const std::vector<int> &species_of_type);
  void collect_near(double reach);
  void count(size_t n_own, double low, double high, bigint *counts) const;
};

}    // namespace LAMMPS_NS

#endif
