"""Histories of `mlff bench --history` and the trend that `mlff report` makes of them: planted steps are found, noise
and outliers are not accused, and files that are torn or foreign are one clear sentence."""

import json
import multiprocessing
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from profile_samples import full, write

from mlff_tools.bench import history
from mlff_tools.bench.profiles import ProfileError
from mlff_tools.model.lammps import LammpsError
from mlff_tools.report import changes, trend
from mlff_tools.report import page as report

SETTINGS = {"steps": 1000, "warmup": 20, "equilibrate": 200, "pair": "precision fp32"}


def record(k, us=3.0, commit=None, **changed):
    """Measurement k, of a commit and build of its own."""
    one = {
        "format": history.FORMAT,
        "date": f"2026-11-{1 + k // 24:02d} {k % 24:02d}:00:00",
        "commit": commit or f"{k:08x}" + 32 * "a",
        "dirty": False,
        "case": "water-small-nvt-m",
        "median_ms": 0.064 * us,
        "us_per_atom": us,
        "interval": 0.01,
        "quiet": True,
        "medians_ms": [0.064 * us] * 3,
        "n_atoms": 64,
        "work": None,
        "device": "cpu",
        "kernels": "avx512",
        "precision": "fp32",
        "lammps": "22 Jul 2025",
        "build": f"{k:016x}",
        "model": "m",
        "settings": SETTINGS,
    }
    return {**one, **changed}


def series(records):
    """The only series of the records."""
    found = trend.all_series({"machine": records})
    assert len(found) == 1, [s.label for s in found]
    return found[0]


def step(n=40, at=25, size=0.05, noise=0.02, seed=0):
    """Times of n commits, those from `at` on higher."""
    x = 3.0 * np.exp(noise * np.random.default_rng(seed).standard_normal(n))
    x[at:] *= 1 + size
    return x.tolist()


# ---- what is a change ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise,exact,near", [(0.01, 0.95, 0.99), (0.02, 0.6, 0.8)])
def test_a_planted_step_is_found(noise, exact, near):
    """A step of 5 % under noise of 1 and 2 % (standard deviation): which commit, and how often the range that is named
    holds it. Where one commit has 2.5 standard deviations to show itself, neighbours can be mistaken for it."""
    found = [changes.find(step(noise=noise, seed=k), [True] * 40, 0.03).changes for k in range(200)]
    bad = [of[0] for of in found if len(of) == 1 and of[0].ratio > 1]
    assert len(bad) >= 0.93 * 200, len(bad)
    assert sum(c.at == 25 for c in bad) >= exact * len(bad), sum(c.at == 25 for c in bad)
    assert sum(abs(c.at - 25) <= 1 for c in bad) >= near * len(bad)
    assert sum(c.first <= 25 <= c.last for c in bad) >= 0.95 * len(bad)
    size, error = np.median([c.ratio for c in bad]), np.median([c.error for c in bad])
    assert size == pytest.approx(1.05, abs=0.006) and error == pytest.approx(1.96 * noise * 0.33, rel=0.4)


def noise_of(kind, n, generator):
    x = 0.02 * generator.standard_normal(n)
    if kind == "outliers":  # one measurement in twenty is 20 % off
        return x + (generator.random(n) < 0.05) * generator.choice([-0.2, 0.2], n)
    if kind == "wandering":  # what is near in time resembles each other: autocorrelation 0.3
        for k in range(1, n):
            x[k] = 0.3 * x[k - 1] + 0.954 * x[k]
        return x
    return 2.5 * x if kind == "wide" else x


@pytest.mark.parametrize("kind,most", [("plain", 0.01), ("wide", 0.01), ("wandering", 0.02), ("outliers", 0.04)])
def test_false_alarms_are_counted(kind, most):
    """Of histories in which nothing happened, at most this share has a bad commit: noise of 2 % and 5 % (wide)."""
    generator, lengths, accused = np.random.default_rng(5), (4, 6, 10, 20, 50, 100), 0
    for n in lengths:
        for _ in range(100):
            found = changes.find(np.exp(noise_of(kind, n, generator)), [True] * n, 0.03)
            accused += any(c.ratio > 1 for c in found.changes)
    print(f"{kind}: {accused} of {100 * len(lengths)}")
    assert accused <= most * 100 * len(lengths), f"{accused} of {100 * len(lengths)}"


