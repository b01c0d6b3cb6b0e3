# SPDX-License-Identifier: Apache-2.0
# The path of a checkout is data. It may hold blanks, commas and the signs of patterns.

# unmask_glob(variable [RECURSE] patterns...): file(GLOB) below the current folder, or below a path that a
# pattern begins with. Brackets of a folder's name are no pattern. The files are relative and begin with
# "./", so that a filter sees names of the repository alone; set_source_files_properties() needs that name too.
function(unmask_glob variable)
  cmake_parse_arguments(arg "RECURSE" "" "" ${ARGN})
  set(kind GLOB)
  if(arg_RECURSE)
    set(kind GLOB_RECURSE)
  endif()
  set(patterns "")
  foreach(pattern IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH pattern BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REPLACE "[" "[[]" pattern "${pattern}")
    list(APPEND patterns "${pattern}")
  endforeach()
  file(${kind} found RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS ${patterns})
  list(TRANSFORM found PREPEND "./")
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()
