#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Reads a linked program and checks what cmake/UnmaskHardening.cmake promises of it.

    hardening.py PROGRAM FOLDER...

It is position independent, its relocations are read-only before main() and bound at start, no stack
is executable; stacks carry canaries, large frames are touched page by page, functions of the C
library check sizes; it has no search path for libraries, and none of FOLDERs (sources, build) is
named in it. Prints one line for each promise that is broken.
"""

import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def broken_layout(program):
    """What the ELF headers and the dynamic section say."""
    header = run("readelf", "-hW", program)
    segments = run("readelf", "-lW", program)
    dynamic = run("readelf", "-dW", program)
    if not re.search(r"Type:\s+DYN", header) or not re.search(r"FLAGS_1\).*\bPIE\b", dynamic):
        yield "it is not position independent: link with -pie"
    if "GNU_RELRO" not in segments:
        yield "its relocations stay writable: link with -z relro"
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic):
        yield "functions are bound when they are first called: link with -z now"
    stack = re.search(r"GNU_STACK.*\s([RWE ]{3})\s+0x", segments)
    if not stack or "E" in stack.group(1):
        yield "its stack is executable"
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        yield "it names folders in which libraries are looked for"


def broken_checks(program):
    """What the compiler put into functions."""
    wanted = run("readelf", "--dyn-syms", "-W", program)
    if "__stack_chk_fail" not in wanted:
        yield "no function has a stack canary: compile with -fstack-protector-strong"
    if not re.search(r"\b__(memcpy|memmove|memset|snprintf|vsnprintf|read|strcpy|strncpy)_chk", wanted):
        yield "no function of the C library checks sizes: compile with -D_FORTIFY_SOURCE"
    # Where a frame is larger than a page, GCC touches every page of it with `or $0, (%rsp)`. (With
    # `lock` before it, it is a fence.)
    code = run("objdump", "-d", "--no-show-raw-insn", program)
    if "x86-64" in code and not re.search(r"(?<!lock )\borq\s+\$0x0,\(%rsp\)", code):
        yield "large frames may jump over the guard page: compile with -fstack-clash-protection"


def bytes_without_device_code(program):
    """The file without the section that holds the GPU's code: nvcc has no option that changes the names
    in its line tables."""
    with open(program, "rb") as file:
        text = file.read()
    section = re.search(r"\s\.nv_fatbin\s+\w+\s+[0-9a-f]+\s+([0-9a-f]+)\s+([0-9a-f]+)",
                        run("readelf", "-SW", program))
    if not section:
        return text
    first, size = (int(number, 16) for number in section.groups())
    return text[:first] + text[first + size:]


def broken_names(program, folders):
    """Folders of the machine that built it."""
    text = bytes_without_device_code(program)
    for folder in folders:
        count = text.count(folder.encode() + b"/")
        if count:
            at = text.index(folder.encode() + b"/")
            name = text[at : text.find(b"\0", at)].decode(errors="replace")[:120]
            yield f"it names {folder} {count} times, first {name}: compile with -ffile-prefix-map"


def main():
    program, folders = sys.argv[1], sys.argv[2:]
    found = [*broken_layout(program), *broken_checks(program), *broken_names(program, folders)]
    for sentence in found:
        print(f"{program}: {sentence}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
