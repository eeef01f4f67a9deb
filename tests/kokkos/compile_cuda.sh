#!/bin/sh
# Compiles pair_style mlff/kk for a Kokkos that has its atoms on a GPU: nvcc, the headers of Kokkos and LAMMPS in the root of
# scripts/kokkos_root.sh, and a configuration of Kokkos with CUDA, which that root does not have. Nothing is linked or run:
# for that a LAMMPS built so and a GPU are needed.
#
#   tests/kokkos/compile_cuda.sh FOLDER [DEFINITIONS...]     FOLDER gets headers and the object file
set -eu
REPOSITORY=$(cd "$(dirname "$0")/../.." && pwd)
ROOT=${MLFF_CACHE:-$HOME/.cache/mlff}/kokkos-sid/root
NVCC=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
FOLDER=$1
shift
[ $# -gt 0 ] || set -- -DLMP_KOKKOS_DOUBLE_DOUBLE -DLMP_KOKKOS_LAYOUT_LEGACY

mkdir -p "$FOLDER/include/desul/atomics"
from=$ROOT/usr/include/kokkos to=$FOLDER/include
switch_on() { sed -E "s%/\* #undef ($1) \*/%#define \1%" "$2" >"$3"; }
switch_on 'KOKKOS_ENABLE_CUDA|KOKKOS_ARCH_AMPERE|KOKKOS_ARCH_AMPERE80' "$from/KokkosCore_config.h" "$to/KokkosCore_config.h"
switch_on DESUL_ATOMICS_ENABLE_CUDA "$from/desul/atomics/Config.hpp" "$to/desul/atomics/Config.hpp"
# each back end has three headers: those of devices are included before those of the host, declarations after them
before() { awk -v line="$2" '{ print } /#define KOKKOS_[A-Z]+_HPP_/ { print line }' "$from/$1" >"$to/$1"; }
behind() { awk -v line="$2" '/#endif/ { print line } { print }' "$from/$1" >"$to/$1"; }
before KokkosCore_Config_FwdBackend.hpp '#include <fwd/Kokkos_Fwd_CUDA.hpp>'
behind KokkosCore_Config_DeclareBackend.hpp '#include <decl/Kokkos_Declare_CUDA.hpp>'
before KokkosCore_Config_SetupBackend.hpp '#include <setup/Kokkos_Setup_Cuda.hpp>'
for name in Fwd Declare Setup; do
  grep -qi cuda "$to/KokkosCore_Config_${name}Backend.hpp" || { echo "no place for CUDA in ${name}Backend.hpp" >&2; exit 1; }
done
mpi=$(dirname "$(find "$ROOT/usr/lib" "$ROOT/usr/include" -name mpi.h -path '*/mpich/*' | head -n 1)")

"$NVCC" -x cu -std=c++20 --extended-lambda -arch=sm_80 -O1 -Xcompiler -fopenmp,-fPIC -Wno-deprecated-gpu-targets \
  -DLMP_KOKKOS "$@" -I"$to" -I"$from" -I"$REPOSITORY/include" -I"$ROOT/opt/lammps/all/src/KOKKOS" \
  -I"$ROOT/opt/lammps/all/src" -I"$mpi" -c "$REPOSITORY/src/pair_mlff/kokkos/pair_mlff_kokkos.cpp" -o "$FOLDER/pair_mlff_kokkos.o"

# the loops are there as kernels of the GPU: nvcc leaves a stub of each for the host to call
for loop in species listed mark count fill copy add; do
  nm "$FOLDER/pair_mlff_kokkos.o" | grep device_stub | grep -q "mlff_kokkos_$loop" ||
    { echo "no kernel of mlff_kokkos_$loop in the object file" >&2; exit 1; }
done
