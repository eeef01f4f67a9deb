/* prof_context.cpp: see prof_context.h. */
#include "prof_context.h"

#include "../base/commit.h"

#include "atom.h"
#include "comm.h"
#include "force.h"
#include "input.h"
#include "lammps.h"
#include "neighbor.h"
#include "universe.h"
#include "update.h"
#include "variable.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <glob.h>
#include <limits>
#include <sys/utsname.h>
#include <vector>

using namespace LAMMPS_NS;

/* C interface of LAMMPS, weak because a static program may not contain it. */
extern "C" {
int lammps_id_count(void *, const char *) __attribute__((weak));
int lammps_id_name(void *, const char *, int, char *, int) __attribute__((weak));
int lammps_variable_info(void *, int, char *, int) __attribute__((weak));
}

static constexpr int MAX_VARIABLES = 200;

/* First value of a key in a file of `key : value` lines; empty if there is none. */
static std::string find_value(const char *path, const char *key)
{
  std::string found;
  FILE *file = fopen(path, "r");
  if (!file) return found;
  char line[512];
  while (found.empty() && fgets(line, sizeof(line), file)) {
    if (strncmp(line, key, strlen(key)) != 0) continue;
    const char *value = strchr(line, ':');
    if (!value) continue;
    value += 1 + strspn(value + 1, " \t");
    found.assign(value, strcspn(value, "\n"));
  }
  fclose(file);
  return found;
}

static void describe_machine(LAMMPS *lmp, mlffprof_recorder *recorder)
{
  struct utsname machine = {};
  if (uname(&machine) == 0) {
    mlffprof_recorder_context(recorder, "host", machine.nodename, nullptr);
    mlffprof_recorder_context(recorder, "system", (std::string(machine.sysname) + " " + machine.release).c_str(),
                              nullptr);
  }
  const std::string cpu = find_value("/proc/cpuinfo", "model name");
  if (!cpu.empty()) mlffprof_recorder_context(recorder, "cpu", cpu.c_str(), nullptr);
  mlffprof_recorder_context_number(recorder, "ranks", lmp->comm->nprocs, nullptr);
  mlffprof_recorder_context_number(recorder, "threads", lmp->comm->nthreads, nullptr);
  const int *grid = lmp->comm->procgrid;
  const std::string text = std::to_string(grid[0]) + " x " + std::to_string(grid[1]) + " x " + std::to_string(grid[2]);
  mlffprof_recorder_context(recorder, "processor_grid", text.c_str(), nullptr);
  if (lmp->universe->nworlds > 1)
    mlffprof_recorder_context_number(recorder, "partition", lmp->universe->iworld + 1, nullptr);
  mlffprof_recorder_context(recorder, "lammps", lmp->version, nullptr);
  mlffprof_recorder_context(recorder, "plugin", MLFF_VERSION, nullptr);
  mlffprof_recorder_context(recorder, "commit", mlff_commit(), nullptr);
  mlffprof_recorder_context(recorder, "plugin_compiled_for", MLFF_LAMMPS_VERSION, nullptr);
}

/* NVIDIA driver and GPUs of this machine, if any. */
static void describe_gpus(mlffprof_recorder *recorder)
{
  const std::string driver = find_value("/proc/driver/nvidia/version", "NVRM version");
  if (!driver.empty()) mlffprof_recorder_context(recorder, "driver", driver.c_str(), nullptr);
  std::string names;
  glob_t found = {};
  if (glob("/proc/driver/nvidia/gpus/*/information", 0, nullptr, &found) == 0) {
    for (size_t k = 0; k < found.gl_pathc; k++) {
      const std::string name = find_value(found.gl_pathv[k], "Model");
      if (!name.empty()) names += (names.empty() ? "" : ", ") + name;
    }
  }
  globfree(&found);
  if (!names.empty()) mlffprof_recorder_context(recorder, "gpu", names.c_str(), nullptr);
}

static void describe_model(const mlff_info *info, mlffprof_recorder *recorder)
{
  if (!info) return;
  mlffprof_recorder_context(recorder, "model_sha256", info->sha256, nullptr);
  mlffprof_recorder_context(recorder, "model_header_sha256", info->header_sha256, nullptr);
  mlffprof_recorder_context(recorder, "architecture", info->architecture, nullptr);
  mlffprof_recorder_context(recorder, "precision", info->precision, nullptr);
  mlffprof_recorder_context(recorder, "kernels", info->kernels, nullptr);
  mlffprof_recorder_context_number(recorder, "cutoff", info->cutoff, nullptr);
  mlffprof_recorder_context(recorder, "kernels_here", mlff_cpu_best_kernels("fp32"), nullptr);
  const char *for_mixed = mlff_cpu_best_kernels("mixed");
  if (for_mixed) mlffprof_recorder_context(recorder, "kernels_here_mixed", for_mixed, nullptr);
  if (strcmp(info->device, "cpu") != 0) describe_gpus(recorder);
}

