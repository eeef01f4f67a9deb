/* pair_mlff_checks.cpp: checks of PairMLFF at the start of a run or an evaluation, and overlapping atoms of trials. */
#include "pair_mlff.h"

#include "../base/elements.h"
#include "pair_mlff_impl.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "fix.h"
#include "force.h"
#include "group.h"
#include "modify.h"
#include "neighbor.h"
#include "update.h"
#include "utils.h"

#include <cstring>

using namespace LAMMPS_NS;

/* `run N pre no` after new coefficients would use the lists and ghosts of the old ones. */
void PairMLFF::check_initialized() const
{
  if (!impl->is_initialized)
    error->all(FLERR, "pair_style or pair_coeff of mlff has changed since the last run: remove `pre no`, so that this "
                      "run builds new neighbor lists [mlff-35]");
}

/* Quantities that a model does not have are errors, never zeros. */
void PairMLFF::check_requests() const
{
  const unsigned traits = impl->main.info->traits;
  const char *problem = nullptr;
  if (eflag_atom && !(traits & MLFF_NODE_ENERGIES))
    problem = "has no per-atom energies, because its energy is not a sum over atoms: remove `compute pe/atom` and "
              "everything that uses it";
  else if ((vflag_atom || cvflag_atom) && !(traits & MLFF_CONSERVATIVE))
    problem = "has no per-atom stress, because the network predicts only the stress of the whole cell: remove `compute "
              "stress/atom` and everything that uses it; the global pressure is available";
  if (problem)
    error->all(FLERR, std::string("pair_style mlff: this model (") + impl->main.info->architecture + ") " + problem);
}

/* Limits of models whose forces are not the gradient of the energy: an error or "". */
static std::string check_box(const mlff_info *info, int n_periodic)
{
  if ((info->traits & MLFF_CONSERVATIVE) || n_periodic == 0 || n_periodic == 3) return "";
  return mlff_format("%s models support boxes that are periodic in three directions or in none, but this box is "
                     "periodic in %d: use `boundary p p p` with a layer of vacuum [mlff-37]",
                     info->architecture, n_periodic);
}

static std::string check_direct(const mlff_info *info, int n_periodic, const Update *update)
{
  if (info->traits & MLFF_CONSERVATIVE) return "";
  const std::string problem = check_box(info, n_periodic);
  if (!problem.empty()) return problem;
  const char *style = update->minimize_style;
  if (update->whichflag == 2 && strncmp(style, "fire", 4) != 0 && strncmp(style, "quickmin", 8) != 0)
    return mlff_format(
        "the forces of this model (%s) are not the gradient of its energy, so the line search of min_style %s does not "
        "converge. Use `min_style fire` or `min_style quickmin` with an energy tolerance of 0",
        info->architecture, style);
  return "";
}

/* Styles of hybrid must not write one file: an error or "". */
static std::string check_file(const char *keyword, const std::string &mine, const std::string &theirs)
{
  if (mine.empty() || mine != theirs) return "";
  return mlff_format("two styles of hybrid write %s: give each its own `%s`", mine.c_str(), keyword);
}

std::string PairMLFF::check_files() const
{
  const MLFFSettings &mine = impl->settings;
  const Pair *last = nullptr;
  for (int k = 1; Pair *other = force->pair_match("^mlff", 0, k); k++) {
    int dim = 0;
    if (other == last) break;    // the only one, for any k
    last = other;
    const auto *theirs = static_cast<const MLFFSettings *>(other->extract("mlff_settings", dim));
    if (!theirs || other == this) continue;
    std::string problem = check_file("out_file", mine.out_file, theirs->out_file);
    if (problem.empty()) problem = check_file("dump_file", mine.frames_file(), theirs->frames_file());
    if (!problem.empty()) return problem;
  }
  return "";
}

void PairMLFF::check_models() const
{
  const int n_periodic = (domain->xperiodic != 0) + (domain->yperiodic != 0) + (domain->zperiodic != 0);
  std::string problem = check_direct(impl->main.info, n_periodic, update);
  for (const auto &model : impl->committee.models())
    if (problem.empty() && impl->asks_committee) problem = check_box(model->info, n_periodic);
  if (problem.empty() && impl->has_levels()) problem = check_direct(impl->inner->info(), n_periodic, update);
  if (problem.empty()) problem = check_files();
  if (problem.empty() && impl->has_levels() && utils::strmatch(force->pair_style, "^hybrid/scaled"))
    problem = "keyword `inner` does not work in hybrid/scaled, which scales only the outer level of run_style respa; "
              "use hybrid/overlay";
  if (!problem.empty()) error->all(FLERR, "pair_style mlff: " + problem);
}

/* Message-passing models have them on the CPU only. */
bool PairMLFF::has_centroid_virials() const
{
  const mlff_info *info = impl->main.info;
  if (info->traits & MLFF_STRICTLY_LOCAL) return true;
  return (info->traits & MLFF_CONSERVATIVE) && strcmp(info->device, "cpu") == 0;
}

/* compute stress/atom gives a wrong heat flux for many-body potentials. */
void PairMLFF::check_heat_flux() const
{
  if (comm->me != 0 || modify->get_compute_by_style("^heat/flux").empty()) return;
  if (!(impl->main.info->traits & MLFF_CONSERVATIVE)) return;    // compute pe/atom, which heat/flux needs, is refused
  const bool has_right = !modify->get_compute_by_style("^centroid/stress/atom").empty();
  const bool has_wrong = !modify->get_compute_by_style("^stress/atom").empty();
  if (has_centroid_virials() && has_right && !has_wrong) return;    // which of them heat/flux uses cannot be seen
  error->warning(FLERR, std::string("pair_style mlff: the virial part of compute heat/flux is wrong with compute "
                                    "stress/atom of a many-body potential: use compute centroid/stress/atom instead") +
                            (has_centroid_virials() ? "" : ", with device cpu for this model") + " [mlff-39]");
}

