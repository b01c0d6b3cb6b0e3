#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Which method wins where: batch size x context x generation length, and by how much.

Context is the mean prompt length of a workload in tokens. The margin is the winner's output tokens
per second over the second best's; a margin whose 95 % interval holds 1 is marked as a tie. A method whose score is more than ten points below the best of its cell cannot win, as in `unmask crossover`.
"""

import math
import sys

import common
from common import Drawing, NotDrawn


def draw(rows, options=None):
    cells = {(c["model"], (c["gen_length"], c["apart"]), c["workload"], c["batch_size"]): c
             for c in rows.crossover if len(c["methods"]) > 1}
    batches = sorted({k[3] for k in cells})
    panels = common.ordered(k[:2] for k in cells)
    if len(batches) < 2 and len({k[1][0] for k in cells}) < 2:
        raise NotDrawn("a crossover map needs two methods or more at two batch sizes or generation "
                       "lengths")
    contexts = {(c["model"], c["workload"]): c["prompt_tokens"] for c in cells.values()}
    names = common.ordered(m["label"] for c in cells.values() for m in c["methods"])
    winners = [n for n in names if any(c["winner"] == n for c in cells.values())]
    look = common.looks(names)
    families = {m: sorted({k[2] for k in cells if k[0] == m}, key=lambda f: contexts[(m, f)])
                for m in {k[0] for k in cells}}
    tall = max(len(f) for f in families.values())
    columns = common.columns_in(min(3, len(panels)))
    figure, axes = common.grid(len(panels), columns, common.PAGE if columns > 1 else 4.4,
                               0.7 + 0.48 * tall)
    for place, (cell, (model, generation)) in enumerate(zip(axes, panels)):
        lines = families[model]
        for y, family in enumerate(lines):
            for x, batch in enumerate(batches):
                found = cells.get((model, generation, family, batch))
                if found is None:
                    cell.text(x, y, "–", ha="center", va="center", color=common.QUIET)
                    continue
                margin = found["margin"]  # none: all others answer worse
                tie = margin is not None and not found["clear"]
                # The further ahead, the stronger the colour; a tie is hatched.
                strength = (min(1.0, 0.25 + 0.75 * math.log2(max(margin, 1)) / 2)
                            if margin else 1.0)
                cell.add_patch(common.plt.Rectangle(
                    (x - 0.47, y - 0.46), 0.94, 0.92, facecolor=look[found["winner"]].colour, linewidth=0,
                    alpha=strength))
                if tie:
                    cell.add_patch(common.plt.Rectangle(
                        (x - 0.47, y - 0.46), 0.94, 0.92, facecolor="none", hatch="....",
                        edgecolor=common.PAPER, linewidth=0))
                share = found["methods"][0]["selection_share"]
                text = (f"×{margin:.2f}" if margin else "alone") + (f"\nsel. {100 * share:.1f} %"
                                           if share is not None else "")
                cell.text(x, y, text, ha="center", va="center", fontsize=common.TINY,
                          bbox={"boxstyle": "round,pad=0.15", "facecolor": common.PAPER,
                                "edgecolor": "none", "alpha": 0.75})
        cell.set(xlim=(-0.5, len(batches) - 0.5), ylim=(-0.5, len(lines) - 0.5))
        cell.set_xticks(range(len(batches)), [str(b) for b in batches])
        cell.set_yticks(range(len(lines)), [f"{f.replace('_', ' ')}\n{contexts[(model, f)]:.0f} tokens"
                                            if place % columns == 0 else "" for f in lines])
        cell.grid(visible=False)
        cell.tick_params(length=0)
        for side in cell.spines.values():
            side.set_visible(False)
        length, apart = generation
        text = f"{length} tokens generated" if length else "length as each task asks"
        text += f", {apart}" if apart else ""
        cell.set_title(text if len(families) == 1 else f"{model}, {text}")
    common.label_below(figure, "requests in the batch")
    handles = [common.Patch(facecolor=look[n].colour, label=n) for n in winners]
    handles += [common.Patch(facecolor="none", edgecolor=common.QUIET, linewidth=0.5,
                             label=f"{n} (never fastest)") for n in names if n not in winners]
    handles += [common.Patch(facecolor="#BBBBBB", hatch="....", edgecolor=common.PAPER,
                             label="inconclusive: the 95 % interval of the margin contains 1")]
    common.legend_above(figure, handles)
    shown = common.of_points(rows, (point for c in cells.values() for point in c["rows"]))
    common.footnote(figure, shown, "colour: the fastest method whose score is at most 10 pp below the "
                    "best; ×: its speed over the second best; sel.: its share of time spent on "
                    "selection")
    return [Drawing("", "Which method is fastest, by batch size, context and generation length?",
                    figure, shown)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "crossover"))