/* Whether variable k is text, so that reading it evaluates nothing. Format of LAMMPS:
 * `Variable[  0]: name,  style = index,  def = 10 20`. */
static bool is_text(LAMMPS *lmp, int k)
{
  static const char *const texts[] = {"index", "loop", "string", "world", "universe", "uloop"};
  static const char *const label = "style = ";
  char line[512] = "";
  if (!lammps_variable_info(lmp, k, line, sizeof(line))) return false;
  const char *style = strstr(line, label);
  if (!style) return false;
  style += strlen(label);
  const size_t length = strcspn(style, ", ");
  for (const char *text : texts)
    if (strlen(text) == length && strncmp(style, text, length) == 0) return true;
  return false;
}

static void describe_deck(LAMMPS *lmp, mlffprof_recorder *recorder)
{
  mlffprof_recorder_context(recorder, "pair_style", lmp->force->pair_style, nullptr);
  mlffprof_recorder_context(recorder, "units", lmp->update->unit_style, nullptr);
  mlffprof_recorder_context_number(recorder, "timestep", lmp->update->dt, nullptr);
  mlffprof_recorder_context_number(recorder, "skin", lmp->neighbor->skin, nullptr);
  mlffprof_recorder_context(recorder, "newton_pair", lmp->force->newton_pair ? "on" : "off", nullptr);
  if (!lammps_id_count || !lammps_id_name || !lammps_variable_info) return;
  const int n = lammps_id_count(lmp, "variable");
  for (int k = 0; k < n && k < MAX_VARIABLES; k++) {
    char name[80];
    if (!lammps_id_name(lmp, "variable", k, name, sizeof(name))) continue;
    if (!is_text(lmp, k)) continue;
    const char *value = lmp->input->variable->retrieve(name);
    if (value) mlffprof_recorder_context(recorder, (std::string("deck/") + name).c_str(), value, nullptr);
  }
}

double LAMMPS_NS::prof_message_us(LAMMPS *lmp)
{
  static constexpr size_t MOST = 110, FIRST = 10;    // the first messages set up connections
  static constexpr double SECONDS = 0.02;            // ranks that share a core wait for each other
  std::vector<double> times;
  const int me = lmp->comm->me;
  if (lmp->comm->nprocs < 2) return std::numeric_limits<double>::quiet_NaN();
  MPI_Barrier(lmp->world);
  const double begin = mlffprof_seconds();
  for (int more = 1; more && me < 2;) {
    const double start = mlffprof_seconds();
    if (me == 0) {
      more = times.size() + 1 < MOST && start - begin < SECONDS;
      MPI_Send(&more, 1, MPI_INT, 1, 0, lmp->world);
      if (more) MPI_Recv(&more, 1, MPI_INT, 1, 0, lmp->world, MPI_STATUS_IGNORE);
      times.push_back(0.5e6 * (mlffprof_seconds() - start));
    } else {
      MPI_Recv(&more, 1, MPI_INT, 0, 0, lmp->world, MPI_STATUS_IGNORE);
      if (more) MPI_Send(&more, 1, MPI_INT, 0, 0, lmp->world);
    }
  }
  MPI_Barrier(lmp->world);
  if (me != 0) return 0.0;
  times.pop_back();    // the last message has no reply
  if (times.size() > 2 * FIRST) times.erase(times.begin(), times.begin() + FIRST);
  std::sort(times.begin(), times.end());
  return times.empty() ? std::numeric_limits<double>::quiet_NaN() : times[times.size() / 2];
}

void LAMMPS_NS::prof_describe(LAMMPS *lmp, const mlff_info *info, mlffprof_recorder *recorder)
{
  describe_machine(lmp, recorder);
  describe_model(info, recorder);
  describe_deck(lmp, recorder);
}

std::string LAMMPS_NS::prof_model_name(LAMMPS *lmp, const mlff_info *info)
{
  if (info) return info->name;
  return lmp->force->pair_style ? lmp->force->pair_style : "none";
}
