#!/bin/sh
# Benchmarks a model and fails when it got worse. For the CI of a repository that keeps its own model; docs/gates.md explains it.
#
#   examples/ci/gate.sh MODEL.yaml REFERENCE.yaml            pull request: two models side by side, on any machine
#   examples/ci/gate.sh MODEL.yaml --work FOLDER             counted work of a step against stored counts, on any machine
#   examples/ci/gate.sh MODEL.yaml --store-work FOLDER       counts and stores (commit the folder)
#   examples/ci/gate.sh MODEL.yaml --previous BUILD OLD.yaml against the previous build and model, interleaved
#   examples/ci/gate.sh MODEL.yaml --baseline FOLDER         against stored reports of this very machine
#   examples/ci/gate.sh MODEL.yaml --store FOLDER            stores them (commit the folder)
#
# REFERENCE is the model that must stay beaten: the teacher, or last release's model. Its runs are interleaved with MODEL's in the
# same job, so the rules of same-run.yaml do not depend on the machine. Timed is NVT of the small systems that the model runs; counted
# are NVE, NVT and NPT on one and two ranks. Exit code: 0 passed, 1 a rule was broken, 2 could not run.
# MLFF: the program mlff (default: on PATH). BENCH: more arguments of mlff bench. OUT: folder for results (default gate-results).
set -eu

HERE=$(cd "$(dirname "$0")" && pwd)
MLFF=${MLFF:-mlff}
OUT=${OUT:-gate-results}

die() { printf 'gate: %s\n' "$*" >&2; exit 2; }

# bench PATTERN ARGUMENTS...: the cases of the pattern. shellcheck: BENCH is meant to be split into words.
bench() {
  # shellcheck disable=SC2086
  "$MLFF" bench "$@" --model "$MODEL" --out "$OUT" --fresh ${BENCH:-} || die "the benchmark did not run"
}

# systems: what the model runs in the suite
systems() {
  "$MLFF" bench "*-small-nvt-$(name "$MODEL")" --model "$MODEL" --list | sed 's/-small-nvt-.*//'
}

# measure [PATTERN...] ARGUMENTS...: NVT of the small systems, three times
measure() {
  bench "*-small-nvt*-$(name "$MODEL")*" "$@" --repeats 3
}

# count: all ensembles on one and two ranks, once: their work is counted, not timed
count() {
  bench "*-small-*-$(name "$MODEL")" --ranks 1,2 --repeats 1 --steps 40 --equilibrate 5 --count
}

# gate RULES A B: holds the change from A to B against the rules
gate() {
  printf '\n%s -> %s\n' "$(basename "$2")" "$(basename "$3")"
  "$MLFF" compare "$2" "$3" --gate "$1" || failed=1
}

# stored RULES FOLDER NEW: every report of FOLDER against that of the same name in the folder NEW
stored() {
  ls "$2"/*.json >/dev/null 2>&1 || die "$2 holds no reports: make them with --store or --store-work"
  for old in "$2"/*.json; do
    new=$3/$(basename "$old") rules=$1
    case $old in *-r[0-9]*-*) [ ! -f "${1%.yaml}-ranks.yaml" ] || rules=${1%.yaml}-ranks.yaml ;; esac
    if [ -f "$new" ]; then
      gate "$rules" "$old" "$new"
    else
      printf '\n%s: the baseline has this case, and the benchmark did not run it\n' "$(basename "$old")"
      failed=1
    fi
  done
}

# slower: 1 when rules about speed are broken in every round
slower() {
  for new in "$OUT"/runs/*-A.r1.json; do
    rounds=0 bad=0
    for b in "${new%-A.r1.json}"-A.r*.json; do
      a=${b%-A.r*}-B.r${b##*-A.r} rounds=$((rounds + 1)) before=$failed
      failed=0
      gate "$HERE/previous-speed.yaml" "$a" "$b"
      bad=$((bad + failed)) failed=$before
    done
    printf 'slower than the previous build in %d of %d rounds\n' "$bad" "$rounds"
    [ "$bad" -lt "$rounds" ] || failed=1
  done
}

# name MODEL: how a model is called in file names of reports
name() { basename "$1" .yaml | tr -c 'A-Za-z0-9\n' '_'; }

# processor: kernels that valgrind can run here. Counts of other processors are other files: kernels that a change no longer
# chooses are then compared with those it chose.
processor() { if grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then echo avx2; else uname -m; fi; }

[ $# -ge 2 ] || die "usage: gate.sh MODEL.yaml REFERENCE.yaml | --work FOLDER | --store-work FOLDER | --previous BUILD OLD.yaml |
      --baseline FOLDER | --store FOLDER"
MODEL=$1
[ -f "$MODEL" ] || die "there is no model file $MODEL"
case $2 in
  --store | --store-work | --baseline | --work | --previous) ;;
  --*) die "there is no option $2" ;;
esac
case $2 in
  --previous) [ $# -eq 4 ] || die "--previous needs a build and its model file" ;;
  --*) [ $# -eq 3 ] || die "$2 needs a folder" ;;
esac
case $2 in
  *work) command -v valgrind >/dev/null || die "valgrind is not installed, which counts instructions" ;;
esac
failed=0
case $2 in
  --store)
    measure
    mkdir -p "$3" && cp "$OUT"/cases/*.json "$3"/
    printf 'stored in %s; commit it\n' "$3"
    ;;
  --store-work)
    count
    mkdir -p "$3/$(processor)" && cp "$OUT/work"/*.json "$3/$(processor)"/
    printf 'stored in %s; commit it\n' "$3/$(processor)"
    ;;
  --baseline)
    ls "$3"/*.json >/dev/null 2>&1 || die "$3 holds no reports: make them with --store"
    measure
    stored "$HERE/baseline.yaml" "$3" "$OUT/cases"
    ;;
  --work)
    ls "$3/$(processor)"/*.json >/dev/null 2>&1 || die "$3/$(processor) holds no counts: make them with --store-work"
    count
    stored "$HERE/work.yaml" "$3/$(processor)" "$OUT/work"
    ;;
  --previous)
    [ -e "$3" ] || die "there is no build $3"
    [ -f "$4" ] || die "there is no model file $4"
    measure --against "$3" --reference "$4"
    for new in "$OUT"/cases/*-A.json; do gate "$HERE/previous.yaml" "${new%-A.json}-B.json" "$new"; done
    slower
    ;;
  *)
    [ -f "$2" ] || die "there is no model file $2"
    # shellcheck disable=SC2046
    measure $(systems | sed "s/\$/-small-nvt*-$(name "$2")/") --model "$2" --reference "$2"
    for new in "$OUT"/cases/*-"$(name "$MODEL")".json; do
      gate "$HERE/same-run.yaml" "${new%"$(name "$MODEL")".json}$(name "$2").json" "$new"
    done
    ;;
esac
exit $failed
