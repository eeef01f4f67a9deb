/* settings.cpp: see settings.h. */
#include "settings.h"

#include "../base/number.h"

#include <cmath>
#include <iterator>
#include <variant>

using namespace LAMMPS_NS;

using S = MLFFSettings;

namespace {

enum Use { EVERY_MODEL, RUN };    // RUN: not for a second model (fix mlffprof compare, inner)

struct Row {
  mlff_option option;    // capitals: a number or a file; standard: nullptr without a default
  Use use;
  std::variant<bool S::*, int S::*, double S::*, std::string S::*> member;
};

}    // namespace

static const Row ROWS[] = {
    {{"self_test", "yes no", "yes", "run the model file's self-test"}, EVERY_MODEL, &S::self_test},
    {{"masses", "yes no", "yes", "compare element names with masses of atom types"}, RUN, &S::masses},
    {{"domain", "warn stop ignore", "warn", "action when a run leaves the training domain"}, EVERY_MODEL, &S::domain},
    {{"gpu_mpi", "auto yes no", "auto", "exchange features from GPU to GPU by MPI"}, EVERY_MODEL, &S::gpu_mpi},
    {{"node_memory", "yes no", "yes", "exchange features through shared memory within a machine"},
     EVERY_MODEL,
     &S::node_memory},
    {{"out_file", "FILE", nullptr, "file of the model deviation of an ensemble"}, RUN, &S::out_file},
    {{"out_freq", "STEPS", "100", "steps between two model deviations"}, RUN, &S::out_freq},
    {{"devi_warn", "FORCE", nullptr, "threshold for a warning"}, RUN, &S::devi_warn},
    {{"devi_dump", "FORCE", nullptr, "threshold for a frame in dump_file"}, RUN, &S::devi_dump},
    {{"devi_stop", "FORCE", nullptr, "threshold for a frame and the end of the run"}, RUN, &S::devi_stop},
    {{"dump_file", "FILE", "deviation.dump", "dump file of these frames"}, RUN, &S::dump_file},
    {{"inner", "MODEL", nullptr, "model of the inner level of run_style respa"}, RUN, &S::inner},
};

/* Row of this table; and description of any keyword, including those of the engine. */
static const Row *find_row(const std::string &name)
{
  for (const Row &row : ROWS)
    if (name == row.option.name) return &row;
  return nullptr;
}

static const mlff_option *find(const std::string &name)
{
  const Row *row = find_row(name);
  return row ? &row->option : mlff_option_find(name.c_str());
}

/* Each returns "" or the expected kind of value. Words are checked already. */
static const char *read(const std::string &value, bool &to)
{
  to = mlff_yes_or_no(value.c_str()) == 1;
  return "";
}

static const char *read(const std::string &value, std::string &to)
{
  to = value;
  return "";
}

static const char *read(const std::string &value, double &to)
{
  double number = 0.0;
  if (!mlff_number_parse(value.c_str(), &number) || number <= 0.0) return "a force above 0";
  to = number;
  return "";
}

static const char *read(const std::string &value, int &to)
{
  double number = 0.0;
  if (!mlff_number_parse(value.c_str(), &number) || number < 1.0 || number > 2.0e9 || number != std::floor(number))
    return "a number of steps from 1";
  to = static_cast<int>(number);
  return "";
}

static std::string known_keywords()
{
  std::string text;
  for (int k = 0; mlff_option_at(k); k++) text += std::string(mlff_option_at(k)->name) + ", ";
  for (const Row &row : ROWS) text += row.option.name + std::string(&row == std::end(ROWS) - 1 ? "" : ", ");
  return text;
}

/* Converts old values of masses and domain. */
static std::string spelled(const std::string &name, const std::string &value)
{
  if (name == "masses") return value == "check" ? "yes" : value == "ignore" ? "no" : value;
  if (name != "domain") return value;
  const int yes = value == "check" ? 1 : mlff_yes_or_no(value.c_str());
  return yes == 1 ? "warn" : yes == 0 ? "ignore" : value;
}

std::string MLFFSettings::set(const std::string &name, std::string value)
{
  const mlff_option *option = find(name);
  const Row *row = find_row(name);
  mlff_error problem = {};
  if (!option) return "unknown keyword '" + name + "'; known are: " + known_keywords();
  value = spelled(name, value);
  if (mlff_option_check(option, value.c_str(), &problem)) return problem.text;
  if (!row) {
    engine[option->name] = value;
    return "";
  }
  const std::string wanted = std::visit([&](auto member) { return read(value, this->*member); }, row->member);
  return wanted.empty() ? "" : name + " is " + wanted + ", not '" + value + "'";
}

/* ---------------------------------------------------------------------- */

MLFFSettings::MLFFSettings()
{
  for (int k = 0; mlff_option_at(k); k++) engine[mlff_option_at(k)->name] = mlff_option_at(k)->standard;
  for (const Row &row : ROWS)
    if (row.option.standard) set(row.option.name, row.option.standard);
}

std::string MLFFSettings::parse(int narg, const char *const *arg)
{
  for (int i = 0; i < narg; i += 2) {
    const mlff_option *option = find(arg[i]);
    if (option && i + 1 >= narg)
      return std::string("keyword '") + arg[i] + "' has no value; known are: " + option->values + " (" + option->help +
             ")";
    const std::string problem = set(arg[i], option ? arg[i + 1] : "");
    if (!problem.empty()) return problem;
  }
  return "";
}

bool MLFFSettings::is_for_models(const std::string &name)
{
  const Row *row = find_row(name);
  return row ? row->use != RUN : find(name) != nullptr;
}

/* `kernels` depends on device and precision, `members` on the model. */
MLFFSettings MLFFSettings::for_second_model(const Words &overrides) const
{
  MLFFSettings second;
  for (const Row &row : ROWS)
    if (row.use == EVERY_MODEL) std::visit([&](auto member) { second.*member = this->*member; }, row.member);
  for (const auto &word : engine)
    if (word.first != "members" &&
        !(word.first == "kernels" && (overrides.count("device") || overrides.count("precision"))))
      second.engine[word.first] = word.second;
  for (const auto &word : overrides) second.set(word.first, word.second);
  return second;
}

void MLFFSettings::fill(mlff_options &options) const
{
  for (const auto &word : engine) mlff_options_set(&options, word.first.c_str(), word.second.c_str(), nullptr);
}
