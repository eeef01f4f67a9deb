"""Several model files in pair_coeff: the first model drives the run, and the deviation is that of all models.

What it must be follows by numpy from runs of each model alone."""

import re

import models
import numpy as np
import pytest
from harness import Case, System, close, fails, launch, mlff, read_dump, run, water

from mlff_tools.model import modelfile

FP64 = "precision fp64"
EACH = "fix each all pair {0} mlff deviation 1\n"


def box():
    return water((2, 2, 3), tilt=(0.4, -0.3, 0.5))


@pytest.fixture(scope="module")
def committees(zoo, tmp_path_factory):
    """name -> paths of models."""
    folder = tmp_path_factory.mktemp("committee")
    short, other, long = (
        models.painn(folder / f"painn{k}", seed=20 + k, cutoff=c) for k, c in enumerate((3.5, 3.5, 4.6))
    )
    return {
        "message passing": [zoo["painn"], short, long],
        "architectures": [zoo["ani"], short, zoo["nequix"]],
        "direct": [zoo["orb"], zoo["painn"]],
        "direct one behind": [zoo["painn"], zoo["orb"], zoo["local_tensornet"]],
        "same cutoff": [short, other],
        "shorter cutoff": [zoo["painn"], short],
        "longer cutoff": [short, long],
    }


def deck(folder, paths, more, options="", system=None, name="deck"):
    pair = mlff(" ".join(paths), options=f"{FP64} {options}")
    return Case(name, system or box(), pair).text(str(folder), single_point=False) + more


def alone(paths, system, folder):
    """Forces [n_models, n, 3] and virials [n_models, 6] (eV) of each model alone."""
    cases = [
        Case(f"m{k}", system, mlff(path, options=f"{FP64} domain ignore"), per_atom=False)
        for k, path in enumerate(paths)
    ]
    found = run(cases, folder)
    each = [found[case.name] for case in cases]
    return np.array([r.f for r in each]), np.array([r.pressure for r in each]) * each[0].volume / 1.6021765e6


def expected(forces, virials):
    """Deviation of each atom; row of out_file."""
    atoms = np.sqrt(((forces - forces.mean(axis=0)) ** 2).sum(axis=2).mean(axis=0))
    component = virials.std(axis=0) / len(atoms)
    nine = np.concatenate([component, component[3:]])
    row = [nine.max(), nine.min(), np.sqrt((nine**2).mean()), atoms.max(), atoms.min(), atoms.mean()]
    return atoms, np.array(row)


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("name", ("message passing", "architectures", "direct", "direct one behind"))
def test_deviation(committees, tmp_path, name, ranks):
    """File and atoms: at the start, and at the end of a run in which lists are rebuilt."""
    paths, system = committees[name], box()
    more = (
        "neighbor 0.05 bin\nvelocity all create 900 1 loop geom\nfix move all nve\ntimestep 0.0001\n"
        f"{EACH.format(15)}run 30\n"
        "write_dump all custom end.dump id type xu yu zu f_each modify sort id format float %.17g\n"
    )
    output = launch(deck(tmp_path, paths, more, "out_file md.out out_freq 15 domain ignore"), str(tmp_path), ranks)
    assert output.count("  committee:    ") == len(paths) - 1
    assert "Neighbor list builds = 0" not in output
    rows, end = np.loadtxt(tmp_path / "md.out"), read_dump(tmp_path / "end.dump")
    assert rows[:, 0].tolist() == [0, 15, 30]
    _, first = expected(*alone(paths, system, tmp_path))
    close(rows[0, 1:], first, 2e-6 * first.max(), "first step")
    moved = System(end[:, 1].astype(int), end[:, 2:5], system.box, system.tilt)
    assert np.abs(moved.x - system.x).max() > 0.05
    atoms, last = expected(*alone(paths, moved, tmp_path))
    assert atoms.max() > 0.05
    close(rows[2, 1:], last, 2e-6 * last.max(), "last step")
    close(end[:, 5], atoms, 1e-6 * atoms.max(), "each atom")


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize(
    "name,asks,bar",
    (
        ("same cutoff", "out_file md.out out_freq 3", 0.0),
        ("shorter cutoff", "out_file md.out out_freq 3", 0.0),
        ("longer cutoff", "", 0.0),
        ("longer cutoff", "out_file md.out out_freq 3", 1e-9),
    ),
)
def test_first_model_drives(committees, tmp_path, name, asks, bar, ranks):
    """Positions, forces, energies and pressures are those of the first model alone, to the bit, unless a deviation is
    asked for and another model makes the lists longer."""
    found = []
    for paths, options in ((committees[name], asks), (committees[name][:1], "")):
        more = (
            "velocity all create 300 1 loop all\nfix move all nve\ntimestep 0.0001\n"
            "thermo_style custom step pe press\nrun 20\nprint 'END $(pe:%.17g) $(press:%.17g)'\n"
            "write_dump all custom end.dump id x y z vx vy vz fx fy fz modify sort id format float %.17g\n"
        )
        output = launch(deck(tmp_path, paths, more, options), str(tmp_path), ranks)
        numbers = output.split("END ")[-1].split()[:2]
        found.append(np.append(read_dump(tmp_path / "end.dump").ravel(), [float(x) for x in numbers]))
    close(found[0][:-1], found[1][:-1], bar, "trajectory")
    close(found[0][-1], found[1][-1], 1e5 * bar, "pressure")


