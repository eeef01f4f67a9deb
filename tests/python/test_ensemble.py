"""Verdicts on ensembles, on series that are drawn from them, and on series that are not: how often is the innocent
accused, is the guilty found, and does a short series say that it is short?"""

import collections
import math

import numpy as np
import pytest

from mlff_tools.bench import ensembles
from mlff_tools.ensemble import judge, outside, statistics
from mlff_tools.ensemble.judge import BAR, BOLTZMANN, FAIL, PASS, SHORT
from mlff_tools.ensemble.statistics import Estimate

N, T = 63, 300.0
DOF = 3 * N - 3
RUNS = 150


def kinetic(runs, n, memory, rng, kelvin=T):
    """[runs, n] kinetic energies of an ideal gas whose velocities have the correlation memory^k."""
    v, out = rng.normal(size=(runs, DOF)), np.empty((runs, n))
    for k in range(n):
        out[:, k] = 0.5 * BOLTZMANN * kelvin * (v * v).sum(1)
        v = memory * v + math.sqrt(1 - memory**2) * rng.normal(size=v.shape)
    return out


def nvt(series, spacing=0.1, damp=1.0):
    """Verdicts of NVT runs whose samples are `spacing` ps apart: Counter."""
    time = spacing * np.arange(series.shape[1])
    return collections.Counter(judge.verdict(judge.nvt(time, s, DOF, T, damp)) for s in series)


def test_right_runs_are_decided_within_the_documented_time():
    """43,000 / N damping times (docs/statistics.md), of which the first fifth is left out."""
    rng = np.random.default_rng(3)
    assert nvt(kinetic(RUNS, int(10 * 43000 / N), math.exp(-0.1), rng))[PASS] >= 0.93 * RUNS
    assert nvt(kinetic(RUNS, 10 * 40, math.exp(-0.1), rng))[PASS] <= 0.3 * RUNS


@pytest.mark.parametrize("memory,pass_at_least", [(0.0, 0.98), (0.8, 0.9), (0.95, 0.1)])
def test_canonical_kinetic_energies_are_not_accused(memory, pass_at_least):
    """At most one in a hundred, with correlated samples as well; these make a run shorter, not wrong."""
    said = nvt(kinetic(RUNS, 4500, memory, np.random.default_rng(1)))
    assert said[FAIL] <= 0.01 * RUNS and said[PASS] >= pass_at_least * RUNS, said


@pytest.mark.parametrize("memory", [0.0, 0.8])
@pytest.mark.parametrize("wrong", ["hot", "cold", "narrow", "ice cube", "wide"])
def test_others_are_found(wrong, memory):
    """Ten per cent of the temperature; the width of a thermostat that rescales velocities (Berendsen); a flying ice
    cube, most of whose energy is in the motion of its centre, which does not fluctuate; a wide one."""
    rng = np.random.default_rng(2)
    series = kinetic(60, 2000, memory, rng, {"hot": 1.1, "cold": 0.9}.get(wrong, 1.0) * T)
    mean = DOF / 2 * BOLTZMANN * T
    if wrong in ("narrow", "wide"):
        series = mean + {"narrow": 0.5, "wide": 1.6}[wrong] * (series - mean)
    if wrong == "ice cube":
        series = 0.7 * mean + 0.3 * series
    said = nvt(series)
    assert said[FAIL] >= 57 and not said[PASS], said


def test_short_runs_say_so():
    """In samples, and in time constants of the thermostat, however many samples there are."""
    rng = np.random.default_rng(3)
    assert nvt(kinetic(50, 100, 0.5, rng)) == {SHORT: 50}
    assert nvt(kinetic(20, 2000, 0.0, rng), spacing=0.02) == {SHORT: 20}
    assert nvt(kinetic(20, 2000, 0.0, rng), spacing=0.02, damp=0.1) == {PASS: 20}
    assert nvt(np.zeros((3, 5))) == {SHORT: 3}
    assert nvt(np.full((3, 2000), np.nan)) == {FAIL: 3}


