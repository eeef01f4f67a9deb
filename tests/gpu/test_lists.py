"""Neighbor lists built by the GPU, in LAMMPS on the simulated device. Runs are compared with the CPU, which uses the
lists of LAMMPS."""

import json
import re

import numpy as np
import pytest
from harness import Case, close, launch, mlff, read_dump, water
from test_device import dynamics, printed


def lists(output):
    """The kind of each neighbor list that LAMMPS prints: occasional where the GPU builds it."""
    return re.findall(r"pair (?:mlff|hybrid\S*), (\w+)", output)


def both(folder, more, model, ranks=1, steps=40, n=3, distance=1.2):
    """The outputs of two runs on the CPU and the GPU in which half of the atoms go `distance` A past the others, with a
    thin skin: equal energies and pressures in all steps, equal forces at the end."""
    outputs, values = [], []
    speed = distance / (steps * 0.0001) / 3**0.5
    drift = f"group half id 1:{3 * n**3 // 2}\nfix move half move linear {speed} {speed} {-speed}"
    for device in ("cpu", "cuda"):
        text = dynamics(device, folder, f"precision fp64 device {device}", model, n=n, steps=steps, more=more)
        text = text.replace("every 10 delay 0 check no", "every 1 delay 0 check yes\nneighbor 0.3 bin")
        text = text.replace("fix move all nve", drift).replace("thermo 5", "thermo 2")
        outputs.append(launch(text, str(folder), ranks))
        values.append(np.array([[float(word) for word in line.split()] for line in printed(outputs[-1])]))
    scale = abs(values[0]).max(axis=0)
    close(values[1] / scale, values[0] / scale, 1e-10, "step, energy, pressure")
    cpu, gpu = (read_dump(folder / f"{device}.dump") for device in ("cpu", "cuda"))
    close(gpu[:, 1:], cpu[:, 1:], 1e-8, "positions and forces")
    builds = [int(n) for output in outputs for n in re.findall(r"Neighbor list builds = (\d+)", output)]
    assert builds and max(builds) >= 3 and builds[: len(builds) // 2] == builds[len(builds) // 2 :], builds
    return outputs


@pytest.mark.parametrize("model, ranks", (("painn", 1), ("ani", 1), ("local", 2), ("painn", 2), ("orb", 2)))
def test_on_ranks(zoo, tmp_path, model, ranks):
    """Local models, and models that reorder atoms because ranks exchange features."""
    cpu, gpu = both(tmp_path, "", zoo[model], ranks)
    assert lists(cpu) == ["perpetual"] and lists(gpu) == ["occasional"], gpu


def test_other_styles(zoo, tmp_path):
    """LAMMPS builds the lists in hybrid styles, with `inner`, and in runs that compare the models of a committee."""
    text = Case("hybrid", water(2), mlff(zoo["painn"])).text(str(tmp_path))
    hybrid = re.sub(
        r"pair_style mlff\s*\npair_coeff \* \* (.*)",
        r"pair_style hybrid/overlay mlff device cuda lj/cut 3\npair_coeff * * mlff \1\npair_coeff * * lj/cut 0.0 1.0",
        text,
    )
    assert hybrid != text and lists(launch(hybrid, str(tmp_path)))[0] == "perpetual"
    text = Case("inner", water(2), mlff(zoo["ani"], options=f"device cuda inner {zoo['painn']}")).text(str(tmp_path))
    assert lists(launch(text, str(tmp_path)))[0] == "perpetual"
    found = []
    for device in ("cpu", "cuda"):
        pair = mlff(f"{zoo['painn']} {zoo['ani']}", options=f"precision fp64 device {device} out_file md.out")
        output = launch(Case("committee", water(2), pair).text(str(tmp_path)), str(tmp_path), 2)
        assert lists(output)[0] == "perpetual"
        found.append(np.loadtxt(tmp_path / "md.out")[1:])
    close(found[1] / found[0], np.ones(6), 1e-5, "deviation on the GPU")


def test_types_that_change(zoo, tmp_path):
    """A fix swaps types of atoms between two lists."""
    swap = "fix swap all atom/swap 3 2 4711 1e6 ke no types 1 2"
    both(tmp_path, swap, zoo["painn"])


def test_runs_that_go_on(zoo, tmp_path):
    """Runs with the list of the preceding run, other atoms, other skins, another box, and a minimization."""
    more = """neighbor 0.02 bin
run 10
run 10 pre no
neighbor 0.01 bin
run 10
delete_atoms random fraction 0.05 no all NULL 4711
change_box all x scale 1.01 remap
run 10
min_style fire
min_modify dmax 0.05
minimize 0 0 5 10
reset_timestep 0"""
    outputs = both(tmp_path, more, zoo["painn"], steps=10)
    assert lists(outputs[1]) == ["occasional"], outputs[1]


def test_box_smaller_than_the_cutoff(zoo, tmp_path):
    """One molecule among its images."""
    both(tmp_path, "", zoo["painn"], n=1)


def test_open_box_and_frames(zoo, tmp_path):
    """A cluster, run and then read again frame by frame by `rerun`."""
    energies = {}
    for device in ("cpu", "cuda"):
        case = Case("open", water(2), mlff(zoo["painn"], options=f"precision fp64 device {device}"), boundary="f f f")
        output = launch(
            case.text(str(tmp_path), single_point=False)
            + """
velocity all create 300 4711
timestep 0.0001
fix move all nve
dump frames all custom 4 frames.dump id type x y z
thermo 4
thermo_modify format float %.15g
run 12
rerun frames.dump dump x y z
""",
            str(tmp_path),
        )
        rows = re.findall(r"^ +\d+ +(?:-?[\d.]+(?:e[-+]\d+)? +)+-?[\d.]+(?:e[-+]\d+)? *$", output, re.M)
        energies[device] = np.array([[float(word) for word in row.split()] for row in rows])
        assert len(rows) == 8, output
    close(energies["cuda"][:4], energies["cpu"][:4], 1e-7, "run")
    close(energies["cuda"][4:, 2:4], energies["cpu"][4:, 2:4], 1e-4, "rerun of six digits")


def test_domain_and_second_model(zoo, tmp_path):
    """The second model of fix mlffprof gets a list on the host if it needs one: it finds no difference on either
    device."""
    for device in ("cpu", "cuda"):
        fix = f"fix p all mlffprof 1 compare {zoo['painn']} every 3 device {device} precision fp64 file prof.json"
        both(tmp_path, fix, zoo["painn"])
        with open(tmp_path / "prof.json", encoding="utf-8") as f:
            accuracy = json.load(f)["accuracy"]
        assert accuracy["n_samples"] > 5 and accuracy["force_max"] < 1e-8, accuracy
