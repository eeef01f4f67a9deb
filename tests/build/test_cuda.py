"""cmake/Cuda.cmake: a compiler of CUDA that is found is used, and one that cannot be used ends only a build that asked
for the GPU backend."""

import os
import shutil

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


def configure(folder, *options, **more):
    (folder / "CMakeLists.txt").write_text(PROJECT)
    env = {k: v for k, v in os.environ.items() if k not in ("CUDACXX", "CUDA_HOME", "CUDA_PATH")} | more
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


def test_another_compiler_in_the_same_folder(tmp_path):
    """After one that failed the next is tried; after one that was used there is one error, or no GPU backend."""
    bad, good = tmp_path / "bad", shutil.which("nvcc")
    bad.write_text(f"#!/bin/sh\n{NVCC['does not compile a test program']}\n")
    bad.chmod(0o755)
    code, text = configure(tmp_path, CUDACXX=str(bad))
    assert code == 0 and f"{bad} does not compile a test program" in text, text
    if not good:
        pytest.skip("no nvcc is here")
    code, text = configure(tmp_path, f"-DMLFF_NVCC={good}")
    assert code == 0 and "GPU backend: CUDA" in text and "have 1" in text, text
    other = tmp_path / "nvcc"
    other.symlink_to(good)
    code, text = configure(tmp_path, f"-DMLFF_NVCC={other}")
    assert code and f"This folder was configured with {good}: use another build folder for {other}" in text, text


def test_a_compiler_that_is_gone(tmp_path):
    good, gone = shutil.which("nvcc"), tmp_path / "nvcc"
    if not good:
        pytest.skip("no nvcc is here")
    gone.write_text(f'#!/bin/sh\nexec {good} "$@"\n')
    gone.chmod(0o755)
    code, text = configure(tmp_path, f"-DMLFF_NVCC={gone}")
    assert code == 0 and "have 1" in text, text
    gone.unlink()
    code, text = configure(tmp_path, f"-DMLFF_NVCC={good}")
    assert code == 0 and f"not built, {gone}, which this folder was configured with, is gone" in text, text
