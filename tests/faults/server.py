"""Commands of mlff_tools, each in a process of its own that has their modules already: injection.py starts it.

A line of standard input is JSON with the module, words, folder, file of what is said and limits; the answer is the exit
code."""

import importlib
import json
import os
import resource
import sys

MODULES = (
    "bench.suite",
    "bench.scaling",
    "bench.validate",
    "certify.command",
    "convert.command",
    "model.selftest",
    "report.page",
    "train.distill",
    "train.label",
)


def begin(job):
    """The process of a command becomes what a shell would have started."""
    os.setsid()
    os.chdir(job["place"])
    log = os.open(job["log"], os.O_WRONLY)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for fd in (1, 2):
        os.dup2(log, fd)
    for name, most in job["limits"]:
        resource.setrlimit(getattr(resource, name), (most, most))
    sys.argv = ["mlff", *job["words"]]


def serve():
    """Returns the job in its process, and None at the end."""
    for name in (*(f"mlff_tools.{name}" for name in MODULES), "matplotlib.figure", "matplotlib.backends.backend_svg"):
        importlib.import_module(name)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            begin(job)
            return job
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


if __name__ == "__main__":
    wanted = serve()
    if wanted:
        sys.exit(importlib.import_module(wanted["module"]).main(wanted["words"]))
