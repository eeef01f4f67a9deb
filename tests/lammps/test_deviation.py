"""Members of an ensemble: selection, model deviation and its thresholds."""

import os

import models
import numpy as np
import pytest
from harness import CLEAR, Case, close, fails, launch, mlff, read_dump, run, water

N_MEMBERS = 3
HEADER = (
    "#       step         max_devi_v         min_devi_v         avg_devi_v         max_devi_f         min_devi_f  "
    "       avg_devi_f"
)


def box():
    return water((2, 2, 3), tilt=(0.4, -0.3, 0.5))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return models.ani(tmp_path_factory.mktemp("ensemble") / "ani", n_members=N_MEMBERS)


def single(model, members, folder, ranks=1):
    """The result of selected members."""
    case = Case("some", box(), mlff(model, options=f"precision fp64 members {members}"))
    return run([case], folder, ranks)["some"]


@pytest.fixture(scope="module")
def apart(model, tmp_path_factory):
    return [single(model, k, tmp_path_factory.mktemp("member")) for k in range(N_MEMBERS)]


def devi(model, options, folder, more="run 0", ranks=1, units="metal"):
    """Runs a deck with `options` and returns LAMMPS' output."""
    case = Case("deck", box(), mlff(model, options=f"precision fp64 {options}"), units=units)
    return launch(case.text(str(folder), single_point=False) + more + "\n", str(folder), ranks)


def expected(apart):
    """(deviation of each atom, max, min, avg of the virial) from runs of the members alone, written without the
    engine."""
    forces = np.array([r.f for r in apart])
    atoms = np.sqrt(((forces - forces.mean(axis=0)) ** 2).sum(axis=2).mean(axis=0))
    # compute pressure NULL virial is W/V in bar: xx yy zz xy xz yz
    virial = np.array([r.pressure for r in apart]) * apart[0].volume / 1.6021765e6
    component = virial.std(axis=0) / len(atoms)
    nine = np.concatenate([component, component[3:]])
    return atoms, (nine.max(), nine.min(), np.sqrt((nine**2).mean()))


@pytest.mark.parametrize("ranks", (1, 2))
def test_file(model, apart, tmp_path, ranks):
    """The file has the layout of DeePMD-kit; its values and those of fix pair follow from runs of single members."""
    devi(
        model,
        "out_file md.out out_freq 2",
        tmp_path,
        ranks=ranks,
        more="""
fix each all pair 1 mlff deviation 1
run 0
write_dump all custom each.dump id f_each modify sort id format float %.15g
fix move all nve
timestep 1.0e-12
thermo 1
run 3 pre no
run 1""",
    )
    lines = (tmp_path / "md.out").read_text(encoding="utf-8").splitlines()
    assert lines[0] == HEADER
    rows = np.array([[float(x) for x in line.split()] for line in lines[1:]])
    assert rows[:, 0].tolist() == [0, 2, 4]
    assert all(len(line) == 12 + 6 * 19 for line in lines[1:])
    atoms, virial = expected(apart)
    close(rows[0, 1:4], virial, 2e-6 * max(virial), "virial")
    close(rows[0, 4:7], [atoms.max(), atoms.min(), atoms.mean()], 2e-6 * atoms.max(), "forces")
    close(rows[2, 1:], rows[0, 1:], 1e-5 * atoms.max(), "two steps later, atoms at rest")
    close(read_dump(tmp_path / "each.dump")[:, 1], atoms, 1e-9, "each atom")


def test_members(model, apart, tmp_path):
    """Selected members are averaged, in units of the script, and the log names them."""
    two = single(model, "0,2", tmp_path)
    close(two.f, (apart[0].f + apart[2].f) / 2, 1e-9, "force")
    close(two.energy, (apart[0].energy + apart[2].energy) / 2, 1e-8, "energy")
    close(single(model, "0:2", tmp_path).f, single(model, "all", tmp_path).f, 0.0, "all of them")
    assert np.abs(apart[0].f - apart[1].f).max() > 0.01
    output = devi(model, "members 0:1 out_file real.out", tmp_path, units="real")
    assert "ensemble of 3, members 0:1" in output
    real = np.loadtxt(tmp_path / "real.out")
    close(real[4], 23.060549 * expected(apart[:2])[0].max(), 1e-4, "kcal/mol/A")


