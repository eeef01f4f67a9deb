#!/bin/sh
# A Python environment with PyTorch and ASE, in which the tests of distillation train. Needs the network and 6 GB; a minute.
#
#   scripts/train_python.sh          makes it where it is not there, and prints the path of its Python
#
# It is kept in $MLFF_CACHE/train-python-NUMBER (default: ~/.cache/mlff/train-python-NUMBER), of other packages in another
# folder, so that nothing is removed that a program may use; removing these folders removes everything.
set -eu

HERE=$(cd "$(dirname "$0")" && pwd)
CACHE=${MLFF_CACHE:-$HOME/.cache/mlff}
VENV=$CACHE/train-python-$("$HERE/pins.sh" train | cksum | cut -d " " -f 1)
NEEDED=8000000    # kB that must be free

die() { printf '%s\n' "mlff train_python: $*" >&2; exit 1; }

if [ ! -e "$VENV/complete" ]; then
  mkdir -p "$CACHE"
  free=$(df -Pk "$CACHE" | awk 'NR == 2 { print $4 }')
  [ "$free" -gt "$NEEDED" ] || die "$CACHE has $free kB free, and PyTorch needs $NEEDED"
  rm -rf "$VENV"
  log=$CACHE/train-python.log
  if ! { python3 -m venv "$VENV" &&
         "$HERE/pins.sh" train >"$VENV/pins.txt" &&
         "$VENV/bin/pip" install -q --no-compile --no-cache-dir --require-hashes -r "$VENV/pins.txt" &&
         "$VENV/bin/python" -c 'import torch, ase'; } >"$log" 2>&1; then
    rm -rf "$VENV"
    die "pip could not install PyTorch and ASE: $(tail -n 1 "$log")"
  fi
  : >"$VENV/complete"
fi
printf '%s\n' "$VENV/bin/python"
