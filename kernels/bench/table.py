#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Benchmarks of a JSON file (unmask_bench --benchmark_out) whose names match, as a Markdown table.

    table.py FILE.json REGEX COUNTER...
"""

import json
import re
import sys


def main():
    file, pattern, counters = sys.argv[1], re.compile(sys.argv[2]), sys.argv[3:]
    with open(file, encoding="utf-8") as content:
        benchmarks = json.load(content)["benchmarks"]

    def shown(value):
        return f"{value:.0f}" if value >= 100 else f"{value:.3g}"

    print("| benchmark | median, µs | " + " | ".join(counters) + " |")
    print("|---|---:|" + "---:|" * len(counters))
    chosen = [b for b in benchmarks if pattern.search(b["name"])]
    if not chosen:
        sys.exit(f"{file}: no benchmark matches {pattern.pattern}")
    for b in chosen:
        name = re.sub(r"/(min_time:[0-9.]+|manual_time)", "", b["name"])
        cells = [shown(b[c]) if c in b else "–" for c in counters]
        print(f"| {name} | {shown(b['median_us'])} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
