"""cmake/Cuda.cmake: a compiler of CUDA that is found is used, and one that cannot be used ends only a build that asked
for the GPU backend."""

import os

import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROJECT = f"""
cmake_minimum_required(VERSION 3.20)
project(test LANGUAGES CXX)
set(MLFF_CUDA AUTO CACHE STRING "")
set(MLFF_CUDA_ARCHITECTURES 80-real)
include({ROOT}/cmake/Cuda.cmake)
message(STATUS "have ${{MLFF_HAVE_CUDA}}")
"""
NVCC = {
    "is of CUDA 11.8, and 12 or newer is needed": "echo 'Cuda compilation tools, release 11.8, V11.8.89'",
    "does not run": "exit 127",
    "does not compile a test program": "echo 'Cuda compilation tools, release 12.4, V12.4.99'\n"
    "[ \"$1\" = --version ] || { echo 'unsupported GNU version' >&2; exit 1; }",
}


def configure(folder, *options):
    (folder / "CMakeLists.txt").write_text(PROJECT)
    env = {k: v for k, v in os.environ.items() if k not in ("CUDACXX", "CUDA_HOME", "CUDA_PATH")}
    done = processes.merged(["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", *options], env=env)
    return done.returncode, " ".join(done.stdout.split())


@pytest.mark.parametrize("why", NVCC)
def test_unusable_compilers(why, tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\n{NVCC[why]}\n")
    nvcc.chmod(0o755)
    code, text = configure(tmp_path, f"-DMLFF_NVCC={nvcc}")
    assert code == 0 and f"GPU backend: not built, {nvcc} {why} (MLFF_CUDA=AUTO)" in text and "have 0" in text, text
    if "test program" not in why:  # of which CMake has words of its own
        code, text = configure(tmp_path, "-DMLFF_CUDA=ON")
        assert code and f"MLFF_CUDA=ON, but {nvcc} {why}" in text, text


def test_off_and_wrong_words(tmp_path):
    code, text = configure(tmp_path, "-DMLFF_CUDA=OFF")
    assert code == 0 and "GPU backend: not built (MLFF_CUDA=OFF)" in text and "have 0" in text, text
    code, text = configure(tmp_path, "-DMLFF_CUDA=yes")
    assert code and "MLFF_CUDA=yes is not one of AUTO, ON, OFF" in text, text
