/* committee.h: the further models of `pair_coeff * * A.yaml B.yaml ...`. The first one drives the run; these are
 * evaluated only in steps that need the deviation of all models. */
#ifndef LMP_MLFF_COMMITTEE_H
#define LMP_MLFF_COMMITTEE_H

#include "evaluator.h"
#include "memory_forecast.h"

#include "pointers.h"

#include <memory>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFCommittee : protected Pointers {
 public:
  using Models = std::vector<std::unique_ptr<MLFFEvaluator>>;

  /* active: the halo that serves the communication of the style; set during evaluations. */
  MLFFCommittee(class LAMMPS *lammps, class Pair *style, MLFFHalo *&active) :
      Pointers(lammps), pair(style), active_halo(active)
  {
  }

  /* Opens the files behind the first one, whose model is `driver`. names: elements of the types. Collective. */
  void open(const std::vector<std::string> &files, const std::vector<std::string> &names, const MLFFSettings &settings,
            const MLFFEvaluator &driver);
  void close() { others.clear(); }
  /* Empty: the run has one model. */
  const Models &models() const { return others; }
  bool empty() const { return others.empty(); }

  /* Largest cutoff, and maximum number of doubles per atom in the reverse communication. */
  double cutoff() const;
  int reverse_width() const;

  /* Evaluates the further models on the atoms of the last evaluation of the driver, and returns the predictions of all,
   * the driver first. Collective. */
  std::vector<MLFFPrediction> predict(MLFFEvaluator &driver, class NeighList *list);

  /* For the memory forecast of a run. */
  std::vector<MLFFMemoryForecast::Part> forecast(class NeighList *list);
  double memory_usage() const;    // without the engine
  double engine_memory() const;

 private:
  class Pair *pair;
  MLFFHalo *&active_halo;
  Models others;
  std::vector<mlff_graph> forecast_graphs;

  void check_different(const MLFFEvaluator &driver, const std::vector<std::string> &files) const;
};

}    // namespace LAMMPS_NS

#endif
