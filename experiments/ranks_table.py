#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Tokens/s of plain block diffusion and of Optimus by models, numbers of ranks and batches, as a Markdown table.

    ranks_table.py results/tiny/rows.tar.xz

They are those of Optimus' Figure 12 at the scale shapes in an archive of a campaign."""

import json
import os
import sys
import tarfile

PLACE = ("optimus", "figure_12", "shapes", "rows.jsonl")
SIDES = ("LMDeploy-BD32", "Optimus")


def rows_of(archive):
    with tarfile.open(archive) as tar:
        for member in tar:
            if tuple(os.path.normpath(member.name).split(os.sep)) == PLACE:
                return [json.loads(line) for line in tar.extractfile(member)]
    sys.exit(f"{archive}: holds no {'/'.join(PLACE)}")


def table(rows):
    """[line of cells], the headings first. A cell has both speeds and their ratio; – for points without rows and rows
    without a speed, such as those of models that their ranks cannot hold."""
    speed = {(row["model"]["name"], row["ranks"], row["batch_size"], row["label"]):
             row["metrics"].get("tokens_per_second") for row in rows}
    lines = list(dict.fromkeys((row["model"]["name"], row["ranks"]) for row in rows))
    batches = sorted({row["batch_size"] for row in rows})

    def cell(of, batch):
        plain, chosen = (speed.get((*of, batch, side)) for side in SIDES)
        return f"{plain:.0f} → {chosen:.0f} ({chosen / plain:.2f})" if plain and chosen else "–"
    places = {model: at for at, (model, _) in reversed(list(enumerate(lines)))}
    lines.sort(key=lambda of: (places[of[0]], of[1]))
    return [["model", "ranks", *(f"batch {batch}" for batch in batches)],
            *([model, str(ranks), *(cell((model, ranks), batch) for batch in batches)] for model, ranks in lines)]


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    head, *lines = table(rows_of(arguments[0]))
    print("| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1))
    for line in lines:
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
