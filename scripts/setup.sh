#!/bin/sh
# Makes this machine ready: system packages, the Python environment .venv, and the build. Running it again changes nothing
# and takes about a second.
#
#   scripts/setup.sh build [BUILD_DIR]   what `make demo` needs; builds into BUILD_DIR (default: build)
#   scripts/setup.sh test [BUILD_DIR]    the same, with tests and with the tools that `make test` and `make lint` use
#   scripts/setup.sh install [BUILD_DIR] the same as test, with what `make test-install` uses
#   scripts/setup.sh packages build|test|fuzz  only the system packages; fuzz: those that `make fuzz` has beside them
