# mlff_add_cpu_kernels(TARGET SOURCES...): compiles the op sources once for each element type (float, double) and each
# instruction set, and adds the objects to TARGET. A source sees MLFF_REAL_IS_DOUBLE=0|1 and exactly one of
# MLFF_KERNELS_GENERIC, MLFF_KERNELS_AVX2, MLFF_KERNELS_AVX512, MLFF_KERNELS_NEON, MLFF_KERNELS_SVE256 and MLFF_KERNELS_SVE512.
#
# mlff_add_mixed_kernels(TARGET SOURCES...): the same for floats alone, and for the instruction sets with products in bf16
# that the compiler knows. There a source sees MLFF_KERNELS_AVX512 and MLFF_KERNELS_AVX512_BF16 or MLFF_KERNELS_AMX.
#
# TARGET itself sees MLFF_HAVE_AVX2 and so on, and kernel_paths.h with the lists MLFF_KERNEL_PATHS(X) and MLFF_MIXED_PATHS(X).
include(CheckCCompilerFlag)

set(MLFF_FLAGS_generic "")
set(MLFF_FLAGS_avx2 -mavx2 -mfma)
set(MLFF_FLAGS_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma)
set(MLFF_FLAGS_avx512_bf16 ${MLFF_FLAGS_avx512} -mavx512bf16)
set(MLFF_FLAGS_amx ${MLFF_FLAGS_avx512_bf16} -mamx-tile -mamx-bf16)
set(MLFF_FLAGS_neon -fno-schedule-insns) # before registers are given out: GCC 12 then keeps two sums of a tile in memory
set(MLFF_FLAGS_sve256 -march=armv8.2-a+sve -msve-vector-bits=256)
set(MLFF_FLAGS_sve512 -march=armv8.2-a+sve -msve-vector-bits=512)

set(MLFF_KERNEL_PATHS generic)
set(bf16_paths "")
if(MLFF_KERNELS_SIMD AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND MLFF_KERNEL_PATHS avx2 avx512)
  check_c_compiler_flag(-mavx512bf16 MLFF_COMPILER_HAS_AVX512_BF16)
  check_c_compiler_flag("-mamx-tile -mamx-bf16" MLFF_COMPILER_HAS_AMX)
  if(MLFF_COMPILER_HAS_AVX512_BF16)
    list(APPEND bf16_paths avx512_bf16)
    if(MLFF_COMPILER_HAS_AMX)
      list(APPEND bf16_paths amx)
    endif()
  endif()
elseif(MLFF_KERNELS_SIMD AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  list(APPEND MLFF_KERNEL_PATHS neon)
  check_c_compiler_flag("-march=armv8.2-a+sve -msve-vector-bits=256" MLFF_COMPILER_HAS_SVE)
  if(MLFF_COMPILER_HAS_SVE)
    list(APPEND MLFF_KERNEL_PATHS sve256 sve512)
  endif()
endif()
set(MLFF_MIXED_PATHS ${MLFF_KERNEL_PATHS} ${bf16_paths})

function(mlff_add_kernel_objects target objects path is_double)
  string(TOUPPER ${path} upper)
  add_library(${objects} OBJECT ${ARGN})
  target_compile_definitions(${objects} PRIVATE MLFF_REAL_IS_DOUBLE=${is_double} MLFF_KERNELS_${upper}=1)
  if(path MATCHES "^(avx512_bf16|amx)$")
    target_compile_definitions(${objects} PRIVATE MLFF_KERNELS_AVX512=1)
  endif()
  target_compile_options(${objects} PRIVATE -ffp-contract=fast -fno-math-errno -Wno-psabi ${MLFF_FLAGS_${path}})
  target_include_directories(${objects} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src/mlff")
  target_link_libraries(${objects} PRIVATE mlff_common)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
endfunction()

# In TARGET's kernel_paths.h: #define NAME(X) X(a) X(b) ...
function(mlff_write_kernel_paths target)
  set(text "/* Made by cmake/CpuKernels.cmake: the kernel paths of this build. */\n#define MLFF_KERNEL_PATHS(X)")
  foreach(path IN LISTS MLFF_KERNEL_PATHS)
    string(APPEND text " X(f32, ${path}) X(f64, ${path})")
  endforeach()
  string(APPEND text "\n#define MLFF_MIXED_PATHS(X)")
  foreach(path IN LISTS MLFF_MIXED_PATHS)
    string(APPEND text " X(${path})")
  endforeach()
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/kernel_paths.h" CONTENT "${text}\n")
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
endfunction()

function(mlff_add_cpu_kernels target)
  mlff_write_kernel_paths(${target})
  foreach(path IN LISTS MLFF_KERNEL_PATHS)
    mlff_add_kernel_objects(${target} ${target}_cpu_f32_${path} ${path} 0 ${ARGN})
    mlff_add_kernel_objects(${target} ${target}_cpu_f64_${path} ${path} 1 ${ARGN})
  endforeach()
endfunction()

function(mlff_add_mixed_kernels target)
  foreach(path IN LISTS MLFF_MIXED_PATHS)
    mlff_add_kernel_objects(${target} ${target}_cpu_mixed_${path} ${path} 0 ${ARGN})
    if(NOT path STREQUAL generic)
      string(TOUPPER ${path} upper)
      target_compile_definitions(${target} PRIVATE MLFF_HAVE_${upper}=1)
    endif()
  endforeach()
endfunction()
