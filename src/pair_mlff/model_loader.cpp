/* model_loader.cpp: see model_loader.h. */
#include "model_loader.h"

#include "../base/commit.h"
#include "errors.h"
#include "exchange/gpu_mpi.h"
#include "exchange/machine.h"
#include "exchange/gpu_map.h"
#include "find_model.h"
#include "halo.h"
#include "results.h"

#include "mlff/mlff_watch.h"

#include "comm.h"
#include "error.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>

using namespace LAMMPS_NS;

/* ----------------------------------------------------------------------
   pair_coeff * * FILE ... ELEMENT ...
------------------------------------------------------------------------- */

static constexpr size_t MOST_FILES = 16;

static bool is_file(const std::string &word)
{
  static const std::string end = ".yaml";
  return word.size() > end.size() && word.compare(word.size() - end.size(), end.size(), end) == 0;
}

std::string LAMMPS_NS::mlff_read_coeff(int narg, const char *const *arg, int ntypes, bool alone,
                                       std::vector<std::string> &files, std::vector<std::string> &elements)
{
  static const char *const syntax = "the form is `pair_coeff * * MODEL.yaml ELEMENT ...`, one element for each of the ";
  if (narg < 3) return syntax + std::to_string(ntypes) + " atom types";
  if (strcmp(arg[0], "*") != 0 || strcmp(arg[1], "*") != 0)
    return std::string("the first two arguments must be `* *`, not `") + arg[0] + " " + arg[1] + "`; " + syntax +
           std::to_string(ntypes) + " atom types";
  for (int k = 2; k < narg; k++) {
    const bool is_model = k == 2 || is_file(arg[k]);
    if (is_model && !elements.empty())
      return std::string("model file ") + arg[k] + " comes after element " + elements.back() +
             "; give all model files before the elements";
    if (!is_model && strchr(arg[k], '.'))
      return std::string("`") + arg[k] +
             "` is not an element; if it is a further model file, its name must end in .yaml";
    (is_model ? files : elements).push_back(arg[k]);
  }
  if (files.size() > MOST_FILES)
    return std::to_string(files.size()) + " model files; a committee has at most " + std::to_string(MOST_FILES);
  if (static_cast<int>(elements.size()) != ntypes)
    return std::to_string(elements.size()) + " elements after the model file, but there are " + std::to_string(ntypes) +
           " atom types; " + syntax + std::to_string(ntypes) + " atom types (NULL for types of other styles in hybrid)";
  bool mapped = false;
  for (size_t t = 1; t <= elements.size(); t++) {
    const bool null = elements[t - 1] == "NULL";
    mapped = mapped || !null;
    if (null && alone)
      return "type " + std::to_string(t) + " is NULL, which only pair_style hybrid allows; give its element";
  }
  return mapped ? "" : "all types are NULL; give the element of at least one type";
}

std::vector<int> MLFFLoader::map_types(const mlff_info *info, const std::vector<std::string> &names,
                                       const MLFFSettings &settings) const
{
  std::vector<int> species(names.size() + 1, -1);
  for (size_t t = 1; t <= names.size(); t++) {
    const std::string &name = names[t - 1];
    if (name == "NULL") continue;
    for (int s = 0; s < info->n_elements; s++)
      if (name == info->elements[s]) species[t] = s;
    // the engine has refused elements that the model does not have
    if (species[t] < 0) error->all(FLERR, caller + ": internal error: element " + name + " is missing");
    if (!info->trained[species[t]] && settings.domain != "ignore")
      error->all(FLERR,
                 caller + ": model " + std::string(info->name) + " was not trained on element " + name + " of type " +
                     std::to_string(t) +
                     ". Use another model, or set `pair_style mlff domain ignore` if this is intended [mlff-26]");
  }
  return species;
}

/* ----------------------------------------------------------------------
   opening
------------------------------------------------------------------------- */

struct MLFFLoader::Files {
  char *yaml = nullptr;
  void *weights = nullptr;
  size_t yaml_size = 0, weights_size = 0;

