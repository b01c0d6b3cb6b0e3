#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""What the archives of campaigns hold, as a Markdown table: rows, and how steady the machine was.

    campaign_facts.py results/tiny

Steadiness is that of the rows whose claims read the clock. The speed of the machine is the median over these rows of
tokens/s over that of the same sweep point in the first campaign."""

import json
import os
import statistics
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness", "python"))

from unmask.claims.declare import read_register  # noqa: E402
from unmask.rows import estimates  # noqa: E402

ORDINALS = ("first", "second", "third")


def timed_artifacts():
    """{(paper, artifact, scale)} of the claims and controls that read the clock."""
    register = read_register(os.path.join(HERE, "claims"))
    return {(c.paper, os.path.basename(a).removesuffix(".toml"), scale) for c in register.claims + register.controls
            if c.reads_the_clock for a in c.artifacts for scale in c.scales}


def rows_of(archive):
    """[((paper, artifact, scale), row)] of an archive."""
    found = []
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = os.path.normpath(member.name).split(os.sep)
            if parts[-1] == "rows.jsonl":
                found += [(tuple(parts[:3]), json.loads(line)) for line in tar.extractfile(member)]
    return found


def half_width(row):
    """Half of the 95 % interval of tokens/s, over tokens/s; None without an interval."""
    e = estimates.estimate(row, "tokens_per_second")
    return (e.range[1] - e.range[0]) / 2 / e.value if e.value and e.range else None


def speeds(timed):
    return {(place, row["position"]): row["metrics"].get("tokens_per_second") for place, row in timed}


def facts(campaigns, artifacts):
    """[(what, a text for each campaign)]; campaigns: rows_of() of each."""
    timed = [[(place, row) for place, row in rows if place in artifacts
              and row["provenance"].get("tokens_per_second") == "measured"] for rows in campaigns]
    first, halves, ratios = speeds(timed[0]), [], []
    answers = {(place, row["position"]): row.get("answers_hash") for place, row in campaigns[0]}
    same = [sum(bool(row.get("answers_hash")) and row["answers_hash"] == answers.get((place, row["position"]))
                for place, row in rows) for rows in campaigns]
    for rows in timed:
        halves.append(statistics.median(h for h in (half_width(row) for _, row in rows) if h is not None))
        ratios.append(statistics.median(v / first[k] for k, v in speeds(rows).items() if v and first.get(k)))
    return [("rows", [str(len(rows)) for rows in campaigns]),
            ("rows with the answers of the first", ["–", *map(str, same[1:])]),
            ("rows whose claims read the clock", [str(len(rows)) for rows in timed]),
            ("NOISY of these", [str(sum(row["verdict"] == "NOISY" for _, row in rows)) for rows in timed]),
            ("half a 95 % interval of tokens/s, median", [f"{100 * h:.0f} %" for h in halves]),
            ("speed of the machine, first = 1", [f"{r:.2f}" for r in ratios])]


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    names = [os.path.join(arguments[0], f"rows{end}.tar.xz") for end in ("", "-2", "-3")]
    archives = [name for name in names if os.path.exists(name)]
    print("| | " + " | ".join(ORDINALS[:len(archives)]) + " |\n|---|" + "---:|" * len(archives))
    for what, texts in facts([rows_of(name) for name in archives], timed_artifacts()):
        print(f"| {what} | " + " | ".join(texts) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
