# SPDX-License-Identifier: Apache-2.0
# Whether the engine is built as a Python module (harness/python/engine). It needs Python's headers and
# nanobind, of the Python in .venv or of Python_EXECUTABLE. Sets UNMASK_HAS_PYTHON.
set(UNMASK_PYTHON auto CACHE STRING
    "The engine as a Python module: auto (with tests, where nanobind is), ON or OFF")
set_property(CACHE UNMASK_PYTHON PROPERTY STRINGS auto ON OFF)
if(NOT UNMASK_PYTHON MATCHES "^(auto|ON|OFF)$")
  message(FATAL_ERROR "UNMASK_PYTHON is \"${UNMASK_PYTHON}\"; say auto, ON or OFF")
endif()

set(UNMASK_HAS_PYTHON OFF)
# A sanitizer's runtime would have to be there before Python is.
if(UNMASK_PYTHON STREQUAL "OFF" OR
   (UNMASK_PYTHON STREQUAL "auto" AND
    (NOT UNMASK_BUILD_TESTS OR UNMASK_SANITIZE OR UNMASK_BUILD_FUZZ)))
  return()
endif()
if(NOT DEFINED Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.11 COMPONENTS Interpreter Development.Module QUIET)
set(nanobind_folder "")
if(Python_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_folder
                  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(nanobind_folder)
  set(nanobind_DIR ${nanobind_folder})
  find_package(nanobind CONFIG REQUIRED)
  set(UNMASK_HAS_PYTHON ON)
  message(STATUS "Python module for ${Python_VERSION} (${Python_EXECUTABLE})")
elseif(UNMASK_PYTHON STREQUAL "ON")
  message(FATAL_ERROR "UNMASK_PYTHON=ON needs Python 3.11 with its headers and nanobind: "
                      "./dev setup --python, or name a Python in -DPython_EXECUTABLE")
else()
  message(STATUS "No Python module (nanobind is not in .venv; ./dev setup --python installs it)")
endif()
