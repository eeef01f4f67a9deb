/* fix_watch.cpp: a plugin for script_worker.py. `fix ID all watch` passes every evaluation of the pair style to a
 * callback, in runs, minimizations and the trials of Monte Carlo fixes, before other fixes change the forces. */
#include "atom.h"
#include "comm.h"
#include "fix.h"
#include "force.h"
#include "lammps.h"
#include "modify.h"
#include "neighbor.h"
#include "pair.h"
#include "update.h"

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace LAMMPS_NS;

/* What this rank has after one evaluation; arrays are valid during the callback. script_worker.py has the same fields.
 */
struct Evaluation {
  int64_t step;
  int32_t n, has_energy, has_virial, is_trial;
  double energy, virial[6];
  const double *x, *f, *eatom; // [n][3], [n][3], [n] or NULL; forces of a trial are unfinished
  const int *type, *excluded;  // [n]; 1: no neighbor list can have a pair of this atom; 2: but with another such atom
};

static void (*callback)(const Evaluation *) = nullptr;

extern "C" __attribute__((visibility("default"))) void mlff_watch(void (*function)(const Evaluation *))
{
  callback = function;
}

/* What the last evaluation of a pair style has tallied. */
struct Tallied : Pair {
  static int energy(Pair *pair) { return pair->*(&Tallied::eflag_global); }
  static int atoms(Pair *pair) { return pair->*(&Tallied::eflag_atom); }
  static int virial_of(Pair *pair) { return pair->*(&Tallied::vflag_global); }
};

class FixWatch : public Fix {
public:
  FixWatch(LAMMPS *lammps, int narg, char **arg) : Fix(lammps, narg, arg) { comm_reverse = 1; }
  int setmask() override
  {
    return FixConst::PRE_REVERSE | FixConst::MIN_PRE_REVERSE | FixConst::POST_FORCE | FixConst::MIN_POST_FORCE;
  }
  // trials have no reverse communication
  void setup_pre_reverse(int, int) override { in_step = true; }
  void pre_reverse(int, int) override { in_step = true; }
  void min_pre_reverse(int, int) override { in_step = true; }
  void setup(int) override { post_force(0); }
  void min_setup(int) override { post_force(0); }
  void min_post_force(int) override { post_force(0); }
  void post_force(int) override;
  int pack_reverse_comm(int n, int first, double *buffer) override
  {
    std::copy_n(&eatom[first], n, buffer);
    return n;
  }
  void unpack_reverse_comm(int n, int *list, double *buffer) override
  {
    for (int k = 0; k < n; k++) eatom[list[k]] += buffer[k];
  }

private:
  bool in_step = false;
  std::vector<int> excluded;
  std::vector<double> eatom; // of atoms and ghosts
  int excluded_as(int i) const;
};

void FixWatch::post_force(int)
{
  const int n = atom->nlocal;
  Pair *pair = force->pair;
  excluded.resize(n + 1);
  for (int i = 0; i < n; i++) excluded[i] = excluded_as(i);
  Evaluation seen = {update->ntimestep, n,       0,       0,          !in_step,       0.0, {},
                     nullptr,           nullptr, nullptr, atom->type, excluded.data()};
  in_step = false;
  if (n) seen.x = atom->x[0], seen.f = atom->f[0];
  if (pair) {
    seen.has_energy = Tallied::energy(pair) != 0;
    seen.has_virial = Tallied::virial_of(pair) != 0;
    seen.energy = pair->eng_vdwl + pair->eng_coul;
    std::copy(pair->virial, pair->virial + 6, seen.virial);
    if (Tallied::atoms(pair)) {
      eatom.assign(pair->eatom, pair->eatom + n + atom->nghost);
      if (force->newton_pair) comm->reverse_comm(this);
      seen.eatom = eatom.data();
    }
  }
  if (callback) callback(&seen);
}

int FixWatch::excluded_as(int i) const
{
  for (int k = 0; k < neighbor->nex_group; k++) {
    const int one = neighbor->ex1_group[k], two = neighbor->ex2_group[k];
    if ((two == 0 && (atom->mask[i] & (1 << one))) || (one == 0 && (atom->mask[i] & (1 << two))))
      return atom->mask[i] & 1 ? 1 : 2; // fix gcmc takes its atoms out of group all
  }
  std::vector<bool> types(atom->ntypes + 1, false);
  for (int k = 0; k < neighbor->nex_type; k++) {
    if (neighbor->ex1_type[k] == atom->type[i]) types[neighbor->ex2_type[k]] = true;
    if (neighbor->ex2_type[k] == atom->type[i]) types[neighbor->ex1_type[k]] = true;
  }
  return std::count(types.begin(), types.end(), true) == atom->ntypes;
}

static Fix *create(LAMMPS *lammps, int narg, char **arg)
{
  return new FixWatch(lammps, narg, arg);
}

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void *, void *)
{
  (*static_cast<LAMMPS *>(lmp)->modify->fix_map)["watch"] = create;
}
