# mlff_commit: an object library whose mlff_commit() returns the commit of the source. It is written anew in each build,
# and only where it differs. Only the program mlff and the plugin are linked to it, and so linked again after a commit.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "unknown") # source without git, or inside the repository of something else
  find_program(GIT git)
  if(GIT)
    execute_process(COMMAND "${GIT}" -C "${SOURCE}" rev-parse --show-prefix RESULT_VARIABLE failed OUTPUT_VARIABLE prefix
      ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed AND prefix STREQUAL "")
      execute_process(COMMAND "${GIT}" -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude * OUTPUT_VARIABLE found
        ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
      execute_process(COMMAND "${GIT}" -C "${SOURCE}" ls-files --others --exclude-standard -- src include cuda
        OUTPUT_VARIABLE others ERROR_QUIET) # which are compiled as well
      if(found MATCHES "^[0-9a-f]+$" AND NOT others STREQUAL "")
        set(found "${found}-dirty")
      endif()
      if(found MATCHES "^[0-9a-f]+(-dirty)?$")
        set(commit "${found}")
      endif()
    endif()
  endif()
  file(CONFIGURE OUTPUT "${FILE}" CONTENT "#include \"base/commit.h\"\n\nconst char *mlff_commit(void)\n{\n  return \"${commit}\";\n}\n")
else()
  set(file "${PROJECT_BINARY_DIR}/commit.c")
  add_custom_target(mlff_commit_file BYPRODUCTS "${file}" COMMENT "" VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DFILE=${file}" -P "${CMAKE_CURRENT_LIST_FILE}")
  add_library(mlff_commit OBJECT "${file}")
  add_dependencies(mlff_commit mlff_commit_file)
  target_include_directories(mlff_commit PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(mlff_commit PRIVATE mlff_common)
endif()
