/* lammps_io.cpp: see lammps_io.h. */
#include "lammps_io.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "fix.h"
#include "force.h"
#include "lammps.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "pair.h"
#include "update.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace LAMMPS_NS;

// The factor of `real` is the one that LAMMPS itself uses when it converts potential files.
static constexpr MLFFUnits UNITS[] = {{"metal", "eV", 1.0}, {"real", "kcal/mol", 23.060549}};

/* ---------------------------------------------------------------------- */

MLFFIO::MLFFIO(LAMMPS *lammps, Pair *pair_style, Fix *fix_style) :
    Pointers(lammps), pair(pair_style), fix(fix_style), arrays(nullptr), units(nullptr), cutoff(0.0), exchange_width(0),
    reverse_comm(VIRIAL_WIDTH), n_members(1), tags_needed(false), comm_needed(false),
    reorders(false), view{}, exchange{}, results{}, last_list(nullptr), last_build(-1), features(lammps->world),
    reverse_rows(nullptr), reverse_width(0), reverse_floats(false), reverse_atoms(false), travelling(false)
{
  exchange.context = this;
  exchange.forward = forward_features;
  exchange.begin = begin_features;
  exchange.progress = move_features;
  exchange.finish = finish_features;
  exchange.reverse = reverse_features;
  exchange.reduce = reduce_values;
}

MLFFIO::MLFFIO(LAMMPS *lammps, Pair *style) : MLFFIO(lammps, style, nullptr) {}

MLFFIO::MLFFIO(LAMMPS *lammps, Fix *style) : MLFFIO(lammps, nullptr, style) {}

const MLFFUnits *MLFFIO::find_units(const char *name)
{
  for (const auto &entry : UNITS)
    if (strcmp(entry.style, name) == 0) return &entry;
  return nullptr;
}

std::string MLFFIO::supported_units()
{
  std::string text;
  for (const auto &entry : UNITS) text += std::string(text.empty() ? "" : ", ") + entry.style;
  return text;
}

void MLFFIO::set_model(const mlff_info *info, const std::vector<int> &mapping)
{
  units = find_units(update->unit_style);
  species_of_type = mapping;
  cutoff = info->cutoff;
  exchange_width = info->exchange_width;
  reverse_comm = std::max(VIRIAL_WIDTH, info->reverse_width);
  tags_needed = info->reverse_width > 0;
  n_members = info->n_members;
  comm_needed = comm->nprocs > 1;
  reorders = comm_needed && exchange_width > 0 && n_members == 1;
  member_energies.assign(static_cast<size_t>(n_members), 0.0);
  last_list = nullptr;
}

int MLFFIO::forward_width() const
{
  return FORWARD_WIDTH;
}

int MLFFIO::reverse_comm_width() const
{
  return reverse_comm;
}

/* ----------------------------------------------------------------------
   towards LAMMPS
------------------------------------------------------------------------- */

mlff_result *MLFFIO::result(const Wanted &wanted)
{
  const auto n_local = static_cast<size_t>(view.n_local), n_nodes = static_cast<size_t>(view.n_nodes);
  results = {};
  if (!view.on_device || forces_go_home()) {
    // never empty, so that data() is not null when a rank has no atoms
    if (forces.size() < 3 * n_nodes + 3) forces.resize(3 * n_nodes + 3);
    results.forces = reinterpret_cast<double(*)[3]>(forces.data());
  }
  if (wanted.atom_energy) {
    if (atom_energies.size() < n_local + 1) atom_energies.resize(n_local + 1);
    results.atom_energy = atom_energies.data();
  }
  if (wanted.atom_virial) {
    if (virials.size() < 9 * n_nodes + 9) virials.resize(9 * n_nodes + 9);
    results.atom_virial = reinterpret_cast<double(*)[9]>(virials.data());
  }
  if (wanted.atom_centroid) {
    if (centroids.size() < 9 * n_nodes + 9) centroids.resize(9 * n_nodes + 9);
    results.atom_centroid = reinterpret_cast<double(*)[9]>(centroids.data());
  }
  if (wanted.spread) {
    if (spread.size() < n_local + 1) spread.resize(n_local + 1);
    results.atom_spread = spread.data();
    results.member_energy = member_energies.data();
  }
  if (wanted.members) {
    const size_t size = 3 * n_nodes * static_cast<size_t>(n_members) + 3;
    if (member_forces.size() < size) member_forces.resize(size);
    member_virials.resize(6 * static_cast<size_t>(n_members));
    results.member_forces = reinterpret_cast<double(*)[3]>(member_forces.data());
    results.member_virial = reinterpret_cast<double(*)[6]>(member_virials.data());
  }
  return &results;
}

