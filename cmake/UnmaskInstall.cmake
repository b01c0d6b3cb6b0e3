# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` and a Debian package hold: the program, and under share/unmask what it looks
# for beside itself (program_root() in harness/base/package.h): experiments with their models and
# tasks, the Python package and the scripts that draw.
include(GNUInstallDirs)
set(unmask_share ${CMAKE_INSTALL_DATADIR}/unmask)

install(TARGETS unmask RUNTIME)
install(DIRECTORY experiments plots DESTINATION ${unmask_share}
        PATTERN __pycache__ EXCLUDE PATTERN train EXCLUDE PATTERN gallery EXCLUDE)
install(DIRECTORY harness/python DESTINATION ${unmask_share}/harness PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE README.md CITATION.cff CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME unmask)
set(CPACK_PACKAGE_CONTACT "The Unmask Authors <unmask@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
    "Benchmarks and profiles decoding methods for diffusion language models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3 (>= 3.11)")
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
include(CPack)
