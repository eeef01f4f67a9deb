/* deviation.h: model deviation of an ensemble or a committee, or the uncertainty of one network; its file and its
 * thresholds.
 *
 * An atom's deviation is sqrt(<|f_k - <f>|^2>), the mean being over the members k; a virial component's is
 * sqrt(<(w_k - <w>)^2>) divided by the number of atoms. File and definitions are those of DeePMD-kit's model deviation
 * (Y. Zhang et al., Comput. Phys. Commun. 253, 107206 (2020)).
 */
#ifndef LMP_MLFF_DEVIATION_H
#define LMP_MLFF_DEVIATION_H

#include "settings.h"
#include "../base/cxx/whole_file.h"

#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFNeighborGraph;
class MLFFResults;
struct MLFFPrediction;

class MLFFDeviation : protected Pointers {
 public:
  using Predictions = std::vector<MLFFPrediction>;

  MLFFDeviation(class LAMMPS *lammps, const MLFFNeighborGraph &source, MLFFResults &engine_results);
  MLFFDeviation(const MLFFDeviation &) = delete;
  MLFFDeviation &operator=(const MLFFDeviation &) = delete;
  ~MLFFDeviation();

  void start(const MLFFSettings &how);
  /* Whether this evaluation needs the forces of members: it is of a step with output. */
  bool is_due() const;
  /* Computes deviations from the last evaluation; writes, warns, dumps and stops as set, for what may be a trial when
   * the step has ended. members: empty for one network, which has uncertainties. Collective. */
  void measure(const Predictions &members);
  /* Writes, warns, dumps and stops for the last evaluation of a step that has ended, or of a run. Collective. */
  void settle();
  void end_run();
  /* [n_local] deviations in units of the script; nullptr before the first. */
  double *atom_deviations() { return deviations.empty() ? nullptr : deviations.data(); }
  double memory_usage() const;

 private:
  struct Extremes {
    double highest, lowest, average;
  };
  /* What was measured in a step. row, frame: for the files, on rank 0; text: which atom. */
  struct Finding {
    bigint step = -1;
    double highest = 0.0;
    std::string row, frame, text;
  };

  const MLFFNeighborGraph &graph;
  MLFFResults &results;
  MLFFSettings settings;
  MLFFWholeFile file, frames;               // on rank 0
  Finding waiting;                          // step -1: none
  bool dumped;                              // the dump file is open
  bool warned;                              // of equal models
  std::vector<double> deviations, means;    // [n_local], [n_local][3]

  void measure_atoms(const Predictions &members);
  Extremes forces_extremes(tagint &worst) const;
  Extremes virial_extremes(const Predictions &members, double n_atoms) const;
  double count_atoms() const;
  std::string row(const Extremes &virials, const Extremes &forces) const;
  void close_files();
  void complain(const std::string &path, const std::string &problem);
  void report();
  std::string whole_frame() const;
  std::string frame(const std::vector<double> &rows) const;
};

}    // namespace LAMMPS_NS

#endif
