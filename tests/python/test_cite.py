"""What to cite: `mlff cite`, `mlff methods`, Model.bibtex, and the log of LAMMPS."""

import ctypes
import glob
import os
import re
import subprocess

import pytest

import mlff
from mlff import library
from mlff_tools.convert import command, mace_file, nequip, nequip_package, sevennet, tensornet
from mlff_tools.train import students

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("MLFF", os.path.join(ROOT, "build", "mlff"))
MODELS = sorted(
    os.path.basename(p)[:-5] for p in glob.glob(os.path.join(ROOT, "models", "*.yaml")) if "targets" not in p
)
TEXTS = {
    *command.CITATIONS.values(),
    *students.CITATIONS.values(),
    *(mace_file.CITATION + paper for _, paper, _, _ in mace_file.FAMILIES.values()),
    *(one.CITATION for one in (nequip, nequip_package, sevennet, tensornet)),
}


def bibtex(text):
    c = library.library()
    size = c.mlff_bibtex(text.encode(), None, 0)
    buffer = ctypes.create_string_buffer(size + 1)
    assert c.mlff_bibtex(text.encode(), buffer, size + 1) == size == len(buffer.value)
    short = ctypes.create_string_buffer(b"x" * 20, 20)
    assert c.mlff_bibtex(text.encode(), short, 20) == size and short.value == buffer.value[:19]
    return buffer.value.decode()


def entries(text):
    """{key: entry}; braces are balanced, and no key is there twice."""
    found = re.findall(r"^@\w+\{([\w-]+),$", text, re.M)
    assert len(found) == len(set(found)) and text.count("{") == text.count("}") and found[0] == "mlff"
    return dict(zip(found, map(str.strip, re.split(r"^@", text, flags=re.M)[1:])))


def mlff_command(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("text", sorted(TEXTS))
def test_published_architectures_and_teachers_are_known(text):
    found = entries(bibtex(text))
    assert len(found) == 1 + text.count("; ") + 1 and not any(key.startswith("mlff-") for key in found), found


@pytest.mark.filterwarnings("ignore::mlff.ModelWarning")
@pytest.mark.parametrize("name", MODELS)
def test_shipped_models_are_known(name):
    """Software, architecture, and for a student its teacher; the same from Python."""
    code, out, _ = mlff_command("cite", name, "--bibtex")
    found = entries(out)
    assert code == 0 and len(found) >= 3 and not any(key.startswith("mlff-") for key in found), found
    model = mlff.Model(name, device="cpu")
    assert model.bibtex == out and model.license
    code, out, _ = mlff_command("cite", name)
    assert code == 0 and model.model_citation in out and model.license in out and model.citation in out


def test_several_models_cite_each_publication_once():
    one, other = (entries(mlff_command("cite", n, "--bibtex")[1]) for n in ("silicon-m", "water-mbpol-xs"))
    both = entries(mlff_command("cite", "silicon-m", "water-mbpol-xs", "--bibtex")[1])
    assert both == {**one, **other} and len(one) == 4 and len(other) == 4


def test_a_publication_that_is_not_known():
    """Once, with a key of its own in any call, in text that LaTeX reads. A DOI has no case; `none` is none."""
    text = "A. Foo & B. Bar, 100 % {new} #1, J. Under_score 1, 2 (2030)"
    found = entries(bibtex(f"{text}; none; arXiv:2206.07697; {text}; noneOfYours 5; doi:10.1021/ACS.JCTC.0C00121"))
    others = [key for key in found if key.startswith("mlff-")]
    assert set(found) - set(others) == {"mlff", "Batatia2022", "Devereux2020"} and len(others) == 2
    assert r"note = {A. Foo \& B. Bar, 100 \% (new) \#1, J. Under\_score 1, 2 (2030)}" in found[others[0]]
    assert others[0] in entries(bibtex(f"X. Other; {text}")), "the same key in another call"


def test_methods():
    code, out, _ = mlff_command("methods", "aluminium-m")
    assert code == 0 and "for Al." in out and "nequix-oam-1-pft" in out and "meV/A" in out and "commit" in out
    assert out.count("2291 frames") == 1 and "precision" not in out.split("Software")[1]
    assert "an ensemble of networks of architecture ani" in mlff_command("methods", "water-benzene-ensemble")[1]
    code, out, _ = mlff_command("methods", "nequix-oam-1-pft")
    assert code == 0 and "for 89 elements." in out and "PBE and PBE+U" in out


def test_errors():
    code, out, error = mlff_command("cite", "silicon-m", "silicom-m", "--bibtex")
    assert code == 2 and not out and "there is no model 'silicom-m'" in error
    assert mlff_command("cite")[0] == 2 and mlff_command("methods", "silicon-m", "iron-m")[0] == 2
