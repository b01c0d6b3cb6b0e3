#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Leaves statements out of a kernel, one after the other, and names those whose absence no check finds. By hand: each takes seconds.

    sweep.py build/dev/bin/unmask_softgpu attention_refresh_kernelILi128 "attention of many rows" wgmma.mma_async ex2.approx
    sweep.py ... --every 4 --from 2       a quarter of the statements

KERNEL is a part of its mangled name, CASES of the device check's operations (--cases). Exit code 1 if one is not found.
"""

import argparse
import os
import subprocess
import sys


def check(program, cases, drop):
    """The exit code and the words of the device check without this statement; None: there is no such statement."""
    environment = {"OMP_NUM_THREADS": "1", "UNMASK_SOFTGPU_RACES": "off", **os.environ, "UNMASK_SOFTGPU_DROP": drop}
    done = subprocess.run([program, "unmask_device_check", "cuda", "small", "--cases", cases], env=environment,
                          capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    return None if "softgpu: left out of" not in said else (done.returncode, said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("kernel")
    parser.add_argument("cases")
    parser.add_argument("text", nargs="+")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first")
    arguments = parser.parse_args()
    missed = 0
    for text in arguments.text:
        at = arguments.first
        while (result := check(arguments.program, arguments.cases, f"{arguments.kernel}|{text}|{at}")) is not None:
            if result[0] == 0:
                missed += 1
                print(f"NOT FOUND: {text} {at}", flush=True)
            at += arguments.every
        if at == arguments.first:
            sys.exit(f"sweep.py: {arguments.kernel} has no statement with '{text}', or did not run in these cases")
        print(f"{text}: {len(range(arguments.first, at, arguments.every))} left out, {missed} not found so far", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
