# mlff_add_arch(NAME): adds arch/NAME.c, whose descriptor is `const mlff_arch mlff_arch_NAME`, and its parts arch/NAME_*.c
# to the engine's sources, which are the global property MLFF_ARCH_SOURCES.
# mlff_write_registry(FILE): writes the C file that defines mlff_archs[] from all names added.

define_property(GLOBAL PROPERTY MLFF_ARCHS BRIEF_DOCS "Architectures of the engine" FULL_DOCS "In registry order")
define_property(GLOBAL PROPERTY MLFF_ARCH_SOURCES BRIEF_DOCS "Their files" FULL_DOCS "With those of their parts")

function(mlff_add_arch name)
  if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/arch/${name}.c")
    message(FATAL_ERROR "mlff_add_arch(${name}): there is no ${CMAKE_CURRENT_SOURCE_DIR}/arch/${name}.c")
  endif()
  file(GLOB parts CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/arch/${name}_*.c")
  set_property(GLOBAL APPEND PROPERTY MLFF_ARCHS ${name})
  set_property(GLOBAL APPEND PROPERTY MLFF_ARCH_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/arch/${name}.c" ${parts})
endfunction()

function(mlff_write_registry file)
  get_property(names GLOBAL PROPERTY MLFF_ARCHS)
  set(MLFF_REGISTRY_EXTERNS "")
  set(MLFF_REGISTRY_ENTRIES "")
  foreach(name IN LISTS names)
    string(APPEND MLFF_REGISTRY_EXTERNS "extern const mlff_arch mlff_arch_${name};\n")
    string(APPEND MLFF_REGISTRY_ENTRIES "&mlff_arch_${name}, ")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/registry.c.in" "${file}" @ONLY)
endfunction()
