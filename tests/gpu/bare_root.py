"""A root directory with next to nothing in it, to see whether programs bring all that they need: glibc, the runtime of
gcc and zlib, some programs of this machine, and what a test binds to it. There is no network in it.

    root = bare_root.make(folder, programs=["sh"])
    code, output = bare_root.run(root, ["/pack/lmp", "-h"], binds={pack: "/pack"}, env={"LD_LIBRARY_PATH": "/pack/lib"})
"""

import os
import re
import shutil
import signal
import subprocess

LOADER = "/lib64/ld-linux-x86-64.so.2"
# What any machine has on which Python and a driver of NVIDIA run. All of these that there are here are put into a root.
SYSTEM = (
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libz.so.1",
)
# Where the loader looks by itself.
FOLDERS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64")
TOOLS = ("unshare", "mount", "chroot", "ldd", "sh", "env")
# Arguments: the root, pairs of what is bound and where, `--`, the command. When it has ended nothing is left mounted.
SCRIPT = 'root=$1; shift; while [ "$1" != -- ]; do mount --rbind "$1" "$root$2"; shift 2; done; shift; exec "$@"'


class Missing(Exception):
    """A program needs a library that a bare machine lacks; the text names both."""


def why_not():
    """What this machine lacks for making and entering such a root, or None."""
    if os.geteuid():
        return "a bare root needs the rights of root (mount, chroot)"
    for name in TOOLS:
        if not shutil.which(name):
            return f"a bare root needs the program {name}"
    if not os.path.exists(LOADER):
        return f"a bare root needs {LOADER}"
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "true"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    return f"a bare root needs mounts of its own: {done.stderr.decode().strip()}" if done.returncode else None


def make(folder, programs=(), trees=(), libraries=()):
    """Makes a root in a folder and returns its path.

    programs: names or paths on this machine, which are at the same places inside, with the libraries that they need
    trees: directories that are copied, as paths, which stay the same inside, or as pairs (here, inside)
    libraries: names that are allowed beside SYSTEM

    Raises Missing when a program needs another library than these, unless a tree brings it.
    """
    root, trees = os.path.abspath(folder), [(tree, tree) if isinstance(tree, str) else tree for tree in trees]
    for name in ("proc", "dev", "tmp"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for here, inside in trees:
        shutil.copytree(here, root + inside, symlinks=True, dirs_exist_ok=True)
    add(root, LOADER)
    for name in (*SYSTEM, *libraries):
        found = [os.path.join(place, name) for place in FOLDERS if os.path.exists(os.path.join(place, name))]
        if found:
            add(root, found[0])
    for program in programs:
        path = shutil.which(program)
        if not path:
            raise Missing(f"{program} is not on this machine")
        add(root, path)
        for name, library in needed(path):
            if not any(library.startswith(here + os.sep) for here, _ in trees):
                if name not in (*SYSTEM, *libraries):
                    raise Missing(f"{path} needs {name}, which a bare machine lacks")
                add(root, library)
    return root


def add(root, path):
    """Copies a file of this machine to the same place inside; links are followed."""
    target = root + path
    if not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(path, target)


def needed(program):
    """(name, path) of the libraries that a program loads; none of a static one."""
    done = subprocess.run(
        ["ldd", program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    found = re.findall(r"^\s*(\S+) => (not found|\S+)", done.stdout.decode("utf-8", "replace"), re.M)
    for name, path in found:
        if path == "not found":
            raise Missing(f"{program} needs {name}, which is not on this machine")
    return found


def run(root, command, binds=None, env=None, timeout=60):
    """Runs a command inside, with nothing in its environment but `env` and PATH. binds: files and directories of this
    machine -> where they are inside, as they are, to be written to as well. Returns the exit code, or None when it ran
    out of time and was killed, and its output."""
    places = []
    for here, inside in {"/proc": "/proc", "/dev": "/dev", **{str(k): v for k, v in (binds or {}).items()}}.items():
        target = root + inside
        os.makedirs(target if os.path.isdir(here) else os.path.dirname(target), exist_ok=True)
        if not os.path.isdir(here) and not os.path.exists(target):
            with open(target, "wb"):
                pass
        places += [here, inside]
    values = [f"{key}={value}" for key, value in {"PATH": "/usr/bin:/bin", **(env or {})}.items()]
    words = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        "sh",
        "-euc",
        SCRIPT,
        "sh",
        root,
        *places,
        "--",
        shutil.which("env"),
        "-i",
        *values,
        shutil.which("chroot"),
        root,
        *command,
    ]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            output, code = process.communicate(timeout=timeout)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, code = process.communicate()[0], None
    return code, output.decode("utf-8", "replace")
