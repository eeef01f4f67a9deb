/* pair_mlff_kokkos.h: pair_style mlff/kk, the same as mlff where atoms and neighbour lists belong to Kokkos.
 *
 * Everything that is computed is inherited. What differs is who brings the arrays up to date and where the neighbours
 * are: positions, types and tags are asked of AtomKokkos, forces are reported to it, and the list is one that Kokkos'
 * threads have built.
 */
#ifdef PAIR_CLASS
// clang-format off
PairStyle(mlff/kk,PairMLFFKokkos);
PairStyle(mlff/kk/device,PairMLFFKokkos);
PairStyle(mlff/kk/host,PairMLFFKokkos);
// clang-format on
#else

#ifndef LMP_PAIR_MLFF_KOKKOS_H
#define LMP_PAIR_MLFF_KOKKOS_H

#include "pair_mlff.h"

namespace LAMMPS_NS {

class PairMLFFKokkos : public PairMLFF {
 public:
  /* on_device: asked for as mlff/kk or mlff/kk/device, which are errors where that is a GPU. */
  PairMLFFKokkos(class LAMMPS *, bool on_device);

  void compute(int, int) override;
  void init_style() override;
  void setup() override;

 protected:
  struct MLFFRows rows() const override;
};

}    // namespace LAMMPS_NS

#endif
#endif
