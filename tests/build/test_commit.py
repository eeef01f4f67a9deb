"""The commit that the program mlff, the plugin and their reports name (cmake/Commit.cmake)."""

import os
import re
import subprocess

import processes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GIT = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]


def commit_of(source, file):
    done = processes.merged(["cmake", f"-DSOURCE={source}", f"-DFILE={file}", "-P", f"{ROOT}/cmake/Commit.cmake"])
    assert done.returncode == 0, done.stdout
    return re.search(r'return "(.*)";', file.read_text())[1]


def test_commit_of_a_source_tree(tmp_path):
    """Clean, changed and committed again; source without git, and below a repository of something else."""
    source, file = tmp_path / "source", tmp_path / "commit.c"
    source.mkdir()
    assert commit_of(source, file) == "unknown"

    def git(*words):
        return subprocess.run([*GIT, "-C", source, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (source / "a.c").write_text("a")
    git("add", "a.c")
    git("commit", "-qm", "one")
    first = git("rev-parse", "--short=12", "HEAD")
    assert commit_of(source, file) == first
    before = file.stat().st_mtime_ns
    assert commit_of(source, file) == first and file.stat().st_mtime_ns == before, "nothing to build again"
    (source / "a.c").write_text("b")
    assert commit_of(source, file) == f"{first}-dirty"
    git("tag", "v1")
    git("commit", "-qam", "two")
    assert commit_of(source, file) == git("rev-parse", "--short=12", "HEAD") != first
    (source / "src").mkdir()
    (source / "src" / "extra.c").write_text("c")
    assert commit_of(source, file).endswith("-dirty"), "a file that is compiled as well"
    (source / "inner").mkdir()
    assert commit_of(source / "inner", file) == "unknown"
