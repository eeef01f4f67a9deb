"""Each wrong input is one error that says what to do, on one and on several ranks."""

import re
import shutil
import subprocess

import models
import numpy as np
import pytest
from harness import LMP, PLUGIN, Case, fails, launch, mlff, water

from mlff_tools.model import modelfile

STYLE = "pair_style mlff {}\npair_coeff * * {} O H\n"


def deck(folder, pair, system=None, run="run 0\n", **more):
    """A deck that ends with a run."""
    return Case("bad", system or water(2), pair, **more).text(str(folder), single_point=False) + run


def expect(text, *parts):
    """All parts occur in the error message, ignoring line breaks."""
    flat = " ".join(text.split())
    for part in parts:
        assert re.search(part, flat), f"'{part}' is not in: {flat}"


SETTINGS = (
    (
        "devise cpu",
        "unknown keyword 'devise'",
        "device, precision, kernels, replay, fuse, radial_intervals, members, e0, self_test, masses, domain, "
        "gpu_mpi, node_memory, out_file",
    ),
    ("cpu", "unknown keyword 'cpu'", "known are"),
    ("device", "keyword 'device' has no value"),
    ("device gpu", "unknown value 'gpu' of 'device'", "auto cpu cuda cuda:N"),
    ("device cuda:x", "unknown value 'cuda:x'"),
    ("device cuda:", "unknown value 'cuda:'"),
    ("replay full", "unknown value 'full' of 'replay'", "known are: yes no"),
    ("graph full", "unknown value 'full' of 'replay'", "known are: yes no"),
    ("graph", "keyword 'graph' has no value", "yes no"),
    ("fuse 1", "unknown value '1' of 'fuse'", "yes no"),
    ("members", "keyword 'members' has no value", "all LIST"),
    ("precision double", "unknown value 'double'", "fp32 fp64 mixed"),
    ("kernels sse", "unknown value 'sse'", "generic avx2 avx512 neon sve256 sve512 avx512_bf16 amx"),
    ("self_test maybe", "unknown value 'maybe'", "yes no"),
    ("self_test ignore", "unknown value 'ignore'", "yes no"),
    ("masses warn", "unknown value 'warn' of 'masses'", "yes no"),
    ("domain maybe", "unknown value 'maybe' of 'domain'", "warn stop ignore"),
    ("node_memory maybe", "unknown value 'maybe' of 'node_memory'", "yes no"),
    ("gpu_mpi perhaps", "unknown value 'perhaps' of 'gpu_mpi'", "auto yes no"),
    ("out_freq 1,5", "out_freq is a number of steps from 1, not '1,5'"),
    ("devi_stop 0", "devi_stop is a force above 0, not '0'"),
    ("e0 maybe", "unknown value 'maybe' of 'e0'", "yes no"),
)


@pytest.mark.parametrize("setting", SETTINGS, ids=[s[0].replace(" ", "_") for s in SETTINGS])
def test_settings(tmp_path, setting):
    expect(fails(f"units metal\npair_style mlff {setting[0]}\n", tmp_path), "pair_style mlff", *setting[1:])


COEFFS = (
    ("* * MODEL", "0 elements", "2 atom types", r"pair_coeff \* \* MODEL.yaml ELEMENT"),
    ("* * MODEL O", "1 elements", "2 atom types"),
    ("* * MODEL O H H", "3 elements", "2 atom types"),
    ("* *", "the form is"),
    ("1 2 MODEL O H", r"must (be|start with) `?\* \*"),
    ("* * MODEL O Xx", "Xx", "H"),
    ("* * MODEL O NULL", "type 2 is NULL", "hybrid"),
    ("* * MODEL NULL NULL", "NULL"),
    ("* * MODEL H O", "type 1 is H", "15.999", "element: O", "masses no"),
    ("* * MODEL O C", "was not trained on element C of type 2", "domain ignore"),
    ("* * missing.yaml O H", "missing.yaml", "LAMMPS_POTENTIALS"),
)


