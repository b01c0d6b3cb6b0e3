#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Counts the instructions of every kernel's inner loop, by kind, from the machine code for Hopper.

    inner_loops.py OBJECT...                     prints one JSON object per kernel, the worst of its instances
    inner_loops.py --budget FILE OBJECT...       holds them against "inner_loop" of FILE; exit code 1 where one is over
    inner_loops.py --write FILE OBJECT...        writes them there

OBJECT is what nvcc made: an object file, a cubin or a program. The inner loop is the smallest one with the most tensor
instructions; where there are none, the innermost one that loads the most bytes from global memory. Local loads and stores are counted
in the whole kernel and must be none. Needs cuobjdump: on PATH, in the CUDA toolkit, or from its Python wheel
(./dev setup --sass). Without it one line says NOT RUN and the exit code is 77, or 1 if UNMASK_CI is set.
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sasscheck"))
import sass  # noqa: E402

KINDS = {
    "global loads": ("LDG", "LD"), "asynchronous copies": ("LDGSTS",), "global stores": ("STG", "ST"),
    "shared loads": ("LDS",), "matrix loads": ("LDSM",), "shared stores": ("STS",),
    "tensor": ("HMMA", "IMMA", "HGMMA", "DMMA"), "exponentials": ("MUFU",), "float64": ("DFMA", "DADD", "DMUL", "DSETP"),
    "conversions": ("F2F", "I2F", "F2I", "I2FP", "F2FP", "F2IP", "FRND"), "barriers": ("BAR",),
    "shuffles": ("SHFL", "VOTE", "VOTEU", "REDUX"),
}
ARCHITECTURE = "sm_90a"
KIND_OF = {opcode: kind for kind, opcodes in KINDS.items() for opcode in opcodes}
NAME = re.compile(r"_ZN6unmask4cuda6native\d+([a-z][a-z0-9_]*_kernel)")
# Instances with a line of their own: those of dtype::bf16, and attention by wgmma, whose loop is a sixth of the others'.
INSTANCES = {" of bfloat16 rows": re.compile(r"_kernelILNS_5dtypeE1E"),
             " by warpgroups": re.compile(r"attention_(?:tensor|cluster)_kernelI\w+Lb1EEEv")}
LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)([^;]*);")
TARGET = re.compile(r"0x([0-9a-f]+)\s*$")


def find_cuobjdump():
    places = [shutil.which("cuobjdump"), "/usr/local/cuda/bin/cuobjdump"]
    wheels = os.path.join(os.path.dirname(__file__), "../../.venv/sass/lib/python*/site-packages")
    for folder in [wheels, *sys.path]:
        places += glob.glob(os.path.join(folder, "nvidia", "*", "bin", "cuobjdump"))
    return next((p for p in places if p and os.access(p, os.X_OK)), None)


def functions(text):
    """(name, architecture, [(address, opcode, rest)]) of every function of a disassembly."""
    architecture, name, code = "", None, []
    for line in text.splitlines():
        if (found := re.match(r"\s*code for (sm_\w+)", line)):
            architecture = found.group(1)
        elif (found := re.match(r"\s*Function : (\S+)", line)):
            if name:
                yield name, architecture, code
            name, code = found.group(1), []
        elif (found := LINE.match(line)):
            code.append((int(found.group(1), 16), found.group(2), found.group(3)))
    if name:
        yield name, architecture, code


def all_loops(code):
    """(innermost, instructions) of every loop: from where a branch goes back to, to the branch."""
    loops = set()
    for address, opcode, rest in code:
        if opcode == "BRA" and (found := TARGET.search(rest)) and int(found.group(1), 16) < address:
            loops.add((int(found.group(1), 16), address))
    for first, last in loops:
        innermost = not any((a, b) != (first, last) and a >= first and b <= last for a, b in loops)
        yield innermost, [i for i in code if first <= i[0] <= last]


def counted(code):
    counts = collections.Counter(KIND_OF[op] for _, op, _ in code if op in KIND_OF)
    counts["instructions"] = len(code)
    return counts


def loaded_bytes(code):
    """Of a lane, from global memory."""
    width = lambda rest: next((n for mark, n in ((".128", 16), (".64", 8), (".U16", 2), (".U8", 1)) if mark in rest), 4)
    return sum(width(rest) for _, op, rest in code if KIND_OF.get(op) in ("global loads", "asynchronous copies"))


def hot_loop(code):
    loops = list(all_loops(code))
    tensor = [c for _, body in loops if (c := counted(body))["tensor"]]
    if tensor:
        return max(tensor, key=lambda c: (c["tensor"], -c["instructions"]))
    inner = [body for innermost, body in loops if innermost] or [code]
    return counted(max(inner, key=lambda body: (loaded_bytes(body), len(body))))


def survey(objects, tool):
    """Per kernel the largest of every count over its instances, for the GPUs that the targets are about."""
    found = {}
    for path in objects:
        text = subprocess.run([tool, "--dump-sass", "--gpu-architecture", ARCHITECTURE, path], capture_output=True, text=True, check=True).stdout
        for name, architecture, code in functions(text):
            kernel = NAME.search(name)
            if not kernel or not code or architecture != ARCHITECTURE:
                continue
            loop = hot_loop(code)
            loop["local loads and stores"] = sum(op in ("LDL", "STL") for _, op, _ in code)
            which = next((words for words, pattern in INSTANCES.items() if pattern.search(name)), "")
            kept = found.setdefault(kernel.group(1) + which, collections.Counter())
            for kind, count in loop.items():
                kept[kind] = max(kept[kind], count)
    return {name: dict(sorted((k, n) for k, n in c.items() if n or k == "local loads and stores"))
            for name, c in sorted(found.items())}


def over(found, budget):
    """One line for every count above its budget. A kernel that the budget does not name may have no local accesses."""
    problems = []
    for name, counts in found.items():
        allowed = budget.get(name)
        for kind, count in counts.items():
            if allowed is None and kind != "local loads and stores":
                continue
            most = (allowed or {}).get(kind, 0)
            if count > most:
                problems.append(f"{name}: {count} {kind} in its inner loop, {most} are allowed")
    return problems + [f"{name} is in the budget and in no object" for name in budget if name not in found]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget")
    parser.add_argument("--write")
    parser.add_argument("--below", default="", help="folder that the patterns begin in")
    parser.add_argument("objects", nargs="+")
    options = parser.parse_args(arguments)
    tool = find_cuobjdump()
    if tool is None:
        return sass.not_run("NOT RUN: needs cuobjdump (CUDA toolkit, or the Python wheel nvidia-cuda-cuobjdump)")
    objects = [os.path.join(options.below, o) for pattern in options.objects
               for o in sorted(glob.glob(pattern, root_dir=options.below or None, recursive=True)) or [pattern]]
    found = survey(objects, tool)
    if options.write:
        with open(options.write, encoding="utf-8") as file:
            whole = json.load(file)
        whole["inner_loop"] = found
        with open(options.write, "w", encoding="utf-8") as file:
            text = json.dumps(whole, indent=2)
            file.write(re.sub(r"\{\n\s+([^{}]*?)\n\s+\}", lambda m: "{" + " ".join(m.group(1).split()) + "}", text) + "\n")
    if not options.budget:
        print(json.dumps(found, indent=1))
        return 0
    with open(options.budget, encoding="utf-8") as file:
        problems = over(found, json.load(file)["inner_loop"])
    print("\n".join(problems))
    print(f"{len(found)} kernels, {len(problems)} counts over the budget")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
