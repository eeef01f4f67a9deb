"""The HTML page of a certificate: verdict, bars, and each measurement with its table and pictures."""

import math

from ..report import charts
from ..report.charts import short, text
from ..report.parts import NOT, number, table
from ..report.style import CSS
from ..train.domain import RANGES
from ..train.recipe_certify import QUANTITIES
from .measurements import ALL

CLASS = {"PASS": "pass", "FAIL": "fail", "too short to say": "warn", "not measured": "warn"}
SIDES = {"model": "c0", "teacher": "c1"}


def _value(value, error, unit=""):
    """A number with its error, a word, or that it was not measured."""
    if isinstance(value, str):
        return text(value)
    if number(value) is None:
        return NOT
    if not number(error):
        return f"{short(value)}{unit}"
    return f"{short(value)} &plusmn; {short(float(f'{error:.2g}'))}{unit}"


def _said(b):
    return f'<span class="{CLASS[b["verdict"]]}">{text(b["verdict"])}</span>'


def _limit(value, quantity):
    unit = QUANTITIES[quantity].unit
    return value if isinstance(value, str) or not unit else f"{short(value)} {unit}"


def _bar(b):
    """The bar; that of the kind in red where the recipe has loosened it."""
    said = text(_limit(b["bar"], b["quantity"]))
    if b.get("looser") is None:
        return said
    return f'{said} <span class="fail">loosened: {text(_limit(b["looser"], b["quantity"]))}</span>'


def _table(heads, rows):
    """A table whose texts may take several lines."""
    return table(heads, rows).replace('<td class="t">', '<td class="t wrap">')


def bars(certificate):
    """The table of all bars."""
    rows = []
    for b in certificate["bars"]:
        quantity, r = QUANTITIES[b["quantity"]], b["row"] or {}
        link = f'<a href="#{quantity.measured_by}">{text(quantity.meaning)}</a>'
        value, other = _value(r.get("value"), r.get("error")), _teacher(r) if r else ""
        cells = [link, text(b["group"]), value, other, _published(r), text(quantity.unit), _bar(b)]
        rows.append([*cells, text(b.get("from", "recipe")), _said(b), text(b["text"] or "")])
    heads = [("quantity", "", True), ("of", "", True), ("model", "", False), ("teacher", "", False)]
    heads += [
        ("published", "", False),
        ("unit", "", True),
        ("bar", "", False),
        ("of the", "", True),
        ("verdict", "", True),
        ("", "", True),
    ]
    return _table(heads, rows)


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
        said = f"{short(e['value'])} ({text(e['kind'])}{at})"
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
    return " ".join(_said(b) for b in mine)


def measurement(name, found, certificate):
    """One section."""
    title, lead = ALL[name].title, ALL[name].lead
    state = f"Not measured: {found['why']}." if found["state"] != "measured" else ""
    if found.get("seconds") is not None and found["state"] == "measured":
        lead += f" {short(found['seconds'])} s."
    out = [f'<h2 id="{name}">{text(title)}</h2><p>{text(lead)}</p>']
    if state:
        out.append(f'<p class="banner">{text(state)}</p>')
    if found["rows"]:
        out.append(_rows(found["rows"], certificate))
    pictures = "".join(figure(f) for f in found["figures"])
    return "".join(out) + (f'<div class="charts">{pictures}</div>' if pictures else "")


def _rows(rows, certificate):
    body = []
    for r in rows:
        quantity = QUANTITIES[r["quantity"]]
        value = _value(r["value"], r.get("error"))
        if number(r.get("scale")) and number(r["value"]) is not None:
            value += f" ({100 * r['value'] / r['scale']:.2g} %)"
        other = _teacher(r)
        off = ""
        if number(r.get("teacher")) and number(r["value"]) is not None and quantity.kind == "near":
            off = f"{100 * (r['value'] / r['teacher'] - 1):+.2f} %"
        note = (
            text(r.get("note") or "")
            if r["value"] is not None or not r.get("note")
            else f"not measured: {text(r['note'])}"
        )
        cells = [text(quantity.meaning), text(r["group"]), value, text(quantity.unit), other, off, _published(r)]
        body.append([*cells, _verdicts(certificate, r), note])
    heads = [("quantity", "", True), ("of", "", True), ("model", "", False), ("unit", "", True)]
    heads += [("teacher", "", False), ("off", "", False), ("published", "", False), ("bar", "", True), ("", "", True)]
    return _table(heads, body)


def _finite(values):
    return [v for v in values if number(v) is not None]


def figure(f):
    """SVG of a figure: lines, dots or bars."""
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
    plot.x_ticks = [(x, label) for x, label in f["ticks"]] if f.get("ticks") else None
    for k, c in enumerate(curves):
        _curve(plot, f, c, SIDES.get(c.get("label")) or f"c{c.get('side', k) % 8}")
    if f.get("bound"):
        plot.horizontal(*f["bound"])
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
    rows = [b for b in f["bars"] if number(b[1]) is not None][:24]
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
        (f"{passed} of {len(certificate['bars'])}", "bars met"),
        (" ".join(domain["elements"]) or "not known", "elements, trained and held out"),
        (span(domain["temperature"], "K"), "temperatures, trained and held out"),
        (span(domain["density"], "g/cm³"), "densities, trained and held out"),
        (certificate["context"]["hours_text"], "of computing"),
    ]
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
    words = ", ".join(dict.fromkeys(f"{b['quantity']} ({b['group']}): {b['verdict']}" for b in missed))
    banner = (
        f'<p class="banner {css}"><b>{text(certificate["verdict_text"])}</b>{". " + text(words) if words else ""}</p>'
    )
    if not certificate.get("kind"):
        banner += (
            '<p class="banner">The bars are those of the recipe only, not those of a kind of material. '
            "They may leave out what your use needs.</p>"
        )
    if quick:
        scale = certificate["settings"]["scale"]
        banner += (
            f'<p class="banner"><b>QUICK</b>: all lengths are {scale:g} of what a certificate asks for. '
            "It shows that everything works, and certifies nothing.</p>"
        )
    sections = "".join(measurement(k, found, certificate) for k, found in certificate["measurements"].items())
    nav = '<a href="#bars">Bars</a>' + "".join(
        f'<a href="#{k}">{text(ALL[k].title)}</a>' for k in certificate["measurements"]
    )
    table_of_bars = bars(certificate) if certificate["bars"] else "<p>The recipe has no bars.</p>"
    lead = "Intervals are of 95 %. A bar is undecided if it was not measured or the data are too short to say."
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{CSS}</style></head><body><main><header><h1>{text(title)}</h1>"
        f"<p>{text(certificate['teacher']['text'])} · {text(certificate['context']['cpu'])}</p></header>"
        f"<nav>{nav}<a href=#conditions>Conditions</a></nav>{banner}{_facts(certificate)}"
        f'<h2 id="bars">Bars</h2><p>{text(lead)}</p>{table_of_bars}{sections}'
        f"{_sources(certificate)}{_conditions(certificate)}"
        f"<footer>{text(certificate['context']['date'])} · mlff certify</footer></main></body></html>\n"
    )