def test_interval_of_a_variance():
    """94 of 100 intervals hold it, of correlated samples too."""
    rng = np.random.default_rng(4)
    inside, wanted = 0, DOF / 2 * (BOLTZMANN * T) ** 2
    for s in kinetic(300, 1000, 0.8, rng):
        found = judge.variance(s)
        assert found.enough
        inside += abs(found.value - wanted) <= found.error
    assert 0.88 * 300 <= inside <= 0.985 * 300, inside


# ---- NPT -----------------------------------------------------------------------------------------------------------

V0, KAPPA = 630.0, 5e-5  # A^3, 1/bar: water


def box(runs, n, rng, spacing=0.1, narrow=1.0, drift=0.0, off=0.0):
    """Runs at constant pressure: (times, volumes [runs, n], pressures). The volume swings with a period of 3 ps and
    decays in 2 ps, with the canonical fluctuation; the pressure follows it, under noise of 3 kbar."""
    size = math.sqrt(BOLTZMANN * T * V0 * KAPPA / BAR)
    w, g, h = 2 * math.pi / 3.0, 1.0, spacing / 5
    x, u, out = rng.normal(size=runs), rng.normal(size=runs) * w, np.empty((runs, n))
    for k in range(n):
        out[:, k] = x
        for _ in range(5):
            u = math.exp(-g * h) * (u - w * w * x * h) + w * math.sqrt(1 - math.exp(-2 * g * h)) * rng.normal(size=runs)
            x = x + u * h
    time, v = spacing * np.arange(n), narrow * size * out
    pressures = 1.0 + off - v / (KAPPA * V0) + 3000 * rng.normal(size=v.shape)
    return time, V0 + v + drift * V0 * time, pressures


def npt(time, volumes, pressures, rng):
    said = []
    for v, p in zip(volumes, pressures):
        energies = rng.gamma(DOF / 2, BOLTZMANN * T, len(time))
        said.append(judge.npt((time, energies, p, v), DOF, T, 1.0, 0.1, 1.0))
    return said


def count(said, name=None):
    return collections.Counter(judge.verdict([c for c in checks if name in (None, c["name"])]) for checks in said)


def test_boxes_in_equilibrium_are_not_accused():
    """At most three of a hundred, and 95 of a hundred are stationary and at their pressure."""
    rng = np.random.default_rng(5)
    said = npt(*box(2 * RUNS, 2000, rng), rng)
    assert count(said)[FAIL] <= 0.03 * 2 * RUNS and count(said)[PASS] >= 0.7 * 2 * RUNS, count(said)
    for name in ("pressure", "volume, drift"):
        assert count(said, name)[PASS] >= 0.97 * 2 * RUNS, (name, count(said, name))


@pytest.mark.parametrize(
    "wrong,name",
    [({"narrow": 0.4}, "volume, fluctuation"), ({"drift": 2e-3}, "volume, drift"), ({"off": 2000.0}, "pressure")],
)
def test_boxes_out_of_equilibrium_are_found(wrong, name):
    """The volume of a Berendsen barostat hardly fluctuates; a box that shrinks; one that has not reached its
    pressure."""
    rng = np.random.default_rng(6)
    said = count(npt(*box(RUNS, 2000, rng, **wrong), rng), name)
    assert said[FAIL] >= 0.95 * RUNS, said


def test_a_volume_that_is_held_still_is_found():
    """A Berendsen barostat with a modulus that is far too high: the volume moves by a fortieth, and slowly."""
    rng = np.random.default_rng(8)
    time, volumes, pressures = box(RUNS, 2000, rng)
    slow = rng.normal(size=volumes.shape)
    for k in range(1, slow.shape[1]):  # 30 ps
        slow[:, k] = math.exp(-0.1 / 30) * slow[:, k - 1] + math.sqrt(1 - math.exp(-0.2 / 30)) * slow[:, k]
    still = V0 + (volumes - V0).std() / 40 * slow
    for n in (600, 2000):
        said = count(npt(time[:n], still[:, :n], pressures[:, :n], rng), "volume, fluctuation")
        assert said[FAIL] >= 0.95 * RUNS, (n, said)


