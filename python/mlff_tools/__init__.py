"""Tools around the machine-learned force fields of this project. Each command is run as `python -m mlff_tools.NAME`:

  convert, against, selftest              model files from published parameters, and their numbers
  distill, label, certify                 from a recipe to a student and its certificate
  sample, train, accuracy                 the parts that the first shipped models were made with
  bench, scaling, validate, report        measurements
All but against and selftest are commands of the program mlff, too; `mlff verify --against` is against.

The code is in the packages model (model files, references, the engine and LAMMPS), convert, train, ensemble (statistics
and verdicts on trajectories), certify, bench and report. Model files are described in docs/model_file.md. Training
needs PyTorch, and so do the readers of PyTorch checkpoints in `convert`; everything else needs numpy, PyYAML and
safetensors.
"""

import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(PACKAGE))  # the checkout, unless the package is installed
# Where the folders models, benchmarks/decks and examples are.
FILES = SOURCE if os.path.isdir(os.path.join(SOURCE, "benchmarks", "decks")) else PACKAGE
