"""Registers, shared memory and spills of every kernel, as `nvcc -Xptxas -v` tells them; fails when a kernel spills.

  registers.py [ARCHITECTURE ...]      default: sm_80 sm_90
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENTRY = re.compile(r"entry function '(\w+)' for '(\w+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def short_name(mangled):
    """The kernel's name without what nvcc adds for the anonymous namespace; template arguments as numbers."""
    plain = re.sub(r"^_ZN\d+_GLOBAL__N__\w*?_cu_[0-9a-f]{8}", "", mangled)
    name = re.search(r"\d([a-z]\w*?_kernel)(I(?:Li\d+E)+E)?", plain)
    if not name:
        return mangled
    arguments = re.findall(r"Li(\d+)E", name.group(2) or "")
    return name.group(1) + (f"<{','.join(arguments)}>" if arguments else "")


def kernels(text):
    """(kernel, architecture, registers, bytes of shared memory, bytes spilled) of nvcc's messages."""
    found, entry, spilled = [], None, 0
    for line in text.splitlines():
        if match := ENTRY.search(line):
            entry = match.groups()
        elif match := SPILL.search(line):
            spilled = int(match.group(2)) + int(match.group(3))
        elif (match := USED.search(line)) and entry:
            found.append((short_name(entry[0]), entry[1], int(match.group(1)), int(match.group(2) or 0), spilled))
            entry, spilled = None, 0
    return found


def main():
    wanted = sys.argv[1:] or ["sm_80", "sm_90"]
    n_spilled = 0
    print(f"{'kernel':40s} {'real':7s} {'gpu':6s} registers  shared  spilled")
    for path in sorted(glob.glob(os.path.join(ROOT, "cuda", "*.cu"))):
        for is_double, real in enumerate(("float", "double")):
            with tempfile.TemporaryDirectory() as folder:
                codes = [f"-gencode=arch=compute_{a[3:]},code={a}" for a in wanted]
                options = ["-std=c++17", f"-DMLFF_REAL_IS_DOUBLE={is_double}", "-I", os.path.join(ROOT, "include")]
                done = subprocess.run(["nvcc", *options, *codes, "-Xptxas", "-v", "-c", path, "-o",
                                       os.path.join(folder, "x.o")],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            text = done.stdout.decode("utf-8", "replace")
            if done.returncode:
                sys.exit(text)
            for name, gpu, registers, shared, spilled in kernels(text):
                print(f"{name:40s} {real:7s} {gpu:6s} {registers:9d} {shared:7d} {spilled:8d}")
                n_spilled += spilled > 0
    if n_spilled:
        sys.exit(f"{n_spilled} kernels spill registers")


if __name__ == "__main__":
    main()
