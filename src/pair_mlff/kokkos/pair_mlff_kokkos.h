/* pair_mlff_kokkos.h: pair_style mlff/kk, the same as mlff where atoms and neighbor lists belong to Kokkos.
 *
 * Everything that is computed is inherited. What differs is who brings the arrays up to date and which they are: those
 * of Kokkos on the host, or on its GPU when the network is computed there, too (kokkos_arrays.h).
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

#include "../pair_mlff.h"

#include <memory>

namespace LAMMPS_NS {

class PairMLFFKokkos : public PairMLFF {
 public:
  /* on_device: asked for as mlff/kk or mlff/kk/device. */
  PairMLFFKokkos(class LAMMPS *, bool on_device);
  ~PairMLFFKokkos() override;

  void compute(int, int) override;
  void init_style() override;
  void setup() override;

 protected:
  int gpu_of_atoms() const override;
  void sync_velocities() override;

 private:
  const bool wants_device;
  std::unique_ptr<class MLFFArrays> arrays;

  void choose_place();
  void sync_atoms();
};

}    // namespace LAMMPS_NS

#endif
#endif
