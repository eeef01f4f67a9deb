/* pair_mlff_impl.h: members of PairMLFF, for pair_mlff*.cpp only. */
#ifndef LMP_PAIR_MLFF_IMPL_H
#define LMP_PAIR_MLFF_IMPL_H

#include "committee.h"
#include "deviation.h"
#include "domain_watch.h"
#include "errors.h"
#include "evaluator.h"
#include "inner_model.h"
#include "pair_mlff.h"

#include "lammps.h"
#include "update.h"
#include "utils.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace LAMMPS_NS {

/* Identity of a model in a restart file. The keywords of pair_style follow, each with a final zero; n_keywords is their
 * size in bytes plus 1, or 0 in files without keywords. sha256 has a mark behind its final zero
 * (pair_mlff_restart.cpp). header_sha256 is empty in files of earlier releases. */
struct MLFFIdentity {
  char sha256[68], name[116], header_sha256[68];
  int32_t n_keywords;
};

/* Phase of a run. The first call shows the levels of run_style respa, and a GPU captures a step after the first
 * evaluation. */
enum class RunPhase { FIRST_CALL, FIRST_EVALUATION, STEPS };

struct PairMLFF::Impl {
  Impl(LAMMPS *lammps, Pair *pair) :
      lmp(lammps), main(lammps, pair, nullptr), active_halo(&main.halo), committee(lammps, pair, active_halo),
      deviation(lammps, main.graph, main.results), watch(lammps, main.graph, main.results)
  {
  }

  LAMMPS *lmp;
  MLFFEvaluator main;
  MLFFHalo *active_halo;    // of the model that is being evaluated, for LAMMPS' calls of pack and unpack
  MLFFCommittee committee;
  bool asks_committee = false;    // this run may need its deviation, so that lists have the longest cutoff
  MLFFDeviation deviation;
  MLFFDomainWatch watch;
  MLFFSettings settings;
  std::unique_ptr<MLFFInnerModel> inner;    // of run_style respa
  bigint groups_checked_step = -1;          // step of the last check_excluded_groups
  std::string overlap_error;                // error of the last evaluation, a Monte Carlo trial
  bigint overlap_step = -1, evaluated_step = -1;
  bigint n_evaluations = 0, n_inner_at_start = 0;    // in this run; total of the inner model before it
  bool types_reported = false;
  bigint forecast_atoms = -1;    // numbers of atoms and models of the last memory forecast
  int forecast_models = 0;
  RunPhase phase = RunPhase::STEPS;
  bool warm_up_reported = false;        // the log has the warm-up of this model
  bool is_initialized = false;          // init_style() was called since the last pair_style or pair_coeff
  std::vector<std::string> keywords;    // of pair_style
  std::string restart_problem;          // why pair_style must be repeated after read_restart, or empty
  MLFFIdentity restart_model = {};      // model of the run that wrote the restart file; empty: none
  // set by fix pair; the spread is computed in every step anyway
  int spread_flag = 0, deviation_flag = 0, uncertainty_flag = 0;

  bool ensemble() const { return main.info->n_members > 1; }
  bool has_uncertainty() const { return main.info->uncertainty_unit != nullptr; }
  bool has_deviation() const { return ensemble() || !committee.empty(); }
  /* Whether this step needs the model deviation: of a committee, else of the members of an ensemble, else the
   * uncertainty. */
  bool wants_deviation() const
  {
    return (has_deviation() && deviation_flag) || ((has_deviation() || has_uncertainty()) && deviation.is_due());
  }
  bool wants_members() const { return ensemble() && committee.empty() && wants_deviation(); }
  /* After the evaluation of the main model. Collective. */
  MLFFDeviation::Predictions predictions(NeighList *list)
  {
    if (!committee.empty()) return committee.predict(main, list);
    return ensemble() ? main.results.member_predictions() : MLFFDeviation::Predictions{};
  }
  bool wants_uncertainty() const
  {
    const bool is_minimized = lmp->update->whichflag == 2 && watch.counts();    // the last structure is checked
    return has_uncertainty() &&
           (uncertainty_flag || is_minimized || watch.is_due() || (!has_deviation() && deviation.is_due()));
  }

  /* Without the engine. */
  double memory_usage() const
  {
    return main.memory_usage() + committee.memory_usage() + deviation.memory_usage() +
           (inner ? inner->memory_usage() : 0.0);
  }
  /* Whether run_style respa evaluates both models. */
  bool has_levels() const
  {
    const Update *update = lmp->update;
    return inner && update->whichflag == 1 && utils::strmatch(update->integrate_style, "^respa");
  }

  void begin_run()
  {
    phase = RunPhase::FIRST_CALL;
    n_evaluations = 0;
    n_inner_at_start = inner ? inner->n_evaluations() : 0;
  }

  /* The error text of a restart that was written with another model than the open one; empty: it is the same. */
  std::string other_model(const std::string &path) const
  {
    const mlff_info *info = main.info;
    const bool same_header =
        restart_model.header_sha256[0] == '\0' || strcmp(restart_model.header_sha256, info->header_sha256) == 0;
    if (restart_model.sha256[0] == '\0' || (strcmp(restart_model.sha256, info->sha256) == 0 && same_header)) return "";
    const char *header = restart_model.header_sha256[0] == '\0' ? "unknown" : restart_model.header_sha256;
    return mlff_format(
        "the restart file was written with model %s (sha256 %.12s, header %.12s), but %s is %s (sha256 "
        "%.12s, header %.12s). Use the same model, or give `pair_style none` before `pair_style mlff` to "
        "continue with another one",
        restart_model.name, restart_model.sha256, header, path.c_str(), info->name, info->sha256, info->header_sha256);
  }
};

}    // namespace LAMMPS_NS

#endif
