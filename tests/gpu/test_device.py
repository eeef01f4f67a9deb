"""pair_style mlff and fix mlffprof in LAMMPS on the simulated GPU (tests/cudasim).

What `device cuda` gives is compared with `device cpu` in the same LAMMPS. The simulated GPU has the memory and the
number that the environment says (MLFF_CUDASIM_MEMORY in bytes, MLFF_CUDASIM_DEVICES).
"""

import json
import re

import pytest
from harness import Case, close, crystal, fails, launch, mlff, read_dump, run, same, water
from models import ARCHITECTURES, CONSERVATIVE, KINDS
from test_domain import OUTSIDE, painn, warnings


def side(model):
    """Molecules along an edge of the box. Large models are slow on the simulated GPU."""
    return 2 if model in ("orb", "nequix", "mace", "tensornet", "local_tensornet") else 3


def dynamics(name, folder, options, model, n=3, steps=20, more=""):
    """A deck of `steps` steps of NVE at 0.1 fs, a new list every 10; the model's GPU or CPU is in `options`."""
    case = Case(name, water(n), mlff(model, options=options))
    return (
        case.text(str(folder), single_point=False)
        + f"""
velocity all create 300 4711
neigh_modify every 10 delay 0 check no
timestep 0.0001
fix move all nve
{more}
thermo_style custom step pe press
thermo 5
thermo_modify format float %.17g
run {steps}
write_dump all custom {name}.dump id x y z fx fy fz modify sort id format float %.17g
"""
    )


def printed(output):
    """The lines of thermodynamics."""
    return re.findall(r"^ +\d+ +-?[\d.]+(?:e[-+]\d+)? +-?[\d.]+(?:e[-+]\d+)? *$", output, re.M)


@pytest.mark.parametrize("newton", ("on", "off"))
def test_same_as_cpu(zoo, tmp_path, newton):
    """Energy, forces, pressure, energy and stress of atoms in double, in a tilted box smaller than twice the cutoff."""
    cases = [
        Case(
            f"{model}_{device}",
            water(2, tilt=(1.0, 0.7, -0.9)),
            mlff(zoo[model], options=f"precision fp64 device {device}"),
            newton=newton,
            per_atom=model in CONSERVATIVE,
        )
        for model in KINDS
        for device in ("cpu", "cuda")
    ]
    results = run(cases, tmp_path)
    for model in KINDS:
        same(results[f"{model}_cuda"], results[f"{model}_cpu"], 1e-9, f"{model}, newton {newton}")


@pytest.mark.parametrize("ranks", (2, 3))
def test_ranks(zoo, tmp_path, ranks):
    """Ranks that share a GPU exchange features and message sums through the host, with the results of one rank on the
    CPU. In the crystal, tags decide which of equally distant atoms are neighbors."""
    systems = {
        "painn": water((4, 3, 2)),
        "gaussian": water((4, 3, 2)),
        "ani": water((4, 3, 2)),
        "orb": water((4, 3, 2)),
        "orb_crystal": crystal(),
        "orb_open": water((3, 2, 1)),
    }

    def cases(device):
        return [
            Case(
                f"{name}_{device}",
                system,
                mlff(zoo[name.split("_")[0]], options=f"precision fp64 device {device}"),
                per_atom="orb" not in name,
                boundary="f f f" if "open" in name else "p p p",
            )
            for name, system in systems.items()
        ]

    one, more = run(cases("cpu"), tmp_path), run(cases("cuda"), tmp_path, ranks)
    for name, result in more.items():
        same(result, one[name.replace("cuda", "cpu")], 1e-8, f"{name}, {ranks} ranks")


@pytest.mark.parametrize("model,ranks", (("painn", 2), ("painn", 3), ("orb", 2)))
def test_features_from_gpu_to_gpu(zoo, tmp_path, model, ranks):
    """`gpu_mpi yes`: MPI sends and receives memory of the (simulated) device. The bits are those of `gpu_mpi no`."""
    system, results = water((4, 3, 2)), {}
    for way, said in (
        ("on", "from GPU to GPU by MPI"),
        ("off", "through pinned host memory"),
        ("auto", "through pinned host memory"),
    ):
        case = Case(way, system, mlff(zoo[model], options=f"device cuda gpu_mpi {way}"), per_atom=model in CONSERVATIVE)
        folder = tmp_path / way
        folder.mkdir()
        results[way] = run([case], folder, ranks)[way]
        if model == "painn":
            output = launch(case.text(str(folder)), str(folder), ranks)
            assert re.search(rf"features: +{said}", output), output
    for way in ("off", "auto"):
        assert (results["on"].f == results[way].f).all() and results["on"].energy == results[way].energy
    error = fails(Case("bad", system, mlff(zoo[model], options="gpu_mpi perhaps")).text(str(tmp_path)), tmp_path)
    assert "gpu_mpi" in error and "auto" in error, error


