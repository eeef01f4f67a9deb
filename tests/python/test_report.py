"""The HTML report shows the contents of the reports, is well-formed and self-contained, and a browser draws it."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import profile_samples
import pytest
from profile_samples import bare, full, write

from mlff_tools.report import charts, style
from mlff_tools.report import page as report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make(folder):
    """A folder of reports, written as a page. Returns the page's text."""
    assert report.main([str(folder)]) == 0
    return (folder / "report.html").read_text(encoding="utf-8")


class Balance(html.parser.HTMLParser):
    """Remembers tags that were closed wrongly or never."""

    VOID = {"meta", "br", "circle", "line", "polyline", "polygon", "rect"}

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID or tag in ("rect", "circle") and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "student.json", full("s64", "student", 64, 0.5, system="water", protocol="nvt"))
    write(tmp_path / "student2.json", full("s192", "student", 192, 1.5, seed=2, system="water", protocol="nvt"))
    write(tmp_path / "sub" / "teacher.json", full("t64", "teacher", 64, 5.0, seed=3, system="water", protocol="nvt"))
    write(tmp_path / "bare.json", bare())
    return tmp_path


def test_page_is_sound(folder):
    page = make(folder)
    checker = Balance()
    checker.feed(page)
    assert not checker.wrong and not checker.open, (checker.wrong, checker.open)
    pictures = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(pictures) > 12
    for picture in pictures:
        ElementTree.fromstring(picture)
        numbers = re.findall(r'(?:x|y|x1|x2|y1|y2|cx|cy|width|height|points)="([^"]*)"', picture)
        assert "nan" not in " ".join(numbers) and "inf" not in " ".join(numbers)
    assert not re.search(r"https?://|<script|@import|url\(|src=", page), "the page must not need a network or scripts"
    for anchor in re.findall(r'href="#(\w+)"', page):
        assert f'id="{anchor}"' in page, f"the link to {anchor} leads nowhere"


def test_numbers_are_those_of_the_reports(folder):
    page = make(folder)
    for name in ("student", "student2", "sub/teacher"):
        value = json.loads((folder / f"{name}.json").read_text())
        assert f">{charts.short(value['median_latency_ms'])}<" in page
        assert f">{charts.short(value['us_per_atom'])}<" in page
    teacher, student = (
        json.loads((folder / f"{n}.json").read_text())["median_latency_ms"] for n in ("sub/teacher", "student")
    )
    assert f"{teacher / student:.2f}x" in page, "teacher against student, on equal work"


def scaling_row(box, ranks, n_atoms, ms, efficiency):
    return {
        "box": box,
        "ranks": ranks,
        "n_atoms": n_atoms,
        "median_ms": ms,
        "efficiency": efficiency,
        "exchange_ms": 0.25,
    }


def test_scaling_reports_are_shown(folder):
    """Files of `mlff scaling` next to the reports: charts, tables, and the results of checks."""
    head = {"format": "mlff-scaling/1", "model": "student", "context": {"cpu": "a <cpu>"}, "timestamp": "today"}
    rows = [scaling_row("1x1x1", 1, 192, 2.5, 1.0), scaling_row("1x1x1", 2, 192, 1.6, 0.78125)]
    rows.append(scaling_row("1x1x1", 8, 192, 99.0, None))
    check = {"ranks": 8, "n_atoms": 192, "passed": False, "force": 0.125}
    write(folder / "student_scaling_strong.json", {**head, "mode": "strong", "rows": rows, "checks": [check]})
    copies = [
        {"replicas": n, "n_atoms": 12 * n, "replica_steps_per_second": 4321.0 * n, "cost_against_one": c}
        for n, c in ((1, 1.0), (4, 0.75))
    ]
    write(folder / "student_scaling_replicas.json", {**head, "mode": "replicas", "rows": copies, "checks": []})
    page = make(folder)
    checker = Balance()
    checker.feed(page)
    assert not checker.wrong and not checker.open, (checker.wrong, checker.open)
    section = page[page.index('id="ranks"') : page.index('id="components"')]
    assert len(re.findall("<svg", section)) == 4 and "a &lt;cpu&gt;" in section
    assert "0.7812" in section and "17284" in section and "not measured" in section
    assert "8 ranks, 192 atoms" in section and "<b>differs from</b> one rank within 1.2e-01" in section
    assert "Not read" not in page and 'href="#ranks"' in page


