# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""A build for a machine with a GPU on which nothing can be installed or built: the programs of the
check with the shared libraries that they load, in one archive.

    ./dev gpu --pack unmask-gpu.tar.xz                    # where it can be built
    tar -xf unmask-gpu.tar.xz && ./dev gpu --build unmask-gpu     # there, in the same source tree

The C library, the driver and CUDA's own libraries are the other machine's: it needs a C library no
older than this one's and the same major version of CUDA."""

import os
import re
import subprocess
import sys
import tarfile

PROGRAMS = ["unmask", "unmask_device_check", "unmask_ceilings", "unmask_bench", "profile_test"]
NAME = "unmask-gpu"
# Tied to the kernel, to the loader or to the driver.
THEIR_OWN = re.compile(r"/(ld-linux|lib(c|m|dl|rt|pthread|resolv|cuda|cudart|cublas|cublasLt|cupti|"
                       r"nvperf_host|nvperf_target|nvidia-ml)\.so)")


def libraries_of(program):
    """Paths by the names that the loader asks for."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    lost = re.findall(r"^\s*(\S+) => not found", listed, re.MULTILINE)
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE))
    return {n: p for n, p in found.items() if not THEIR_OWN.search(p)}, lost


def pack(build, file):
    """Writes the archive; the number of programs and of libraries in it. SystemExit with a sentence
    when the build lacks a program."""
    libraries = {}
    programs = {name: os.path.join(build, "bin", name) for name in PROGRAMS}
    for name, path in programs.items():
        if not os.access(path, os.X_OK):
            sys.exit(f"gpu: cannot pack {build}: it has no bin/{name}; build it with a CUDA compiler")
        found, lost = libraries_of(path)
        if lost:
            sys.exit(f"gpu: cannot pack {path}: it needs {', '.join(lost)}, not found here")
        libraries.update(found)
    with tarfile.open(file, "w:xz", preset=3) as archive:
        for folder, members in (("bin", programs), ("lib", libraries)):
            for name, path in sorted(members.items()):
                archive.add(os.path.realpath(path), f"{NAME}/{folder}/{name}")
    return len(programs), len(libraries)


def use_packed_libraries(build):
    """The programs of a build with a folder lib, and what they start, look there first."""
    folder = os.path.join(build, "lib")
    if os.path.isdir(folder):
        before = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = folder + (":" + before if before else "")
