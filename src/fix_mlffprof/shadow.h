/* shadow.h: a second model on the positions of a running trajectory, compared with the forces that move it.
 *
 * The forces of the run are taken after all of the force field and before fixes change them, so the order of fixes does
 * not matter. The second model gets a full neighbor list of its own and the communication of pair style mlff.
 */
#ifndef LMP_MLFF_SHADOW_H
#define LMP_MLFF_SHADOW_H

#include "prof_beside.h"
#include "prof_settings.h"

#include "../pair_mlff/evaluator.h"
#include "../base/cxx/whole_file.h"

#include "mlff/mlffprof.h"
#include "pointers.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class ProfShadow : protected Pointers {
 public:
  ProfShadow(class LAMMPS *lammps, class Fix *fix, const ProfSettings &settings);
  ~ProfShadow();

  /* Opens the model (once), and asks for a neighbor list, ghosts and room in LAMMPS' communication. Collective. */
  void init();
  void set_list(class NeighList *full) { list = full; }
  void end_run() { evaluator.graph.end_run(); }
  bool is_due(bigint step) const { return step % settings.compare_every == 0; }
  bigint next_due(bigint step) const { return (step / settings.compare_every + 1) * settings.compare_every; }

  /* Compares; before the reverse communication of forces. Sample, to rank 0's recorder. Collective. */
  std::string compare(mlffprof_recorder *recorder);
  /* Largest error of an atom in the last comparison, eV/A; the same on all ranks. */
  double largest() const { return worst; }

  MLFFHalo &halo() { return evaluator.halo; }
  const std::vector<std::string> &elements() const { return symbols; }
  const char *model_name() const { return evaluator.info ? evaluator.info->name : nullptr; }
  /* [n_local][4]: F - F_model (x, y, z) and its length, in units of the script; zero before the first comparison. */
  double **errors(int n_atoms);
  double memory_usage() const;
  /* Host memory of this process that is there for the comparison alone, and what the engine holds on a device. */
  ProfBeside &host_memory() { return beside; }
  int64_t device_bytes() const;

 private:
  const ProfSettings &settings;
  ProfBeside beside;
  class Fix *owner;
  MLFFEvaluator evaluator;
  const MLFFUnits *units;
  class NeighList *list;
  std::vector<std::string> symbols;     // elements in use
  std::vector<int> element_of_type;     // index into symbols
  std::vector<double> forces, table;    // of the run [n_all][3]; of the atoms [n][4]
  std::vector<double *> rows;
  double worst;
  MLFFWholeFile frames;

  std::vector<std::string> name_types() const;
  void open();
  void check_ghosts() const;
  void take_run_forces();
  double energy_difference(double reference) const;
  bool has_stress() const;
  double volume() const;
  void add_virials(const double *reference, std::vector<double> &sums) const;
  void add_atom(int i, const double *reference, std::vector<double> &sums);
  std::string record(mlffprof_recorder *recorder, const std::vector<double> &sums, double energy) const;
  void set_stress(const double *virial, mlffprof_accuracy_sample &sample) const;
  void open_frames();
  void write_frame(const double (*reference)[3], const mlff_result &result);
  std::string frame(const std::vector<double> &all, const double *totals);
  void complain(const std::string &problem);
};

}    // namespace LAMMPS_NS

#endif
