"""Recipes changed at random (tests/fuzz/recipes.py): each is read, or refused by one error that names the file."""

import importlib.util
import os

import helpers
import pytest

from mlff_tools.train import recipe

PATH = os.path.join(helpers.ROOT, "tests", "fuzz", "recipes.py")


@pytest.fixture(scope="module")
def recipes():
    spec = importlib.util.spec_from_file_location("recipes", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_changed_recipes(recipes, tmp_path):
    """The seeds are read or refused as their names require, and so are about 100 changed ones."""
    n, n_read, _ = recipes.fuzz(2, 1, str(tmp_path))
    assert n >= 100 and n_read < n


@pytest.mark.parametrize(
    "text, said",
    [
        ("name: &a [*a]", "nested more than 50 levels"),
        ("name: " + 3000 * "[", "nested more than 50 levels"),
        ("a: &a " + str([0] * 1000) + "\nb: &b [" + ",".join(["*a"] * 999) + "]", "more than 100000 values"),
        ("name: 2026-13-01", "r.yaml:1: name: '2026-13-01' cannot be read as timestamp; quote it if it is a text"),
        ("name: a\nteacher: {labels: a}\nstudent: {size: []}", r"r.yaml:3: student.size: is \[\]; allowed is one of"),
        ("name: a\nteacher: {labels: a}\nstudent: {size: [" + 999 * "0," + "]}", r"0, 0, 0 \.\.\.; allowed is one of"),
    ],
)
def test_found(recipes, tmp_path, text, said):
    """What fuzzing found: endless recursion, memory without end, and tracebacks."""
    path = tmp_path / "r.yaml"
    path.write_text(text)
    assert recipes.read(str(path)) == 0
    with pytest.raises(recipe.RecipeError, match=said):
        recipes.recipe_rounds.read(str(path))


def test_a_traceback_is_a_find(recipes, tmp_path, monkeypatch):
    monkeypatch.setattr(recipes.recipe_rounds, "read", lambda path: [][0])
    with pytest.raises(recipes.Find, match="IndexError"):
        recipes.read(str(tmp_path / "r.yaml"))
