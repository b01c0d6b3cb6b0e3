#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Measures the tables of the Markdown files and holds each file to its bound, which may only fall.

    tables.py            print the files that have wide cells or wide tables
    tables.py --check    exit code 1 if a file exceeds its bound in tables_bounds.json (0 if it has none)
    tables.py --lower    write today's measures as the bounds, if they are lower

A cell of a table that was written by hand holds at most one sentence and 120 characters as a reader sees it: the text of
a link, without its address. More is a section or a list. A generated table shows at most seven columns."""

import json
import os
import re
import sys

import prose

BOUNDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables_bounds.json")
WIDEST_CELL, MOST_COLUMNS = 120, 7


def shown(cell):
    """What a reader sees of a cell."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose.without_markers(cell)).replace("**", "").strip()


def cells(line):
    return [shown(c) for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def measures(text):
    """{"wide_cells": of tables by hand, "wide_tables": of generated ones}."""
    code = made = False
    head, wide_cells, wide_tables = True, 0, 0
    for line in text.split("\n"):
        if re.match(r"\s*(```|~~~)", line):
            code = not code
        made = line.startswith("<!-- from:") or (made and not line.startswith("<!-- end"))
        if code or not line.startswith("|"):
            head = True
            continue
        row = cells(line)
        if made:
            wide_tables += head and len(row) > MOST_COLUMNS
        else:
            wide_cells += sum(len(c) > WIDEST_CELL or len(prose.sentences(c)) > 1 for c in row)
        head = False
    return {"wide_cells": wide_cells, "wide_tables": wide_tables}


def main(arguments):
    now = {name: measures(prose.text_of(name)) for name in prose.files()
           if name.endswith(".md") and not name.startswith(prose.WRITTEN)}
    kept = json.load(open(BOUNDS, encoding="utf-8")) if os.path.exists(BOUNDS) else {}
    if "--lower" in arguments:
        lower = {name: {key: min(n, kept.get(name, {}).get(key, n)) for key, n in found.items() if n}
                 for name, found in now.items()}
        with open(BOUNDS, "w", encoding="utf-8") as file:
            json.dump({name: found for name, found in lower.items() if found}, file, indent=1, sort_keys=True)
            file.write("\n")
        return 0
    worse = [f"{name}: {key} {n}, at most {kept.get(name, {}).get(key, 0)}"
             for name, found in now.items() for key, n in found.items() if n > kept.get(name, {}).get(key, 0)]
    if "--check" in arguments:
        print("\n".join(worse) or f"the tables of {len(now)} pages are within their bounds")
        return 1 if worse else 0
    for name, found in sorted(now.items()):
        if any(found.values()):
            print(name, *(f"{key} {n}" for key, n in found.items()))
    print("all", *(f"{key} {sum(found[key] for found in now.values())}" for key in ("wide_cells", "wide_tables")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
