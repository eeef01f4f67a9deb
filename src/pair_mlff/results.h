/* results.h: what the engine has computed, in the arrays of LAMMPS and the units of the script. What belongs to atoms
 * of other ranks (nodes.h) goes home here, or in LAMMPS' own reverse communication. */
#ifndef LMP_MLFF_RESULTS_H
#define LMP_MLFF_RESULTS_H

#include "mlff/mlff.h"
#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

/* What one eV is in a unit style of LAMMPS. Lengths are Angstrom in all that are supported. */
struct MLFFUnits {
  const char *style, *energy;
  double per_ev;
};

class MLFFResults : protected Pointers {
 public:
  MLFFResults(class LAMMPS *lammps, class MLFFNeighborGraph &made_from, class MLFFHalo &between_ranks);
  void set_model(const mlff_info *info);
  /* Units of the input script; nullptr when they are not supported. */
  static const MLFFUnits *find_units(const char *name);
  static std::string supported_units();
  struct Wanted {
    bool atom_energy, atom_virial, atom_centroid, spread, members;
  };
  /* Cleared result for the last graph, with the arrays that are wanted. */
  mlff_result *request(const Wanted &wanted);
  const mlff_result &last() const { return results; }
  /* Into the arrays of LAMMPS. add_forces and the virials are collective.
   * add_forces is both of the others; the first once for each evaluation, the second (times a factor) at will. */
  void add_forces();
  void reverse_forces();
  void add_forces_of_atoms(double factor);
  void add_virial(double *virial) const;
  void add_atom_energies(double *eatom) const;
  void add_atom_virials(double **vatom);
  void add_centroid_virials(double **cvatom);
  /* Of this rank's share, eV. */
  double virial_trace() const { return results.virial[0] + results.virial[1] + results.virial[2]; }
  double energy() const { return units->per_ev * results.energy; }
  double per_ev() const { return units->per_ev; }
  /* Forces of owned atoms [n_local][3], eV/A, with contributions of other ranks; of member k alone. Collective. */
  const double (*owned_forces())[3];
  const double *owned_member_forces(int k);
  /* The same in the order of the graph, and nothing else changes; nullptr where forces stay on a GPU. Collective. */
  const double (*whole_forces())[3];
  /* Of member k once more, without communication; and this rank's share of its virial [6], eV. */
  double *member_forces_of(int k);
  const double *member_virial(int k) const { return &member_virials[6 * static_cast<size_t>(k)]; }
  /* [n_local] std of each atom's energy over the ensemble, nullptr before the first; to the script's units. */
  double *atom_spread() { return spread.empty() ? nullptr : spread.data(); }
  void scale_spread();
  /* Std of the total energy, rms and largest std of an atom's: on rank 0, else zeros, as LAMMPS sums. Collective. */
  void reduce_spread(double *three);
  double memory_usage() const;

 private:
  MLFFNeighborGraph &graph;
  MLFFHalo &halo;
  const mlff_graph &view;
  const struct MLFFNodes &nodes;
  const MLFFUnits *units;
  mlff_result results;
  std::vector<double> forces, ordered, virials, centroids, atom_energies, spread;
  std::vector<double> member_energies, member_forces, member_virials;
  bool reverses_forces() const;
};

}    // namespace LAMMPS_NS

#endif