/* Commands of neigh_modify that remove neighbors are errors. */
void PairMLFF::check_lists() const
{
  const std::vector<int> &species = impl->main.species_of_type;
  static const char *const advice = ". pair_style mlff needs all neighbors of its atoms: remove this command [mlff-33]";
  if (neighbor->includegroup)
    error->all(FLERR, std::string("neigh_modify include removes atoms from the neighbor list") + advice);
  for (int k = 0; k < neighbor->nex_type; k++)
    if (species[neighbor->ex1_type[k]] >= 0 && species[neighbor->ex2_type[k]] >= 0)
      error->all(FLERR, "neigh_modify exclude type " + std::to_string(neighbor->ex1_type[k]) + " " +
                            std::to_string(neighbor->ex2_type[k]) + " removes pairs" + advice);

  if (neighbor->build_once)
    error->all(FLERR,
               std::string("neigh_modify once keeps the neighbor lists of the first step while atoms move") + advice);
  check_excluded_groups();
}

/* Called in the first evaluation of a step, which is not a trial: then atoms without neighbors are an error. fix gcmc
 * has an excluded group for the atoms of a trial. On several ranks (22Jul2025) it does not remove atoms from the group
 * that have moved to another rank. */
void PairMLFF::check_excluded_groups() const
{
  static const char *const advice = ". pair_style mlff needs all neighbors of its atoms: remove this command, or, if "
                                    "fix gcmc has set it, run on one rank [mlff-33]";
  const std::vector<int> &species = impl->main.species_of_type;
  impl->groups_checked_step = update->ntimestep;
  if (neighbor->nex_group == 0 && neighbor->nex_mol == 0) return;
  int present = 0, anywhere = 0;    // bits of the groups that have atoms of ours
  for (int i = 0; i < atom->nlocal; i++)
    if (species[atom->type[i]] >= 0) present |= atom->mask[i];
  MPI_Allreduce(&present, &anywhere, 1, MPI_INT, MPI_BOR, world);
  for (int k = 0; k < neighbor->nex_group; k++) {
    const int bit1 = group->bitmask[neighbor->ex1_group[k]], bit2 = group->bitmask[neighbor->ex2_group[k]];
    if ((anywhere & bit1) && (anywhere & bit2))
      error->all(FLERR, std::string("neigh_modify exclude group ") + group->names[neighbor->ex1_group[k]] + " " +
                            group->names[neighbor->ex2_group[k]] + " removes pairs" + advice);
  }
  for (int k = 0; k < neighbor->nex_mol; k++)
    if (anywhere & group->bitmask[neighbor->ex_mol_group[k]])
      error->all(FLERR, std::string("neigh_modify exclude molecule of group ") +
                            group->names[neighbor->ex_mol_group[k]] + " removes pairs" + advice);
}

/* Compares element names with masses, and prints the table of types once per pair_coeff. */
void PairMLFF::check_masses() const
{
  std::string table = "pair_style mlff: type -> element (mass of the type, mass of the element)\n";
  for (int t = 1; t <= atom->ntypes; t++) {
    const int s = impl->main.species_of_type[t];
    const char *symbol = s < 0 ? "NULL" : impl->main.info->elements[s];
    const bool known = s >= 0 && atom->mass && atom->mass_setflag[t];
    const double mass = known ? atom->mass[t] : 0.0;
    table += mlff_format("  %4d -> %-4s", t, symbol);
    if (s >= 0 && !known) table += "  (mass not set per type: not checked)";
    if (known) table += mlff_format("  (%.6g, %.6g)", mass, mlff_element_mass(symbol));
    if (known && mlff_hydrogen_isotope(symbol, mass))
      table += std::string(" note: the mass is that of ") + mlff_hydrogen_isotope(symbol, mass);
    table += "\n";
    if (!known || !impl->settings.masses || mlff_mass_fits(symbol, mass)) continue;
    error->all(FLERR, mlff_format("pair_style mlff: type %d is %s in pair_coeff, but its mass is %.6g (%s: %.6g; "
                                  "nearest element: %s). Correct the order of the elements in pair_coeff or the mass, "
                                  "or set `pair_style mlff masses no` if both are intended [mlff-31]",
                                  t, symbol, mass, symbol, mlff_element_mass(symbol), mlff_element_of_mass(mass)));
  }
  if (!impl->types_reported && comm->me == 0) utils::logmesg(lmp, table);
  impl->types_reported = true;
}

/* eV. Never accepted at any temperature, and finite in sums. */
static constexpr double OVERLAP_ENERGY = 1e20;

/* A Monte Carlo trial with overlapping atoms gets a high energy, so that the fix rejects it. Fixes other than those of
 * trials request lists as well, so an overlap without a later evaluation in its step stops the next one
 * (check_overlap). */
void PairMLFF::reject_trial(bool is_first)
{
  impl->overlap_step = update->ntimestep;
  // the first evaluation of a step is not a trial
  if (is_first || update->setupflag || !impl->main.graph.is_trial()) stop_overlap();
  if (eflag_global && comm->me == 0) eng_vdwl += impl->main.results.per_ev() * OVERLAP_ENERGY;
}

void PairMLFF::check_overlap() const
{
  if (!impl->overlap_error.empty() && impl->overlap_step != update->ntimestep) stop_overlap();
}

void PairMLFF::stop_overlap() const
{
  const bool inserts = !modify->get_fix_by_style("gcmc").empty();
  error->all(FLERR, impl->overlap_error + (inserts ? ". For fix gcmc, set its keyword overlap_cutoff" : ""));
}