def test_null_is_not_zero(tmp_path):
    write(tmp_path / "bare.json", bare())
    page = make(tmp_path)
    row = re.search(r"<tbody><tr>(.*?)</tr>", page, re.S).group(1)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)
    assert sum("not measured" in c for c in cells) == 8, (
        cells
    )  # atoms, cost, ns/day, memory, its verdict, drift, ensemble, targets
    assert not any(re.fullmatch(r"0(\.0*)?", re.sub("<.*?>", "", c)) for c in cells)
    assert "Memory and energy over time</h2><p>Not measured" in page


def test_errors_of_the_stress(tmp_path):
    """They are shown next to those of the forces. Reports of earlier versions have none."""
    measured = full("s64", "student", 64, 0.5)
    measured["accuracy"].update(stress_rmse=0.04375, pressure_rmse=77.0, pressure_bias=-61.25)
    write(tmp_path / "measured.json", measured)
    write(tmp_path / "earlier.json", full("t64", "student", 64, 0.5))
    page = make(tmp_path)
    section = page[page.index('id="compare"') :]
    rows = [r for r in re.findall(r"<tr>(.*?)</tr>", section, re.S) if ">teacher<" in r]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)[9:11] for row in rows]
    assert ["0.04375", "-61.25"] in cells, cells
    assert any(all("not measured" in c for c in pair) for pair in cells), cells


def test_validations_are_named(tmp_path):
    """Each with its verdict; a short one is neither good nor bad."""
    write(tmp_path / "bare.json", bare())
    one = {"format": "mlff-validation/1", "model": "m.yaml", "picoseconds": 100.0, "failures": []}
    write(tmp_path / "a" / "validation.json", {**one, "structure": "benzene", "verdict": "PASS"})
    write(tmp_path / "b" / "validation.json", {**one, "structure": "ice", "verdict": "FAIL", "failures": ["it broke"]})
    write(tmp_path / "c" / "validation.json", {**one, "structure": "steam", "verdict": "too short to say"})
    page = make(tmp_path)
    for css, what, word in (
        ("good", "benzene", "PASS"),
        ("bad", "ice", "FAIL: it broke"),
        ("", "steam", "too short to"),
    ):
        assert f'"banner {css}">NVE validation of m.yaml, {what}: <b>{word}' in page, what


def test_runs_of_one_model_are_told_apart(tmp_path):
    """By their names, and by their files where the names are the same: in the summary, in the conditions, in the chart
    of the tails, each with a colour of its own."""
    for k, name in enumerate(("before", "after")):
        write(tmp_path / f"{name}.json", full(name, "student", 64, 1.0, seed=k, system="water", protocol="nvt"))
    for k in range(2):
        write(tmp_path / "same" / f"{k}.json", full("run", "student", 192, 1.0, seed=k, system="water", protocol="nvt"))
    page = make(tmp_path)
    summary = page[page.index('id="runs"') : page.index('id="latency"')]
    for which in ("before", "after", "same/0.json", "same/1.json"):
        assert f"<small>{which}</small>" in summary and f"student · {which}<" in page, which
        file = which if "/" in which else which + ".json"
        assert f'<td class="t wrap">file</td><td class="t wrap">{file}<' in page, "the conditions name the file"
    assert len(set(re.findall(r'class="k (c\d)"', summary))) == 4
    tails = re.search(r"<figure class=wide>.*?</figure>", page, re.S)[0]
    keys = re.findall(r'class="k (c\d)"></i>([^<]*)<', tails)
    assert len(keys) == len(set(keys)) == 2, keys
    (tmp_path / "alone").mkdir()
    write(tmp_path / "alone" / "a.json", full("before", "student", 64, 1.0))
    page = make(tmp_path / "alone")
    rows = page[page.index("<tbody>") : page.index("</tbody>")]
    assert "<small>" not in rows and "before" not in rows, "one run needs no name"


def test_title_says_what_was_run(folder):
    page = make(folder)
    title = re.search(r"<title>(.*?)</title>", page)[1]
    assert title == re.search(r"<h1>(.*?)</h1>", page)[1]
    assert "student, teacher" in title and "water, 64 to 192 atoms" in title, title
    for k in range(5):
        write(folder / f"m{k}.json", full("r", f"model{k}", 64, 1.0))
    assert "and 5 more:" in re.search(r"<h1>(.*?)</h1>", make(folder))[1]