@pytest.mark.parametrize("at", [0, 1, 7, 18, 19])
def test_one_outlier_is_not_marked(at):
    """Wherever it is. The newest one is a suspicion: it needs another measurement, and then it is one or the other."""
    values = step(20, at=20, noise=0.005)
    values[at] *= 1.4
    found = changes.find(values, [True] * 20, 0.03)
    assert not found.changes and len(found.levels) == 1
    assert (found.suspect is not None) == (at == 19)
    if at == 19:
        assert found.suspect == pytest.approx(1.4, rel=0.03)
        more = changes.find([*values, values[-1] * 1.003], [True] * 21, 0.03)
        assert [c.at for c in more.changes] == [19] and more.suspect is None
        assert not changes.find([*values, values[0]], [True] * 21, 0.03).changes


def test_small_steps_are_let_be_and_the_share_counts():
    """2 % is real here, and not worth a word for times; of instructions it is."""
    values = step(30, at=15, size=0.02, noise=0.001)
    assert not changes.find(values, [True] * 30, 0.03).changes
    assert [c.at for c in changes.find(values, [True] * 30, 0.01).changes] == [15]


def test_better_then_worse():
    """An improvement is no bad commit; what follows it is judged against the new level."""
    values = step(40, at=20, size=-0.10, noise=0.01, seed=3)
    values[30:] = [v * 1.08 for v in values[30:]]
    one = series([record(k, v) for k, v in enumerate(values)])
    assert [(c.at, c.ratio > 1) for c in one.found.changes] == [(20, False), (30, True)]
    assert one.first_bad.at == 30 and "better from 00000014a" in trend.verdict(one)
    assert "first bad commit 0000001ea (2026-11-02)" in trend.verdict(one)
    better = series([record(k, v) for k, v in enumerate(values[:28])])
    assert better.first_bad is None and "bad" not in trend.banner([better])


def test_noisy_and_dirty_records_are_not_judged():
    values = step(30, at=30, noise=0.005)
    quiet = [record(k, v) for k, v in enumerate(values)]
    for changed in ({"quiet": False}, {"dirty": True}):
        slow = [{**r, **(changed if k >= 20 else {}), "us_per_atom": v} for k, (r, v) in enumerate(zip(quiet, values))]
        for r in slow[20:]:
            r["us_per_atom"] *= 1.3
        one = series(slow)
        assert not one.found.changes and len(one.judged) == 20 and len(one.values) == 30
        assert "not judged: 10 " in trend.left_out(one)
        assert series([{**r, "quiet": None, "dirty": False} for r in slow]).first_bad.at == 20


def test_one_build_cannot_change():
    """Commits that were measured with one build, of documents only, or not built again, are no cause of anything."""
    values = step(30, at=15, size=0.1, noise=0.01)
    records = [record(k, v, build="same") for k, v in enumerate(values)]
    assert not series(records).found.changes and "one build" in trend.verdict(series(records))
    for k in range(18, 30):
        records[k]["build"] = "other"
    assert [c.at for c in series(records).found.changes] == [18]
    for k in range(15, 30):  # the model file counts as well, and is named
        records[k].update(build="same", model="larger")
    assert "with another model file" in trend.verdict(series(records))


def test_one_commit_is_taken_together():
    """Measured again, later as well: the commit keeps its place, and no level begins within it."""
    values = step(30, at=12, size=0.1, noise=0.005)
    records = [record(k, v, commit=f"c{k // 3}", build=f"b{k // 3}") for k, v in enumerate(values)]
    again = record(40, 3.0, commit="c1", build="b1")
    one = series([*records, again])
    assert one.commits == [f"c{k}" for k in range(10)] and one.at == sorted(one.at) and one.at.count(1) == 4
    assert [one.commit(c.at) for c in one.found.changes] == [4]
    assert "first bad commit c4 " in trend.verdict(one)


@pytest.mark.parametrize("key,value", [("kernels", "avx2"), ("lammps", "29 Aug 2024"), ("precision", "mixed")])
def test_what_cannot_be_compared_is_another_series(key, value):
    records = [record(k, 3.0 if k % 2 else 4.0, **{key: value} if k % 2 else {}) for k in range(20)]
    found = trend.all_series({"machine": records})
    assert len(found) == 2 and all(not s.found.changes for s in found)
    assert any(value in s.label for s in found), [s.label for s in found]
    other = [record(k, 3.0, settings={**SETTINGS, "steps": 100 + k % 2}) for k in range(4)]
    assert len(trend.all_series({"machine": other})) == 2


