/* evaluator.h: a model with everything that evaluates it on the atoms of LAMMPS. pair_style mlff has one, run_style
 * respa a second one (inner_model.h), and fix mlffprof compare one of its own. */
#ifndef LMP_MLFF_EVALUATOR_H
#define LMP_MLFF_EVALUATOR_H

#include "halo.h"
#include "model_loader.h"
#include "neighbor_graph.h"
#include "results.h"

#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class MLFFEvaluator : protected Pointers {
 public:
  /* The style whose communication is used: one of the two, the other is nullptr. */
  MLFFEvaluator(class LAMMPS *lammps, class Pair *pair, class Fix *fix) :
      Pointers(lammps), halo(lammps, pair, fix), graph(lammps, halo), results(lammps, graph, halo)
  {
  }
  MLFFEvaluator(const MLFFEvaluator &) = delete;
  MLFFEvaluator &operator=(const MLFFEvaluator &) = delete;

  MLFFHalo halo;
  MLFFNeighborGraph graph;
  MLFFResults results;
  MLFFModel model;
  const mlff_info *info = nullptr;     // nullptr: no model is open
  std::vector<int> species_of_type;    // [ntypes+1], -1 = NULL

  /* Opens a model and connects the ranks. names: the element of each type. gpu: see MLFFLoader::open. Collective. */
  void open(MLFFLoader &loader, const std::string &path, const std::vector<std::string> &names,
            const MLFFSettings &settings, int gpu);
  void close();

  /* Evaluates the model on the current atoms, with a full list, and checks that it used all pairs. Returns the error of
   * overlapping atoms or of non-finite values, the same on all ranks, or "". Other errors stop all ranks. who: start of
   * the error texts. Collective. */
  std::string evaluate(class NeighList *list, const MLFFResults::Wanted &wanted, const std::string &who);
  /* Wall time of the engine in the last evaluation. */
  double seconds() const { return engine_seconds; }

  /* Bytes of the engine, and of the arrays here. */
  double engine_memory() const;
  double memory_usage() const { return halo.memory_usage() + graph.memory_usage() + results.memory_usage(); }

 private:
  double engine_seconds = 0.0;
};

}    // namespace LAMMPS_NS

#endif
