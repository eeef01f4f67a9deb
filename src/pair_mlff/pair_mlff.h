/* pair_mlff.h: pair_style mlff, machine-learned force fields evaluated by the mlff engine.
 *
 * `impl` hides the engine, so this header needs LAMMPS only.
 */
#ifdef PAIR_CLASS
// clang-format off
PairStyle(mlff,PairMLFF);
// clang-format on
#else

#ifndef LMP_PAIR_MLFF_H
#define LMP_PAIR_MLFF_H

#include "pair.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class PairMLFF : public Pair {
 public:
  PairMLFF(class LAMMPS *);
  PairMLFF(const PairMLFF &) = delete;
  PairMLFF &operator=(const PairMLFF &) = delete;
  ~PairMLFF() override;

  void compute(int, int) override;
  void compute_inner() override;
  void compute_middle() override;
  void compute_outer(int, int) override;
  void settings(int, char **) override;
  void coeff(int, char **) override;
  void init_style() override;
  void setup() override;
  double init_one(int, int) override;

  void write_restart(FILE *) override;
  void read_restart(FILE *) override;
  void write_restart_settings(FILE *) override;    // hybrid calls these two alone
  void read_restart_settings(FILE *) override;

  int pack_forward_comm(int, int *, double *, int, int *) override;
  void unpack_forward_comm(int, int, double *) override;
  int pack_reverse_comm(int, int, double *) override;
  void unpack_reverse_comm(int, int *, double *) override;

  void finish() override;
  double memory_usage() override;
  void *extract(const char *, int &) override;
  void *extract_peratom(const char *, int &) override;
  void add_tally_callback(class Compute *) override;

 protected:
  struct Impl;
  Impl *impl;

  /* For styles with other arrays of atoms and lists: the arrays (not owned; nullptr: those of Atom and NeighList), the
   * GPU with the atoms, and the GPU on which the open model can read them (-1: none). */
  void set_arrays(class MLFFArrays *arrays);
  virtual int gpu_of_atoms() const { return -1; }
  int gpu_of_model() const;
  /* Copies velocities, types and masses to Atom. */
  virtual void sync_velocities() {}

  void allocate();
  void close_model();
  void open_inner(const std::vector<std::string> &names);
  void apply_keywords(const std::vector<std::string> &keywords);
  void read_identity(FILE *fp);
  void read_keywords(FILE *fp, int n);
  void set_type_flags();
  void check_requests() const;
  void evaluate(int eflag, int vflag);
  void warm_up(double first_seconds);
  void reject_trial(bool is_first);
  void check_overlap() const;
  [[noreturn]] void stop_overlap() const;
  void check_levels(bool inner) const;
  void check_initialized() const;
  void report_levels() const;
  std::string check_files() const;
  void check_models() const;
  void check_lists() const;
  void check_excluded_groups() const;
  void check_masses() const;
  bool has_centroid_virials() const;
  void check_heat_flux() const;
};

}    // namespace LAMMPS_NS

#endif
#endif
