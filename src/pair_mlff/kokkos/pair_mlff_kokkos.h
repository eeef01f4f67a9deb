/* pair_mlff_kokkos.h: pair_style mlff/kk, for atoms and neighbor lists of Kokkos.
 *
 * All computations are inherited. This class synchronizes the arrays and selects those of Kokkos on the host, or on its
 * GPU if the model is there as well (kokkos_arrays.h).
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
  /* on_device: style mlff/kk or mlff/kk/device. */
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