def test_other_models_are_evaluated_on_request(committees, tmp_path):
    """A second model that refuses this structure stops the run at the first step that asks for it."""
    strict = models.painn(tmp_path / "strict", seed=31)
    h, tensors = modelfile.read(strict)
    h["domain"]["min_distance"] = 2.5
    models.write(tmp_path / "strict", h, tensors)
    paths, move = [committees["same cutoff"][0], strict], "fix move all nve\ntimestep 1e-9\nrun 4\n"
    launch(deck(tmp_path, paths, move), str(tmp_path))
    launch(deck(tmp_path, paths, "reset_timestep 1\n" + move, "out_file md.out out_freq 10"), str(tmp_path))
    error = fails(deck(tmp_path, paths, "reset_timestep 1\n" + move, "out_file md.out out_freq 5"), tmp_path)
    assert "model 2 of the committee) stopped in step 5" in error


def test_cutoff(committees, tmp_path):
    """Only runs that may ask for the deviation have the lists of the longest cutoff."""
    paths = committees["longer cutoff"]
    more = "run 0\n" + EACH.format(1) + "run 0\nunfix each\nrun 0\n"
    output = launch(deck(tmp_path, paths, more), str(tmp_path), 2)
    before, asked, after = (float(n) for n in re.findall(r"^FullNghs: +(\S+) ave", output, re.M))
    assert asked > 1.5 * before and after == before
    assert output.count("memory forecast for") == 3


def test_thresholds(committees, tmp_path):
    paths = committees["message passing"]
    atoms, _ = expected(*alone(paths, box(), tmp_path))
    most, worst = atoms.max(), int(atoms.argmax()) + 1
    quiet = launch(deck(tmp_path, paths, "run 0\n", f"devi_warn {1.01 * most} devi_dump {1.01 * most}"), str(tmp_path))
    assert "the deviation of the force" not in quiet and not (tmp_path / "deviation.dump").exists()
    said = launch(
        deck(tmp_path, paths, "run 0\n", f"devi_warn {0.99 * most} devi_dump {0.99 * most}"), str(tmp_path), 2
    )
    assert f"WARNING: pair_style mlff: in step 0 the deviation of the force on atom {worst} is" in said
    close(read_dump(tmp_path / "deviation.dump")[:, 5], atoms, 1e-6 * most, "dump")
    for ranks in (1, 2):
        error = fails(deck(tmp_path, paths, "run 0\n", f"devi_stop {0.99 * most}"), tmp_path, ranks)
        assert f"on atom {worst} is" in error and "devi_stop" in error


@pytest.mark.parametrize("ranks", (1, 2, 4))
def test_hybrid(committees, tmp_path, ranks):
    """Atoms of other styles have no deviation and do not count."""
    paths, system = committees["message passing"], box()
    system.types, system.elements = np.where(np.arange(36) % 5 == 1, 3, system.types), ["O", "H", "H"]

    def style(files, options=""):
        return (
            f"pair_style hybrid mlff {FP64} domain ignore {options} lj/cut 2.0\n"
            f"pair_coeff * * mlff {' '.join(files)} O H NULL\npair_coeff * 3 lj/cut 0.0 1.0"
        )

    found = run([Case(f"m{k}", system, style([path]), per_atom=False) for k, path in enumerate(paths)], tmp_path)
    atoms, _ = expected(np.array([found[f"m{k}"].f for k in range(len(paths))]), np.zeros((len(paths), 6)))
    case = Case("deck", system, style(paths, "out_file md.out")).text(str(tmp_path), single_point=False)
    launch(
        case + EACH.format(1) + "run 0\nwrite_dump all custom each.dump id f_each modify sort id format float %.17g\n",
        str(tmp_path),
        ranks,
    )
    ours = system.types != 3
    close(read_dump(tmp_path / "each.dump")[:, 1], np.where(ours, atoms, 0.0), 1e-6 * atoms.max(), "each atom")
    row = np.loadtxt(tmp_path / "md.out")
    close(row[4:], [atoms[ours].max(), atoms[ours].min(), atoms[ours].mean()], 2e-6 * atoms.max(), "out_file")


