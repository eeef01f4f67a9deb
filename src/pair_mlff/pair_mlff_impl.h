/* pair_mlff_impl.h: what PairMLFF has; for pair_mlff.cpp, pair_mlff_respa.cpp and pair_mlff_restart.cpp only. */
#ifndef LMP_PAIR_MLFF_IMPL_H
#define LMP_PAIR_MLFF_IMPL_H

#include "deviation.h"
#include "domain_watch.h"
#include "errors.h"
#include "halo.h"
#include "inner_model.h"
#include "model_loader.h"
#include "neighbor_graph.h"
#include "pair_mlff.h"
#include "results.h"

#include "lammps.h"
#include "update.h"
#include "utils.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace LAMMPS_NS {

/* What a restart file has of a model: enough to notice another one. After it come the keywords of pair_style, each with
 * a zero at its end. n_keywords: their bytes and 1; 0 in files from before there were any. Behind its zero, sha256 has
 * a mark (pair_mlff_restart.cpp). header_sha256 is empty in files of releases whose `name` had its room. */
struct MLFFIdentity {
  char sha256[68], name[116], header_sha256[68];
  int32_t n_keywords;
};

struct PairMLFF::Impl {
  Impl(LAMMPS *lammps, Pair *pair) :
      lmp(lammps), halo(lammps, pair, nullptr), talking(&halo), graph(lammps, halo), results(lammps, graph, halo),
      deviation(lammps, graph, results), watch(lammps, graph, results)
  {
  }

  LAMMPS *lmp;
  MLFFHalo halo;
  MLFFHalo *talking;    // that of the model that is being evaluated
  MLFFNeighborGraph graph;
  MLFFResults results;
  MLFFDeviation deviation;
  MLFFDomainWatch watch;
  MLFFSettings settings;
  MLFFModel model;
  std::unique_ptr<MLFFInnerModel> inner;    // of run_style respa
  const mlff_info *info = nullptr;
  bigint excluded_step = -1;    // whose excluded groups have been checked
  std::string overlap;          // error of the last evaluation, if it was taken for a trial
  bigint overlap_step = -1, evaluated_step = -1;
  bigint n_evaluations = 0, n_inner_before = 0;    // of this run; of the inner model before it
  std::vector<int> species_of_type;                // [ntypes+1], -1 = NULL
  bool types_reported = false;
  bigint n_forecast = -1;          // atoms that the memory was foreseen for
  bool levels_forecast = false;    // for both models
  bool starts = false;             // a run: steps of the kind of the next one will follow
  bool asks = false;      // a run that nothing was computed for yet: what is called first tells the levels of respa
  bool warmed = false;    // said what the first run with this model had to do before its steps
  bool initialised = false;             // since the last pair_style or pair_coeff
  std::vector<std::string> keywords;    // of pair_style, as given
  std::string again;                    // why pair_style must be given again after read_restart; empty: it need not
  MLFFIdentity before = {};             // of the model that the run before the restart used; empty: none
  // set by fix pair; the spread is there in every step anyway
  int spread_flag = 0, deviation_flag = 0;

  bool ensemble() const { return info->n_members > 1; }
  /* How far the members' forces differ is wanted in this step. */
  bool wants_deviation() const { return ensemble() && (deviation_flag || deviation.is_due()); }

  /* Of what is here and not in the engine. */
  double memory_usage() const
  {
    return halo.memory_usage() + graph.memory_usage() + results.memory_usage() + deviation.memory_usage() +
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
    asks = true;
    n_evaluations = 0;
    n_inner_before = inner ? inner->n_evaluations() : 0;
  }

  /* Empty, or that a restart was written with another model. */
  std::string other_model(const mlff_info *now, const char *path) const
  {
    const bool same_header = before.header_sha256[0] == '\0' || strcmp(before.header_sha256, now->header_sha256) == 0;
    if (before.sha256[0] == '\0' || (strcmp(before.sha256, now->sha256) == 0 && same_header)) return "";
    const char *header = before.header_sha256[0] == '\0' ? "unknown" : before.header_sha256;
    return mlff_format(
        "the run that wrote this restart used model %s, sha256 %.12s, header %.12s, but %s is %s, sha256 "
        "%.12s, header %.12s. Give the same model, or say `pair_style none` before `pair_style mlff` to "
        "go on with another one",
        before.name, before.sha256, header, path, now->name, now->sha256, now->header_sha256);
  }
};

}    // namespace LAMMPS_NS

#endif
