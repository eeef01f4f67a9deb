/* memory_forecast.cpp: see memory_forecast.h. */
#include "memory_forecast.h"

#include "errors.h"
#include "exchange/machine.h"
#include "../base/cxx/host_room.h"

#include "atom.h"
#include "comm.h"
#include "fix.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace LAMMPS_NS;

static constexpr double MB = 1e-6;
static constexpr double SAFETY = 0.95;    // of the system sizes that are reported to fit

/* Memory of one rank, sent as bytes within a machine. */
struct MLFFMemoryForecast::Share {
  double n_atoms;
  double lammps;                    // atoms, lists, communication; allocated
  double pair;                      // arrays of the pair style on the host; allocated
  double host_first, host_later;    // of the engine on the host, not yet allocated: first step, after growth
  double model, held;               // of the engine on its device: independent of atoms, and total
  double first, later;              // the same after the first step, and after growth
  double room;                      // of the processes of this machine
  double own_room;                  // of this process
  double gpu_free;                  // 0 without a GPU
  char gpu[24];
};

/* Number of atoms that fit into `room` if n atoms need `wanted`. */
static double atoms_that_fit(double n, double room, double wanted)
{
  return wanted > 0.0 ? SAFETY * n * room / wanted : INFINITY;
}

static std::string too_large(const std::string &where, double atoms, double wanted, double room, double fit,
                             const std::string &limit, const char *advice)
{
  return mlff_format("pair_style mlff: not enough memory %s: its %.0f atoms need %.1f MB more, but %.1f MB are free "
                     "(%s). About %.0f atoms fit there; use %s [mlff-38]",
                     where.c_str(), atoms, wanted * MB, std::max(0.0, room) * MB, limit.c_str(),
                     std::max(0.0, std::floor(fit)), advice);
}

/* Shares of the ranks of this machine. Returns an error or "". fit: largest number of atoms that fits. */
std::string MLFFMemoryForecast::judge(const Share *shares, int n, double &fit) const
{
  static const char *const advice = "more nodes, fewer atoms, a smaller neighbor skin or `precision fp32`";
  double atoms = 0.0, there = 0.0, first = 0.0, later = 0.0;
  for (int k = 0; k < n; k++) {
    const Share &s = shares[k];
    const double has = s.lammps + s.pair;
    atoms += s.n_atoms;
    there += has;
    first += s.host_first;
    later += s.host_later;
    const double own_fit = atoms_that_fit(s.n_atoms, has + s.own_room, has + s.host_later);
    fit = std::min(fit, n * own_fit);
    if (s.host_first > s.own_room)
      return too_large("for one rank", s.n_atoms, s.host_first, s.own_room, own_fit, mlff_own_room().limit, advice);
  }
  const double room = shares[0].room, shared_fit = atoms_that_fit(atoms, there + room, there + later);
  fit = std::min(fit, shared_fit);
  if (first <= room) return judge_gpu(shares, n, fit);
  return too_large("on the machine of rank " + std::to_string(comm->me), atoms, first, room, shared_fit,
                   mlff_shared_room().limit, advice);
}

/* The same for GPUs, which several ranks may share. */
std::string MLFFMemoryForecast::judge_gpu(const Share *shares, int n, double &fit) const
{
  static const char *const advice = "more GPUs, fewer atoms, a smaller neighbor skin or `device cpu`";
  for (int k = 0; k < n; k++) {
    if (!shares[k].gpu[0]) continue;
    double atoms = 0.0, there = 0.0, first = 0.0, later = 0.0, room = shares[k].gpu_free;
    for (int q = 0; q < n; q++) {
      const Share &s = shares[q];
      if (strcmp(s.gpu, shares[k].gpu) != 0) continue;
      atoms += s.n_atoms;
      there += s.held - s.model;
      first += s.first - s.held;
      later += s.later - s.model;
      room = std::min(room, s.gpu_free);
    }
    const double gpu_fit = atoms_that_fit(atoms, there + room, later);
    fit = std::min(fit, n * gpu_fit * shares[k].n_atoms / std::max(1.0, atoms));
    if (first > room)
      return too_large(std::string("on GPU ") + shares[k].gpu, atoms, first, room, gpu_fit, "its free memory", advice);
  }
  return "";
}

