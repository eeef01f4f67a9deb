/* prof_settings.cpp: see prof_settings.h. */
#include "prof_settings.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

using namespace LAMMPS_NS;

static const char *const SYNTAX = "the form is `fix ID all mlffprof N keyword value ...`";
static const char *const KEYWORDS = "file, name, notes, warmup, exact, components, memory, energy, table, targets, "
                                    "trace, explosion, warn, stop, compare";

/* ----------------------------------------------------------------------
   numbers. strtod would read a decimal comma in some locales, so digits are read here.
------------------------------------------------------------------------- */

static bool read_whole(const std::string &text, long &value)
{
  if (text.empty() || text.size() > 18) return false;
  long sum = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    sum = 10 * sum + (c - '0');
  }
  value = sum;
  return true;
}

/* A non-negative number such as 10, 0.5, .5 or 1e-3. */
static bool read_number(const std::string &text, double &value)
{
  double mantissa = 0.0;
  int digits = 0, exponent = 0;
  size_t k = 0;
  for (bool point = false; k < text.size(); k++) {
    const char c = text[k];
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      mantissa = 10.0 * mantissa + (c - '0');
      digits++;
      exponent -= point;
    } else {
      break;
    }
  }
  if (digits == 0) return false;
  if (k < text.size() && (text[k] == 'e' || text[k] == 'E')) {
    long power = 0;
    const bool negative = k + 1 < text.size() && text[k + 1] == '-';
    const bool sign = negative || (k + 1 < text.size() && text[k + 1] == '+');
    if (!read_whole(text.substr(k + 1 + sign), power) || power > 300) return false;
    exponent += static_cast<int>(negative ? -power : power);
    k = text.size();
  }
  // a division by an exact power of ten is rounded once
  value = exponent < 0 ? mantissa / std::pow(10.0, -exponent) : mantissa * std::pow(10.0, exponent);
  return k == text.size() && std::isfinite(value);
}

/* ----------------------------------------------------------------------
   bounds
------------------------------------------------------------------------- */

static const struct {
  const char *name, *unit;
} METRICS[] = {{"drift", "eV/atom/ps"}, {"drift_percent", "%"}, {"excursion", "eV/atom"}, {"temperature", "K"},
               {"memory", "MB"},        {"force_rmse", "eV/A"}, {"force_max", "eV/A"},    {"energy_error", "eV/atom"},
               {"mean", "ms"},          {"p99", "ms"}};

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
  if (!read_number(arg[i + 2], bound.limit) || bound.limit <= 0.0)
    return std::string("bound '") + arg[i + 2] + "' of '" + key + " " + bound.metric + "' is not a positive number";
  bounds.push_back(bound);
  i += 3;
  return "";
}

/* ----------------------------------------------------------------------
   compare MODEL every M [elements E ...] [precision P] [dump FILE] [above X] [stop X]
------------------------------------------------------------------------- */

std::string ProfSettings::parse_compare(int narg, const char *const *arg, int &i, int n_types)
{
  if (!model.empty()) return "keyword 'compare' is given twice; one model can be compared with at a time";
  if (i + 3 >= narg || strcmp(arg[i + 2], "every") != 0 || !read_whole(arg[i + 3], compare_every) || !compare_every)
    return "the form is `compare MODEL.yaml every M`, M a positive number of steps";
  model = arg[i + 1];
  for (i += 4; i < narg;) {
    const std::string key = arg[i];
    const bool mine = key == "elements" || key == "precision" || key == "dump" || key == "above" || key == "stop";
    // `stop METRIC X` is a bound of the fix, `stop X` one of compare
    double number = 0.0;
    if (!mine || (key == "stop" && i + 1 < narg && !read_number(arg[i + 1], number))) break;
    if (key == "elements") {
      if (i + n_types >= narg)
        return "elements of 'compare' must name one element for each of the " + std::to_string(n_types) + " atom types";
      elements.assign(arg + i + 1, arg + i + 1 + n_types);
      i += 1 + n_types;
      continue;
    }
    if (i + 1 >= narg) return "keyword '" + key + "' of 'compare' has no value";
    const std::string value = arg[i + 1];
    if (key == "precision" && value != "fp32" && value != "fp64" && value != "mixed")
      return "unknown precision '" + value + "' of 'compare'; known are: fp32 fp64 mixed";
    if (key == "precision") precision = value;
    if (key == "dump") frames = value;
    if (key == "above" || key == "stop") {
      if (!read_number(value, number) || number <= 0.0)
        return "value '" + value + "' of '" + key + "' is not a positive number (eV/A)";
      (key == "above" ? frames_above : compare_stop) = number;
    }
    i += 2;
  }
  if (frames_above > 0.0 && frames.empty()) return "keyword 'above' of 'compare' needs `dump FILE`";
  return "";
}

/* ----------------------------------------------------------------------
   the rest
------------------------------------------------------------------------- */

std::string ProfSettings::parse_flag(const std::string &key, const std::string &value)
{
  if (value != "yes" && value != "no")
    return "unknown value '" + value + "' of keyword '" + key + "'; known are: yes no";
  const bool on = value == "yes";
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
