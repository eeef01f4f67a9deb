/* deviation.cpp: see deviation.h. */
#include "deviation.h"

#include "errors.h"
#include "neighbor_graph.h"
#include "results.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "update.h"

#include <algorithm>
#include <cmath>

using namespace LAMMPS_NS;

static constexpr int ROW = 6;    // values per atom of a frame: ID, type, x, y, z, deviation

/* ---------------------------------------------------------------------- */

MLFFDeviation::MLFFDeviation(LAMMPS *lammps, const MLFFNeighborGraph &source, MLFFResults &engine_results) :
    Pointers(lammps), graph(source), results(engine_results), dumped(false), warned(false)
{
}

MLFFDeviation::~MLFFDeviation()
{
  close_files();
}

void MLFFDeviation::close_files()
{
  complain(settings.out_file, file.close());
  complain(settings.dump_file, frames.close());
}

void MLFFDeviation::start(const MLFFSettings &how)
{
  close_files();
  settings = how;
  waiting = Finding();
  dumped = warned = false;
  deviations.clear();
  std::string problem;
  if (!settings.out_file.empty() && comm->me == 0) {
    problem = file.open(settings.out_file);
    if (!problem.empty()) problem = "pair_style mlff: cannot write out_file '" + settings.out_file + "': " + problem;
  }
  mlff_stop_together(lmp, problem);
  complain(settings.out_file,
           file.append(mlff_format("#%11s%19s%19s%19s%19s%19s%19s\n", "step", "max_devi_v", "min_devi_v", "avg_devi_v",
                                   "max_devi_f", "min_devi_f", "avg_devi_f")));
}

bool MLFFDeviation::is_due() const
{
  return settings.wants_deviation() && update->ntimestep % settings.out_freq == 0;
}

double MLFFDeviation::memory_usage() const
{
  return static_cast<double>((deviations.capacity() + means.capacity()) * sizeof(double));
}

/* ----------------------------------------------------------------------
   measuring
------------------------------------------------------------------------- */

void MLFFDeviation::measure_atoms(const Predictions &members)
{
  const auto n_local = static_cast<size_t>(graph.view().n_local);
  const auto n_members = static_cast<double>(members.size());
  if (members.empty()) {
    deviations.assign(results.atom_uncertainties(), results.atom_uncertainties() + n_local + 1);
    return;
  }
  const double scale = results.per_ev();
  // never empty, so that data() is not null when a rank has no atoms
  deviations.assign(n_local + 1, 0.0);
  means.assign(3 * n_local + 3, 0.0);
  for (const MLFFPrediction &member : members)
    for (size_t c = 0; c < 3 * n_local; c++) means[c] += member.forces[c] / n_members;
  for (const MLFFPrediction &member : members)
    for (size_t c = 0; c < 3 * n_local; c++)
      deviations[c / 3] += (member.forces[c] - means[c]) * (member.forces[c] - means[c]) / n_members;
  const int32_t *species = graph.species_on_host();
  const std::vector<int> &row_of = graph.nodes().row_of;
  for (size_t i = 0; i < n_local; i++) deviations[i] = species[row_of[i]] < 0 ? 0.0 : scale * std::sqrt(deviations[i]);
}

/* worst: ID of the atom with the largest deviation, 0 without atom IDs. */
MLFFDeviation::Extremes MLFFDeviation::forces_extremes(tagint &worst) const
{
  struct {
    double value;
    int rank;
  } mine = {-1.0, comm->me}, most = {-1.0, 0};
  double lowest = HUGE_VAL, sum = 0.0, total = 0.0, smallest = 0.0;
  const int32_t *species = graph.species_on_host();
  const std::vector<int> &row_of = graph.nodes().row_of;
  worst = 0;
  for (int i = 0; i < graph.view().n_local; i++) {
    if (species[row_of[i]] < 0) continue;
    if (deviations[i] > mine.value) {
      mine.value = deviations[i];
      worst = atom->tag_enable ? atom->tag[i] : 0;
    }
    lowest = std::min(lowest, deviations[i]);
    sum += deviations[i];
  }
  MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, world);
  MPI_Bcast(&worst, 1, MPI_LMP_TAGINT, most.rank, world);
  MPI_Allreduce(&lowest, &smallest, 1, MPI_DOUBLE, MPI_MIN, world);
  MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, world);
  const double n_atoms = count_atoms();
  if (n_atoms == 0.0) return {0.0, 0.0, 0.0};
  return {most.value, smallest, total / n_atoms};
}

