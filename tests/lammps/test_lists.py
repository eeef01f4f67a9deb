"""Scripts in which atoms, types, ghosts or settings change after the neighbor lists were made: each evaluation gives
the numbers of the reference (script_oracle.py), or one error ends the script."""

import functools
import re

import pytest
import random_scripts

ATOMS = """
create_atoms 1 single 1 1 1
create_atoms 2 single 2 1.2 1
create_atoms 2 single 1 2 1.3
create_atoms 1 single 4 4 4
create_atoms 2 single 5 4.2 4
create_atoms 2 single 4 5 4.3
create_atoms 1 single 1 4 5
create_atoms 2 single 2 4.2 5
create_atoms 2 single 1 5 5.3
create_atoms 2 single 4 1 2
"""
MLFF = "pair_style mlff precision fp64 domain ignore\npair_coeff * * painn.yaml O H\n"
ARGON = """
pair_style {style} mlff precision fp64 domain ignore lj/cut 5.0
pair_coeff 1 1 lj/cut 0.01797 1.264
pair_coeff 1 2 lj/cut 0.002834 1.195
pair_coeff 2 2 lj/cut 0.01486 1.841
pair_coeff * * mlff ani.yaml O NULL
"""
BONDS = "bond_style zero\nbond_coeff *\nspecial_bonds lj/coul 0 0 0\n"
EXTRA = "bond/types 1 extra/bond/per/atom 4 extra/special/per/atom 10"


MASSES = "mass 1 15.999\nmass 2 1.008\n"
LATE = "set atom * mol 1\nregion far block 3 6 3 6.5 3 7\ngroup late {}\nneigh_modify exclude molecule/intra late"


def script(after, before="", pair=MLFF, style="atomic", boundary="p p p", size="6 0 6.5 0 7", create="", atoms=ATOMS):
    """No energies in thermo output, with which LAMMPS would refuse some of these before a pair style is asked."""
    return f"""units metal
atom_style {style}
boundary {boundary}
region box block 0 {size}
create_box 2 box {create}
{MASSES if style != "sphere" else ""}
{atoms}
{before}
{pair}
#watch
thermo_style custom step
thermo 1
timestep 0.0002
fix n all nve
{after}""".splitlines()


