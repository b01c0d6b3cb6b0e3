#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""How long a short decode takes on idle cores, and beside a load of several times the cores.

    busy_machine.py [--program build/release/bin/unmask] [--load 3] [--repeats 9] [--check]

Runs `unmask generate hi` alone, with one thread alone, and beside LOAD busy processes a core, and prints medians. With
--check the exit code is 1 where the busy median is more than five times the idle one. Needs an idle machine: it says
so, and exits with 77, where others keep it busy already.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_RUN = 77


def seconds(program, repeats, **environment):
    taken = []
    for _ in range(repeats):
        start = time.monotonic()
        subprocess.run([program, "generate", "hi"], cwd=ROOT, check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, env={**os.environ, **environment})
        taken.append(time.monotonic() - start)
    return taken


def show(what, taken):
    print(f"| {what} | {statistics.median(taken):.2f} | {min(taken):.2f} | {max(taken):.2f} |", flush=True)
    return statistics.median(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin", "unmask"))
    parser.add_argument("--load", type=int, default=3, help="busy processes a core")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    if given.check and os.getloadavg()[0] > 0.5 * cores:
        print(f"NOT RUN: needs an idle machine, and its load is {os.getloadavg()[0]:.1f}")
        return NOT_RUN
    print("| `unmask generate hi` | median, s | least | most |\n|---|---:|---:|---:|")
    seconds(given.program, 1)
    idle = show(f"idle, {cores} cores", seconds(given.program, given.repeats))
    show("idle, one thread", seconds(given.program, given.repeats, OMP_NUM_THREADS="1"))
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(given.load * cores)]
    try:
        time.sleep(1)
        busy = show(f"beside {len(load)} busy processes", seconds(given.program, given.repeats))
    finally:
        for process in load:
            process.kill()
            process.wait()
    print(f"\nbusy over idle: {busy / idle:.1f}")
    return 1 if given.check and busy > 5 * idle else 0


if __name__ == "__main__":
    sys.exit(main())
