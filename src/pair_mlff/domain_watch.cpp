/* domain_watch.cpp: see domain_watch.h. */
#include "domain_watch.h"

#include "../base/elements.h"
#include "errors.h"
#include "neighbor_graph.h"
#include "results.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "fix.h"
#include "force.h"
#include "modify.h"
#include "update.h"

#include <cmath>

using namespace LAMMPS_NS;

/* Steps between checks. A check loops over all pairs on the host, which costs more than a small step on a GPU. */
static constexpr int EVERY = 100, EVERY_ON_GPU = 1000;

static constexpr double GRAMS_PER_CM3 = 1.66053906660;    // of 1 atomic mass unit per A^3
static constexpr double GPA = 160.2176634;                // of 1 eV/A^3

MLFFDomainWatch::MLFFDomainWatch(LAMMPS *lammps, MLFFNeighborGraph &source, MLFFResults &engine_results) :
    Pointers(lammps), graph(source), results(engine_results), info(nullptr), stops(false), has_begun(false),
    every(EVERY), last_step(-1)
{
}

void MLFFDomainWatch::set_model(const mlff_info *model_info, const std::vector<int> &mapping, const std::string &what)
{
  info = model_info;
  species_of_type = mapping;
  stops = what == "stop";
  has_begun = false;
  every = info->device_number >= 0 ? EVERY_ON_GPU : EVERY;
  const auto n = static_cast<size_t>(info->n_elements);
  element_masses.resize(n);
  for (size_t s = 0; s < n; s++) element_masses[s] = mlff_element_mass(info->elements[s]);
  mlff_watch *made = nullptr;
  mlff_error problem = {};
  if (what != "ignore") mlff_watch_create(info, every, "steps", &made, &problem);
  watch.reset(made);
  mlff_stop_together(lmp, problem.text);
  bool is_watched = false;
  for (int k = 0; made && k < MLFF_N_WATCHED; k++)
    is_watched = is_watched || mlff_watch_has(made, static_cast<mlff_watched>(k));
  if (!is_watched) watch.reset();
  begin_run();
}

void MLFFDomainWatch::begin_run()
{
  last_step = -1;
  if (watch) mlff_watch_begin(watch.get());
}

/* Each step of rerun is a set-up. A step with several evaluations (rRESPA, fix gcmc) is checked once. */
bool MLFFDomainWatch::is_due() const
{
  if (!watch || update->ntimestep == last_step) return false;
  if (update->whichflag == 2) return update->setupflag != 0;
  return update->whichflag == 1 && (update->setupflag || update->ntimestep % every == 0);
}

void MLFFDomainWatch::check()
{
  const bool is_dynamics = update->whichflag == 1;
  judge(is_dynamics, !has_begun);
  has_begun = has_begun || is_dynamics;
}

void MLFFDomainWatch::end_run()
{
  if (watch && update->whichflag == 2 && last_step >= 0) judge(true, false);
}

/* whole: check all quantities, otherwise only pairs of elements, because minimizations start from unphysical
 * structures. */
void MLFFDomainWatch::judge(bool whole, bool begins)
{
  Findings found;
  last_step = update->ntimestep;
  find_atoms(found);
  if (whole) {
    const mlff_watch_system system = find_system();
    mlff_watch_state(watch.get(), &system, found.data());
  } else {
    found[MLFF_WATCHED_DISTANCE].excess = found[MLFF_WATCHED_TRIPLE].excess = found[MLFF_WATCHED_FORCE].excess = 0.0;
    found[MLFF_WATCHED_UNCERTAINTY].excess = 0.0;
  }
  mlff_watch_judge(watch.get(), begins, found.data());
  for (const mlff_finding &finding : found)
    if (finding.verdict != MLFF_VERDICT_NONE) report(finding, whole && update->whichflag == 2);
}

/* ----------------------------------------------------------------------
   atoms
------------------------------------------------------------------------- */

void MLFFDomainWatch::find_atoms(Findings &found)
{
  const mlff_graph g = graph.on_host();
  const bool wants_forces = mlff_watch_has(watch.get(), MLFF_WATCHED_FORCE) != 0;
  mlff_watch_atoms(watch.get(), &g, wants_forces ? results.whole_forces() : nullptr, results.last().atom_uncertainty,
                   found.data());
  if (comm->nprocs > 1) reduce_findings(found);
}

