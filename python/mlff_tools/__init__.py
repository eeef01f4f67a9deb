"""Tools around the machine-learned force fields of this project. Each command is run as `python -m mlff_tools.NAME`:

  convert, against, selftest              model files from published parameters, and their numbers
  label, sample, train, accuracy          labels of structures; training of students
  bench, scaling, validate, report        measurements; bench, scaling, report and label are of the program mlff, too

The code is in the packages model (model files, references, the engine and LAMMPS), convert, train, bench and report.
Model files are described in docs/model_file.md. Only `train` needs PyTorch, and the readers of PyTorch checkpoints in
`convert`; everything else needs numpy, PyYAML and safetensors.
"""

import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(PACKAGE))  # the checkout, unless the package is installed