def test_slow_boxes_in_equilibrium_are_not_accused():
    """A barostat of 1 ps in a soft box that swings with 15 ps: 200 ps are few periods, and no reason to fail."""
    rng = np.random.default_rng(9)
    time, volumes, pressures = box(RUNS, 2000, rng, spacing=0.02)
    said = count(npt(5 * time, volumes, pressures, rng), "volume, fluctuation")
    assert said[FAIL] <= 0.03 * RUNS, said
    # a volume that needs 60 ps to decay: 50 ps know nothing of it
    slow = rng.normal(size=volumes.shape)
    for k in range(1, slow.shape[1]):
        slow[:, k] = math.exp(-0.1 / 60) * slow[:, k - 1] + math.sqrt(1 - math.exp(-0.2 / 60)) * slow[:, k]
    v = V0 + (volumes - V0).std() * slow
    said = count(npt(time[:625] * 5, v[:, :625], 1 - (v - V0)[:, :625] / (KAPPA * V0), rng), "volume, fluctuation")
    assert said[FAIL] <= 0.03 * RUNS, said


def test_short_boxes_say_so():
    """Half a picosecond with a barostat of one, as in the suite, and 30 ps."""
    rng = np.random.default_rng(7)
    for spacing, n in ((0.005, 100), (0.0005, 2000), (0.1, 300)):
        said = npt(*box(10, n, rng, spacing), rng)
        for name in ("pressure", "volume, drift", "volume, fluctuation"):
            assert count(said, name) == {SHORT: 10}, (spacing, n, name, count(said, name))


# ---- NVE and time steps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "drift,error,ps,expected",
    [
        (0.01, 0.01, 100.0, PASS),
        (0.045, 0.01, 100.0, SHORT),
        (-0.07, 0.01, 100.0, FAIL),
        (0.0, 0.0, 99.0, SHORT),
        (5.0, 0.1, 1.0, SHORT),
        (math.nan, 0.0, 100.0, SHORT),
    ],
)
def test_drift(drift, error, ps, expected):
    assert judge.nve(drift, error, ps)["verdict"] == expected


@pytest.mark.parametrize("power", [1, 2, 3])
def test_exponent_of_the_time_step(power):
    """For energy errors of dt^power the exponent is within its interval, and only 2 is within the bar."""
    rng, inside = np.random.default_rng(8), 0
    for _ in range(50):
        t = np.arange(400) / 100
        path = np.sin(47 * t + rng.uniform(0, 7)) + np.sin(83 * t) + 0.1 * rng.normal(size=400)
        found = judge.exponent(path, 0.5**power * path * rng.uniform(0.9, 1.1, 400))
        inside += abs(found.value - power) <= found.error
        assert (judge.check("", found, 2.0, judge.EXPONENT)["verdict"] == PASS) == (power == 2), found
    assert inside >= 44, inside
    assert not judge.exponent(path[:20], path[:20]).enough and not judge.exponent(path, 0 * path).enough


def test_checks():
    """With a bar the whole interval must be on one side; without one the target must be within 99 %."""
    said = lambda value, error, **more: judge.check("", Estimate(value, error, True), 1.0, **more)["verdict"]
    assert [said(1 + x, 0.01, bar=0.05) for x in (0.03, 0.045, 0.055, 0.07)] == [PASS, SHORT, SHORT, FAIL]
    assert said(1.0, math.nan, bar=0.05) == SHORT and said(math.nan, 0.0, bar=0.05) == SHORT
    assert said(2.0, 0.0, bar=0.05, long=False) == SHORT and said(math.inf, 0.0, bar=0.05, long=False) == FAIL
    assert [said(1 + x, 1.0) for x in (1.4, 1.5)] == [PASS, FAIL] and said(2.5, 1.0, slack=0.1) == PASS
    assert judge.verdict([{"verdict": PASS}, {"verdict": SHORT}]) == SHORT and judge.verdict([]) is None
    assert judge.verdict([{"verdict": SHORT}, {"verdict": FAIL}]) == FAIL


