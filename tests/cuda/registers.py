"""Lists registers, shared memory and spills of every kernel, as printed by `nvcc -Xptxas -v`. Fails when a kernel
spills or is missing.

  registers.py [ARCHITECTURE ...]      compiles; default: sm_80 sm_90
  registers.py --log BUILD.log         reads the log of a build with -DCMAKE_CUDA_FLAGS=-Xptxas=-v
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
BUILDING = re.compile(r"Building CUDA object cuda/CMakeFiles/mlff_cuda_(f32|f64)\.dir/(\w+\.cu)\.o")
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


def compile_all(architectures):
    """(file, real, nvcc's messages) of every file and element type."""
    for path in sorted(glob.glob(os.path.join(ROOT, "cuda", "*.cu"))):
        for is_double, real in enumerate(("float", "double")):
            with tempfile.TemporaryDirectory() as folder:
                codes = [f"-gencode=arch=compute_{a[3:]},code={a}" for a in architectures]
                options = ["-std=c++17", f"-DMLFF_REAL_IS_DOUBLE={is_double}", "-I", os.path.join(ROOT, "include")]
                done = subprocess.run(
                    ["nvcc", *options, *codes, "-Xptxas", "-v", "-c", path, "-o", os.path.join(folder, "x.o")],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
            text = done.stdout.decode("utf-8", "replace")
            if done.returncode:
                sys.exit(text)
            yield os.path.basename(path), real, text


def read_log(path):
    """The same from the log of a build, which may contain several builds: the last one of each file counts."""
    with open(path, encoding="utf-8", errors="replace") as f:
        parts = BUILDING.split(f.read())
    last = {(file, real): text for real, file, text in zip(parts[1::3], parts[2::3], parts[3::3])}
    for (file, real), text in sorted(last.items()):
        if not os.path.exists(os.path.join(ROOT, "cuda", file)):
            continue  # the file was removed
        yield file, {"f32": "float", "f64": "double"}[real], text


def missing_kernels(rows):
    """Kernels of the sources that have no row, with the GPU."""
    wanted = set()
    for path in glob.glob(os.path.join(ROOT, "cuda", "*.cu")):
        with open(path, encoding="utf-8") as f:
            wanted.update(re.findall(r"__global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+_kernel)\(", f.read()))
    found = {(name.split("<")[0], gpu) for name, _, gpu, *_ in rows}
    gpus = {gpu for _, gpu in found} or {"any GPU"}
    return [f"{name} for {gpu}" for gpu in sorted(gpus) for name in sorted(wanted) if (name, gpu) not in found]


def main():
    arguments = sys.argv[1:]
    parts = read_log(arguments[1]) if arguments[:1] == ["--log"] else compile_all(arguments or ["sm_80", "sm_90"])
    rows = [(name, real, gpu, *numbers) for _, real, text in parts for name, gpu, *numbers in kernels(text)]
    print(f"{'kernel':40s} {'real':7s} {'gpu':6s} registers  shared  spilled")
    for name, real, gpu, registers, shared, spilled in rows:
        print(f"{name:40s} {real:7s} {gpu:6s} {registers:9d} {shared:7d} {spilled:8d}")
    missing, n_spilled = missing_kernels(rows), sum(row[-1] > 0 for row in rows)
    if missing:
        sys.exit("no registers are listed for " + ", ".join(missing))
    if n_spilled:
        sys.exit(f"{n_spilled} kernels spill registers")


if __name__ == "__main__":
    main()
