# SPDX-License-Identifier: Apache-2.0
# Run at every build (cmake -P): writes OUTPUT from INPUT with the commit the sources are at, or why none
# is known. The file changes only when its text does, so an unchanged tree compiles nothing.
set(GIT_COMMIT "unknown")
set(GIT_DIRTY "false")
set(GIT_UNKNOWN "")
find_package(Git QUIET)
if(GIT_FOUND)
  # The prefix is empty only when SOURCE itself is the top of a checkout: a release archive that
  # lies inside somebody else's repository must not report that repository's commit.
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} rev-parse --show-prefix HEAD
                  OUTPUT_VARIABLE where RESULT_VARIABLE failed ERROR_VARIABLE refusal)
  # What the program is made of, and tracked files alone: notes and experiments of the user's own
  # beside them change nothing.
  if(NOT failed AND where MATCHES "^\n([0-9a-f]+)\n$")
    set(commit ${CMAKE_MATCH_1})
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} status --porcelain --untracked-files=no
                            -- kernels harness methods cmake CMakeLists.txt CMakePresets.json
                    OUTPUT_VARIABLE changes RESULT_VARIABLE failed ERROR_VARIABLE refusal)
    if(NOT failed)
      set(GIT_COMMIT ${commit})
      if(changes)
        set(GIT_DIRTY "true")
      endif()
    endif()
  elseif(NOT failed)
    set(GIT_UNKNOWN "the sources are not the top of a git checkout")
  endif()
  if(refusal MATCHES "dubious ownership")
    set(GIT_UNKNOWN "git refuses a checkout of another owner: see git help config, safe.directory")
  elseif(refusal MATCHES "not a git repository")
    set(GIT_UNKNOWN "the sources are no git checkout")
  elseif(failed)
    string(REGEX REPLACE "[^A-Za-z0-9 :/._-].*" "" GIT_UNKNOWN "git said: ${refusal}")
    string(STRIP "${GIT_UNKNOWN}" GIT_UNKNOWN)
  endif()
else()
  set(GIT_UNKNOWN "git was not there when it was built")
endif()
if(GIT_COMMIT STREQUAL "unknown")
  message(STATUS "The program will name no commit: ${GIT_UNKNOWN}")
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
