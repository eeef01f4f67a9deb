"""fix mlffprof: its measurements agree with LAMMPS on any number of ranks, and its errors are reported.

The pair styles are lj/cut and small random models; the numbers that the reports are compared with come from LAMMPS' own
thermo output, timing breakdown and dumps, and from numpy.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from harness import (
    CLEAR,
    LMP,
    MPIEXEC,
    PLUGIN,
    System,
    close,
    cpu_clock,
    fails,
    launch,
    mlff,
    preload,
    read_dump,
    water,
    with_libraries,
)

from mlff_tools.model import modelfile

ARGON = """
units {units}
atom_style atomic
lattice fcc {spacing}
region box block 0 {n} 0 {n} 0 {n}
create_box 1 box
create_atoms 1 box
mass 1 39.95
pair_style lj/cut {cutoff}
pair_coeff 1 1 {epsilon} 3.4
velocity all create {temperature} 12345
timestep {timestep}
neighbor 1.0 bin
"""
THERMO = """
thermo_style custom step temp pe ke etotal press vol econserve {more}
thermo_modify format float %.15g
thermo {every}
"""


def argon(fix="", run="run 100", thermo=10, more="", n=3, timestep=0.002, temperature=90.0, units="metal", before=""):
    epsilon = 0.0104 if units == "metal" else 0.0104 * 23.060549
    head = ARGON.format(
        units=units,
        spacing=5.4,
        n=n,
        cutoff=6.0,
        epsilon=epsilon,
        temperature=temperature,
        timestep=timestep if units == "metal" else 1000 * timestep,
    )
    return f"{head}{THERMO.format(every=thermo, more=more)}{before}\n{fix}\n{run}\n"


def prof(keywords="", every=10, move="fix move all nve"):
    return f"{move}\nfix prof all mlffprof {every} {keywords}"


def load(folder, name="r.json"):
    """The report; NaN and Infinity are not valid JSON and fail."""

    def refuse(text):
        raise ValueError(f"{name} has {text}")

    with open(os.path.join(str(folder), name), encoding="utf-8") as f:
        return json.load(f, parse_constant=refuse)


def thermo_table(output, run=0):
    """Columns of one run's thermo output: name -> array."""
    blocks = re.findall(r"^( *Step .*)\n((?:(?: *[-+0-9.einaf]+)+ *\n|WARNING.*\n|fix mlffprof.*\n)+)", output, re.M)
    names, rows = blocks[run]
    rows = [r for r in rows.splitlines() if re.match(r" *[-+0-9]", r)]
    values = np.array([[float(x) for x in row.split()] for row in rows])
    return dict(zip(names.split(), values.T))


def breakdown(output):
    """Average seconds of LAMMPS' own timing table, by section."""
    found = re.findall(r"^(\w+) +\| [0-9.e+-]+ +\| ([0-9.e+-]+) +\|", output, re.M)
    return {name.lower(): float(value) for name, value in found}


def components(report):
    return {c["name"]: c for c in report["components"]}


def tags(report):
    return {t["name"]: t["n_steps"] for t in report["tags"]}


# ---- steps -----------------------------------------------------------------------------------------------------------


def test_times_are_those_of_lammps(tmp_path):
    """Step times add up to the loop time, and components to LAMMPS' own breakdown."""
    deck = argon(prof("file r.json warmup 0 memory no"), "run 300", n=4)
    output = launch(deck, str(tmp_path), env=cpu_clock())
    report, own = load(tmp_path), breakdown(output)
    loop = float(re.search(r"Loop time of ([0-9.e+-]+)", output).group(1))
    assert report["n_steps"] == 300 and report["n_atoms"] == 256 and report["system_size"] == "256 atoms"
    assert len(report["latencies_ms"]) == 300
    assert 0.5 * loop < report["total_time_s"] <= loop * 1.001, (report["total_time_s"], loop)
    close(report["total_time_s"], sum(report["latencies_ms"]) / 1000.0, 1e-6, "sum of the steps")
    for name in ("pair", "comm"):
        part = components(report)[name]
        assert part["n_steps"] == 300
        # LAMMPS prints five digits
        close(part["mean_ms"] * 0.3, own[name], 1e-3 * own[name] + 1e-5, f"{name} against LAMMPS")
    for part in components(report).values():
        assert part["mean_ms"] >= 0.0
    # sampling is excluded from the time of steps
    assert components(report)["modify"]["mean_ms"] * 0.3 <= own["modify"] * 1.001 + 1e-5
    assert report["energy_time_ms"] is None and report["stress_time_ms"] is None
    assert report["context"]["setup_s"] > 0


def test_components_are_the_whole(tmp_path):
    """The components of a step add up to the step. The clock counts its readings, so nothing depends on the load."""
    launch(argon(prof("file r.json warmup 0 memory no"), "run 300", n=4), str(tmp_path), env=preload("counting_clock"))
    report = load(tmp_path)
    top = {part["name"]: part["mean_ms"] for part in report["components"] if part["parent"] is None}
    close(sum(top.values()), report["mean_latency_ms"], 1e-9, "sum of the components")
    assert top["pair"] > 0 and top["comm"] > 0 and top["other"] < 0.004, top  # four readings of a microsecond


def test_engine_spans(zoo, tmp_path):
    """Inside pair_style mlff the parts of an evaluation fit into the pair time, and energy and forces have times."""
    for name, part in (("painn", "message"), ("ani", "descriptor")):
        deck = pair_deck(water(2), tmp_path, mlff(zoo[name])) + prof(f"file {name}.json warmup 1") + "\nrun 6\n"
        launch(deck, str(tmp_path))
        report = load(tmp_path, f"{name}.json")
        parts = components(report)
        inside = [c for c in report["components"] if c["parent"] == "pair"]
        assert {part, "dense", "edges", "forces"} <= {c["name"] for c in inside}
        for key in (part, "dense", part + "_backward", "dense_backward", "forces"):
            assert parts[key]["mean_ms"] > 0.0, key
        missing = {c["name"] for c in inside if c["mean_ms"] is None}
        assert report["stress_time_ms"] is None  # the virial comes with the forces, as does the energy
        assert missing == {
            "exchange",
            "stress",  # copies: energies of members, which the painn does not have
            *({"descriptor_backward", "copy"} if name == "painn" else {"message", "message_backward"}),
        }
        assert sum(c["mean_ms"] or 0.0 for c in inside) <= parts["pair"]["mean_ms"] * 1.001
        assert 0 < report["energy_time_ms"] < parts["pair"]["mean_ms"]
        assert 0 < report["forces_time_ms"] < parts["pair"]["mean_ms"]
        assert report["model_name"] == f"random-{name}" and report["device"] == "cpu"
        assert re.fullmatch("[0-9a-f]{64}", report["context"]["model_sha256"])
        assert report["context"]["model_header_sha256"] == modelfile.read_head(zoo[name])["header_sha256"]
        assert report["context"]["precision"] == "fp32" and report["context"]["pair_style"] == "mlff"


def test_time_of_a_stress_of_its_own(zoo, tmp_path):
    """The stress of Orb is a separate output with its own time; an open system has none."""
    for boundary in ("p p p", "s s s"):
        deck = f"boundary {boundary}\n" + pair_deck(water(2), tmp_path, mlff(zoo["orb"]))
        output = launch(deck + prof("file r.json warmup 1") + "\nrun 6\n", str(tmp_path), 2)
        report = load(tmp_path)
        part = components(report)["stress"]
        assert part["role"] == "stress" and part["parent"] == "pair"
        if boundary == "p p p":
            assert 0 < report["stress_time_ms"] == part["mean_ms"] < components(report)["pair"]["mean_ms"]
            assert re.search(r"energy \S+ ms, forces \S+ ms, stress [0-9]", output), output[-3000:]
        else:
            assert report["stress_time_ms"] is None and part["mean_ms"] is None