double MLFFDeviation::count_atoms() const
{
  const int32_t *species = graph.species_on_host();
  double mine = 0.0, all = 0.0;
  for (int i = 0; i < graph.view().n_local; i++) mine += species[i] >= 0 ? 1.0 : 0.0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, world);
  return all;
}

/* Over nine components; zero for one network; the average is the root mean square, as in DeePMD-kit. */
MLFFDeviation::Extremes MLFFDeviation::virial_extremes(const Predictions &members, double n_atoms) const
{
  const size_t n = 6 * members.size();
  const auto n_members = static_cast<double>(members.size());
  if (members.empty()) return {0.0, 0.0, 0.0};
  std::vector<double> mine, all(n);
  for (const MLFFPrediction &member : members) mine.insert(mine.end(), member.virial, member.virial + 6);
  MPI_Allreduce(mine.data(), all.data(), static_cast<int>(n), MPI_DOUBLE, MPI_SUM, world);
  Extremes found = {0.0, HUGE_VAL, 0.0};
  for (size_t c = 0; c < 6; c++) {
    double mean = 0.0, variance = 0.0;
    for (size_t k = c; k < n; k += 6) mean += all[k] / n_members;
    for (size_t k = c; k < n; k += 6) variance += (all[k] - mean) * (all[k] - mean) / n_members;
    const double deviation = results.per_ev() * std::sqrt(variance) / std::max(n_atoms, 1.0);
    found.highest = std::max(found.highest, deviation);
    found.lowest = std::min(found.lowest, deviation);
    found.average += (c < 3 ? 1.0 : 2.0) / 9.0 * deviation * deviation;
  }
  found.average = std::sqrt(found.average);
  return found;
}

void MLFFDeviation::measure(const Predictions &members)
{
  measure_atoms(members);
  if (!is_due()) return;
  tagint worst;
  const Extremes forces = forces_extremes(worst), virials = virial_extremes(members, count_atoms());
  waiting = Finding();
  waiting.step = update->ntimestep;
  waiting.highest = forces.highest;
  waiting.row = row(virials, forces);
  const bool is_dumped = settings.devi_dump > 0.0 && forces.highest > settings.devi_dump;
  if (is_dumped || (settings.devi_stop > 0.0 && forces.highest > settings.devi_stop)) waiting.frame = whole_frame();
  waiting.text = (members.empty() ? "the uncertainty of atom " : "the deviation of the force on atom ") +
                 std::to_string(worst) + mlff_format(" is %.6g, ", forces.highest);
  if (!members.empty() && forces.highest == 0.0 && !warned && comm->me == 0)
    error->warning(FLERR, "pair_style mlff: all models give the same forces. If atoms are not on symmetric sites, the "
                          "files contain the same network, which has no deviation");
  warned = warned || forces.highest == 0.0;
  const bool is_last = update->whichflag != 2 && !graph.is_trial();
  if (is_last) report();
}

void MLFFDeviation::settle()
{
  if (waiting.step != update->ntimestep) end_run();
}

void MLFFDeviation::end_run()
{
  if (waiting.step >= 0) report();
}

/* ----------------------------------------------------------------------
   writing
------------------------------------------------------------------------- */

