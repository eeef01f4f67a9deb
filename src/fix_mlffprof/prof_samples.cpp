/* prof_samples.cpp: see prof_samples.h. */
#include "prof_samples.h"

#include "shadow.h"

#include "atom.h"
#include "comm.h"
#include "compute.h"
#include "domain.h"
#include "fix.h"
#include "force.h"
#include "modify.h"
#include "update.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace LAMMPS_NS;

static constexpr ProfUnits UNITS[] = {
    {"lj", 1.0, 1.0, 1.0, 1.0, true},
    {"real", 1.0 / 23.060549, 1e-3, 1.0, 1.01325, false},
    {"metal", 1.0, 1.0, 1.0, 1.0, false},
    {"si", 6.241509074e18, 1e12, 1e10, 1e-5, false},
    {"cgs", 6.241509074e11, 1e12, 1e8, 1e-6, false},
    {"electron", 27.211386246, 1e-3, 0.529177210903, 1e-5, false},
    {"micro", 6241.509074, 1e6, 1e4, 1e-2, false},
    {"nano", 6.241509074e-3, 1e3, 10.0, 10.0, false},
};

const ProfUnits *LAMMPS_NS::prof_find_units(const char *style)
{
  for (const auto &units : UNITS)
    if (strcmp(units.style, style) == 0) return &units;
  return nullptr;
}

ProfSamples::ProfSamples(LAMMPS *lammps) :
    Pointers(lammps), pe(nullptr), temperature(nullptr), pressure(nullptr), units(nullptr), ensemble(nullptr),
    any_sample(false), first_of_run(false), changed(false), has_pending(false), may_tally(false), pending{}, last{}
{
}

/* ---------------------------------------------------------------------- */

static bool contains(const char *style, const char *part)
{
  return strstr(style, part) != nullptr;
}

const char *ProfSamples::find_ensemble() const
{
  if (update->whichflag == 2) return "minimize";
  bool thermostat = false, barostat = false, moves = false;
  for (int k = 0; k < modify->nfix; k++) {
    const char *style = modify->fix[k]->style;
    moves = moves || modify->fix[k]->time_integrate;
    barostat = barostat || contains(style, "npt") || contains(style, "nph") || strncmp(style, "press/", 6) == 0;
    thermostat = thermostat || contains(style, "nvt") || contains(style, "langevin") ||
                 strncmp(style, "temp/", 5) == 0 || strcmp(style, "gle") == 0 || strcmp(style, "gld") == 0 ||
                 contains(style, "temp/csvr");
  }
  if (barostat) return "npt";
  if (thermostat) return "nvt";
  return moves ? "nve" : nullptr;
}

void ProfSamples::init_run(bool energy)
{
  const char *now = find_ensemble();
  changed = any_sample && strcmp(now ? now : "", ensemble ? ensemble : "") != 0;
  ensemble = now;
  first_of_run = true;
  has_pending = false;
  units = prof_find_units(update->unit_style);
  // fixes that can report the energy that they exchange
  may_tally = false;
  for (int k = 0; k < modify->nfix && !may_tally; k++) may_tally = modify->fix[k]->ecouple_flag != 0;
  pe = energy ? modify->get_compute_by_id("thermo_pe") : nullptr;
  temperature = energy ? modify->get_compute_by_id("thermo_temp") : nullptr;
  pressure = energy ? modify->get_compute_by_id("thermo_press") : nullptr;
}

void ProfSamples::announce(bigint step) const
{
  if (pe) pe->addstep(step);
  if (pressure) pressure->addstep(step);
}

double ProfSamples::time_ps() const
{
  const double steps = static_cast<double>(update->ntimestep - update->atimestep);
  return units->time * (update->atime + steps * update->dt);
}

/* ----------------------------------------------------------------------
   energies
------------------------------------------------------------------------- */

static void set(mlffprof_energy_sample &sample, mlffprof_quantity_id id, double value)
{
  sample.has |= 1u << id;
  sample.value[id] = value;
}

/* Whether a run continues the previous one: same step and energy. */
bool ProfSamples::continues(const mlffprof_energy_sample &sample) const
{
  if (sample.step != last.step) return false;
  const double now = sample.value[MLFFPROF_TOTAL], then = last.value[MLFFPROF_TOTAL];
  return std::fabs(now - then) <= 1e-7 * std::fabs(then) + 1e-9 * static_cast<double>(atom->natoms);
}

std::string ProfSamples::record(mlffprof_recorder *recorder, const mlffprof_energy_sample &sample)
{
  if (!recorder) return "";
  mlffprof_error problem = {};
  return mlffprof_recorder_energy(recorder, &sample, &problem) ? problem.text : "";
}