@pytest.mark.parametrize("ranks", (1, 2))
def test_types_change_between_lists(committees, tmp_path, ranks):
    """Further models see the types of ghosts that fix set has changed since the list was built."""
    paths, system = committees["message passing"], box()
    more = (
        "neigh_modify delay 100 every 100 check no\ntimestep 1e-9\nvariable t atom 1+((step+id)%2)\n"
        "fix s all set 2 0 atom 1*4 type v_t\nfix move all nve\n"
        f"{EACH.format(5)}run 5\nwrite_dump all custom end.dump id type f_each modify sort id format float %.17g\n"
    )
    launch(deck(tmp_path, paths, more, "domain ignore"), str(tmp_path), ranks)
    end = read_dump(tmp_path / "end.dump")
    changed = System(end[:, 1].astype(int), system.x, system.box, system.tilt)
    assert (changed.types != system.types).any()
    atoms, _ = expected(*alone(paths, changed, tmp_path))
    close(end[:, 2], atoms, 1e-6 * atoms.max(), "each atom")


def test_one_changed_weight(tmp_path):
    """Planted fault: a single weight is 10 % larger in the second file."""
    first = models.painn(tmp_path / "first", seed=41)
    h, tensors = modelfile.read(first)
    key = next(k for k in sorted(tensors) if tensors[k].ndim == 2 and k != "embedding")
    tensors[key] = np.array(tensors[key])
    tensors[key].flat[0] *= 1.1
    second = models.write(tmp_path / "second", h, tensors)
    atoms, row = expected(*alone([first, second], box(), tmp_path))
    assert atoms.max() > 1e-5
    launch(deck(tmp_path, [first, second], "run 0\n", "out_file md.out"), str(tmp_path))
    close(np.loadtxt(tmp_path / "md.out")[4], row[3], 1e-3 * row[3], "largest deviation")


def test_with_other_commands(committees, tmp_path):
    """rRESPA with an inner model, minimization, rerun and restart."""
    paths = committees["shorter cutoff"]
    atoms, row = expected(*alone(paths, box(), tmp_path))
    inner = f"inner {committees['longer cutoff'][1]} out_file respa.out out_freq 1"
    more = "fix move all nve\ntimestep 1e-9\nrun_style respa 2 2 inner 1 0 0 outer 2\nrun 2\n"
    for ranks in (1, 2):
        launch(deck(tmp_path, paths, more, inner), str(tmp_path), ranks)
        for k in range(3):
            close(np.loadtxt(tmp_path / "respa.out")[k, 4:], row[3:], 1e-5 * row[3], f"rRESPA, {ranks} ranks")
    more = (
        "dump d all custom 1 frames.dump id type x y z\ndump_modify d format float %.17g\nminimize 0 0 3 20\nundump d\n"
        "rerun frames.dump dump x y z\nwrite_restart r.restart\n"
    )
    launch(deck(tmp_path, paths, more, "out_file md.out out_freq 1"), str(tmp_path))
    rows = np.loadtxt(tmp_path / "md.out")
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    close(rows[4:, 1:], rows[:4, 1:], 1e-6 * row[3], "rerun")
    close(rows[0, 1:], row, 2e-6 * row.max(), "first structure")
    again = f"read_restart r.restart\npair_style mlff {FP64} out_file again.out\npair_coeff * * {{}} O H\nrun 0\n"
    launch(again.format(" ".join(paths)), str(tmp_path))
    assert "written with model" in fails(again.format(" ".join(paths[::-1])), tmp_path)


TRIALS = {
    "line search": "min_style cg\nminimize 0 0 12 100\n",
    "steepest descent": "min_style sd\nmin_modify dmax 0.5\nminimize 0 0 8 100\n",
    "fire": "min_style fire\nminimize 0 0 12 100\n",
    "swaps": "fix move all nve\ntimestep 1e-5\nfix s all atom/swap 2 10 3321 1e6 ke no types 1 2\nrun 9\n",
    "flips": "fix move all nve\ntimestep 1e-5\nfix d all deform 1 xy erate 20000 flip yes\nrun 9\n",
}


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("kind", TRIALS)
def test_trials_are_not_measured(committees, tmp_path, kind, ranks):
    """File and thresholds are about the structure that a step ends with, which rerun evaluates alone."""
    paths, options = committees["shorter cutoff"], "domain ignore out_freq 1 out_file md.out"
    dump = "dump d all custom 1 frames.dump id type x y z\ndump_modify d format float %.17g sort id\nthermo 1\n"
    again = "rerun frames.dump dump x y z purge yes add yes replace no\n"
    launch(deck(tmp_path, paths, dump + TRIALS[kind] + "undump d\n" + again, options), str(tmp_path), ranks)
    rows = np.loadtxt(tmp_path / "md.out")
    n = len(rows) // 2
    assert n > 4 and rows[:n, 0].tolist() == rows[n:, 0].tolist() == list(range(n))
    mine, other = rows[:n, 4:], rows[n:, 4:]
    if kind == "flips":  # the frame of a step has the box of the next one
        mine, other = mine[1:], other[:-1]
    close(other, mine, 1e-4 * rows[:, 4].max(), "deviation of forces")
    assert np.ptp(rows[:n, 4]) > 1e-3 * rows[0, 4]