open_molecular = functools.partial(script, style="molecular", size="8 0 8.5 0 8")
bonded = functools.partial(script, style="bond", size="8 0 8.5 0 8", create=EXTRA, before=BONDS)
few = "\n".join(ATOMS.strip().splitlines()[:4])
open_hybrid = functools.partial(script, pair=ARGON.format(style="hybrid"), boundary="m m m", atoms=few)
FAST, OLD = "velocity all create 30000 1\n", "neigh_modify delay 100 every 1 check yes\n"
AGAIN = "run 5\nreset_timestep 0\n{}\nrun 5 pre no"
BY_STEP = "variable t atom 1+((step+id)%2)\nfix s all set 2 0 atom 1*4 type v_t\nrun 6"
RIGHT, ERROR = r"^right$", r"\[mlff-\d+\]"
EITHER = f"{RIGHT}|{ERROR}"
LAMMPS = "without a model, too"  # comm_style before `pre no`: LAMMPS reads communication that is not set up
# name -> lines, and what comes of them
CASES = {
    # `pre no` after reset_timestep: the run is not the one before, though its steps have the same numbers
    "reset, type": (script(AGAIN.format("set atom 1 type 2")), ERROR),
    "reset, type, old lists": (script(OLD + AGAIN.format("set atom 1 type 2")), ERROR),
    "reset, other atoms": (
        script(AGAIN.format("delete_atoms group all\ncreate_atoms 1 random 10 12345 NULL overlap 1.0 maxtry 100")),
        EITHER,
    ),
    "reset, displaced": (script(AGAIN.format("displace_atoms all move 0.5 0.5 0.5")), EITHER),
    "reset, displaced, old lists": (script(OLD + AGAIN.format("displace_atoms all move 3 0 0")), EITHER),
    "reset, box": (script(AGAIN.format("change_box all x scale 0.9")), EITHER),
    "reset, box, old lists": (script(OLD + AGAIN.format("change_box all x scale 0.9")), EITHER),
    # atoms of trials, in a group that lacks neighbors
    "trials, exclusion": (
        script(
            "fix g one gcmc 2 3 3 1 40931 300 -2.0 0.5\nrun 5",
            "group one type 1\ngroup late empty\nneigh_modify exclude group late one\ngroup late id 2",
            size="3.7 0 4.2 0 3.9",
            atoms="create_atoms 2 single 3.3 2.8 1.3\ncreate_atoms 2 single 0.1 2.0 2.9",
        ),
        ERROR,
    ),
    # trials before LAMMPS prepares ghosts for the changed box
    "trials, box": (
        script(
            "fix g all gcmc 1 0 5 2 66543 3000 -1.0 0.5 full_energy\nfix d all deform 1 x trate 5000 y trate -3000\n"
            "run 10",
            pair=MLFF.replace("painn", "gaussian"),
            size="5.9 0 8.2 0 3.4",
            atoms="create_atoms 2 single 2.9 3.4 1.6",
        ),
        EITHER,
    ),
    # a command that makes lists of its own
    "overlap deleted": (script("run 5\ndelete_atoms overlap 0.2 all all\nrun 5 pre no"), EITHER),
    "overlap deleted, hybrid": (
        script(
            "run 5\ndelete_atoms overlap 1.2 all all\nrun 5 pre no",
            pair="pair_style hybrid/overlay mlff precision fp64\npair_coeff * * mlff nequix.yaml O H",
            size="8 0 9 0 8",
        ),
        EITHER,
    ),
    # settings before `pre no`, that lists and ghosts do not have
    "smaller skin": (script(f"{FAST}run 5\nneighbor 0.1 bin\nrun 50 pre no"), EITHER),
    "larger skin": (script(f"{FAST}neighbor 0.1 bin\nrun 5\nneighbor 5.0 bin\nrun 50 pre no"), EITHER),
    "other kind of lists": (script(f"{FAST}neighbor 0.1 bin\nrun 5\nneighbor 0.1 nsq\nrun 200 pre no"), r"\[mlff-34\]"),
    "other kind of lists, trials alone": (
        script(
            "fix w all widom 1 3 1 54348 300\nrun 2\nneighbor 2.0 nsq\nrun 5 pre no", size="4 0 3.8 0 3.5", atoms=""
        ),
        r"\[mlff-34\]",
    ),
    "tiled": (script("run 5\ncomm_style tiled\nrun 5 pre no"), f"{ERROR}|{LAMMPS}"),
    "tiled, omp": (
        ["package omp 1", "suffix omp", *script("run 5\ncomm_style tiled\nrun 5 pre no")],
        f"{ERROR}|{LAMMPS}",
    ),
    "ghosts farther": (script("run 5\ncomm_modify cutoff 12.0\nrun 5 pre no"), EITHER),
    "sorted": (script("run 5\natom_modify sort 1 2.0\nrun 5 pre no"), EITHER),
    "exclusion": (script(f"{FAST}neighbor 0.2 bin\nrun 5\nneigh_modify exclude type 1 2\nrun 50 pre no"), EITHER),
    "multi": (script(f"neighbor 2.0 multi\n{FAST}comm_modify mode multi\nrun 5\nneighbor 0.5 multi\nrun 5"), EITHER),
    # lists that are kept while atoms move
    "no checks": (script("neigh_modify delay 1000 every 1 check no\nvelocity all create 100000 1\nrun 60"), ERROR),
    "seldom checked": (script(f"neigh_modify every 50 delay 0 check yes\n{FAST}run 60"), ERROR),
    # exclusions of a group that gains atoms
    "late group": (script("run 1\ngroup late id 1:6\nrun 4", LATE.format("empty"), style="molecular"), ERROR),
    "late group, pre no": (
        script("run 1\ngroup late id 1:6\nrun 4 pre no", LATE.format("empty"), style="molecular"),
        EITHER,
    ),
    "dynamic group": (
        open_molecular(
            "timestep 0.0005\nvelocity all set 3000 3000 3000\nrun 10",
            LATE.format("dynamic all region far every 1"),
            atoms="\n".join(ATOMS.strip().splitlines()[:3]),
        ),
        ERROR,
    ),
    "deposited": (
        script("fix d late deposit 4 1 1 4711 region box near 0.8\nrun 6", LATE.format("empty"), style="molecular"),
        EITHER,
    ),
    # what fixes set
    "types by a variable": (script(BY_STEP), EITHER),
    # of a few atoms: other ranks have only ghosts of them
    "types there and back": (
        script("variable t atom 1+((step+id)%2)\nfix s all set 1 0 atom 1*3 type v_t\nrun 6"),
        RIGHT,
    ),
    "types by a variable, hybrid": (script(BY_STEP, pair=ARGON.format(style="hybrid/overlay")), EITHER),
    "positions by a variable": (script("variable xx atom x+0.3\nfix s all set 3 0 atom 3 x v_xx\nrun 8"), EITHER),
    # a type that becomes an element, of an atom without ghosts
    "NULL to element": (open_hybrid("run 2\nset atom 2 type 1\nrun 4 pre no"), ERROR),
    "NULL to element, overlay": (
        script("run 2\nset atom 1*3 type 1\nrun 3 pre no", pair=ARGON.format(style="hybrid/overlay")),
        ERROR,
    ),
    "moved by nothing": (open_hybrid("run 2\ndisplace_atoms all move 0 0 0\nrun 4 pre no"), EITHER),
    # bonds
    "bond by a fix": (bonded("fix b all bond/create 2 1 2 1.8 1\nrun 10"), "special_bonds"),
    "bond by a command": (bonded("run 2\ncreate_bonds single/bond 1 1 2\nrun 3 pre no"), "special_bonds|" + ERROR),
    # other boxes and atoms
    "dimension 2": (
        ["dimension 2", *script("run 0", size="6 0 6.5 -0.5 0.5", atoms="create_atoms 1 single 1 1 0")],
        "dimension 2",
    ),
    "sphere": (script("run 2", "set type 1 mass 15.999\nset type 2 mass 1.008", style="sphere"), RIGHT),
}


