/* pair_mlff_kokkos.cpp: see pair_mlff_kokkos.h. The only file that sees Kokkos. */
#include "pair_mlff_kokkos.h"

#include "lammps_io.h"

#include "atom_kokkos.h"
#include "atom_masks.h"
#include "error.h"
#include "kokkos.h"
#include "neigh_list_kokkos.h"
#include "neigh_request.h"
#include "neighbor.h"

#include <type_traits>

using namespace LAMMPS_NS;

/* In a LAMMPS whose Kokkos has no GPU, its "device" is the host. */
static constexpr bool DEVICE_IS_HOST = std::is_same_v<LMPDeviceType, LMPHostType>;

// What the inherited code reads and writes. Molecules: it looks for bonded neighbours that the list does not have.
static constexpr uint64_t READ = X_MASK | F_MASK | TYPE_MASK | TAG_MASK | SPECIAL_MASK | ENERGY_MASK | VIRIAL_MASK;
static constexpr uint64_t MODIFY = F_MASK | ENERGY_MASK | VIRIAL_MASK;

/* ---------------------------------------------------------------------- */

/* `Host` are the arrays of Atom: x[n][3] and f[n][3] of doubles, as the engine wants them. Where Kokkos has such doubles,
 * too, which is so without a GPU unless LAMMPS was built for single precision, they are its own memory and nothing is
 * copied. With `HostKK`, Kokkos' own types, the engine would have to be given a copy. */
PairMLFFKokkos::PairMLFFKokkos(LAMMPS *lammps, bool on_device) : PairMLFF(lammps)
{
  if (on_device && !DEVICE_IS_HOST)
    error->all(FLERR, "pair_style mlff/kk does not take its atoms from the memory of a GPU, and this LAMMPS' Kokkos "
                      "keeps them there. Use `pair_style mlff/kk/host`, or `suffix off` and `pair_style mlff`; the "
                      "network runs on the GPU with either (`device cuda`)");
  kokkosable = 1;
  atomKK = dynamic_cast<AtomKokkos *>(atom);    // as all of LAMMPS' styles do
  execution_space = Host;
  datamask_read = READ;
  datamask_modify = MODIFY;
}

void PairMLFFKokkos::init_style()
{
  atomKK->sync(Host, TYPE_MASK | MASK_MASK);
  PairMLFF::init_style();
  NeighRequest *request = neighbor->find_request(this);
  request->set_kokkos_host(!DEVICE_IS_HOST);
  request->set_kokkos_device(DEVICE_IS_HOST);
}

void PairMLFFKokkos::setup()
{
  atomKK->sync(Host, datamask_read);
  PairMLFF::setup();
}

void PairMLFFKokkos::compute(int eflag, int vflag)
{
  atomKK->sync(Host, datamask_read);
  PairMLFF::compute(eflag, vflag);
  atomKK->modified(Host, datamask_modify);
}

MLFFRows PairMLFFKokkos::rows() const
{
  if (!list->kokkos) return PairMLFF::rows();
  const auto *kokkos_list = static_cast<const NeighListKokkos<LMPHostType> *>(list);
  const auto &table = kokkos_list->d_neighbors;
  MLFFRows found = {};
  found.n = list->inum;
  found.atoms = kokkos_list->d_ilist.data();
  found.counts = kokkos_list->d_numneigh.data();
  found.table = table.data();
  found.stride = table.stride(0);
  found.step = table.stride(1);
  return found;
}