def test_domain(tmp_path):
    """Warnings about the training domain at the first step are those of the CPU."""
    text = [
        Case(device, water(2), mlff(painn(tmp_path, **OUTSIDE), options=f"device {device}")).text(str(tmp_path), False)
        for device in ("cpu", "cuda")
    ]
    cpu, cuda = (warnings(launch(deck + "run 0\n", str(tmp_path))) for deck in text)
    assert len(cpu) == 2 and cpu == cuda


def test_log_names_it(zoo, tmp_path):
    """`device auto` selects the GPU, `device cpu` and CPU code paths the CPU. The log has the device."""
    system = water(1)
    for options, expected in (
        ("", "cuda, fp32"),
        ("device cuda:0 precision fp64", "cuda, fp64"),
        ("device cpu", "cpu, fp32"),
    ):
        output = launch(Case("log", system, mlff(zoo["painn"], options=options)).text(str(tmp_path)), str(tmp_path))
        assert re.search(rf"computed on: +{expected}, kernels", output), output
    error = fails(Case("none", system, mlff(zoo["painn"], options="device cuda:7")).text(str(tmp_path)), tmp_path)
    assert "cuda:7" in error and "GPU" in error


def test_second_model_computes_where_the_first_does(zoo, tmp_path, monkeypatch):
    """`compare` of fix mlffprof uses the device of the pair style, or its own `device`."""
    monkeypatch.setenv("MLFF_CUDASIM_DEVICES", "2")
    for pair, more, said in (
        ("device cpu", "", "cpu"),
        ("device cuda:1", "", "cuda"),
        ("device auto", "", "cuda"),
        ("device cuda:1", "device cpu", "cpu"),
        ("device cpu", "device cuda:0", "cuda"),
    ):
        fix = f"fix p all mlffprof 1 compare {zoo['painn']} every 1 {more}"
        output = launch(dynamics("two", tmp_path, pair, zoo["painn"], n=2, steps=0, more=fix), str(tmp_path))
        wanted = rf"fix mlffprof compare: .*sha256 \w+, header [^,]+, {said}, fp32, "
        assert re.search(wanted, output), (pair, more, output)