  Files() = default;
  Files(const Files &) = delete;
  Files &operator=(const Files &) = delete;
  ~Files()
  {
    free(yaml);
    free(weights);
  }
};

/* Yields the core while waiting. MPI_Bcast of large data spins, which takes minutes with more ranks than free cores. */
static void broadcast(void *data, size_t size, MPI_Comm world)
{
  constexpr size_t CHUNK = size_t(1) << 28;
  for (size_t start = 0; start < size; start += CHUNK) {
    MPI_Request request;
    int done = 0;
    MPI_Ibcast(static_cast<char *>(data) + start, static_cast<int>(std::min(CHUNK, size - start)), MPI_BYTE, 0, world,
               &request);
    while (!done) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (!done) sched_yield();
    }
  }
}

void MLFFLoader::read(const std::string &path, Files &files)
{
  std::string problem;
  if (comm->me == 0) {
    const std::string found = mlff_find_model(path);
    mlff_error error_text = {};
    if (found.empty())
      problem = caller + ": cannot read model file '" + path +
                "', which is neither in the current folder nor in LAMMPS_POTENTIALS or MLFF_MODELS: give its path, or "
                "the name of a model: " +
                mlff_model_names() + " [mlff-21]";
    else if (mlff_model_read(found.c_str(), &files.yaml, &files.yaml_size, &files.weights, &files.weights_size,
                             &error_text))
      problem = caller + ": " + error_text.text;
  }
  mlff_stop_together(lmp, problem);

  uint64_t sizes[2] = {files.yaml_size, files.weights_size};
  MPI_Bcast(sizes, sizeof(sizes), MPI_BYTE, 0, world);
  if (comm->me != 0) {
    files.yaml_size = sizes[0];
    files.weights_size = sizes[1];
    files.yaml = static_cast<char *>(malloc(sizes[0] + 1));
    files.weights = malloc(sizes[1] + 1);
    if (!files.yaml || !files.weights) problem = caller + ": out of memory for model file '" + path + "'";
  }
  mlff_stop_together(lmp, problem);
  broadcast(files.yaml, files.yaml_size, world);
  broadcast(files.weights, files.weights_size, world);
}

MLFFModel MLFFLoader::open(const std::string &path, const std::vector<std::string> &names, const MLFFSettings &settings,
                           int gpu)
{
  Files files;
  read(path, files);

  std::vector<const char *> elements;
  for (const std::string &name : names)
    if (name != "NULL" && std::none_of(elements.begin(), elements.end(), [&name](const char *e) { return name == e; }))
      elements.push_back(name.c_str());

  const MLFFMachine machine(world);
  mlff_options options = {};
  options.local_rank = gpu >= 0 ? gpu : machine.rank;
  settings.fill(options);
  options.elements = elements.data();
  options.n_elements = static_cast<int>(elements.size());
  options.skip_self_test = !settings.self_test;

  mlff_model *model = nullptr;
  mlff_error problem = {};
  const mlff_status status = mlff_model_open_memory(path.c_str(), files.yaml, files.yaml_size, files.weights,
                                                    files.weights_size, &options, &model, &problem);
  MLFFModel owner(model);
  mlff_stop_together(lmp, status ? caller + ": " + problem.text : "");
  map_gpus(machine, mlff_model_info(model));
  return owner;
}

void MLFFLoader::connect_ranks(MLFFHalo &halo, const mlff_info *info, const MLFFSettings &settings)
{
  int gpu_aware = 0, gpu_aware_anywhere = 0;
  if (halo.has_features() && info->device_number >= 0) {
    const MLFFGpuMPI found = mlff_gpu_mpi(settings.gpu_mpi);
    gpu_aware = found.is_gpu_aware;
    exchange_text = "  features:     " + found.text + "\n";
  }
  MPI_Allreduce(&gpu_aware, &gpu_aware_anywhere, 1, MPI_INT, MPI_MAX, world);
  const std::string about = halo.set_ways(gpu_aware != 0, settings.node_memory && !gpu_aware_anywhere);
  if (halo.has_features() && !gpu_aware_anywhere) exchange_text += "  features:     " + about + "\n";
}