/* Sum over the parts, which use one device. */
mlff_forecast MLFFMemoryForecast::add(const std::vector<Part> &parts) const
{
  mlff_forecast sum = {};
  for (const Part &part : parts) {
    mlff_forecast f;
    mlff_error problem = {};
    const mlff_status status = mlff_model_forecast(part.model, part.graph, part.wanted, &f, &problem);
    mlff_stop_together(lmp, status ? std::string("pair_style mlff: ") + problem.text : "");
    sum.model_bytes += f.model_bytes;
    sum.held_bytes += f.held_bytes;
    sum.first_bytes += f.first_bytes;
    sum.later_bytes += f.later_bytes;
    sum.host_bytes += f.host_bytes;
    sum.free_bytes = f.free_bytes;
  }
  return sum;
}

/* Neighbor lists without that of `fix mlffprof ... compare`. */
static double lists_of_run(const Neighbor *neighbor, double bytes)
{
  for (int k = 0; k < neighbor->nlist; k++) {
    NeighList *list = neighbor->lists[k];
    if (list->requestor_type == NeighList::FIX &&
        strcmp(static_cast<const Fix *>(list->requestor)->style, "mlffprof") == 0)
      bytes -= list->memory_usage();
  }
  return bytes;
}

void MLFFMemoryForecast::check(const std::vector<Part> &parts, double bytes)
{
  const mlff_info *info = mlff_model_info(parts[0].model);
  const mlff_forecast f = add(parts);
  const bool gpu = info->device_id[0] != '\0';
  Share mine = {};
  mine.n_atoms = parts[0].graph->n_local;
  mine.lammps = atom->memory_usage() + lists_of_run(neighbor, neighbor->memory_usage()) + comm->memory_usage();
  mine.pair = bytes;
  mine.model = static_cast<double>(f.model_bytes);
  mine.held = static_cast<double>(f.held_bytes);
  mine.first = static_cast<double>(f.first_bytes);
  mine.later = static_cast<double>(f.later_bytes);
  mine.host_first = static_cast<double>(f.host_bytes) + (gpu ? 0.0 : mine.first - mine.held);
  mine.host_later = static_cast<double>(f.host_bytes) + (gpu ? 0.0 : mine.later - mine.held);
  mine.room = mlff_shared_room().bytes;
  mine.own_room = mlff_own_room().bytes;
  mine.gpu_free = static_cast<double>(f.free_bytes);
  snprintf(mine.gpu, sizeof(mine.gpu), "%s", info->device_id);

  const MLFFMachine machine(world);
  std::vector<Share> shares(static_cast<size_t>(machine.size));
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, shares.data(), sizeof(mine), MPI_BYTE, machine.comm);
  double here = INFINITY, factor = INFINITY, smallest = INFINITY, atoms = 0.0;
  const std::string refusal = judge(shares.data(), machine.size, here);
  for (const Share &s : shares) atoms += s.n_atoms;
  if (atoms > 0.0) factor = here / atoms;
  MPI_Allreduce(&factor, &smallest, 1, MPI_DOUBLE, MPI_MIN, world);
  print(mine, gpu ? "GPU" : nullptr, smallest * static_cast<double>(atom->natoms));
  mlff_stop_together(lmp, refusal);
}

/* "smallest to largest" over ranks, on rank 0. */
static std::string range(double value, MPI_Comm world)
{
  double pair[2] = {-value, value}, most[2] = {0.0, 0.0};
  MPI_Reduce(pair, most, 2, MPI_DOUBLE, MPI_MAX, 0, world);
  const double low = -most[0] * MB, high = most[1] * MB;
  return high - low < 0.05 ? mlff_format("%.1f", high) : mlff_format("%.1f to %.1f", low, high);
}

void MLFFMemoryForecast::print(const Share &mine, const char *device, double fit) const
{
  const double host = mine.pair + (device ? 0.0 : mine.held);
  const std::string lammps = range(mine.lammps, world), first = range(host + mine.host_first, world);
  const std::string later = range(host + mine.host_later, world), network = range(mine.model, world);
  const std::string gpu_first = range(mine.first, world), gpu_later = range(mine.later, world);
  if (comm->me != 0) return;
  std::string text = mlff_format("pair_style mlff: memory forecast for %lld atoms on %d rank%s, MB per rank\n",
                                 static_cast<long long>(atom->natoms), comm->nprocs, comm->nprocs == 1 ? "" : "s");
  text += "  LAMMPS now:   " + lammps + " (atoms, neighbor lists, communication)\n";
  text += "  this style:   " + first + " after the first step, " + later + " when its arrays have grown\n";
  if (device)
    text += std::string("  on its ") + device + ":   " + gpu_first + " after the first step, " + gpu_later +
            " when its arrays have grown\n";
  text += "  of this, independent of the number of atoms: " + network + "\n";
  if (std::isfinite(fit)) text += mlff_format("  largest system that fits: about %.3g atoms\n", fit);
  utils::logmesg(lmp, text);
}