/* With newton_pair on, LAMMPS sends what is in f of the ghosts home; otherwise it is done here, on the host. */
bool MLFFIO::forces_go_home() const
{
  return comm_needed && !force->newton_pair;
}

void MLFFIO::add_forces()
{
  if (forces_go_home()) reverse(forces.data(), 3, false);
  if (!arrays) {
    add_plain_forces();
    return;
  }
  const bool on_host = results.forces != nullptr;
  arrays->add_forces(on_host ? forces.data() : &results.device_forces[0][0], on_host, units->per_ev, view.n_local,
                     force->newton_pair != 0);
}

void MLFFIO::add_plain_forces()
{
  double **f = atom->f;
  const double scale = units->per_ev;
  const double *values = forces.data();
  for (int i = 0; i < view.n_local; i++)
    for (int d = 0; d < 3; d++) f[i][d] += scale * values[3 * row_of[i] + d];
  if (!force->newton_pair) return;
  values += 3 * static_cast<size_t>(view.n_local);
  for (size_t k = 0; k < ghost_of_node.size(); k++)
    for (int d = 0; d < 3; d++) f[ghost_of_node[k]][d] += scale * values[3 * k + d];
}

const double (*MLFFIO::owned_forces())[3]
{
  if (comm_needed) reverse(forces.data(), 3, false);
  if (!reorders) return reinterpret_cast<const double(*)[3]>(forces.data());
  ordered.resize(3 * static_cast<size_t>(view.n_local) + 3);
  for (int i = 0; i < view.n_local; i++) std::copy_n(&forces[3 * row_of[i]], 3, &ordered[3 * i]);
  return reinterpret_cast<const double(*)[3]>(ordered.data());
}

const double (*MLFFIO::owned_member_forces(int k))[3]
{
  double *rows_of_member = member_forces.data() + 3 * static_cast<size_t>(view.n_nodes) * static_cast<size_t>(k);
  if (comm_needed) reverse(rows_of_member, 3, false);
  return reinterpret_cast<const double(*)[3]>(rows_of_member);
}

void MLFFIO::add_ghosts(double (*values)[3])
{
  reverse_atoms = true;
  reverse(&values[0][0], 3, false);
  reverse_atoms = false;
}

void MLFFIO::add_virial(double *virial) const
{
  for (int k = 0; k < 6; k++) virial[k] += units->per_ev * results.virial[k];
}

void MLFFIO::add_atom_energies(double *eatom) const
{
  for (int i = 0; i < view.n_local; i++) eatom[i] += units->per_ev * atom_energies[row_of[i]];
}

/* The shares of atoms of other ranks go home here and not through the ghosts of vatom, whose treatment differs between
 * newton settings and between plain and hybrid styles. */
void MLFFIO::add_atom_virials(double **vatom)
{
  if (comm_needed) reverse(virials.data(), VIRIAL_WIDTH, false);
  for (int i = 0; i < view.n_local; i++)
    for (int k = 0; k < 6; k++) vatom[i][k] += units->per_ev * virials[9 * static_cast<size_t>(row_of[i]) + k];
}

