/* settings.h: what the keywords of pair_style mlff say. Each is one row of a table: options of a model in the engine's
 * (mlff_option), the others in settings.cpp. */
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
  // disagreement of an ensemble (deviation.h); limits are in the script's units of force, 0 = none
  std::string out_file, dump_file;
  int out_freq;
  double devi_warn = 0.0, devi_dump = 0.0, devi_stop = 0.0;

  MLFFSettings();    // the defaults of the rows
  /* Arguments of pair_style. Empty, or what is wrong and what is known. */
  std::string parse(int narg, const char *const *arg);
  /* One keyword, and whether a second model beside that of the pair style takes it. The same. */
  std::string set(const std::string &name, std::string value);
  static bool is_for_models(const std::string &name);

  /* For a second model: these but what is of one model only, and then its own keywords. */
  MLFFSettings for_second_model(const Words &own) const;
  /* Strings are borrowed. */
  void fill(mlff_options &options) const;
  bool wants_deviation() const { return !out_file.empty() || devi_warn > 0.0 || devi_dump > 0.0 || devi_stop > 0.0; }
};

}    // namespace LAMMPS_NS

#endif