/* Makes the table of devices for the report, and warns if ranks share a GPU. */
void MLFFLoader::map_gpus(const MLFFMachine &machine, const mlff_info *info)
{
  int length = 0;
  char host[1024] = "";    // longer than any MPI_MAX_PROCESSOR_NAME
  MLFFRankDevice mine = {};
  MPI_Get_processor_name(host, &length);
  mine.rank = comm->me;
  mine.local_rank = machine.rank;
  mine.number = info->device_number;
  snprintf(mine.id, sizeof(mine.id), "%s", info->device_id);
  snprintf(mine.host, sizeof(mine.host), "%.63s", host);
  std::vector<MLFFRankDevice> all(static_cast<size_t>(comm->nprocs));
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, world);
  if (std::all_of(all.begin(), all.end(), [](const MLFFRankDevice &r) { return r.number < 0; })) return;
  gpu_table = mlff_gpu_table(all);
  const std::string shared = mlff_shared_gpus(all);
  if (!shared.empty() && comm->me == 0) error->warning(FLERR, caller + ": " + shared);
}

/* ----------------------------------------------------------------------
   reporting
------------------------------------------------------------------------- */

static std::string describe(const std::string &path, const mlff_info *info, const MLFFSettings &settings)
{
  std::string elements;
  for (int s = 0; s < info->n_elements; s++) elements += std::string(" ") + info->elements[s];
  std::string text = mlff_format("  model:        %s (%s), %lld parameters, sha256 %.12s, header %.12s\n", info->name,
                                 mlff_find_model(path).c_str(), static_cast<long long>(info->n_parameters),
                                 info->sha256, info->header_is_hashed ? info->header_sha256 : "not hashed");
  text +=
      mlff_format("  architecture: %s, cutoff %g A, elements%s", info->architecture, info->cutoff, elements.c_str());
  if (info->n_members_of_file > 1) text += mlff_format(", ensemble of %d", info->n_members_of_file);
  if (info->n_members < info->n_members_of_file) text += ", members " + settings.engine.at("members");
  text += "\n";
  if (!(info->traits & MLFF_CONSERVATIVE))
    text += "  note:         forces and stress are outputs of the network: not conservative, not exact under rotation, "
            "no per-atom energies or stress\n";
  char domain[400];
  mlff_domain_text(info, domain, sizeof(domain));
  text += std::string("  trained on:   ") + domain + "\n";
  return text + mlff_format("  computed on:  %s, %s, kernels %s\n", info->device, info->precision, info->kernels);
}

static std::string self_test_line(const mlff_info *info, const MLFFSettings &settings)
{
  const int n = info->n_self_tests, n_passed = info->n_self_tests_passed;
  std::string ran =
      n == 0 ? "no structures in the model file, not checked" : std::to_string(n_passed) + " structures passed";
  if (n_passed < n) ran += ", " + std::to_string(n - n_passed) + " skipped (no element of this run)";
  return "  self-test:    " + (settings.self_test ? ran : "not run (self_test no)") + "\n";
}

/* Known failures. Without self-test structures a wrong kernel or a damaged conversion would not be noticed. */
void MLFFLoader::warn(const mlff_info *info, const MLFFSettings &settings) const
{
  if (info->caution)
    error->warning(FLERR, caller + ": model " + info->name + " has a known failure: " + info->caution + " [mlff-45]");
  if (!settings.self_test || info->n_self_tests_passed > 0) return;
  error->warning(FLERR, caller + ": model " + info->name + " has no self-test structures" +
                            (info->n_self_tests > 0 ? " for the elements of this run" : "") +
                            ", so its results are not checked on this machine. Compare them with a reference before "
                            "production runs");
}

