"""The HTML page of a certificate: verdict, bars, and each measurement with its table and pictures."""

import math
import re

from ..report import charts
from ..report.charts import short, text
from ..report.parts import NOT, number, table
from ..report.style import CSS
from ..train.domain import RANGES
from ..train.recipe_certify import QUANTITIES
from .measurements import ALL

CLASS = {"PASS": "pass", "FAIL": "fail", "too short to say": "warn", "not measured": "warn"}
SIDES = {"model": "c0", "teacher": "c1"}


# Measurements whose quantities are columns of one row for each group
PIVOTED = {
    "errors": ("energy", "forces", "stress", "pressure"),
    "own_runs": ("run_energy", "run_bias", "run_forces", "run_pressure"),
    "uncertainty": ("novel_forces", "flagged"),
}
HEADS = {
    "energy": "energy",
    "forces": "forces",
    "stress": "stress",
    "pressure": "mean pressure",
    "run_energy": "energy",
    "run_bias": "mean energy",
    "run_forces": "forces",
    "run_pressure": "mean pressure",
    "novel_forces": "forces",
    "flagged": "flagged",
}


def _value(value, error, unit=""):
    """A number with its error, a word, or that it was not measured. One that does not break."""
    if isinstance(value, str):
        return text(value)
    if number(value) is None:
        return NOT
    whole = lambda shown: f"<span class=whole>{shown}</span>{unit}"
    unit = f" {text(unit)}" if unit else ""
    if not number(error):
        return whole(short(value))
    return whole(" &plusmn; ".join(charts.with_error(value, error)))


def _words(said):
    """A sentence, whose column does not become narrow."""
    said = re.sub(r", 95 % interval (\S+) to ([^\s:]+)", r" (\1 to \2)", said or "")
    return f"<div class=words>{text(said)}</div>" if len(said) > 20 else text(said)


def _group(name):
    return f"<span class=whole>{text(name)}</span>"


def _rounded(r):
    """A value without an interval, with three digits."""
    return NOT if number(r["value"]) is None else short(float(f"{r['value']:.3g}"))


def _of_row(r, unit=""):
    """The value of a row: with its interval, which is one-sided or not around the value in some."""
    low, high = number(r.get("low")), number(r.get("high"))
    if number(r.get("value")) is not None and "low" in r and high is None:  # as of runs without a failure
        return f"above {_value(low, None, unit)}"
    if number(r.get("value")) is not None and None not in (low, high) and "signed" not in r:
        return f"{_value(r['value'], None, unit)} ({short(low)} to {short(high)})"
    return _value(r.get("value"), None if r.get("lacks") else r.get("error"), unit)


def _said(b):
    return f'<span class="{CLASS[b["verdict"]]}">{text(b["verdict"]).replace(" ", "&nbsp;")}</span>'


def _limit(value, quantity):
    unit = QUANTITIES[quantity].unit
    return value if isinstance(value, str) or not unit else f"{short(value)} {unit}"


def _bar(b):
    """The criterion; that of the kind in red where the recipe has loosened it."""
    said = text(_limit(b["bar"], b["quantity"])).replace(" ", "&nbsp;")
    if b.get("from", "recipe") == "recipe":
        said += " (recipe)"
    if b.get("looser") is None:
        return said
    return f'{said} <span class="fail">loosened: {text(_limit(b["looser"], b["quantity"]))}</span>'


def _table(heads, rows):
    """A table whose texts may take several lines."""
    made = table(heads, rows).replace('<td class="t">', '<td class="t wrap">')
    return made.replace('<td class="">', '<td class="wrap">')


def bars(certificate):
    """The table of all criteria."""
    rows = []
    for b in certificate["bars"]:
        quantity, r = QUANTITIES[b["quantity"]], b["row"] or {}
        link = f'<div class=words><a href="#{quantity.measured_by}">{text(quantity.meaning)}</a></div>'
        value = _of_row(r, quantity.unit)
        cells = [link, _group(b["group"]), _said(b), _bar(b), _words(b["text"]), value]
        rows.append([*cells, _teacher(r) if r else "", _published(r)])
    heads = [("quantity", "", True), ("of", "", True), ("verdict", "", True), ("criterion", "", True)]
    heads += [("deviation", "", True), ("model", "", False), ("teacher", "", False), ("published", "", False)]
    return _table(_with(heads, rows), _once(rows))


