"""cmake/Libraries.cmake: libyaml and Check are found by header and library, static or shared, without pkg-config."""

import os

import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PROJECT = """cmake_minimum_required(VERSION 3.20)
project(probe LANGUAGES C)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
list(APPEND CMAKE_MODULE_PATH "%s/cmake")
include(Libraries)
foreach(target libyaml check)
  if(TARGET mlff::${target})
    get_target_property(place mlff::${target} IMPORTED_LOCATION)
    get_target_property(dirs mlff::${target} INTERFACE_INCLUDE_DIRECTORIES)
    get_target_property(more mlff::${target} INTERFACE_LINK_LIBRARIES)
    message(STATUS "RESULT ${target} ${place} ${dirs} ${more}")
  endif()
endforeach()
""".replace("%s", ROOT)


def prefix(path, headers, libraries):
    for folder, names in (("include", headers), ("lib", libraries)):
        (path / folder).mkdir(parents=True)
        for name in names:
            (path / folder / name).write_text("")
    return path


@pytest.fixture
def configure(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)

    def run(place, *options, **env):
        """(exit code, output) with what is in a prefix and nothing of the system's."""
        done = processes.merged(
            [
                "cmake",
                "-S",
                str(tmp_path),
                "-B",
                str(tmp_path / "build"),
                "-G",
                "Ninja",
                f"-DCMAKE_PREFIX_PATH={place}",
                *options,
            ],
            env={**os.environ, "CPATH": "", "LIBRARY_PATH": "", **env},
        )
        return done.returncode, " ".join(done.stdout.split())

    return run


@pytest.mark.parametrize("kind", ["a", "so"])
def test_prefix(configure, tmp_path, kind):
    place = prefix(tmp_path / "there", ["yaml.h", "check.h"], [f"libyaml.{kind}", f"libcheck.{kind}"])
    code, text = configure(place, "-DMLFF_BUILD_TESTS=ON")
    assert code == 0 and f"RESULT libyaml {place}/lib/libyaml.{kind} {place}/include" in text, text
    assert f"RESULT check {place}/lib/libcheck.{kind} {place}/include" in text and ("Threads::Threads" in text) == (
        kind == "a"
    ), text


def test_environment_modules(configure, tmp_path):
    place = prefix(tmp_path / "there", ["yaml.h"], ["libyaml.so"])
    code, text = configure("", CPATH=f"/nowhere:{place}/include", LIBRARY_PATH=f"{place}/lib")
    assert code == 0 and f"RESULT libyaml {place}/lib/libyaml.so {place}/include" in text, text


@pytest.mark.parametrize(
    "headers, libraries, tests, package",
    [
        ([], ["libyaml.so"], "OFF", "libyaml-dev"),
        (["yaml.h"], [], "OFF", "libyaml-dev"),
        (["yaml.h"], ["libyaml.so"], "ON", "check"),
    ],
)
def test_missing(configure, tmp_path, headers, libraries, tests, package):
    code, text = configure(prefix(tmp_path / "there", headers, libraries), f"-DMLFF_BUILD_TESTS={tests}")
    assert code != 0 and f"apt install {package})" in text and "CMAKE_PREFIX_PATH" in text, text
