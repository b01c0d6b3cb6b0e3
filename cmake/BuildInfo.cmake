# SPDX-License-Identifier: Apache-2.0
# Run at every build (cmake -P): writes OUTPUT from INPUT with the commit the sources are at. The
# file changes only when its text does, so an unchanged tree compiles nothing.
set(GIT_COMMIT "unknown")
set(GIT_DIRTY "false")
find_package(Git QUIET)
if(GIT_FOUND)
  # The prefix is empty only when SOURCE itself is the top of a checkout: a release archive that
  # lies inside somebody else's repository must not report that repository's commit.
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} rev-parse --show-prefix HEAD
                  OUTPUT_VARIABLE where RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed AND where MATCHES "^\n([0-9a-f]+)\n$")
    set(GIT_COMMIT ${CMAKE_MATCH_1})
    # What the program is made of, and tracked files alone: notes and experiments of the user's own
    # beside them change nothing.
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} status --porcelain --untracked-files=no
                            -- kernels harness methods cmake CMakeLists.txt CMakePresets.json
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      set(GIT_DIRTY "true")
    endif()
  endif()
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