def _with(heads, rows):
    """The heads, after columns in which all cells are empty were taken from the rows."""
    kept = [k for k in range(len(heads)) if any(row[k] for row in rows) or k < 2]
    for row in rows:
        row[:] = [row[k] for k in kept]
    return [heads[k] for k in kept]


def _once(rows):
    """The first cell of rows in a row that have the same is only in the first of them."""
    for k in range(len(rows) - 1, 0, -1):
        if rows[k][0] == rows[k - 1][0]:
            rows[k][0] = ""
    return rows


def _teacher(r):
    """The text of the column of the teacher."""
    if number(r.get("scale")):
        return f"RMS {short(r['scale'])}"
    if r.get("teacher") is None:
        return "" if QUANTITIES[r["quantity"]].kind in ("most", "least", "to") else text(r.get("teacher_note") or "")
    said = _value(r["teacher"], r.get("teacher_error"))
    more = isinstance(r["teacher"], str) and r.get("teacher_note")
    return said + (f", {text(more)}" if more else "")


def _published(r):
    """The text of the column of published values; sources are the tips."""
    out = []
    for e in (r or {}).get("published", ()):
        at = f", {short(e['temperature'])} K" if e.get("temperature") is not None else ""
        kind = text(e["kind"]).replace("experiment", "exp.")
        said = f"{short(e['value'])} ({kind}{at})".replace(" ", "&nbsp;")
        out.append(f'<span title="{text(e["source"])}">{said}</span>')
    return "<br>".join(out)


def _sources(certificate):
    """The list of published values with their sources."""
    rows = {}
    for m in certificate["measurements"].values():
        for r in m["rows"]:
            for e in r.get("published", ()):
                rows[r["quantity"], r["group"], str(e)] = [QUANTITIES[r["quantity"]].meaning, r["group"], e]
    if not rows:
        return ""
    body = [
        [text(meaning), text(group), short(e["value"]), text(e["kind"]), text(e["source"])]
        for meaning, group, e in rows.values()
    ]
    heads = [("quantity", "", True), ("of", "", True), ("value", "", False), ("by", "", True), ("source", "", True)]
    made = _table(heads, body)
    return f'<h2 id="published">Published values</h2>{made}'


def _verdicts(certificate, r):
    same = lambda b: b["row"] and b["quantity"] == r["quantity"] and b["row"]["group"] == r["group"]
    mine = [b for b in certificate["bars"] if same(b)]
    if len(mine) < 2:
        return "".join(_said(b) for b in mine)
    return "<br>".join(f"{_said(b)} ({_bar(b)})" for b in mine)


def measurement(name, found, certificate):
    """One section; an empty text for what was not measured."""
    if found["state"] != "measured":
        return ""
    out = [f'<h2 id="{name}">{text(ALL[name].title)}</h2><p>{text(ALL[name].lead)}</p>']
    columns = PIVOTED.get(name, ())
    groups = {}
    for r in found["rows"]:
        if r["quantity"] in columns and r.get("teacher") is None:
            groups.setdefault(r["group"], {})[r["quantity"]] = r
    if columns:  # quantities of one group only are rows, as all others
        groups = {g: mine for g, mine in groups.items() if len(mine) > 1 or name == "errors"}
    rest = [r for r in found["rows"] if groups.get(r["group"], {}).get(r["quantity"]) is not r]
    if groups:
        out.append(_pivot(groups, columns, certificate))
    if rest:
        out.append(_rows(rest, certificate))
    pictures = "".join(figure(f) for f in found["figures"])
    return "".join(out) + (f'<div class="charts">{pictures}</div>' if pictures else "")


def _absent(certificate):
    """One table of what was not measured, and why."""
    rows = [
        [text(ALL[name].title), text(found["why"])]
        for name, found in certificate["measurements"].items()
        if found["state"] != "measured"
    ]
    if not rows:
        return ""
    return f'<h2 id="absent">Not measured</h2>{_table([("", "", True), ("", "", True)], rows)}'


