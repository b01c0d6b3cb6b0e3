#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Stands in for a tool of NVIDIA in a rehearsal: checks that the command line is one that the tool
would take as far as this file knows it, runs the program behind it, and writes the report it would
write, empty. It measures nothing.

    stand_in.py compute-sanitizer --tool memcheck ... PROGRAM ARGUMENTS
    stand_in.py ncu --set full --export FILE ... PROGRAM ARGUMENTS
    stand_in.py ncu --import FILE --page details --csv"""

import os
import subprocess
import sys

WITH_VALUE = {"compute-sanitizer": {"--tool", "--error-exitcode"},
              "ncu": {"--set", "--export", "--launch-count", "--launch-skip", "--kernel-name",
                      "--clock-control", "--import", "--page"}}
ALONE = {"compute-sanitizer": set(), "ncu": {"--csv", "--force-overwrite"}}


def main(arguments):
    tool, words = arguments[0], arguments[1:]
    values = {}
    while words and words[0].startswith("-"):
        name = words.pop(0)
        if name in WITH_VALUE[tool]:
            values[name] = words.pop(0)
        elif name not in ALONE[tool]:
            print(f"{tool} (stand-in): unknown option {name}", file=sys.stderr)
            return 2
    if "--import" in values:
        return 0 if os.path.exists(values["--import"]) else 1
    if not words:
        print(f"{tool} (stand-in): no program", file=sys.stderr)
        return 2
    if "--export" in values:
        with open(values["--export"] + ".ncu-rep", "wb"):
            pass
    return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
