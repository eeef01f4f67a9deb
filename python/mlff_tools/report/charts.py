"""Charts as inline SVG for the HTML report: axes with units, lines, bars, histograms. Colours come from the page's CSS
(classes c0 ... c7), so that one picture serves light, dark and print. Bars and histograms start at 0; logarithmic axes
say so.
"""

import html
import math

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 36  # margins around the plot area, px


def text(value):
    """Escaped for HTML and SVG."""
    return html.escape(str(value), quote=True)


GREEK = {"G": "Γ"}  # wave vectors
SMOOTH = 150  # points of a curve that is no noise


def short(value):
    """A number with at most four significant digits, without needless zeros."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
        return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
    return f"{value:.3g}"


def with_error(value, error):
    """Texts of a number and of half of its interval, which has two digits and decides the decimals of both."""
    error = float(f"{error:.2g}")
    digits = 1 - math.floor(math.log10(error)) if error else 99
    if digits > 5:
        return short(value), short(error)
    return tuple(f"{round(v, digits):.{max(0, digits)}f}" for v in (value, error))


def linear_ticks(low, high, wanted=5):
    """Round numbers between low and high, at distances of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low, high):
    """Powers of ten between low and high, with 2 and 5 between them where there is room."""
    a, b = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if b - a <= 3 else (1,)
    return [m * 10.0**k for k in range(a, b + 1) for m in factors if low * 0.999 <= m * 10.0**k <= high * 1.001]


def padded(values, zero=False, share=0.06):
    """Range of the finite values with some room; from 0 on request."""
    values = [v for v in values if v is not None and math.isfinite(v)]
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    room = share * (high - low) or 0.05 * abs(high) or 1.0
    return (min(0.0, low), high + room) if zero else (low - room, high + room)


