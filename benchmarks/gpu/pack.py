"""The pack: one file with what a machine with a GPU lacks, made by `run.sh --pack` on one with a network.

It has programs built for GPUs (mlff, the test suites, the plugin), a LAMMPS, libyaml and Check with their headers,
the models, and small reference files; gpu-pack.tar.xz together with the repository's own files is all that has to
travel. A manifest names the sources that it was built from, so that a stale pack is not used by mistake.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import steps

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCES = (
    "src",
    "include",
    "cuda",
    "cmake",
    "tests/support",
    "tests/op",
    "tests/model",
    "tests/cuda",
    "CMakeLists.txt",
    "tests/CMakeLists.txt",
)
SUITES = ("op", "model", "cuda")
SMALL_SUITES = ("test_op_ops", "test_op_painn_radial", "test_model_orb", "test_model_painn", "test_cuda_gpu")
MOST_TRAVELS = 60_000_000  # bytes of the pack and the repository's files together
MOST_REFERENCE = 3_000_000  # bytes of a reference file that is taken along
ORB = "random-orb-v2"


def source_hash():
    """Of all files that programs are built from."""
    paths = []
    for entry in SOURCES:
        top = os.path.join(ROOT, entry)
        paths += [top] if os.path.isfile(top) else [os.path.join(b, n) for b, _, names in os.walk(top) for n in names]
    total = hashlib.sha256()
    for path in sorted(path for path in paths if re.search(r"\.(c|h|cu|cpp|cmake|txt|in)$", path)):
        with open(path, "rb") as f:
            total.update(os.path.relpath(path, ROOT).encode() + hashlib.sha256(f.read()).digest())
    return total.hexdigest()


def run(command, **options):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options
    )
    if done.returncode:
        text = done.stdout.decode("utf-8", "replace")
        raise steps.Failed(f"{' '.join(command[:3])} ... failed:\n{text[-3000:]}")


def configure(build, simulated, python=None, prefix=None, architectures=None):
    """CMake's command line. python: with the LAMMPS that the plugin is built for, None: no plugin. prefix: libyaml
    and Check."""
    backend = (
        ["-DMLFF_CUDASIM=ON"]
        if simulated
        else ["-DMLFF_CUDA=ON", f"-DMLFF_CUDA_ARCHITECTURES={architectures or '80-real;90a-real;90-virtual'}"]
    )
    plugin = ["-DMLFF_BUILD_PLUGIN=ON", f"-DMLFF_PYTHON={python}"] if python else ["-DMLFF_BUILD_PLUGIN=OFF"]
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    return [
        "cmake",
        "-S",
        ROOT,
        "-B",
        build,
        *generator,
        "-DCMAKE_BUILD_TYPE=Release",
        "-DMLFF_BUILD_TESTS=ON",
        "-DMLFF_BUILD_EXAMPLES=OFF",
        *backend,
        *plugin,
        *([f"-DCMAKE_PREFIX_PATH={prefix}"] if prefix else []),
    ]


def suites(simulated):
    """Names of the test programs that a device can run, one of each file; few for the simulated one, which has all of
    them in `make test`."""
    if simulated:
        return sorted(SMALL_SUITES)
    files = (path for kind in SUITES for path in glob.glob(os.path.join(ROOT, "tests", kind, "test_*.c*")))
    names = (
        f"test_{os.path.basename(os.path.dirname(path))}_{os.path.splitext(os.path.basename(path))[0][5:]}"
        for path in files
    )
    return sorted(name for name in names if name != "test_model_mixed")  # which is about the CPU


def targets(simulated, has_plugin):
    """What is built: a command's end for `cmake --build`."""
    return ["--target", "mlff_cli", *suites(simulated), *(["mlffplugin"] if has_plugin else [])]


