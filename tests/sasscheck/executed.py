#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Prints what kernels execute and take of a multiprocessor, as a table of Markdown (kernels/cuda/README.md).

The numbers are those of kernels/cuda/budget.json, to which check.py holds the machine code."""

import json
import os
import sys

BUDGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kernels/cuda/budget.json")
HEAD = ["kernel", "a warp executes", "for", "registers", "shared memory of a block", "blocks of a multiprocessor"]


def instructions(line):
    fewest, most = (f"{line[key]:g}" if key in line else None for key in ("fewest", "most"))
    return fewest if most in (None, fewest) else f"{fewest} to {most}"


def cells(key, line, blocks):
    """blocks: the budget's "resident_blocks"."""
    room = next((b for beginning, b in blocks.items() if key.startswith(beginning)), None)
    return [f"`{key}`", instructions(line), line["each"], str(line["registers"]),
            f"{room['shared'] / 1024:.0f} KiB" if room else "none", str(room["blocks"]) if room else "–"]


def table(budget):
    rows = [cells(key, line, budget["resident_blocks"]) for key, line in budget["executed"].items()]
    lines = ["| " + " | ".join(line) + " |" for line in [HEAD, *rows]]
    return "\n".join([lines[0], "|---|---:|---|---:|---:|---:|", *lines[1:]]) + "\n"


if __name__ == "__main__":
    with open(BUDGET, encoding="utf-8") as file:
        sys.stdout.write(table(json.load(file)))
