# SPDX-License-Identifier: Apache-2.0
# Compiler and linker options that make a memory fault in the program end it instead of being used
# (files of strangers are read), and that keep folders of the build machine out of the binary.
# tests/install/hardening.py reads the linked program and holds each of them.
include(CheckCXXCompilerFlag)

# Names in error messages and debug information are relative to the repository.
set(unmask_prefix_maps -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${PROJECT_BINARY_DIR}" NORMALIZE unmask_build_is_below)
if(NOT unmask_build_is_below)
  list(APPEND unmask_prefix_maps -ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/)
endif()
target_compile_options(unmask_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${unmask_prefix_maps}>")
# nvcc splits what it hands on at commas and blanks. Its compiler reads these options from a file, whose
# name is relative to the folder in which Ninja starts every command. Makefiles start commands in many
# folders, so that the name is whole there.
string(REGEX REPLACE "([^A-Za-z0-9_./=;-])" "\\\\\\1" unmask_host_prefix_maps "${unmask_prefix_maps}")
list(JOIN unmask_host_prefix_maps "\n" unmask_host_prefix_maps)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/prefix-maps CONTENT
     "${unmask_host_prefix_maps}\n" @ONLY)
set(unmask_prefix_file generated/prefix-maps)
if(NOT CMAKE_GENERATOR MATCHES "Ninja")
  set(unmask_prefix_file ${PROJECT_BINARY_DIR}/generated/prefix-maps)
endif()
if(unmask_prefix_file MATCHES "[ ,]")
  message(STATUS "Objects of CUDA code keep names of this folder: ${CMAKE_GENERATOR} passes no name with a "
                 "blank or a comma on through nvcc; Ninja does")
else()
  target_compile_options(unmask_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=@${unmask_prefix_file}>)
endif()

# Sanitizers check more, and replace what these options rely on.
if(UNMASK_SANITIZE OR UNMASK_BUILD_FUZZ)
  return()
endif()
set(unmask_hardening -fstack-protector-strong)
check_cxx_compiler_flag(-fstack-clash-protection UNMASK_HAS_STACK_CLASH_PROTECTION)
if(UNMASK_HAS_STACK_CLASH_PROTECTION)
  list(APPEND unmask_hardening -fstack-clash-protection)
endif()
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  # Level 3 also checks sizes that are known only at run time. Compilers older than GCC 12 take it
  # as level 2.
  list(APPEND unmask_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
target_compile_options(unmask_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${unmask_hardening}>)
# What an exempt target or source adds (kernels/CMakeLists.txt and UnmaskOperations say why).
set(unmask_no_hardening -fno-stack-protector -fno-stack-clash-protection -U_FORTIFY_SOURCE)
# -pie: objects are position independent in any case, but only some compilers link so by default.
target_link_options(unmask_flags INTERFACE
  "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:LINKER:-z,relro,-z,now;-pie>")
