/* inner_model.cpp: see inner_model.h. */
#include "inner_model.h"

#include "errors.h"

#include "atom.h"
#include "comm.h"
#include "error.h"
#include "update.h"

#include <algorithm>
#include <cstring>

using namespace LAMMPS_NS;

static const char *const WHO = "pair_coeff of mlff, inner model";

MLFFInnerModel::MLFFInnerModel(LAMMPS *lammps, Pair *pair, const MLFFSettings &settings,
                               const std::vector<std::string> &names, int gpu) :
    Pointers(lammps),
    halo(lammps, pair, nullptr), graph(lammps, halo), results(lammps, graph, halo)
{
  const MLFFSettings how = settings.for_second_model({});
  MLFFLoader loader(lmp, WHO);
  model = loader.open(settings.inner, names, how, gpu);
  graph.set_model(info(), loader.map_types(info(), names, how));
  halo.set_model(info());
  results.set_model(info());
  loader.connect_ranks(halo, info(), how);
  loader.report_inner(settings.inner, model.get(), how);
}

/* ---------------------------------------------------------------------- */

void MLFFInnerModel::evaluate(NeighList *list)
{
  const std::string failure =
      results.evaluate(model.get(), list, {false, false, false, false, false}, "pair_style mlff (inner model)");
  if (!failure.empty()) error->all(FLERR, failure);
  evaluated++;
  const auto n_all = static_cast<size_t>(graph.view().n_all);
  types_then.assign(atom->type, atom->type + n_all);
  x_then.resize(3 * n_all);
  if (n_all > 0) std::copy_n(atom->x[0], 3 * n_all, x_then.data());
}

/* Whether these are the atoms of the last evaluation, bit for bit and in the same order, on all ranks: a fix may have
 * moved or exchanged some in between. */
bool MLFFInnerModel::is_of_now() const
{
  const auto n_all = static_cast<size_t>(atom->nlocal) + static_cast<size_t>(atom->nghost);
  int same = evaluated > 0 && graph.view().n_local == atom->nlocal && types_then.size() == n_all, everywhere = 0;
  if (same && n_all > 0)
    same = memcmp(x_then.data(), atom->x[0], 3 * n_all * sizeof(double)) == 0 &&
           std::equal(types_then.begin(), types_then.end(), atom->type);
  MPI_Allreduce(&same, &everywhere, 1, MPI_INT, MPI_MIN, world);
  return everywhere != 0;
}

void MLFFInnerModel::add_forces(NeighList *list)
{
  evaluate(list);
  results.send_forces_home();
  results.add_forces_of_atoms(1.0);
}

void MLFFInnerModel::take_forces_off(NeighList *list)
{
  if (!is_of_now()) {
    evaluate(list);
    results.send_forces_home();
  }
  results.add_forces_of_atoms(-1.0);
}

/* ---------------------------------------------------------------------- */

MLFFMemoryForecast::Part MLFFInnerModel::forecast(NeighList *list)
{
  graph.update(list);
  forecast_graph = graph.on_host();
  return {model.get(), &forecast_graph, results.request({false, false, false, false, false})};
}

double MLFFInnerModel::memory_usage() const
{
  return halo.memory_usage() + graph.memory_usage() + results.memory_usage() +
         static_cast<double>(x_then.capacity() * sizeof(double) + types_then.capacity() * sizeof(int));
}

double MLFFInnerModel::engine_memory() const
{
  return static_cast<double>(mlff_model_memory(model.get()).bytes);
}
