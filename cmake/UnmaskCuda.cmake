# SPDX-License-Identifier: Apache-2.0
# The CUDA toolkit, when there is one: the compiler, the static runtime, NVTX headers and CUPTI.
# Sets UNMASK_HAS_CUDA, UNMASK_HAS_NVTX and UNMASK_HAS_CUPTI.

set(UNMASK_HAS_CUDA OFF)
set(UNMASK_HAS_NVTX OFF)
set(UNMASK_HAS_CUPTI OFF)
set(UNMASK_CUDA_TEXT "")
set(UNMASK_CUDA_ARCHITECTURES_TEXT "")

if(NOT UNMASK_CUDA MATCHES "^(auto|AUTO|ON|OFF)$")
  message(FATAL_ERROR "UNMASK_CUDA is \"${UNMASK_CUDA}\"; say auto, ON or OFF")
endif()
# unmask_try_nvcc(nvcc): a fatal error with what it says where it compiles nothing. One that has worked
# in this build folder is not tried again.
function(unmask_try_nvcc nvcc)
  if("${UNMASK_NVCC_THAT_WORKS}" STREQUAL "${nvcc}")
    return()
  endif()
  set(words "${nvcc}")
  if(NOT "$ENV{CUDAHOSTCXX}" STREQUAL "")
    list(APPEND words -ccbin "$ENV{CUDAHOSTCXX}")
  endif()
  file(WRITE ${PROJECT_BINARY_DIR}/generated/nvcc_check.cu "#include <cstddef>\n")
  execute_process(COMMAND ${words} -c nvcc_check.cu -o nvcc_check.o
                  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/generated
                  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    message(FATAL_ERROR "nvcc does not work. ${nvcc} said:\n${said}\n(${failed})\n"
                        "Put it right, name another in CUDACXX, or say -DUNMASK_CUDA=OFF")
  endif()
  set(UNMASK_NVCC_THAT_WORKS "${nvcc}" CACHE INTERNAL "")
endfunction()

if(NOT UNMASK_CUDA STREQUAL "OFF")
  # What an earlier run did not find may be there now.
  if("${CMAKE_CUDA_COMPILER}" MATCHES "NOTFOUND$")
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND "$ENV{CUDACXX}" STREQUAL "")
    find_program(unmask_nvcc nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATH_SUFFIXES bin NO_CACHE
                 NO_CMAKE_SYSTEM_PATH)
    if(unmask_nvcc)
      set(ENV{CUDACXX} "${unmask_nvcc}")
    endif()
  endif()
  # Whoever has an nvcc wants CUDA. One that does not work ends the configuration with its own words;
  # check_language() would say that there is none.
  if(NOT CMAKE_CUDA_COMPILER)
    set(unmask_nvcc "$ENV{CUDACXX}")
  else()
    set(unmask_nvcc "${CMAKE_CUDA_COMPILER}")
  endif()
  if(unmask_nvcc)
    unmask_try_nvcc("${unmask_nvcc}")
    # A fixed list: `native` fails to configure where no GPU is visible, and a build made on a login
    # node must run on the compute node. 80 runs on every 8.x, 90a on Hopper, and PTX of compute_80 on
    # every card that comes later, which the driver compiles at its first launch.
    set(unmask_every_gpu OFF)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
      set(CMAKE_CUDA_ARCHITECTURES "80;90a-real")
      set(unmask_every_gpu ON)
    endif()
    enable_language(CUDA)
    if(UNMASK_PCH)  # as of C++ (UnmaskOptions): the Python module takes all objects
      string(APPEND CMAKE_CUDA_FLAGS " -Xcompiler=-fPIC")
    endif()
    # Kernels have machine code for those too whose driver would compile the PTX, made of the same
    # PTX: that takes ptxas alone. An nvcc before 12.8 knows neither 100 nor 120.
    set(UNMASK_CUDA_MORE "")
    if(unmask_every_gpu AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      set(UNMASK_CUDA_MORE 89 100 120)
    elseif(unmask_every_gpu AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 11.8)
      set(UNMASK_CUDA_MORE 89)
    endif()
    # After the compiler is known: its own first test cannot be told a dialect.
    set(CMAKE_CUDA_STANDARD 20)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc's spelling
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
      # CMake 3.25 marks this target as deprecated without asking whether the toolkit still has it;
      # CUDA 13 has not.
      add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(UNMASK_HAS_CUDA ON)
    set(UNMASK_CUDA_TEXT ${CUDAToolkit_VERSION})
    list(JOIN CMAKE_CUDA_ARCHITECTURES " " UNMASK_CUDA_ARCHITECTURES_TEXT)
    foreach(more IN LISTS UNMASK_CUDA_MORE)
      string(APPEND UNMASK_CUDA_ARCHITECTURES_TEXT " ${more}-real")
    endforeach()
    # 90a alone has wgmma, and no macro tells the host. Beside code for 90 it could not know which of
    # the two the driver takes.
    if(UNMASK_CUDA_ARCHITECTURES_TEXT MATCHES "90a" AND
       NOT UNMASK_CUDA_ARCHITECTURES_TEXT MATCHES "90( |-|$)")
      add_compile_definitions($<$<COMPILE_LANGUAGE:CUDA>:UNMASK_HAS_SM90A>)
    endif()
    if(TARGET CUDA::nvtx3)
      find_path(UNMASK_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
                NO_DEFAULT_PATH)
      mark_as_advanced(UNMASK_NVTX_INCLUDE)
      if(UNMASK_NVTX_INCLUDE)
        set(UNMASK_HAS_NVTX ON)
      endif()
    endif()
    if(TARGET CUDA::cupti)
      set(UNMASK_HAS_CUPTI ON)
    endif()
  elseif(UNMASK_CUDA STREQUAL "ON")
    message(FATAL_ERROR "UNMASK_CUDA=ON but there is no nvcc: put it on PATH or set CUDACXX")
  endif()
endif()

if(UNMASK_HAS_CUDA)
  message(STATUS "CUDA ${UNMASK_CUDA_TEXT} for ${UNMASK_CUDA_ARCHITECTURES_TEXT}; NVTX "
                 "${UNMASK_HAS_NVTX}; CUPTI ${UNMASK_HAS_CUPTI}")
else()
  if(UNMASK_CUDA STREQUAL "OFF")
    message(STATUS "CPU only (UNMASK_CUDA=OFF)")
  else()
    message(STATUS "CPU only (no nvcc found; it is looked for on PATH and in CUDACXX)")
  endif()
endif()
