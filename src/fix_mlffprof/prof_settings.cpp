/* prof_settings.cpp: see prof_settings.h. */
#include "prof_settings.h"

#include "../base/number.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace LAMMPS_NS;

static const char *const SYNTAX = "the form is `fix ID all mlffprof N keyword value ...`";
static const char *const KEYWORDS = "file, name, notes, warmup, exact, components, memory, energy, table, targets, "
                                    "trace, explosion, warn, stop, compare";

static bool read_whole(const std::string &text, long &value)
{
  int64_t number = 0;
  if (!mlff_integer_parse(text.c_str(), &number) || number < 0) return false;
  value = static_cast<long>(number);
  return true;
}

/* ----------------------------------------------------------------------
   bounds
------------------------------------------------------------------------- */

static const struct {
  const char *name, *unit;
} METRICS[] = {{"drift", "eV/atom/ps"},  {"drift_percent", "%"},
               {"excursion", "eV/atom"}, {"temperature", "K"},
               {"memory", "MB"},         {"force_rmse", "eV/A"},
               {"force_max", "eV/A"},    {"energy_error", "eV/atom"},
               {"stress_rmse", "GPa"},   {"pressure_error", "bar"},
               {"mean", "ms"},           {"p99", "ms"}};

std::string LAMMPS_NS::prof_bound_metrics()
{
  std::string text;
  for (const auto &metric : METRICS) text += std::string(text.empty() ? "" : ", ") + metric.name;
  return text;
}

const char *LAMMPS_NS::prof_bound_unit(const ProfBound &bound)
{
  for (const auto &metric : METRICS)
    if (bound.metric == metric.name) return metric.unit;
  return "";
}

double LAMMPS_NS::prof_bound_value(const ProfBound &bound, const mlffprof_summary &s)
{
  const std::string &name = bound.metric;
  if (name == "drift") return std::fabs(s.drift);
  if (name == "drift_percent") return std::fabs(s.drift_percent);
  if (name == "excursion") return s.excursion;
  if (name == "temperature") return s.temperature;
  if (name == "memory") return std::fmax(s.host_growth_mb, s.device_growth_mb);
  if (name == "force_rmse") return s.force_rmse;
  if (name == "force_max") return s.force_max;
  if (name == "energy_error") return std::fabs(s.energy_error);
  if (name == "stress_rmse") return s.stress_rmse;
  if (name == "pressure_error") return std::fabs(s.pressure_error);
  if (name == "mean") return s.n_steps ? s.mean_ms : std::numeric_limits<double>::quiet_NaN();
  return s.n_steps ? s.p99_ms : std::numeric_limits<double>::quiet_NaN();
}

std::string ProfSettings::parse_bound(int narg, const char *const *arg, int &i)
{
  const std::string key = arg[i];
  if (i + 2 >= narg) return "keyword '" + key + "' needs a metric and a bound; metrics are: " + prof_bound_metrics();
  ProfBound bound = {arg[i + 1], 0.0, key == "stop", false};
  bool known = false;
  for (const auto &metric : METRICS) known = known || bound.metric == metric.name;
  if (!known) return "unknown metric '" + bound.metric + "' of '" + key + "'; known are: " + prof_bound_metrics();
  if (!mlff_number_parse(arg[i + 2], &bound.limit) || bound.limit <= 0.0)
    return std::string("bound '") + arg[i + 2] + "' of '" + key + " " + bound.metric + "' is not a positive number";
  bounds.push_back(bound);
  i += 3;
  return "";
}

/* ----------------------------------------------------------------------
   compare MODEL every M [elements E ...] [dump FILE] [above X] [stop X] [keyword value of pair_style mlff ...]
------------------------------------------------------------------------- */

