"""The documentation site builds without a warning: links and anchors lead somewhere, the contents have every page."""

import glob
import importlib.util
import os
import re
import subprocess
import sys

import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = ("sphinx", "myst_parser", "sphinx_external_toc", "furo", "sphinx_copybutton", "sphinx_gallery")


def build(source, place):
    """(exit code, what Sphinx said)"""
    missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: scripts/setup.sh site, with Python 3.11 or newer")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-c", os.path.join(source, "docs"), "-d", str(place / "doctrees"), source, str(place / "site")]
    done = processes.merged(command)
    return done.returncode, done.stdout


def tracked():
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [path for path in done.stdout.split() if not path.startswith(".github/")]  # forms, not pages


def test_site(tmp_path):
    code, said = build(ROOT, tmp_path)
    assert code == 0 and not said.strip(), said[-4000:]
    site = tmp_path / "site"
    pages = [path for path in tracked() if os.path.exists(os.path.join(ROOT, path))]
    absent = [path for path in pages if not (site / path).with_suffix(".html").exists()]
    assert len(pages) > 30 and not absent, f"pages that the site lacks: {absent}"
    assert "url=README.html" in (site / "index.html").read_text(encoding="utf-8")
    assert '"docs/pair_mlff"' in (site / "searchindex.js").read_text(encoding="utf-8"), "pages cannot be searched"
    front = (site / "README.html").read_text(encoding="utf-8")
    scripts = glob.glob(os.path.join(ROOT, "examples", "python", "*.py"))
    assert len(scripts) == 5
    for path in scripts:
        name = os.path.basename(path)[:-3]
        text = (site / "docs" / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        assert "sphx-glr-script-out" in text and "sphx_glr_" in text, f"{name} was not run, or has no picture"
        assert list((site / "_downloads").glob(f"*/{name}.ipynb"))
    assert "docs/tutorials/my-molecule.html" in front and re.search(r'<img[^>]*src="_images/demo', front)


def test_links_have_words():
    """A reader sees the title of a page, not the name of its file."""
    found = []
    for path in tracked():
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            found += [f"{path}: {m}" for m in re.findall(r"\[`?[\w./-]+\.md`?\]\([^)]*\)", f.read())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("[x](none.md)", "none.md"),
        ("[x](#no-such-heading)", "no-such-heading"),
        ("[x](docs/second.md#no-such-heading)", "no-such-heading"),
        ("![x](docs/none.png)", "image file not readable"),
    ],
)
def test_broken_links_are_missed(text, reason, tmp_path):
    """The same configuration on a small source whose README has one broken link."""
    docs = tmp_path / "docs"
    docs.mkdir()
    with open(os.path.join(ROOT, "docs", "conf.py"), encoding="utf-8") as f:
        (docs / "conf.py").write_text(f.read(), encoding="utf-8")
    (docs / "toc.yml").write_text("root: README\nsubtrees:\n  - entries:\n      - file: docs/second\n")
    (tmp_path / "CMakeLists.txt").write_text("project(mlff VERSION 1.0)\n")
    (tmp_path / "README.md").write_text(f"# First\n\n[good](docs/second.md#a-heading)\n\n{text}\n")
    (docs / "second.md").write_text("# Second\n\n## A heading\n")
    code, said = build(str(tmp_path), tmp_path)
    assert code != 0 and reason in said, said
