/* inner_model.h: the cheap model of the inner level of run_style respa (keyword inner).
 *
 * Respa calls compute_inner in every inner step and, after the last one of a step, compute_outer, at the same
 * positions. The outer level has the forces of the wanted model minus those of the inner one, which are still here.
 */
#ifndef LMP_MLFF_INNER_MODEL_H
#define LMP_MLFF_INNER_MODEL_H

#include "halo.h"
#include "memory_forecast.h"
#include "model_loader.h"
#include "neighbor_graph.h"
#include "results.h"

#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFInnerModel : protected Pointers {
 public:
  /* Opens settings.inner as pair_coeff opens its model. names: of the types; gpu: of the wanted model. Collective. */
  MLFFInnerModel(class LAMMPS *lammps, class Pair *pair, const MLFFSettings &settings,
                 const std::vector<std::string> &names, int gpu);

  const mlff_info *info() const { return mlff_model_info(model.get()); }
  MLFFHalo &between_ranks() { return halo; }
  void begin_run() { graph.begin_run(); }    // for init()
  void end_run() { graph.end_run(); }

  /* Both are collective. add_forces evaluates; take_forces_off evaluates only if the atoms are not those of then. */
  void add_forces(NeighList *list);
  void take_forces_off(NeighList *list);

  /* For the forecast of a run, with this list. */
  MLFFMemoryForecast::Part forecast(NeighList *list);
  bigint n_evaluations() const { return evaluated; }
  double memory_usage() const;    // of what is here and not in the engine
  double engine_memory() const;

 private:
  MLFFHalo halo;
  MLFFNeighborGraph graph;
  MLFFResults results;
  MLFFModel model;
  mlff_graph forecast_graph = {};
  bigint evaluated = 0;
  std::vector<double> x_then;    // of the last evaluation, with ghosts; and the types
  std::vector<int> types_then;

  void evaluate(NeighList *list);
  bool is_of_now() const;
};

}    // namespace LAMMPS_NS

#endif