def pair_deck(system, folder, pair, units="metal", newton="on", name="w.data"):
    with open(os.path.join(str(folder), name), "w", encoding="utf-8") as f:
        f.write(system.data())
    step = 0.0002 if units == "metal" else 0.2
    return (
        f"units {units}\nnewton {newton}\nread_data {name}\n{pair}\nneighbor 1.0 bin\ntimestep {step}\n"
        "velocity all create 100 77\n"
    )


def test_tags(tmp_path):
    """Counts of rebuilds, output and box changes agree with LAMMPS."""
    fix = prof(
        "file r.json warmup 0 memory no energy no", move="neigh_modify every 5 delay 0 check no\nfix move all nve"
    )
    output = launch(argon(fix, "run 60", thermo=20), str(tmp_path))
    found = tags(load(tmp_path))
    assert int(re.search(r"Neighbor list builds = (\d+)", output).group(1)) == 12 == found["neighbor_rebuild"]
    assert found["output"] == 3 and "box_change" not in found
    fix = prof("file r.json warmup 0", move="fix move all nve\nfix d all deform 1 x scale 1.01")
    launch(argon(fix, "run 20"), str(tmp_path))
    # the fix moves the box at reneighboring or in each step, never in none
    assert load(tmp_path)["tags"][0]["n_steps"] > 0 and tags(load(tmp_path)).get("box_change", 0) >= 1


def test_slow_step_is_tagged(tmp_path):
    """With a slow dump, the slowest step is the one that wrote it, with its tag."""
    run = "dump d all custom 37 huge.dump id x y z vx vy vz fx fy fz\nrun 50"
    launch(argon(prof("file r.json warmup 0 energy no memory no"), run, n=12, thermo=0), str(tmp_path))
    slow = load(tmp_path)["slow_steps"]
    written = [s for s in slow if s["step"] == 37]
    assert written and "output" in written[0]["tags"], slow[:3]
    others = [s["tags"] for s in slow if s["step"] not in (37, 50)]
    assert others and not any("output" in some for some in others), slow


def test_growing_buffers_are_tagged(zoo, tmp_path):
    """In a box that shrinks there are ever more neighbors, so the engine's buffers grow, and those steps say so; in a
    settled run none does."""
    found = {}
    for name, more in (
        ("settled", ""),
        ("shrinking", "fix d all deform 1 x scale 0.7 y scale 0.7 z scale 0.7 remap x\n"),
    ):
        deck = pair_deck(water(3), tmp_path, mlff(zoo["painn"])) + "neigh_modify every 1 delay 0 check no\n" + more
        deck += prof(f"file {name}.json warmup 1 energy no memory no", 100, move="") + "\nrun 40\n"
        launch(deck, str(tmp_path))
        found[name] = tags(load(tmp_path, f"{name}.json"))
    assert found["shrinking"].get("buffer_growth", 0) >= 1 and "buffer_growth" not in found["settled"], found


def test_waiting_for_another_rank_is_tagged(tmp_path):
    """Nearly all atoms on one of two ranks: the report shows the waiting and names the busy rank."""
    found = {}
    for name, more in (("even", ""), ("uneven", "delete_atoms region right compress no\n")):
        deck = argon(
            prof("file r.json warmup 10 energy no memory no"),
            "run 60",
            n=12,
            temperature=5.0,
            before="pair_style lj/cut 14.0\npair_coeff 1 1 0.0104 3.4\nregion right block 6.2 INF INF INF INF INF\n"
            + more,
        )
        launch(deck.replace("create_box", "processors 2 1 1\ncreate_box"), str(tmp_path), 2)
        found[name] = load(tmp_path)
    waited = tags(found["uneven"]).get("other_rank", 0)
    own = 50 - tags(found["uneven"]).get("preempted", 0)  # steps in which no other program had a rank's processor
    assert waited > own / 2 and found["uneven"]["slowest_ranks"][0]["rank"] == 0, found["uneven"]
    assert "for rank 0 in" in {h["component"]: h["advice"] for h in found["uneven"]["hotspots"]}["comm"], found[
        "uneven"
    ]["hotspots"]
    balance = found["uneven"]["balance"]
    assert balance["atoms_imbalance"] > 1.5 and balance["imbalance"] > 1.5 and 0.1 < balance["waiting"] < 1, balance
    advice = {h["component"]: h["advice"] for h in found["uneven"]["hotspots"]}["imbalance"]
    assert "balance 1.05 shift" in advice and "rank 0 in" in advice, advice
    assert found["even"]["balance"]["atoms_imbalance"] < 1.2, found["even"]["balance"]
    # where other programs share the processors, either rank waits in some steps
    assert tags(found["even"]).get("other_rank", 0) < waited, found["even"]["tags"]


