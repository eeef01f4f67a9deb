#!/bin/sh
# On a machine with a GPU, in one call of under ten minutes: builds, compares the GPU with the CPU, looks for wrong
# accesses and races, then measures. Stops at the first thing that is wrong, so there are no numbers of wrong results.
#
#   benchmarks/gpu/run.sh [OUT]     OUT: directory for logs and gpu.json (default: build-gpu/results)
#
# Needs cmake, ninja or make, nvcc, libyaml with headers, python3; Check (libcheck) for the suites, compute-sanitizer
# for step 3: without them these steps are left out, and the summary says so. SECONDS_LEFT changes the limit of 570 s.
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
OUT=${1:-$ROOT/build-gpu/results}
BUILD=$ROOT/build-gpu
LIMIT=${SECONDS_LEFT:-570}
BEGIN=$(date +%s)
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
SUMMARY=$OUT/summary.txt
: >"$SUMMARY"

left() { echo $((LIMIT - $(date +%s) + BEGIN)); }
note() { printf '%4d s  %s\n' "$(($(date +%s) - BEGIN))" "$*" | tee -a "$SUMMARY"; }
die() { note "STOPPED: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
# run NAME COMMAND...: with what is left of the time; the log is OUT/NAME.log
run() {
  name=$1
  shift
  if ! timeout "$(left)" "$@" >"$OUT/$name.log" 2>&1; then
    tail -n 30 "$OUT/$name.log"
    die "$name failed or ran out of time, see $OUT/$name.log"
  fi
}

PATH=$PATH:/usr/local/cuda/bin
have nvcc || die "nvcc was not found"
if have nvidia-smi; then
  nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm --format=csv | tee -a "$SUMMARY"
fi

# 1. build
TESTS=OFF
if have pkg-config && pkg-config --exists check; then
  TESTS=ON
else
  note "left out: suites (libcheck is not installed)"
fi
GENERATOR=
if have ninja; then GENERATOR="-G Ninja"; fi
# shellcheck disable=SC2086  # two words or none
run configure cmake -S "$ROOT" -B "$BUILD" $GENERATOR -DCMAKE_BUILD_TYPE=Release -DMLFF_CUDA=ON \
  -DMLFF_BUILD_PLUGIN=OFF -DMLFF_BUILD_EXAMPLES=OFF -DMLFF_BUILD_TESTS=$TESTS \
  -DMLFF_CUDA_ARCHITECTURES="${MLFF_CUDA_ARCHITECTURES:-native}"
run build cmake --build "$BUILD" -j "$(nproc)"
note "built"

# 2. right before fast: suites on the device, then the shipped models on GPU and CPU
if [ $TESTS = ON ]; then
  run suites ctest --test-dir "$BUILD" -L "op|model" -j 4 --output-on-failure
  grep -h "tests passed" "$OUT/suites.log" | tee -a "$SUMMARY"
fi
run against_cpu python3 "$ROOT/benchmarks/gpu/bench.py" compare --mlff "$BUILD/mlff" --models "$ROOT/models"
note "GPU and CPU agree"

# 3. wrong accesses, uninitialised reads, races, barriers
if [ $TESTS = ON ] && have compute-sanitizer; then
  for tool in memcheck initcheck racecheck synccheck; do
    [ "$(left)" -gt 240 ] || { note "left out: compute-sanitizer $tool (time)"; continue; }
    for suite in test_op_ops test_op_painn_radial; do
      run "$tool-$suite" env CK_FORK=no CK_DEFAULT_TIMEOUT=0 \
        compute-sanitizer --tool $tool --error-exitcode 9 "$BUILD/tests/$suite"
    done
    note "compute-sanitizer $tool: clean"
  done
else
  note "left out: compute-sanitizer"
fi

# 4. measure
run bench python3 "$ROOT/benchmarks/gpu/bench.py" time --mlff "$BUILD/mlff" --models "$ROOT/models" \
  --seconds "$(($(left) - 15))" --out "$OUT/gpu.json"
cat "$OUT/bench.log"
note "measured: $OUT/gpu.json"
