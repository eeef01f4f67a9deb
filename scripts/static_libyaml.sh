#!/bin/sh
# libyaml as a static library, for wheels that need nothing else where they run. Needs a C compiler, Python 3 and the network.
#
#   scripts/static_libyaml.sh PREFIX     PREFIX/include/yaml.h, PREFIX/lib/libyaml.a, its licence and version; again changes nothing
#
# CMake finds it with CMAKE_PREFIX_PATH=PREFIX. CC and AR name other compilers.
set -eu

VERSION=0.2.5
SHA256=fa240dbf262be053f3898006d502d514936c818e422afdcf33921c63bed9bf2e
MIRROR=http://deb.debian.org/debian/pool/main/liby/libyaml

die() { printf '%s\n' "mlff static_libyaml: $*" >&2; exit 1; }

[ $# = 1 ] || die "usage: scripts/static_libyaml.sh PREFIX"
mkdir -p "$1/include" "$1/lib" "$1/share/licenses/libyaml" || exit 1
prefix=$(cd "$1" && pwd)
[ ! -e "$prefix/lib/libyaml.a" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -c '
import hashlib, io, sys, tarfile, urllib.request
url, sha256, place = sys.argv[1:]
data = urllib.request.urlopen(url, timeout=60).read()
if hashlib.sha256(data).hexdigest() != sha256:
    sys.exit(url + " is not the file that is wanted: its SHA-256 is another one")
tarfile.open(fileobj=io.BytesIO(data)).extractall(place)
' "$MIRROR/libyaml_$VERSION.orig.tar.gz" "$SHA256" "$work" 2>"$work/errors" ||
  die "the source of libyaml $VERSION cannot be had: $(tail -n 1 "$work/errors")"
cd "$work/libyaml-$VERSION"
for file in src/*.c; do
  ${CC:-cc} -O2 -fPIC -Iinclude -DYAML_VERSION_STRING="\"$VERSION\"" -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 \
    -DYAML_VERSION_PATCH=5 -c "$file" -o "$(basename "$file" .c).o" || die "cannot compile $file"
done
${AR:-ar} rcsD "$work/libyaml.a" ./*.o || die "cannot make libyaml.a"
cp include/yaml.h "$prefix/include/"
cp License "$prefix/share/licenses/libyaml/LICENSE"
printf '%s\n' "$VERSION" >"$prefix/share/licenses/libyaml/VERSION"
cp "$work/libyaml.a" "$prefix/lib/libyaml.a"    # last: it says that all is there