# ---- two temperatures ----------------------------------------------------------------------------------------------


def total(kelvin, n, memory, rng, scale=1.0):
    """Total energies of harmonic atoms at a temperature; their fluctuation is `scale` times the canonical one."""
    v, out, step = rng.normal(size=2 * DOF), np.empty(n), math.sqrt(1 - memory**2)
    for k in range(n):
        out[k] = 0.5 * BOLTZMANN * kelvin * (v @ v)
        v = memory * v + step * rng.normal(size=len(v))
    mean = DOF * BOLTZMANN * kelvin
    return mean + scale * (out - mean)


def test_total_energies_at_two_temperatures():
    rng, hot, said = np.random.default_rng(9), 330.0, collections.Counter()
    for k in range(40):
        memory = (0.0, 0.7)[k % 2]
        pair = [total(t, 1500, memory, rng) for t in (T, hot)]
        said[judge.total_energies(pair[0], T, pair[1], hot)["verdict"]] += 1
    assert said[FAIL] == 0 and said[PASS] >= 34, said
    for scale in (0.6, 1.6):
        pair = [total(t, 1500, 0.7, rng, scale) for t in (T, hot)]
        assert judge.total_energies(pair[0], T, pair[1], hot)["verdict"] == FAIL, scale
    short = [total(t, 100, 0.9, rng) for t in (T, hot)]
    far = [total(t, 1500, 0.0, rng) for t in (T, 3 * T)]
    assert judge.total_energies(short[0], T, short[1], hot)["verdict"] == SHORT
    assert judge.total_energies(far[0], T, far[1], 3 * T)["verdict"] == SHORT, "distributions without overlap"
    assert not judge.two_temperatures(far[0], T, far[1], T).enough


# ---- reports -------------------------------------------------------------------------------------------------------


def report(protocol, kelvin=T, n=2000, spacing=0.1, seed=1, dof=3 * N, lost=0.001, **deck):
    """What the suite needs of a report of in.bench with canonical energies at a temperature. lost: standard deviation
    of the total energy of NVE, as a share of the thermal energy."""
    rng, time = np.random.default_rng(seed), spacing * np.arange(n)
    k, u = (rng.gamma(dof / 2, BOLTZMANN * kelvin, n) for _ in range(2))
    if protocol == "nve":
        u = 2 * k.mean() * (1 + lost * rng.normal(size=n)) - k
    series = {"time_ps": time, "kinetic": k, "potential": u, "total": k + u, "pressure": np.zeros(n)}
    series = {key: [float(x) for x in v] for key, v in {**series, "volume": np.full(n, V0)}.items()}
    drift = {"drift": 1e-6, "drift_error": 1e-6}
    energy = {"units": "metal", "time_ps": float(time[-1]), "exploded": False, "series": series, "total": drift}
    variables = {"system": "water", "protocol": protocol, "temperature": "300", "damp": "1.0", "zero": "no", **deck}
    return {"n_atoms": N, "energy": energy, "context": {"deck": variables, "timestep": 0.0005}}


