/* fix_mlffprof.h: fix mlffprof, latency, memory, energy drift and accuracy of any pair style.
 *
 * `impl` hides the profiler library and the engine, so this header needs LAMMPS only.
 */
#ifdef FIX_CLASS
// clang-format off
FixStyle(mlffprof,FixMLFFProf);
// clang-format on
#else

#ifndef LMP_FIX_MLFFPROF_H
#define LMP_FIX_MLFFPROF_H

#include "fix.h"

namespace LAMMPS_NS {

class FixMLFFProf : public Fix {
 public:
  FixMLFFProf(class LAMMPS *, int, char **);
  FixMLFFProf(const FixMLFFProf &) = delete;
  FixMLFFProf &operator=(const FixMLFFProf &) = delete;
  ~FixMLFFProf() override;

  int setmask() override;
  void init() override;
  void init_list(int, class NeighList *) override;

  void setup_pre_reverse(int, int) override;
  void pre_reverse(int, int) override;
  void min_pre_reverse(int, int) override;
  void setup(int) override;
  void min_setup(int) override;
  void initial_integrate(int) override;
  void initial_integrate_respa(int, int, int) override;
  void min_pre_force(int) override;
  void end_of_step() override;
  void post_run() override;

  double compute_scalar() override;
  double compute_vector(int) override;
  double memory_usage() override;

  int pack_forward_comm(int, int *, double *, int, int *) override;
  void unpack_forward_comm(int, int, double *) override;
  int pack_reverse_comm(int, int, double *) override;
  void unpack_reverse_comm(int, int *, double *) override;

 private:
  struct Impl;
  Impl *impl;
};

}    // namespace LAMMPS_NS

#endif
#endif