@pytest.mark.parametrize("end", ["\n]\n", ",\n{"], ids=["whole", "killed"])
def test_a_trace_is_named(end, tmp_path, capsys):
    """A file of the keyword `trace` is not a broken report: the page names it and the program that opens it."""
    write(tmp_path / "a.json", full())
    (tmp_path / "t.json").write_text('[\n{"ph": "X", "name": "step", "pid": 0, "tid": 0, "ts": 0, "dur": 1}' + end)
    page = make(tmp_path)
    said = capsys.readouterr()
    assert "Not drawn: t.json, a trace; ui.perfetto.dev opens it" in page and "Not read" not in page
    assert "t.json: a trace, not drawn here" in said.out and "warning" not in said.err


def test_names_are_escaped(tmp_path):
    write(tmp_path / "a.json", full("<b>x</b>", '<script>alert("1")</script>'))
    page = make(tmp_path)
    assert "<script" not in page and "&lt;script&gt;" in page


def test_suite_shows_one_of_the_repeats(tmp_path):
    rows = []
    for model, scale in (("a", 1.0), ("b", 3.0)):
        for k in (1, 2, 3):
            write(tmp_path / "runs" / f"w-{model}.r{k}.json", full(f"w-{model}", model, 64, scale + 0.1 * k, seed=k))
        rows.append(
            {
                "case": f"w-{model}",
                "work": "w",
                "potential": model,
                "system": "water",
                "protocol": "nvt",
                "file": f"runs/w-{model}.r2.json",
            }
        )
        write(tmp_path / "work" / f"w-{model}.json", full(f"w-{model}", model, 64, 9.0, seed=9))  # of --count
    write(
        tmp_path / "suite.json",
        {"format": "mlff-bench/1", "cases": rows, "quiet": False, "noise": "THE MACHINE WAS TOO NOISY: really"},
    )
    shutil.copy(tmp_path / "runs" / "w-a.r2.json", tmp_path / "a_profile.json")
    page = make(tmp_path)
    assert page.count("<details") == 2, "repeats and copies are not runs of their own"
    assert "THE MACHINE WAS TOO NOISY" in page


@pytest.mark.parametrize(
    "content,reason",
    [
        (None, "no such folder"),
        ({}, "holds no report"),
        ({"x.json": "{"}, "x.json"),
        ({"x.json": '{"a": 1}'}, "not a report of mlffprof"),
        ({"x.json": json.dumps({**bare(), "schema_version": 99})}, "schema version 99"),
    ],
)
def test_bad_folder(content, reason, tmp_path, capsys):
    folder = tmp_path / "in"
    if content is not None:
        folder.mkdir()
        for name, text in content.items():
            (folder / name).write_text(text)
    assert report.main([str(folder)]) == 2
    error = capsys.readouterr().err
    assert reason in error and "Traceback" not in error, error
    assert not (folder / "report.html").exists()


def test_unwritable_page(folder, capsys):
    assert report.main([str(folder), "-o", str(folder / "student.json" / "x.html")]) == 2
    assert "error" in capsys.readouterr().err
    assert report.main([str(folder), "-o", str(folder / "none" / "x.html")]) == 2
    assert "there is no folder" in capsys.readouterr().err and not (folder / "none").exists()


def test_a_lone_chart_keeps_its_width(tmp_path):
    """A section with one chart does not stretch it over the page."""
    if not browser():
        pytest.skip("no Chromium here: apt-get install chromium")
    one = full("s64", "student", 64, 0.5)
    one["latencies_ms"] = []
    write(tmp_path / "a.json", one)
    page = make(tmp_path)
    ask = (
        "<script>document.title = [...document.querySelectorAll('.charts')].map(c => [...c.querySelectorAll("
        "'figure:not(.wide)')].map(f => Math.round(f.getBoundingClientRect().width)).join(' ')).join(';')</script>"
    )
    (tmp_path / "asked.html").write_text(page.replace("</body>", ask + "</body>"), encoding="utf-8")
    done = draw(tmp_path, "--window-size=1280,2000", "--dump-dom", f"file://{tmp_path / 'asked.html'}")
    widths = [row.split() for row in re.search(r"<title>(.*?)</title>", done.stdout)[1].split(";")]
    assert any(len(row) == 1 for row in widths), widths
    assert {float(w) < 620 for row in widths for w in row if w != "0"} == {True}, widths


