# Finds C libraries by header and library file. mlff_find_library defines an imported target. Search order:
# CMAKE_PREFIX_PATH, then CPATH and LIBRARY_PATH (set by environment modules), then the system.

# mlff_find_library(TARGET HEADER DEBIAN_PACKAGE NAME...): takes the first name that is found.
function(mlff_find_library target header package)
  string(REGEX REPLACE "^.*::" "" name "${target}")
  find_path(${name}_INCLUDE_DIR NAMES "${header}" HINTS ENV CPATH)
  find_library(${name}_LIBRARY NAMES ${ARGN} NAMES_PER_DIR HINTS ENV LIBRARY_PATH)
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(NOT ${name}_INCLUDE_DIR OR NOT ${name}_LIBRARY)
    list(JOIN ARGN " or lib" names)
    message(FATAL_ERROR "${header} or the library lib${names} was not found. Install it (Debian and Ubuntu: apt install "
      "${package}), or say where it is: -DCMAKE_PREFIX_PATH=/prefix, which has include/${header}.")
  endif()
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${${name}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
  message(STATUS "${name}: ${${name}_LIBRARY}")
endfunction()

mlff_find_library(mlff::libyaml yaml.h libyaml-dev yaml)
if(MLFF_BUILD_TESTS)
  mlff_find_library(mlff::check check.h check check_pic check)
  if(check_LIBRARY MATCHES "\\${CMAKE_STATIC_LIBRARY_SUFFIX}$") # dependencies of the static library
    find_library(subunit_LIBRARY NAMES subunit HINTS ENV LIBRARY_PATH)
    mark_as_advanced(subunit_LIBRARY)
    find_package(Threads REQUIRED)
    target_link_libraries(mlff::check INTERFACE $<$<BOOL:${subunit_LIBRARY}>:${subunit_LIBRARY}> Threads::Threads m rt)
  endif()
endif()