def _pivot(groups, columns, certificate):
    """A row for each group: root mean square errors, their percentage of what the teacher has, mean absolute errors."""
    has = lambda q, key: any(number(mine[q].get(key)) for mine in groups.values() if q in mine)
    heads, rows = [("of", "", True), ("frames", "", True)], [[] for _ in groups]
    for row, (group, mine) in zip(rows, groups.items()):
        notes = dict.fromkeys(r["note"].removesuffix(" frames") for r in mine.values() if r.get("note"))
        row += [_group(group), text("; ".join(notes))]
    for q in columns:
        heads.append((HEADS[q], QUANTITIES[q].unit, False))
        heads += [("", "%", False)] if has(q, "scale") else []
        heads += [("MAE", QUANTITIES[q].unit, False)] if has(q, "mae") else []
        for row, mine in zip(rows, groups.values()):
            r = mine.get(q, {})
            v = number(r.get("value"))
            row.append("" if not r else _rounded(r) if r.get("lacks") else _value(r["value"], r.get("error")))
            if has(q, "scale"):
                row.append(f"{100 * v / r['scale']:.2g}" if number(r.get("scale")) and v is not None else "")
            if has(q, "mae"):
                row.append(short(r["mae"]) if number(r.get("mae")) is not None else "")
    said = {q: [_verdicts(certificate, mine[q]) if q in mine else "" for mine in groups.values()] for q in columns}
    for k, row in enumerate(rows):
        row.append(" ".join(f"{HEADS[q]}:&nbsp;{found[k]}" for q, found in said.items() if found[k]))
    out = _table(_with([*heads, ("verdict", "", True)], rows), rows)
    lacks = {}
    for group, mine in groups.items():
        for why in dict.fromkeys(r["lacks"] for r in mine.values() if r.get("lacks")):
            lacks.setdefault(why, []).append(group)
    for why, without in lacks.items():
        out += f'<p class="lead">No interval for {text(", ".join(without))}: {text(why)}.</p>'
    return out


def _rows(rows, certificate):
    body, order = [], list(dict.fromkeys(r["quantity"] for r in rows))
    for r in sorted(rows, key=lambda r: order.index(r["quantity"])):
        quantity = QUANTITIES[r["quantity"]]
        value = _of_row(r, quantity.unit)
        if number(r.get("scale")) and number(r["value"]) is not None:
            value += f" ({100 * r['value'] / r['scale']:.2g}&nbsp;%)"
        other = _teacher(r)
        off = ""
        if number(r.get("teacher")) and number(r["value"]) is not None and quantity.kind == "near":
            off = f"{100 * (r['value'] / r['teacher'] - 1):+.3g}&nbsp;%"
        note = (
            text(r.get("note") or "")
            if r["value"] is not None or not r.get("note")
            else f"not measured: {text(r['note'])}"
        )
        cells = [text(quantity.meaning), _group(r["group"]), value, other, off, _published(r)]
        body.append([*cells, _verdicts(certificate, r), note])
    heads = [("quantity", "", True), ("of", "", True), ("model", "", False), ("teacher", "", False)]
    heads += [("deviation", "", False), ("published", "", False), ("verdict", "", True), ("", "", True)]
    return _table(_with(heads, body), _once(body))


def _finite(values):
    return [v for v in values if number(v) is not None]


def parity(f):
    """The figure of the model's values against the teacher's, of one of their differences."""
    curves = [{**c, "y": [x + y / 1000 for x, y in zip(c["x"], c["y"])]} for c in f["curves"]]
    ends = [min(min(c["x"]) for c in curves), max(max(c["x"]) for c in curves)]
    unit = f["x_label"].partition("(")[2]
    title = f["title"].removeprefix("Error of ").capitalize()
    more = {"title": f"{title}: model against teacher", "y_label": f"the model's ({unit}", "diagonal": ends}
    return {**f, **more, "curves": curves}


def figure(f):
    """SVG of a figure: lines, dots or bars. Differences from the teacher (meV) with the parity plot before them."""
    if f["kind"] == "dots" and f["y_label"].startswith("difference (meV") and "diagonal" not in f:
        return _plot(parity(f)) + _plot(f)
    return _plot(f)


