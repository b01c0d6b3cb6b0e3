#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Where the time of a build goes, from its .ninja_log: by folder, then the slowest translation units.

    build_times.py BUILD_FOLDER [HOW_MANY]

Seconds are wall time of the last compilation of each file; one that ccache answered says so little.
"""

import collections
import os
import sys


def main():
    build, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 25
    last = {}
    with open(os.path.join(build, ".ninja_log"), encoding="utf-8") as log:
        for line in log:
            fields = line.split("\t")
            if len(fields) >= 4 and fields[3].endswith((".o", ".gch")):
                last[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    if not last:
        sys.exit(f"{build}: nothing was compiled here")
    folders = collections.defaultdict(list)
    for target, seconds in last.items():
        folders[target.split("/CMakeFiles/")[0] + " " + target.split("/CMakeFiles/")[1].split(".dir")[0]].append(seconds)
    print("| folder and target | files | seconds |\n|---|---:|---:|")
    for folder, seconds in sorted(folders.items(), key=lambda item: -sum(item[1])):
        print(f"| {folder} | {len(seconds)} | {sum(seconds):.1f} |")
    print(f"| all | {len(last)} | {sum(last.values()):.1f} |")
    print("\n| translation unit | seconds |\n|---|---:|")
    for target, seconds in sorted(last.items(), key=lambda item: -item[1])[:count]:
        print(f"| {target.replace('CMakeFiles/', '').removesuffix('.o')} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
