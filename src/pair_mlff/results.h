/* results.h: results of the engine in the arrays of LAMMPS and the units of the script. Values of atoms of other ranks
 * (nodes.h) are sent to their owners here or by the reverse communication of LAMMPS. */
#ifndef LMP_MLFF_RESULTS_H
#define LMP_MLFF_RESULTS_H

#include "mlff/mlff.h"
#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

/* One eV in a unit style of LAMMPS. All supported styles use Angstrom. */
struct MLFFUnits {
  const char *style, *energy;
  double per_ev;
};

/* Prediction of one model or member: forces of owned atoms [n_local][3] in the order of LAMMPS, eV/A; share of this
 * rank of the virial [6], eV. Valid until the next evaluation. */
struct MLFFPrediction {
  const double *forces, *virial;
};

class MLFFResults : protected Pointers {
 public:
  MLFFResults(class LAMMPS *lammps, class MLFFNeighborGraph &made_from, class MLFFHalo &between_ranks);
  void set_model(const mlff_info *info);
  /* Units of the input script; nullptr when they are not supported. */
  static const MLFFUnits *find_units(const char *name);
  static std::string supported_units();
  struct Wanted {
    bool atom_energy = false, atom_virial = false, atom_centroid = false, spread = false, members = false;
    bool uncertainty = false;
  };
  /* Cleared result for the last graph, with the requested arrays. */
  mlff_result *request(const Wanted &wanted);
  const mlff_result &last() const { return results; }
  /* Add to the arrays of LAMMPS. add_forces and the virials are collective. add_forces is reverse_forces, once per
   * evaluation, and add_forces_of_atoms, times a factor. */
  void add_forces();
  void reverse_forces();
  void add_forces_of_atoms(double factor);
  void add_virial(double *virial) const;
  void add_atom_energies(double *eatom) const;
  void add_atom_virials(double **vatom);
  void add_centroid_virials(double **cvatom);
  /* Share of this rank, eV. */
  double virial_trace() const { return results.virial[0] + results.virial[1] + results.virial[2]; }
  double energy() const { return units->per_ev * results.energy; }
  double per_ev() const { return units->per_ev; }
  /* Forces of owned atoms [n_local][3], eV/A, with contributions of other ranks, after reverse_forces, in the order of
   * the graph; nullptr if they stay on a GPU. The same in the order of LAMMPS, with the virial. Collective. */
  const double (*whole_forces())[3];
  MLFFPrediction prediction();
  /* Those of the members, if they were requested. Collective. */
  std::vector<MLFFPrediction> member_predictions();
  /* [n_local] std of atomic energies over the ensemble, nullptr before the first; converted by scale_spread. */
  double *atom_spread() { return spread.empty() ? nullptr : spread.data(); }
  void scale_spread();
  /* Std of the total energy, rms and largest std of atomic energies, on rank 0; zeros on others, because LAMMPS sums
   * over ranks. Collective. */
  void reduce_spread(double *three);
  /* [n_local] uncertainties of the last evaluation that had them, nullptr before the first; sort_uncertainties converts
   * them to the order and units of LAMMPS. */
  double *atom_uncertainties() { return uncertainties.empty() ? nullptr : uncertainties.data(); }
  void sort_uncertainties();
  double memory_usage() const;

 private:
  MLFFNeighborGraph &graph;
  MLFFHalo &halo;
  const mlff_graph &view;
  const struct MLFFNodes &nodes;
  const MLFFUnits *units;
  mlff_result results;
  std::vector<double> forces, whole, ordered, virials, centroids, atom_energies, spread;
  std::vector<double> member_energies, member_forces, member_virials;
  std::vector<double> unsorted, uncertainties;
  bool uncertainties_are_forces = false;
  bool reverses_forces() const;
};

}    // namespace LAMMPS_NS

#endif
