/* domain_watch.h: compares a run with the training domain of its model (mlff/mlff_watch.h) and reports what is outside.
 */
#ifndef LMP_MLFF_DOMAIN_WATCH_H
#define LMP_MLFF_DOMAIN_WATCH_H

#include "mlff/mlff_watch.h"
#include "pointers.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFNeighborGraph;
class MLFFResults;

class MLFFDomainWatch : protected Pointers {
 public:
  MLFFDomainWatch(class LAMMPS *lammps, MLFFNeighborGraph &source, MLFFResults &engine_results);
  /* mapping: see MLFFNeighborGraph. what: warn, stop or ignore. */
  void set_model(const mlff_info *model_info, const std::vector<int> &mapping, const std::string &what);
  void begin_run();
  /* Whether to check this step: in dynamics and rerun, and the first structure of a minimization. The same on all
   * ranks. */
  bool is_due() const;
  /* After an evaluation, with velocities and types in Atom. Collective. */
  void check();
  /* After the last evaluation: checks the final structure of a minimization. Collective. */
  void end_run();
  /* nullptr: nothing is checked. */
  mlff_watch *counts() const { return watch.get(); }

 private:
  using Findings = std::array<mlff_finding, MLFF_N_WATCHED>;
  struct Closer {
    void operator()(mlff_watch *w) const { mlff_watch_free(w); }
  };
  /* Sums over atoms of the model on all ranks. Atoms at rest count in n_atoms and element_mass only. */
  struct Sums {
    double n_atoms, element_mass, n_moving, mass, momentum[3], mv2, virial;
  };

  MLFFNeighborGraph &graph;
  MLFFResults &results;
  const mlff_info *info;
  bool stops;
  bool has_begun;    // a structure of dynamics was checked with this model
  int every;         // steps between two checks
  std::unique_ptr<mlff_watch, Closer> watch;
  std::vector<int> species_of_type;
  std::vector<double> element_masses;    // [n_elements]
  bigint last_step;

  void judge(bool whole, bool begins);
  Sums sum_atoms() const;
  double count_constraints() const;
  void find_temperature(const Sums &sums, mlff_watch_system &system) const;
  mlff_watch_system find_system() const;
  void find_atoms(Findings &found);
  void reduce_findings(Findings &found) const;
  void report(const mlff_finding &finding, bool warns_only) const;
};

}    // namespace LAMMPS_NS

#endif
