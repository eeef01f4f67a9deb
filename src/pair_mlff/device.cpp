/* device.cpp: see device.h. */
#include "device.h"

#include "mlff/mlff.h"

#include <cstdio>
#include <cstring>
#include <vector>

using namespace LAMMPS_NS;

namespace {

/* What a rank tells the others. */
struct Place {
  char node[256];
  int n_devices;
};

/* A node whose ranks do not have a GPU each. */
struct Shortage {
  const Place *place = nullptr;
  int n_ranks = 0;
};

std::vector<Place> gather_places(MPI_Comm world)
{
  char node[MPI_MAX_PROCESSOR_NAME + 1] = "";
  int n_ranks = 1, length = 0;
  Place mine = {};
  mlff_platform platform;
  MPI_Comm_size(world, &n_ranks);
  MPI_Get_processor_name(node, &length);
  mlff_platform_read(&platform);
  snprintf(mine.node, sizeof(mine.node), "%.*s", static_cast<int>(sizeof(mine.node)) - 1, node);
  mine.n_devices = platform.n_devices;
  std::vector<Place> places(static_cast<size_t>(n_ranks));
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, places.data(), sizeof(mine), MPI_BYTE, world);
  return places;
}

/* Ranks before `rank`, or all ranks, on its node. */
int count_ranks(const std::vector<Place> &places, size_t rank, size_t end)
{
  int n = 0;
  for (size_t r = 0; r < end; r++) n += strcmp(places[r].node, places[rank].node) == 0;
  return n;
}

Shortage find_shortage(const std::vector<Place> &places)
{
  for (size_t r = 0; r < places.size(); r++) {
    const int n = count_ranks(places, r, places.size());
    if (places[r].n_devices < n) return {&places[r], n};
  }
  return {};
}

std::string describe(const Shortage &s)
{
  return std::string("node ") + s.place->node + " has " + std::to_string(s.n_ranks) + " ranks and " +
         std::to_string(s.place->n_devices) + (s.place->n_devices == 1 ? " GPU" : " GPUs");
}

std::string draw_map(const std::vector<Place> &places)
{
  constexpr size_t MOST = 64;
  std::string text;
  for (size_t r = 0; r < places.size() && r < MOST; r++)
    text += (r ? ", " : "") + std::string("rank ") + std::to_string(r) + " " + places[r].node +
            " cuda:" + std::to_string(count_ranks(places, r, r));
  if (places.size() > MOST) text += ", and so on for " + std::to_string(places.size()) + " ranks";
  return text;
}

}    // namespace

MLFFDevice LAMMPS_NS::mlff_choose_device(const std::string &asked, MPI_Comm world)
{
  int me = 0, n_ranks = 1;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &n_ranks);
  if (n_ranks == 1 || (asked != "cuda" && asked != "auto")) return {asked, "", ""};

  const std::vector<Place> places = gather_places(world);
  const Shortage shortage = find_shortage(places);
  bool any = false;
  for (const Place &p : places) any = any || p.n_devices > 0;
  if (!any) return {asked, "", ""};    // the engine says what is missing
  if (!shortage.place) {
    const std::string number = std::to_string(count_ranks(places, static_cast<size_t>(me), static_cast<size_t>(me)));
    return {asked + ":" + number, draw_map(places), ""};
  }
  if (asked == "auto") return {"cpu", "CPU on all ranks, because " + describe(shortage), ""};
  return {asked, "",
          describe(shortage) + ": start as many ranks as there are GPUs, or name one GPU for all ranks to share, "
                               "`device cuda:0`"};
}
