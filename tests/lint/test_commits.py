"""Commit messages of a push, the check that the hook makes, and where setup.sh installs it."""

import os
import shutil
import subprocess

import commits
import pytest

PERSON = ("-c", "user.name=A", "-c", "user.email=a@b.c")


def git(folder, *command):
    return subprocess.run(["git", *PERSON, *command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(name="clone")
def fixture_clone(tmp_path, monkeypatch):
    """A repository with one commit that has the two scripts; without the settings of whoever runs the tests."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    folder = tmp_path / "clone"
    (folder / "tests" / "lint").mkdir(parents=True)
    for name in ("commits.py", "words.py"):
        shutil.copy(os.path.join(commits.ROOT, "tests", "lint", name), folder / "tests" / "lint")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "A first one; not checked")):
        assert git(folder, *command).returncode == 0
    return folder


def test_commits_of_this_push():
    bad = commits.bad_commits(commits.pushed())
    if bad is None:
        pytest.skip("not a git checkout with two commits")
    assert not bad, "\n".join(f"{name} {subject}: {', '.join(found)}" for name, subject, found in bad)


@pytest.mark.parametrize(
    "message",
    [
        "docs: correct a number",
        "cuda/forces: fence from a single thread\n\nWhy.\n",
        "cuda, tests: feed the need\n# a comment of git's template",
        "x: " + "y" * 69,
        "fixup! docs: correct a number",
        'Revert "Some old subject; of two parts"\n\nWhy.',
    ],
)
def test_good_messages(message):
    assert commits.problems(message) == []


@pytest.mark.parametrize(
    "message, reason",
    [
        ("", "no area"),
        ("Correct a number", "no area"),
        ("docs: a number", "'a' is not"),
        ("docs: Correct a number", "'Correct' is not"),
        ("docs: corrected a number", "'corrected' is not"),
        ("docs: corrects a number", "'corrects' is not"),
        ("docs: correcting a number", "'correcting' is not"),
        ("x: " + "y" * 70, "73 characters"),
        ("docs: correct a number; add a page", "semicolon"),
        ("docs: correct a number.", "period"),
        ("docs: correct a number\nand more", "not blank"),
        ("docs: put a page in place of another", "write instead of for"),
    ],
)
def test_bad_messages(message, reason):
    assert reason in "\n".join(commits.problems(message))


def test_hook_is_installed_once(clone):
    assert "commit-msg" in commits.install(clone)
    assert commits.install(clone) == ""
    bad = git(clone, "commit", "--allow-empty", "-m", "No area")
    assert bad.returncode != 0 and "no area" in bad.stderr
    assert git(clone, "commit", "--allow-empty", "-m", "docs: correct a number").returncode == 0
    assert git(clone, "worktree", "add", "-q", "../other").returncode == 0
    assert commits.install(clone.parent / "other") == ""
    assert "no area" in git(clone.parent / "other", "commit", "--allow-empty", "-m", "No area").stderr
    assert [text for _, text, _ in commits.bad_commits("HEAD", clone)] == ["A first one; not checked"]


def test_hook_from_a_worktree(clone):
    assert git(clone, "worktree", "add", "-q", "../other").returncode == 0
    assert str(clone) in commits.install(clone.parent / "other")


def test_other_hooks_stay(clone, tmp_path):
    hook = clone / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    assert commits.install(clone) == "" and hook.read_text() == "#!/bin/sh\n"
    hook.unlink()
    assert git(clone, "config", "core.hooksPath", str(tmp_path / "shared")).returncode == 0
    assert commits.install(clone) == "" and not hook.exists() and not (tmp_path / "shared").exists()


def test_no_clone_no_hook(clone):
    """Sources without git, also within the clone of something else."""
    within = clone / "archive"
    within.mkdir()
    assert commits.install(within) == "" and not (clone / ".git" / "hooks" / "commit-msg").exists()
    shutil.rmtree(clone / ".git")
    assert commits.install(clone) == ""
