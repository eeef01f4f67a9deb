/* domain_watch.cpp: see domain_watch.h. */
#include "domain_watch.h"

#include "elements.h"
#include "errors.h"
#include "neighbour_graph.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "fix.h"
#include "force.h"
#include "modify.h"
#include "update.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

using namespace LAMMPS_NS;

/* Steps between two looks. On a GPU a step of few atoms takes less time than a loop over all pairs on the host. */
static constexpr int EVERY = 100, EVERY_ON_GPU = 1000;

/* What is still inside. Temperatures fluctuate by T sqrt(2/(3N)), velocities in the middle of a step and thermostats
 * are off by per cents; boxes under pressure fluctuate, too; and in a run that is longer or larger than all of the
 * training some pair comes a few per cent closer than any there. */
static constexpr double SLACK = 0.02, DEVIATIONS = 4.0, CLOSER = 0.95;

static constexpr double AT_REST = 1.0;                    // K: colder atoms have no temperature yet
static constexpr double GRAMS_PER_CM3 = 1.66053906660;    // of 1 atomic mass unit per A^3

MLFFDomainWatch::MLFFDomainWatch(LAMMPS *lammps, const MLFFNeighbourGraph &of_step) :
    Pointers(lammps), graph(of_step), info(nullptr), is_on(false), stops(false), every(EVERY),
    last_step(-1), is_watched{}
{
}

void MLFFDomainWatch::set_model(const mlff_info *of_model, const std::vector<int> &mapping, const std::string &what)
{
  info = of_model;
  species_of_type = mapping;
  is_on = what != "ignore";
  stops = what == "stop";
  every = info->device_number >= 0 ? EVERY_ON_GPU : EVERY;
  const auto n = static_cast<size_t>(info->n_elements);
  element_masses.resize(n);
  for (size_t s = 0; s < n; s++) element_masses[s] = mlff_element_mass(info->elements[s]);
  inverse_squares.assign(info->distances ? n * n : 0, HUGE_VAL);
  for (size_t k = 0; k < inverse_squares.size(); k++) {
    if (!info->trained[k / n] || !info->trained[k % n]) continue;
    const double limit = info->distances[k] > 0.0 ? info->distances[k] : info->cutoff;
    inverse_squares[k] = 1.0 / (limit * limit);
  }
  begin_run();
}

void MLFFDomainWatch::begin_run()
{
  last_step = -1;
  temperature = density = Mean();
  is_watched = {is_on && info && info->temperature, is_on && info && info->density, is_on && info && info->distances};
}

/* rerun has no steps but set-ups. Styles that call more than once in a step (rRESPA, trial moves of fix gcmc) are
 * looked at once. */
bool MLFFDomainWatch::is_due() const
{
  if (update->whichflag != 1 || update->ntimestep == last_step) return false;
  if (!update->setupflag && update->ntimestep % every != 0) return false;
  return std::any_of(is_watched.begin(), is_watched.end(), [](bool watched) { return watched; });
}

void MLFFDomainWatch::look()
{
  last_step = update->ntimestep;
  if (is_watched[TEMPERATURE] || is_watched[DENSITY]) {
    const Sums sums = sum_atoms();
    if (is_watched[TEMPERATURE]) look_at_temperature(sums);
    if (is_watched[DENSITY]) look_at_density(sums);
  }
  if (is_watched[DISTANCE]) look_at_distances();
}

double MLFFDomainWatch::Mean::value() const
{
  const int n_values = std::min(n, LOOKS);
  return std::accumulate(values.begin(), values.begin() + n_values, 0.0) / n_values;
}

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
  static_assert(sizeof(Sums) == 8 * sizeof(double), "summed as an array");
  MPI_Allreduce(&mine, &all, 8, MPI_DOUBLE, MPI_SUM, world);
  return all;
}

/* ----------------------------------------------------------------------
   temperature and density: means, because both fluctuate
------------------------------------------------------------------------- */

/* Degrees of freedom that SHAKE and rigid bodies take away. Collective. */
double MLFFDomainWatch::count_constraints() const
{
  double n = 0.0;
  for (Fix *fix : modify->get_fix_list())
    if (fix->dof_flag) n += static_cast<double>(fix->dof(0));
  return n;
}