@contextlib.contextmanager
def one_core(spins):
    """Programs started inside run on one core, which they share with a busy loop if `spins`."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # children inherit it
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if spins else None
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        if other:
            other.kill()
            other.wait()


@pytest.mark.parametrize("n, steps", [(8, 400), (16, 60)])
def test_a_lost_processor_is_tagged(n, steps, tmp_path):
    """Another program on the same core: steps are tagged, also where it takes a part of each, and the spread has its
    cause."""
    with one_core(True):
        launch(argon(prof("file r.json warmup 10 energy no memory no"), f"run {steps}", n=n), str(tmp_path))
    found = load(tmp_path)
    assert tags(found).get("preempted", 0) >= 10, found["tags"]
    slow = ["preempted" in s["tags"] for s in found["slow_steps"]]
    assert sum(slow) > len(slow) / 2, found["slow_steps"]
    spread = [h["advice"] for h in found["hotspots"] if h["component"] == "spread"]
    assert n > 8 or ("those with preempted take" in spread[0] and "--bind-to core" in spread[0]), found["hotspots"]


def test_short_steps_are_not_taken_for_preempted(tmp_path):
    """Many short steps lie between two readings of processor time. Only steps that took 50 us more than the fastest may
    be tagged as preempted, however busy the machine is."""
    with one_core(False):
        launch(argon(prof("file r.json warmup 10 energy no memory no"), "run 4000", n=2), str(tmp_path))
    found = load(tmp_path)
    latencies = found["latencies_ms"]
    assert found["latencies_stride"] == 1 and found["median_latency_ms"] < 0.1
    least = min(latencies) + 0.04
    long = sum(latency > least for latency in latencies)
    preempted = [(tag["n_steps"], tag["mean_latency_ms"]) for tag in found["tags"] if tag["name"] == "preempted"]
    assert all(n <= long and mean > least for n, mean in preempted), (long, found["tags"])


def test_minimize(tmp_path):
    """One step per iteration, and the potential energy of LAMMPS."""
    run = "displace_atoms all random 0.1 0.1 0.1 7\nminimize 0.0 1e-8 40 400"
    output = launch(argon("fix prof all mlffprof 5 file r.json warmup 0", run, thermo=5), str(tmp_path))
    report, table = load(tmp_path), thermo_table(output)
    assert report["n_steps"] == int(re.search(r"Loop time of .* for (\d+) steps", output).group(1)) > 5
    series = report["energy"]["series"]
    energy = report["energy"]
    assert set(series) == {"stride", "step", "time_ps", "potential"} and energy["potential"]["mean"] < 0
    assert [energy[name] for name in ("kinetic", "total", "conserved", "temperature")] == [None] * 4
    found = dict(zip(series["step"], series["potential"]))
    for step, pe in zip(table["Step"], table["PotEng"]):
        if step in found:
            close(found[step], pe, 1e-12 * abs(pe), f"energy of iteration {step}")
    assert len(set(found) & set(table["Step"])) >= 3
    assert report["ns_per_day"] is None and report["drift"] is None


def test_runs_of_one_script(tmp_path):
    """Runs add up, run 0 has no step and no table, and only long runs have another warm-up."""
    run = "run 30\nrun 0\nrun 20 every 10 NULL\nrun 40 post no"
    output = launch(argon(prof("file r.json warmup 5"), run), str(tmp_path))
    report = load(tmp_path)
    assert report["n_steps"] + report["warmup"]["n_steps"] == 90 and report["warmup"]["n_steps"] == 5
    assert output.count("latency per step") == 4
    # the runs continue each other, so the trajectory is one
    assert report["energy"]["n_samples"] == 10 and report["energy"]["series"]["step"][0] == 0
    launch(argon(prof("file r.json warmup 2"), "run 10\nvelocity all create 50 4\nrun 40"), str(tmp_path))
    report = load(tmp_path)
    assert report["energy"]["first_step"] == 10 and report["warmup"]["n_steps"] == 4


def test_unfix_and_clear(tmp_path):
    """unfix and clear keep the report, and another fix may follow."""
    run = "run 20\nunfix prof\nrun 10\nfix other all mlffprof 5 file o.json\nrun 10\n" + CLEAR
    second = argon(prof("file c.json"), "run 12")
    output = launch(argon(prof("file r.json warmup 0"), run) + second, str(tmp_path))
    assert load(tmp_path)["n_steps"] == 20
    assert load(tmp_path, "o.json")["warmup"]["n_steps"] == 10 and load(tmp_path, "o.json")["n_steps"] == 0
    assert load(tmp_path, "c.json")["n_steps"] == 2
    assert output.count("this report was written to") == 3


def test_unfix_with_a_model(zoo, tmp_path):
    """The engine is restored, whatever happens to the pair style."""
    deck = pair_deck(water(2), tmp_path, mlff(zoo["painn"])) + prof("file r.json trace t.json") + "\nrun 3\n"
    deck += f"pair_coeff * * {zoo['ani']} O H\nrun 2\npair_style zero 4.0\npair_coeff * *\nrun 2\nunfix prof\nrun 1\n"
    launch(deck, str(tmp_path))
    report = load(tmp_path)
    assert report["warmup"]["n_steps"] == 7 and report["model_name"] == "zero"


def test_timers_off(tmp_path):
    """Components that were not measured are null, never 0, with a warning."""
    output = launch(argon(prof("file r.json warmup 0"), "run 10", before="timer loop"), str(tmp_path))
    report = load(tmp_path)
    assert "use `timer normal`" in output and report["mean_latency_ms"] > 0
    measured = [c["mean_ms"] for c in report["components"] if c["name"] != "other"]
    assert measured and measured == [None] * len(measured), report["components"]
    launch(argon(prof("file r.json warmup 0 components no"), "run 10"), str(tmp_path))
    assert [c for c in load(tmp_path)["components"] if c["name"] != "other"] == []


def test_respa(tmp_path):
    """A step of a multiple time step integrator is one step."""
    run = "run_style respa 2 2 pair 1\nrun 12"
    launch(argon(prof("file r.json warmup 0"), run), str(tmp_path))
    assert load(tmp_path)["n_steps"] == 12


# ---- energies --------------------------------------------------------------------------------------------------------


def test_energies_are_those_of_thermo(tmp_path):
    """Every quantity of the series is what thermo prints, in eV, K, bar and A^3, in both unit styles."""
    for units, energy, pressure in (("metal", 1.0, 1.0), ("real", 1.0 / 23.060549, 1.01325)):
        output = launch(argon(prof("file r.json"), "run 100", units=units), str(tmp_path))
        table, energy_report = thermo_table(output), load(tmp_path)["energy"]
        series = energy_report["series"]
        assert list(table["Step"]) == series["step"] == list(range(0, 101, 10))
        for name, column, factor in (
            ("potential", "PotEng", energy),
            ("kinetic", "KinEng", energy),
            ("total", "TotEng", energy),
            ("temperature", "Temp", 1.0),
            ("pressure", "Press", pressure),
            ("volume", "Volume", 1.0),
        ):
            expected = factor * table[column]
            close(series[name], expected, 1e-12 * np.abs(expected).max(), f"{units}: {name}")
        close(series["time_ps"], 0.002 * table["Step"], 1e-9, "time")
        slope = np.polyfit(0.002 * table["Step"], energy * table["TotEng"] / 108, 1)[0]
        close(energy_report["total"]["drift"], slope, 1e-6 * abs(slope) + 1e-12, "drift")
        assert energy_report["total"]["initial"] == series["total"][0]


def test_planted_drift(tmp_path):
    """The drift by friction is measured; the same run without it drifts 100 times less."""
    drift = {}
    for name, extra in (("clean", ""), ("planted", "\nfix v all viscous 0.002")):
        output = launch(
            argon(
                prof("file r.json", move="fix move all nve" + extra),
                "run 400",
                timestep=0.001,
                temperature=30.0,
                before="run 200\nreset_timestep 0",
            ),
            str(tmp_path),
        )
        table = thermo_table(output, 1)
        drift[name] = load(tmp_path)["drift"]
        slope = np.polyfit(0.001 * table["Step"], table["TotEng"] / 108, 1)[0]
        close(drift[name], slope, 1e-2 * abs(slope) + 1e-9, f"{name} drift against numpy")
    assert drift["planted"] < 0 and abs(drift["clean"]) < 0.01 * abs(drift["planted"]), drift


def test_conserved_quantity(tmp_path):
    """The conserved quantity is econserve for thermostats that report their energy; others have none."""
    nose = "fix move all nvt temp 90 90 0.1"
    tallied = "fix move all nve\nfix bath all langevin 90 90 0.1 7 tally yes"
    for move, has in ((nose, True), (tallied, True), (tallied.replace(" tally yes", ""), False)):
        output = launch(argon(prof("file r.json", move=move), "run 100"), str(tmp_path))
        report, table = load(tmp_path), thermo_table(output)
        assert report["ensemble"] == "nvt"
        if has:
            close(
                report["energy"]["series"]["conserved"], table["Econserve"], 1e-12 * abs(table["Econserve"]).max(), move
            )
            assert report["drift_of"] == "conserved"
        else:
            assert report["energy"]["conserved"] is None and report["drift_of"] == "total"
    launch(argon(prof("file r.json", move="fix move all npt temp 90 90 0.1 iso 0 0 1.0"), "run 20"), str(tmp_path))
    assert load(tmp_path)["ensemble"] == "npt" and "conserved" in load(tmp_path)["drift_of"]


def test_thermo_access(tmp_path):
    """f_prof[i] are the values of the current report."""
    more = (
        "f_prof f_prof[1] f_prof[2] f_prof[3] f_prof[6] f_prof[8] f_prof[11] f_prof[14] f_prof[16] f_prof[20] "
        "f_prof[21]"
    )
    fix = prof("file r.json warmup 0").replace("fix prof", "thermo_style custom step temp\nfix prof")
    deck = argon(fix, "", more="") + THERMO.format(every=50, more=more) + "run 200\n"
    table, report = thermo_table(launch(deck, str(tmp_path))), load(tmp_path)
    assert list(table["f_prof[20]"]) == [0, 49, 99, 149, 199]  # the step that prints is not over yet
    assert np.array_equal(table["f_prof"][1:], table["f_prof[2]"][1:]) and np.isnan(table["f_prof"][0])
    ms = np.array(report["latencies_ms"])
    close(table["f_prof[2]"][-1], ms[:199].mean(), 1e-5 * ms.mean(), "mean")
    close(table["f_prof[6]"][-1], ms[:199].max(), 1e-5 * ms.max(), "max")
    close(table["f_prof[3]"][-1], np.median(ms[:199]), 0.006 * np.median(ms), "median")
    close(table["f_prof[8]"][-1], 1000 * ms[:199].mean() / 108, 1e-5 * 1000 * ms.mean() / 108, "us/atom")
    close(table["f_prof[14]"][-1], report["drift"], 1e-6 * abs(report["drift"]), "drift")
    assert (table["f_prof[11]"] > 1).all() and (table["f_prof[21]"] == 0).all()


def test_bounds(tmp_path):
    """warn prints once, stop ends the run with its report, and an explosion is detected."""
    output = launch(argon(prof("file r.json warn temperature 50"), "run 100"), str(tmp_path))
    assert len(re.findall("WARNING: fix mlffprof: step 0|WARNING: fix mlffprof: step 10: temperature is", output)) == 1
    assert load(tmp_path)["n_steps"] == 90
    output = launch(argon(prof("file r.json stop temperature 50"), "run 100\nprint after"), str(tmp_path), 2)
    assert "fix mlffprof stops the run in step 10: temperature is" in output and "after" in output
    assert load(tmp_path)["n_steps"] + load(tmp_path)["warmup"]["n_steps"] == 10
    hot = argon(prof("file r.json explosion stop"), "run 100", temperature=40000.0, timestep=0.0001)
    assert "have exploded" in launch(hot, str(tmp_path))
    assert load(tmp_path)["energy"]["exploded"] is True


def test_every_bound_is_about_its_metric(zoo, tmp_path):
    """Each metric gives one warning, with the value of the report for that step."""
    units = {
        "drift": "eV/atom/ps",
        "drift_percent": "%",
        "excursion": "eV/atom",
        "temperature": "K",
        "force_rmse": "eV/A",
        "force_max": "eV/A",
        "energy_error": "eV/atom",
        "stress_rmse": "GPa",
        "pressure_error": "bar",
        "mean": "ms",
        "p99": "ms",
    }
    warn = " ".join(f"warn {metric} 1e-12" for metric in units)
    deck = pair_deck(water(2), tmp_path, mlff(zoo["painn"])) + prof(
        f"file r.json warmup 2 {warn} compare {zoo['gaussian']} every 5", 5
    )
    output = launch(deck + "\nrun 30\n", str(tmp_path))
    said = {
        m: (int(step), float(x), unit)
        for step, m, x, unit in re.findall(
            r"WARNING: fix mlffprof: step (\d+): (\w+) is (\S+) (\S+), above 1e-12", output
        )
    }
    assert output.count(", above 1e-12") == len(units) and {m: s[2] for m, s in said.items()} == units, output[-4000:]
    report = load(tmp_path)
    energy, accuracy = report["energy"]["series"], report["accuracy"]["series"]
    for metric, series, name in (
        ("temperature", energy, "temperature"),
        ("force_rmse", accuracy, "force_rmse"),
        ("force_max", accuracy, "force_max"),
        ("energy_error", accuracy, "energy_error"),
        ("stress_rmse", accuracy, "stress_rmse"),
        ("pressure_error", accuracy, "pressure_error"),
    ):
        step, value, _ = said[metric]
        expected = abs(series[name][series["step"].index(step)])
        close(value, expected, 1e-5 * expected, metric)
    step, value, _ = said["excursion"]
    at = energy["step"].index(step)
    expected = np.abs(np.array(energy["total"][: at + 1]) - energy["total"][0]).max() / report["n_atoms"]
    close(value, expected, 1e-5 * expected + 1e-12, "excursion")
    assert 0 < said["mean"][1] <= said["p99"][1] * 1.01


# ---- ranks -----------------------------------------------------------------------------------------------------------


def test_ranks_agree(zoo, tmp_path):
    """Energies, counts and the comparison with another model do not depend on the number of ranks."""
    reports = []
    for ranks in (1, 2, 4):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        keywords = f"file r.json warmup 2 compare {zoo['gaussian']} every 5"
        deck = (
            pair_deck(water(3), folder, mlff(zoo["painn"], options="precision fp64")) + prof(keywords, 5) + "\nrun 20\n"
        )
        launch(deck, str(folder), ranks)
        reports.append(load(folder))
    first = reports[0]
    for ranks, report in zip((2, 4), reports[1:]):
        assert report["context"]["ranks"] == ranks and report["n_steps"] == first["n_steps"] == 18
        assert tags(report).get("neighbor_rebuild", 0) == tags(first).get("neighbor_rebuild", 0)
        assert report["n_atoms"] == 81
        for name in ("potential", "total", "temperature", "pressure"):
            ours, theirs = report["energy"]["series"][name], first["energy"]["series"][name]
            close(ours, theirs, 1e-6 * np.abs(theirs).max(), f"{ranks} ranks: {name}")
        for key in (
            *("force_rmse", "force_mae", "force_max", "force_cosine", "energy_bias"),
            *("stress_rmse", "pressure_rmse", "pressure_bias"),
        ):
            close(report["accuracy"][key], first["accuracy"][key], 2e-5 * abs(first["accuracy"][key]) + 1e-6, key)
        for ours, theirs in zip(report["accuracy"]["elements"], first["accuracy"]["elements"]):
            assert ours["name"] == theirs["name"] and ours["n_samples"] == theirs["n_samples"] == 5
            for key in ("force_rmse", "force_mae"):
                close(ours[key], theirs[key], 2e-5 * theirs[key] + 1e-6, f"{ranks} ranks: {key} of {ours['name']}")
        assert sum(r["n_steps"] for r in report["slowest_ranks"]) == 18
        assert report["memory"]["host"]["final_bytes"] > first["memory"]["host"]["final_bytes"]


def test_partitions(tmp_path):
    """Each partition writes its own file."""
    launch(argon(prof("file r.json warmup 0"), "run 10"), str(tmp_path), 2, ("-partition", "2x1"))
    for k in (1, 2):
        assert load(tmp_path, f"r.{k}.json")["n_steps"] == 10
        assert load(tmp_path, f"r.{k}.json")["context"]["partition"] == k
    assert not (tmp_path / "r.json").exists()


# ---- comparing with another model ------------------------------------------------------------------------------------


def expected_errors(folder, ours, theirs, elements):
    """RMSE, MAE, max, cosine, and RMSE per element from two dumps of id, type, fx, fy, fz and element."""
    a, b = (read_dump(os.path.join(str(folder), name)) for name in (ours, theirs))
    d, f, g = a[:, 2:5] - b[:, 2:5], a[:, 2:5].ravel(), b[:, 2:5].ravel()
    by_element = {e: np.sqrt((d[a[:, 1] == t] ** 2).mean()) for t, e in enumerate(elements, 1)}
    return (
        {
            "force_rmse": np.sqrt((d**2).mean()),
            "force_mae": np.abs(d).mean(),
            "force_max": np.sqrt((d**2).sum(1)).max(),
            "force_cosine": f @ g / np.linalg.norm(f) / np.linalg.norm(g),
        },
        by_element,
        d,
    )


FORCES = "write_dump all custom {} id type fx fy fz modify sort id format float %.17g\n"
GPA_PER_BAR = 1e-4


def virial_pressure(name):
    """Commands that print the pressure tensor of a single point; it is that of the virial alone."""
    columns = " ".join(f"$(c_virial[{k}]:%.15g)" for k in range(1, 7))
    return (
        "compute virial all pressure NULL virial\nthermo_style custom step temp pe c_virial[1]\nrun 0\n"
        f'print "PRESSURE {name} {columns}"\n'
    )


def printed_pressure(output, name, units="metal"):
    """That tensor, xx yy zz xy xz yz, in bar."""
    found = np.array([float(x) for x in re.search(f"^PRESSURE {name} (.*)", output, re.M).group(1).split()])
    return found * (1.01325 if units == "real" else 1.0)


def check_stress(accuracy, ours, theirs):
    """Errors of stress and pressure in a report of one sample, against two tensors in bar. LAMMPS' own factor between
    eV/A^3 and bar has eight digits."""
    d = ours - theirs
    tolerance = 2e-6 * np.abs(d).max()
    assert np.abs(d).max() > 1000, "the numbers are trivially small"
    close(accuracy["stress_rmse"], GPA_PER_BAR * np.sqrt((d**2).mean()), GPA_PER_BAR * tolerance, "stress")
    close(accuracy["pressure_rmse"], abs(d[:3].mean()), tolerance, "size of the pressure's error")
    close(accuracy["pressure_bias"], d[:3].mean(), tolerance, "pressure")
    series = accuracy["series"]
    close(series["stress_rmse"], [accuracy["stress_rmse"]], GPA_PER_BAR * tolerance, "series of the stress")
    close(series["pressure_error"], [accuracy["pressure_bias"]], tolerance, "series of the pressure")


@pytest.mark.parametrize(
    "ranks,newton,units,tilt",
    [(1, "on", "metal", (0.0, 0.0, 0.0)), (2, "off", "real", (1.1, -0.7, 0.9)), (4, "on", "metal", (0.0, 0.0, 0.0))],
)
def test_comparison(zoo, tmp_path, ranks, newton, units, tilt):
    """Against forces and stress that pair_style mlff itself gives for the other model, with a fix that adds forces
    before it."""
    per_ev = 23.060549 if units == "real" else 1.0
    system = water(3, tilt=tilt)
    deck = ""
    for name, model in (("ours", "ani"), ("theirs", "painn")):
        deck += pair_deck(system, tmp_path, mlff(zoo[model]), units, newton)
        deck += virial_pressure(name) + FORCES.format(f"{name}.dump")
        deck += f'print "{name.upper()} $(pe:%.15g)"\n{CLEAR}'
    push = f"fix push all addforce {0.5 * per_ev} 0 0\nfix move all nve\n"
    compare = f"fix prof all mlffprof 1 file r.json compare {zoo['painn']} every 1\n"
    more = (
        "dump e all custom 1 e.dump id f_prof[1] f_prof[2] f_prof[3] f_prof[4]\n"
        "dump_modify e sort id format float %.17g\n"
    )
    deck += pair_deck(system, tmp_path, mlff(zoo["ani"]), units, newton) + push + compare + more + "run 0\n"
    deck += 'print "LAST $(f_prof[22]:%.12g) $(f_prof[23]:%.12g)"\n'
    output = launch(deck, str(tmp_path), ranks)
    assert "types: O H" in output
    expected, by_element, d = expected_errors(tmp_path, "ours.dump", "theirs.dump", "OH")
    accuracy = load(tmp_path)["accuracy"]
    assert accuracy["n_samples"] == 1 and accuracy["reference"] == "random-painn"
    for key, value in expected.items():
        value = value if key == "force_cosine" else value / per_ev
        close(accuracy[key], value, 2e-6 * abs(value) + 1e-7, key)
    assert accuracy["force_rmse"] > 0.01  # the numbers are not trivially zero
    for element in accuracy["elements"]:
        close(element["force_rmse"], by_element[element["name"]] / per_ev, 1e-5, element["name"])
    ours, theirs = (float(re.search(f"^{w} (.*)", output, re.M).group(1)) for w in ("OURS", "THEIRS"))
    close(accuracy["energy_bias"], (ours - theirs) / per_ev / len(system.types), 1e-6, "energy")
    tensors = (printed_pressure(output, name, units) for name in ("ours", "theirs"))
    check_stress(accuracy, *tensors)
    last = [float(x) for x in re.search("^LAST (.*)", output, re.M).group(1).split()]
    close(last, [accuracy["stress_rmse"], accuracy["pressure_bias"]], 1e-9 * abs(accuracy["pressure_bias"]), "f_prof")
    assert re.search(r"stress +RMSE [0-9]\S+ GPa; pressure RMSE [0-9]\S+, bias -?[0-9]\S+ bar", output), output[-3000:]
    table = read_dump(tmp_path / "e.dump")
    close(table[:, 1:4], d, 1e-5 * per_ev, "per-atom errors")
    close(table[:, 4], np.sqrt((d**2).sum(1)), 2e-5 * per_ev, "length of the per-atom errors")


def test_comparison_of_any_pair_style(zoo, tmp_path):
    """A half list, ghosts with forces, bonded and pairwise energies: lj/cut against a model, which has a shorter
    cutoff."""
    system = water(3)
    lj = "pair_style lj/cut 5.0\npair_coeff * * 0.005 2.0"
    deck = pair_deck(system, tmp_path, lj) + virial_pressure("lj")
    deck += FORCES.format("lj.dump") + f'print "LJ $(pe:%.15g)"\n{CLEAR}'
    deck += (
        pair_deck(system, tmp_path, mlff(zoo["ani"]))
        + virial_pressure("ani")
        + FORCES.format("ani.dump")
        + f'print "ANI $(pe:%.15g)"\n{CLEAR}'
    )
    deck += (
        pair_deck(system, tmp_path, lj)
        + f"fix prof all mlffprof 1 file r.json compare {zoo['ani']} every 2 elements O H\nrun 0\n"
    )
    output = launch(deck, str(tmp_path), 2)
    expected, _, _ = expected_errors(tmp_path, "lj.dump", "ani.dump", "OH")
    accuracy = load(tmp_path)["accuracy"]
    for key, value in expected.items():
        close(accuracy[key], value, 1e-5 * abs(value) + 1e-6, key)
    lj_energy, ani_energy = (float(re.search(f"^{w} (.*)", output, re.M).group(1)) for w in ("LJ", "ANI"))
    close(accuracy["energy_bias"], (lj_energy - ani_energy) / len(system.types), 1e-6, "energy")
    check_stress(accuracy, printed_pressure(output, "lj"), printed_pressure(output, "ani"))


def test_comparison_of_bonds_and_charges(zoo, tmp_path):
    """The stress of a force field of several parts: pairs, bonds and a long-range solver, on two ranks."""
    system = water(3)
    (tmp_path / "w.data").write_text(system.data("full", bonds=True))
    field = (
        "units metal\natom_style full\npair_style lj/cut/coul/long 4.0\nbond_style harmonic\n"
        "read_data w.data\npair_coeff * * 0.005 2.0\nbond_coeff 1 20.0 1.0\n"
        "set type 1 charge -0.8\nset type 2 charge 0.4\nkspace_style ewald 1.0e-6\nneighbor 1.0 bin\n"
    )
    deck = field + virial_pressure("field") + f'print "FIELD $(pe:%.15g)"\n{CLEAR}'
    deck += pair_deck(system, tmp_path, mlff(zoo["ani"]), name="a.data") + virial_pressure("ani")
    deck += f'print "ANI $(pe:%.15g)"\n{CLEAR}{field}'
    deck += f"fix prof all mlffprof 1 file r.json compare {zoo['ani']} every 1 elements O H\n"
    output = launch(deck + "comm_modify cutoff 6.0\nrun 0\n", str(tmp_path), 2)
    accuracy = load(tmp_path)["accuracy"]
    check_stress(accuracy, printed_pressure(output, "field"), printed_pressure(output, "ani"))
    ours, theirs = (float(re.search(f"^{w} (.*)", output, re.M).group(1)) for w in ("FIELD", "ANI"))
    close(accuracy["energy_bias"], (ours - theirs) / len(system.types), 1e-6, "energy")


def test_pressure_error_is_that_of_the_energies(zoo, tmp_path):
    """The pressure error is minus the derivative of the energy difference with respect to the volume."""
    system, h, deck = water(2, tilt=(0.8, -0.5, 0.4)), 2e-4, ""
    for model in ("painn", "ani"):
        for sign in (-1, 1):
            scale = 1.0 + sign * h
            tilt = tuple(scale * t for t in system.tilt)
            stretched = System(system.types, scale * system.x, scale * system.box, tilt, system.molecule)
            deck += pair_deck(stretched, tmp_path, mlff(zoo[model], options="precision fp64"), name=f"{sign}.data")
            deck += f'run 0\nprint "ENERGY {model} {sign} $(pe:%.17g)"\n{CLEAR}'
    deck += pair_deck(system, tmp_path, mlff(zoo["painn"], options="precision fp64"))
    deck += f"fix prof all mlffprof 1 file r.json compare {zoo['ani']} every 1\n"
    output = launch(deck + "comm_modify cutoff 6.0\nrun 0\n", str(tmp_path))
    energies = {(m, int(s)): float(e) for m, s, e in re.findall(r"^ENERGY (\w+) (\S+) (\S+)", output, re.M)}
    volume = float(np.prod(system.box))
    change = volume * ((1 + h) ** 3 - (1 - h) ** 3)
    slope = {m: (energies[m, 1] - energies[m, -1]) / change for m in ("painn", "ani")}
    expected = -1.602176634e6 * (slope["painn"] - slope["ani"])
    accuracy = load(tmp_path)["accuracy"]
    assert abs(expected) > 1000
    close(accuracy["pressure_bias"], expected, 2e-5 * abs(expected), "pressure by finite differences")


def test_comparison_without_a_stress(zoo, tmp_path):
    """A system that is not periodic in all directions has null stress, but energy and forces."""
    keywords = f"file r.json compare {zoo['gaussian']} every 1 dump f.xyz"
    deck = "boundary p p s\n" + pair_deck(water(3), tmp_path, mlff(zoo["painn"])) + prof(keywords, 1) + "\nrun 1\n"
    output = launch(deck, str(tmp_path))
    accuracy = load(tmp_path)["accuracy"]
    assert accuracy["n_samples"] == 2 and accuracy["force_rmse"] > 0
    assert [accuracy[key] for key in ("stress_rmse", "pressure_rmse", "pressure_bias")] == [None] * 3
    assert accuracy["series"]["stress_rmse"] == accuracy["series"]["pressure_error"] == [None, None]
    assert "GPa" not in output and "stress=" not in (tmp_path / "f.xyz").read_text()


def test_comparison_has_the_settings_of_the_run(zoo, tmp_path):
    """The second model is opened with the settings of the pair style, except those given to `compare`; with other pair
    styles it has its defaults."""

    def opened(pair, compare):
        keywords = f"compare {zoo['painn']} every 5 {compare}"
        output = launch(pair_deck(water(3), tmp_path, pair) + prof(keywords) + "\nrun 0\n", str(tmp_path))
        return re.search(r"^fix mlffprof compare: .*?, (cpu, \w+, kernels \w+);", output, re.M).group(1)

    ours = mlff(zoo["ani"], options="precision fp64 kernels generic members 0:1 device cpu replay no")
    hybrid = (
        f"pair_style hybrid/overlay lj/cut 5.0 mlff precision fp64 kernels generic\npair_coeff * * lj/cut 0.001 2.0\n"
        f"pair_coeff * * mlff {zoo['ani']} O H"
    )
    lj = "pair_style lj/cut 5.0\npair_coeff * * 0.005 2.0"
    best = opened(lj, "elements O H")
    assert opened(ours, "") == opened(hybrid, "") == "cpu, fp64, kernels generic"
    assert opened(ours, "precision fp32 dump f.xyz") == best == opened(lj, "") and best.startswith("cpu, fp32, ")
    assert opened(ours, "kernels generic precision fp32 above 0.1 dump f.xyz fuse off") == "cpu, fp32, kernels generic"
    untrained = pair_deck(water(3), tmp_path, mlff(zoo["ani"], "C H", "masses no domain no")) + "mass 1 12.011\n"
    compare = f"compare {zoo['painn']} every 5 elements C H"
    launch(untrained + prof(compare) + "\nrun 0\n", str(tmp_path))
    assert "was not trained on element" in fails(untrained + prof(compare + " domain yes") + "\nrun 0\n", tmp_path)


def test_comparison_with_itself(zoo, tmp_path):
    """A model against itself along a trajectory with reneighboring: no difference, in steps 0, 7, 14."""
    keywords = f"file r.json compare {zoo['painn']} every 7 dump f.xyz above 1000"
    deck = (
        pair_deck(water(3), tmp_path, mlff(zoo["painn"]))
        + "neigh_modify every 2 delay 0 check no\n"
        + prof(keywords, 50)
    )
    launch(deck + "\nrun 15\n", str(tmp_path))
    accuracy = load(tmp_path)["accuracy"]
    assert (
        accuracy["series"]["step"] == [0, 7, 14]
        and accuracy["force_max"] < 2e-5
        and accuracy["force_cosine"] > 1 - 1e-9
    )
    # N is 50: the virial of step 7 is computed for the comparison only
    assert max(accuracy["series"]["stress_rmse"]) < 1e-5 and max(map(abs, accuracy["series"]["pressure_error"])) < 0.1
    assert abs(accuracy["energy_bias"]) < 1e-6
    assert (tmp_path / "f.xyz").read_text() == ""


EVERY_STEP = """
import sys
from lammps import lammps
computed = []

