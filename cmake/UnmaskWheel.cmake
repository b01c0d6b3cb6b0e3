# SPDX-License-Identifier: Apache-2.0
# What a wheel holds beside the files of the Python package (pyproject.toml): the engine as a module, the program,
# and under unmask/tree what the program looks for with it (program_root() in harness/base/package.h). Models are a
# wheel of their own (experiments/models/pyproject.toml).
install(TARGETS unmask RUNTIME DESTINATION unmask/bin)
if(TARGET unmask_python)
  install(TARGETS unmask_python LIBRARY DESTINATION unmask/engine)
endif()
install(DIRECTORY experiments plots DESTINATION unmask/tree
        PATTERN __pycache__ EXCLUDE PATTERN gallery EXCLUDE REGEX "/experiments/models$" EXCLUDE)
