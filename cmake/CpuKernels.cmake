# mlff_add_cpu_kernels(TARGET SOURCES...): compiles the op sources once for each element type (float, double) and each
# instruction set, and adds the objects to TARGET. A source sees MLFF_REAL_IS_DOUBLE=0|1 and exactly one of
# MLFF_KERNELS_GENERIC, MLFF_KERNELS_AVX2, MLFF_KERNELS_AVX512. TARGET itself sees MLFF_HAVE_AVX2 and MLFF_HAVE_AVX512.

set(MLFF_FLAGS_generic "")
set(MLFF_FLAGS_avx2 -mavx2 -mfma)
set(MLFF_FLAGS_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma)

set(MLFF_KERNEL_PATHS generic)
if(MLFF_KERNELS_X86 AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND MLFF_KERNEL_PATHS avx2 avx512)
endif()

function(mlff_add_cpu_kernels target)
  foreach(path IN LISTS MLFF_KERNEL_PATHS)
    string(TOUPPER ${path} upper)
    foreach(is_double 0 1)
      if(is_double)
        set(objects ${target}_cpu_f64_${path})
      else()
        set(objects ${target}_cpu_f32_${path})
      endif()
      add_library(${objects} OBJECT ${ARGN})
      target_compile_definitions(${objects} PRIVATE MLFF_REAL_IS_DOUBLE=${is_double} MLFF_KERNELS_${upper}=1)
      target_compile_options(${objects} PRIVATE -ffp-contract=fast -Wno-psabi ${MLFF_FLAGS_${path}})
      target_include_directories(${objects} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src/mlff")
      target_link_libraries(${objects} PRIVATE mlff_common)
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    endforeach()
    if(NOT path STREQUAL generic)
      target_compile_definitions(${target} PRIVATE MLFF_HAVE_${upper}=1)
    endif()
  endforeach()
endfunction()
