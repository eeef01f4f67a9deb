"""Rows of a certificate, and verdicts on its bars."""

import math

from ..ensemble.judge import FAIL, NOT, PASS, SHORT
from ..train import recipe_certify
from ..train.kinds import KINDS
from ..train.recipe_certify import QUANTITIES, limit
from .work import Failure, plain

UNDECIDED = "UNDECIDED"
MOST = 100  # times as many data: more are not worth the words


def row(quantity, group, value, error=0.0, teacher=None, teacher_error=0.0, **more):
    """A number (or a word) of a certificate.

    error, teacher_error: half of a 95 % interval; scale: what a percentage is of, where that is not the teacher's
    value; low, high: the interval, where it does not lie around the value; enough: False where the data are too short
    for the interval; lacks: why it is not enough; also: other names of the group; mae: the mean absolute error, where
    value is a root mean square; note: words."""
    return {"quantity": quantity, "group": group, "value": value, "error": error, "teacher": teacher, **more} | {
        "teacher_error": teacher_error
    }


def of_estimate(quantity, group, found, teacher=None, **more):
    """A row from one or two Estimates."""
    enough = found.enough and (teacher is None or teacher.enough)
    other = (None, 0.0) if teacher is None else (teacher.value, teacher.error)
    return row(quantity, group, found.value, found.error, *other, enough=enough, **more)


def missing(quantity, group, why, applies=True):
    """A row that says why something was not measured. applies: False for what the material does not have, which no bar
    is about."""
    more = {"failed": True} if isinstance(why, Failure) else {}
    return row(quantity, group, None, note=str(why), **more, **({} if applies else {"applies": False}))


def _number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _measure(r, quantity, percent):
    """((low, value, high) of what a bar limits, why not)."""
    value, error = r["value"], r.get("error") or 0.0
    if not _number(value):
        return None, r.get("note") or "it has no value"
    if r.get("enough") is False and not _number(r.get("error")):
        return None, SHORT
    low, high = r.get("low", value - error), r.get("high", value + error)
    high = math.inf if high is None else high  # in JSON
    if quantity.kind == "near" or quantity.kind == "to":
        other = quantity.target if quantity.kind == "to" else r.get("teacher")
        if not _number(other):
            return None, r.get("teacher_note") or "the teacher's value is not there"
        spread = math.hypot(error, (r.get("teacher_error") or 0.0) if quantity.kind == "near" else 0.0)
        off = abs(value - other)
        low, value, high, scale = max(0.0, off - spread), off, off + spread, abs(other)
    else:
        scale = r.get("scale")
    if percent:
        if not _number(scale) or not scale > 0:
            return None, "there is nothing to take a percentage of"
        low, value, high = (100 * x / scale for x in (low, value, high))
    return (low, value, high), None


def verdict(r, bar):
    """(PASS, FAIL, SHORT or NOT; why) of a row and the value of a bar."""
    quantity = QUANTITIES[r["quantity"]]
    if r.get("failed"):
        return FAIL, r["note"]
    number, percent = limit(bar, quantity)
    if quantity.kind == "word":
        if r["value"] is None:
            return NOT, r.get("note") or ""
        return (PASS if r["value"] == number else SHORT if r["value"] == "too short" else FAIL), r.get("note") or ""
    found, why = _measure(r, quantity, percent)
    if found is None:
        return (SHORT, r.get("note") or "") if why == SHORT else (NOT, why)
    low, value, high = found
    unit = " %" if percent else f" {quantity.unit}" if quantity.unit else ""
    text = f"{value:.4g}{unit}, 95 % interval {low:.4g} to {high:.4g}" if high > low else f"{value:.4g}{unit}"
    good, bad = (low >= number, high < number) if quantity.kind == "least" else (high <= number, low > number)
    if r.get("enough") is False or not (good or bad):
        return SHORT, text + (f": {r['lacks']}" if r.get("lacks") else _needed(low, value, high, number))
    return (PASS if good else FAIL), text


def _needed(low, value, high, number):
    """Words on how much more must be measured until the interval leaves the bar, if the value stays."""
    half = max(high - value, value - low)
    if not low < number < high or not math.isfinite(half) or abs(value - number) < half / MOST**0.5:
        return ""
    return f": about {max(2, math.ceil((half / (value - number)) ** 2))} times as many data would decide"


def _matching(rows, group):
    """Rows that a bar of this group is about: those of that name; else, for all, every one; else those whose names
    have all its words."""
    exact = [r for r in rows if group in (r["group"], *r.get("also", ()))]
    if exact or group == "all":
        return exact or rows
    words = set(group.split())
    return [r for r in rows if words <= set(r["group"].replace(":", " ").split())]


def _wanted(bars, kind):
    """[(quantity, group, value, origin, bar of the kind that it is looser than)]: the bars of the kind, then those of
    the recipe that differ from them."""
    own = KINDS.get(kind, ())
    out = [(b.quantity, b.group, b.value, kind, None) for b in own]
    for name, groups in bars.items():
        for group, value in groups.items():
            if (name, group, value) in [(b.quantity, b.group, b.value) for b in own]:
                continue
            than = [b for b in own if b.quantity == name and recipe_certify.looser(value, b.value, QUANTITIES[name])]
            out.append((name, group, value, "recipe", than[0] if than else None))
    return out


def judge(rows, bars, reasons, kind=None):
    """[{quantity, group, bar, from, looser, verdict, text, row}] of the bars of the kind of material and the recipe.

    reasons: {measurement: why it has no rows}. looser: the bar of the kind where that of the recipe lets more pass.
    Rows that do not apply to the material have no bars."""
    out = []
    for name, group, bar, origin, looser in _wanted(bars, kind):
        mine = [r for r in rows if r["quantity"] == name]
        found = _matching(mine, group)
        of_kind = looser and [id(r) for r in _matching(mine, looser.group)]
        is_loose = looser and (looser.group == group or any(id(r) in of_kind for r in found))
        told = {"quantity": name, "bar": bar, "from": origin, "looser": looser.value if is_loose else None}
        if not found:
            there = f"there are {', '.join(sorted({r['group'] for r in mine}))}" if mine else ""
            why = there or reasons.get(QUANTITIES[name].measured_by) or "nothing to measure it with"
            out.append({**told, "group": group, "verdict": NOT, "text": why, "row": None})
        for r in found:
            if r.get("applies") is False:
                continue
            said, text = verdict(r, bar)
            group_name = group if group in r.get("also", ()) else r["group"]
            out.append({**told, "group": group_name, "verdict": said, "text": text, "row": r})
    return plain(out)


def overall(judged):
    """PASS where all bars are met, FAIL where one is missed, else UNDECIDED; NO BARS."""
    if not judged:
        return "NO BARS"
    said = {b["verdict"] for b in judged}
    return FAIL if FAIL in said else PASS if said == {PASS} else UNDECIDED


def summary(judged, kind):
    """Words on bars that are met, missed, undecided, and loosened by the recipe."""
    if not judged:
        return "measured, no bars to compare with"
    count = lambda *verdicts: sum(b["verdict"] in verdicts for b in judged)
    text = f"{count(PASS)} of {len(judged)} criteria met"
    parts = [(count(FAIL), "missed"), (count(SHORT, NOT), "undecided")]
    parts.append((sum(b["looser"] is not None for b in judged), "loosened by the recipe"))
    text += "".join(f", {n} {word}" for n, word in parts if n)
    return text + (f" (kind: {kind})" if kind else " (no kind: bars of the recipe only)")