def test_counted_instructions_are_judged_apart():
    """Noisy times say nothing; 1.5 % more instructions do, and 0.8 %, within what a count repeats to, do not."""
    for size, at in ((1.015, [12]), (1.008, [])):
        counts = [1000.0 * (1 + 5e-4 * (k % 3)) * (size if k >= 12 else 1) for k in range(24)]
        work = [{"kernels": "avx2", "instructions_per_atom": c} for c in counts]
        found = trend.all_series({"m": [record(k, 3 + k % 5, quiet=False, work=w) for k, w in enumerate(work)]})
        times, instructions = sorted(found, key=lambda s: s.what == trend.WORK)
        assert not times.found.changes and not times.judged
        assert [c.at for c in instructions.found.changes] == at and len(instructions.judged) == 24


# ---- the file ------------------------------------------------------------------------------------------------------


def test_appended_records_are_read(tmp_path):
    path = tmp_path / "h" / "machine.jsonl"
    assert history.append(str(path), [record(0), record(1, 3.1)]) == 2
    assert history.append(str(path), [record(1, 3.1), record(2)]) == 1, "what is there is not written again"
    records, torn = history.read(str(path))
    assert records == [record(0), record(1, 3.1), record(2)] and not torn
    grown = {**record(1, 3.1, commit="later"), "interval": 0.005}  # the suite went on, when HEAD was another
    assert history.append(str(path), [grown]) == 1
    assert history.read(str(path))[0][1] == {**grown, "commit": record(1)["commit"]}
    assert path.read_text().count("\n") == 4


def _append(path, first):
    for k in range(first, first + 20):
        history.append(path, [record(k, case=c) for c in "ab"])


def test_two_at_once(tmp_path):
    path = str(tmp_path / "m.jsonl")
    both = [multiprocessing.Process(target=_append, args=(path, k)) for k in (0, 20)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    records, torn = history.read(path)
    assert len(records) == 80 and not torn


@pytest.mark.parametrize("left", [1, 3, 30, 200])
def test_a_torn_line_loses_nothing_else(left, tmp_path, capsys):
    """A run that was killed leaves a part of a line; the next begins a line of its own."""
    path = tmp_path / "m.jsonl"
    history.append(str(path), [record(k) for k in range(3)])
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(record(3))[:left])
    assert [r["date"] for r in history.read(str(path))[0]] == [record(k)["date"] for k in range(3)]
    history.append(str(path), [record(4)])
    records, torn = history.read(str(path))
    assert len(records) == 4 and records[-1] == record(4) and torn == [4]
    assert report.main([str(path)]) == 0
    out = capsys.readouterr()
    assert "line 4: incomplete" in out.err and "4 records" in out.out


@pytest.mark.parametrize(
    "content,reason",
    [
        (b"hello\n", "line 1 is no record of `mlff bench --history`: give --history another folder"),
        (b'{"a": 1}\n', "line 1 is no record"),
        (b"[1]\n", "line 1 is no record"),
        (b"\xff\xfe\x00\x01", "is no text"),
        (json.dumps(record(0)).encode() + b"\nhello\n", "line 2 is no record"),
        (json.dumps({**record(0), "format": "mlff-history/9"}).encode(), "has the format mlff-history/9"),
        (json.dumps({k: v for k, v in record(0).items() if k != "commit"}).encode(), "line 1 has no `commit`"),
        (b"", "holds no record yet"),
    ],
)
def test_a_file_that_is_no_history(content, reason, tmp_path, capsys):
    path = tmp_path / "m.jsonl"
    path.write_bytes(content)
    assert report.main([str(path)]) == 2
    error = capsys.readouterr().err
    assert reason in error and str(path) in error and error.count("\n") == 1, error
    if content:
        with pytest.raises(ProfileError):
            history.append(str(path), [record(0)])
        assert path.read_bytes() == content, "it is left as it was"
    write(tmp_path / "a.json", full())  # beside reports it is a warning
    assert report.main([str(tmp_path)]) == 0
    assert reason in capsys.readouterr().err


def test_the_machine_is_named_without_its_name(monkeypatch):
    name = history.machine()
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]+", name) and name == history.machine()
    assert f"-{os.cpu_count()}-processors-" in name
    monkeypatch.setattr(history.os, "cpu_count", lambda: 77)
    assert history.machine() != name


