/* domain_watch.h: whether a run is where its model was trained (block `domain` of the model file): temperature,
 * density, and the shortest distance of each pair of elements. Looked at so rarely that it costs nothing; what is
 * outside is said once in a run, or stops it.
 */
#ifndef LMP_MLFF_DOMAIN_WATCH_H
#define LMP_MLFF_DOMAIN_WATCH_H

#include "mlff/mlff.h"
#include "pointers.h"

#include <array>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFNeighbourGraph;

class MLFFDomainWatch : protected Pointers {
 public:
  MLFFDomainWatch(class LAMMPS *lammps, const MLFFNeighbourGraph &of_step);
  /* mapping as in MLFFNeighbourGraph; what: warn, stop or ignore. */
  void set_model(const mlff_info *of_model, const std::vector<int> &mapping, const std::string &what);
  void begin_run();
  /* Whether to look in this step: dynamics and rerun, and not what minimizers try. The same on all ranks. */
  bool is_due() const;
  /* After an evaluation of the graph, when Atom has velocities and types. Collective. */
  void look();

 private:
  static constexpr int LOOKS = 10;    // of a mean
  enum Kind { TEMPERATURE, DENSITY, DISTANCE, N_KINDS };

  class Mean {    // of the last LOOKS values
   public:
    void add(double value) { values[static_cast<size_t>(n++ % LOOKS)] = value; }
    bool is_full() const { return n >= LOOKS; }
    double value() const;

   private:
    std::array<double, LOOKS> values = {};
    int n = 0;
  };

  /* Sums over the model's atoms of all ranks, as doubles for MPI. Those at rest count as atoms only. */
  struct Sums {
    double n_atoms, element_mass, n_moving, mass, momentum[3], mv2;
  };

  const MLFFNeighbourGraph &graph;
  const mlff_info *info;
  bool is_on, stops;
  int every;    // steps between two looks
  std::vector<int> species_of_type;
  std::vector<double> element_masses, inverse_squares;    // [n_elements]; [n_elements][n_elements] of the limits, 1/A^2
  bigint last_step;
  std::array<bool, N_KINDS> is_watched;    // and nothing was said of it in this run
  Mean temperature, density;

  Sums sum_atoms() const;
  void look_at_temperature(const Sums &sums);
  void look_at_density(const Sums &sums);
  void look_at_distances();
  std::string closest(double &square) const;
  double count_constraints() const;
  void say(Kind kind, const std::string &what);
};

}    // namespace LAMMPS_NS

#endif
