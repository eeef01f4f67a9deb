/* pair_count.cpp: see pair_count.h.
 *
 * Each rank sends its atoms and their periodic images to every rank whose bounding box is within the cutoff, and counts
 * pairs with a cell list. Images use the vectors of the simulation box only.
 */
#include "pair_count.h"

#include "../base/cxx/cells.h"
#include "errors.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace LAMMPS_NS;

using Vector = MLFFCells::Vector;
using Bounds = MLFFCells::Bounds;

/* Rounding: pairs this close to the cutoff may or may not count. */
static constexpr double MARGIN = 1e-6;    // A

/* Extent of all atoms along the box vectors, in box lengths, at most MOST_BOXES: atoms may leave the box before a list
 * is built. Collective. */
static Vector find_spans(const std::vector<double> &points, Domain *domain, MPI_Comm world)
{
  constexpr double MOST_BOXES = 20.0;
  double mine[6], most[6];    // maximum coordinates, minus minimum coordinates
  std::fill_n(mine, 6, -std::numeric_limits<double>::max());
  for (size_t k = 0; k < points.size(); k += 3) {
    double x[3] = {points[k], points[k + 1], points[k + 2]}, lamda[3];
    domain->x2lamda(x, lamda);
    for (int d = 0; d < 3; d++) {
      if (!std::isfinite(lamda[d])) continue;
      mine[d] = std::max(mine[d], lamda[d]);
      mine[d + 3] = std::max(mine[d + 3], -lamda[d]);
    }
  }
  MPI_Allreduce(mine, most, 6, MPI_DOUBLE, MPI_MAX, world);
  Vector spans;
  for (int d = 0; d < 3; d++) spans[d] = std::min(MOST_BOXES, std::max(1.0, most[d] + most[d + 3]));
  return spans;
}

/* Vectors of the images that may be within `reach` of an atom. */
static std::vector<Vector> image_vectors(const Domain *domain, double reach, const Vector &spans)
{
  const Vector a = {domain->xprd, 0.0, 0.0}, b = {domain->xy, domain->yprd, 0.0},
               c = {domain->xz, domain->yz, domain->zprd};
  // distances between opposite faces
  const Vector normal_x = {b[1] * c[2], -b[0] * c[2], b[0] * c[1] - b[1] * c[0]};
  const double length = std::sqrt(normal_x[0] * normal_x[0] + normal_x[1] * normal_x[1] + normal_x[2] * normal_x[2]);
  const Vector height = {a[0] * b[1] * c[2] / length, b[1] * c[2] / std::hypot(c[1], c[2]), c[2]};
  const std::array<int, 3> periodic = {domain->xperiodic, domain->yperiodic, domain->zperiodic};
  std::array<int, 3> most = {};
  for (int d = 0; d < 3; d++) most[d] = periodic[d] ? static_cast<int>(std::ceil(spans[d] + reach / height[d])) : 0;
  std::vector<Vector> found;
  for (int i = -most[0]; i <= most[0]; i++)
    for (int j = -most[1]; j <= most[1]; j++)
      for (int k = -most[2]; k <= most[2]; k++)
        found.push_back({i * a[0] + j * b[0] + k * c[0], j * b[1] + k * c[1], k * c[2]});
  return found;
}

static bool is_near(const Bounds &b, const Vector &low, const Vector &high, double reach)
{
  for (int d = 0; d < 3; d++)
    if (low[d] > b.high[d] + reach || high[d] < b.low[d] - reach) return false;
  return true;
}

void MLFFPairCount::collect_own(const std::vector<int> &species_of_type)
{
  points.clear();
  for (int i = 0; i < atom->nlocal; i++)
    if (species_of_type[atom->type[i]] >= 0 && !(atom->mask[i] & excluded))
      points.insert(points.end(), atom->x[i], atom->x[i] + 3);
}