def test_the_commit_of_a_build(tmp_path):
    """That of the working tree; results that a suite wrote there make it no other; without one, an error that helps."""
    plugin = tmp_path / "tree" / "build" / "mlffplugin.so"
    plugin.parent.mkdir(parents=True)
    plugin.write_bytes(b"a plugin")
    with pytest.raises(LammpsError, match="tells no commit.*--commit"):
        history.build_of(str(plugin), None)
    named = history.build_of(str(plugin), "v1.2")
    assert (named.commit, named.dirty) == ("v1.2", False) and len(named.digest) == 16
    with pytest.raises(LammpsError, match="--commit is empty"):
        history.build_of(str(plugin), "")
    tree, kept = plugin.parent.parent, plugin.parent.parent / "history" / "m.jsonl"
    kept.parent.mkdir()
    for path in (tree / "a.c", kept):
        path.write_text("1")
    git = ["git", "-C", tree, "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "a.c", "history"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert history.build_of(str(plugin), None)[:2] == (head, False)
    kept.write_text("2")
    assert history.build_of(str(plugin), None, (str(tree / "history"), None)).dirty is False
    (tree / "a.c").write_text("2")
    assert history.build_of(str(plugin), None, (str(tree / "history"),)).dirty is True


# ---- the page ------------------------------------------------------------------------------------------------------


def test_the_page_of_many_commits(tmp_path, capsys):
    """200 commits: small, well-formed, every measurement drawn, the bad commit marked and named here as well."""
    values = step(200, at=150, size=0.06, noise=0.01, seed=1)
    records = [record(k, v, quiet=k % 10 != 3, model="<b>") for k, v in enumerate(values)]
    history.append(str(tmp_path / "machine.jsonl"), [{**r, "case": "<i>water"} for r in records])
    history.append(str(tmp_path / "machine.jsonl"), [record(k, 2.0, case="calm") for k in range(8)])
    assert report.main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"<i>water, time: first bad commit 00000096a \(2026-11-07\).*\+[56]\.\d ± 0\.\d %", out), out
    assert "not judged: 20 on a noisy machine" in out and "1 of 2 series: no change beyond noise" in out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(page) < 45000 and "<script" not in page and "<i>water" not in page and not re.search("https?://", page)
    pictures = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(pictures) == 2
    for picture in pictures:
        ElementTree.fromstring(picture)
        assert "nan" not in picture and "inf" not in picture
    marks = re.findall(r'<path class="d small (\w+)" d="([^"]*)"', pictures[0])
    drawn = {css: path.count("h0") for css, path in marks}
    assert drawn == {"c7": 20, "hole": 20, "c0": 180}
    assert pictures[0].count('class="rule bad"') == 1 and 'class="rule bad"' not in pictures[1]
    labels = [(float(x), text) for x, text in re.findall(r'<text x="([\d.]+)" y="195" [^>]*>(\w+)<', pictures[0])]
    assert 4 <= len(labels) <= 7
    assert all(b - a > 3.2 * (len(s) + len(t)) for (a, s), (b, t) in zip(labels, labels[1:])), "labels overlap"
    assert re.search(r'banner bad">&lt;i&gt;water, time: first bad commit 00000096a', page)
    assert 'href="#trend"' in page and 'href="#runs"' not in page


def test_an_outlier_does_not_flatten_the_chart(tmp_path):
    one = series([record(k, 300.0 if k == 9 else v) for k, v in enumerate(step(20, at=20, noise=0.005))])
    (low, high), beyond = trend.y_range(one)
    assert beyond == 1 and 2 < low < high < 4
    heights = [float(y) for y in re.findall(r"M[\d.]+ ([\d.]+)h0", trend.chart(one))]
    assert len(heights) == 20 and min(heights) >= 10 and max(heights) <= 180, "within the axes"
    assert "1 beyond the scale" in trend.chart(one)


def test_beside_reports_and_short_ones(tmp_path, capsys):
    """In a folder of reports the trend is a section of their page; three measurements are too short to say."""
    write(tmp_path / "a.json", full())
    history.append(str(tmp_path / "h" / "machine.jsonl"), [record(k) for k in range(3)])
    assert report.main([str(tmp_path)]) == 0
    assert "time: too short to say: 3 measurements to judge by, and 4 are needed" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for anchor in re.findall(r'href="#(\w+)"', page):
        assert f'id="{anchor}"' in page
    assert 'id="trend"' in page and 'id="runs"' in page and "1 report, 3 records of" in page
