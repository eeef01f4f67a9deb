#!/bin/sh
# Writes scripts/requirements.txt: the packages of requirements.in and their dependencies, with versions and SHA-256 of
# their files, for x86-64 and aarch64 and every Python of PYTHONS. Needs the network and some minutes.
#
#   scripts/lock.sh               keeps the versions of requirements.txt that requirements.in allows
#   scripts/lock.sh --upgrade     takes the newest versions
#
# Each entry ends with the sections that install it; scripts/pins.sh prints those of a section. pip installs nothing else
# (--require-hashes).
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
uv="$work/venv/bin/uv pip compile -q --no-annotate --no-header --no-emit-index-url"
cd "$HERE"

# All sections at once, so that a package has the same version in each.
grep '^[A-Za-z]' requirements.in | sort -u >"$work/all.in"
[ ! -e requirements.txt ] || cp requirements.txt "$work/all.txt"
# shellcheck disable=SC2086  # several words
$uv --universal --generate-hashes --python-version 3.9 "$@" "$work/all.in" -o "$work/all.txt" >/dev/null ||
  die "requirements.in cannot be resolved; is a package index reachable?"

# The packages of each section: as many lines as "NAME==VERSION SECTION".
: >"$work/members"
sections=$(sed -n 's/^# \[\([a-z]*\)\].*/\1/p' requirements.in)
for section in $sections; do
  sed -n "/^# \[$section\]/,/^\$/p" requirements.in >"$work/$section.in"
  kind="--only-binary :all:" oldest=3.9
  case $section in
    install) kind='' oldest=3.11 ;;
    site) oldest=3.11 ;;
  esac
  # shellcheck disable=SC2086
  $uv $kind --universal --python-version $oldest -c "$work/all.txt" "$work/$section.in" -o "$work/$section.txt" \
    >/dev/null || die "section $section has no wheels for all dependencies"
  sed -n "s/^\([^ ;]*==[^ ;]*\).*/\1 $section/p" "$work/$section.txt" >>"$work/members"
  for python in $PYTHONS; do
    [ "${python#3.}" -ge "${oldest#3.}" ] || continue
    for platform in $PLATFORMS; do
      # shellcheck disable=SC2086
      $uv $kind --no-deps --python-version "$python" --python-platform "$platform" "$work/$section.txt" -o "$work/list" \
        >/dev/null || die "section $section lacks files for Python $python on $platform"
    done
  done
done

awk 'NR == FNR { of[$1] = of[$1] " " $2; next }
     /^[A-Za-z]/ { if (name) print "    # sections:" of[name]; name = $1 }
     /^ *#/ { next }
     { print }
     END { print "    # sections:" of[name] }' "$work/members" "$work/all.txt" >"$work/new.txt"
{ printf '# Written by scripts/lock.sh.\n'; cat "$work/new.txt"; } >requirements.txt
! grep -q 'sections:$' requirements.txt || die "requirements.txt has packages of no section"
