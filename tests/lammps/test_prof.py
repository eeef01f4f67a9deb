"""fix mlffprof: its measurements agree with LAMMPS on any number of ranks.

The pair styles are lj/cut and small random models. Reports are compared with the thermo output and the timing breakdown
of LAMMPS, and with numpy.
"""

import contextlib
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import thermo
from harness import CLEAR, close, cpu_clock, launch, mlff, preload, water
from prof_decks import THERMO, argon, breakdown, components, load, pair_deck, prof, tags

from mlff_tools.model import modelfile

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


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be kept on a core here")
def test_processor_time_of_a_busy_core(tmp_path):
    """Two other processes on the core: wall times are three times as long, the processor time of a step is not, and the
    report has it that the run was disturbed. A neighbor on the other thread of the core, in one of the runs, makes a
    step up to twice as long, but no more."""
    core, deck = min(os.sched_getaffinity(0)), argon(prof("file r.json warmup 20"), "run 2000", n=4)
    spin = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]
    before, found = os.sched_getaffinity(0), {0: [], 2: []}
    os.sched_setaffinity(0, {core})
    try:
        for n in (0, 2) * 3:  # the least of each counts: other programs of this machine make caches and clocks slower
            others = [subprocess.Popen(spin) for _ in range(n)]
            try:
                launch(deck, str(tmp_path))
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            found[n].append(load(tmp_path))
    finally:
        os.sched_setaffinity(0, before)
    quiet, least = (min(r["cpu_ms"] for r in reports) for reports in found.values())
    busy = sorted(found[2], key=lambda r: r["cpu_share"])[1]
    assert busy["cpu_share"] < 0.6 and busy["mean_latency_ms"] > 1.6 * busy["cpu_ms"], busy["cpu_share"]
    assert 0.5 < least / quiet < 2, (least, quiet)
    close(busy["cpu_ms"], busy["cpu_share"] * busy["mean_latency_ms"], 1e-6 * busy["cpu_ms"], "share of the mean")
    shown = subprocess.run([os.environ["MLFF"], "show", "r.json"], cwd=tmp_path, capture_output=True, text=True)
    assert "DISTURBED: other programs had the processor" in shown.stdout


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
        assert re.fullmatch("[0-9a-f]{12}(-dirty)?|unknown", report["context"]["commit"])
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
    report, table = load(tmp_path), thermo.table(output)
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
        table, energy_report = thermo.table(output), load(tmp_path)["energy"]
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
        table = thermo.table(output, 1)
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
        report, table = load(tmp_path), thermo.table(output)
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
    table, report = thermo.table(launch(deck, str(tmp_path))), load(tmp_path)
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
