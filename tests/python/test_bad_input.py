"""Bad input of every command: exit status 2 and one line that says what is wrong; no file is made or changed.

A case is `words | change of the configuration | part of what is said`. A change is `keys = value` or `keys -`,
with dots between keys."""

import contextlib
import importlib
import io
import os
import shlex
import shutil
import subprocess

import helpers
import numpy as np
import pytest
import yaml

MAINS = {
    "distill": "train.distill",
    "label": "train.label",
    "certify": "certify.command",
    "convert": "convert.command",
    "validate": "bench.validate",
    "bench": "bench.suite",
    "scaling": "bench.scaling",
    "report": "report.page",
}
RECIPE = {"name": "small", "structures": [{"files": "water.xyz"}], "teacher": {"mlff": "water-xs"}}
CONFIGS = {"distill": RECIPE, "certify": RECIPE}
PROPERTIES = 'Lattice="8 0 0 0 8 0 0 0 8" Properties=species:S:1:pos:R:3'
XYZ = f"3\n{PROPERTIES}\nO 0 0 0\nH 0.76 0.59 0\nH -0.76 0.59 0\n"
FILES = {
    "water.xyz": XYZ,
    "nan.xyz": XYZ.replace("0.59", "nan"),
    "labelled.xyz": f"1\nenergy=-1.0 {PROPERTIES}:forces:R:3\nO 0 0 0 0 0 0\n",
    "silicon.xyz": "2\n\nSi 0 0 0\nSi 0 0 2\n",
    "broken.xyz": "3\n\nO 0 0\n",
    "empty.xyz": "",
    "zero.xyz": "0\n\n",
    "bad.in": "pair_style nothing\n",
    "broken.yaml": "format: mlff/1\n",
    "cut.yaml": "[1, 2",
    "list.yaml": "- 1\n",
    "empty.yaml": "",
    "binary.yaml": "\xff\0",
    "broken.pt": "no tensors here\n",
}
CASES = r"""
distill || a recipe or a structure is required: mlff distill --example NAME prints one to
distill nowhere.yaml || nowhere.yaml: No such file or directory; mlff distill --example NAME
distill empty.yaml -o run || empty.yaml: is empty; allowed are name, kind, structures, teacher,
distill --example nothing || --example nothing: there are ase, labels, lammps, silicon,
distill config.yaml -o run | teacher - | config.yaml:1: has no teacher; allowed are name, kind, structures,
distill config.yaml -o run | teacher = {mace: x} | config.yaml:5: teacher.mace: is not known; allowed are mlff,
distill config.yaml -o run | structures = [] | config.yaml:2: structures: must be a list of items, each with
distill config.yaml -o run | student = {n_feature: 8} | config.yaml:5: student.n_feature: is not known; allowed are
distill config.yaml -o run | student = {features: abc} | config.yaml:5: student.features: is 'abc'; allowed is a whole
distill config.yaml -o run | student = {cutoff: -1} | config.yaml:5: student.cutoff: is -1; allowed is a length in
distill config.yaml -o run | student = {cutoff: .nan} | config.yaml:5: student.cutoff: is nan; allowed is a length in
distill config.yaml -o run | training = {steps: 0} | config.yaml:7: training.steps: is 0; allowed is a whole
distill config.yaml -o run | training = {batch: -8} | config.yaml:7: training.batch: is -8; allowed is atoms per
distill config.yaml -o run | training = {device: cudax} | config.yaml:7: training.device: is 'cudax'; allowed is auto,
distill config.yaml -o run | student = {size: huge} | config.yaml:5: student.size: is 'huge'; allowed is one of
distill config.yaml -o run | bars = {forces: good} | config.yaml:2: bars.forces: is 'good'; allowed is a number
distill config.yaml -o run | rounds = {n: -1} | config.yaml:3: rounds.n: is not known; allowed are count,
distill config.yaml -o run | name = '' | config.yaml:1: name: is ''; allowed is letters, digits, '.',
distill config.yaml -o run | name = a/b | config.yaml:1: name: is 'a/b'; allowed is letters, digits,
distill config.yaml -o run --jobs 0 || --jobs: '0' is not a whole number from 1
distill config.yaml -o run --torch-python none/python || none/python: cannot be run: No such file or directory
distill config.yaml -o run --lmp none/lmp || --lmp none/lmp: there is no such program

label water.xyz -o labels.xyz || no teacher: give one of --mlff, --lammps, --ase, --labels and
label water.xyz -o labels.xyz --mlff water-xs --ase a:b || --mlff and --ase: give one teacher
label water.xyz -o labels.xyz --mlff nothing || nothing.yaml, and no model nothing; there are:
label -o labels.xyz --mlff water-xs || no structures: name files of them, or give a recipe that has
label nowhere.xyz -o labels.xyz --mlff water-xs || nowhere.xyz: there is no such file
label broken.xyz -o labels.xyz --mlff water-xs || broken.xyz:3: atom 1 has 3 of 4 columns
label empty.xyz -o labels.xyz --mlff water-xs || empty.xyz: is empty
label nan.xyz -o labels.xyz --mlff water-xs || nan.xyz:4: pos of atom 2 is 'nan', not a finite number
label zero.xyz -o labels.xyz --mlff water-xs || zero.xyz:1: expected the number of atoms,
label silicon.xyz -o labels.xyz --mlff water-xs || silicon.xyz, frame 1: element Si is unknown to the model
label water.xyz -o labels.xyz --mlff water-xs --elements C || water.xyz, frame 1: element H is not one of C
label water.xyz -o labels.xyz --mlff water-xs --elements Xx || water.xyz, frame 1: element H is not one of Xx
label water.xyz -o labels.xyz --mlff water-xs --hessian 2 || --hessian: '2' is not a share from 0 to 1
label water.xyz -o labels.xyz --mlff water-xs --hessian nan || --hessian: 'nan' is not a share from 0 to 1
label water.xyz -o labels.xyz --mlff water-xs --timeout nan || --timeout: 'nan' is not a number above 0
label water.xyz -o labels.xyz --lammps nowhere.in || nowhere.in: No such file or directory
label water.xyz -o labels.xyz --lammps bad.in || the structures hold H O: which type is which? Write
label water.xyz -o labels.xyz --ase nothing || the calculator is 'nothing': module:function is expected, as
label water.xyz -o labels.xyz --ase no_module:Thing --python python3 || the calculator no_module:Thing in python3
label water.xyz -o labels.xyz --ase a:b --arguments '{' || --arguments {: is not JSON (Expecting property name
label water.xyz -o labels.xyz --labels labelled.xyz --keys energy || --keys energy: NAME=KEY is expected, with
label water.xyz -o labels.xyz --labels nowhere.xyz || nowhere.xyz: cannot be opened: No such file
label --recipe nowhere.yaml -o labels.xyz || nowhere.yaml: No such file or directory; mlff distill
label water.xyz -o none/labels.xyz --mlff water-xs || none/labels.xyz: No such file or directory
label water.xyz -o broken.xyz --mlff water-xs || broken.xyz: exists and is not a file of labels: choose another
label water.xyz -o labels.xyz --mlff water-xs --program none/mlff || the option for the program mlff is 'none/mlff',
label water.xyz -o labels.xyz --mlff water-xs --precision fp8 || --precision: invalid choice: 'fp8' (choose from

certify nothing || nothing.yaml, and no model nothing; there are:
certify water-xs nowhere.yaml || nowhere.yaml: No such file or directory; mlff distill --example NAME
certify water-xs config.yaml -o page.html --measure everything || --measure everything: there are errors, seeds,
certify water-xs config.yaml -o page.html --scale nan || --scale: 'nan' is not a number above 0
certify water-xs config.yaml -o page.html --scale -1 || --scale: '-1' is not a number above 0
certify water-xs config.yaml -o page.html --minutes nan || --minutes: 'nan' is not a number above 0
certify water-xs config.yaml -o page.html --minutes 0 || --minutes: '0' is not a number above 0
certify water-xs config.yaml -o page.html --labels nowhere.xyz || nowhere.xyz: cannot be opened: No such file
certify water-xs config.yaml -o page.html --labels broken.xyz || broken.xyz:3: atom 1 has 3 of 4 columns
certify water-xs config.yaml -o none/page.html --measure errors || -o none/page.html: there is no folder none
certify water-xs config.yaml -o page.html | bars = {forces: good} | config.yaml:2: bars.forces: is 'good'; allowed is
certify water-xs config.yaml -o page.html | certify = {systems: [nothing]} | config.yaml, certify.systems[1]: the
certify water-xs config.yaml -o page.html --lmp none/lmp || --lmp none/lmp: there is no such program
certify water-xs config.yaml -o page.html --program none/mlff || the option for the program mlff is 'none/mlff',
certify broken.yaml config.yaml || broken.yaml: is an incomplete model file: it has no name
certify config.yaml config.yaml || config.yaml: is not a model file of mlff: it has no key format; mlff convert
certify --page nowhere.json || nowhere.json: No such file or directory
certify --page water.xyz || water.xyz: not valid JSON: Extra data
certify --page water_xs_profile.json || water_xs_profile.json: is not a certificate: format is None,
certify silicon-m --labels labelled.xyz -o page.html || the model does not know O, but Si

convert dimenet x -o out || ani|fennol|painn|orb|nequip|mace|tensornet: invalid choice: 'dimenet' (choose
convert ani nowhere.yaml -o out || nowhere.yaml: no such file
convert ani broken.yaml -o out || broken.yaml: architecture is None, which is not supported
convert ani config.yaml -o out || config.yaml: architecture is None, which is not supported
convert ani water.xyz -o out || water.xyz: is not a PyTorch checkpoint: expected a TorchANI state dict
convert painn water.xyz -o out || water.xyz: is not a PyTorch checkpoint: expected a SchNetPack model
convert orb water.xyz -o out || water.xyz: is not a checkpoint of PyTorch 1.6 or newer: expected
convert nequip water.xyz -o out || water.xyz: not a Nequix file (.nqx), which begins with one
convert fennol water.xyz -o out || water.xyz: not a model of FeNNol (.fnx): it has no modules
convert ani broken.pt -o out || broken.pt: is not a PyTorch checkpoint: expected a TorchANI state dict
convert nequip broken.pt -o out || broken.pt: is not a checkpoint of PyTorch 1.6 or newer: expected
convert orb broken.pt -o out || broken.pt: is not a checkpoint of PyTorch 1.6 or newer: expected
convert mace water.xyz -o out || water.xyz: is not a checkpoint of PyTorch 1.6 or newer: expected
convert mace broken.pt -o out || broken.pt: is not a checkpoint of PyTorch 1.6 or newer: expected
convert mace data.npz -o out || data.npz: cannot be read as a model of mace-torch: it is not a
convert mace broken.yaml -o out || broken.yaml: architecture is None, which is not supported
convert mace folder -o out || folder: is a folder; a file is expected
convert orb data.npz -o out || data.npz: cannot be read as a state dict: it is not a PyTorch
convert ani data.npz -o out || data.npz: cannot be read as a state dict: it is not a PyTorch
convert painn data.npz -o out || reading a SchNetPack model needs PyTorch, which this Python
convert orb --random 1 --layers 1 -o none/out || none/out.safetensors cannot be written
convert orb --random x -o out || --random: 'x' is not a whole number from 0
convert orb -o out || no IN given: name a checkpoint or a description, or say
convert ani folder -o out || folder: 0 files *.params, expected one with the constants:
convert fennol folder -o out || folder: the folder has no .fnx files
convert nequip folder -o out || folder: is a folder; a file is expected
convert orb folder -o out || folder: is a folder; a file is expected
convert painn folder -o out || folder: is a folder; a file is expected

validate nothing || nothing.yaml, and no model nothing; there are:
validate water-xs nowhere.xyz || there is no structure nowhere.xyz
validate water-xs broken.xyz || broken.xyz:3: atom 1 has 3 of 4 columns
validate water-xs zero.xyz || zero.xyz:1: expected the number of atoms,
validate water-xs nan.xyz || nan.xyz:4: pos of atom 2 is 'nan', not a finite number
validate water-xs silicon.xyz || silicon.xyz has Si, which water-xs.yaml does not know: its
validate water-xs bad.in || bad.in: it has no box (lines such as `0.0 20.0 xlo xhi`)
validate water-xs water.xyz --picoseconds nan || --picoseconds: 'nan' is not a number above 0
validate water-xs water.xyz --picoseconds inf || --picoseconds: 'inf' is not a number above 0
validate water-xs water.xyz --timestep -1 || --timestep: '-1' is not a number above 0
validate water-xs water.xyz --temperature 0 || --temperature: '0' is not a number above 0
validate water-xs water.xyz --equilibrate nan || --equilibrate: 'nan' is not a time from 0
validate water-xs water.xyz --steps 10 || --steps must be at least 100, and 20 times --every
validate water-xs water.xyz --every 0 || --every: '0' is not a whole number from 1
validate water-xs water.xyz --seed -1 --steps 200 || --seed: '-1' is not a whole number from 1
validate water-xs water.xyz --settings 'precision fp8' --steps 200 || LAMMPS did not run: ERROR: pair_style mlff:
validate water-xs water.xyz --lmp none || --lmp none: there is no such program
validate water-xs water.xyz --build none || none holds no mlffplugin.so: run `make build`, or name the
validate water-xs water.xyz --decks none || in.validate was not found: give the folder benchmarks/decks
validate water-xs water.xyz --open || --open is for data files of LAMMPS: set pbc=
validate water-xs water.xyz --out water.xyz || water.xyz: File exists
validate broken.yaml water.xyz || broken.yaml: is an incomplete model file: it has no name
validate water-xs water.xyz --publish water.xyz || water.xyz: File exists

bench --system gold || --system gold: there are water, benzene_gas, benzene,
bench --size giant || --size giant: there are small, medium, large
bench --protocol nvp || --protocol nvp: there are nve, nvt, npt
bench 'nothing-*' || no case fits this choice; `mlff bench --list` shows all names
bench --model nothing || nothing.yaml, and no model nothing; there are:
bench --steps 0 || --steps: '0' is not a whole number from 1
bench --warmup 5000 || --warmup 5000 must be below --steps 1020
bench --repeats x || --repeats: 'x' is not a whole number from 1
bench --ranks 0 || --ranks: '0' is not a list of whole numbers from 1, as 1,2,4
bench --temperature nan || --temperature: 'nan' is not a list of temperatures in K, as
bench --temperature -5 || --temperature: '-5' is not a list of temperatures in K, as
bench --budget nan --list || --budget: 'nan' is not minutes from 0
bench --var x || --var x: use NAME=VALUE
bench --against nowhere || --against nowhere: no build folder, plugin or model: there is not a model file
bench --reference nothing || nothing.yaml, and no model nothing; there are:
bench --targets nowhere.yaml || there is no file of targets nowhere.yaml
bench --lmp none || --lmp none: there is no such program
bench --build none || none holds no mlffplugin.so: run `make build`, or name the
bench --decks none || the decks were not found: give their folder with --decks
bench --potential nothing || --potential nothing: for water there is mlff
bench --system water --system-sizes -5 || --system-sizes: '-5' is not a list of whole numbers from 1,
bench --publish-as x || --publish-as x: use letters, digits and _, and name the
bench --out water.xyz --system water || runs: Not a directory

scaling sideways || mode: invalid choice: 'sideways' (choose from 'strong',
scaling strong --box 2x2 || --box: '2x2' is not of the form 2x2x2
scaling strong --box 0x1x1 || --box: '0x1x1' is not of the form 2x2x2
scaling strong --ranks a || --ranks: 'a' is not a list of whole numbers from 1, as 1,2,4
scaling strong --model nothing || nothing.yaml, and no model nothing; there are:
scaling strong --steps -5 || --steps: '-5' is not a whole number from 1
scaling strong --warmup 1000 || --warmup 1000 must be below --steps 200
scaling strong --equilibrate -1 || --equilibrate: '-1' is not a whole number from 0
scaling strong --repeats 0 || --repeats: '0' is not a whole number from 1
scaling strong --lmp none || --lmp none: there is no such program
scaling strong --build none || none holds no mlffplugin.so: run `make build`, or name the
scaling strong --decks none || the decks were not found: give their folder with --decks
scaling replicas --replicas 0 || --replicas: '0' is not a list of whole numbers from 1, as
scaling strong --out water.xyz || runs: Not a directory
scaling strong --check-steps 0 || --check-steps: '0' is not a whole number from 1

report nowhere || nowhere: there is no such folder
report folder || folder: holds no report of fix mlffprof
report water.xyz || water.xyz: there is no such folder
report reports -o none/x.html || -o none/x.html: there is no folder
report reports -o folder || -o folder: is a folder; the name of a file is expected
"""
PROGRAM = """
compare water_xs_profile.json | expected two reports
compare water_xs_profile.json none.json | none.json
compare water_xs_profile.json water.xyz | water.xyz
compare water_xs_profile.json reports | reports
compare water_xs_profile.json water_xs_profile.json --gate none.yaml | none.yaml
compare water_xs_profile.json --gate water.xyz | water.xyz
compare water_xs_profile.json water_xs_profile.json --with | --with must occur once
compare --with water_xs_profile.json water_xs_profile.json | --with must occur once
compare water_xs_profile.json --with water_xs_profile.json --with water_xs_profile.json | --with must occur once
compare water_xs_profile.json --with water_xs_profile.json --gate bad.in | --with must occur once
show none.json | none.json
show empty.yaml | empty.yaml
show water_xs_profile.json --targets cut.yaml | cut.yaml
explain water_xs_profile.json --roof none.json | none.json
explain water.xyz | water.xyz
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files of the cases, where the test runs."""
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "reports").mkdir()
    profile = os.path.join(helpers.ROOT, "benchmarks", "results", "water_xs_profile.json")
    np.savez(tmp_path / "data.npz", positions=np.zeros((2, 3)))
    for place in ("reports", "."):
        shutil.copy(profile, tmp_path / place)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(config, keys, value):
    """A copy of nested mappings and lists with the value at these keys; None: without the last of them."""
    out, (key, *rest) = config.copy(), keys
    key = int(key) if isinstance(config, list) else key
    if rest:
        out[key] = changed(config[key], rest, value)
    elif value is None:
        del out[key]
    else:
        out[key] = value
    return out


