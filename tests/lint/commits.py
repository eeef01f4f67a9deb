"""Checks commit messages: `area: imperative`, at most 72 characters, no list, then a blank line and the why.

    python3 tests/lint/commits.py FILE           one message, as the hook commit-msg passes it
    python3 tests/lint/commits.py RANGE          all commits of a range, as origin/main..HEAD
    python3 tests/lint/commits.py --install      the hook, unless this clone has one (scripts/setup.sh calls it)

Needs Python and git only.
"""

import os
import re
import subprocess
import sys

import words

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONGEST = 72
LAST_EXEMPT = "b879fc4d"  # commits up to this one were checked, or are older than the rule
AREA = re.compile(r"[\w./+*{},-]+(?:, [\w./+*-]+)*: (?=\S)")
UNCHECKED = re.compile(r'(?:fixup|squash|amend)! |Merge |Revert "')  # made by git
# First words that are not imperatives: articles and pronouns, past tenses, gerunds, third persons and plurals.
NOT_IMPERATIVE = re.compile(
    r"(?:an?|the|what|which|all|some|no|not|one|two|more|less|of|in|on|for|with|when|where|how|that|this|its?)$"
    r"|\w+(?<!e)ed$|\w{2,}ing$|\w+[^s'u]s$"
)
IMPERATIVES = {"alias", "bias", "bring", "embed", "spring", "string"}
VERB = re.compile(r"[a-z]+(?:-[a-z]+)?")
HOOK = """#!/bin/sh
# Installed by scripts/setup.sh of mlff; remove it or replace it with your own.
script=$(git rev-parse --show-toplevel)/tests/lint/commits.py
[ ! -f "$script" ] || ! command -v python3 >/dev/null || exec python3 "$script" "$1"
"""


def problems(message):
    """What is wrong with a commit message, a line each."""
    lines = [line for line in message.lstrip("\n").split("\n") if not line.startswith("#")]
    subject = lines[0].strip() if lines else ""
    if UNCHECKED.match(subject):
        return []
    found = []
    area = AREA.match(subject)
    if not area:
        found.append("the subject has no area: write `area: imperative`, as `docs: correct a number`")
    else:
        first = subject[area.end() :].split()[0]
        if not VERB.fullmatch(first) or (NOT_IMPERATIVE.match(first) and first not in IMPERATIVES):
            found.append(f"'{first}' is not an imperative in lower case, as `add`, `fix`, `remove`")
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters: at most {LONGEST}")
    if ";" in subject:
        found.append("the subject has a semicolon: make one commit of each change")
    if subject.endswith("."):
        found.append("the subject ends with a period")
    if len(lines) > 1 and lines[1].strip():
        found.append("the line below the subject is not blank")
    found += [f"write {instead} for '{word}'" for word, instead in words.in_subject(subject)]
    return found


def git(*command, folder=ROOT):
    """Output of a git command; None when it fails or git is not installed."""
    try:
        done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def bad_commits(commits, folder=ROOT):
    """[(hash, subject, problems)] of the commits of a range; None when git knows no such range."""
    log = git("log", "--no-merges", "--abbrev=7", "--format=%h%x00%B%x01", commits, "--", folder=folder)
    if log is None:
        return None
    messages = [entry.strip("\n").split("\0", 1) for entry in log.split("\1") if entry.strip()]
    return [(name, text.split("\n")[0], problems(text)) for name, text in messages if problems(text)]


def pushed():
    """The commits that CI checks: those since MLFF_BASE, a ref, or since the rule; of a shallow clone the last one."""
    for base in (os.environ.get("MLFF_BASE"), LAST_EXEMPT):
        if base and git("merge-base", base, "HEAD") is not None:
            return f"{base}..HEAD"
    return "HEAD^!"


def install(folder=ROOT):
    """Writes the hook into the clone's own hooks, which all its worktrees share. Changes nothing where there is a hook
    or no clone, or where core.hooksPath names a folder outside of the clone. Returns what was done, if anything."""
    found = git("rev-parse", "--show-toplevel", "--git-common-dir", "--git-path", "hooks", folder=folder)
    if found is None or len(found.splitlines()) != 3:
        return ""
    top, common, hooks = (os.path.realpath(os.path.join(folder, line)) for line in found.splitlines())
    path = os.path.join(hooks, "commit-msg")
    if top != os.path.realpath(folder) or os.path.commonpath([common, hooks]) != common or os.path.lexists(path):
        return ""
    os.makedirs(hooks, exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(HOOK)
    os.chmod(path, 0o755)
    return f"commit messages are checked by {path}"


def main(arguments):
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 2
    if arguments[0] == "--install":
        done = install()
        if done:
            print(f"mlff setup: {done}")
        return 0
    if os.path.isfile(arguments[0]):
        with open(arguments[0], encoding="utf-8", errors="replace") as f:
            found = problems(f.read())
        for text in found:
            print(f"commit message: {text}", file=sys.stderr)
        return 1 if found else 0
    bad = bad_commits(arguments[0])
    if bad is None:
        print(f"git knows no range '{arguments[0]}'", file=sys.stderr)
        return 2
    for name, subject, found in bad:
        print(f"{name} {subject}: {', '.join(found)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
