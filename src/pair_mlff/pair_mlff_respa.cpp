/* pair_mlff_respa.cpp: levels of run_style respa. Inner level: a cheap model; outer level: the main model minus the
 * cheap one (inner_model.h). */
#include "pair_mlff.h"

#include "pair_mlff_impl.h"

#include "citeme.h"
#include "comm.h"
#include "error.h"
#include "lammps.h"
#include "update.h"
#include "utils.h"

#include <algorithm>

using namespace LAMMPS_NS;

void PairMLFF::open_inner(const std::vector<std::string> &names)
{
  impl->inner = std::make_unique<MLFFInnerModel>(lmp, this, impl->settings, names, impl->main.info->device_number);
  comm_reverse_off = std::max(comm_reverse_off, impl->inner->halo().reverse_width());
  if (lmp->citeme) lmp->citeme->add(MLFFLoader::citation(impl->inner->info()));
}

void PairMLFF::compute_inner()
{
  check_initialized();
  check_levels(true);
  impl->active_halo = &impl->inner->halo();
  impl->inner->add_forces(list);
}

void PairMLFF::compute_middle()
{
  error->all(FLERR, "pair_style mlff has no level `middle` of run_style respa; use `inner` and `outer` only");
}

/* Energy and virial are those of the main model, whose forces are the sum of both levels. */
void PairMLFF::compute_outer(int eflag, int vflag)
{
  evaluate(eflag, vflag);
  impl->active_halo = &impl->inner->halo();
  impl->inner->subtract_forces(list);
}

/* The headers of run_style respa are not available for every LAMMPS, but the first call shows the level. */
void PairMLFF::check_levels(bool inner) const
{
  if (impl->phase == RunPhase::FIRST_CALL) impl->phase = RunPhase::FIRST_EVALUATION;
  static const char *const use = "`run_style respa 2 N inner 1 0 0 outer 2`";
  if (inner && !impl->inner)
    error->all(FLERR, "pair_style mlff: run_style respa with levels `inner` and `outer` needs a second model for the "
                      "inner level: use `pair_style mlff inner MODEL.yaml`");
  if (!inner && impl->has_levels())
    error->all(FLERR, std::string("pair_style mlff: with `inner ") + impl->settings.inner +
                          "` run_style respa must use the levels `inner` and `outer`, not `pair` or `hybrid`. Use " +
                          use + ", or remove the keyword `inner`");
}

void PairMLFF::report_levels() const
{
  if (comm->me != 0) return;
  utils::logmesg(lmp, mlff_format("pair_style mlff: %lld evaluations of %s (inner), %lld of %s (outer)\n",
                                  static_cast<long long>(impl->inner->n_evaluations() - impl->n_inner_at_start),
                                  impl->inner->info()->name, static_cast<long long>(impl->n_evaluations),
                                  impl->main.info->name));
}
