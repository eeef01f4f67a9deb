"""The page of a certificate: what a reader sees of the shipped ones, and of one that is made up."""

import html.parser
import json
import os
import re

import pytest

from mlff_tools.certify import page
from mlff_tools.report.style import CSS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "models", "certificates")
NAMES = sorted(os.listdir(FOLDER))


class Tables(html.parser.HTMLParser):
    """Text of cells: tables of rows."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.cell = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data):
        if self.cell:
            self.tables[-1][-1][-1] += data


def certificate(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        return json.load(f)


def section(text, name):
    """The tables of a section."""
    return Tables(re.split(r'<h2 id="', text.split(f'<h2 id="{name}">')[1])[0]).tables


@pytest.mark.parametrize("name", NAMES)
def test_every_criterion_has_a_row(name):
    made = certificate(name)
    text = page.page(made)
    (table,) = section(text, "bars")
    head, *rows = table
    verdicts = [row[2].replace("\xa0", " ") for row in rows]
    assert head[2] == "verdict" and verdicts == [b["verdict"] for b in made["bars"]]
    assert all(len(row) == len(head) for row in rows) and all(any(row[k] for row in rows) for k in range(len(head)))


@pytest.mark.parametrize("name", NAMES)
def test_errors_have_a_row_for_each_group(name):
    made = certificate(name)
    rows = made["measurements"]["errors"]["rows"]
    groups = list(dict.fromkeys(r["group"] for r in rows))
    table = section(page.page(made), "errors")[0]
    assert [row[0] for row in table[1:]] == groups
    column = [h.startswith("forces") for h in table[0]].index(True)
    forces = {r["group"]: r for r in rows if r["quantity"] == "forces"}
    for row in table[1:]:
        shown = float(row[column].split(" ")[0])
        assert shown == pytest.approx(forces[row[0]]["value"], rel=0.06), row


@pytest.mark.parametrize("name", NAMES)
def test_what_was_not_measured_is_one_table(name):
    """No section, link or card without content."""
    made = certificate(name)
    text = page.page(made)
    absent = [k for k, m in made["measurements"].items() if m["state"] != "measured"]
    assert all(f'<h2 id="{k}">' not in text and f'href="#{k}">' not in text.split("</nav>")[0] for k in absent)
    assert not absent or len(section(text, "absent")[0]) == 1 + len(absent)


def test_words_do_not_break():
    """Texts wrap between words: a column never shrinks to single letters."""
    assert "anywhere" not in CSS and "break-all" not in CSS


def test_mean_absolute_errors_and_parity():
    made = certificate("copper-m.json")
    found = made["measurements"]["errors"]
    for r in found["rows"]:
        if r["quantity"] in ("energy", "forces"):
            r["mae"] = 0.75 * r["value"]
    text = page.page(made)
    table = section(text, "errors")[0]
    assert [h.startswith("MAE") for h in table[0]].count(True) == 2
    assert text.count("model against teacher") == 2 * sum(f["kind"] == "dots" for f in found["figures"])


def test_the_interval_gives_the_digits():
    shown = lambda *of: re.sub("<.*?>", "", page._value(*of)).replace("&plusmn;", "+-")
    assert shown(14.795, 1.8041, "meV/A") == "14.8 +- 1.8 meV/A"
    assert shown(-0.0658057, 0.00802) == "-0.0658 +- 0.0080"
    assert shown(12.39, 231.0) == "10 +- 230" and shown(7.0694, 2.048) == "7.1 +- 2.0"
    assert shown(2.497e-06, 1.32e-05) == "2.5e-06 +- 1.3e-05" and shown(3.25, 0.0) == "3.25"


def test_intervals_that_are_not_around_the_value():
    row = {"quantity": "lifetime", "value": 3.4e5, "error": 0.0, "low": 3.4e5, "high": None}
    assert re.sub("<.*?>", "", page._of_row(row, "atom-ps")) == "above 3.4e+05 atom-ps"
    row = {"quantity": "false_alarms", "value": 0.0, "error": 0.35, "low": 0.0, "high": 0.7}
    assert re.sub("<.*?>", "", page._of_row(row, "%")) == "0 % (0 to 0.7)"


@pytest.mark.parametrize("name", NAMES)
def test_pictures_have_all_groups(name):
    made = certificate(name)
    for m in made["measurements"].values():
        for f in m["figures"]:
            if f["kind"] == "bars":
                drawn = page.figure(f)
                assert drawn.count('class="row"') == sum(b[1] is not None for b in f["bars"])


def test_rows_without_an_interval_have_none():
    r = {"quantity": "forces", "group": "100 K", "value": 5.0, "error": 1.0, "lacks": "too few", "scale": 100.0}
    other = {**r, "group": "300 K", "lacks": None}
    text = page._pivot({r["group"]: {"forces": r}, "300 K": {"forces": other}}, ("forces",), {"bars": []})
    assert text.count("&plusmn;") == 1 and "No interval for 100 K: too few." in text