void MLFFDeviation::report()
{
  Finding found;
  std::swap(found, waiting);
  if (file.is_open()) complain(settings.out_file, file.append(found.row));
  const bool stops = settings.devi_stop > 0.0 && found.highest > settings.devi_stop;
  if (!found.frame.empty()) {
    complain(settings.dump_file, dumped ? "" : frames.open(settings.dump_file));
    if (frames.is_open()) complain(settings.dump_file, frames.append(found.frame));
    dumped = true;
  }
  const std::string text = "pair_style mlff: in step " + std::to_string(found.step) + " " + found.text;
  const char *const advice = ": the structure may be outside the training domain";
  if (stops)
    error->all(FLERR, text + mlff_format("more than devi_stop %.6g", settings.devi_stop) + advice +
                          (frames.is_open() ? ". The frame is in " + settings.dump_file : ""));
  if (settings.devi_warn > 0.0 && found.highest > settings.devi_warn && comm->me == 0)
    error->warning(FLERR, text + mlff_format("more than devi_warn %.6g", settings.devi_warn) + advice);
}

std::string MLFFDeviation::row(const Extremes &virials, const Extremes &forces) const
{
  return mlff_format("%12lld %18.6e %18.6e %18.6e %18.6e %18.6e %18.6e\n", static_cast<long long>(update->ntimestep),
                     virials.highest, virials.lowest, virials.average, forces.highest, forces.lowest, forces.average);
}

void MLFFDeviation::complain(const std::string &path, const std::string &problem)
{
  if (!problem.empty())
    error->warning(FLERR, "pair_style mlff: cannot write '" + path + "': " + problem +
                              ". The file is incomplete, and the run continues");
}

/* The frame of all ranks, on rank 0; empty on others. Collective. */
std::string MLFFDeviation::whole_frame() const
{
  const int n_local = atom->nlocal, n_mine = ROW * n_local;
  std::vector<double> mine;
  for (int i = 0; i < n_local; i++) {
    const double id = atom->tag_enable ? static_cast<double>(atom->tag[i]) : 0.0;
    mine.insert(mine.end(),
                {id, static_cast<double>(atom->type[i]), atom->x[i][0], atom->x[i][1], atom->x[i][2], deviations[i]});
  }
  std::vector<int> sizes(static_cast<size_t>(comm->nprocs)), starts(sizes.size(), 0);
  MPI_Gather(&n_mine, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, world);
  for (size_t k = 1; k < sizes.size(); k++) starts[k] = starts[k - 1] + sizes[k - 1];
  std::vector<double> all(comm->me == 0 ? static_cast<size_t>(starts.back() + sizes.back()) : 0);
  MPI_Gatherv(mine.data(), n_mine, MPI_DOUBLE, all.data(), sizes.data(), starts.data(), MPI_DOUBLE, 0, world);
  return comm->me == 0 ? frame(all) : "";
}

/* Atoms in the order of their IDs. */
std::string MLFFDeviation::frame(const std::vector<double> &rows) const
{
  std::vector<const double *> order;
  for (size_t k = 0; k < rows.size(); k += ROW) order.push_back(&rows[k]);
  std::sort(order.begin(), order.end(), [](const double *a, const double *b) { return a[0] < b[0]; });

  char boundary[16];
  domain->boundary_string(boundary);
  const bool tilted = domain->triclinic != 0;
  const double *low = tilted ? domain->boxlo_bound : domain->boxlo;
  const double *high = tilted ? domain->boxhi_bound : domain->boxhi;
  const double tilt[3] = {domain->xy, domain->xz, domain->yz};
  std::string text = mlff_format("ITEM: TIMESTEP\n%lld\nITEM: NUMBER OF ATOMS\n%zu\n",
                                 static_cast<long long>(update->ntimestep), order.size());
  text += mlff_format("ITEM: BOX BOUNDS %s%s\n", tilted ? "xy xz yz " : "", boundary);
  for (int d = 0; d < 3; d++)
    text += mlff_format("%.16g %.16g", low[d], high[d]) + (tilted ? mlff_format(" %.16g\n", tilt[d]) : "\n");
  text += "ITEM: ATOMS id type x y z deviation\n";
  for (const double *r : order)
    text += mlff_format("%.0f %.0f %.10g %.10g %.10g %.6e\n", r[0], r[1], r[2], r[3], r[4], r[5]);
  return text;
}