@pytest.mark.parametrize("keywords", ("out_file /dev/full", "dump_file /dev/full devi_dump 1e-9"))
def test_full_disk(model, tmp_path, keywords):
    """The run continues, with one warning."""
    output = devi(model, f"{keywords} out_freq 1", tmp_path, more="fix move all nve\ntimestep 1.0e-12\nrun 3")
    assert output.count("cannot write '/dev/full': No space left on device") == 1, output


def test_thresholds(model, apart, tmp_path):
    """Warning, dump and stop occur above their thresholds and not below."""
    atoms, _ = expected(apart)
    largest, worst = atoms.max(), int(atoms.argmax()) + 1
    below, above = 0.99 * largest, 1.01 * largest
    quiet = devi(model, f"devi_warn {above} devi_dump {above} devi_stop {above}", tmp_path)
    assert "the deviation of the force" not in quiet and not (tmp_path / "deviation.dump").exists()
    output = devi(model, f"devi_warn {below} devi_dump {below} dump_file frames.dump", tmp_path, ranks=2)
    assert f"WARNING: pair_style mlff: in step 0 the deviation of the force on atom {worst} is" in output
    frame = read_dump(tmp_path / "frames.dump")
    close(frame[:, 0], np.arange(1, len(atoms) + 1), 0, "IDs")
    close(frame[:, 5], atoms, 1e-6 * largest, "deviations")
    case = Case("stop", box(), mlff(model, options=f"precision fp64 devi_stop {below} dump_file last.dump"))
    for ranks in (1, 2):
        error = fails(case.text(str(tmp_path), single_point=False) + "run 0\n", tmp_path, ranks)
        assert f"on atom {worst} is" in error and "devi_stop" in error and "last.dump" in error
    assert len(read_dump(tmp_path / "last.dump")) == len(atoms)
    # read_dump reads the frame, with the same box
    text = f"{CLEAR}units metal\nlattice none 1.0\nregion all prism 0 1 0 1 0 1 0 0 0\ncreate_box 2 all\nmass * 1.0\n"
    output = launch(
        text + 'read_dump last.dump 0 x y z box yes add keep\nprint "BOX $(lx:%.10g) $(xy:%.10g) $(atoms)"\n',
        str(tmp_path),
    )
    assert f"BOX {box().box[0]:.10g} 0.4 {len(atoms)}" in output


def test_self_test_is_of_the_whole(tmp_path):
    """With selected members, the self-test at pair_coeff uses all of them."""
    shipped = os.path.join(os.path.dirname(__file__), "..", "..", "models", "water-benzene-ensemble.yaml")
    output = devi(os.path.abspath(shipped), "members 0:1", tmp_path)
    assert "ensemble of 4, members 0:1" in output and "structures passed" in output


@pytest.mark.parametrize(
    "options,text",
    (
        ("members 3", "ranges from 0 to 2"),
        ("members 1:0", "are invalid"),
        ("members 0,", "are invalid"),
        ("members first", "are invalid"),
        ("out_freq 0", "out_freq"),
        ("out_freq 1.5", "out_freq"),
        ("devi_warn -1", "devi_warn"),
        ("devi_stop x", "devi_stop"),
        ("members 1 out_file md.out", "uses only one network"),
        (f"out_file {os.path.join('no', 'folder', 'md.out')}", "cannot write out_file"),
    ),
)
def test_refused(model, tmp_path, options, text):
    case = Case("bad", box(), mlff(model, options=options))
    assert text in fails(case.text(str(tmp_path), single_point=False) + "run 0\n", tmp_path)


def test_no_ensemble(zoo, tmp_path):
    """A single network has no members to select or compare."""
    for options, text in (("members 0:1", "are not ensembles"), ("out_file md.out", "uses only one network")):
        case = Case("bad", box(), mlff(zoo["painn"], options=options))
        assert text in fails(case.text(str(tmp_path), single_point=False) + "run 0\n", tmp_path)
