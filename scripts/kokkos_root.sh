#!/bin/sh
# A Debian sid with Kokkos and a LAMMPS that has the packages KOKKOS and PLUGIN, in a folder of its own: with it pair_style
# mlff/kk is tested. Needs root, debootstrap (which it installs where there is apt-get), the network (deb.debian.org), 3 GB,
# and minutes to compile LAMMPS. LAMMPS' own tests of pair styles and of fixes (unittest/force-styles) are compiled there, too.
#
#   scripts/kokkos_root.sh make              makes it, or goes on where the last time ended
#   scripts/kokkos_root.sh ready             exit code 0 when it is there, else it says why not
#   scripts/kokkos_root.sh run COMMAND...    runs a command in it; FOLDERS: folders that it shall see besides this one
#
# It is kept in $MLFF_CACHE/kokkos-sid (default: ~/.cache/mlff/kokkos-sid); removing that folder removes everything.
set -eu

REPOSITORY=$(cd "$(dirname "$0")/.." && pwd)
CACHE=${MLFF_CACHE:-$HOME/.cache/mlff}/kokkos-sid
ROOT=$CACHE/root
MIRROR=http://deb.debian.org/debian
RECIPE=2    # another number: what was made before is not ready
PACKAGES="g++ cmake ninja-build libkokkos-dev libmpich-dev mpich libyaml-dev
  python3-numpy python3-yaml python3-safetensors python3-pytest"

say() { printf '%s\n' "mlff kokkos: $*"; }
die() { printf '%s\n' "mlff kokkos: $*" >&2; exit 1; }

# enter COMMAND...: in the root, with this repository and $FOLDERS at their own paths; mounts end with the command.
enter() {
  shared=$REPOSITORY
  for folder in ${FOLDERS:-}; do shared="$shared $(cd "$folder" && pwd)"; done
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --propagation private sh -eu -c '
    root=$1 folders=$2 here=$3
    shift 3
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    for folder in $folders; do
      mkdir -p "$root$folder"
      mount --bind "$folder" "$root$folder"
    done
    [ -d "$root$here" ] || here=/
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive sh -eu -c "cd \"\$1\"; shift; exec \"\$@\"" sh "$here" "$@"
  ' sh "$ROOT" "$shared" "$PWD" "$@" </dev/null
}

# step NAME FUNCTION: does a part once; its output is in NAME.log.
step() {
  [ ! -f "$CACHE/$1.done" ] || return 0
  say "$1"
  set +e    # not `if`, in which no error would end the function
  (set -e; "$2") >"$CACHE/$1.log" 2>&1
  result=$?
  set -e
  if [ $result != 0 ]; then
    tail -n 25 "$CACHE/$1.log" >&2
    die "$1 failed; all of its output is in $CACHE/$1.log"
  fi
  touch "$CACHE/$1.done"
}

debian() {
  if ! command -v debootstrap; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends debootstrap
  fi
  rm -rf "$ROOT"
  debootstrap --variant=minbase --include=ca-certificates sid "$ROOT" "$MIRROR"
}

packages() {
  printf 'deb %s sid main\ndeb-src %s sid main\n' "$MIRROR" "$MIRROR" >"$ROOT/etc/apt/sources.list"
  # Containers often have no other user to give, and mirrors of sid lag behind now and then.
  printf '%s\n' 'APT::Sandbox::User "root";' 'Acquire::Check-Valid-Until "false";' >"$ROOT/etc/apt/apt.conf.d/90mlff"
  enter apt-get update -q
  # shellcheck disable=SC2086  # one word per package
  enter apt-get install -y -q --no-install-recommends $PACKAGES
}

# Styles that no test uses: more than half of the time to compile.
leave_out() {
  (cd "$1/MOLECULE" && rm -f angle_[!h]* bond_[!h]* dihedral_* improper_* pair_* fix_*)
  (cd "$1" && rm -f fix_adapt.* fix_ave_* fix_aveforce.* fix_deposit.* fix_dt_reset.* fix_efield.* fix_enforce2d.* \
    fix_evaporate.* fix_gravity.* fix_heat.* fix_indent.* fix_lineforce.* fix_move.* fix_n[pv]?_sphere.* \
    fix_nve_noforce.* fix_nvt_sllod.* fix_planeforce.* fix_press_* fix_recenter.* fix_restrain.* fix_spring* \
    fix_thermal_* fix_vector.* fix_wall* dump_cfg.* dump_grid* dump_local.* dump_xyz.* pair_born.* pair_buck* \
    pair_coul* pair_lj_cut_* pair_lj_expand.* pair_morse.* pair_soft.* pair_table.* pair_yukawa.*)
  (cd "$1/KOKKOS" && rm -f angle_* bond_* dihedral_* improper_* fix_cmap_* fix_addforce_* fix_external_* fix_viscous_* \
    fix_langevin_* fix_deform_* fix_momentum_* fix_neigh_history_* fix_nph_* fix_nve_noforce_* fix_setforce_* fix_temp_* \
    region_* atom_vec_ellipsoid_* atom_vec_hybrid_* atom_vec_sphere_* atom_vec_angle_* atom_vec_bond_* \
    compute_orientorder_* compute_coord_* compute_erotate_* compute_temp_com_* compute_temp_deform_* \
    compute_temp_sphere_* pair_lj_charmm_*)
}

