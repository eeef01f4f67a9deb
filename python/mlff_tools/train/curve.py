"""The learning curve of a training run as CSV and as a picture (SVG)."""

import math

from ..model.files import write_bytes
from ..report import charts
from ..report.style import COLOURS, CURVES

INK, SOFT, HAIR = (COLOURS[name] for name in ("ink", "soft", "hair"))
STYLE = f"""svg {{ background: #fff; font-family: sans-serif; }} svg text {{ font-size: 10.5px; fill: {SOFT}; }}
svg text.name {{ fill: {INK}; }} svg .grid {{ stroke: {HAIR}; }} svg .axis, svg .tick {{ stroke: {SOFT}; }}
svg .l {{ fill: none; stroke: currentColor; stroke-width: 1.35; }} svg .f {{ fill: currentColor; }}
.c0 {{ color: {CURVES[0]}; }} .c1 {{ color: {CURVES[1]}; }}"""
PANELS = (
    ("force_rmse", "forces, meV/A", 1000.0),
    ("energy_rmse", "energies, meV/atom", 1000.0),
    ("stress_rmse", "stress, GPa", 1.0),
)
WIDTH, HEIGHT = 520, 230


def write_csv(path, history):
    """The learning curve as CSV."""
    if not history:
        return
    lines = [",".join(history[0])]
    lines += [",".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()) for row in history]
    write_bytes(path, ("\n".join(lines) + "\n").encode("ascii"))


def _panel(history, key, label, factor):
    """The marks of one chart, or None without two positive values."""
    drawn = []
    for name, css, text in ((f"{key}_all", "c0", "validation"), (f"train_{key}", "c1", "training")):
        points = [(row["step"], factor * row[name]) for row in history if row.get(name)]
        points = [(x, y) for x, y in points if math.isfinite(y)]
        if points:
            drawn.append((points, css, text))
    values = [y for points, _, _ in drawn for _, y in points if y > 0]
    if len(history) < 2 or not values:
        return None
    low, high = 0.9 * min(values), 1.1 * max(values)
    plot = charts.Plot(
        (0, history[-1]["step"]), (low, high), "step", label, log_y=True, width=WIDTH, height=HEIGHT, title=label
    )
    for points, css, text in drawn:
        plot.line([x for x, _ in points], [y for _, y in points], css, key=text)
    return plot


def picture(history):
    """The text of an SVG with the errors of forces, energies and stress over the steps; None before two points."""
    plots = [plot for plot in (_panel(history, *panel) for panel in PANELS) if plot]
    if not plots:
        return None
    parts = []
    for k, plot in enumerate(plots):
        keys = "".join(
            f'<text class="{css}" x="{WIDTH - 90}" y="{24 + 14 * n}" style="fill: currentColor">{charts.text(label)}'
            "</text>"
            for n, (css, label) in enumerate(plot.keys)
        )
        parts.append(f'<g transform="translate(0 {k * HEIGHT})">{plot.content()}{keys}</g>')
    size = f'width="{WIDTH}" height="{HEIGHT * len(plots)}" viewBox="0 0 {WIDTH} {HEIGHT * len(plots)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>\n{"".join(parts)}\n</svg>\n'


def write(path, history):
    """PATH.csv and PATH.svg."""
    write_csv(path + ".csv", history)
    drawn = picture(history)
    if drawn:
        write_bytes(path + ".svg", drawn.encode("utf-8"))
