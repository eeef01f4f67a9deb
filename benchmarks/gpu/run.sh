#!/bin/sh
# On a machine with a GPU, in one call of under ten minutes: builds, compares the GPU with the CPU, looks for wrong
# accesses and races, then measures. Stops at the first thing that is wrong, so there are no numbers of wrong results.
#
#   benchmarks/gpu/run.sh [OUT]              OUT: directory for logs and gpu.json (default: build-gpu/results)
#   benchmarks/gpu/run.sh --pack             builds only, and puts what the other call needs into gpu-pack/: for a
#                                            machine with a GPU but not all of the packages below; copy all of it
#   benchmarks/gpu/run.sh --simulated [OUT]  everything with the simulated device, small: a test of this script
#
# Building needs cmake, ninja or make, nvcc, libyaml and Check with headers, python3 with numpy and PyYAML; with
# gpu-pack/ nothing but python3 is needed. PyTorch is compared with where python3 ($PYTHON) has it; compute-sanitizer
# runs where it is installed. What is left out is said in the summary. SECONDS_LEFT changes the limit of 570 s; every part
# has one of its own, so nothing can hang. However it ends, gpu.json has what was measured until then, and the summary.
# Nothing uses the network. MLFF_GPU_BUILD and MLFF_GPU_PACK are other places for build-gpu/ and gpu-pack/.
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
HERE=$ROOT/benchmarks/gpu
PACK=${MLFF_GPU_PACK:-$ROOT/gpu-pack}
BUILD=${MLFF_GPU_BUILD:-$ROOT/build-gpu}
PYTHON=${PYTHON:-python3}
WHAT=run
case ${1:-} in --pack | --simulated) WHAT=${1#--}; shift ;; esac
OUT=${1:-$BUILD/results}
LIMIT=${SECONDS_LEFT:-570}
BEGIN=$(date +%s)
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
SUMMARY=$OUT/summary.txt
: >"$SUMMARY"
rm -f "$OUT"/check.json "$OUT"/bench.json "$OUT"/torch.json "$OUT"/gpu.json

left() { echo $((LIMIT - $(date +%s) + BEGIN)); }
note() { printf '%4d s  %s\n' "$(($(date +%s) - BEGIN))" "$*" | tee -a "$SUMMARY"; }
die() { note "STOPPED: $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
# limited SECONDS NAME COMMAND...: at most so long, and no longer than what is left, but for the last 5 s; the log is
# OUT/NAME.log. What does not end when told to is killed. 124 or 137: it ran out of time.
limited() {
  most=$1 name=$2
  shift 2
  rest=$(($(left) - 5))
  [ "$most" -le "$rest" ] || most=$rest
  [ "$most" -ge 1 ] || return 124 # of timeout, 0 would be no limit
  timeout -k 3 "$most" "$@" >"$OUT/$name.log" 2>&1 </dev/null
}
# run SECONDS NAME COMMAND...: stops everything when it fails
run() {
  limited "$@" && return 0
  code=$?
  [ ! -s "$OUT/$name.log" ] || tail -n 30 "$OUT/$name.log"
  case $code in 124 | 137) die "$name ran out of time" ;; esac
  die "$name failed, see $OUT/$name.log"
}
# The same where that is no reason to stop.
try() { limited "$@" || note "$name failed or ran out of time, see $OUT/$name.log"; }
# Whatever happens, gpu.json has what there is.
finish() {
  code=$?
  trap - EXIT
  timeout -k 3 30 "$PYTHON" "$HERE/bench.py" join "$OUT/check.json" "$OUT/bench.json" "$OUT/torch.json" \
    --summary "$SUMMARY" --out "$OUT/gpu.json" && echo "results: $OUT/gpu.json"
  exit $code
}

# 1. build, or what was built elsewhere
build() {
  if [ "$WHAT" = simulated ]; then
    BACKEND="-DMLFF_CUDASIM=ON -DMLFF_KERNELS_X86=OFF"
  else
    PATH=$PATH:/usr/local/cuda/bin
    have nvcc || die "nvcc was not found; a machine without it needs gpu-pack/, see the top of this script"
    NATIVE=native
    [ "$WHAT" = run ] || NATIVE="80-real;90"
    BACKEND="-DMLFF_CUDA=ON -DMLFF_CUDA_ARCHITECTURES=${MLFF_CUDA_ARCHITECTURES:-$NATIVE}"
  fi
  GENERATOR=
  if have ninja; then GENERATOR="-G Ninja"; fi
  # shellcheck disable=SC2086  # words, or none
  run 90 configure cmake -S "$ROOT" -B "$BUILD" $GENERATOR -DCMAKE_BUILD_TYPE=Release $BACKEND \
    -DMLFF_BUILD_PLUGIN=OFF -DMLFF_BUILD_EXAMPLES=OFF -DMLFF_BUILD_TESTS=ON
  run 300 build cmake --build "$BUILD" -j "${JOBS:-$(nproc)}"
  SMALL_MODELS=
  [ "$WHAT" != simulated ] || SMALL_MODELS=--small
  # shellcheck disable=SC2086  # a word, or none
  run 60 models "$PYTHON" "$HERE/shapes.py" "$BUILD/bench-models" $SMALL_MODELS
}

# Programs, test programs, the libraries that a bare machine lacks, and models.
pack() {
  rm -rf "$PACK"
  mkdir -p "$PACK/tests" "$PACK/lib"
  cp "$BUILD/mlff" "$PACK"
  cp -r "$BUILD/bench-models" "$PACK/models"
  rm -f "$PACK/models/random-orb-v2.safetensors" # 100 MB that orb_weights.py makes again
  for program in "$BUILD"/tests/test_op_* "$BUILD"/tests/test_model_*; do
    [ ! -x "$program" ] || cp "$program" "$PACK/tests"
  done
  for program in "$PACK"/mlff "$PACK"/tests/*; do
    ldd "$program" | sed -n 's/.*=> \(.*lib\(yaml\|check\|subunit\)[^ ]*\) .*/\1/p'
  done | sort -u | while read -r library; do cp -L "$library" "$PACK/lib"; done
  note "packed: $PACK, $(du -sh "$PACK" | cut -f1)"
}

[ "$WHAT" = pack ] || trap finish EXIT
if [ "$WHAT" != pack ] && [ -x "$PACK/mlff" ]; then
  MLFF=$PACK/mlff TESTS=$PACK/tests MODELS=$PACK/models
  export LD_LIBRARY_PATH="$PACK/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  note "built elsewhere: $PACK"
else
  build
  MLFF=$BUILD/mlff TESTS=$BUILD/tests MODELS=$BUILD/bench-models
  note "built"
fi
if [ "$WHAT" = pack ]; then
  pack
  exit 0
fi
SIDES="4 7" DEVICE=cuda SMALL='' SMALL_TORCH=''
SUITES="op_ops op_linear op_ani op_painn op_painn_radial op_orb model_ani model_painn model_painn_properties model_orb"
if [ "$WHAT" = simulated ]; then
  SIDES=1 DEVICE=cpu SUITES=op_ops SMALL=--small SMALL_TORCH="--each 0.1 --no-compile --most-atoms 24"
fi
STRUCTURES=$OUT/structures
[ ! -f "$MODELS/random-orb-v2.json" ] || run 60 weights "$PYTHON" "$HERE/orb_weights.py" "$MODELS/random-orb-v2.json"

# 2. what is here: launch floor and bandwidths
run 60 check "$MLFF" check --json "$OUT/check.json"
cat "$OUT/check.log"

# 3. right before fast: suites on the device, then the models on GPU and CPU
for suite in $SUITES; do
  (cd "$ROOT/tests" && run 120 "$suite" "$TESTS/test_$suite")
  note "$suite: $(grep '^[0-9]*%: Checks' "$OUT/$suite.log")"
done
# shellcheck disable=SC2086  # a list of numbers
run 120 against_cpu "$PYTHON" "$HERE/bench.py" compare --mlff "$MLFF" --models "$MODELS" --sides $SIDES
note "GPU and CPU agree"

# 4. wrong accesses, uninitialised reads, races, barriers
sanitize() {
  for suite in op_ops op_linear op_painn_radial; do
    (cd "$ROOT/tests" && limited 60 "$1-$suite" env CK_FORK=no CK_DEFAULT_TIMEOUT=0 \
      compute-sanitizer --tool "$1" --error-exitcode 9 "$TESTS/test_$suite") && continue
    case $? in 124 | 137) note "left out: the rest of compute-sanitizer $1 (time)"; return 0 ;; esac
    tail -n 30 "$OUT/$1-$suite.log"
    die "compute-sanitizer $1 found something in $suite, see $OUT/$1-$suite.log"
  done
  note "compute-sanitizer $1: clean"
}
if [ "$WHAT" = run ] && have compute-sanitizer; then
  for tool in memcheck initcheck racecheck synccheck; do
    if [ "$(left)" -gt 330 ]; then sanitize $tool; else note "left out: compute-sanitizer $tool (time)"; fi
  done
