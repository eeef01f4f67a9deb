"""Types the commands of a page of docs/, as its reader does, and holds what they print against what the page shows.

Blocks ```sh are commands, one after another in one shell; a block ```text below one is what it prints: these lines, in
this order, `...` for any others. Numbers stand for any number, bars of a table for any bar.
"""

import os
import re
import sys

import processes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("MLFF_BUILD_DIR", os.path.join(ROOT, "build")))
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
MARK = "@@ block {} @@"


def blocks(page):
    """[(commands, the lines that they print)] of docs/PAGE."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as f:
        found = re.findall(r"^```(sh|text)\n(.*?)^```$", f.read(), re.M | re.S)
    out = []
    for kind, text in found:
        if kind == "sh":
            out.append((text, []))
        else:
            assert out and not out[-1][1], f"{page}: what prints this?\n{text}"
            out[-1] = (out[-1][0], [line for line in text.splitlines() if line.strip() != "..."])
    return out


def pattern(line):
    """What a line of a page stands for. Columns may be wider or narrower."""
    parts = re.split(rf"(?<![\w.])({NUMBER})(?![\w.]*[a-z])|(\b[0-9a-f]{{12}}\b)|(#+ *$)|(\s+)", line.strip())
    kinds = (NUMBER, r"[0-9a-f]{12}", r"#*\s*", r"\s+")
    regex = ""
    for k, part in enumerate(parts):
        if part is not None:
            regex += re.escape(part) if k % 5 == 0 else kinds[k % 5 - 1]
    return re.compile(regex)


def environment():
    """That of a user whose mlff is this build."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env["PATH"] = os.pathsep.join((BUILD, os.path.dirname(sys.executable), env.get("PATH", "")))
    env.update(LAMMPS_PLUGIN_PATH=BUILD, OMP_NUM_THREADS="1", HYDRA_LAUNCHER="fork")
    return env


def type_page(page, folder, replace=(), skip=(), shown=(), env=(), timeout=300):
    """Runs the blocks of a page in a folder and compares; returns what each printed, None for one that was left out.

    replace: [(text, other)] within the commands, fewer steps for example, each of which must be there; skip: texts that
    a block has which is left out; shown: as replace, in what the page shows; env: more of the environment."""
    parts, script, left_out = blocks(page), ["set -e"], set()
    assert parts, f"{page} has no commands"
    for text in skip:
        found = {k for k, (commands, _) in enumerate(parts) if text in commands}
        assert found, f"{page} has no block with {text!r}"
        left_out |= found
    typed = {k: commands for k, (commands, _) in enumerate(parts) if k not in left_out}
    for text, other in replace:
        assert any(text in commands for commands in typed.values()), f"{page} has no {text!r}"
        typed = {k: commands.replace(text, other) for k, commands in typed.items()}
    for k, commands in typed.items():
        script += [f"echo '{MARK.format(k)}'", commands]
    done = processes.merged(
        ["bash", "-c", "\n".join(script)], cwd=folder, env={**environment(), **dict(env)}, timeout=timeout
    )
    assert done.returncode == 0, f"{page}: exit code {done.returncode}\n{done.stdout[-3000:]}"
    outputs = [None] * len(parts)
    for k in typed:
        outputs[k] = done.stdout.split(MARK.format(k) + "\n")[1].split("@@ block ")[0]
        wanted = parts[k][1]
        for text, other in shown:
            wanted = [line.replace(text, other) for line in wanted]
        compare(page, wanted, outputs[k])
    return outputs


def compare(page, wanted, output):
    """The wanted lines are printed, in their order. A build may be of any commit, or of none."""
    output = re.sub(r"\(commit (?:[0-9a-f]{12}(?:-dirty)?|unknown)\)", "(commit 0123456789ab)", output)
    lines = iter(output.splitlines())
    for line in wanted:
        regex = pattern(line)
        assert any(regex.search(printed) for printed in lines), (
            f"{page} shows\n{line}\nwhich is not in\n{output[-3000:]}"
        )