def every_step(caller, step, n_local, tag, x, f):
    computed.append(int(lmp.extract_global("vflag_global") == step))

lmp = lammps(cmdargs=["-log", "none"])
lmp.file("in.steps")
lmp.set_fix_external_callback("ext", every_step)
lmp.command("run 10")
lmp.close()
print("VIRIALS", *computed)
"""


def run_python(folder, code, *arguments, **extra):
    """Output of a Python program with LAMMPS as a library; extra: of its environment."""
    (folder / "program.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "program.py", *arguments],
        cwd=folder,
        env=with_libraries(**extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=300,
    )
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, output[-3000:]
    return output


def test_virials_in_compared_steps_only(zoo, tmp_path):
    """A comparison every four steps requests the virial of these steps; the last one is that of thermo output."""
    keywords = f"energy no compare {zoo['painn']} every 4 elements O"
    deck = argon("fix ext all external pf/callback 1 1\n" + prof(keywords, every=50), "", thermo=100)
    (tmp_path / "in.steps").write_text(f"plugin load {PLUGIN}\n" + deck)
    output = run_python(tmp_path, EVERY_STEP)
    assert "VIRIALS 1 0 0 0 1 0 0 0 1 0 1" in output, output[-2000:]


TEACHER = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "models", "water-benzene-teacher.yaml"
)


@pytest.mark.parametrize("ranks", [1, 2])
def test_memory_of_the_reference_is_apart(zoo, tmp_path, ranks):
    """The memory of a run, measured and forecast, is that of the same run without the comparison. The memory of the
    comparison is reported separately."""
    found, foreseen = {}, set()
    for name, compare in (("without", ""), ("with", f"compare {TEACHER} every 5")):
        deck = (
            "timestep 0.00001\ncomm_modify cutoff 9.0\n"
            + prof(f"file {name}.json warmup 5 {compare}", 2)
            + "\nrun 40\n"
        )
        output = launch(pair_deck(water(4), tmp_path, mlff(zoo["painn"])) + deck, str(tmp_path), ranks)
        found[name] = load(tmp_path, f"{name}.json")["memory"]["host"]
        foreseen.add(re.search(r"LAMMPS now: +(\S+) \(.*\n +this style: +(\S+) .* (\S+) when", output).groups())
    assert len(foreseen) == 1, foreseen
    assert found["without"]["reference_bytes"] is None
    assert found["with"]["reference_bytes"] > ranks * 8e6 and "for the reference model, in addition" in output
    for key in ("initial_bytes", "final_bytes", "peak_bytes"):
        close(found["with"][key], found["without"][key], ranks * 1.5e6, key)
    assert found["with"]["verdict"] == "stable", found["with"]


def test_frames_and_stop(zoo, tmp_path):
    """Frames above a bound are written with labels of the model, and a bound may stop the run."""
    keywords = f"file r.json compare {zoo['gaussian']} every 3 dump f.xyz above 0.001 stop 0.001"
    deck = (
        pair_deck(water(3), tmp_path, mlff(zoo["painn"])) + prof(keywords) + "\nrun 9\n" + FORCES.format("unused.dump")
    )
    deck += CLEAR + pair_deck(water(3), tmp_path, mlff(zoo["gaussian"])) + "run 0\n" + FORCES.format("g.dump")
    deck += virial_pressure("g")
    output = launch(deck, str(tmp_path), 2)
    assert "fix mlffprof stops the run in step 0: the largest force error against random-" in output
    lines = (tmp_path / "f.xyz").read_text().splitlines()
    assert lines[0] == "81" and 'pbc="T T T" step=0' in lines[1] and len(lines) == 83
    rows = [line.split() for line in lines[2:]]
    assert [r[0] for r in rows[:3]] == ["O", "H", "H"]
    close(
        [[float(x) for x in r[4:7]] for r in rows], read_dump(tmp_path / "g.dump")[:, 2:5], 1e-5, "forces in the frame"
    )
    stress = np.array([float(x) for x in re.search('stress="(.*?)"', lines[1]).group(1).split()]).reshape(3, 3)
    pressure = printed_pressure(output, "g")[[0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(3, 3)
    close(1.602176634e6 * stress, -pressure, 0.5, "stress in the frame")
    energy = float(re.search(r"energy=([-0-9.e]+)", lines[1]).group(1))
    close(energy, float(re.findall(r"^ +0 +\S+ +(\S+)", output, re.M)[-1]), 1e-3, "energy in the frame")


# ---- files -----------------------------------------------------------------------------------------------------------


def test_trace(zoo, tmp_path):
    """The trace is JSON of steps with the engine's spans inside them."""
    deck = pair_deck(water(2), tmp_path, mlff(zoo["painn"])) + prof("trace t.json components no") + "\nrun 5\n"
    launch(deck, str(tmp_path))
    events = load(tmp_path, "t.json")
    events = events["traceEvents"] if isinstance(events, dict) else events
    spans = [e for e in events if e.get("ph") == "X"]
    steps = [e for e in spans if e["name"] == "step"]
    assert len(steps) == 5
    inside = [e for e in spans if e["name"] == "evaluate"]
    assert len(inside) == 5
    for step, evaluation in zip(steps, inside):
        assert step["ts"] <= evaluation["ts"] and evaluation["ts"] + evaluation["dur"] <= step["ts"] + step["dur"] + 1
    assert {"message", "dense", "message_backward", "forces"} <= {e["name"] for e in spans}


