"""Model files, structures, references in numpy and of the publishers, and the programs mlff and lmp."""
