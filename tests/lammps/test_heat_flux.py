"""compute heat/flux: the time derivative of sum_i x_i e_i in a run, which holds for the exact flux only."""

import numpy as np
import pytest
import thermo
from harness import Case, launch, mlff, water
from models import CONSERVATIVE

STEPS = {"mace_mh": 5e-9}  # ps, else 2e-7: random weights give large forces
RUN = """
compute k all ke/atom
compute e all pe/atom
compute s all {stress} NULL virial
compute j all heat/flux k e s
variable x atom x*(c_k+c_e)
variable y atom y*(c_k+c_e)
variable z atom z*(c_k+c_e)
compute moment all reduce sum v_x v_y v_z
timestep {step}
velocity all create 800 4711
fix 1 all nve
thermo_style custom step c_j[1] c_j[2] c_j[3] c_moment[1] c_moment[2] c_moment[3]
thermo_modify format float %.15g
thermo 1
run 4
"""


def flux(zoo, folder, name, stress="centroid/stress/atom", ranks=1):
    """[3] the flux of LAMMPS, eV A/ps, and that of the moments by central differences, in the middle of a short run."""
    case = Case("cluster", water((2, 2, 1)), mlff(zoo[name], options="precision fp64"), boundary="f f f")
    step = STEPS.get(name, 2e-7)
    run = RUN.format(stress=stress, step=step)
    output = launch(case.text(str(folder), single_point=False) + run, str(folder), ranks)
    table = np.array(list(thermo.table(output, -1).values()))
    moments = table[4:7]
    slope = (moments[:, 0] - 8 * moments[:, 1] + 8 * moments[:, 3] - moments[:, 4]) / (12 * step)
    return table[1:4, 2], slope


@pytest.mark.parametrize("ranks", (1, 3))
@pytest.mark.parametrize("name", CONSERVATIVE)
def test_moments(zoo, tmp_path, name, ranks):
    of_lammps, of_moments = flux(zoo, tmp_path, name, ranks=ranks)
    assert np.abs(of_moments).max() > 1.0
    assert of_lammps == pytest.approx(of_moments, abs=1e-5 * np.abs(of_moments).max())


def test_moments_see_a_wrong_flux(zoo, tmp_path):
    """That of compute stress/atom."""
    of_lammps, of_moments = flux(zoo, tmp_path, "painn", stress="stress/atom")
    assert np.abs(of_lammps - of_moments).max() > 0.02 * np.abs(of_moments).max()