def configuration(command, change):
    """Text of config.yaml."""
    config = CONFIGS.get(command, {})
    if change:
        keys, _, value = change.partition(" = ")
        config = changed(config, keys.removesuffix(" -").split("."), yaml.safe_load(value) if value else None)
    return yaml.safe_dump(config)


def content(folder):
    """{path: what is in it} of all below the folder."""
    paths = [path for path in sorted(folder.rglob("*")) if not path.is_dir()]
    return {**dict.fromkeys(folder.rglob("*")), **{path: path.read_bytes() for path in paths}}


def run(command, words):
    """Exit status, and what was said on standard output and standard error."""
    said, main = io.StringIO(), importlib.import_module(f"mlff_tools.{MAINS[command]}").main
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status = main(words)
        except SystemExit as e:  # of argparse
            status = e.code
    return status, said.getvalue()


def split(case):
    words, change, text = (part.strip() for part in case.split("|", 2))
    return shlex.split(words), change, text


@pytest.mark.parametrize("case", CASES.strip().replace("\n\n", "\n").splitlines())
def test_one_line(case, folder):
    (command, *words), change, text = split(case)
    (folder / "config.yaml").write_text(configuration(command, change))
    before = content(folder)
    status, said = run(command, words)
    assert status == 2, said
    lines = [line for line in said.splitlines() if ": error: " in line]
    assert len(lines) == 1 and said.endswith(f"{lines[0]}\n"), said
    assert text in lines[0] and lines[0].startswith(f"mlff {command}"), lines[0]
    assert content(folder) == before


@pytest.mark.skipif(not helpers.program(), reason="the program mlff was not found")
@pytest.mark.parametrize("case", PROGRAM.strip().splitlines())
def test_program(case, folder):
    words, _, text = (part.strip() for part in case.partition("|"))
    before = content(folder)
    command = [helpers.program(), *shlex.split(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and not done.stdout, done.stdout
    assert done.stderr.count("\n") == 1 and text in done.stderr, done.stderr
    assert content(folder) == before
