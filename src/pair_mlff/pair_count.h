/* pair_count.h: counts neighbors without the ghosts and neighbor lists of LAMMPS. */
#ifndef LMP_MLFF_PAIR_COUNT_H
#define LMP_MLFF_PAIR_COUNT_H

#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

/* Finds incomplete lists or ghosts, whatever command made them so (comm_modify group, pair_coeff of another style in
 * hybrid, neigh_modify, special_bonds). Costs about as much as a new neighbor list. */
class MLFFPairCount : protected Pointers {
 public:
  /* excluded_bits: groups whose atoms are in no list. */
  MLFFPairCount(class LAMMPS *lammps, int excluded_bits) : Pointers(lammps), excluded(excluded_bits) {}
  /* n_seen: directed pairs within the cutoff of this rank's atoms, of types with species >= 0. Returns "" if their sum
   * over ranks is the number of all such pairs, else an error; the same on all ranks. Collective. */
  std::string compare(bigint n_seen, double cutoff, const std::vector<int> &species_of_type);

 private:
  int excluded;
  std::vector<double> points;    // of this rank's atoms, then of images and atoms of other ranks near them
  std::vector<double> arrived;

  void collect_own(const std::vector<int> &species_of_type);
  void collect_near(double reach);
  void count(size_t n_own, double low, double high, bigint *counts) const;
};

}    // namespace LAMMPS_NS

#endif
