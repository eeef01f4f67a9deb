"""Tools around the machine-learned force fields of this project: convert, sample, distill, selftest, accuracy.

Model files are described in docs/model_file.md. Only `distill` needs PyTorch, and the readers of PyTorch checkpoints in
`convert`; everything else needs numpy, PyYAML and safetensors.
"""