@pytest.mark.parametrize("ranks", [1, 2])
def test_killed_run(tmp_path, ranks):
    """A killed run leaves a report of all steps until then."""
    deck = f"plugin load {PLUGIN}\n" + argon(prof("file r.json warmup 0", every=1000), "run 100000000", n=4, thermo=0)
    (tmp_path / "in.kill").write_text(deck)
    command = [LMP, "-in", "in.kill", "-log", "none", "-screen", "none"]
    if ranks > 1:
        command = [MPIEXEC, "-n", str(ranks), *command]
    run = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 120
        while time.monotonic() < limit and run.poll() is None:
            time.sleep(0.2)
            if (tmp_path / "r.json").exists() and load(tmp_path)["n_steps"] > 0:
                break
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    report = load(tmp_path)
    assert report["n_steps"] > 0 and len(report["latencies_ms"]) > 0 and report["mean_latency_ms"] > 0
    assert report["energy"]["series"]["step"][0] == 0


def test_file_that_can_no_longer_be_written(tmp_path):
    """If the folder of the report is deleted during the run, there is one warning, and the run finishes."""
    (tmp_path / "gone").mkdir()
    run = "run 20 post no\nshell rm gone/r.json\nshell rmdir gone\nrun 20\nrun 20"
    output = launch(argon(prof("file gone/r.json warmup 0"), run), str(tmp_path))
    assert (
        len(re.findall("WARNING: fix mlffprof: .*gone/r.json", output)) == 1
        and "reported once; the run continues" in output
    )
    assert output.count("latency per step") == 3 and not (tmp_path / "gone").exists()


