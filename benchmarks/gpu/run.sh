#!/bin/sh
# On a machine with a GPU: what is right on it, how fast it is, and why, in two calls of less than ten minutes.
#
#   benchmarks/gpu/run.sh --pack              before, on a machine with a network: builds, and writes gpu-pack.tar.xz (its size is
#                                             printed); that file and the repository are all that has to be on the other machine
#   benchmarks/gpu/run.sh DIR --time          measures: launches and bandwidths, evaluations from 24 to a million atoms, whole
#                                             steps of LAMMPS, PyTorch on the same structures, Nsight Compute
#   benchmarks/gpu/run.sh DIR --check         tests: all suites on the device, compute-sanitizer
#   benchmarks/gpu/run.sh DIR                 both
#   benchmarks/gpu/run.sh --plan              what is done in which order, with estimated times
#   benchmarks/gpu/run.sh DIR ... --only PART ...   these parts, by their names in the plan
#   benchmarks/gpu/run.sh --simulated ...     all of these with the simulated device, small
#
# DIR gets gpu.json (everything), summary.txt (the same to read), and archives of logs and profiles: at most 6 files, each below
# 16 MB, whole whenever the call is cut off. Nothing that fails ends a call; it is a row that says so. A network is timed only after
# its forces have agreed with those of the CPU in double precision. Nothing uses the network. Needs python3 (3.9 or newer); without a
# pack, or with a stale one, it builds, which takes nvcc, CMake and, where the pack does not bring them, libyaml and Check.
# PyTorch, Nsight Compute and compute-sanitizer are used where they are installed. Environment: PYTHON, SECONDS_LEFT (570, of a call).
set -eu
exec "${PYTHON:-python3}" "$(dirname "$0")/run.py" "$@"
