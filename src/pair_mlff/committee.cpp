/* committee.cpp: see committee.h. */
#include "committee.h"

#include "citeme.h"
#include "error.h"
#include "lammps.h"

#include <algorithm>
#include <cstring>

using namespace LAMMPS_NS;

void MLFFCommittee::open(const std::vector<std::string> &files, const std::vector<std::string> &names,
                         const MLFFSettings &settings, const MLFFEvaluator &driver)
{
  const MLFFSettings how = settings.for_second_model({});
  for (size_t k = 1; k < files.size(); k++) {
    MLFFLoader loader(lmp, "pair_coeff of mlff, model " + std::to_string(k + 1));
    others.push_back(std::make_unique<MLFFEvaluator>(lmp, pair, nullptr));
    MLFFEvaluator &model = *others.back();
    model.open(loader, files[k], names, how, driver.info->device_number);
    check_different(driver, files);
    loader.report_further(files[k], model.model.get(), how);
    if (lmp->citeme) lmp->citeme->add(MLFFLoader::citation(model.info));
  }
}

/* The same model twice has no deviation. */
void MLFFCommittee::check_different(const MLFFEvaluator &driver, const std::vector<std::string> &files) const
{
  const size_t last = others.size();
  for (size_t k = 0; k < last; k++) {
    const mlff_info *info = k == 0 ? driver.info : others[k - 1]->info;
    if (strcmp(info->header_sha256, others.back()->info->header_sha256) == 0)
      error->all(FLERR, "pair_coeff of mlff: " + files[k] + " and " + files[last] +
                            " are the same model, whose deviation is zero. Give each model of a committee once");
  }
}

double MLFFCommittee::cutoff() const
{
  double largest = 0.0;
  for (const auto &model : others) largest = std::max(largest, model->info->cutoff);
  return largest;
}

int MLFFCommittee::reverse_width() const
{
  int largest = 0;
  for (const auto &model : others) largest = std::max(largest, model->halo.reverse_width());
  return largest;
}

/* ---------------------------------------------------------------------- */

std::vector<MLFFPrediction> MLFFCommittee::predict(MLFFEvaluator &driver, NeighList *list)
{
  MLFFHalo *const halo_of_driver = active_halo;
  std::vector<MLFFPrediction> all = {driver.results.prediction()};
  for (size_t k = 0; k < others.size(); k++) {
    MLFFEvaluator &model = *others[k];
    active_halo = &model.halo;
    model.graph.forget_list();
    const std::string failure =
        model.evaluate(list, {}, "pair_style mlff (model " + std::to_string(k + 2) + " of the committee)");
    if (!failure.empty()) error->all(FLERR, failure);
    model.results.reverse_forces();
    all.push_back(model.results.prediction());
  }
  active_halo = halo_of_driver;
  return all;
}

/* ---------------------------------------------------------------------- */

std::vector<MLFFMemoryForecast::Part> MLFFCommittee::forecast(NeighList *list)
{
  std::vector<MLFFMemoryForecast::Part> parts;
  forecast_graphs.resize(others.size());
  for (size_t k = 0; k < others.size(); k++) {
    MLFFEvaluator &model = *others[k];
    active_halo = &model.halo;
    model.graph.update(list);
    forecast_graphs[k] = model.graph.on_host();
    parts.push_back({model.model.get(), &forecast_graphs[k], model.results.request({})});
  }
  return parts;
}

double MLFFCommittee::memory_usage() const
{
  double bytes = 0.0;
  for (const auto &model : others) bytes += model->memory_usage();
  return bytes;
}

double MLFFCommittee::engine_memory() const
{
  double bytes = 0.0;
  for (const auto &model : others) bytes += model->engine_memory();
  return bytes;
}