@pytest.fixture(scope="module")
def verdicts(court):
    """(ranks, name) -> verdict: all of a number of ranks in one LAMMPS."""
    scripts = [[line for line in lines if line.strip()] for lines, _ in CASES.values()]
    return {
        (ranks, name): verdict
        for ranks in (1, 2)
        for name, verdict in zip(CASES, court.judge(scripts, ranks), strict=True)
    }


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("name", CASES)
def test_changed(verdicts, name, ranks):
    verdict, wanted = verdicts[ranks, name], CASES[name][1]
    if random_scripts.NO_OPENMP in verdict.text:
        pytest.skip(random_scripts.NO_OPENMP)
    assert not verdict.failed, verdict.text
    assert re.search(wanted, verdict.text or "right"), f"{verdict.text or 'right'}: not {wanted}"
    assert verdict.n_checked or verdict.text, "nothing was compared"


COMPARE = """units metal
atom_style atomic
newton {newton}
region box block 0 6.5 0 6.5 0 6.5
create_box 2 box
mass 1 15.999
mass 2 1.008
create_atoms 1 random 6 123 box overlap 1.0 maxtry 1000
create_atoms 2 random 10 456 box overlap 1.0 maxtry 1000
{pair}
#watch
comm_modify cutoff 8.0
fix n all nve/limit 0.01
fix p all mlffprof 1 table no warmup 0 compare {model}.yaml every 1
run 1
run 2 every 1 "displace_atoms all move 1.416 0 0"
"""
PAIRS = {
    "lj": "pair_style lj/cut 5.0\npair_coeff * * 0.001 1.5",
    "ani": "pair_style mlff precision fp64 domain ignore\npair_coeff * * ani.yaml O H",
    "painn": MLFF,
}


@pytest.mark.parametrize("ranks", (1, 2, 3))
def test_compare(court, ranks):
    """fix mlffprof compare exchanges features with newton on and off, also with pair styles that exchange less."""
    cases = [("off", pair, model) for pair in PAIRS for model in ("nequix", "sevennet")] + [("on", "lj", "sevennet")]
    scripts = [COMPARE.format(newton=n, pair=PAIRS[p], model=m).splitlines() for n, p, m in cases]
    for case, verdict in zip(cases, court.judge(scripts, ranks), strict=True):
        assert verdict.kind == random_scripts.OK, f"{case}: {verdict.text}"
        assert verdict.n_checked == 6, case


@pytest.mark.parametrize("ranks", (1, 2))
def test_compare_between_set_ups(court, ranks):
    """The first comparison of a run may be in a step with an older list, also after minimize and reset_timestep."""
    lines = COMPARE.format(newton="on", pair=PAIRS["lj"], model="painn").replace("every 1", "every 7", 1).splitlines()
    end = ["run 5", "run 5", "minimize 0 0 3 3", "run 6", "reset_timestep 1", "run 9"]
    (verdict,) = court.judge([lines[: lines.index("run 1")] + end], ranks)
    assert verdict.kind == random_scripts.OK, verdict.text


def test_atoms_boxes_apart(court):
    """The count of pairs at a start finds all images of atoms that left a small box a while ago."""
    lines = script(
        "", atoms="create_atoms 1 single 0.2 0.3 0.4\ncreate_atoms 2 single 1.2 1.3 1.4", size="2.4 0 2.5 0 2.6"
    )
    lines = [line for line in lines if "fix n" not in line]
    lines.insert(1, "neighbor 8 bin")
    lines += ["group l type 1", "group r type 2", "fix l l move linear 20 0 0", "fix r r move linear -20 0 0"]
    lines += ["timestep 0.0005", "run 10", *["run 13 pre no"] * 30]
    (verdict,) = court.judge([lines], 1)
    assert verdict.kind == random_scripts.OK and verdict.n_checked > 100, verdict.text
