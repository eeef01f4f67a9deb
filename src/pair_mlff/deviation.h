/* deviation.h: how much the members of an ensemble disagree about forces, and what to do when it is too much.
 *
 * An atom's deviation is sqrt(<|f_k - <f>|^2>), the mean being over the members k; a virial component's is
 * sqrt(<(w_k - <w>)^2>) divided by the number of atoms. File and definitions are those of DeePMD-kit's model deviation
 * (Y. Zhang et al., Comput. Phys. Commun. 253, 107206 (2020)).
 */
#ifndef LMP_MLFF_DEVIATION_H
#define LMP_MLFF_DEVIATION_H

#include "pointers.h"

#include <cstdio>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFIO;

#define MLFF_DEVIATION_KEYWORDS "out_file, out_freq, devi_warn, devi_dump, devi_stop, dump_file"

/* Keywords of pair_style. Limits are of the largest deviation of an atom, in the script's units of force; 0 = none. */
struct MLFFDeviationSettings {
  std::string out_file, dump_file = "deviation.dump";
  int out_freq = 100;
  double warn = 0.0, dump = 0.0, stop = 0.0;

  bool wanted() const { return !out_file.empty() || warn > 0.0 || dump > 0.0 || stop > 0.0; }
  static bool knows(const std::string &key);
  /* Empty, or what is wrong. */
  std::string set(const std::string &key, const char *value);
};

class MLFFDeviation : protected Pointers {
 public:
  MLFFDeviation(class LAMMPS *lammps, MLFFIO &lammps_io);
  MLFFDeviation(const MLFFDeviation &) = delete;
  MLFFDeviation &operator=(const MLFFDeviation &) = delete;
  ~MLFFDeviation();

  void start(const MLFFDeviationSettings &how);
  /* Whether forces of members are wanted in this step. */
  bool is_due() const;
  /* Deviations from the forces of members that io has; writes, warns, dumps, stops. Collective. */
  void take(int n_members);
  /* [n_local] deviation of each atom, in the script's units; nullptr before the first. */
  double *of_atoms() { return deviations.empty() ? nullptr : deviations.data(); }
  double memory_usage() const;

 private:
  struct Extremes {
    double highest, lowest, average;
  };

  MLFFIO &io;
  MLFFDeviationSettings settings;
  FILE *file;
  bigint last_written;
  bool dumped;                              // the dump file was begun
  std::vector<double> deviations, means;    // [n_local], [n_local][3]

  void measure_atoms(int n_members);
  Extremes forces_extremes(tagint &worst) const;
  Extremes virial_extremes(int n_members, double n_atoms) const;
  double count_atoms() const;
  void write(const Extremes &virials, const Extremes &forces);
  void dump_frame();
  void write_frame(const std::vector<double> &rows);
};

}    // namespace LAMMPS_NS

#endif
