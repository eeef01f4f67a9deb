/* inner_model.cpp: see inner_model.h. */
#include "inner_model.h"

#include "atom.h"
#include "error.h"

#include <algorithm>
#include <cstring>

using namespace LAMMPS_NS;

static const char *const WHO = "pair_coeff of mlff, inner model";

MLFFInnerModel::MLFFInnerModel(LAMMPS *lammps, Pair *pair, const MLFFSettings &settings,
                               const std::vector<std::string> &names, int gpu) :
    Pointers(lammps),
    evaluator(lammps, pair, nullptr)
{
  const MLFFSettings how = settings.for_second_model({});
  MLFFLoader loader(lmp, WHO);
  evaluator.open(loader, settings.inner, names, how, gpu);
  loader.report_inner(settings.inner, evaluator.model.get(), how);
}

/* ---------------------------------------------------------------------- */

void MLFFInnerModel::evaluate(NeighList *list)
{
  const std::string failure = evaluator.evaluate(list, {}, "pair_style mlff (inner model)");
  if (!failure.empty()) error->all(FLERR, failure);
  evaluated++;
  const auto n_all = static_cast<size_t>(evaluator.graph.view().n_all);
  last_types.assign(atom->type, atom->type + n_all);
  last_x.resize(3 * n_all);
  if (n_all > 0) std::copy_n(atom->x[0], 3 * n_all, last_x.data());
}

/* Whether positions and types equal those of the last evaluation on all ranks. A fix may have moved atoms. */
bool MLFFInnerModel::is_current() const
{
  const auto n_all = static_cast<size_t>(atom->nlocal) + static_cast<size_t>(atom->nghost);
  int same = evaluated > 0 && evaluator.graph.view().n_local == atom->nlocal && last_types.size() == n_all,
      everywhere = 0;
  if (same && n_all > 0)
    same = memcmp(last_x.data(), atom->x[0], 3 * n_all * sizeof(double)) == 0 &&
           std::equal(last_types.begin(), last_types.end(), atom->type);
  MPI_Allreduce(&same, &everywhere, 1, MPI_INT, MPI_MIN, world);
  return everywhere != 0;
}

void MLFFInnerModel::add_forces(NeighList *list)
{
  evaluate(list);
  evaluator.results.reverse_forces();
  evaluator.results.add_forces_of_atoms(1.0);
}

void MLFFInnerModel::subtract_forces(NeighList *list)
{
  if (!is_current()) {
    evaluate(list);
    evaluator.results.reverse_forces();
  }
  evaluator.results.add_forces_of_atoms(-1.0);
}

/* ---------------------------------------------------------------------- */

MLFFMemoryForecast::Part MLFFInnerModel::forecast(NeighList *list)
{
  evaluator.graph.update(list);
  forecast_graph = evaluator.graph.on_host();
  return {evaluator.model.get(), &forecast_graph, evaluator.results.request({})};
}

double MLFFInnerModel::memory_usage() const
{
  return evaluator.memory_usage() +
         static_cast<double>(last_x.capacity() * sizeof(double) + last_types.capacity() * sizeof(int));
}
