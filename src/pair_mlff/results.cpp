/* results.cpp: see results.h. */
#include "results.h"

#include "halo.h"
#include "neighbor_graph.h"

#include "atom.h"
#include "comm.h"
#include "force.h"
#include "update.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace LAMMPS_NS;

// The factor of `real` is the one that LAMMPS itself uses when it converts potential files.
static constexpr MLFFUnits UNITS[] = {{"metal", "eV", 1.0}, {"real", "kcal/mol", 23.060549}};

static constexpr int VIRIAL_WIDTH = 9;

/* ---------------------------------------------------------------------- */

MLFFResults::MLFFResults(LAMMPS *lammps, MLFFNeighborGraph &made_from, MLFFHalo &between_ranks) :
    Pointers(lammps), graph(made_from), halo(between_ranks), view(made_from.view()), nodes(made_from.nodes()),
    units(nullptr), results{}
{
}

const MLFFUnits *MLFFResults::find_units(const char *name)
{
  for (const auto &entry : UNITS)
    if (strcmp(entry.style, name) == 0) return &entry;
  return nullptr;
}

std::string MLFFResults::supported_units()
{
  std::string text;
  for (const auto &entry : UNITS) text += std::string(text.empty() ? "" : ", ") + entry.style;
  return text;
}

void MLFFResults::set_model(const mlff_info *info)
{
  units = find_units(update->unit_style);
  member_energies.assign(static_cast<size_t>(info->n_members), 0.0);
  uncertainties_are_forces = info->uncertainty_unit && strcmp(info->uncertainty_unit, "relative") != 0;
}

/* Room for n rows and one more, so that it is not null on a rank without atoms. */
template <class Row> static Row *room(std::vector<double> &array, size_t n)
{
  constexpr size_t width = sizeof(Row) / sizeof(double);
  if (array.size() < width * (n + 1)) array.resize(width * (n + 1));
  return reinterpret_cast<Row *>(array.data());
}

mlff_result *MLFFResults::request(const Wanted &wanted)
{
  using Vector = double[3];
  using Virial = double[6];
  using Tensor = double[9];
  const auto n_local = static_cast<size_t>(view.n_local), n_nodes = static_cast<size_t>(view.n_nodes);
  const size_t n_members = member_energies.size();
  results = {};
  if (!view.on_device || reverses_forces()) results.forces = room<Vector>(forces, n_nodes);
  if (wanted.atom_energy) results.atom_energy = room<double>(atom_energies, n_local);
  if (wanted.atom_virial) results.atom_virial = room<Tensor>(virials, n_nodes);
  if (wanted.atom_centroid) results.atom_centroid = room<Tensor>(centroids, n_nodes);
  if (wanted.spread) results.atom_spread = room<double>(spread, n_local);
  if (wanted.spread) results.member_energy = member_energies.data();
  if (wanted.members) results.member_forces = room<Vector>(member_forces, n_nodes * n_members);
  if (wanted.uncertainty) results.atom_uncertainty = room<double>(unsorted, n_local);
  if (wanted.members) results.member_virial = room<Virial>(member_virials, n_members);
  return &results;
}

/* With newton_pair on, LAMMPS adds f of ghosts to their owners; otherwise this style does, on the host. */
bool MLFFResults::reverses_forces() const
{
  return halo.is_needed() && !force->newton_pair;
}

void MLFFResults::reverse_forces()
{
  if (reverses_forces()) halo.reverse_to_owners(forces.data(), 3);
}

void MLFFResults::add_forces()
{
  reverse_forces();
  MLFFArrays *arrays = graph.other_arrays();
  if (!arrays) {
    add_forces_of_atoms(1.0);
    return;
  }
  const bool on_host = results.forces != nullptr;
  arrays->add_forces(on_host ? forces.data() : &results.device_forces[0][0], on_host, units->per_ev, view.n_local,
                     force->newton_pair != 0);
}

void MLFFResults::add_forces_of_atoms(double factor)
{
  double **f = atom->f;
  const double scale = factor * units->per_ev;
  const double *values = forces.data();
  for (int i = 0; i < view.n_local; i++)
    for (int d = 0; d < 3; d++) f[i][d] += scale * values[3 * nodes.row_of[i] + d];
  if (!force->newton_pair) return;
  values += 3 * static_cast<size_t>(view.n_local);
  for (size_t k = 0; k < nodes.ghost_of_node.size(); k++)
    for (int d = 0; d < 3; d++) f[nodes.ghost_of_node[k]][d] += scale * values[3 * k + d];
}

const double (*MLFFResults::whole_forces())[3]
{
  using Vector = double[3];
  if (!results.forces) return nullptr;
  const bool is_whole = !halo.is_needed() || reverses_forces();
  if (!is_whole) {
    whole.assign(forces.begin(), forces.end());
    halo.reverse_to_owners(whole.data(), 3);
  }
  return reinterpret_cast<const Vector *>(is_whole ? forces.data() : whole.data());
}

