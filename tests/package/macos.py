"""The engine, the C API, the program and the plugin compile for macOS: by zig's clang, with Apple's headers. Nothing is
run; the plugin is not linked, at which zig 0.17.1 ends with a segmentation fault. `make test-install`, some minutes."""

import os
import subprocess
import sys

import pytest
from wheels import ROOT, run, succeed


def tool(place, name, *words):
    """A program of one word for CMake."""
    path = place / name
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {" ".join(words)} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("processor, target", [("arm64", "aarch64-macos"), ("x86_64", "x86_64-macos")])
def test_compiles(processor, target, tmp_path):
    cc, cxx = tool(tmp_path, "cc", "cc", "-target", target), tool(tmp_path, "c++", "c++", "-target", target)
    ar, ranlib = tool(tmp_path, "ar", "ar"), tool(tmp_path, "ranlib", "ranlib")
    libyaml, build = tmp_path / "libyaml", tmp_path / "build"
    succeed([os.path.join(ROOT, "scripts", "static_libyaml.sh"), libyaml], CC=cc, AR=ar)
    options = {
        "CMAKE_SYSTEM_NAME": "Darwin",
        "CMAKE_SYSTEM_PROCESSOR": processor,
        "CMAKE_C_COMPILER": cc,
        "CMAKE_CXX_COMPILER": cxx,
        "CMAKE_AR": ar,
        "CMAKE_RANLIB": ranlib,
        "CMAKE_PREFIX_PATH": libyaml,
        "CMAKE_BUILD_TYPE": "Debug",
        "CMAKE_NO_SYSTEM_FROM_IMPORTED": "ON",  # LAMMPS has a memory.h, which must come before that of the system
        "MLFF_PYTHON": sys.executable,
        "MLFF_BUILD_TESTS": "OFF",
    }
    succeed(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *(f"-D{key}={value}" for key, value in options.items())])
    listed = subprocess.run(
        ["ninja", "-C", build, "-t", "targets", "all"], stdout=subprocess.PIPE, check=True, text=True
    )
    names = [line.rpartition(":")[0] for line in listed.stdout.splitlines()]
    plugin = [name for name in names if "mlffplugin.dir" in name and name.endswith(".o")]
    assert len(plugin) > 20
    code, output = run(["ninja", "-C", build, "mlff_cli", "mlff_shared", *plugin])
    assert code == 0, output[-4000:]
    for name in ("mlff", "libmlff.dylib"):
        assert (build / name).read_bytes()[:4] == b"\xcf\xfa\xed\xfe", name  # Mach-O of 64 bits
