"""docs/gallery.md: its commands that need no run work as they stand, and every picture has its command."""

import os
import re
import shlex

import pytest

pytest.importorskip("matplotlib")

from mlff_tools.report import plot

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "docs", "gallery.md"), encoding="utf-8") as _f:
    PAGE = _f.read()
COMMANDS = re.findall(r"^mlff plot (.*) -o (\S+)$", PAGE, re.M)


def test_pictures():
    shown = re.findall(r"\]\(images/(\S+)\)", PAGE)
    assert shown == [name for _, name in COMMANDS] and len(shown) >= 5
    for name in shown:
        assert os.path.getsize(os.path.join(ROOT, "docs", "images", name)) > 10000


@pytest.mark.parametrize("words, name", [c for c in COMMANDS if "/" in c[0]])
def test_commands(words, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert plot.main([*shlex.split(words), "-o", str(tmp_path / name)]) == 0, capsys.readouterr().err
    panels = [path.read_text(encoding="utf-8").count('id="axes_') for path in (tmp_path / name,)]
    with open(os.path.join(ROOT, "docs", "images", name), encoding="utf-8") as f:
        assert panels == [f.read().count('id="axes_')] and panels[0] > 0
