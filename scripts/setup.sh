#!/bin/sh
# Makes this machine ready: system packages, the Python environment .venv, and the build. Running it again changes nothing
# and takes about a second.
#
#   scripts/setup.sh build [BUILD_DIR]   what `make demo` needs; builds into BUILD_DIR (default: build)
#   scripts/setup.sh test [BUILD_DIR]    the same, with tests and with the tools that `make test` and `make lint` use
#   scripts/setup.sh install [BUILD_DIR] the same as test, with what `make test-install` uses
#   scripts/setup.sh site                what `make site` needs; builds nothing
#   scripts/setup.sh packages build|test|fuzz  only the system packages; fuzz: also those of `make fuzz`
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
VENV=$ROOT/.venv
MISSING=

say() { printf '%s\n' "mlff setup: $*"; }
die() { printf '%s\n' "mlff setup: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# need PROBE PACKAGE...: remembers the Debian packages when the probe (a command line) fails.
need() {
  probe=$1
  shift
  eval "$probe" >/dev/null 2>&1 || MISSING="$MISSING $*"
}

# has_library HEADER LIBRARY: whether a program with it compiles. CMake also searches CMAKE_PREFIX_PATH.
has_library() {
  flags=$(printf '%s\n' "${CMAKE_PREFIX_PATH:-}" | tr ':;' '\n' | sed -n 's|..*|-I&/include -L&/lib -L&/lib64|p')
  # shellcheck disable=SC2086  # one word per flag
  printf '#include <%s>\nint main(void) { return 0; }\n' "$1" |
    "${CC:-cc}" -x c - $flags -l"$2" -o /dev/null
}

python_is_usable() {
  have python3 && python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'
}

can_fuzz() {
  printf 'int LLVMFuzzerTestOneInput(const char *x, unsigned long n) { return x && n > 99; }\n' |
    clang -x c - -fsanitize=fuzzer,address -o /dev/null
}

find_missing() {
  MISSING=
  need python_is_usable python3
  [ -x "$VENV/bin/python" ] || need 'python3 -c "import ensurepip, venv"' python3-venv
  [ "$1" != site ] || return 0
  need 'have gcc || have cc' gcc libc6-dev
  need 'have g++ || have c++' g++
  need 'have cmake' cmake
  need 'have ninja' ninja-build
  need 'has_library yaml.h yaml' libyaml-dev
  need 'have nm' binutils
  if [ "$1" != build ]; then
    need 'has_library check.h check || has_library check.h check_pic' check
    need 'have valgrind' valgrind
    need 'have cppcheck' cppcheck
    need 'have shellcheck' shellcheck
    need 'have ccache' ccache
  fi
  if [ "$1" = fuzz ]; then
    need can_fuzz clang libclang-rt-dev
    need 'have llvm-cov && have llvm-profdata' llvm
  fi
}

install_packages() {
  find_missing "$1"
  [ -n "$MISSING" ] || return 0
  if ! have apt-get; then
    die "these are missing here, under their Debian names:$MISSING. Install them and run this again."
  fi
  if [ "$(id -u)" = 0 ]; then
    as_root=
  elif have sudo && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
    as_root=sudo
  else
    die "these Debian packages are missing and this user cannot install them:$MISSING.
Ask for: apt-get install -y$MISSING
and run this again."
  fi
  say "installing system packages:$MISSING"
  log=$(mktemp)
  # shellcheck disable=SC2086  # one word per package
  if ! { $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
         $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $MISSING; } \
      >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install:$MISSING (its last lines are above)"
  fi
  rm -f "$log"
  asked=$MISSING
  find_missing "$1"
  [ -z "$MISSING" ] || die "still missing after apt-get install$asked:$MISSING"
}

# install_python MODE: creates .venv, installs the pinned packages and lets it find mlff_tools of this source; skipped when
# the pins have not changed.
install_python() {
  case $1 in
    test) sections='build test site' ;;
    install) sections='build test site install' ;;
    *) sections=$1 ;;
  esac
  [ -x "$VENV/bin/python" ] || { say "creating .venv"; python3 -m venv "$VENV"; }
  for section in $sections; do
    stamp=$VENV/mlff-$section.txt pins=$VENV/mlff-$section.new
    "$ROOT/scripts/pins.sh" "$section" >"$pins" || die "scripts/requirements.txt has no section $section"
    if ! cmp -s "$pins" "$stamp"; then
      say "installing Python packages of section $section of scripts/requirements.txt into .venv"
      # Modules are compiled when they are first imported; compiling all of them takes half of the time.
      "$VENV/bin/python" -m pip install -q --no-compile --disable-pip-version-check --require-hashes -r "$pins" </dev/null ||
        die "pip could not install the packages of section $section; is a package index reachable?"
    fi
    mv "$pins" "$stamp"
  done
  for place in "$VENV"/lib/python3*/site-packages; do
    [ -f "$place/mlff_tools.pth" ] || echo ../../../../python >"$place/mlff_tools.pth" # seen from there: $ROOT/python
  done
}

# install_hook: git checks the messages of commits, unless this clone has a hook for it. Not in sources without tests.
install_hook() {
  [ ! -f "$ROOT/tests/lint/commits.py" ] || "$VENV/bin/python" "$ROOT/tests/lint/commits.py" --install ||
    say "could not install the hook that checks commit messages"
}

# build MODE DIR
build() {
  tests=OFF launcher=
  [ "$1" = build ] || tests=ON launcher=ccache # other builds of `make test` compile the same with the same flags
  if [ -f "$2/CMakeCache.txt" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$2/CMakeCache.txt"; then
    die "$2 was made for another source directory; remove it or choose another with BUILD=DIR"
  fi
  if [ ! -f "$2/build.ninja" ] || { [ $tests = ON ] && ! grep -qx 'MLFF_BUILD_TESTS:BOOL=ON' "$2/CMakeCache.txt"; }; then
    say "configuring $2"
    cmake -S "$ROOT" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMLFF_PYTHON="$VENV/bin/python" \
      -DMLFF_CUDA="${CUDA:-OFF}" -DMLFF_BUILD_TESTS=$tests -DMLFF_WARNINGS_AS_ERRORS=$tests \
      ${launcher:+-DCMAKE_C_COMPILER_LAUNCHER=$launcher -DCMAKE_CXX_COMPILER_LAUNCHER=$launcher} >"$2.log" 2>&1 ||
      { cat "$2.log" >&2; rm -f "$2.log"; die "cmake failed"; }
    grep -e '-- LAMMPS' "$2.log" || true
    rm -f "$2.log"
    say "building $2 (a minute or two)"
  fi
  output=$(ninja -C "$2" --quiet 2>&1) || { printf '%s\n' "$output" >&2; die "the build failed"; }
}

mode=${1:-build}
case $mode in
  packages) install_packages "${2:-build}" ;;
  build | test | install)
    install_packages "$mode"
    install_python "$mode"
    install_hook
    build "$mode" "${2:-$ROOT/build}"
    ;;
  site)
    install_packages site
    install_python site
    ;;
  *) die "unknown mode '$mode': build, test, install, site or packages" ;;
esac