def _plot(f):
    if f["kind"] == "bars":
        return _bars(f)
    curves = [c for c in f["curves"] if _finite(c["y"])]
    if not curves:
        return ""
    xs, ys = [x for c in curves for x in _finite(c["x"])], [y for c in curves for y in _finite(c["y"])]
    log = f.get("log", False)
    ys += [f["bound"][0]] if f.get("bound") else []
    if log:
        x_range, y_range = (min(xs) / 1.25, max(xs) * 1.25), (min(ys) / 1.5, max(ys) * 1.5)
    else:
        x_range = (min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1)
        y_range = f.get("y_range") or charts.padded(ys, zero=f.get("zero", False))
    plot = charts.Plot(x_range, y_range, f["x_label"], f["y_label"], log_x=log, log_y=log, title=f["title"])
    plot.x_ticks = [(x, charts.GREEK.get(label, label)) for x, label in f["ticks"]] if f.get("ticks") else None
    css = [SIDES.get(c.get("label")) or f"c{c.get('side', k) % 8}" for k, c in enumerate(curves)]
    pairs = "c1" in css and f["kind"] == "lines" and max(len(c["x"]) for c in curves) <= charts.SMOOTH
    for k in sorted(range(len(curves)), key=lambda k: css[k] != "c1"):  # the teacher's wide, the model's on it
        _curve(plot, f, curves[k], f"{css[k]} under" if pairs and css[k] == "c1" else css[k])
    if f.get("bound"):
        plot.horizontal(*f["bound"])
    if f.get("diagonal"):
        plot.line(f["diagonal"], f["diagonal"], "c7")
    return plot.svg()


def _curve(plot, f, c, css):
    low, high = plot.y_range
    inside = [y if number(y) is not None and low <= y <= high else None for y in c["y"]]
    if f["kind"] == "dots":
        for x, y in zip(c["x"], inside):
            if y is not None:
                plot.dot(x, y, css)
        return
    if c.get("low"):
        clip = lambda v: min(max(v, low), high)
        known = [k for k, y in enumerate(c["low"]) if number(y) is not None and number(c["high"][k]) is not None]
        x = [c["x"][k] for k in known]
        plot.band(x, [clip(c["low"][k]) for k in known], [clip(c["high"][k]) for k in known], css)
    plot.line(
        c["x"], [math.nan if y is None else y for y in inside], css, dots=f.get("dots", False), key=c.get("label")
    )


def _bars(f):
    rows = [b for b in f["bars"] if number(b[1]) is not None]
    if not rows:
        return ""
    top = max(v + (e or 0) for _, v, e in rows)
    height = 40 + 15 * len(rows)
    out, left, width = [], 150, 460
    for k, (name, value, error) in enumerate(rows):
        y, scale = 6 + 15 * k, (width - left - 60) / (top or 1.0)
        tip = f"{name}: {short(value)} {f['y_label']}"
        out.append(f'<text class="row" x="{left - 6}" y="{y + 10}" text-anchor="end">{text(name)}</text>')
        out.append(
            f'<rect class="f c0" x="{left}" y="{y}" width="{max(0.5, value * scale):.1f}" height="11">'
            f"<title>{text(tip)}</title></rect>"
        )
        if number(error):
            a, b = left + max(0.0, value - error) * scale, left + (value + error) * scale
            out.append(f'<line class="axis" x1="{a:.1f}" x2="{b:.1f}" y1="{y + 5.5}" y2="{y + 5.5}"/>')
        x = left + (value + (error or 0)) * scale + 5
        out.append(f'<text x="{x:.1f}" y="{y + 10}">{short(value)}</text>')
    out.append(f'<text class="name" x="{left}" y="{height - 8}">{text(f["y_label"])}</text>')
    title = text(f["title"])
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
        f"{''.join(out)}</svg></figure>"
    )


def _facts(certificate):
    domain = certificate["domain"]["covered"]
    ends = lambda v: short(v[0]) if short(v[0]) == short(v[1]) else f"{short(v[0])} to {short(v[1])}"
    span = lambda v, unit: f"{ends(v)} {unit}" if v else "not known"
    passed = sum(b["verdict"] == "PASS" for b in certificate["bars"])
    cells = [
        (f"{passed} of {len(certificate['bars'])}", "criteria met"),
        (" ".join(domain["elements"]) or "not known", "elements, trained and held out"),
        (span(domain["temperature"], "K"), "temperatures, trained and held out"),
        (span(domain["density"], "g/cm³"), "densities, trained and held out"),
    ]
    held_out = certificate["measurements"].get("errors", {"rows": []})["rows"]
    for r in held_out:
        if (r["quantity"], r["group"]) != ("forces", "all") or number(r["value"]) is None:
            continue
        share = f" ({100 * r['value'] / r['scale']:.2g}\u00a0%)" if number(r.get("scale")) else ""
        cells.insert(1, (f"{short(r['value'])} meV/A{share}", "error of forces, held out"))
    inner = "".join(f"<div><b>{text(a)}</b><span>{text(b)}</span></div>" for a, b in cells)
    return f'<div class="facts">{inner}</div>'


