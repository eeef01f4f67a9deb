/* gpu_map.cpp: see gpu_map.h. */
#include "gpu_map.h"

#include <cstring>
#include <map>
#include <utility>

using namespace LAMMPS_NS;

enum { MOST_LINES = 64 };

static std::string gpu_of(const MLFFRankDevice &r)
{
  return r.number < 0 ? "cpu" : "cuda:" + std::to_string(r.number) + " (" + r.id + ")";
}

std::string LAMMPS_NS::mlff_gpu_table(const std::vector<MLFFRankDevice> &ranks)
{
  std::string text;
  for (const MLFFRankDevice &r : ranks) {
    text += text.empty() ? "  GPUs:         " : "                ";
    if (r.rank == MOST_LINES) {
      text += "and so on, " + std::to_string(ranks.size()) + " ranks\n";
      break;
    }
    text += "rank " + std::to_string(r.rank) + ", host " + r.host + ", local rank " + std::to_string(r.local_rank) +
            ": " + gpu_of(r) + "\n";
  }
  return text;
}

std::string LAMMPS_NS::mlff_shared_gpus(const std::vector<MLFFRankDevice> &ranks)
{
  std::map<std::pair<std::string, std::string>, int> counts;
  std::map<std::string, int> on_host;
  const MLFFRankDevice *worst = nullptr;
  int most = 1;
  for (const MLFFRankDevice &r : ranks) {
    if (r.number < 0) continue;
    on_host[r.host]++;
    const int n = ++counts[{r.host, r.id}];
    if (n <= most) continue;
    most = n;
    worst = &r;
  }
  if (!worst) return "";
  int n_gpus = 0;
  for (const auto &c : counts) n_gpus += c.first.first == worst->host;
  return "more ranks than GPUs: " + std::to_string(on_host[worst->host]) + " ranks of host " + worst->host + " use " +
         std::to_string(n_gpus) + (n_gpus == 1 ? " GPU" : " GPUs") + ", up to " + std::to_string(most) + " of them " +
         gpu_of(*worst) + ". Use one rank per GPU, which is the fastest for most systems";
}
