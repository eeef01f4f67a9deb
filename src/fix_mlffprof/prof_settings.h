/* prof_settings.h: arguments of `fix ID all mlffprof N keyword value ...`. */
#ifndef LMP_MLFF_PROF_SETTINGS_H
#define LMP_MLFF_PROF_SETTINGS_H

#include "../pair_mlff/settings.h"

#include "mlff/mlffprof.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

/* `warn METRIC X` or `stop METRIC X`. */
struct ProfBound {
  std::string metric;
  double limit;
  bool stops, reported;
};

struct ProfSettings {
  long every = 0;    // N
  std::string file, name, notes, targets = "default", trace;
  long warmup = 10, exact = 0;
  bool components = true, memory = true, energy = true, table = true;
  std::string explosion = "warn";
  std::vector<ProfBound> bounds;

  // compare MODEL
  std::string model, frames;
  MLFFSettings::Words model_keywords;    // of pair_style mlff, checked one by one
  long compare_every = 0;
  double frames_above = 0.0, compare_stop = 0.0;    // eV/A; stop 0 = never
  std::vector<std::string> elements;

  /* Parses the arguments after the style. n_types: number of elements after `elements`. Returns an error or "". */
  std::string parse(int narg, const char *const *arg, int n_types);

 private:
  std::string parse_flag(const std::string &key, const std::string &value);
  std::string parse_text(const std::string &key, const std::string &value);
  std::string parse_compare(int narg, const char *const *arg, int &i, int n_types);
  std::string parse_bound(int narg, const char *const *arg, int &i);
};

/* List of metrics, for messages. */
std::string prof_bound_metrics();
/* Current magnitude; NaN = not measured. */
double prof_bound_value(const ProfBound &bound, const mlffprof_summary &summary);
const char *prof_bound_unit(const ProfBound &bound);

}    // namespace LAMMPS_NS

#endif
