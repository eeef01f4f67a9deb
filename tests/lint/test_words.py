"""Avoided words (words.py) and names (names.py) of the tree, and what the two searches find and do not find."""

import shutil

import names
import pytest
import words

MOST_EXCEPTIONS = 40  # one screen


@pytest.fixture(autouse=True)
def need_git():
    if not shutil.which("git"):
        pytest.skip("git is not installed")


def test_words():
    try:
        hits, _ = words.all_hits()
    except words.subprocess.CalledProcessError:
        pytest.skip("not a git checkout")
    assert not hits, "\n".join(f"{h.path}:{h.line}: write {h.instead} for '{h.found}': {h.text}" for h in hits)


def test_names():
    try:
        hits = names.all_hits()
    except words.subprocess.CalledProcessError:
        pytest.skip("not a git checkout")
    assert not hits, "name these by nouns: " + ", ".join(f"{path}:{line}: {name}" for path, line, name in hits)


def test_exceptions_are_few_and_needed():
    """Each one has a hit, and all of them fit on one screen."""
    try:
        _, excepted = words.all_hits(sorted({path for path, _ in words.EXCEPTIONS}))
    except words.subprocess.CalledProcessError:
        pytest.skip("not a git checkout")
    unused = [e for e in words.EXCEPTIONS if not any(h.path == e[0] and e[1] in h.text for h in excepted)]
    assert not unused and len(words.EXCEPTIONS) <= MOST_EXCEPTIONS, unused


@pytest.mark.parametrize(
    "path, text, found",
    [
        ("a.md", "One in place of\nanother.", ["in place of"]),
        ("a.md", "`in place of` and\n```\nbeside\n```\nNeighbours", ["Neighbours"]),
        ("a.c", '/* Products of\n * matrices. */\nint beside; f("is no file", neighbour, "neighbour");', 2),
        ("a.c", "/* mlff_neighbour_graph, neighbour.c; there is no file of it. In place. */", []),
        (
            "a.cu",
            "// Of candidates: kept on their way\nint a = b; // beside",
            ["Of candidates", "on their way", "beside"],
        ),
        ("a.py", '"""What stands\nthere."""\nx = "mended"\ny = f"{beside} is no file"  # foreign', 3),
        ("a.sh", "# some ninety times\necho 'beside it'", ["some ninety", "beside"]),
        ("CMakeLists.txt", 'set(beside 1) # the way back\nset(x "shared out")', ["the way back", "shared out"]),
        ("data.json", '{"a": "beside it"}', []),
    ],
)
def test_what_words_finds(path, text, found):
    hits = [hit.found for hit in words.search(path, text)]
    assert len(hits) == found if isinstance(found, int) else hits == found, hits


def test_what_names_finds():
    code = """
    typedef struct piece { const int *of, n[2]; double (*at)[3]; int ahead : 3; } piece; /* int from; */
    class Graph { public: explicit Graph(int to) : to_(to) { int own; } int before() const; struct { int with; }; };
    enum { AT_ONCE = 4, SLOTS_AHEAD, N };
    static int from(int to) { int at = to; struct later { int n; }; return at; }
    """
    assert [name for _, name in names.search(code)] == ["of", "at", "ahead", "with", "AT_ONCE", "SLOTS_AHEAD"]
