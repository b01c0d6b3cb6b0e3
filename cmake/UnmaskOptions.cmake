# SPDX-License-Identifier: Apache-2.0
# Options, compiler settings and the one place where dependencies are found.

option(UNMASK_BUILD_TESTS "Build the test suite" ON)
option(UNMASK_BUILD_BENCH "Build the kernel benchmarks" ON)
option(UNMASK_BUILD_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(UNMASK_SANITIZE "Address and undefined-behaviour sanitizers" OFF)
option(UNMASK_WERROR "Warnings are errors" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# -O2 with line tables; never -ffast-math: NaN must stay NaN and sums must keep their order.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

find_program(UNMASK_CCACHE ccache)
if(UNMASK_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${UNMASK_CCACHE})
endif()

add_library(unmask_flags INTERFACE)
target_include_directories(unmask_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(unmask_flags INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers
                       -Wno-unknown-pragmas $<$<BOOL:${UNMASK_WERROR}>:-Werror>)
if(UNMASK_SANITIZE)
  target_compile_options(unmask_flags INTERFACE -fsanitize=address,undefined
                         -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(unmask_flags INTERFACE -fsanitize=address,undefined)
endif()

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(dnnl REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(OpenSSL REQUIRED)
find_path(ONIG_INCLUDE oniguruma.h REQUIRED)
find_library(ONIG_LIBRARY onig REQUIRED)
