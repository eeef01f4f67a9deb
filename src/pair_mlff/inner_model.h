/* inner_model.h: the cheap model of the inner level of run_style respa (keyword inner).
 *
 * Respa calls compute_inner in every inner step, and compute_outer after the last one at the same positions. The outer
 * level has the forces of the main model minus those of the inner model, which are still available.
 */
#ifndef LMP_MLFF_INNER_MODEL_H
#define LMP_MLFF_INNER_MODEL_H

#include "evaluator.h"
#include "memory_forecast.h"

#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFInnerModel : protected Pointers {
 public:
  /* Opens settings.inner. names: elements of the types; gpu: that of the main model. Collective. */
  MLFFInnerModel(class LAMMPS *lammps, class Pair *pair, const MLFFSettings &settings,
                 const std::vector<std::string> &names, int gpu);

  const mlff_info *info() const { return evaluator.info; }
  MLFFHalo &halo() { return evaluator.halo; }
  void begin_run() { evaluator.graph.begin_run(); }    // for init()
  void end_run() { evaluator.graph.end_run(); }

  /* add_forces evaluates; subtract_forces evaluates only if atoms have changed since then. Collective. */
  void add_forces(NeighList *list);
  void subtract_forces(NeighList *list);

  /* For the memory forecast of a run. */
  MLFFMemoryForecast::Part forecast(NeighList *list);
  bigint n_evaluations() const { return evaluated; }
  double memory_usage() const;    // without the engine
  double engine_memory() const { return evaluator.engine_memory(); }

 private:
  MLFFEvaluator evaluator;
  mlff_graph forecast_graph = {};
  bigint evaluated = 0;
  std::vector<double> last_x;    // positions and types of the last evaluation, with ghosts
  std::vector<int> last_types;

  void evaluate(NeighList *list);
  bool is_current() const;
};

}    // namespace LAMMPS_NS

#endif
