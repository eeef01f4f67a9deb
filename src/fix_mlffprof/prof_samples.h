/* prof_samples.h: samples of energies and memory every N steps. */
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
  /* Start of a run, before the forces of its first step. */
  void init_run(bool energy);
  /* Announces that energy and virial will be read in that step. */
  void announce(bigint step) const;

  /* Writes energies of this step to the recorder (rank 0, else nullptr). Returns an error or "". Collective. */
  std::string take_energy(mlffprof_recorder *recorder);
  /* For minimizations: potential energy only. compute: LAMMPS has not computed it in this evaluation. */
  std::string take_potential(mlffprof_recorder *recorder, bigint step, bool compute);
  /* Resident set of all ranks and device memory of the engine, separate for the model of `compare` (nullptr: none).
   * Collective. */
  std::string take_memory(mlffprof_recorder *recorder, const mlff_model *model, class ProfShadow *shadow);
  /* Writes a pending first sample, see add_conserved. */
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