void MLFFDomainWatch::reduce_findings(Findings &found) const
{
  struct Ranked {
    double excess;
    int rank;
  };
  std::array<Ranked, MLFF_N_WATCHED> mine, most;
  for (size_t k = 0; k < found.size(); k++) mine[k] = {found[k].excess, comm->me};
  MPI_Allreduce(mine.data(), most.data(), MLFF_N_WATCHED, MPI_DOUBLE_INT, MPI_MAXLOC, world);
  for (size_t k = 0; k < found.size(); k++) {
    found[k].excess = most[k].excess;
    if (most[k].excess > 1.0) MPI_Bcast(found[k].text, sizeof(found[k].text), MPI_CHAR, most[k].rank, world);
  }
}

/* ----------------------------------------------------------------------
   the whole system
------------------------------------------------------------------------- */

MLFFDomainWatch::Sums MLFFDomainWatch::sum_atoms() const
{
  Sums mine = {}, all;
  const double *const *v = atom->v;
  for (int i = 0; i < atom->nlocal; i++) {
    const int s = species_of_type[atom->type[i]];
    if (s < 0) continue;
    mine.n_atoms += 1.0;
    mine.element_mass += element_masses[s];
    const double v2 = v[i][0] * v[i][0] + v[i][1] * v[i][1] + v[i][2] * v[i][2];
    if (v2 == 0.0) continue;
    const double m = atom->rmass ? atom->rmass[i] : atom->mass[atom->type[i]];
    mine.n_moving += 1.0;
    mine.mass += m;
    mine.mv2 += m * v2;
    for (int d = 0; d < 3; d++) mine.momentum[d] += m * v[i][d];
  }
  mine.virial = results.virial_trace();
  static_assert(sizeof(Sums) == 9 * sizeof(double), "summed as an array");
  MPI_Allreduce(&mine, &all, 9, MPI_DOUBLE, MPI_SUM, world);
  return all;
}

/* Degrees of freedom constrained by SHAKE and rigid bodies. Collective. */
double MLFFDomainWatch::count_constraints() const
{
  double n = 0.0;
  for (Fix *fix : modify->get_fix_list())
    if (fix->dof_flag) n += static_cast<double>(fix->dof(0));
  return n;
}

/* Excludes the motion of the center of mass. Beads of path integrals do not have the temperature of the system. */
void MLFFDomainWatch::find_temperature(const Sums &sums, mlff_watch_system &system) const
{
  if (update->whichflag != 1 || update->setupflag || sums.n_moving < 2.0 || !modify->get_fix_by_style("^pimd").empty())
    return;
  const double n_constraints = count_constraints(), n_free = 3.0 * sums.n_moving - 3.0 - n_constraints;
  if (n_free <= 0.0 || (n_constraints > 0.0 && sums.n_moving != static_cast<double>(atom->natoms))) return;
  const double *p = sums.momentum;
  const double mv2 = sums.mv2 - (p[0] * p[0] + p[1] * p[1] + p[2] * p[2]) / sums.mass;
  system.temperature = force->mvv2e * mv2 / (n_free * force->boltz);
  system.n_free = n_free;
}

/* Density and pressure need a periodic box without atoms of other styles. The density uses masses of elements, so that
 * isotopes have the density of the training data. */
mlff_watch_system MLFFDomainWatch::find_system() const
{
  mlff_watch_system system = {NAN, 1.0, NAN, NAN, domain->box_change};
  const bool wants_temperature = mlff_watch_has(watch.get(), MLFF_WATCHED_TEMPERATURE) != 0;
  if (!wants_temperature && !mlff_watch_has(watch.get(), MLFF_WATCHED_DENSITY) &&
      !mlff_watch_has(watch.get(), MLFF_WATCHED_PRESSURE))
    return system;
  const Sums sums = sum_atoms();
  if (wants_temperature) find_temperature(sums, system);
  const mlff_graph &view = graph.view();
  if (view.boundary != MLFF_BOUNDARY_PERIODIC || sums.n_atoms != static_cast<double>(atom->natoms)) return system;
  system.density = GRAMS_PER_CM3 * sums.element_mass / view.volume;
  if (!update->setupflag) system.pressure = GPA * sums.virial / (3.0 * view.volume);
  return system;
}

/* ---------------------------------------------------------------------- */

/* Called on all ranks with the same finding. */
void MLFFDomainWatch::report(const mlff_finding &finding, bool warns_only) const
{
  const std::string what = "pair_style mlff: in step " + std::to_string(update->ntimestep) + " " + finding.text +
                           " in the training of " + info->name;
  const bool begins = finding.verdict == MLFF_VERDICT_STOP;
  const std::string text =
      what +
      (begins ? ", and the run would start there: check the structure and the elements in pair_coeff, "
              : ". The results may be wrong: ") +
      "use a model that was trained on such structures, or set `pair_style mlff domain ignore` if this is intended "
      "[mlff-42]";
  if (begins || (stops && !warns_only)) error->all(FLERR, text);
  if (comm->me == 0) error->warning(FLERR, text);
}
