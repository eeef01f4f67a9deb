#!/bin/sh
# A LAMMPS compiled with AddressSanitizer, which sees what a plugin does to LAMMPS' memory and LAMMPS to a plugin's. Needs
# apt-get on a Debian, the network (deb.debian.org), .venv of scripts/setup.sh, 2 GB, and minutes to compile.
#
#   scripts/asan_lammps.sh make      makes it, or goes on where the last time ended
#   scripts/asan_lammps.sh settings  prints the variables that tests/lammps needs for it, in lines NAME=VALUE
#
# It is kept in $MLFF_CACHE/lammps-asan (default: ~/.cache/mlff/lammps-asan); removing that folder removes everything.
set -eu

REPOSITORY=$(cd "$(dirname "$0")/.." && pwd)
CACHE=${MLFF_CACHE:-$HOME/.cache/mlff}/lammps-asan
VENV=$REPOSITORY/.venv
MIRROR=http://deb.debian.org/debian

die() { printf '%s\n' "mlff asan: $*" >&2; exit 1; }

# apt COMMAND...: apt-get that knows the sources of Debian sid only, and changes nothing outside of $CACHE.
apt() {
  apt-get -q -o Dir::Etc::sourcelist="$CACHE/sources.list" -o Dir::Etc::sourceparts=/nonexistent \
    -o Dir::State::lists="$CACHE/lists" -o Dir::Cache="$CACHE/apt" -o APT::Sandbox::User=root \
    -o Acquire::Check-Valid-Until=false "$@"
}

# The archive of the sources is there when their description, the .dsc, is not any more.
sources() {
  [ ! -f "$CACHE/tree/src/version.h" ] || return 0
  command -v apt-get >/dev/null || die "the sources of LAMMPS come by apt-get, which is missing here"
  mkdir -p "$CACHE/lists/partial" "$CACHE/apt/archives/partial"
  echo "deb-src $MIRROR sid main" >"$CACHE/sources.list"
  (cd "$CACHE" && apt update && { apt source --download-only lammps || true; }) >"$CACHE/sources.log" 2>&1
  archive=$(find "$CACHE" -maxdepth 1 -name 'lammps_*.orig.tar.*' | head -n 1)
  [ -n "$archive" ] || die "apt-get source lammps brought no archive: see $CACHE/sources.log"
  rm -rf "$CACHE/all" "$CACHE/tree"
  mkdir "$CACHE/all"
  tar -xf "$archive" -C "$CACHE/all" --anchored --exclude=doc --exclude=examples --exclude=bench
  version=$(find "$CACHE/all" -maxdepth 3 -path '*/src/version.h')
  top=$(dirname "$(dirname "${version:?the archive has no src/version.h}")")
  ln -sfn "$top" "$CACHE/tree"
}

lammps() {
  [ ! -f "$CACHE/ready" ] || return 0
  cmake -S "$CACHE/tree/cmake" -B "$CACHE/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1" -DCMAKE_CXX_FLAGS="-fsanitize=address -fno-omit-frame-pointer" \
    -DMPI_CXX_COMPILER="$VENV/bin/mpicxx" -DPython_EXECUTABLE="$VENV/bin/python" -DBUILD_SHARED_LIBS=ON -DBUILD_MPI=ON \
    -DBUILD_OMP=OFF -DWITH_JPEG=OFF -DWITH_PNG=OFF -DWITH_GZIP=OFF -DWITH_CURL=OFF -DPKG_PLUGIN=ON -DPKG_MOLECULE=ON \
    -DPKG_MC=ON -DPKG_TALLY=ON -DPKG_RIGID=ON -DPKG_MISC=ON -DPKG_EXTRA-FIX=ON -DPKG_EXTRA-COMMAND=ON \
    >"$CACHE/build.log" 2>&1 || die "cmake of LAMMPS failed: see $CACHE/build.log"
  nice ninja -C "$CACHE/build" -j"${JOBS:-$(nproc)}" >>"$CACHE/build.log" 2>&1 ||
    die "LAMMPS was not built: see $CACHE/build.log"
  touch "$CACHE/ready"
}

settings() {
  [ -f "$CACHE/ready" ] || die "there is no LAMMPS in $CACHE: scripts/asan_lammps.sh make makes it"
  cat <<END
MLFF_LMP=$CACHE/build/lmp
MLFF_PRELOAD=$(c++ -print-file-name=libasan.so) $(c++ -print-file-name=libstdc++.so)
LAMMPS_SOURCE_DIR=$CACHE/tree
LD_LIBRARY_PATH=$CACHE/build:$VENV/lib
PYTHONPATH=$REPOSITORY/python:$CACHE/tree/python
ASAN_OPTIONS=detect_leaks=0:exitcode=99:malloc_context_size=8
END
}

case ${1:-} in
  make)
    mkdir -p "$CACHE"
    sources
    lammps
    ;;
  settings) settings ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
