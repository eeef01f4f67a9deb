#!/bin/sh
# Benchmarks a model and fails when it got worse. For the CI of a repository that keeps its own model; docs/benchmarks.md explains it.
#
#   examples/ci/gate.sh MODEL.yaml REFERENCE.yaml            pull request: two models side by side, on any machine
#   examples/ci/gate.sh MODEL.yaml --baseline FOLDER         against stored reports of this very machine
#   examples/ci/gate.sh MODEL.yaml --store FOLDER            stores them (commit the folder)
#
# REFERENCE is the model that must stay beaten: the teacher, or last release's model. Its runs are interleaved with MODEL's in the
# same job, so the rules of same-run.yaml do not depend on the machine. Exit code: 0 passed, 1 a rule was broken, 2 could not run.
# MLFF: the program mlff (default: on PATH). BENCH: more arguments of mlff bench. OUT: folder for results (default gate-results).
set -eu

HERE=$(cd "$(dirname "$0")" && pwd)
MLFF=${MLFF:-mlff}
OUT=${OUT:-gate-results}

die() { printf 'gate: %s\n' "$*" >&2; exit 2; }

# bench ARGUMENTS...: the cases of this recipe. shellcheck: BENCH is meant to be split into words.
bench() {
  # shellcheck disable=SC2086
  "$MLFF" bench 'water-small-nvt*' --model "$MODEL" --repeats 3 --out "$OUT" --fresh "$@" ${BENCH:-} || die "the benchmark did not run"
}

# gate RULES A B: holds the change from A to B against the rules
gate() {
  printf '\n%s -> %s\n' "$(basename "$2")" "$(basename "$3")"
  "$MLFF" compare "$2" "$3" --gate "$1" || failed=1
}

# name MODEL: how a model is called in file names of reports
name() { basename "$1" .yaml | tr -c 'A-Za-z0-9\n' '_'; }

[ $# -ge 2 ] || die "usage: gate.sh MODEL.yaml REFERENCE.yaml | --baseline FOLDER | --store FOLDER"
MODEL=$1
[ -f "$MODEL" ] || die "there is no model file $MODEL"
failed=0
case $2 in
  --store)
    [ $# -eq 3 ] || die "--store needs a folder"
    bench
    mkdir -p "$3" && cp "$OUT"/cases/*.json "$3"/
    printf 'stored in %s; commit it\n' "$3"
    ;;
  --baseline)
    [ $# -eq 3 ] || die "--baseline needs a folder"
    ls "$3"/*.json >/dev/null 2>&1 || die "$3 holds no reports: make them with --store"
    bench
    for old in "$3"/*.json; do
      new=$OUT/cases/$(basename "$old")
      if [ -f "$new" ]; then
        gate "$HERE/baseline.yaml" "$old" "$new"
      else
        printf '\n%s: the baseline has this case, and the benchmark did not run it\n' "$(basename "$old")"
        failed=1
      fi
    done
    ;;
  *)
    [ -f "$2" ] || die "there is no model file $2"
    bench --model "$2" --reference "$2"
    for new in "$OUT"/cases/*-"$(name "$MODEL")".json; do
      gate "$HERE/same-run.yaml" "${new%"$(name "$MODEL")".json}$(name "$2").json" "$new"
    done
    ;;
esac
exit $failed
