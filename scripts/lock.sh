#!/bin/sh
# Makes scripts/requirements*.txt: the packages of requirements*.in and all that these need, with versions and SHA-256 of
# their files, for x86-64 and aarch64 and every Python of PYTHONS. Needs the network; some minutes.
#
#   scripts/lock.sh               versions that are there stay, where the .in files let them
#   scripts/lock.sh --upgrade     the newest that fit
#
# pip installs nothing but these files (--require-hashes). tests/lint compares the two lists.
set -eu

UV=uv==0.13.9
PYTHONS="3.9 3.10 3.11 3.12 3.13 3.14"
PLATFORMS="x86_64-manylinux_2_28 aarch64-manylinux_2_28"
HERE=$(cd "$(dirname "$0")" && pwd)

die() { printf '%s\n' "mlff lock: $*" >&2; exit 1; }

export UV_PYTHON_DOWNLOADS=never    # none is run
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "$UV" || die "pip could not install $UV"
uv="$work/venv/bin/uv pip compile -q --no-annotate --no-emit-index-url"
cd "$HERE"

# lock NAME PYTHON KIND OPTION...: NAME.txt of NAME.in, from this Python on, of wheels alone or of sources as well; then whether
# each processor and Python finds its files
lock() {
  name=$1 oldest=$2 kind=
  [ "$3" = sources ] || kind="--only-binary :all:"
  shift 3
  # shellcheck disable=SC2086  # two words
  $uv $kind --universal --generate-hashes --python-version "$oldest" --custom-compile-command scripts/lock.sh "$@" \
    "$name.in" -o "$name.txt" >/dev/null || die "$name.in cannot be resolved; is a package index reachable?"
  for python in $PYTHONS; do
    [ "${python#3.}" -ge "${oldest#3.}" ] || continue
    for platform in $PLATFORMS; do
      # shellcheck disable=SC2086  # two words
      $uv $kind --no-deps --python-version "$python" --python-platform "$platform" "$name.txt" -o "$work/list" >/dev/null ||
        die "$name.txt lacks files for Python $python on $platform"
    done
  done
}

lock requirements 3.9 wheels "$@"
lock requirements-test 3.9 wheels -c requirements.txt "$@"
lock requirements-site 3.9 wheels -c requirements-test.txt "$@"
lock requirements-train 3.9 wheels -c requirements.txt -c requirements-test.txt "$@"
lock requirements-install 3.11 sources -c requirements-test.txt "$@"
