/* settings.h: keywords of pair_style mlff. Each is one row of a table: options of a model in the engine (mlff_option),
 * others in settings.cpp. */
#ifndef LMP_MLFF_SETTINGS_H
#define LMP_MLFF_SETTINGS_H

#include "mlff/mlff.h"

#include <map>
#include <string>

namespace LAMMPS_NS {

struct MLFFSettings {
  using Words = std::map<std::string, std::string>;

  Words engine;    // name of mlff_option -> value
  std::string gpu_mpi;
  std::string inner;    // model of the inner level of run_style respa; empty: none
  bool self_test, masses, node_memory;
  std::string domain;    // warn, stop or ignore
  // model deviation of an ensemble (deviation.h); thresholds in force units of the script, 0 = none
  std::string out_file, dump_file;
  int out_freq;
  double devi_warn = 0.0, devi_dump = 0.0, devi_stop = 0.0;

  MLFFSettings();    // the defaults of the rows
  /* Parses arguments of pair_style. Returns an error or "". */
  std::string parse(int narg, const char *const *arg);
  /* Sets one keyword. Returns an error or "". */
  std::string set(const std::string &name, std::string value);
  /* Whether a second model has this keyword. */
  static bool is_for_models(const std::string &name);

  /* Settings of a second model: these without the keywords of the run, overridden by its own keywords. */
  MLFFSettings for_second_model(const Words &overrides) const;
  /* Strings are borrowed. */
  void fill(mlff_options &options) const;
  /* dump_file if frames may be written to it, else empty. */
  std::string frames_file() const { return devi_dump > 0.0 || devi_stop > 0.0 ? dump_file : ""; }
  bool wants_deviation() const { return !out_file.empty() || devi_warn > 0.0 || devi_dump > 0.0 || devi_stop > 0.0; }
};

}    // namespace LAMMPS_NS

#endif
