#!/bin/sh
# Prints the entries of sections of scripts/requirements.txt, for `pip install --require-hashes -r FILE`:
#   scripts/pins.sh build|test|site|train|install...
exec awk -v sections="$*" '
  BEGIN { n = split(sections, list, " "); for (k = 1; k <= n; k++) wanted[list[k]] = 1 }
  /^[A-Za-z]/ { entry = "" }
  /^    # sections:/ {
    found = 0
    for (k = 3; k <= NF; k++) if ($k in wanted) found = 1
    if (found) { printf "%s", entry; any = 1 }
    next
  }
  !/^#/ { entry = entry $0 "\n" }
  END { exit !any }' "$(dirname "$0")/requirements.txt"
