"""Which kernels a build has: MLFF_KERNELS_SIMD."""

import os

import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROJECT = f"""cmake_minimum_required(VERSION 3.16)
project(kernels C)
include("{ROOT}/cmake/CpuKernels.cmake")
message(STATUS "PATHS ${{MLFF_KERNEL_PATHS}} MIXED ${{MLFF_MIXED_PATHS}}")
"""


def configure(place, wanted, processor):
    """(exit code, output) of CMake; bf16 is what the compiler has."""
    (place / "CMakeLists.txt").write_text(PROJECT)
    words = ["cmake", "-S", place, "-B", place / "build", "-DCMAKE_SYSTEM_NAME=Linux", f"-DMLFF_KERNELS_SIMD={wanted}"]
    known = ["-DMLFF_COMPILER_HAS_AVX512_BF16=1", "-DMLFF_COMPILER_HAS_AMX=1", "-DMLFF_COMPILER_HAS_SVE=1"]
    words += [f"-DCMAKE_SYSTEM_PROCESSOR={processor}", *known]
    done = processes.merged(words)
    return done.returncode, " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "wanted, processor, paths, mixed",
    [
        ("ON", "x86_64", "generic;avx2;avx512", "generic;avx2;avx512;avx512_bf16;amx"),
        ("OFF", "x86_64", "generic", "generic"),
        ("avx2", "x86_64", "generic;avx2", "generic;avx2"),
        ("avx512;generic", "x86_64", "generic;avx512", "generic;avx512;avx512_bf16;amx"),
        ("on", "aarch64", "generic;neon;sve256;sve512", "generic;neon;sve256;sve512"),
        ("neon;sve512", "aarch64", "generic;neon;sve512", "generic;neon;sve512"),
    ],
)
def test_chosen(wanted, processor, paths, mixed, tmp_path):
    code, output = configure(tmp_path, wanted, processor)
    assert code == 0 and f"PATHS {paths} MIXED {mixed} " in output, output


@pytest.mark.parametrize("wanted, processor", [("avx9", "x86_64"), ("avx2;neon", "aarch64"), ("avx2,avx512", "x86_64")])
def test_unknown(wanted, processor, tmp_path):
    code, output = configure(tmp_path, wanted, processor)
    assert code != 0 and "MLFF_KERNELS_SIMD names 'avx" in output and "; there are generic;" in output, output
