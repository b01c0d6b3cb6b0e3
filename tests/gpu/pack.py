# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""The programs of the GPU check for a machine on which nothing can be installed or built: one
executable under all their names, stripped, with the shared libraries that it loads (ICU's without
its data), in one archive.

    ./dev gpu --pack unmask-gpu.tar.xz        # where it can be built
    ./dev gpu --first                         # there, in the same source tree

The C library, the driver and CUDA's own libraries are the other machine's: it needs a C library no
older than this one's; cuBLASLt, cuDNN and CUPTI are looked for at run time."""

import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import tempfile

NAME = "unmask-gpu"
PROGRAM = "unmask_gpu"
MODULES = ("libunmask_cudnn.so", "libunmask_cutlass.so")  # of other libraries, if ./dev build --libraries made them
LIMIT = 25 << 20  # of the archive
TRAVELS = 60 << 20  # of the source tree and the archive together
# The check reads none of these, so a tree that must be small travels without them.
LEFT_OUT = ("results/tiny/", "results/epyc-2core/", "tests/goldens/pictures/", "tests/goldens/evals/",
            *(f"experiments/models/{m}/" for m in ("deep-llada", "deep-sdar", "tiny-ar", "tiny-dream", "tiny-llada2",
                                                   "tiny-parallel", "tiny-fdv2", "smol")))
# Tied to the kernel, to the loader or to the driver.
THEIR_OWN = re.compile(r"/(ld-linux|lib(c|m|dl|rt|pthread|resolv|cuda|cudart|cublas|cublasLt|cupti|"
                       r"nvperf_host|nvperf_target|nvidia-ml)\.so)")


def libraries_of(program):
    """Paths by the names that the loader asks for."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    lost = re.findall(r"^\s*(\S+) => not found", listed, re.MULTILINE)
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE))
    return {n: p for n, p in found.items() if not THEIR_OWN.search(p)}, lost


def tracked_bytes(root):
    """Bytes of the files that git would send along, without LEFT_OUT; 0 where there is no git."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=False)
    files = [os.path.join(root, f) for f in done.stdout.decode().split("\0")
             if f and not f.startswith(LEFT_OUT)]
    return sum(os.path.getsize(f) for f in files if os.path.isfile(f) and not os.path.islink(f))


def refuse_without_cuda(build):
    """SystemExit when the programs hold no kernels for a GPU."""
    done = subprocess.run([os.path.join(build, "bin", PROGRAM), "unmask", "doctor", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0 and json.loads(done.stdout)["build"]["cuda_toolkit"] is None:
        sys.exit(f"gpu: cannot pack {build}: it was built without a CUDA compiler "
                 "(--rehearse packs it all the same)")


def pack(build, file, root=os.path.dirname(os.path.dirname(os.path.dirname(
        os.path.abspath(__file__)))), preset=9 | lzma.PRESET_EXTREME):
    """Writes the archive; a sentence with its size. SystemExit with a sentence when something is
    missing or the archive is too large to travel."""
    program = os.path.join(build, "bin", PROGRAM)
    if not os.access(program, os.X_OK):
        sys.exit(f"gpu: cannot pack {build}: it has no bin/{PROGRAM}; build it with a CUDA compiler")
    libraries, lost = libraries_of(program)
    if lost:
        sys.exit(f"gpu: cannot pack {program}: it needs {', '.join(lost)}, not found here")
    names = subprocess.run([program, "--programs"], capture_output=True, text=True,
                           check=True).stdout.split()
    for name in libraries:
        if name.startswith("libicudata.so"):
            libraries[name] = os.path.join(build, "lib", name)
    modules = [m for m in MODULES if os.path.isfile(os.path.join(build, "bin", m))]
    with tempfile.TemporaryDirectory() as folder, \
            lzma.open(file, "wb", preset=preset) as compressed, \
            tarfile.open(fileobj=compressed, mode="w") as archive:
        members = {f"bin/{PROGRAM}": program, **{f"bin/{m}": os.path.join(build, "bin", m) for m in modules},
                   **{f"lib/{n}": p for n, p in libraries.items()}}
        for name, path in sorted(members.items()):
            plain = os.path.join(folder, os.path.basename(name))
            subprocess.run(["strip", "-o", plain, os.path.realpath(path)], check=True)
            os.chmod(plain, 0o755)
            archive.add(plain, f"{NAME}/{name}")
        for name in names:
            link = tarfile.TarInfo(f"{NAME}/bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, PROGRAM
            archive.addfile(link)
    size, tree = os.path.getsize(file), tracked_bytes(root)
    said = (f"{file}: {len(names)} programs in one, {len(libraries)} libraries, "
            f"{len(modules)} modules, {size / 2**20:.1f} MiB; with the source tree, {', '.join(LEFT_OUT)} left out, "
            f"{(size + tree) / 2**20:.1f} MiB")
    if size > LIMIT:
        sys.exit(f"gpu: {said}: more than {LIMIT >> 20} MiB")
    if size + tree > TRAVELS:
        sys.exit(f"gpu: {said}: more than the {TRAVELS >> 20} MiB that travel")
    return said