def test_targets_file(tmp_path):
    """Targets of a file are in the report and in the table."""
    (tmp_path / "bars.yaml").write_text(
        "rules:\n  - {metric: us_per_atom, below: 1.0e-6}\n  - {metric: n_steps, above: 3}\n"
    )
    output = launch(argon(prof("file r.json targets bars.yaml warmup 0"), "run 5"), str(tmp_path))
    status = {t["metric"]: t["status"] for t in load(tmp_path)["targets"]}
    assert status["us_per_atom"] == "fail" and "us_per_atom" in output
    launch(argon(prof("file r.json"), "run 5"), str(tmp_path))
    assert {"p95_over_mean", "cv"} <= {t["metric"] for t in load(tmp_path)["targets"]}


def test_reports_validate(zoo, tmp_path):
    """Reports of dynamics with a comparison, of a minimization, and of nothing at all agree with the schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: scripts/setup.sh test")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "docs", "profile.schema.json"), encoding="utf-8") as f:
        validator = jsonschema.Draft202012Validator(json.load(f))
    compare = f"file r.json warmup 1 compare {zoo['gaussian']} every 2"
    decks = (
        pair_deck(water(2), tmp_path, mlff(zoo["painn"]))
        + prof(compare, 2, "fix move all nvt temp 100 100 0.1")
        + "\nrun 12\n",
        argon(
            "fix prof all mlffprof 5 file r.json", "displace_atoms all random 0.1 0.1 0.1 7\nminimize 0.0 1e-8 20 200"
        ),
        argon(prof("file r.json"), "run 0"),
    )
    for deck in decks:
        launch(deck, str(tmp_path))
        problems = [e.message for e in validator.iter_errors(load(tmp_path))]
        assert not problems, problems


def test_context(tmp_path):
    """The context has variables of the deck that are text, and none that need a computation."""
    before = 'variable size index small\nvariable t equal temp\nvariable show format t %.3f\nvariable word string "a b"'
    launch(argon(prof('file r.json name trial notes "two words"', every=5), "run 5", before=before), str(tmp_path))
    report = load(tmp_path)
    context = report["context"]
    assert report["name"] == "trial" and report["notes"] == "two words" and report["model_name"] == "lj/cut"
    assert context["deck"] == {"size": "small", "word": "a b"}
    assert context["units"] == "metal" and context["timestep"] == 0.002 and context["ranks"] == 1
    assert re.match(r"\d+ \w+ 20\d\d", context["lammps"]) and context["host"] and context["plugin"]


LEAK = """
import ctypes
from lammps import lammps
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def every_step(caller, step, n_local, tag, x, f):
    for _ in range(LEAKS):    # never freed
        libc.memset(libc.malloc(65536), 1, 65536)

