/* shadow.h: compares the forces of a run with those of a second model on the same positions.
 *
 * The forces of the run are read after the force field and before fixes change them, so the order of fixes does not
 * matter. The second model has its own full neighbor list.
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

  /* Opens the model (once), and requests a neighbor list, ghosts and communication buffers. Collective. */
  void init();
  void set_list(class NeighList *full) { list = full; }
  void end_run() { evaluator.graph.end_run(); }
  bool is_due(bigint step) const { return step % settings.compare_every == 0; }
  bigint next_due(bigint step) const { return (step / settings.compare_every + 1) * settings.compare_every; }

  /* Compares, before the reverse communication of forces, and adds a sample to the recorder of rank 0. Collective. */
  std::string compare(mlffprof_recorder *recorder);
  /* Largest error of an atom in the last comparison, eV/A; the same on all ranks. */
  double largest() const { return worst; }

  MLFFHalo &halo() { return evaluator.halo; }
  const std::vector<std::string> &elements() const { return symbols; }
  const char *model_name() const { return evaluator.info ? evaluator.info->name : nullptr; }
  /* [n_local][4]: F - F_model (x, y, z) and its length, in units of the script; initially zero. */
  double **errors(int n_atoms);
  double memory_usage() const;
  /* Host memory of this process for the comparison, and device memory of its engine. */
  ProfBeside &host_memory() { return side_work; }
  int64_t device_bytes() const;

 private:
  const ProfSettings &settings;
  ProfBeside side_work;
  class Fix *owner;
  MLFFEvaluator evaluator;
  const MLFFUnits *units;
  class NeighList *list;
  std::vector<std::string> symbols;     // elements in use
  std::vector<int> element_of_type;     // index into symbols
  std::vector<double> forces, table;    // forces of the run [n_all][3]; errors of atoms [n][4]
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
