#!/bin/sh
# A Python environment with PyTorch and ASE, in which the tests of distillation train. Needs the network and 6 GB; a minute.
#
#   scripts/train_python.sh          makes it where it is not there, and prints the path of its Python
#
# It is kept in $MLFF_CACHE/train-python (default: ~/.cache/mlff/train-python); removing that folder removes everything.
set -eu

HERE=$(cd "$(dirname "$0")" && pwd)
CACHE=${MLFF_CACHE:-$HOME/.cache/mlff}
VENV=$CACHE/train-python
NEEDED=8000000    # kB that must be free

die() { printf '%s\n' "mlff train_python: $*" >&2; exit 1; }

wanted=$(cat "$HERE/requirements.txt" "$HERE/requirements-train.txt" | cksum)
if [ "$(cat "$VENV/mlff-requirements.cksum" 2>/dev/null)" != "$wanted" ]; then
  mkdir -p "$CACHE"
  free=$(df -Pk "$CACHE" | awk 'NR == 2 { print $4 }')
  [ "$free" -gt "$NEEDED" ] || die "$CACHE has $free kB free, and PyTorch needs $NEEDED"
  rm -rf "$VENV"
  log=$CACHE/train-python.log
  if ! { python3 -m venv "$VENV" &&
         grep -E '^(numpy|PyYAML|safetensors)' "$HERE/requirements.txt" >"$VENV/own.txt" &&
         "$VENV/bin/pip" install -q --no-cache-dir -r "$VENV/own.txt" -r "$HERE/requirements-train.txt" &&
         "$VENV/bin/python" -c 'import torch, ase'; } >"$log" 2>&1; then
    rm -rf "$VENV"
    die "pip could not install PyTorch and ASE: $(tail -n 1 "$log")"
  fi
  printf '%s\n' "$wanted" >"$VENV/mlff-requirements.cksum"
fi
printf '%s\n' "$VENV/bin/python"
