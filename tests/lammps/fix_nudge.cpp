/* fix_nudge.cpp: a plugin for tests/lammps/test_respa.py. `fix ID all nudge N` moves the atom with ID 1 by 0.001 A
 * along y after the last of N inner steps of run_style respa, between the evaluations of its levels. */
#include "atom.h"
#include "fix.h"
#include "lammps.h"
#include "modify.h"
#include "utils.h"

using namespace LAMMPS_NS;

class FixNudge : public Fix {
public:
  FixNudge(LAMMPS *lammps, int narg, char **arg) : Fix(lammps, narg, arg)
  {
    n_inner = utils::inumeric(FLERR, arg[3], false, lmp);
  }
  int setmask() override { return FixConst::FINAL_INTEGRATE_RESPA; }
  void final_integrate_respa(int level, int loop) override
  {
    if (level != 0 || loop != n_inner - 1) return;
    for (int i = 0; i < atom->nlocal; i++)
      if (atom->tag[i] == 1) atom->x[i][1] += 1e-3;
  }

private:
  int n_inner;
};

static Fix *create(LAMMPS *lammps, int narg, char **arg)
{
  return new FixNudge(lammps, narg, arg);
}

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void *, void *)
{
  (*static_cast<LAMMPS *>(lmp)->modify->fix_map)["nudge"] = create;
}
