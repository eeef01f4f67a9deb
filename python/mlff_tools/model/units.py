"""Units: of stress what 1 eV/A^3 is in each, of surfaces 1 eV/A^2, of moles 1 eV."""

GPA = 160.2176634
BAR = 1.602176634e6
J_PER_M2 = 16.02176634
KJ_PER_MOL = 96.48533212
