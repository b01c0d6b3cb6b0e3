# SPDX-License-Identifier: Apache-2.0
# Options, compiler settings and the one place where dependencies are found (CUDA: UnmaskCuda).

option(UNMASK_BUILD_TESTS "Build the test suite" ON)
option(UNMASK_BUILD_BENCH "Build the kernel benchmarks" ON)
option(UNMASK_BUILD_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(UNMASK_SANITIZE OFF CACHE STRING
    "Sanitizers: OFF, ON (address and undefined behaviour) or thread (needs clang and libomp)")
set_property(CACHE UNMASK_SANITIZE PROPERTY STRINGS OFF ON thread)
# Off for users: another compiler's new warning must not break their build. CI sets the variable.
option(UNMASK_WERROR "Warnings are errors" $ENV{UNMASK_WERROR})
option(UNMASK_UNITY "Compile the harness several files at a time: faster from scratch, slower after an edit" OFF)
option(UNMASK_PCH "Precompile the standard library's headers, and GoogleTest's for the tests" OFF)
option(UNMASK_LIBRARY_WAYS "Modules that compute an operation by another library (kernels/libraries/README.md)" OFF)
set(UNMASK_CUDA auto CACHE STRING "CUDA backend: auto (when nvcc is found), ON or OFF")
set_property(CACHE UNMASK_CUDA PROPERTY STRINGS auto ON OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(UNMASK_PCH)
  # One precompiled header serves libraries and programs only when both are compiled alike.
  string(APPEND CMAKE_CXX_FLAGS " -fPIC")
else()
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # the linker splits a path at its commas

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# -O2 with line tables; never -ffast-math: NaN must stay NaN and sums must keep their order.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -lineinfo")

find_program(UNMASK_CCACHE ccache)
mark_as_advanced(UNMASK_CCACHE)
set(unmask_ccache_works OFF)
if(UNMASK_CCACHE)
  # It speeds up the build where it can keep its files: a user without a home has no place for them.
  file(WRITE ${PROJECT_BINARY_DIR}/generated/ccache_check.cpp "")
  execute_process(COMMAND ${UNMASK_CCACHE} ${CMAKE_CXX_COMPILER} -c ccache_check.cpp -o ccache_check.o
                  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/generated
                  RESULT_VARIABLE unmask_ccache_failed OUTPUT_VARIABLE unmask_ccache_said
                  ERROR_VARIABLE unmask_ccache_said OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(unmask_ccache_failed)
    message(STATUS "ccache is not used, it does not work here: ${unmask_ccache_said}")
  else()
    set(unmask_ccache_works ON)
  endif()
endif()
if(unmask_ccache_works)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${UNMASK_CCACHE})
  if(UNMASK_PCH)
    # ccache answers for files with a precompiled header only when told that nothing in it counts
    # macros or times.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros ${UNMASK_CCACHE})
  endif()
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${UNMASK_CCACHE})
endif()

add_library(unmask_flags INTERFACE)
target_include_directories(unmask_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(unmask_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow
                       -Wno-missing-field-initializers -Wno-unknown-pragmas
                       $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option>
                       $<$<BOOL:${UNMASK_WERROR}>:-Werror>>
                       $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -Xcompiler=-Wall,-Wextra
                       $<$<BOOL:${UNMASK_WERROR}>:-Werror=all-warnings>>)
include(UnmaskHardening)
if(UNMASK_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC forgets that a precompiled header is the system's: its optimiser then reports what it does
  # not report of the same header when included. The preset cpu, without one, warns of all this.
  target_compile_options(unmask_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds
    -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-maybe-uninitialized
    -Wno-uninitialized -Wno-dangling-pointer -Wno-free-nonheap-object>)
endif()
set(sanitizers "")
if(UNMASK_SANITIZE STREQUAL "thread")
  # GCC's OpenMP runtime is not instrumented and tells ThreadSanitizer nothing about its barriers:
  # every parallel region would be reported. LLVM's tells it, through its tool libarcher.
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "UNMASK_SANITIZE=thread needs clang and libomp: use the preset tsan")
  endif()
  set(sanitizers -fsanitize=thread)
  target_compile_options(unmask_flags INTERFACE ${sanitizers} -fno-omit-frame-pointer)
  target_link_options(unmask_flags INTERFACE ${sanitizers})
elseif(UNMASK_SANITIZE OR UNMASK_BUILD_FUZZ)
  set(sanitizers -fsanitize=address,undefined)
  target_compile_options(unmask_flags INTERFACE ${sanitizers} -fno-sanitize-recover=undefined
                         -fno-omit-frame-pointer)
  target_link_options(unmask_flags INTERFACE ${sanitizers})
endif()
if(UNMASK_BUILD_FUZZ)
  target_compile_options(unmask_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What the environment record says about this build, besides the compiler's name and version.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
string(JOIN " " UNMASK_FLAGS_TEXT ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}
       ${sanitizers})

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
# Debian's dnnl-config.cmake insists on OpenCL headers, which the CPU engine does not need.
find_path(DNNL_INCLUDE dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                      INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE})
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_path(ONIG_INCLUDE oniguruma.h REQUIRED)
find_library(ONIG_LIBRARY onig REQUIRED)

# unmask_precompile(target [flavour]): the headers that most files read are parsed once for all
# targets of a flavour (plain; parallel: with OpenMP; light; test: light, with GoogleTest). Light code
# is none that is timed: files, scores, tables, commands, tests. It compiles in three quarters of the
# time with -O1. Not for targets with flags of their own.
# The project's own headers stay out: editing one must not compile everything again.
set(unmask_standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring>
    <filesystem> <fstream> <functional> <limits> <map> <memory> <numeric> <optional> <random> <set>
    <span> <sstream> <stdexcept> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
function(unmask_precompile target)
  set(flavour plain)
  set(light "")
  if(ARGC GREATER 1)
    set(flavour ${ARGV1})
  endif()
  if(flavour MATCHES "light|test")
    set(light $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O1>)
    target_compile_options(${target} PRIVATE ${light})
  endif()
  if(NOT UNMASK_PCH)
    return()
  endif()
  set(holder unmask_headers_${flavour})
  if(NOT TARGET ${holder})
    set(empty ${PROJECT_BINARY_DIR}/generated/${holder}.cpp)
    file(GENERATE OUTPUT ${empty} CONTENT "")
    add_library(${holder} OBJECT ${empty})
    target_link_libraries(${holder} PRIVATE unmask_flags)
    target_compile_options(${holder} PRIVATE ${light})
    set(headers ${unmask_standard_headers})
    if(flavour STREQUAL "parallel")
      target_link_libraries(${holder} PRIVATE OpenMP::OpenMP_CXX)
    elseif(flavour STREQUAL "test")
      target_link_libraries(${holder} PRIVATE GTest::gtest)
      list(APPEND headers <gtest/gtest.h>)
    endif()
    target_precompile_headers(${holder} PRIVATE ${headers})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${holder} PRIVATE -fpch-preprocess)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${holder})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()