def draw(place, *options):
    """Runs the browser without a window."""
    quiet = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    return subprocess.run(
        [browser(), *quiet, f"--user-data-dir={place / 'profile'}", *options],
        check=False,
        timeout=180,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HOME": str(place)},
    )


def drawing_modules():
    for place in ("python", "benchmarks", "scripts"):
        for folder, _, names in os.walk(os.path.join(ROOT, place)):
            for name in (n for n in names if n.endswith(".py")):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    if re.search(r"matplotlib|style\.drawing", f.read()):
                        yield os.path.relpath(os.path.join(folder, name), ROOT)


def test_pictures_have_one_style(tmp_path):
    """All that draw with matplotlib do it in the style of this page, but for mlff.Report.plot, whose axes are the
    caller's; the same numbers give the same bytes."""
    modules = sorted(drawing_modules())
    assert "scripts/demo.py" in modules and "python/mlff_tools/bench/scaling.py" in modules
    for module in modules:
        if module not in ("python/mlff_tools/report/style.py", "python/mlff/report.py"):
            with open(os.path.join(ROOT, module), encoding="utf-8") as f:
                assert not re.search(r"import matplotlib|from matplotlib|pyplot", f.read()), module
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        with style.drawing(tmp_path / name, (4, 3)) as axes:
            axes.plot([1, 2], [3, 4])
    drawn = (tmp_path / "a.svg").read_bytes()
    assert drawn == (tmp_path / "b.svg").read_bytes() and style.STUDENT.encode() in drawn
    assert len(style.CURVES) == 8 and f"--c0: {style.STUDENT}" in style.CSS


def test_quantiles_and_ticks():
    values = np.random.default_rng(3).gamma(2.0, size=1001)
    for share in (0.0, 0.5, 0.95, 0.99, 1.0):
        assert charts.quantile(sorted(values), share) == pytest.approx(np.quantile(values, share), rel=1e-12)
    for low, high in ((0, 1), (0.013, 0.0141), (-5e-7, 3e-6), (1e6, 3.3e6)):
        ticks = charts.linear_ticks(low, high)
        assert 3 <= len(ticks) <= 11 and min(ticks) >= low - 1e-9 * abs(high) and max(ticks) <= high * (1 + 1e-9)
    assert (
        charts.short(0.00012345) == "0.000123"
        and charts.short(1234.5) in ("1234", "1235")
        and charts.short(0.5) == "0.5"
    )


def test_histogram_counts_every_step():
    values = np.random.default_rng(4).gamma(2.0, size=777).tolist()
    picture = charts.histogram(values, "c0", "t")
    assert sum(int(n) for n in re.findall(r"ms: (\d+) steps", picture)) == 777


def test_constant_latency_can_be_drawn(tmp_path):
    value = {**full(), "slow_steps": [], "components": []}
    for name, n in (("a", 50), ("b", 1)):
        made = profile_samples.latencies(np.ones(n), 64)
        made.update(std_latency_ms=0.0, cv=0.0)
        write(tmp_path / f"{name}.json", {**value, **made, "n_steps": n})
    value["latencies_ms"] = []
    write(tmp_path / "c.json", value)
    make(tmp_path)


def browser():
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


@pytest.mark.parametrize("width,height,media", [(1280, 2000, "screen"), (500, 3000, "screen"), (1032, 2000, "print")])
def test_a_browser_draws_it(folder, tmp_path, width, height, media):
    """On a screen, on a telephone, and as it is printed on A4: it is drawn, and nothing runs over the right margin."""
    if not browser():
        pytest.skip("no Chromium here: apt-get install chromium")
    page = make(folder)
    if media == "print":  # what would be printed, as a picture
        (folder / "report.html").write_text(re.sub(r"@page {[^}]*}", "", page).replace("@media print", "@media all"))
    picture = tmp_path / "page.png"
    draw(tmp_path, f"--screenshot={picture}", f"--window-size={width},{height}", f"file://{folder / 'report.html'}")
    assert picture.exists(), "the browser made no picture"
    from PIL import Image

    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    assert pixels.shape[:2] == (height, width)
    paper = pixels[:, :3].reshape(-1, 3).max(0) if media == "print" else pixels[3, 3]
    inked = (np.abs(pixels - paper).sum(2) > 60).mean(1) > 0
    assert inked.mean() > 0.4, "most of the page is empty"
    if media == "screen":
        assert (np.abs(pixels[:, -18:] - paper).sum(2) < 60).all(), "something runs over the right margin"