/* Appends images and atoms of other ranks to `points`. */
void MLFFPairCount::collect_near(double reach)
{
  const int n_ranks = comm->nprocs, me = comm->me;
  const Bounds mine = MLFFCells::bounds_of(points);
  std::vector<Bounds> all(static_cast<size_t>(n_ranks), mine);
  if (n_ranks > 1) MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, world);
  const std::vector<Vector> images = image_vectors(domain, reach, find_spans(points, domain, world));
  std::vector<double> leaving;
  std::vector<int> n_leaving(static_cast<size_t>(n_ranks)), n_arriving(n_leaving), send_start(n_leaving),
      receive_start(n_leaving);
  for (int rank = 0; rank < n_ranks; rank++) {
    send_start[rank] = static_cast<int>(leaving.size());
    for (const Vector &s : images) {
      const bool is_itself = rank == me && s[0] == 0.0 && s[1] == 0.0 && s[2] == 0.0;
      const Vector low = {mine.low[0] + s[0], mine.low[1] + s[1], mine.low[2] + s[2]};
      const Vector high = {mine.high[0] + s[0], mine.high[1] + s[1], mine.high[2] + s[2]};
      if (is_itself || points.empty() || !is_near(all[rank], low, high, reach)) continue;
      for (size_t k = 0; k < points.size(); k += 3) {
        const Vector x = {points[k] + s[0], points[k + 1] + s[1], points[k + 2] + s[2]};
        if (is_near(all[rank], x, x, reach)) leaving.insert(leaving.end(), x.begin(), x.end());
      }
    }
    n_leaving[rank] = static_cast<int>(leaving.size()) - send_start[rank];
  }
  if (n_ranks == 1) {
    points.insert(points.end(), leaving.begin(), leaving.end());
    return;
  }
  MPI_Alltoall(n_leaving.data(), 1, MPI_INT, n_arriving.data(), 1, MPI_INT, world);
  int total = 0;
  for (int rank = 0; rank < n_ranks; rank++) {
    receive_start[rank] = total;
    total += n_arriving[rank];
  }
  arrived.resize(static_cast<size_t>(total) + 1);
  MPI_Alltoallv(leaving.data(), n_leaving.data(), send_start.data(), MPI_DOUBLE, arrived.data(), n_arriving.data(),
                receive_start.data(), MPI_DOUBLE, world);
  points.insert(points.end(), arrived.begin(), arrived.begin() + total);
}

/* counts[0], counts[1]: adds pairs of the first n_own points closer than low, and closer than high. */
void MLFFPairCount::count(size_t n_own, double low, double high, bigint *counts) const
{
  if (n_own == 0) return;
  const MLFFCells cells(points, high);
  for (size_t i = 0; i < n_own; i++)
    cells.for_near(&points[3 * i], [i, low, high, counts](size_t j, double r2) {
      if (j == i || r2 >= high * high) return;
      counts[0] += r2 < low * low;
      counts[1]++;
    });
}

std::string MLFFPairCount::compare(bigint n_seen, double cutoff, const std::vector<int> &species_of_type)
{
  collect_own(species_of_type);
  const size_t n_own = points.size() / 3;
  collect_near(cutoff + MARGIN);
  bigint mine[3] = {0, 0, n_seen}, all[3];
  count(n_own, cutoff - MARGIN, cutoff + MARGIN, mine);
  points = std::vector<double>();
  arrived = std::vector<double>();
  MPI_Allreduce(mine, all, 3, MPI_LMP_BIGINT, MPI_SUM, world);
  if (all[0] <= all[2] && all[2] <= all[1]) return "";
  return mlff_format("the neighbor lists contain %lld pairs of neighbors within the cutoff of %g A, but there are "
                     "%lld: a command removes or duplicates neighbors or ghost atoms. Check comm_modify group, "
                     "neigh_modify, special_bonds, change_box before `run N pre no`, and, in pair_style hybrid, "
                     "pair_coeff of other styles for types of this style [mlff-34]",
                     static_cast<long long>(all[2]), cutoff, static_cast<long long>(all[0]));
}
