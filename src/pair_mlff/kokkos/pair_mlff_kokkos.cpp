/* pair_mlff_kokkos.cpp: see pair_mlff_kokkos.h. Only this file and kokkos_arrays.h include Kokkos. */
#include "pair_mlff_kokkos.h"

#include "../errors.h"
#include "kokkos_arrays.h"

#include "comm.h"
#include "error.h"
#include "kokkos.h"
#include "neigh_request.h"
#include "neighbor.h"

#include <string>
#include <type_traits>

using namespace LAMMPS_NS;

/* Whether Kokkos has a GPU, and whether it is one of CUDA, which the engine supports. */
static constexpr bool HAS_GPU = !std::is_same<LMPDeviceType, LMPHostType>::value;
#ifdef KOKKOS_ENABLE_CUDA
static constexpr bool HAS_CUDA = true;
#else
static constexpr bool HAS_CUDA = false;
#endif

// Arrays of the loops over atoms. The inherited code requests others by MLFFArrays::sync_atom.
static constexpr uint64_t READ = X_MASK | F_MASK | TYPE_MASK | ENERGY_MASK | VIRIAL_MASK;
static constexpr uint64_t MODIFY = F_MASK | ENERGY_MASK | VIRIAL_MASK;

/* ---------------------------------------------------------------------- */

PairMLFFKokkos::PairMLFFKokkos(LAMMPS *lammps, bool on_device) : PairMLFF(lammps), wants_device(on_device)
{
  kokkosable = 1;
  atomKK = dynamic_cast<AtomKokkos *>(atom);    // as in all Kokkos styles
  execution_space = HostKK;
  datamask_read = READ;
  datamask_modify = MODIFY;
}

PairMLFFKokkos::~PairMLFFKokkos()
{
  set_arrays(nullptr);
}

/* The GPU of Kokkos. */
int PairMLFFKokkos::gpu_of_atoms() const
{
#ifdef KOKKOS_ENABLE_CUDA
  if (wants_device) return Kokkos::Cuda().cuda_device();
#endif
  return -1;
}

/* Arrays on the GPU of Kokkos if the model is there, otherwise on the host, with copies in every step. */
void PairMLFFKokkos::choose_place()
{
  const int mine = gpu_of_model(), kokkos_gpu = gpu_of_atoms();
  const bool on_gpu = HAS_CUDA && wants_device && mine >= 0;
  std::string problem;
  if (on_gpu && mine != kokkos_gpu)
    problem = "pair_style mlff/kk: the model is on cuda:" + std::to_string(mine) +
              ", but Kokkos has the atoms on GPU " + std::to_string(kokkos_gpu) +
              ": use `device cuda`, which selects the GPU of Kokkos";
  mlff_stop_together(lmp, problem);
  set_arrays(nullptr);
  if (on_gpu) {
    arrays = std::make_unique<MLFFKokkosArrays<LMPDeviceType>>(atomKK);
    execution_space = ExecutionSpaceFromDevice<LMPDeviceType>::space;
  } else {
    arrays = std::make_unique<MLFFKokkosArrays<LMPHostType>>(atomKK);
    execution_space = HostKK;
  }
  if (HAS_GPU && wants_device && !on_gpu && comm->me == 0)
    error->warning(FLERR, "pair_style mlff/kk: Kokkos has the atoms on a GPU, but this model needs them on the host: "
                          "positions and forces are copied in every step");
}

void PairMLFFKokkos::init_style()
{
  atomKK->sync(Host, TYPE_MASK | MASK_MASK);
  PairMLFF::init_style();
  choose_place();
  const bool is_device = execution_space == Device || !HAS_GPU;
  NeighRequest *request = neighbor->find_request(this);
  request->set_kokkos_host(!is_device);
  request->set_kokkos_device(is_device);
}

/* Lists that are not from Kokkos are read as in the plain style. */
void PairMLFFKokkos::sync_atoms()
{
  set_arrays(list->kokkos ? arrays.get() : nullptr);
  if (list->kokkos)
    atomKK->sync(execution_space, datamask_read);
  else
    atomKK->sync(Host, datamask_read | TAG_MASK | SPECIAL_MASK);
}

void PairMLFFKokkos::sync_velocities()
{
  atomKK->sync(Host, V_MASK | TYPE_MASK | RMASS_MASK);
}

void PairMLFFKokkos::setup()
{
  sync_atoms();
  PairMLFF::setup();
}

void PairMLFFKokkos::compute(int eflag, int vflag)
{
  sync_atoms();
  PairMLFF::compute(eflag, vflag);
  atomKK->modified(list->kokkos ? execution_space : Host, datamask_modify);
}
