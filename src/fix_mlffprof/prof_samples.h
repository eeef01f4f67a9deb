/* prof_samples.h: what is sampled every N steps: energies of the system, and memory. */
#ifndef LMP_MLFF_PROF_SAMPLES_H
#define LMP_MLFF_PROF_SAMPLES_H

#include "prof_units.h"

#include "mlff/mlff.h"
#include "mlff/mlffprof.h"
#include "pointers.h"

#include <string>

namespace LAMMPS_NS {

class ProfSamples : protected Pointers {
 public:
  explicit ProfSamples(class LAMMPS *lammps);

  /* "nve", "nvt", "npt" or "minimize", from the fixes of the script. */
  const char *find_ensemble() const;
  /* A run begins; `energy`: energies are wanted. Before the forces of its first step are computed. */
  void init_run(bool energy);
  /* Announces that energy and virial will be read in that step. */
  void announce(bigint step) const;

  /* Energies of this step into the recorder (rank 0, else nullptr). Collective. Returns a problem. */
  std::string take_energy(mlffprof_recorder *recorder);
  /* A minimization has no kinetic energy, and LAMMPS computes its potential energy in every evaluation; `compute`: not
   * yet in this one. */
  std::string take_potential(mlffprof_recorder *recorder, bigint step, bool compute);
  /* Resident set of all ranks, and what the engine holds on a device; that of the model of `compare` (nullptr = none)
   * apart. Collective. */
  std::string take_memory(mlffprof_recorder *recorder, const mlff_model *model, class ProfShadow *shadow);
  /* The first sample of a run waits for the second, which tells whether thermostats report their energy. */
  std::string finish(mlffprof_recorder *recorder);

 private:
  class Compute *pe, *temperature, *pressure;
  const ProfUnits *units;
  const char *ensemble;
  bool any_sample, first_of_run, changed, has_pending, may_tally;
  mlffprof_energy_sample pending, last;

  double time_ps() const;
  bool continues(const mlffprof_energy_sample &sample) const;
  std::string begin_stretch(mlffprof_recorder *recorder, const mlffprof_energy_sample &sample, bool &first);
  std::string add_conserved(mlffprof_recorder *recorder, mlffprof_energy_sample &sample, bool first);
  std::string record(mlffprof_recorder *recorder, const mlffprof_energy_sample &sample);
};

}    // namespace LAMMPS_NS

#endif