MLFFPrediction MLFFResults::prediction()
{
  const double(*rows)[3] = whole_forces();
  if (!graph.has_order()) return {&rows[0][0], results.virial};
  ordered.resize(3 * static_cast<size_t>(view.n_local) + 3);
  for (int i = 0; i < view.n_local; i++) std::copy_n(rows[nodes.row_of[i]], 3, &ordered[3 * i]);
  return {ordered.data(), results.virial};
}

/* Ensembles keep the order of LAMMPS. */
std::vector<MLFFPrediction> MLFFResults::member_predictions()
{
  std::vector<MLFFPrediction> members;
  for (size_t k = 0; k < member_energies.size(); k++) {
    double *rows = &member_forces[3 * static_cast<size_t>(view.n_nodes) * k];
    halo.reverse_to_owners(rows, 3);
    members.push_back({rows, &member_virials[6 * k]});
  }
  return members;
}

void MLFFResults::add_virial(double *virial) const
{
  for (int k = 0; k < 6; k++) virial[k] += units->per_ev * results.virial[k];
}

void MLFFResults::add_atom_energies(double *eatom) const
{
  for (int i = 0; i < view.n_local; i++) eatom[i] += units->per_ev * atom_energies[nodes.row_of[i]];
}

/* Not through ghosts of vatom, because LAMMPS treats them differently by newton and in hybrid. */
void MLFFResults::add_atom_virials(double **vatom)
{
  halo.reverse_to_owners(virials.data(), VIRIAL_WIDTH);
  for (int i = 0; i < view.n_local; i++)
    for (int k = 0; k < 6; k++) vatom[i][k] += units->per_ev * virials[9 * static_cast<size_t>(nodes.row_of[i]) + k];
}

void MLFFResults::add_centroid_virials(double **cvatom)
{
  halo.reverse_to_owners(centroids.data(), VIRIAL_WIDTH);
  for (int i = 0; i < view.n_local; i++)
    for (int k = 0; k < 9; k++) cvatom[i][k] += units->per_ev * centroids[9 * static_cast<size_t>(nodes.row_of[i]) + k];
}

void MLFFResults::scale_spread()
{
  const int32_t *element = graph.species_on_host();
  for (int i = 0; i < view.n_local; i++) spread[i] = element[nodes.row_of[i]] < 0 ? 0.0 : spread[i] * units->per_ev;
}

void MLFFResults::sort_uncertainties()
{
  const auto n_local = static_cast<size_t>(view.n_local);
  const double scale = uncertainties_are_forces ? units->per_ev : 1.0;
  uncertainties.resize(n_local + 1);    // not empty on a rank without atoms
  for (size_t i = 0; i < n_local; i++) uncertainties[i] = scale * unsorted[static_cast<size_t>(nodes.row_of[i])];
}

void MLFFResults::reduce_spread(double *three)
{
  const int n_members = static_cast<int>(member_energies.size());
  double sums[2] = {0.0, 0.0}, totals[2], largest = 0.0, overall;
  const int32_t *element = graph.species_on_host();
  for (int i = 0; i < view.n_local; i++) {
    sums[0] += spread[i] * spread[i];
    sums[1] += element[i] >= 0 ? 1.0 : 0.0;
    largest = std::max(largest, spread[i]);
  }
  MPI_Reduce(sums, totals, 2, MPI_DOUBLE, MPI_SUM, 0, world);
  MPI_Reduce(&largest, &overall, 1, MPI_DOUBLE, MPI_MAX, 0, world);
  void *send = comm->me == 0 ? MPI_IN_PLACE : static_cast<void *>(member_energies.data());
  MPI_Reduce(send, member_energies.data(), n_members, MPI_DOUBLE, MPI_SUM, 0, world);

  three[0] = three[1] = three[2] = 0.0;
  if (comm->me != 0) return;
  double mean = 0.0, variance = 0.0;
  for (const double e : member_energies) mean += e / n_members;
  for (const double e : member_energies) variance += (e - mean) * (e - mean) / (n_members - 1);
  three[0] = units->per_ev * std::sqrt(variance);
  three[1] = totals[1] > 0.0 ? std::sqrt(totals[0] / totals[1]) : 0.0;
  three[2] = overall;
}

/* ---------------------------------------------------------------------- */

double MLFFResults::memory_usage() const
{
  const size_t numbers = whole.capacity() + ordered.capacity() + forces.capacity() + virials.capacity() +
                         centroids.capacity() + atom_energies.capacity() + member_energies.capacity() +
                         spread.capacity() + member_forces.capacity() + unsorted.capacity() + uncertainties.capacity();
  return static_cast<double>(numbers * sizeof(double));
}
