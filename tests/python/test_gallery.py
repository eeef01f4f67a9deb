"""docs/gallery.md: its commands that need no run work as they stand, and every picture has its command."""

import pathlib
import re
import shlex

import pytest

pytest.importorskip("matplotlib")

from mlff_tools.report import plot

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^mlff plot (.*) -o (\S+)$", PAGE, re.M)


def test_pictures():
    shown = re.findall(r"\]\(images/(\S+)\)", PAGE)
    assert shown == [name for _, name in COMMANDS] and len(shown) >= 5
    assert all((IMAGES / name).stat().st_size > 10000 for name in shown)


@pytest.mark.parametrize("words, name", [c for c in COMMANDS if "/" in c[0]])
def test_commands(words, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert plot.main([*shlex.split(words), "-o", str(tmp_path / name)]) == 0, capsys.readouterr().err
    made, shown = ((folder / name).read_text(encoding="utf-8").count('id="axes_') for folder in (tmp_path, IMAGES))
    assert made == shown > 0
