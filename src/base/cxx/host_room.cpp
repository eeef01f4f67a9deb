/* host_room.cpp: see host_room.h. */
#include "host_room.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

/* Number of the line `NAME number` or `NAME: number`; without a name, the first word of the file. NaN if there is
 * none. */
static double read_number(const std::string &path, const std::string &name)
{
  std::ifstream file(path);
  std::string line, word, value;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> word;
    if (name.empty())
      value = word;
    else if (word == name || word == name + ":")
      words >> value;
    else
      continue;
    char *end = nullptr;
    const double number = strtod(value.c_str(), &end);
    return value.empty() || *end ? NAN : number;    // "max" is not a limit
  }
  return NAN;
}

struct Names {
  const char *root, *limit, *used, *cache;
};
static constexpr Names V1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                             "total_inactive_file"};
static constexpr Names V2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/* Checks a control group and its parents. In a container the path may differ; it is then skipped. */
static void narrow_by_groups(const Names &names, std::string group, MLFFRoom &room)
{
  while (true) {
    const std::string folder = names.root + group + "/";
    const double limit = read_number(folder + names.limit, ""), used = read_number(folder + names.used, "");
    const double cache = read_number(folder + "memory.stat", names.cache);
    const double left = limit - used + (std::isnan(cache) ? 0.0 : cache);    // NaN: no limit
    if (left < room.bytes) room = {left, "the memory limit of this job or container (control group)"};
    if (group.empty()) return;
    group.erase(group.rfind('/'));
  }
}

MLFFRoom mlff_shared_room()
{
  MLFFRoom room = {INFINITY, "unknown"};
  const double available = 1024.0 * read_number("/proc/meminfo", "MemAvailable");
  if (available < room.bytes) room = {available, "free memory of the machine"};
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {    // number:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") narrow_by_groups(V2, path, room);
    if (controllers.find(",memory,") != std::string::npos) narrow_by_groups(V1, path, room);
  }
  return room;
}

MLFFRoom mlff_own_room()
{
  struct rlimit limit;
  const double pages = read_number("/proc/self/statm", "");
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || std::isnan(pages))
    return {INFINITY, "unknown"};
  return {static_cast<double>(limit.rlim_cur) - pages * static_cast<double>(sysconf(_SC_PAGESIZE)),
          "the limit of address space (ulimit -v)"};
}