def _domain(domain):
    """Rows of what the model was trained on and measured on."""
    names = {"model": "of the training", "held_out": "of the held-out frames", "covered": "certified"}
    rows = []
    for key, name in names.items():
        part = domain[key]
        said = [" ".join(part["elements"])]
        said += [f"{short(part[k][0])} to {short(part[k][1])} {unit}" for k, unit in RANGES.items() if part[k]]
        said += [f"{pair} from {short(r)} A" for pair, r in (part["distances"] or {}).items()]
        rows.append((f"domain {name}", ", ".join(s for s in said if s) or "not known"))
    return [*rows, ("of the training, but not held out", ", ".join(domain["not_spanned"]) or "nothing")]


def _conditions(certificate):
    model, teacher, context = certificate["model"], certificate["teacher"], certificate["context"]
    flat = [("model", f"{model['name']}, network digest {model['sha256']}"), ("teacher", teacher["text"])]
    hashes = {"weights_sha256": "sha256 of the file of weights", "header_sha256": "sha256 of the header"}
    for side, found in (("model", model), ("teacher", teacher)):
        flat += [(f"{side}, {words}", found[key]) for key, words in hashes.items() if key in found]
    flat += [(key, value) for key, value in context.items() if isinstance(value, (str, int, float))]
    flat += [(f"certify: {key}", value) for key, value in certificate["settings"].items() if key != "systems"]
    for s in certificate["systems"]:
        flat.append(
            (f"system {s['name']}", f"{s['kind']}, {s['atoms']} atoms, {s['temperature']:g} K, {s['pressure']:g} bar")
        )
    flat += _domain(certificate["domain"])
    rows = [[text(a), text("" if b is None else short(b) if isinstance(b, float) else b)] for a, b in flat]
    body = _table([("", "", True), ("", "", True)], rows)
    return f'<h2 id="conditions">Conditions</h2>{body}'


def page(certificate):
    """The page as text."""
    verdict, quick = certificate["verdict"], certificate["quick"]
    title = f"Certificate: {certificate['model']['name']}"
    css = {"PASS": "good", "FAIL": "bad"}.get(verdict, "")  # UNDECIDED as a warning
    missed = [b for b in certificate["bars"] if b["verdict"] != "PASS"]
    words = ", ".join(
        dict.fromkeys(f"{QUANTITIES[b['quantity']].meaning} ({b['group']}): {b['verdict']}" for b in missed)
    )
    banner = (
        f'<p class="banner {css}"><b>{text(certificate["verdict_text"])}</b>{". " + text(words) if words else ""}</p>'
    )
    if not certificate.get("kind"):
        banner += (
            '<p class="banner">The criteria are those of the recipe only, not those of a kind of material. '
            "They may leave out what your use needs.</p>"
        )
    if quick:
        scale = certificate["settings"]["scale"]
        banner += (
            f'<p class="banner"><b>QUICK</b>: all lengths are {scale:g} of what a certificate asks for. '
            "It shows that everything works, and certifies nothing.</p>"
        )
    sections = "".join(measurement(k, found, certificate) for k, found in certificate["measurements"].items())
    made = [k for k, found in certificate["measurements"].items() if found["state"] == "measured"]
    nav = '<a href="#bars">Criteria</a>' + "".join(f'<a href="#{k}">{text(ALL[k].title)}</a>' for k in made)
    table_of_bars = bars(certificate) if certificate["bars"] else "<p>The recipe has no criteria.</p>"
    lead = (
        "Errors are root mean squares. Intervals are of 95 %. "
        "A criterion is undecided if it was not measured or the data are too short to say."
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{CSS}</style></head><body><main><header><h1>{text(title)}</h1>"
        f"<p>{text(certificate['teacher']['text'])} · {text(certificate['context']['cpu'])}</p></header>"
        f"<nav>{nav}<a href=#conditions>Conditions</a></nav>{banner}{_facts(certificate)}"
        f'<h2 id="bars">Criteria</h2><p>{text(lead)}</p>{table_of_bars}{sections}'
        f"{_absent(certificate)}{_sources(certificate)}{_conditions(certificate)}"
        f"<footer>{text(certificate['context']['date'])} · mlff certify</footer></main></body></html>\n"
    )