void MLFFLoader::report(const std::string &path, mlff_model *model, const MLFFSettings &settings) const
{
  if (comm->me != 0) return;
  const mlff_info *info = mlff_model_info(model);
  const MLFFUnits *units = MLFFResults::find_units(update->unit_style);
  std::string text = "pair_style mlff " MLFF_VERSION " (commit ";
  text += std::string(mlff_commit()) + ") in LAMMPS " + lmp->version + ", compiled for " MLFF_LAMMPS_VERSION "\n" +
          describe(path, info, settings);
  if (info->device_why[0]) text += std::string("  no GPU:       ") + info->device_why + "\n";
  text += gpu_table + exchange_text;
  text += mlff_format("  units:        %s, 1 eV = %.9g %s\n", units->style, units->per_ev, units->energy);
  utils::logmesg(lmp, text + self_test_line(info, settings));
  warn(info, settings);
}

void MLFFLoader::report_inner(const std::string &path, mlff_model *model, const MLFFSettings &settings) const
{
  if (comm->me != 0) return;
  const mlff_info *info = mlff_model_info(model);
  utils::logmesg(lmp, "pair_style mlff, inner level of run_style respa\n" + describe(path, info, settings) +
                          exchange_text + self_test_line(info, settings));
  warn(info, settings);
}

void MLFFLoader::report_further(const std::string &path, mlff_model *model, const MLFFSettings &settings) const
{
  if (comm->me != 0) return;
  const mlff_info *info = mlff_model_info(model);
  utils::logmesg(lmp, mlff_format("  committee:    %s (%s), %s, cutoff %g A, sha256 %.12s, header %.12s, %s, %s\n",
                                  info->name, mlff_find_model(path).c_str(), info->architecture, info->cutoff,
                                  info->sha256, info->header_is_hashed ? info->header_sha256 : "not hashed",
                                  info->device, info->precision) +
                          self_test_line(info, settings));
  warn(info, settings);
}

void MLFFLoader::report_warm_up(const mlff_model *model, double first_seconds, double record_seconds) const
{
  if (comm->me != 0 || strcmp(mlff_model_info(model)->device, "cpu") == 0) return;
  const mlff_replays r = mlff_model_replays(model);
  const bool tried = record_seconds > 0.0;
  const double ms = 1e3;
  std::string text = mlff_format("%s: GPU warm-up %.3g ms: first evaluation %.3g ms", caller.c_str(),
                                 ms * (first_seconds + record_seconds), ms * first_seconds);
  if (tried) text += mlff_format(", capture %.3g ms", ms * record_seconds);
  if (r.is_on && tried)
    text += " (replay on)\n";
  else if (r.is_on)
    text += " (no step captured yet)\n";
  else
    text += std::string(tried ? " (replay off, capture failed: " : " (replay off: ") + r.why + ")\n";
  utils::logmesg(lmp, text);
}

void MLFFLoader::report_replays(const mlff_model *model, const MLFFSettings &settings) const
{
  if (comm->me != 0 || strcmp(mlff_model_info(model)->device, "cpu") == 0) return;
  const mlff_replays r = mlff_model_replays(model);
  if (!r.is_on && mlff_yes_or_no(settings.engine.at("replay").c_str()) == 1)
    error->warning(FLERR, caller + ": " + r.why + "; steps run without CUDA graphs, which is slower for small systems");
  if (r.is_on)
    utils::logmesg(lmp, mlff_format("pair_style mlff: %lld of %lld steps replayed so far, %lld captured in %.3g s, "
                                    "%lld repeated for lack of room for edges\n",
                                    static_cast<long long>(r.n_replayed), static_cast<long long>(r.n_steps),
                                    static_cast<long long>(r.n_recorded), r.record_seconds,
                                    static_cast<long long>(r.n_overflows)));
}

std::string MLFFLoader::citation(const mlff_info *info)
{
  const std::string texts = std::string(info->citation) + "; " + info->model_citation;
  std::string found(mlff_bibtex(texts.c_str(), nullptr, 0), ' ');
  mlff_bibtex(texts.c_str(), &found[0], found.size() + 1);
  return std::string("pair_style mlff, model ") + info->name + ", licence " + info->license + ":\n\n" + found + "\n";
}