lmp = lammps(cmdargs=["-log", "none"])
lmp.file("in.leak")
lmp.set_fix_external_callback("ext", every_step)
lmp.command("run 400")
lmp.close()
"""


def test_leak_of_the_program(zoo, tmp_path):
    """A program around LAMMPS that leaks 64 kB per step is detected by size and slope, also with a comparison. One that
    does not leak is not accused."""
    compare = f" compare {zoo['painn']} every 5 elements O"
    for leaks, expected, more in ((1, "leak", ""), (1, "leak", compare), (0, "stable", "")):
        deck = argon("fix ext all external pf/callback 1 1\n" + prof("file r.json" + more), "")
        (tmp_path / "in.leak").write_text(f"plugin load {PLUGIN}\n" + deck)
        output = run_python(tmp_path, LEAK.replace("LEAKS", str(leaks)))
        memory = load(tmp_path)["memory"]
        assert memory["verdict"] == memory["host"]["verdict"] == expected and expected in output, memory["host"]
        slope = memory["host"]["growth_per_1000_steps_bytes"]
        assert abs(slope - 65.6e6 * leaks) < 3e6, "malloc adds 16 bytes to each block"


COMMA = """
import ctypes, locale, os, sys
from lammps import lammps
lmp = lammps(cmdargs=["-log", "log.comma"])
lmp.file("in.comma")
libc = ctypes.CDLL(None)
libc.setlocale.restype = ctypes.c_char_p
assert libc.setlocale(1, sys.argv[1].encode()), "no such locale"    # LC_NUMERIC
libc.snprintf(text := ctypes.create_string_buffer(16), 16, b"%.1f", ctypes.c_double(0.5))
assert text.value == b"0,5", text.value
lmp.file("in.rest")
lmp.close()
"""


def comma_locale(folder):
    """Name of a locale with decimal commas, made in `folder` if the system has none; None if that is impossible."""
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "fr_FR.utf8"):
        listed = subprocess.run(["locale", "-a"], stdout=subprocess.PIPE, check=False).stdout.decode().split()
        if name in listed:
            return name, {}
    made = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(str(folder), "de_DE.UTF-8")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    extra = {"LOCPATH": str(folder)}
    # localedef leaves a folder behind where it has nothing to read, too
    works = (
        subprocess.run(
            [sys.executable, "-c", "import locale; locale.setlocale(locale.LC_NUMERIC, 'de_DE.UTF-8')"],
            env=dict(os.environ, **extra),
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        == 0
    )
    return ("de_DE.UTF-8", extra) if made.returncode in (0, 1) and works else None


def test_comma_locale(zoo, tmp_path):
    """In a program with decimal commas, numbers are read and written with decimal points."""
    found = comma_locale(tmp_path)
    if not found:
        pytest.skip("no locale with decimal commas here, and none can be made")
    name, extra = found
    keywords = f"file r.json trace t.json warn temperature 1.5 compare {zoo['painn']} every 2 dump f.xyz above 0.0001"
    deck = pair_deck(water(2), tmp_path, mlff(zoo["ani"])) + prof(keywords, 2) + "\nrun 4\n"
    # LAMMPS itself reads no number with a point under such a locale, so it is set when the rest of the deck is read
    head, tail = deck.split("fix prof")
    (tmp_path / "in.comma").write_text(f"plugin load {PLUGIN}\n" + head)
    again = mlff(zoo["ani"], options="devi_warn 0.000001 out_freq 4")
    (tmp_path / "in.rest").write_text(again + "\nfix prof" + tail)
    output = run_python(tmp_path, COMMA, name, **extra)
    report = load(tmp_path)
    assert report["accuracy"]["n_samples"] == 3 and report["energy"]["temperature"]["mean"] > 0
    assert re.search(r"temperature is \d+\.\d+ K, above 1\.5", output), output[-3000:]
    assert re.search(
        r"the force on atom \d+ differs by \d+\.\d+ between members of the ensemble, more than devi_warn 1e-06", output
    ), output[-3000:]
    load(tmp_path, "t.json")
    assert "," not in (tmp_path / "f.xyz").read_text()


# ---- bad input -------------------------------------------------------------------------------------------------------

BAD = (
    ("all mlffprof 0", "N is '0'", "positive"),
    ("all mlffprof -5", "N is '-5'"),
    ("all mlffprof 1.5", r"N is '1\.5'"),
    ("all mlffprof", "the form is"),
    ("some mlffprof 10", "group 'some' is not supported", "all mlffprof"),
    ("all mlffprof 10 fiel x.json", "unknown keyword 'fiel'", "known are: file, name"),
    ("all mlffprof 10 file", "'file' has no value"),
    ("all mlffprof 10 memory maybe", "unknown value 'maybe' of keyword 'memory'", "yes no"),
    ("all mlffprof 10 warmup 1e3", "value '1e3' of keyword 'warmup'"),
    ("all mlffprof 10 warn drfit 3", "unknown metric 'drfit'", "drift_percent"),
    ("all mlffprof 10 stop drift zero", "bound 'zero' of 'stop drift'"),
    ("all mlffprof 10 stop drift", "needs a metric and a bound"),
    ("all mlffprof 10 explosion loud", "unknown value 'loud'", "warn stop ignore"),
    ("all mlffprof 10 compare m.yaml", "the form is `compare MODEL.yaml every M`"),
    ("all mlffprof 10 compare m.yaml every 0", "the form is `compare"),
    ("all mlffprof 10 compare m.yaml every 5 elements", "one element for each of the 1 atom types"),
    ("all mlffprof 10 compare m.yaml every 5 above 2", "needs `dump FILE`"),
    (
        "all mlffprof 10 compare m.yaml every 5 precision fp16",
        "unknown value 'fp16' of 'precision'; known are: fp32 fp64 mixed",
    ),
    ("all mlffprof 10 compare m.yaml every 5 node_memory", "'node_memory' of 'compare' has no value"),
    ("all mlffprof 10 compare m.yaml every 5 masses no", "unknown keyword 'masses'"),
    ("all mlffprof 10 compare m.yaml every 5 dump f stop x", "unknown metric 'x'|needs a metric"),
    ("all mlffprof 10 file missing/r.json", "fix mlffprof file", "missing/r.json"),
    ("all mlffprof 10 trace missing/t.json", "fix mlffprof trace", "missing/t.json"),
    ("all mlffprof 10 targets missing.yaml", "fix mlffprof targets", "missing.yaml"),
    ("all mlffprof 10 compare missing.yaml every 5 elements O", "fix mlffprof compare", "missing.yaml"),
)


@pytest.mark.parametrize("bad", BAD, ids=[b[0].replace(" ", "_").replace("/", "_") for b in BAD])
def test_bad_commands(tmp_path, bad):
    text = fails(argon(f"group some id 1\nfix p {bad[0]}", "run 5"), tmp_path)
    for part in bad[1:]:
        assert re.search(part, text), text


def test_errors_come_once(tmp_path):
    """On several ranks a wrong file is one error and does not hang."""
    for line in ("all mlffprof 10 file missing/r.json", "all mlffprof 0", "all mlffprof 10 targets missing.yaml"):
        text = fails(argon(f"fix p {line}", "run 5"), tmp_path, ranks=2)
        assert text.count("ERROR") == 1, text


def test_order_of_commands(tmp_path):
    text = fails(argon().split("pair_style")[0] + "fix p all mlffprof 10\n", tmp_path)
    assert "needs a pair style" in text and "before this fix" in text
    text = fails(argon(prof() + "\nfix second all mlffprof 5"), tmp_path)
    assert "fix prof exists already" in text and "unfix" in text
    # the same ID again replaces it, as with any fix
    launch(argon(prof() + "\nfix prof all mlffprof 5 file r.json warmup 0", "run 10"), str(tmp_path))
    assert load(tmp_path)["n_steps"] == 10


def test_bad_comparisons(zoo, tmp_path):
    """Errors: units, short ghost cutoff, masses without element, elements that the model does not support."""
    text = fails(argon(prof(f"compare {zoo['painn']} every 5")), tmp_path)
    assert re.search("element 'Ar' is not in the model", text), text
    odd = argon(prof(f"compare {zoo['painn']} every 5"), before="mass 1 41.3")
    assert "no element has the mass of type 1" in fails(odd, tmp_path)
    short = pair_deck(water(3), tmp_path, "pair_style lj/cut 2.5\npair_coeff * * 0.005 2.0")
    text = fails(short + prof(f"compare {zoo['painn']} every 5") + "\nrun 1\n", tmp_path)
    assert re.search(r"needs ghost atoms within 5 A.* within 3\.5 A.*comm_modify cutoff 5", text, re.S), text
    launch(short + prof(f"compare {zoo['painn']} every 5") + "\ncomm_modify cutoff 5.0\nrun 1\n", str(tmp_path))
    text = fails(
        "units lj\nlattice fcc 0.8\nregion b block 0 3 0 3 0 3\ncreate_box 1 b\ncreate_atoms 1 box\nmass 1 1\n"
        f"pair_style lj/cut 2.5\npair_coeff * * 1 1\nfix p all mlffprof 5 compare {zoo['painn']} every 5 elements O\n"
        "run 1\n",
        tmp_path,
    )
    assert "does not support units lj" in text and "metal, real" in text


def test_reduced_units(tmp_path):
    """Reduced units have no eV: the drift in eV/atom/ps is null, other values exist."""
    deck = (
        "units lj\nlattice fcc 0.8\nregion b block 0 4 0 4 0 4\ncreate_box 1 b\ncreate_atoms 1 box\nmass 1 1\n"
        "pair_style lj/cut 2.5\npair_coeff * * 1 1\nvelocity all create 1.0 5\nfix move all nve\n"
        "fix p all mlffprof 5 file r.json warmup 0\nrun 50\n"
    )
    launch(deck, str(tmp_path))
    report = load(tmp_path)
    assert (
        report["drift"] is None and report["energy"]["units"] == "lj" and report["energy"]["total"]["drift"] is not None
    )