else
  note "left out: compute-sanitizer"
fi

# 5. measure, then PyTorch on the same structures
rm -rf "$STRUCTURES"
# shellcheck disable=SC2086  # a word, or none
run 60 water "$PYTHON" "$HERE/bench.py" water --structures "$STRUCTURES" $SMALL
TORCH=no
if limited 60 torch_version "$PYTHON" -c 'import torch; print(torch.__version__)'; then TORCH=yes; fi
SHARE=$(($(left) - 20))
[ "$TORCH" = no ] || SHARE=$((SHARE * 6 / 10))
ATTEMPT=try
[ "$WHAT" = run ] || ATTEMPT=run # a test of this script must not hide what fails
# shellcheck disable=SC2086  # a word, or none
$ATTEMPT "$((SHARE + 5))" bench "$PYTHON" "$HERE/bench.py" time --mlff "$MLFF" --models "$MODELS" \
  --structures "$STRUCTURES" --seconds "$SHARE" --out "$OUT/bench.json" $SMALL
cat "$OUT/bench.log"
if [ "$TORCH" = yes ]; then
  # shellcheck disable=SC2086  # words, or none
  $ATTEMPT 600 torch "$PYTHON" "$HERE/torch_bench.py" --models "$MODELS" --structures "$STRUCTURES" --mlff "$MLFF" \
    --device $DEVICE --seconds "$(($(left) - 15))" --out "$OUT/torch.json" $SMALL_TORCH
  cat "$OUT/torch.log"
else
  note "left out: PyTorch ($PYTHON has none)"
fi
rm -r "$STRUCTURES"
note "measured"