/* Without the motion of the center of mass. Beads of path integrals have the temperature of the ring. */
void MLFFDomainWatch::look_at_temperature(const Sums &sums)
{
  if (update->setupflag || sums.n_moving < 2.0 || !modify->get_fix_by_style("^pimd").empty()) return;
  const double n_constraints = count_constraints(), n_free = 3.0 * sums.n_moving - 3.0 - n_constraints;
  if (n_free <= 0.0 || (n_constraints > 0.0 && sums.n_moving != static_cast<double>(atom->natoms))) return;
  const double *p = sums.momentum;
  const double mv2 = sums.mv2 - (p[0] * p[0] + p[1] * p[1] + p[2] * p[2]) / sums.mass;
  const double now = force->mvv2e * mv2 / (n_free * force->boltz);
  if (!(now > AT_REST)) return;
  temperature.add(now);
  const double value = temperature.value(), margin = SLACK + DEVIATIONS * std::sqrt(2.0 / n_free);
  const double low = info->temperature[0] * (1.0 - margin), high = info->temperature[1] * (1.0 + margin);
  if (!temperature.is_full() || (value >= low && value <= high)) return;
  say(TEMPERATURE, mlff_format("temperature %.4g K (mean of %d looks, every %d steps) is outside of %g to %g K", value,
                               LOOKS, every, info->temperature[0], info->temperature[1]));
}

/* Of boxes that have no surface and no atoms of other styles; with the masses of the elements, so that isotopes are as
 * dense as what was trained. */
void MLFFDomainWatch::look_at_density(const Sums &sums)
{
  if (graph.view().boundary != MLFF_BOUNDARY_PERIODIC || sums.n_atoms != static_cast<double>(atom->natoms)) return;
  density.add(GRAMS_PER_CM3 * sums.element_mass / graph.view().volume);
  const double value = density.value();
  const bool is_inside = value >= info->density[0] * (1.0 - SLACK) && value <= info->density[1] * (1.0 + SLACK);
  if ((domain->box_change && !density.is_full()) || is_inside) return;
  const std::string mean =
      domain->box_change ? mlff_format(" (mean of %d looks, every %d steps)", LOOKS, every) : std::string();
  say(DENSITY, mlff_format("density %.4g g/cm3%s is outside of %g to %g g/cm3", value, mean.c_str(), info->density[0],
                           info->density[1]));
}

/* ----------------------------------------------------------------------
   distances
------------------------------------------------------------------------- */

/* The pair on this rank that is shortest, as the square of its distance over that of its limit, and its description. */
std::string MLFFDomainWatch::closest(double &square) const
{
  const mlff_graph g = graph.on_host();
  const auto n = static_cast<size_t>(info->n_elements);
  int32_t closest_i, closest_j;
  square = mlff_graph_closest(&g, info->n_elements, inverse_squares.data(), &closest_i, &closest_j);
  if (square >= CLOSER * CLOSER) return "";
  auto s = static_cast<size_t>(g.species[closest_i]), t = static_cast<size_t>(g.species[closest_j]);
  std::string one = graph.name_of(closest_i), other = graph.name_of(closest_j);
  if (s > t || (s == t && one > other)) {    // the same words on any rank
    std::swap(s, t);
    std::swap(one, other);
  }
  const double limit = 1.0 / std::sqrt(inverse_squares[n * s + t]);
  const bool is_known = info->distances[n * s + t] > 0.0;
  return mlff_format("%s-%s distance %.4g A (%s, %s) is below %.4g A, %s", info->elements[s], info->elements[t],
                     limit * std::sqrt(square), one.c_str(), other.c_str(), limit,
                     is_known ? "the shortest one" : "the cutoff, within which there was no such pair");
}

void MLFFDomainWatch::look_at_distances()
{
  struct {
    double square;
    int rank;
  } mine = {HUGE_VAL, comm->me}, least = {};
  const std::string found = closest(mine.square);
  MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, world);
  if (least.square >= CLOSER * CLOSER) return;
  char text[256] = "";
  if (comm->me == least.rank) snprintf(text, sizeof(text), "%s", found.c_str());
  MPI_Bcast(text, sizeof(text), MPI_CHAR, least.rank, world);
  say(DISTANCE, text);
}

/* ---------------------------------------------------------------------- */

/* The same on all ranks. */
void MLFFDomainWatch::say(Kind kind, const std::string &what)
{
  is_watched[kind] = false;
  const std::string text = "pair_style mlff: in step " + std::to_string(update->ntimestep) + " " + what +
                           " in the training of " + info->name +
                           ", so its results may be wrong: use a model that was trained on such structures, or say "
                           "`pair_style mlff domain ignore` if it is meant [mlff-42]";
  if (stops) error->all(FLERR, text);
  if (comm->me == 0) error->warning(FLERR, text);
}
