#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Which statements of each kernel the tests execute on the GPU in software, as a Markdown table.

    coverage.py FOLDER                  what runs with UNMASK_SOFTGPU_COVERAGE=FOLDER executed
    coverage.py FOLDER --run PROGRAM    runs the tests first, on both cards; PROGRAM: unmask_softgpu
    coverage.py FOLDER --holes          under each kernel the places of tensor-core and asynchronous
                                        instructions that were never executed

A statement of PTX counts as executed where a lane of some warp executed it.
"""

import argparse
import collections
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CARDS = ("80", "90")
SPECIAL = re.compile(r"(mma|wgmma|ldmatrix|stmatrix|cp\.async|st\.async|fence\.proxy|mbarrier|barrier\.cluster|bar\.arrive|mapa|"
                     r"griddepcontrol|setmaxnreg|prefetch|(ld|st|atom|red)\S*\.shared::cluster|dp4a)")
TESTS = ["--gtest_brief=1",
         "--gtest_filter=device_*:each/operation*:attention*:head*:selection*-device_memory*"]


def run(program, folder):
    """The tests of the label softgpu that are to reach every kernel."""
    commands = [([program, "doctor", "--device", "cuda", "--check"], {}),
                ([program, "kernels_test", *TESTS],
                 {"UNMASK_TEST_DEVICE": "gpu", "UNMASK_SOFTGPU_PAGEABLE": "on"}),
                ([sys.executable, "-B", os.path.join(HERE, "decoding_test.py"), program], {})]
    for card in CARDS:
        for command, variables in commands:
            environment = {**os.environ, **variables, "UNMASK_SOFTGPU_ARCH": card,
                           "UNMASK_SOFTGPU_COVERAGE": folder, "UNMASK_SOFTGPU_RACES": "off"}
            done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)} ended with {done.returncode} on sm_{card}")


def read(folder):
    """{(kernel, card): [launches, executions of each statement, file of the statements]}"""
    total = {}
    for name in sorted(glob.glob(os.path.join(folder, "counts.*.txt"))):
        with open(name, encoding="utf-8") as file:
            lines = file.read().split("\n")
        for head, counts in zip(lines[0::2], lines[1::2]):
            _, card, kernel, listing, launches = head.split("\t")
            executed = [int(n) for n in counts.split()[1:]]
            known = total.setdefault((kernel, card), [0, [], listing])
            if not executed:
                continue  # this run did not use the kernel
            known[1] = known[1] or [0] * len(executed)
            if len(known[1]) != len(executed):
                sys.exit(f"{folder} holds runs of two builds: {kernel} has {len(known[1])} and "
                         f"{len(executed)} statements")
            known[0] += int(launches)
            known[1] = [a + b for a, b in zip(known[1], executed)]
    return total


def holes_of(folder, executed, listing):
    """Places of special instructions none of which was executed: {(instruction, place): statements}"""
    missing, seen = collections.Counter(), set()
    with open(os.path.join(folder, listing + ".lst"), encoding="utf-8") as file:
        for line, count in zip(file, executed):
            _, place, text = line.rstrip("\n").split("\t", 2)
            instruction = re.sub(r"^@!?\S+ ", "", text).split()[0]
            if not SPECIAL.match(instruction):
                continue
            if count:
                seen.add((instruction, place))
            else:
                missing[instruction, place] += 1
    return {where: n for where, n in missing.items() if where not in seen}


def cell(entry):
    if entry is None or entry[0] == 0:
        return "never"
    executed = entry[1]
    share = sum(n > 0 for n in executed) / max(len(executed), 1)
    return f"{entry[0]}, {100 * share:.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--run", metavar="PROGRAM")
    parser.add_argument("--holes", action="store_true")
    asked = parser.parse_args()
    if asked.run:
        run(asked.run, asked.folder)
    total = read(asked.folder)
    if not total:
        sys.exit(f"{asked.folder} holds no counts: name it in UNMASK_SOFTGPU_COVERAGE, or use --run")
    print("| kernel | sm_80: launches, statements | sm_90a: launches, statements |\n|---|---|---|")
    for kernel in sorted({k for k, _ in total}):
        entries = [total.get((kernel, card)) for card in CARDS]
        print(f"| `{kernel}` | " + " | ".join(cell(e) for e in entries) + " |")
        for entry in entries if asked.holes else ():
            if entry is None or entry[0] == 0:
                continue
            for (instruction, place), n in sorted(holes_of(asked.folder, *entry[1:]).items()):
                print(f"    never: {instruction} at {place}, {n} statements")


if __name__ == "__main__":
    main()
