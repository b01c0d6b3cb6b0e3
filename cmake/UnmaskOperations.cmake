# SPDX-License-Identifier: Apache-2.0
# A library of operations (kernels/operation.h). Each registers itself before main(), so whoever
# links the library takes all of it. DEVICE sources (.cu) are compiled by nvcc where there is a CUDA
# compiler, and in builds with tests also as C++, for the emulator.
#   unmask_operations(name SOURCES ... DEVICE ... LIBS public libraries)
#
# A program whose property UNMASK_WATCHES_ACCESSES is on is linked with emulated kernels that say where
# they load and store (kernels/cuda/device/traffic.h): GCC calls a function for each access, which takes
# several times as long. The sanitizer itself is not linked, and nothing may think it is. No hardening: a
# checked memcpy() is a call, not an access.
set(UNMASK_SEE_ACCESSES "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT UNMASK_SANITIZE AND NOT UNMASK_BUILD_FUZZ)
  set(UNMASK_SEE_ACCESSES -fsanitize=thread -U__SANITIZE_THREAD__
      --param=tsan-instrument-func-entry-exit=0)
endif()
function(unmask_operations name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEVICE;LIBS" ${ARGN})
  set(device_sources "")
  foreach(source IN LISTS arg_DEVICE)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    list(APPEND device_sources ${source})
  endforeach()
  set_source_files_properties(${device_sources} PROPERTIES
    LANGUAGE CXX COMPILE_OPTIONS "${unmask_no_hardening}" SKIP_PRECOMPILE_HEADERS ON)
  add_library(${name}_archive STATIC ${arg_SOURCES})
  target_link_libraries(${name}_archive PUBLIC unmask_flags ${arg_LIBS}
                        PRIVATE OpenMP::OpenMP_CXX)
  unmask_precompile(${name}_archive parallel)
  set_property(GLOBAL APPEND PROPERTY UNMASK_DEVICE_SOURCES ${device_sources})  # for tests/softgpu
  if(UNMASK_HAS_CUDA AND device_sources)
    # A folder of its own: properties of source files do not reach there.
    set(device_objects ${name}_cuda)
    add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/device ${CMAKE_CURRENT_BINARY_DIR}/device)
    target_sources(${name}_archive PRIVATE $<TARGET_OBJECTS:${name}_cuda>)
    # A program with the property UNMASK_SOFTGPU has a runtime of its own (tests/softgpu).
    target_link_libraries(${name}_archive PRIVATE
      $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNMASK_SOFTGPU>>>:CUDA::cudart_static>)
  endif()
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${name}_archive>")
  if(UNMASK_BUILD_TESTS AND device_sources)
    set(watches "$<BOOL:$<TARGET_PROPERTY:UNMASK_WATCHES_ACCESSES>>")
    unmask_emulated(${name}_emulated "$<NOT:${watches}>")
    unmask_emulated(${name}_watched "${watches}")
    target_compile_options(${name}_watched PRIVATE ${UNMASK_SEE_ACCESSES})
  endif()
endfunction()
# The device sources of the library ${name}, for programs of which `condition` holds.
macro(unmask_emulated archive condition)
  add_library(${archive} STATIC ${device_sources})
  target_link_libraries(${archive} PUBLIC unmask_flags ${arg_LIBS} PRIVATE OpenMP::OpenMP_CXX)
  target_link_libraries(${name} INTERFACE "$<${condition}:$<LINK_LIBRARY:WHOLE_ARCHIVE,${archive}>>")
endmacro()