def test_map_of_ranks(zoo, tmp_path, monkeypatch):
    """The log has the GPU of every rank, and one warning when there are more ranks than GPUs."""
    text = Case("map", water(2), mlff(zoo["painn"], options="device cuda")).text(str(tmp_path))
    for n_gpus in (2, 3):
        monkeypatch.setenv("MLFF_CUDASIM_DEVICES", str(n_gpus))
        output = launch(text, str(tmp_path), 3)
        found = re.findall(r"rank (\d+), host \S+, local rank (\d+): cuda:(\d+) \(0000:\d+:00\)", output)
        assert found == [(str(r), str(r), str(r % n_gpus)) for r in range(3)] * (len(found) // 3) and found, output
        warned = re.findall(
            r"WARNING.*more ranks than GPUs: 3 ranks of host \S+ use 2 GPUs, up to 2 of them cuda:0", output
        )
        assert bool(warned) == (n_gpus == 2) and output.count("more ranks than GPUs") == len(warned), output


@pytest.mark.parametrize("model", ("painn", "ani"))
def test_fused_and_mixed(zoo, tmp_path, model):
    """Fused operations give the bits of plain ones on a trajectory. Mixed precision is near, but not equal."""
    lines = {}
    for options in ("fuse on", "fuse off", "precision mixed"):
        output = launch(dynamics("fuse", tmp_path, f"device cuda {options}", zoo[model]), str(tmp_path))
        assert ("cuda, mixed" in output) == ("mixed" in options), output
        lines[options] = printed(output)
        assert len(lines[options]) == 5, output
    assert lines["fuse on"] == lines["fuse off"] != lines["precision mixed"]
    plain, mixed = (float(lines[options][0].split()[1]) for options in ("fuse on", "precision mixed"))
    assert mixed == pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("ranks", (1, 2))
def test_mixed_orb(zoo, tmp_path, ranks):
    """`precision mixed` agrees with fp32 up to the rounding of floats."""
    lines = {}
    for precision in ("fp32", "mixed"):
        output = launch(
            dynamics("mixed", tmp_path, f"device cuda precision {precision}", zoo["orb"], n=side("orb"), steps=10),
            str(tmp_path),
            ranks,
        )
        assert f"cuda, {precision}" in output, output
        lines[precision] = [[float(word) for word in line.split()] for line in printed(output)]
        assert len(lines[precision]) == 3, output
    assert lines["fp32"] != lines["mixed"]
    for plain, mixed in zip(lines["fp32"], lines["mixed"]):
        assert mixed == pytest.approx(plain, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    "model, ranks", [*((model, 1) for model in ARCHITECTURES), *((m, 2) for m in ("painn", "nequix", "orb"))]
)
def test_recorded_steps(zoo, tmp_path, model, ranks):
    """Replayed steps have the same bits as plain steps, also on ranks that exchange features."""
    lines = {}
    for graph in ("on", "off"):
        text = dynamics("graph", tmp_path, f"device cuda graph {graph}", zoo[model], n=side(model))
        output = launch(text, str(tmp_path), ranks)
        replayed = int(re.search(r"(\d+) of \d+ steps replayed so far", output).group(1)) if graph == "on" else 0
        assert (replayed > 10) == (graph == "on"), output
        lines[graph] = (printed(output), (tmp_path / "graph.dump").read_text(encoding="ascii"))
        assert len(lines[graph][0]) == 5, output
    assert lines["on"] == lines["off"]


WARM_UP = r"GPU warm-up [\d.e+]+ ms: first evaluation [\d.e+]+ ms(.*)"


def replays(output):
    """(replayed, steps, recorded) so far, at the end of each run."""
    found = re.findall(r"(\d+) of (\d+) steps replayed so far, (\d+) captured", output)
    return [tuple(int(x) for x in numbers) for numbers in found]


@pytest.mark.parametrize("model", ARCHITECTURES)
def test_warm_up(zoo, tmp_path, model):
    """A graph is captured before the first step, reported in one line, and used by later runs: all steps with an
    unchanged list are replayed. The set-up requests per-atom stress if the model has it. `run 0` captures nothing."""
    compute = (
        "compute s all stress/atom NULL\ncompute sum all reduce sum c_s[1]\nthermo_style custom step pe press c_sum"
    )
    runs = (
        compute if model in CONSERVATIVE else ""
    ) + "\nrun 0\nrun 5\nrun 5\nrun 5 pre no\nmin_style fire\nminimize 0 0 3 10\nquit"
    lines = {}
    for graph in ("on", "off"):
        text = dynamics("warm", tmp_path, f"device cuda graph {graph}", zoo[model], n=side(model), steps=0)
        text = text.replace("check no", "check yes").replace("run 0", runs)
        output = launch(text, str(tmp_path))
        lines[graph] = re.findall(r"^ +\d+(?: +-?[\d.]+(?:e[-+]\d+)?)+ *$", output, re.M)
        assert len(lines[graph]) >= 9, output
        said = re.findall(WARM_UP, output)
        if graph == "off":
            assert said == [" (replay off: replay no)"]
            continue
        assert re.fullmatch(r", capture [\d.e+]+ ms \(replay on\)", said[0]), said
        counts = replays(output)
        assert counts[0] == (0, 1, 0) and output.index("GPU warm-up") > output.index("0 of 1 steps replayed so far")
        if model not in CONSERVATIVE:  # the same results in every step
            assert len(said) == 1 and counts[1:4] == [(5, 7, 1), (10, 13, 1), (15, 18, 1)], (said, counts)
    assert lines["on"] == lines["off"]


def test_warm_up_with_new_lists(zoo, tmp_path):
    """With a new list in every step no step is replayed. The warm-up captures once, also when parts are timed."""
    for more in ("", "fix prof all mlffprof 2 warmup 2 components yes file prof.json"):
        text = dynamics("lists", tmp_path, "device cuda", zoo["painn"], steps=4, more=more).replace(
            "every 10", "every 1"
        )
        output = launch(text, str(tmp_path))
        assert len(re.findall(WARM_UP, output)) == 1 and replays(output) == [(0, 5, 1)], output
        text = text.replace("every 1 ", "every 10 ")
        output = launch(text, str(tmp_path))
        assert len(re.findall(WARM_UP, output)) == 1 and replays(output) == [(4, 5, 1)], output
    assert profile(tmp_path)["n_steps"] == 4 - 2  # without its own warm-up


def test_warm_up_refused(zoo, tmp_path, monkeypatch):
    """When the driver refuses a capture, the log has the reason and a warning, and steps run op by op."""
    monkeypatch.setenv("MLFF_CUDASIM_FAIL_CAPTURE", "1")
    output = launch(dynamics("refused", tmp_path, "device cuda", zoo["painn"], steps=4), str(tmp_path))
    assert re.search(WARM_UP, output).group(1).endswith(" in cudaStreamBeginCapture)"), output
    assert "replay off, capture failed: the step could not be captured" in output and "WARNING" in output


def test_warm_up_of_ranks(zoo, tmp_path):
    """Each rank captures its own steps, also where ranks exchange features."""
    end = r", capture [\d.e+]+ ms \(replay on\)"
    for model in ("local", "painn"):
        output = launch(dynamics("ranks", tmp_path, "device cuda", zoo[model], steps=4), str(tmp_path), 2)
        found = re.findall(WARM_UP, output)
        assert len(found) == 1 and re.fullmatch(end, found[0]), output


def profile(folder):
    with open(folder / "prof.json", encoding="utf-8") as f:
        return json.load(f)


@pytest.mark.parametrize("model", ("painn", "orb"))
def test_memory_of_the_device(zoo, tmp_path, model):
    """The profiler reports the memory of the model on the GPU: constant in a settled run, and equal to the forecast."""
    output = launch(
        dynamics(
            "memory",
            tmp_path,
            "device cuda",
            zoo[model],
            n=side(model),
            steps=60,
            more="fix prof all mlffprof 2 warmup 20 file prof.json",
        ),
        str(tmp_path),
    )
    report = profile(tmp_path)
    device, series = report["memory"]["device"], report["memory"]["series"]
    assert report["device"].startswith("cuda") and report["memory_of"] == "device"
    assert device["n_samples"] >= 10 and device["verdict"] == "stable" and device["delta_bytes"] == 0, device
    assert device["initial_bytes"] == device["final_bytes"] == device["peak_bytes"] == series["device_bytes"][-1] > 0
    assert report["memory_peak_gb"] == pytest.approx(device["peak_bytes"] / 1e9)
    first, grown = (
        float(x) for x in re.search(r"on its GPU: +([\d.]+) after the first step, ([\d.]+) when", output).groups()
    )
    assert 0.85 * first - 0.06 <= device["final_bytes"] / 1e6 <= 1.15 * grown + 0.06
    assert report["memory"]["host"]["final_bytes"] > 0


def test_no_device_no_number(zoo, tmp_path):
    """On the CPU the fields of a device are null, not zero."""
    launch(
        dynamics("host", tmp_path, "device cpu", zoo["painn"], more="fix prof all mlffprof 2 warmup 5 file prof.json"),
        str(tmp_path),
    )
    report = profile(tmp_path)
    assert report["device"] == "cpu" and report["memory_of"] == "host"
    assert report["memory"]["device"] is None and report["memory"]["series"]["device_bytes"] == []


def test_too_large(zoo, tmp_path, monkeypatch):
    """A system that does not fit is refused before the first step. The error has a size that fits and runs."""
    monkeypatch.setenv("MLFF_CUDASIM_MEMORY", "6000000")
    error = fails(dynamics("large", tmp_path, "device cuda", zoo["gaussian"], n=8, steps=0), tmp_path)
    found = re.search(r"its (\d+) atoms need .* About (\d+) atoms fit there", error, re.S)
    assert found and "GPU" in error and "device cpu" in error, error
    atoms, fit = int(found.group(1)), int(found.group(2))
    assert atoms == 3 * 8**3 and 0 < fit < atoms
    launch(
        dynamics("fits", tmp_path, "device cuda", zoo["gaussian"], n=int((fit / 3) ** (1 / 3)), steps=0), str(tmp_path)
    )


# ---- failures --------------------------------------------------------------------------------------------------------


def one_error(text, folder, ranks):
    """The error of LAMMPS: printed once on any number of ranks."""
    output = launch(text, str(folder), ranks, check=False)
    errors = re.findall(r"^ERROR.*", output, re.M)
    assert len(errors) == 1, output
    return errors[0]


def frames(path):
    """The row counts of the frames of a dump, which must match their headers."""
    counts = []
    for frame in path.read_text(encoding="ascii").split("ITEM: TIMESTEP\n")[1:]:
        head, rows = re.split(r"ITEM: ATOMS.*\n", frame)
        counts.append(len(rows.splitlines()))
        assert counts[-1] == int(re.search(r"NUMBER OF ATOMS\n(\d+)", head).group(1))
        assert rows.endswith("\n")
    return counts


@pytest.mark.parametrize("ranks, graph", ((1, "off"), (1, "on"), (2, "on")))
def test_lost_device(zoo, tmp_path, monkeypatch, ranks, graph):
    """A GPU fails during a run, on the last rank only: one error for all ranks, and complete files."""
    monkeypatch.setenv("MLFF_CUDASIM_FAIL_LAUNCH", "200" if graph == "on" and ranks == 1 else "400")
    monkeypatch.setenv("MLFF_CUDASIM_FAIL_RANK", str(ranks - 1))
    more = """dump each all custom 2 each.dump id x y z
dump_modify each flush yes
fix prof all mlffprof 1 warmup 2 file prof.json"""
    text = dynamics("lost", tmp_path, f"device cuda graph {graph}", zoo["painn"], n=2, steps=100, more=more)
    error = one_error(text, tmp_path, ranks)
    assert "GPU 0 failed in" in error and "restart" in error, error
    assert 2 < len(frames(tmp_path / "each.dump")) < 45
    assert not (tmp_path / "lost.dump").exists() and profile(tmp_path)["n_ranks"] == ranks


def test_no_code_for_this_gpu(zoo, tmp_path, monkeypatch):
    """`device cuda` prints the architecture to build for, once for all ranks. `device auto` uses the CPU."""
    monkeypatch.setenv("MLFF_CUDASIM_CODE", "0")
    text = Case("code", water(2), mlff(zoo["painn"], options="device cuda")).text(str(tmp_path))
    error = one_error(text, tmp_path, 2)
    assert "no code" in error and "MLFF_CUDA_ARCHITECTURES=90" in error, error
    output = launch(Case("code", water(2), mlff(zoo["painn"])).text(str(tmp_path)), str(tmp_path), 2)
    assert re.search(r"computed on: +cpu", output) and re.search(r"no GPU: .*no code", output), output


def test_full_gpu(zoo, tmp_path, monkeypatch):
    """Other programs use so much GPU memory that the model does not fit."""
    monkeypatch.setenv("MLFF_CUDASIM_MEMORY", "20000")
    error = one_error(
        Case("full", water(2), mlff(zoo["painn"], options="device cuda")).text(str(tmp_path)), tmp_path, 2
    )
    assert "out of memory" in error and "are free" in error and "no other rank or program uses" in error, error


@pytest.mark.parametrize("ranks", (1, 2))
def test_multiple_time_steps(zoo, tmp_path, ranks):
    """run_style respa with both models on the GPU has the trajectories and evaluation counts of the CPU."""
    deck = ""
    for device in ("cpu", "cuda"):
        options = f"precision fp64 device {device} inner {zoo['painn']}"
        deck += dynamics(device, tmp_path, options, zoo["ani"], more="run_style respa 2 4 inner 1 0 0 outer 2")
    output = launch(deck, str(tmp_path), ranks)
    cpu, gpu = (read_dump(tmp_path / f"{device}.dump") for device in ("cpu", "cuda"))
    close(gpu[:, 1:], cpu[:, 1:], 1e-8, "positions and forces")
    assert re.findall(r"(\d+) evaluations of random-painn \(inner\), (\d+) of random-ani", output) == [("81", "21")] * 2