void MLFFIO::add_centroid_virials(double **cvatom)
{
  if (comm_needed) reverse(centroids.data(), VIRIAL_WIDTH, false);
  for (int i = 0; i < view.n_local; i++)
    for (int k = 0; k < 9; k++) cvatom[i][k] += units->per_ev * centroids[9 * static_cast<size_t>(row_of[i]) + k];
}

void MLFFIO::scale_spread()
{
  const int32_t *element = species_on_host();
  for (int i = 0; i < view.n_local; i++) spread[i] = element[i] < 0 ? 0.0 : spread[i] * units->per_ev;
}

void MLFFIO::reduce_spread(double *three)
{
  double sums[2] = {0.0, 0.0}, totals[2], largest = 0.0, overall;
  const int32_t *element = species_on_host();
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

/* ----------------------------------------------------------------------
   failures
------------------------------------------------------------------------- */

void LAMMPS_NS::mlff_stop_together(LAMMPS *lmp, const std::string &problem)
{
  const int me = lmp->comm->me, n_ranks = lmp->comm->nprocs;
  if (n_ranks == 1) {
    if (!problem.empty()) lmp->error->all(FLERR, problem);
    return;
  }
  int mine = problem.empty() ? n_ranks : me, lowest;
  MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, lmp->world);
  if (lowest == n_ranks) return;
  char text[2048] = "";
  if (me == lowest) snprintf(text, sizeof(text), "%s", problem.c_str());
  MPI_Bcast(text, sizeof(text), MPI_CHAR, lowest, lmp->world);
  lmp->error->all(FLERR, std::string(text));
}

std::string MLFFIO::atom_name(int i) const
{
  if (arrays) arrays->sync_atom();
  if (!atom->tag_enable) return "atom " + std::to_string(i) + " of rank " + std::to_string(comm->me);
  return "atom " + std::to_string(atom->tag[i]);
}

std::string MLFFIO::suspects() const
{
  const mlff_graph g = graph_on_host();
  const double(*x)[3] = g.pos;
  for (int i = 0; i < g.n_all; i++)
    if (!std::isfinite(x[i][0] + x[i][1] + x[i][2]))
      return "; the position of " + atom_name(atom_of(i)) + " is not a number";

  int closest_i = -1, closest_j = -1;
  double smallest = cutoff * cutoff;
  for (int i = 0; i < g.n_local; i++) {
    for (int64_t p = g.row[i]; p < g.row[i + 1]; p++) {
      const int j = g.nbr[p];
      const double dx = x[j][0] - x[i][0], dy = x[j][1] - x[i][1], dz = x[j][2] - x[i][2];
      const double rsq = dx * dx + dy * dy + dz * dz;
      if (rsq >= smallest) continue;
      smallest = rsq;
      closest_i = i;
      closest_j = j;
    }
  }
  if (closest_i < 0) return "";
  char distance[32];
  snprintf(distance, sizeof(distance), "%.4g", std::sqrt(smallest));
  return "; the closest atoms on this rank are " + atom_name(atom_of(closest_i)) + " and " +
         atom_name(atom_of(closest_j)) + " at " + distance + " A";
}

/* ---------------------------------------------------------------------- */

template <class T> static double bytes_of(const std::vector<T> &v)
{
  return static_cast<double>(v.capacity() * sizeof(T));
}

double MLFFIO::memory_usage() const
{
  return bytes_of(species) + bytes_of(node) + bytes_of(nbr) + bytes_of(row) + bytes_of(tags) + bytes_of(owner_rank) +
         bytes_of(ghost_of_node) + bytes_of(listed) + bytes_of(row_of) + bytes_of(owned) + bytes_of(at_boundary) +
         bytes_of(wanted_ghost) + bytes_of(positions) + bytes_of(ordered) + bytes_of(forces) + bytes_of(virials) +
         bytes_of(centroids) + bytes_of(atom_energies) + bytes_of(member_energies) + bytes_of(spread) +
         bytes_of(member_forces) + bytes_of(remote_rank) + bytes_of(remote_index) + features.memory_usage() +
         (arrays ? arrays->memory_usage() : 0.0);
}
