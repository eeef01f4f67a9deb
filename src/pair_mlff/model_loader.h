/* model_loader.h: checks pair_coeff, opens the model, and prints log lines about it. */
#ifndef LMP_MLFF_MODEL_LOADER_H
#define LMP_MLFF_MODEL_LOADER_H

#include "settings.h"

#include "mlff/mlff.h"
#include "pointers.h"

#include <memory>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFHalo;
class MLFFMachine;

struct MLFFModelCloser {
  void operator()(mlff_model *model) const { mlff_model_close(model); }
};
using MLFFModel = std::unique_ptr<mlff_model, MLFFModelCloser>;

/* Reads `* * FILE ... ELEMENT ...`; returns an error or "". Words that end in .yaml are files, and so is the first one.
 * alone: not a sub-style of hybrid, so NULL is an error. */
std::string mlff_read_coeff(int narg, const char *const *arg, int ntypes, bool alone, std::vector<std::string> &files,
                            std::vector<std::string> &elements);

/* All functions are collective; every problem is one error on all ranks. */
class MLFFLoader : protected Pointers {
 public:
  /* who: start of all error texts. */
  explicit MLFFLoader(class LAMMPS *lammps, const std::string &who = "pair_coeff of mlff") :
      Pointers(lammps), caller(who)
  {
  }

  /* Selects the way of features between ranks, which the report shows. */
  void connect_ranks(MLFFHalo &halo, const mlff_info *info, const MLFFSettings &settings);
  /* Reads on rank 0, opens on all ranks with the elements in `names`, and runs the self-test if set. gpu: number for
   * `auto` and `cuda`; -1: assign GPUs in turn. */
  MLFFModel open(const std::string &path, const std::vector<std::string> &names, const MLFFSettings &settings,
                 int gpu = -1);
  /* [ntypes+1] species of every atom type, -1 for NULL. */
  std::vector<int> map_types(const mlff_info *info, const std::vector<std::string> &names,
                             const MLFFSettings &settings) const;
  /* Prints model, device, precision and self-test. */
  void report(const std::string &path, mlff_model *model, const MLFFSettings &settings) const;
  /* The same, shorter, for the model of the inner level of run_style respa. */
  void report_inner(const std::string &path, mlff_model *model, const MLFFSettings &settings) const;
  /* The same, in two lines, for a further model of a committee. */
  void report_further(const std::string &path, mlff_model *model, const MLFFSettings &settings) const;
  /* Prints the warm-up of a GPU before the first step; record_seconds 0: nothing was captured. */
  void report_warm_up(const mlff_model *model, double first_seconds, double record_seconds) const;
  /* Prints the number of replayed steps after a run, and a warning if capture failed. */
  void report_replays(const mlff_model *model, const MLFFSettings &settings) const;
  static std::string citation(const mlff_info *info);

 private:
  const std::string caller;
  struct Files;
  void read(const std::string &path, Files &files);
  void warn(const mlff_info *info, const MLFFSettings &settings) const;
  void map_gpus(const MLFFMachine &machine, const mlff_info *info);
  std::string gpu_table;        // one line per rank; empty on CPUs
  std::string exchange_text;    // empty on one rank
};

}    // namespace LAMMPS_NS

#endif
