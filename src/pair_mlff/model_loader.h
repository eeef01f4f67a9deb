/* model_loader.h: what pair_coeff of mlff says, and the opening of the model that it names. */
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

/* Shape of `* * FILE ELEMENT ...`; empty, or what is wrong. `alone`: not a sub-style of hybrid, so NULL is an error. */
std::string mlff_check_coeff(int narg, const char *const *arg, int ntypes, bool alone);

/* Everything here is collective on `world`, and every problem is one error on all ranks. */
class MLFFLoader : protected Pointers {
 public:
  /* `who` begins every error text. */
  explicit MLFFLoader(class LAMMPS *lammps, const std::string &who = "pair_coeff of mlff") :
      Pointers(lammps), caller(who)
  {
  }

  /* Chooses how features of atoms travel between ranks; the report says it. */
  void connect_ranks(MLFFHalo &halo, const mlff_info *info, const MLFFSettings &settings);
  /* Reads on rank 0, opens on all ranks with the elements in `names`, and runs the self-test unless told not to.
   * gpu: the one that `auto` and `cuda` take; -1: by turns. */
  MLFFModel open(const std::string &path, const std::vector<std::string> &names, const MLFFSettings &settings,
                 int gpu = -1);
  /* [ntypes+1] species of every atom type, -1 for NULL. */
  std::vector<int> map_types(const mlff_info *info, const std::vector<std::string> &names,
                             const MLFFSettings &settings) const;
  /* Prints once what is going to run. */
  void report(const std::string &path, mlff_model *model, const MLFFSettings &settings) const;
  /* The same, shorter, for the model of the inner level of run_style respa. */
  void report_inner(const std::string &path, mlff_model *model, const MLFFSettings &settings) const;
  /* Prints what had to be done on a GPU before the first step of a run: its seconds, 0 when nothing was recorded. */
  void report_warm_up(const mlff_model *model, double first_seconds, double record_seconds) const;
  /* Prints, at the end of a run, how many steps were replayed, and a warning when recording did not work. */
  void report_replays(const mlff_model *model, const MLFFSettings &settings) const;
  static std::string citation(const mlff_info *info);

 private:
  const std::string caller;
  struct Files;
  void read(const std::string &path, Files &files);
  void warn_unchecked(const mlff_info *info, const MLFFSettings &settings) const;
  void map_gpus(const MLFFMachine &machine, const mlff_info *info);
  std::string gpu_table;        // a line for each rank; empty on CPUs
  std::string exchange_text;    // empty on one rank
};

}    // namespace LAMMPS_NS

#endif
