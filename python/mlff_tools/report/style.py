"""One style for all pictures: the colours of report.css, for charts as SVG and for figures of matplotlib."""

import contextlib
import io
import os
import re

from ..model.files import write_bytes

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "report.css"), encoding="utf-8") as _file:
    CSS = _file.read()
COLOURS = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", CSS[: CSS.index("}")]))  # on white; those on black follow
CURVES = tuple(COLOURS[f"c{k}"] for k in range(8))
STUDENT, TEACHER = CURVES[:2]
DPI = 200
UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def _settings():
    from cycler import cycler

    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # it comes with matplotlib: the same picture everywhere
        "font.size": 8.5,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.edgecolor": COLOURS["soft"],
        "axes.labelcolor": COLOURS["ink"],
        "axes.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=CURVES),
        "xtick.color": COLOURS["soft"],
        "ytick.color": COLOURS["soft"],
        "text.color": COLOURS["ink"],
        "lines.linewidth": 1.35,
        "lines.markersize": 4,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "svg.hashsalt": "mlff",
    }


@contextlib.contextmanager
def drawing(path, size, rows=1, columns=1, **options):
    """Axes of a figure of `size` inches, as Figure.subplots gives them, to draw on; afterwards it is in `path`, the
    same bytes for the same numbers. Needs matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_settings()):
        figure = Figure(figsize=size, layout="constrained")
        yield figure.subplots(rows, columns, **options)
        data, kind = io.BytesIO(), os.path.splitext(path)[1][1:]
        figure.savefig(data, format=kind, dpi=DPI, metadata=UNDATED.get(kind))
    write_bytes(path, data.getvalue())