std::string ProfSamples::take_energy(mlffprof_recorder *recorder)
{
  if (!pe) return "";
  mlffprof_energy_sample sample = {};
  sample.step = update->ntimestep;
  sample.time_ps = time_ps();
  const double potential = units->energy * pe->compute_scalar();
  set(sample, MLFFPROF_POTENTIAL, potential);
  if (temperature) {
    const double kelvin = temperature->compute_scalar();
    const double kinetic = units->energy * 0.5 * temperature->dof * force->boltz * kelvin;
    set(sample, MLFFPROF_TEMPERATURE, kelvin);
    set(sample, MLFFPROF_KINETIC, kinetic);
    set(sample, MLFFPROF_TOTAL, potential + kinetic);
  }
  if (pressure && update->vflag_global == update->ntimestep)
    set(sample, MLFFPROF_PRESSURE, units->pressure * pressure->compute_scalar());
  const double *h = domain->prd;
  const double volume = domain->dimension == 3 ? h[0] * h[1] * h[2] : h[0] * h[1];
  set(sample, MLFFPROF_VOLUME, volume * std::pow(units->length, domain->dimension));

  bool first = false;
  std::string problem = begin_stretch(recorder, sample, first);
  if (!problem.empty() || (first_of_run && !first)) {
    first_of_run = false;    // it is the last sample of the previous run
    return problem;
  }
  first_of_run = false;
  last = sample;
  return add_conserved(recorder, sample, first);
}

/* first: this sample starts a new trajectory. */
std::string ProfSamples::begin_stretch(mlffprof_recorder *recorder, const mlffprof_energy_sample &sample, bool &first)
{
  first = first_of_run && (!any_sample || changed || !continues(sample));
  const bool again = first && any_sample;
  any_sample = true;
  mlffprof_error problem = {};
  if (again && recorder && mlffprof_recorder_restart_energy(recorder, ensemble, &problem)) return problem.text;
  return "";
}

/* A thermostat without energy report has 0 in all steps, others may have 0 in the first one. Therefore a first sample
 * with 0 is pending until the second. */
std::string ProfSamples::add_conserved(mlffprof_recorder *recorder, mlffprof_energy_sample &sample, bool first)
{
  if (!temperature || !may_tally) return record(recorder, sample);
  const double couple = units->energy * modify->energy_couple();
  if (first && couple == 0.0) {
    pending = sample;
    has_pending = true;
    return "";
  }
  std::string problem;
  if (has_pending) {
    has_pending = false;
    may_tally = couple != 0.0;
    if (may_tally) set(pending, MLFFPROF_CONSERVED, pending.value[MLFFPROF_TOTAL]);
    problem = record(recorder, pending);
  }
  if (may_tally) set(sample, MLFFPROF_CONSERVED, sample.value[MLFFPROF_TOTAL] + couple);
  const std::string second = record(recorder, sample);
  return problem.empty() ? second : problem;
}

std::string ProfSamples::finish(mlffprof_recorder *recorder)
{
  if (!has_pending) return "";
  has_pending = false;
  return record(recorder, pending);
}

std::string ProfSamples::take_potential(mlffprof_recorder *recorder, bigint step, bool compute)
{
  if (!pe) return "";
  mlffprof_energy_sample sample = {};
  sample.step = step;
  sample.time_ps = time_ps();
  set(sample, MLFFPROF_POTENTIAL, units->energy * (compute ? pe->compute_scalar() : pe->scalar));
  bool first = false;
  changed = changed || first_of_run;    // a minimization never continues a run
  const std::string problem = begin_stretch(recorder, sample, first);
  first_of_run = false;
  last = sample;
  return problem.empty() ? record(recorder, sample) : problem;
}

/* ----------------------------------------------------------------------
   memory
------------------------------------------------------------------------- */

std::string ProfSamples::take_memory(mlffprof_recorder *recorder, const mlff_model *model, ProfShadow *shadow)
{
  const bool device = model && strcmp(mlff_model_info(model)->device, "cpu") != 0;
  int64_t resident = 0, peak = 0;
  mlffprof_host_memory(&resident, &peak, nullptr);
  if (shadow) shadow->host_memory().subtract(resident, peak);
  // as doubles, for all MPI libraries
  double mine[6] = {static_cast<double>(resident),
                    static_cast<double>(peak),
                    device ? static_cast<double>(mlff_model_memory(model).bytes) : 0.0,
                    resident < 0 ? 1.0 : 0.0,
                    shadow ? static_cast<double>(shadow->host_memory().held()) : 0.0,
                    shadow ? static_cast<double>(shadow->device_bytes()) : 0.0};
  double all[6];
  std::copy_n(mine, 6, all);
  if (comm->nprocs > 1) MPI_Reduce(mine, all, 6, MPI_DOUBLE, MPI_SUM, 0, world);
  if (!recorder) return "";
  mlffprof_memory_sample sample = {};
  sample.step = update->ntimestep;
  sample.host_bytes = all[3] > 0.0 ? static_cast<int64_t>(MLFFPROF_UNKNOWN) : static_cast<int64_t>(all[0]);
  sample.host_peak_bytes = all[3] > 0.0 ? static_cast<int64_t>(MLFFPROF_UNKNOWN) : static_cast<int64_t>(all[1]);
  sample.device_bytes = device ? static_cast<int64_t>(all[2]) : static_cast<int64_t>(MLFFPROF_UNKNOWN);
  sample.host_reference_bytes = static_cast<int64_t>(all[4]);
  sample.device_reference_bytes = static_cast<int64_t>(all[5]);
  mlffprof_error problem = {};
  return mlffprof_recorder_memory(recorder, &sample, &problem) ? problem.text : "";
}
