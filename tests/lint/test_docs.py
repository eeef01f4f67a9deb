"""What CONTRIBUTING.md, docs/architecture.md and tests/README.md name in backticks exists: paths, functions, types."""

import fnmatch
import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENTS = ("CONTRIBUTING.md", "docs/architecture.md", "tests/README.md")
FOLDERS = ("src/", "cuda/", "include/", "tests/", "cmake/", "python/", "CMakeLists.txt")
CODE = (".c", ".h", ".cpp", ".cu", ".py", ".cmake", ".txt")
SUFFIXES = ("c", "h", "cpp", "cu", "py", "md", "sh", "json", "cmake", "txt", "toml")
# What builds make, what is outside of the repository, options; a prefix of names, a style of LAMMPS.
OUTSIDE = re.compile(r"(build|BUILD|OLD|NEW)/|[~$-]|\.venv/|(mlff_|mlff/kk)$")
PLACEHOLDER = re.compile(r"NAME|STEM")


def tracked():
    """Paths of the files under version control, and of new ones that will be."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [path for path in done.stdout.splitlines() if os.path.exists(os.path.join(ROOT, path))]


def identifiers(paths):
    """All words of the code, except those of the lint."""
    words = set()
    for path in paths:
        if path.startswith(FOLDERS) and path.endswith(CODE) and not path.startswith("tests/lint/"):
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                words.update(re.findall(r"\w+", f.read()))
    return words


def has_path(name, paths):
    """A file or a folder, from the root or from any folder; NAME and STEM stand for anything."""
    pattern = PLACEHOLDER.sub("*", name) + ("*" if name.endswith("/") else "")
    return any(fnmatch.fnmatch("/" + path, "*/" + pattern) for path in paths) or any(
        fnmatch.fnmatch("/" + path, "*/" + pattern + "/*") for path in paths
    )


def has_name(name, words):
    if PLACEHOLDER.search(name):
        pattern = re.compile(PLACEHOLDER.sub(r"\\w+", name) + "$")
        return any(map(pattern.match, words))
    return name in words


def wrong(text, paths, words):
    """Words in backticks that have the form of a path or an identifier but do not exist."""
    found = []
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    for quoted in re.findall(r"`([^`\n]+)`", text):
        for word in quoted.split():
            word = word.strip("(),;:*|") if "/" not in word else word.strip("(),;:|")
            if OUTSIDE.match(word):
                continue
            if re.fullmatch(r"[\w.*/-]*(/[\w.*-]*|\.(" + "|".join(SUFFIXES) + "))", word):
                found += [] if has_path(word, paths) else [word]
            elif " " not in quoted and re.fullmatch(r"\w+(?:(?:\.|::)\w+)*", word) and is_identifier(word):
                found += [part for part in re.split(r"\.|::", word) if not has_name(part, words)]
    return found


def is_identifier(word):
    return "_" in word or "::" in word or re.search(r"[a-z][A-Z]|MLFF", word)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_is_named_exists(document):
    paths = tracked()
    with open(os.path.join(ROOT, document), encoding="utf-8") as f:
        missing = wrong(f.read(), paths, identifiers(paths))
    assert not missing, f"{document} names files or identifiers that do not exist: {', '.join(sorted(set(missing)))}"


def test_what_is_renamed_is_missed():
    """Missing files, folders, functions and types are found, existing ones are not."""
    paths, words = ["src/mlff/model/run.c", "tests/op/test_ops.c"], {"mlff_model_evaluate", "mlff_graph", "on_device"}
    good = (
        "`src/mlff/model/run.c` `run.c` `model/run.c` `tests/op/` `op/test_NAME.c` `mlff_model_evaluate()` `make test`"
    )
    assert wrong(good + " `mlff_graph.on_device` `mlff_model_NAME` `build/x.c`", paths, words) == []
    bad = ["src/mlff/model/evaluate.c", "evaluate.c", "src/old/", "cuda/NAME.cu", "mlff_see", "mlff_old_NAME"]
    assert wrong(" ".join(f"`{name}`" for name in bad), paths, words) == bad
    assert wrong("`mlff_graph.in_memory`, `pytest tests/none`", paths, words) == ["in_memory", "tests/none"]


def test_features_have_their_tests():
    """The tests that docs/lammps_features.md links to exist, and rows without one say so."""
    page = os.path.join(ROOT, "docs", "lammps_features.md")
    with open(page, encoding="utf-8") as f:
        rows = [line.strip("|\n").split("|") for line in f if line.startswith("|") and "---" not in line]
    rows = [[cell.strip() for cell in row] for row in rows if row[0].strip() != "feature"]
    assert len(rows) > 30
    for feature, state, tests in rows:
        links = re.findall(r"\[`(\S+)`\]\((\S+)\)", tests)
        assert bool(links) != (state == "not tested"), f"{feature}: {state}"
        for name, path in links:
            with open(os.path.join(os.path.dirname(page), path), encoding="utf-8") as f:
                assert f"def {name}(" in f.read() or path.endswith(name), f"{feature}: {path} has no {name}"