std::string ProfSettings::parse_compare(int narg, const char *const *arg, int &i, int n_types)
{
  if (!model.empty()) return "keyword 'compare' is given twice, but only one model can be compared";
  if (i + 3 >= narg || strcmp(arg[i + 2], "every") != 0 || !read_whole(arg[i + 3], compare_every) || !compare_every)
    return "the form is `compare MODEL.yaml every M`, M a positive number of steps";
  model = arg[i + 1];
  for (i += 4; i < narg;) {
    const std::string key = arg[i];
    const bool mine = key == "elements" || key == "dump" || key == "above" || key == "stop";
    const bool of_model = !mine && MLFFSettings::is_for_models(key);
    // `stop METRIC X` is a bound of the fix, `stop X` one of compare
    double number = 0.0;
    if ((!mine && !of_model) || (key == "stop" && i + 1 < narg && !mlff_number_parse(arg[i + 1], &number))) break;
    if (key == "elements") {
      if (i + n_types >= narg)
        return "elements of 'compare' must name one element for each of the " + std::to_string(n_types) + " atom types";
      elements.assign(arg + i + 1, arg + i + 1 + n_types);
      i += 1 + n_types;
      continue;
    }
    if (i + 1 >= narg) return "keyword '" + key + "' of 'compare' has no value";
    const std::string value = arg[i + 1];
    if (of_model) {
      const std::string problem = MLFFSettings().set(key, value);
      if (!problem.empty()) return problem + " (of 'compare')";
      model_keywords[key] = value;
    }
    if (key == "dump") frames = value;
    if (key == "above" || key == "stop") {
      if (!mlff_number_parse(value.c_str(), &number) || number <= 0.0)
        return "value '" + value + "' of '" + key + "' is not a positive number (eV/A)";
      (key == "above" ? frames_above : compare_stop) = number;
    }
    i += 2;
  }
  if (frames_above > 0.0 && frames.empty()) return "keyword 'above' of 'compare' needs `dump FILE`";
  return "";
}

/* ----------------------------------------------------------------------
   parsing
------------------------------------------------------------------------- */

std::string ProfSettings::parse_flag(const std::string &key, const std::string &value)
{
  const int answer = mlff_yes_or_no(value.c_str());
  if (answer < 0) return "unknown value '" + value + "' of keyword '" + key + "'; known are: yes no";
  const bool on = answer == 1;
  if (key == "components") components = on;
  if (key == "memory") memory = on;
  if (key == "energy") energy = on;
  if (key == "table") table = on;
  return "";
}

std::string ProfSettings::parse_text(const std::string &key, const std::string &value)
{
  if (value.empty()) return "keyword '" + key + "' has an empty value";
  if (key == "file") file = value == "none" ? "" : value;
  if (key == "name") name = value;
  if (key == "notes") notes = value;
  if (key == "trace") trace = value == "none" ? "" : value;
  if (key == "targets") targets = value;
  if (key == "explosion" && value != "warn" && value != "stop" && value != "ignore")
    return "unknown value '" + value + "' of keyword 'explosion'; known are: warn stop ignore";
  if (key == "explosion") explosion = value;
  return "";
}

static bool is_one_of(const std::string &key, const char *const *known)
{
  for (; *known; known++)
    if (key == *known) return true;
  return false;
}

std::string ProfSettings::parse(int narg, const char *const *arg, int n_types)
{
  static const char *const flags[] = {"components", "memory", "energy", "table", nullptr};
  static const char *const texts[] = {"file", "name", "notes", "trace", "targets", "explosion", nullptr};
  if (narg < 1) return SYNTAX;
  if (!read_whole(arg[0], every) || every == 0)
    return std::string("N is '") + arg[0] +
           "', but must be a positive number of steps between samples of memory and energy; " + SYNTAX;
  for (int i = 1; i < narg;) {
    const std::string key = arg[i];
    std::string problem;
    const bool flag = is_one_of(key, flags), text = is_one_of(key, texts), whole = key == "warmup" || key == "exact";
    if (key == "compare") {
      problem = parse_compare(narg, arg, i, n_types);
    } else if (key == "warn" || key == "stop") {
      problem = parse_bound(narg, arg, i);
    } else if (!flag && !text && !whole) {
      problem = "unknown keyword '" + key + "'; known are: " + KEYWORDS;
    } else if (i + 1 >= narg) {
      problem = "keyword '" + key + "' has no value";
    } else {
      if (flag) problem = parse_flag(key, arg[i + 1]);
      if (text) problem = parse_text(key, arg[i + 1]);
      if (whole && !read_whole(arg[i + 1], key == "warmup" ? warmup : exact))
        problem = std::string("value '") + arg[i + 1] + "' of keyword '" + key + "' is not a whole number";
      i += 2;
    }
    if (!problem.empty()) return problem;
  }
  return "";
}
