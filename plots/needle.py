#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Whether a sentence in a long text is found, by the text's length and how deep it stands in it.

A heat map for each method and model, as Focus-dLLM's Figure 4. Rows of workloads that are named "LENGTH, DEPTH %".
"""

import re
import sys

import common
from common import Drawing, NotDrawn

PLACE = re.compile(r"(?P<length>[\d.]+)(?P<kilo>K?), (?P<depth>\d+) %")
INK_BELOW = 0.55  # share found from which on the number in a cell is dark


def place_of(row):
    """(tokens, depth in per cent) of a row's cell; None where its workload has no such name."""
    found = PLACE.fullmatch(row["workload"]["family"])
    return found and (float(found["length"]) * (1024 if found["kilo"] else 1), int(found["depth"]))


def panel(cell, found, lengths, depths):
    shares = [[found[(length, depth)]["score"]["mean"] if (length, depth) in found else float("nan")
               for length in lengths] for depth in depths]
    image = cell.imshow(shares, vmin=0, vmax=1, cmap="viridis", aspect="auto", interpolation="none")
    for (length, depth), row in found.items():
        share = row["score"]["mean"]
        cell.text(lengths.index(length), depths.index(depth), f"{100 * share:.0f}", ha="center", va="center",
                  fontsize=common.TINY, color=common.INK if share > INK_BELOW else common.PAPER)
    cell.set_xticks(range(len(lengths)), [f"{n / 1024:g}K" if n >= 1024 else f"{n:g}" for n in lengths])
    cell.set_yticks(range(len(depths)), [str(depth) for depth in depths])
    cell.grid(visible=False)
    cell.tick_params(length=0)
    for side in cell.spines.values():
        side.set_visible(False)
    return image


def either(numbers):
    """1; 1 or 3; 1, 3 or 4."""
    first, last = ", ".join(map(str, numbers[:-1])), str(numbers[-1])
    return f"{first} or {last}" if first else last


def draw(rows, options=None):  # pylint: disable=unused-argument
    rows = [r for r in rows if place_of(r) and r["score"] and r["score"]["n"] > 0]
    if not rows:
        raise NotDrawn("a map of needles needs scored workloads that are named by length and depth: \"256, 25 %\"")
    label = common.told_apart(rows, lambda r: common.series_label(r, rows), lambda r: r["workload"]["family"])
    lengths, depths = (sorted({place_of(r)[side] for r in rows}) for side in (0, 1))
    groups = common.grouped(rows, label)
    texts = common.shortened([label(group[0]) for group in groups])
    columns = common.columns_in(min(3, len(groups)))
    figure, cells = common.grid(len(groups), columns, common.PAGE if columns > 1 else 4.0, 0.6 + 0.22 * len(depths))
    for at, (cell, group) in enumerate(zip(cells, groups)):
        panel(cell, {place_of(r): r for r in group}, lengths, depths)
        cell.set_title(common.fitted_title(texts[label(group[0])], cell))
        if at % columns == 0:
            cell.set_ylabel("depth, %")
    common.label_below(figure, "tokens of the text")
    common.finish(figure)
    counts = sorted({r["score"]["n"] for r in rows})
    common.footnote(figure, rows, f"numbers: found, % of {either(counts)} items per cell; depth: text "
                    "before the sentence")
    return [Drawing("", "Is a sentence found in a long text? Share found by length and depth", figure, rows)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "needle"))
