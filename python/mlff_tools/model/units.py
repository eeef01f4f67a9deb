"""Units of stress: what 1 eV/A^3 is in each."""

GPA = 160.2176634
BAR = 1.602176634e6