class Plot:
    """One chart. Give the ranges, add marks, take svg()."""

    def __init__(
        self,
        x,
        y,
        x_label,
        y_label,
        log_x=False,
        log_y=False,
        width=460,
        height=216,
        x_ticks=None,
        title="",
        wide=False,
    ):
        self.wide = wide
        self.width, self.height, self.log_x, self.log_y, self.title = width, height, log_x, log_y, title
        self.x_range, self.y_range = x, y
        self.x_label = x_label + (", log scale" if log_x and x_ticks is None else "")
        self.y_label = y_label + (", log scale" if log_y else "")
        self.x_ticks, self.marks, self.keys = x_ticks, [], []

    def px(self, x):
        low, high = self.x_range
        if self.log_x:
            low, high, x = math.log10(low), math.log10(high), math.log10(x)
        return LEFT + (x - low) / (high - low) * (self.width - LEFT - RIGHT)

    def py(self, y):
        low, high = self.y_range
        if self.log_y:
            low, high, y = math.log10(low), math.log10(high), math.log10(y)
        return self.height - BOTTOM - (y - low) / (high - low) * (self.height - TOP - BOTTOM)

    def line(self, xs, ys, css, dots=False, key=None):
        """A polyline that is broken where a value is missing."""
        pieces, piece = [], []
        for x, y in zip(xs, ys):
            if y is None or not math.isfinite(y):
                pieces, piece = pieces + [piece], []
            else:
                piece.append((self.px(x), self.py(y)))
        for points in [p for p in pieces + [piece] if p]:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            if len(points) > 1:
                self.marks.append(f'<polyline class="l {css}" points="{path}"/>')
            if dots or len(points) == 1:
                self.marks += [f'<circle class="f {css}" cx="{a:.1f}" cy="{b:.1f}" r="2.6"/>' for a, b in points]
        if key:
            self.keys.append((css, key))

    def band(self, xs, lows, highs, css):
        """The area between two curves."""
        points = [(self.px(x), self.py(y)) for x, y in zip(xs, highs)] + [
            (self.px(x), self.py(y)) for x, y in zip(xs[::-1], lows[::-1])
        ]
        self.marks.append(f'<polygon class="b {css}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>')

    def bar(self, x0, x1, y, css, tip=""):
        """A bar from 0 to y between two abscissas."""
        a, b, top, floor = self.px(x0), self.px(x1), self.py(y), self.py(max(0.0, self.y_range[0]))
        inner = f"<title>{text(tip)}</title>" if tip else ""
        self.marks.append(
            f'<rect class="f {css}" x="{a:.2f}" y="{top:.2f}" width="{max(0.3, b - a - 0.6):.2f}" '
            f'height="{max(0.0, floor - top):.2f}">{inner}</rect>'
        )

    def dot(self, x, y, css, tip=""):
        self.marks.append(
            f'<circle class="f {css}" cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" r="2.6"><title>{text(tip)}</title>'
            "</circle>"
        )

    def points(self, xs, ys, css, errors=(), hollow=False, small=False):
        """Many dots, with bars of +- errors, as one path each: a few bytes for a point. What is beyond the range of y
        is drawn at its end."""
        low, high = (self.py(y) for y in self.y_range)
        points = [(self.px(x), min(low, max(high, self.py(y)))) for x, y in zip(xs, ys)]
        ends = [[min(low, max(high, self.py(y + s))) for s in (-e, e)] for y, e in zip(ys, errors)]
        bars = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for (a, _), (b, c) in zip(points, ends) if b != c)
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in points)
        self.marks += [f'<path class="e {css}" d="{bars}"/>'] if bars else []
        kinds = [css, "hole"] if hollow else [css]
        self.marks += [f'<path class="d{" small" * small} {kind}" d="{dots}"/>' for kind in kinds if dots]

    def vertical(self, x, label, css="rule", row=0):
        a = self.px(x)
        anchor = "end" if a > self.width - 90 else "start"
        self.marks.append(
            f'<line class="{css}" x1="{a:.1f}" x2="{a:.1f}" y1="{TOP}" y2="{self.height - BOTTOM}"/>'
            f'<text class="note" x="{a + (-3 if anchor == "end" else 3):.1f}" y="{TOP + 9 + 11 * row}" '
            f'text-anchor="{anchor}">'
            f"{text(label)}</text>"
        )

    def horizontal(self, y, label, css="rule"):
        b = self.py(y)
        self.marks.append(
            f'<line class="{css}" x1="{LEFT}" x2="{self.width - RIGHT}" y1="{b:.1f}" y2="{b:.1f}"/>'
            f'<text class="note" x="{self.width - RIGHT - 2}" y="{b - 3:.1f}" text-anchor="end">{text(label)}</text>'
        )

    def _axes(self):
        bottom, right, out = self.height - BOTTOM, self.width - RIGHT, []
        ticks = self.x_ticks or [(v, short(v)) for v in (log_ticks if self.log_x else linear_ticks)(*self.x_range)]
        taken = -math.inf
        for value, label in ticks:
            a = self.px(value)
            out.append(f'<line class="tick" x1="{a:.1f}" x2="{a:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
            if a - 3.2 * len(label) > taken:  # labels never overlap
                out.append(f'<text x="{a:.1f}" y="{bottom + 15}" text-anchor="middle">{text(label)}</text>')
                taken = a + 3.2 * len(label) + 4
        for value in (log_ticks if self.log_y else linear_ticks)(*self.y_range):
            b = self.py(value)
            out.append(
                f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{b:.1f}" y2="{b:.1f}"/>'
                f'<text x="{LEFT - 5}" y="{b + 3.5:.1f}" text-anchor="end">{text(short(value))}</text>'
            )
        out.append(
            f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
            f'<text class="name" x="{(LEFT + right) / 2:.0f}" y="{self.height - 5}" text-anchor="middle">'
            f"{text(self.x_label)}</text>"
            f'<text class="name" transform="translate(11 {(TOP + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle">'
            f"{text(self.y_label)}</text>"
        )
        return "".join(out)

    def svg(self):
        keys = "".join(f'<span class="key"><i class="k {css}"></i>{text(label)}</span>' for css, label in self.keys)
        return (
            f"<figure{' class=wide' if self.wide else ''}><figcaption>"
            f"{text(self.title)}{'<span class=keys>' + keys + '</span>' if keys else ''}</figcaption>"
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{text(self.title)}">'
            f"{self.content()}</svg></figure>"
        )

    def content(self):
        """What is within the svg element."""
        return self._axes() + "".join(self.marks)


# ---- charts of a report --------------------------------------------------------------------------------------------


def envelope(values, bins):
    """(positions, lowest, middle, highest) of consecutive groups, so that no outlier is lost when thousands are
    drawn."""
    size = max(1, math.ceil(len(values) / bins))
    groups = [sorted(values[k : k + size]) for k in range(0, len(values), size)]
    middles = [min(len(values) - 1, k * size + size / 2) for k in range(len(groups))]
    return middles, [g[0] for g in groups], [g[len(g) // 2] for g in groups], [g[-1] for g in groups]


def quantile(ordered, share):
    """Linear between neighbors, as numpy does."""
    place = share * (len(ordered) - 1)
    k = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    return ordered[k] + (place - k) * (ordered[min(k + 1, len(ordered) - 1)] - ordered[k])


def histogram(values, css, title, marks=(), bins=48):
    """Latencies up to the 99.5th percentile; what lies above is counted in the last bar and said so."""
    ordered = sorted(values)
    low, high = ordered[0], quantile(ordered, 0.995)
    if not high > low:
        low, high = low * 0.95, low * 1.05 or 1.0
    width = (high - low) / bins
    counts = [0] * bins
    above = sum(v > high for v in ordered)
    for v in ordered:
        counts[min(bins - 1, int((v - low) / width))] += 1
    plot = Plot((low, high), padded(counts, zero=True, share=0.16), "time per step (ms)", "steps", title=title)
    for k, n in enumerate(counts):
        if n:
            plot.bar(
                low + k * width,
                low + (k + 1) * width,
                n,
                css,
                f"{short(low + k * width)} to {short(low + (k + 1) * width)} ms: {n} steps",
            )
    for row, (value, label) in enumerate((v, name) for v, name in marks if v is not None and low <= v <= high):
        plot.vertical(value, f"{label} {short(value)}", row=row)
    plural = "s" if above > 1 else ""
    if above:
        plot.x_label += f"; the last bar holds {above} step{plural} up to {short(ordered[-1])} ms"
    return plot.svg()


def series(values, stride, css, title, median=None):
    """Latency over the steps: the median of each group of steps as a line, lowest to highest as a band."""
    middles, low, middle, high = envelope(values, 230)
    steps = [a * stride for a in middles]
    plot = Plot(
        (0, max(1, len(values) * stride)),
        padded(high, zero=True),
        "step after warm-up",
        "time per step (ms)",
        title=title,
    )
    plot.band(steps, low, high, css)
    plot.line(steps, middle, css)
    if median is not None:
        plot.horizontal(median, f"median {short(median)}")
    return plot.svg()


def percentiles(curves, title):
    """curves: [(label, css, latencies)]. Latency over its median against the percentile: a flat line has no tail."""
    finest = max(10.0, max(len(v) for _, _, v in curves))
    ticks = [
        (1 / (1 - p), label)
        for p, label in ((0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"))
        if 1 / (1 - p) <= finest * 1.001
    ]
    shares = [1 - 10 ** (-k / 40) for k in range(12, int(40 * math.log10(finest)) + 1)]
    drawn = []
    for label, css, values in curves:
        ordered = sorted(values)
        middle = quantile(ordered, 0.5) or 1.0
        usable = [s for s in shares if s <= 1 - 1 / len(ordered)]
        drawn.append((label, css, [1 / (1 - s) for s in usable], [quantile(ordered, s) / middle for s in usable]))
    top = max([y for d in drawn for y in d[3]] + [1.5])
    plot = Plot(
        (2, finest),
        (min(0.9, min(y for d in drawn for y in d[3])), top * 1.08),
        "percentile of steps",
        "time per step / median",
        log_x=True,
        log_y=top > 6,
        x_ticks=ticks,
        title=title,
        width=940,
        wide=True,
    )
    for label, css, xs, ys in drawn:
        plot.line(xs, ys, css, key=label)
    return plot.svg()


def lines(curves, x_label, y_label, title, log=False, dots=False, bound=None, zero=False):
    """curves: [(label, css, xs, ys)]. `bound`: (value, label) of a horizontal rule, drawn when it is within reach."""
    xs = [x for c in curves for x in c[2]]
    ys = [y for c in curves for y in c[3] if y is not None]
    if log:
        x_range, y_range = (min(xs) / 1.25, max(xs) * 1.25), (min(ys) / 1.5, max(ys) * 1.5)
    else:
        x_range, y_range = (
            (min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1),
            padded(ys + ([bound[0]] if bound else []), zero=zero),
        )
    plot = Plot(x_range, y_range, x_label, y_label, log_x=log, log_y=log, title=title)
    for label, css, x, y in curves:
        plot.line(x, y, css, dots=dots, key=label if len(curves) > 1 else None)
    if bound:
        plot.horizontal(*bound)
    return plot.svg()


def stacked(rows, title):
    """rows: [(label, [(part, css, milliseconds)])]. Horizontal bars of equal length: shares of a step, with the times
    in tips."""
    height, name, width = 21, 300, 940
    names, out = {}, []
    for k, (label, parts) in enumerate(rows):
        total, x, y = sum(p[2] for p in parts) or 1.0, float(name), 4 + k * height
        out.append(f'<text class="row" x="{name - 8}" y="{y + 12}" text-anchor="end">{text(label)}</text>')
        for part, css, ms in parts:
            w = (width - name - 8) * ms / total
            names.setdefault(part, css)
            out.append(
                f'<rect class="f {css}" x="{x:.1f}" y="{y}" width="{max(0.0, w - 0.8):.1f}" height="{height - 6}">'
                f"<title>{text(part)}: {short(ms)} ms, {100 * ms / total:.1f} %</title></rect>"
            )
            if w > 6 * len(part) + 38:
                out.append(
                    f'<text class="in" x="{x + 5:.1f}" y="{y + 11.5}">{text(part)} {100 * ms / total:.0f} %</text>'
                )
            x += w
    keys = "".join(f'<span class="key"><i class="k {css}"></i>{text(part)}</span>' for part, css in names.items())
    return (
        f'<figure class="wide"><figcaption>{text(title)}<span class="keys">{keys}</span></figcaption>'
        f'<svg viewBox="0 0 {width} {8 + height * len(rows)}" role="img" aria-label="{text(title)}">'
        f"{''.join(out)}</svg></figure>"
    )


def spark(values, css="c0"):
    """The latency series of a row of the table, 0 to 1.6 times the median, what is above cut off."""
    _, _, _, high = envelope(values, 44)
    top = 1.6 * quantile(sorted(values), 0.5) or 1.0
    points = " ".join(f"{2 + 1.75 * k:.1f},{16 - 14 * min(1.0, v / top):.1f}" for k, v in enumerate(high))
    return (
        f'<svg class="spark" viewBox="0 0 80 18" aria-hidden="true"><polyline class="l {css}" points="{points}"/></svg>'
    )