def copy_dependencies(programs, folder):
    """libyaml, Check and what it needs, with headers, as CMAKE_PREFIX_PATH has them."""
    os.makedirs(os.path.join(folder, "lib"))
    libraries = {path for program in programs for path in steps.libraries(program).values()}
    for library in (path for path in libraries if re.match(r"lib(yaml|check|subunit)", os.path.basename(path))):
        real = shutil.copy(os.path.realpath(library), os.path.join(folder, "lib", os.path.basename(library)))
        plain = re.sub(r"\.so.*", ".so", os.path.basename(library))
        if not os.path.exists(os.path.join(folder, "lib", plain)):
            os.symlink(os.path.basename(real), os.path.join(folder, "lib", plain))
    os.makedirs(os.path.join(folder, "include"))
    for name in ("yaml.h", "check.h", "check_stdint.h"):
        found = next(
            (
                os.path.join(base, name)
                for base in ("/usr/include", "/usr/local/include")
                if os.path.exists(os.path.join(base, name))
            ),
            None,
        )
        if found:
            shutil.copy(found, os.path.join(folder, "include"))


def copy_references(shared, folder):
    """Reference results and small models, for suites that skip without them; large models stay behind whole."""
    os.makedirs(folder)
    paths = sorted(path for path in glob.glob(os.path.join(shared, "*")) if not re.search(r"sevennet|nequi", path))
    large = {os.path.splitext(path)[0] for path in paths if os.path.getsize(path) > MOST_REFERENCE}
    for path in paths:
        if os.path.splitext(path)[0] not in large:
            shutil.copy(path, folder)


def strip(path):
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", path], check=False)


def travelling_size():
    """Bytes of the repository's own files: tracked, and untracked ones that git does not ignore."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    paths = [os.path.join(ROOT, name.decode()) for name in listed.split(b"\0") if name]
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path) and not os.path.islink(path))


def make(out, build, simulated=False, python=sys.executable, preset=8, architectures=None):
    """Builds, and writes the pack to `out`; returns its size and that of everything that travels."""
    run(configure(build, simulated, python, architectures=architectures))
    run(["cmake", "--build", build, "-j", str(os.cpu_count() or 2), *targets(simulated, True)])
    folder = os.path.join(build, "pack")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "tests"))
    programs = [shutil.copy(os.path.join(build, "mlff"), folder)]
    programs += [
        shutil.copy(os.path.join(build, "tests", name), os.path.join(folder, "tests")) for name in suites(simulated)
    ]
    steps.pack(os.path.join(folder, "lammps"), python, os.path.join(build, "mlffplugin.so"))
    for path in (*programs, os.path.join(folder, "lammps", steps.PLUGIN)):
        strip(path)
    copy_dependencies(programs, os.path.join(folder, "deps"))
    run([python, os.path.join(HERE, "shapes.py"), os.path.join(folder, "models"), *(["--small"] if simulated else [])])
    os.remove(os.path.join(folder, "models", ORB + ".safetensors"))  # 100 MB that orb_weights.py makes again
    copy_references(os.path.join(ROOT, "..", "shared", "models"), os.path.join(folder, "shared", "models"))
    manifest = {"sources": source_hash(), "simulated": simulated, "suites": suites(simulated)}
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as f:
        json.dump(manifest, f, indent=1)
    with tarfile.open(out + ".new", "w:xz", preset=preset) as archive:
        archive.add(folder, "pack")
    os.replace(out + ".new", out)
    size, own = os.path.getsize(out), travelling_size()
    if size + own > MOST_TRAVELS:
        raise steps.Failed(
            f"the pack has {size / 1e6:.1f} MB and the repository {own / 1e6:.1f} MB: together more than "
            f"{MOST_TRAVELS / 1e6:.0f} MB, which is what may travel"
        )
    return size, own


def unpack(path, folder):
    """The manifest of the pack, unpacked into `folder` unless it is there."""
    with open(path, "rb") as f:
        name = hashlib.sha256(f.read()).hexdigest()[:12]
    stamp, inside = os.path.join(folder, "of.txt"), os.path.join(folder, "pack")
    there = ""
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as f:
            there = f.read()
    if there != name:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with tarfile.open(path) as archive:
            archive.extractall(folder, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
        with open(stamp, "w", encoding="ascii") as f:
            f.write(name)
    with open(os.path.join(inside, "manifest.json"), encoding="utf-8") as f:
        return inside, json.load(f)