def test_a_structure_of_the_same_step(committees, tmp_path):
    """Runs of no steps after a change are measured, and stop; equal networks are told apart from certain ones."""
    paths = committees["shorter cutoff"]
    atoms, _ = expected(*alone(paths, box(), tmp_path))
    more = "run 0\nchange_box all x scale 0.93 y scale 0.93 z scale 0.93 remap\nrun 0\n"
    launch(deck(tmp_path, paths, more, "domain ignore out_file md.out"), str(tmp_path))
    rows = np.loadtxt(tmp_path / "md.out")
    assert len(rows) == 2 and rows[1, 4] > 1.05 * atoms.max()
    stop = f"domain ignore devi_stop {1.02 * atoms.max()}"
    assert "devi_stop" in fails(deck(tmp_path, paths, more, stop), tmp_path)
    header, network = modelfile.read(paths[0])
    modelfile.write(
        str(tmp_path / "same"),
        {
            **header,
            "domain": {
                "elements": ["H", "C", "O"],
                "min_distance": 0.1,
                "description": "the same network",
                "temperature": [1, 900],
            },
        },
        network,
    )
    said = launch(deck(tmp_path, [paths[0], "same.yaml"], "run 0\n", "out_file same.out"), str(tmp_path))
    assert "WARNING: pair_style mlff: all models give the same forces" in said


@pytest.mark.parametrize(
    "words,options,text",
    (
        ("{a} {b} {a} O H", "", "are the same model"),
        ("{a} {b} O", "", "1 elements after the model file"),
        ("{a} b.yml O H", "", "`b.yml` is not an element; if it is a further model file, its name must end in .yaml"),
        ("{a} O {b} H", "", "comes after element O"),
        ("{a} missing.yaml O H", "", "model 2: cannot read model file 'missing.yaml'"),
        ("{a} {al} O H", "", "model 2: "),
        ("{a} {b} O H", "members 0", "are not ensembles"),
        (" ".join(f"m{k}.yaml" for k in range(17)) + " O H", "", "17 model files; a committee has at most 16"),
    ),
)
def test_refused(committees, tmp_path, words, options, text):
    a, b = committees["same cutoff"]
    al = modelfile.find_model("aluminium-m")
    pair = f"pair_style mlff {options}\npair_coeff * * {words.format(a=a, b=b, al=al)}"
    case = Case("bad", box(), pair).text(str(tmp_path), single_point=False)
    error = fails(case + "run 0\n", tmp_path)
    assert text in error and error.count("ERROR") == 1


def test_refused_later(committees, tmp_path):
    """A spread of energies; the boundaries of a further model; one file of two styles."""
    paths = committees["same cutoff"]
    spread = "fix s all pair 1 mlff spread 1\nrun 0\n"
    assert "spread" in fails(deck(tmp_path, paths, spread), tmp_path)
    slab = Case("slab", box(), mlff(" ".join(committees["direct one behind"]), options="devi_warn 1"), boundary="p p f")
    assert "[mlff-37]" in fails(slab.text(str(tmp_path), single_point=False) + "run 0\n", tmp_path)
    for one, other, word in (
        ("devi_dump 1", "devi_stop 1", "dump_file"),
        ("out_file a.out", "out_file a.out", "out_file"),
        ("devi_dump 1 dump_file a.dump", "devi_dump 1", ""),
        ("devi_dump 1", "", ""),
    ):
        pair = f"pair_style hybrid/overlay mlff {one} mlff {other}\n" + "\n".join(
            f"pair_coeff * * mlff {k} {' '.join(paths)} O H" for k in (1, 2)
        )
        text = Case("two", box(), pair).text(str(tmp_path), single_point=False) + "run 0\n"
        if word:
            assert f"give each its own `{word}`" in fails(text, tmp_path)
        else:
            launch(text, str(tmp_path))
