# SPDX-License-Identifier: Apache-2.0
"""A copy of the source tree in another folder, as a fresh checkout has it, and stand-ins for programs."""

import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Signs that a shell, CMake, Ninja, nvcc, the linker, a pattern or a folder of ours takes for its own.
ODD = "it's [a] (b), c++ é中 %20 &= @x@ kernels"


def names():
    """What git knows, or where this is no checkout all but what is built."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"],
                            capture_output=True, check=False)
    if listed.returncode == 0:
        return [name.decode() for name in listed.stdout.split(b"\0") if name]
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f[0] != "." and f not in ("build", "runs", "figures")]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return found


def copy(place, without=()):
    """Copies the tree; `without`: folders that a test can do without."""
    for name in names():
        source, target = os.path.join(ROOT, name), os.path.join(place, name)
        if not os.path.isfile(source) or name.startswith(tuple(without)):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target)
    return place


def stand_in(path, text):
    """A program that is these lines of sh."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{text}\n")
    os.chmod(path, 0o755)
    return path


def variables(**more):
    """The environment without what chooses compilers; None takes a variable away."""
    changed = {**os.environ, "LC_ALL": "C", "UNMASK_NO_SETUP": "1", **more}
    for name in ("CUDACXX", "CUDA_PATH", "CUDA_HOME", "NVCC_PREPEND_FLAGS"):
        changed.setdefault(name, None)
        if name not in more:
            changed[name] = None
    return {name: value for name, value in changed.items() if value is not None}
