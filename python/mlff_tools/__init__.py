"""The Python commands of mlff. Run them with `python -m mlff_tools NAME` or `mlff NAME`:

  convert, against, selftest              model files from published parameters, comparisons, self-tests
  distill, label, certify                 from a recipe to a student and its certificate
  bench, scaling, validate, report        measurements
  examples                                input scripts of LAMMPS
`mlff` has no command selftest, and calls against as `mlff verify --against`.

Packages: model (model files, references, the engine and LAMMPS), convert, train, ensemble (statistics of trajectories),
certify, bench and report. docs/model_file.md describes model files. Training and the readers of PyTorch checkpoints in
`convert` need PyTorch; everything else needs numpy, PyYAML and safetensors.
"""

import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(PACKAGE))  # the checkout, unless the package is installed
# Where the folders models, benchmarks/decks and examples are.
FILES = SOURCE if os.path.isdir(os.path.join(SOURCE, "benchmarks", "decks")) else PACKAGE