def test_reports_of_the_suite():
    """The thermostat of in.bench moves the centre of mass, that of earlier reports did not."""
    assert ensembles.of_report(report("nvt"))["verdict"] == PASS
    assert ensembles.of_report(report("nvt", dof=DOF, zero="yes"))["verdict"] == PASS
    assert ensembles.of_report(report("nvt", kelvin=1.1 * T))["verdict"] == FAIL
    assert ensembles.of_report(report("nvt", n=100, spacing=0.005))["verdict"] == SHORT
    assert ensembles.of_report(report("nve"))["verdict"] == PASS
    (_, found) = ensembles.of_report(report("nve", lost=0.006))["checks"]
    assert found["name"] == "fluctuation" and found["verdict"] == FAIL and abs(found["value"] - 0.6) < 0.03, found
    assert ensembles.of_report(report("nve", n=100, spacing=0.005))["verdict"] == SHORT
    assert ensembles.of_report(report("npt", dof=DOF, n=100, spacing=0.005))["verdict"] == SHORT
    molecules = {"hottest": "0", "nx": "2", "ny": "2", "nz": "1"}
    assert ensembles.conditions(report("nvt", **molecules))["dof"] == 3 * N - 12
    broken = report("nve", n=100, spacing=0.005)
    broken["energy"]["exploded"] = True
    assert ensembles.of_report(broken)["verdict"] == FAIL
    lost = report("nvt")
    lost["energy"]["series"]["kinetic"][7] = None
    assert ensembles.of_report(lost)["verdict"] == PASS, "in the first fifth"
    lost["energy"]["series"]["kinetic"][-7] = None
    assert ensembles.of_report(lost)["verdict"] == FAIL
    for other in ({"context": {}}, {"energy": None}, {"context": {"deck": {"protocol": "nvt"}}}):
        assert ensembles.of_report({**report("nvt"), **other}) is None
    assert ensembles.of_report(report("nvt", hottest="600")) is None, "copies at temperatures of their own"


def test_pairs_of_the_suite():
    """Rows that differ in the temperature get the check of total energies; others do not."""
    found = [report("nvt"), report("nvt", 330.0, seed=2, temperature="330.0"), report("nvt", system="iron")]
    names = ("water-small-nvt-300K-m", "water-small-nvt-330K-m", "iron-small-nvt-300K-m")
    rows = [{"case": name, "ensemble": ensembles.of_report(r)} for name, r in zip(names, found)]
    ensembles.with_pairs(rows, found)
    words = [[c["name"] for c in row["ensemble"]["checks"]] for row in rows]
    assert ["total energy, two temperatures" in w for w in words] == [True, True, False]
    assert [row["ensemble"]["verdict"] for row in rows] == [PASS, PASS, PASS]
    text = ensembles.sentence([*rows, {"case": "x", "ensemble": {"verdict": FAIL}}, {"case": "y", "ensemble": None}])
    assert "3 PASS, 1 FAIL" in text and "NOT OF THEIR ENSEMBLE: x." in text
    assert ensembles.sentence([{"case": "y", "ensemble": None}]) == "Ensembles: not judged."


def test_outside_judge():
    """physical_validation says the same, where it is installed."""
    pytest.importorskip(outside.PACKAGE)
    for kelvin, expected in ((T, PASS), (1.1 * T, FAIL)):
        checks = ensembles.of_report(report("nvt", kelvin))["checks"]
        assert [c["verdict"] for c in checks if outside.PACKAGE in c["name"]] == [expected], checks


@pytest.mark.parametrize("noise,walk,correlated", [(1, 0, 0), (0, 1, 0), (3, 1, 0), (10, 1, 0.9)])
def test_the_interval_of_a_drift_covers(noise, walk, correlated):
    """Series of 1000 energies with a planted drift: noise, a random walk and their sum. The regression on blocks, as
    the control, covers a walk in a third."""
    rng, time, covered, control = np.random.default_rng(5), np.linspace(0, 1, 1000), 0, 0
    for _ in range(300):
        steps = rng.normal(size=(2, 1000))
        for k in range(1, 1000):
            steps[0, k] = correlated * steps[0, k - 1] + math.sqrt(1 - correlated**2) * steps[0, k]
        y = noise * steps[0] + walk * steps[1].cumsum() / math.sqrt(1000) + 0.7 * time
        found, simple = statistics.drift(time, y), statistics.slope(time, y)
        covered += abs(found.value - 0.7) <= found.error
        control += abs(simple.value - 0.7) <= simple.error
    assert covered >= 0.88 * 300
    assert control < 0.6 * 300 or not walk or noise > 5


def test_statistics_is_one_module():
    """Certificates, the suite and the validation share it."""
    from mlff_tools.bench import validation
    from mlff_tools.certify import dynamics

    assert dynamics.statistics is validation.statistics is judge.statistics is statistics