@pytest.mark.parametrize("coeff", COEFFS, ids=[s[0].replace(" ", "_") for s in COEFFS])
def test_coeffs(zoo, tmp_path, coeff):
    line = coeff[0].replace("MODEL", zoo["painn"])
    expect(fails(deck(tmp_path, f"pair_style mlff\npair_coeff {line}"), tmp_path), *coeff[1:])


def test_mixed_is_refused(zoo, tmp_path):
    """Instructions for products in bf16 are for precision mixed, and it is refused where they are missing, with what to
    do."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        flags = f.read().split()
    text = fails(deck(tmp_path, mlff(zoo["painn"], options="device cpu kernels amx")), tmp_path)
    expect(text, "kernels 'amx' require precision mixed", "use 'auto'")
    for name, flag in (("amx", "amx_bf16"), ("avx512_bf16", "avx512_bf16")):
        if flag not in flags:
            text = fails(
                deck(tmp_path, mlff(zoo["painn"], options=f"device cpu precision mixed kernels {name}")), tmp_path
            )
            expect(text, f"kernels '{name}': not in this processor", "use precision fp32")
    if "avx512_bf16" in flags:
        pytest.skip("this processor has instructions for precision mixed")
    text = fails(deck(tmp_path, mlff(zoo["painn"], options="device cpu precision mixed")), tmp_path)
    expect(
        text,
        "precision mixed on the CPU needs",
        "amx no: not in this processor",
        "avx512_bf16 no",
        "use fp32",
        "generic",
    )


def test_errors_on_ranks(zoo, tmp_path):
    """Errors of the file, of the mapping and of a step appear once, stop all ranks and do not hang."""
    for line, part in (("* * missing.yaml O H", "missing.yaml"), (f"* * {zoo['painn']} H O", "type 1 is H")):
        text = fails(deck(tmp_path, f"pair_style mlff\npair_coeff {line}"), tmp_path, ranks=2)
        expect(text, part)
        assert text.count("ERROR") == 1, text
    system = water(2)
    system.x[4] = system.x[13] + 0.05
    text = fails(deck(tmp_path, mlff(zoo["painn"]), system), tmp_path, ranks=3)
    expect(text, "step 0", r"atom (5|14) \(H\) and (an image or ghost of )?atom (5|14) \(H\) are 0.0[0-9]* A apart")


def test_numbers_that_overflow(zoo, tmp_path):
    """The error names an atom with a force that is not finite, and the closest pair."""
    model = models.painn(tmp_path / "huge", scale=1e25)
    system = water(2)
    text = fails(deck(tmp_path, mlff(model, options="self_test no domain ignore"), system), tmp_path, ranks=2)
    found = re.search(r"the force on atom (\d+) is \(.*?\) eV/A: the simulation has become unstable", text)
    assert found and 1 <= int(found[1]) <= len(system.x), text
    expect(text, r"the closest atoms of this rank are atom \d+ \((O|H)\) and atom \d+ \((O|H)\), 0.8[0-9]* A apart")


def test_overrides(zoo, tmp_path):
    """The keywords that messages suggest work."""
    launch(deck(tmp_path, mlff(zoo["painn"], "H O", "masses ignore")), str(tmp_path))
    launch(deck(tmp_path, mlff(zoo["painn"], "C H", "masses no domain no")), str(tmp_path))
    heavy = deck(tmp_path, mlff(zoo["painn"]) + "\nmass 2 2.014")
    assert "deuterium" in launch(heavy, str(tmp_path))


def test_spellings(zoo, tmp_path):
    """Yes and no as LAMMPS spells them elsewhere, and as some keywords had them once."""
    for replay, yes, no, check, ignore in (
        ("replay", "yes", "no", "yes", "no"),
        ("replay", "on", "off", "on", "off"),
        ("graph", "true", "false", "check", "ignore"),
    ):
        options = f"self_test {no} {replay} {yes} fuse {no} node_memory {no} gpu_mpi {no}"
        options += f" masses {ignore} domain {ignore}"
        output = launch(deck(tmp_path, mlff(zoo["painn"], "C H", options)), str(tmp_path), 2)
        assert "not run (self_test no)" in output and "(node_memory no)" in output, output
        text = fails(deck(tmp_path, mlff(zoo["painn"], "C H", f"masses {check} domain {ignore}")), tmp_path)
        expect(text, "type 1 is C in pair_coeff")


def test_report(zoo, tmp_path):
    """What runs is printed once: model, hash, architecture, precision, device, kernels, versions, units, types."""
    sha = modelfile.read(zoo["ani"])[0]["weights"]["sha256"]
    output = launch(
        deck(tmp_path, mlff(zoo["ani"], options="kernels generic"), units="real", run="run 0\nrun 0\n"), str(tmp_path)
    )
    for part in (
        "random-ani",
        sha[:12],
        "architecture: ani",
        "cutoff 4.2",
        "fp32",
        "cpu",
        "kernels generic",
        "LAMMPS 22 Jul 2025|LAMMPS",
        r"1 eV = 23\.060549 kcal/mol",
        r"1 -> O\s+\(15\.999, 15\.999\)",
        r"2 -> H\s+\(1\.008, 1\.008\)",
        "ensemble of 3",
    ):
        assert len(re.findall(part, output)) >= 1, f"'{part}' is not in {output}"
    assert output.count("type -> element") == 1


def test_missing_steps(zoo, tmp_path):
    """No pair_coeff, wrong units, new settings without a new pair_coeff."""
    expect(fails(deck(tmp_path, "pair_style mlff"), tmp_path), "pair coeffs? (are|is) not set|pair_coeff")
    expect(fails(deck(tmp_path, mlff(zoo["painn"]), units="lj"), tmp_path), "units lj", "metal, real")
    expect(
        fails(deck(tmp_path, mlff(zoo["painn"]), run="run 0\npair_style mlff precision fp64\nrun 0\n"), tmp_path),
        "pair_coeff|not set",
    )


def test_missing_neighbors(zoo, tmp_path):
    """Commands that remove neighbors are errors."""
    pair = mlff(zoo["painn"])
    bonded = {"style": "molecular", "bonds": True}
    text = fails(deck(tmp_path, pair, **bonded), tmp_path)
    expect(text, "special_bonds removes the 1-2 neighbor", "special_bonds lj/coul 1 1 1")
    text = fails(deck(tmp_path, pair, before="special_bonds lj/coul 1 0 1", **bonded), tmp_path, ranks=2)
    expect(text, "1-3 neighbor")
    launch(deck(tmp_path, pair, style="molecular"), str(tmp_path))
    for command, part in (
        ("exclude type 1 2", "exclude type 1 2"),
        ("exclude group one all", "exclude group one all"),
        ("exclude molecule/intra all", "exclude molecule of group all"),
        ("include one", "include"),
        ("once yes", "neigh_modify once"),
    ):
        lines = f"group one id 1:5\natom_modify first one\nneigh_modify {command}\nrun 0\n"
        if "include" not in command:
            lines = lines.replace("atom_modify first one\n", "")
        expect(fails(deck(tmp_path, pair, style="molecular", run=lines), tmp_path), part, "remove this command")


LOST = "pairs of neighbors within the cutoff of .* A, but there are"


@pytest.mark.parametrize("ranks", (1, 2))
def test_lost_neighbors(zoo, tmp_path, ranks):
    """Incomplete ghosts and lists are detected by counting pairs, independent of the command."""
    pair = mlff(zoo["painn"])
    some = "group some type 2\natom_modify first some\ncomm_modify group some\n"
    expect(fails(deck(tmp_path, pair, run=f"run 0\n{some}run 0\n"), tmp_path, ranks), LOST)
    # ghosts of a run without a set-up are lost at its first new list
    lines = f"fix 1 all nve\nneigh_modify every 1 delay 0 check no\nrun 0\n{some}run 3 pre no\n"
    expect(
        fails(deck(tmp_path, pair, run="group some type 2\natom_modify first some\n" + lines), tmp_path, ranks), LOST
    )
    hybrid = f"pair_style hybrid mlff zero 4.0\npair_coeff * * mlff {zoo['painn']} O H\npair_coeff 1 2 zero"
    expect(fails(deck(tmp_path, hybrid), tmp_path, ranks), LOST, "pair_coeff of other styles")


@pytest.mark.parametrize("model", ("painn", "ani"))
def test_new_coefficients_need_a_set_up(zoo, tmp_path, model):
    """With `pre no` the run would use the lists and ghosts of the old coefficients."""
    for lines in (mlff(zoo[model]), "pair_style mlff"):
        run = f"fix 1 all nve\nrun 1\nrun 1 pre no\n{lines}\nrun 5 pre no\n"
        expect(fails(deck(tmp_path, mlff(zoo["painn"]), run=run), tmp_path), "has changed since the last run", "pre no")


NO_IMAGES = "change_box all boundary s s s"


@pytest.mark.parametrize("ranks", (1, 2))
def test_changed_atoms_need_a_set_up(zoo, tmp_path, ranks):
    """`set type` changes owned atoms, and images have the old types until there is a set-up; displace_atoms takes the
    images away, and what LAMMPS then adds to their forces, it adds in every step."""
    for command in ("set type 1 type/fraction 2 0.5 815", "displace_atoms all move 0.01 0 0", NO_IMAGES):
        run = f"fix 1 all nve\nrun 1\n{command}\nrun 2{{}}\n"
        launch(deck(tmp_path, mlff(zoo["painn"]), run=run.format("")), str(tmp_path), ranks)
        text = fails(deck(tmp_path, mlff(zoo["painn"]), run=run.format(" pre no")), tmp_path, ranks)
        expect(text, "moved, created, deleted or changed in type since the last run", "pre no")


def test_bad_steps(zoo, tmp_path):
    """Atoms on top of each other and positions that are not numbers stop the run and name the atoms."""
    system = water(2)
    system.x[7] = system.x[20]
    text = fails(deck(tmp_path, mlff(zoo["painn"]), system), tmp_path)
    expect(text, "step 0", r"atom (8|21) \((O|H)\) and atom (8|21) \((O|H)\) are 0.0000 A apart")
    text = fails(deck(tmp_path, mlff(zoo["ani"]), run="fix 1 all nve\nvelocity all set 1e300 0 0\nrun 5\n"), tmp_path)
    expect(text, "not a number|Non-numeric|Lost atoms|not finite|infinite|NaN|nan")
    lines = 'variable bad atom "sqrt(-1.0)"\nset atom 3 x v_bad\n'
    text = fails(
        deck(
            tmp_path, mlff(zoo["painn"]), run="variable bad equal 0.0/0.0\nfix 1 all nve\nrun 5\n" + lines + "run 5\n"
        ),
        tmp_path,
    )
    assert "ERROR" in text


def test_not_available(zoo, tmp_path):
    """What a many-body potential or this architecture cannot give is refused and not zero."""
    for compute, part in (("centroid/stress/atom NULL virial", "centroid"), ("force/tally all", "tally")):
        lines = f"compute c all {compute}\nrun 0\nwrite_dump all custom x.dump id c_c[1]\n"
        model = zoo["orb" if part == "centroid" else "painn"]
        expect(fails(deck(tmp_path, mlff(model), run=lines), tmp_path), part)
    text = fails(
        deck(tmp_path, mlff(zoo["painn"]), run="compute s all pair mlff\nthermo_style custom step c_s[1]\nrun 0\n"),
        tmp_path,
    )
    assert "ERROR" in text
    text = fails(deck(tmp_path, mlff(zoo["painn"]), run="fix s all pair 1 mlff spread 0\nrun 0\n"), tmp_path)
    expect(text, "spread")


# ---- model files ----------------------------------------------------------------------------------------------------


def copy(zoo, folder):
    """A copy of a model that may be damaged."""
    for suffix in (".yaml", ".safetensors"):
        shutil.copy(zoo["painn"].replace(".yaml", suffix), folder / f"painn{suffix}")
    return folder / "painn.yaml", folder / "painn.safetensors"


def damage_nothing(yaml, weights):
    pass


def damage_truncated(yaml, weights):
    weights.write_bytes(weights.read_bytes()[:-100])


def damage_bit(yaml, weights):
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(bytes(data))


def damage_missing(yaml, weights):
    weights.unlink()


def damage_key(yaml, weights):
    """In a file that does not state the hash of its header."""
    yaml.write_text(re.sub(r"(?m)^header_sha256: .*\n", "", yaml.read_text()) + "temprature: 300\n")


def damage_header(yaml, weights):
    yaml.write_text(re.sub(r"epsilon: .*", "epsilon: 0.5", yaml.read_text()))


def damage_format(yaml, weights):
    yaml.write_text(yaml.read_text().replace("mlff/1", "mlff/9"))


def damage_syntax(yaml, weights):
    yaml.write_text(yaml.read_text() + "a: [1, 2\n")


DAMAGES = (
    (damage_truncated, "sha256|hash", "damaged, truncated"),
    (damage_bit, "sha256|hash"),
    (damage_missing, "painn.safetensors"),
    (damage_key, "temprature", r"painn\.yaml:\d+"),
    (damage_header, r"painn\.yaml:\d+: header_sha256: is", "selftest painn.yaml --header"),
    (damage_format, "mlff/9"),
    (damage_syntax, r"painn\.yaml:\d+"),
)


@pytest.mark.parametrize("damage", DAMAGES, ids=[d[0].__name__ for d in DAMAGES])
def test_damaged_models(zoo, tmp_path, damage):
    yaml, weights = copy(zoo, tmp_path)
    damage[0](yaml, weights)
    expect(fails(deck(tmp_path, mlff("painn.yaml")), tmp_path), *damage[1:])


def test_self_test(zoo, tmp_path):
    """A model whose numbers are not those in its file is refused, and `self_test no` skips the comparison."""
    head, tensors = modelfile.read(zoo["painn"])
    head["self_test"]["structures"] = [
        {
            "name": "pair",
            "elements": ["H", "O"],
            "positions": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
            "cell": "none",
            "energy": -1.0,
            "forces": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
            "virial": [0.0] * 6,
        }
    ]
    modelfile.write(str(tmp_path / "wrong"), head, {k: np.ascontiguousarray(v) for k, v in tensors.items()})
    expect(fails(deck(tmp_path, mlff("wrong.yaml")), tmp_path), "self-test|self_test", "pair")
    output = launch(deck(tmp_path, mlff("wrong.yaml", options="self_test no")), str(tmp_path))
    assert "not run (self_test no)" in output


def test_potentials_folder(zoo, tmp_path, monkeypatch):
    """Model files are found in LAMMPS_POTENTIALS like other potentials."""
    (tmp_path / "potentials").mkdir()
    (tmp_path / "run").mkdir()
    copy(zoo, tmp_path / "potentials")
    monkeypatch.setenv("LAMMPS_POTENTIALS", str(tmp_path / "potentials"))
    launch(deck(tmp_path / "run", mlff("painn.yaml")), str(tmp_path / "run"), 2)


# ---- the plugin itself ----------------------------------------------------------------------------------------------


def test_exports():
    """LAMMPS opens plugins with global symbols: only the entry point may be seen."""
    if not shutil.which("nm"):
        pytest.skip("nm is not installed")
    listed = subprocess.run(["nm", "-D", "--defined-only", PLUGIN], stdout=subprocess.PIPE, check=True).stdout.decode()
    names = [line.split()[-1] for line in listed.splitlines() if line.split()[1] not in ("A",)]
    assert names == ["lammpsplugin_init"], names


def test_version_mismatch(tmp_path):
    """A plugin for another release is refused in one sentence, and its styles are not there."""
    with open(PLUGIN, "rb") as f:
        data = f.read()
    found = set(re.findall(rb"\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) 20\d\d", data))
    assert found, "no version in the plugin"
    for version in found:
        data = data.replace(version, version[:-1] + (b"3" if version[-1:] != b"3" else b"4"))
    (tmp_path / "mlffplugin.so").write_bytes(data)
    output = launch(
        "plugin load ./mlffplugin.so\nunits metal\npair_style mlff\n", str(tmp_path), load=False, check=False
    )
    expect(
        output,
        "plugin mlff was not loaded: it was compiled for LAMMPS",
        "compile it again",
        "Unrecognized pair style 'mlff'",
    )


def test_automatic_load(zoo, tmp_path, monkeypatch):
    """In a folder of LAMMPS_PLUGIN_PATH no command is needed."""
    shutil.copy(PLUGIN, tmp_path / "mlffplugin.so")
    monkeypatch.setenv("LAMMPS_PLUGIN_PATH", str(tmp_path))
    launch(deck(tmp_path, mlff(zoo["painn"])), str(tmp_path), load=False)


def test_lmp_is_stock():
    """The tests run the LAMMPS that they say they do."""
    text = subprocess.run([LMP, "-h"], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "Large-scale Atomic/Molecular Massively Parallel Simulator" in text and "PLUGIN" in text


@pytest.mark.parametrize(
    "name, stress, warned",
    (
        ("painn", "stress/atom", "use compute centroid/stress/atom"),
        ("painn", "centroid/stress/atom", None),
        (
            "painn",
            "stress/atom NULL virial\ncompute other all centroid/stress/atom",
            "use compute centroid/stress/atom",
        ),
        ("ani", "stress/atom", "use compute centroid/stress/atom"),
        ("ani", "centroid/stress/atom", None),
    ),
)
def test_heat_flux(zoo, tmp_path, name, stress, warned):
    """compute stress/atom is not the heat current of a many-body potential."""
    more = (
        "compute pe all pe/atom\ncompute ke all ke/atom\n"
        f"compute s all {stress} NULL virial\ncompute j all heat/flux ke pe s\nrun 0\n"
    )
    output = launch(deck(tmp_path, mlff(zoo[name]), run=more), str(tmp_path))
    assert ("mlff-39" in output) == (warned is not None), output
    assert warned is None or warned in output


def test_two_dimensions(zoo, tmp_path):
    lines = "units metal\ndimension 2\nboundary p p p\nregion b block 0 9 0 9 -0.5 0.5\ncreate_box 2 b\nmass 1 15.999\n"
    lines += "mass 2 1.008\ncreate_atoms 1 single 1 1 0\n" + mlff(zoo["painn"]) + "\nrun 0\n"
    expect(fails(lines, tmp_path), "does not support `dimension 2`")


def test_caution(zoo, tmp_path):
    """A known failure of a model is one warning on any number of ranks."""
    with open(zoo["painn"], encoding="utf-8") as f:
        text = f.read()
    assert "accuracy: {" in text
    path = tmp_path / "model.yaml"
    path.write_text(text.replace("accuracy: {", "accuracy: {caution: ice melts, "))
    shutil.copy(zoo["painn"].replace(".yaml", ".safetensors"), tmp_path)
    for ranks in (1, 2):
        output = launch(deck(tmp_path, mlff(str(path))), str(tmp_path), ranks)
        assert (
            output.count("WARNING: pair_coeff of mlff: model random-painn has a known failure: ice melts [mlff-45]")
            == 1
        ), output


def test_missing_self_test(zoo, tmp_path):
    """A model file without self-test structures gives one warning on any number of ranks; `self_test no` none."""
    for ranks in (1, 2):
        output = launch(deck(tmp_path, mlff(zoo["painn"])), str(tmp_path), ranks)
        assert output.count("WARNING: pair_coeff of mlff: model random-painn has no self-test structures") == 1, output
    assert "self-test structures" not in launch(
        deck(tmp_path, mlff(zoo["painn"], options="self_test no")), str(tmp_path)
    )
