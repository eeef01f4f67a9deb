# mlff_add_arch(NAME): adds arch/NAME.c, whose descriptor is `const mlff_arch mlff_arch_NAME`, to the engine.
# mlff_write_registry(FILE): writes the C file that defines mlff_archs[] from all names added.

define_property(GLOBAL PROPERTY MLFF_ARCHS BRIEF_DOCS "Architectures of the engine" FULL_DOCS "In registry order")

function(mlff_add_arch name)
  if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/arch/${name}.c")
    message(STATUS "architecture ${name}: no arch/${name}.c yet, left out")
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY MLFF_ARCHS ${name})
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
