/* evaluator.cpp: see evaluator.h. */
#include "evaluator.h"

#include "errors.h"

#include "comm.h"
#include "error.h"
#include "platform.h"
#include "update.h"

using namespace LAMMPS_NS;

void MLFFEvaluator::open(MLFFLoader &loader, const std::string &path, const std::vector<std::string> &names,
                         const MLFFSettings &settings, int gpu)
{
  MLFFModel opened = loader.open(path, names, settings, gpu);
  const mlff_info *found = mlff_model_info(opened.get());
  species_of_type = loader.map_types(found, names, settings);
  model = std::move(opened);
  info = found;
  graph.set_model(info, species_of_type);
  halo.set_model(info);
  results.set_model(info);
  loader.connect_ranks(halo, info, settings);
}

void MLFFEvaluator::close()
{
  model.reset();
  info = nullptr;
}

std::string MLFFEvaluator::evaluate(NeighList *list, const MLFFResults::Wanted &wanted, const std::string &who)
{
  const mlff_graph *current = graph.update(list);
  for (bool again = true; again;) {
    mlff_error problem = {};
    mlff_result *result = results.request(wanted);
    const double begin = platform::walltime();
    const mlff_status status = mlff_model_evaluate(model.get(), current, halo.calls(), result, &problem);
    engine_seconds = platform::walltime() - begin;
    std::string text;
    if (status)
      text = who + " stopped in step " + std::to_string(update->ntimestep) + " on rank " + std::to_string(comm->me) +
             ": " + problem.text;
    // without memory for centroid virials this rank has left out exchanges in which the others wait
    if (status == MLFF_E_NOMEM && result->atom_centroid != nullptr) error->one(FLERR, text);
    if (!graph.problem().empty()) text = who + ": " + graph.problem();
    const bool stops = !graph.problem().empty() || (status && status != MLFF_E_NUMERIC);
    int flags[] = {stops, graph.has_new_types(), graph.is_outrun()};
    const std::string failure = mlff_agree(lmp, text, flags, 3);
    if (!failure.empty() && flags[0]) error->all(FLERR, failure);
    if (!failure.empty()) return failure;
    again = flags[1] && graph.settle_types();
    if (!again) graph.check_pairs(result->n_edges, flags[2], who);
  }
  return "";
}

double MLFFEvaluator::engine_memory() const
{
  return model ? static_cast<double>(mlff_model_memory(model.get()).bytes) : 0.0;
}