# The archive of the sources is there when their description, the .dsc, is not any more.
sources() {
  mkdir -p "$ROOT/opt/lammps"
  archive=$(find "$ROOT/opt/lammps" -maxdepth 1 -name 'lammps_*.orig.tar.*' | head -n 1)
  if [ -z "$archive" ]; then
    enter sh -c 'cd /opt/lammps && apt-get source -q --download-only lammps' || true
    archive=$(find "$ROOT/opt/lammps" -maxdepth 1 -name 'lammps_*.orig.tar.*' | head -n 1)
  fi
  [ -n "$archive" ] || { echo "apt-get source lammps brought no lammps_*.orig.tar"; return 1; }
  rm -rf "$ROOT/opt/lammps/all"
  mkdir "$ROOT/opt/lammps/all"
  tar -xf "$archive" -C "$ROOT/opt/lammps/all" --anchored --exclude=doc --exclude=examples --exclude=bench
  version=$(find "$ROOT/opt/lammps/all" -maxdepth 3 -path '*/src/version.h')
  top=$(dirname "$(dirname "${version:?the archive has no src/version.h}")")
  leave_out "$top/src"
  ln -sfn "${top#"$ROOT"}" "$ROOT/opt/lammps/tree"
}

# Debian's CMake files of Kokkos name archives that its package does not have; they would be empty.
archives() {
  # shellcheck disable=SC2016
  enter sh -eu -c '
    folder=$(dirname "$(find /usr/lib -name libkokkoscore.so -o -name libkokkoscore.a | head -n 1)")
    cat /usr/lib/*/cmake/Kokkos/*.cmake | grep -oE "libkokkos[a-z]*\.a" | sort -u |
      while read -r name; do [ -e "$folder/$name" ] || ar rcs "$folder/$name"; done'
}

lammps() {
  # Most of the time goes into reading Kokkos over and over: read once. Not optimised: tests have few atoms.
  cat >"$ROOT/opt/lammps/precompile.cmake" <<'END'
cmake_language(DEFER CALL target_precompile_headers lammps PRIVATE <Kokkos_Core.hpp> <Kokkos_DualView.hpp>
  <Kokkos_ScatterView.hpp> <Kokkos_UnorderedMap.hpp> <Kokkos_Sort.hpp>)
END
  enter cmake -S /opt/lammps/tree/cmake -B /opt/lammps/build -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DCMAKE_CXX_STANDARD=20 -DCMAKE_PROJECT_lammps_INCLUDE=/opt/lammps/precompile.cmake \
    -DBUILD_SHARED_LIBS=ON -DBUILD_MPI=ON -DMPI_CXX_COMPILER=/usr/bin/mpicxx.mpich -DBUILD_OMP=ON -DPKG_KOKKOS=ON -DEXTERNAL_KOKKOS=yes -DPKG_PLUGIN=ON \
    -DPKG_MOLECULE=ON -DPKG_KSPACE=OFF -DWITH_JPEG=OFF -DWITH_PNG=OFF -DWITH_GZIP=OFF -DWITH_CURL=OFF
  enter ninja -C /opt/lammps/build -j"${JOBS:-$(nproc)}"
}

# LAMMPS' own testers, with the size of integers that the library was compiled for.
testers() {
  enter apt-get install -y -q --no-install-recommends libgmock-dev python3-junit.xml valgrind
  # shellcheck disable=SC2016
  enter sh -eu -c '
    of=/opt/lammps/tree/unittest/force-styles
    sizes=$(grep -o -m 1 "LAMMPS_[A-Z]*BIG" /opt/lammps/build/build.ninja)
    shared=$(find "$of" "$of/.." -maxdepth 1 -name yaml_writer.cpp -o -maxdepth 1 -name error_stats.cpp)
    mkdir -p /opt/lammps/testers
    for name in test_pair_style test_fix_timestep; do
      # shellcheck disable=SC2086
      mpicxx.mpich -std=c++20 -O0 -D"$sizes" -DTEST_INPUT_FOLDER="$of/tests" -I/opt/lammps/tree/src -I"$of" -I"$of/.." \
        "$of/$name.cpp" $shared "$of/test_config_reader.cpp" "$of/test_main.cpp" \
        -L/opt/lammps/build -Wl,-rpath,/opt/lammps/build -llammps -lgmock -lgtest -lyaml -o "/opt/lammps/testers/$name"
    done'
}

tell() {
  if [ ! -f "$CACHE/ready" ]; then
    echo "there is no LAMMPS with Kokkos in $CACHE: make test-kokkos makes it"
    return 1
  fi
  [ "$(cat "$CACHE/ready")" = "$RECIPE" ] || { echo "$CACHE is of another version of this script: remove it"; return 1; }
  [ "$(id -u)" = 0 ] || { echo "only root can run commands in $CACHE"; return 1; }
}

make_root() {
  [ "$(id -u)" = 0 ] || die "making and entering a Debian of its own needs root"
  command -v debootstrap >/dev/null || command -v apt-get >/dev/null || die "debootstrap is missing here"
  unshare --mount true 2>/dev/null || die "this machine does not allow mounts of one's own (unshare --mount)"
  mkdir -p "$CACHE"
  if [ -f "$CACHE/ready" ] && [ "$(cat "$CACHE/ready")" != "$RECIPE" ]; then tell || exit 1; fi
  step debian debian
  step packages packages
  step sources sources
  step archives archives
  step lammps lammps
  step testers testers
  [ -f "$CACHE/ready" ] || echo "$RECIPE" >"$CACHE/ready"
}

case ${1:-} in
  make) make_root ;;
  ready) tell ;;
  run) shift; tell >&2; enter "$@" ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
