#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Which method wins where: batch size x context x generation length, and by how much.

Context is the mean prompt length of a workload in tokens. The margin is the winner's output tokens
per second over the second best's; a margin inside the two 95 % intervals is marked as a tie. A method
whose score is more than ten points below the best of its cell cannot win, as in `unmask crossover`.
"""

import math
import sys

import common
from common import Drawing, NotDrawn, metric

AXES = ("batch_size", "gen_length")
SCORE_WITHIN = 0.1


def context_of(row):
    return metric(row, "prompt_tokens") / max(1, row["workload"]["items"])


def cells_of(rows):
    """{(model, generation, context, batch): [(speed, half width, name, row)]}, fastest first, those
    that answer worse behind the others."""
    cells = {}
    for r in rows:
        speed = metric(r, "tokens_per_second")
        context = context_of(r)
        if math.isnan(speed) or math.isnan(context):
            continue
        key = (r["model"]["name"], r["gen_length"], r["workload"]["family"], r["batch_size"])
        cells.setdefault(key, []).append((speed, common.half_width(r),
                                          common.method_label(r, *AXES), r))
    return {k: sorted(v, key=lambda c: (worse(c, v), -c[0])) for k, v in cells.items()}


def score_of(row):
    return row["score"]["mean"] if row.get("score") else 1.0


def worse(entry, entries):
    return score_of(entry[3]) < max(score_of(e[3]) for e in entries) - SCORE_WITHIN - 1e-12


def verdict(entries):
    """(winner, margin over the second, None where all others answer worse; tie) of one cell."""
    (best, half, name, _), (second, second_half, _, _) = entries[:2]
    if worse(entries[1], entries):
        return name, None, False
    return name, best / second, best - half <= second + second_half


def draw(rows, options=None):
    rows = [r for r in rows if not r.get("serve")]
    cells = {k: v for k, v in cells_of(rows).items() if len(v) > 1}
    batches = sorted({k[3] for k in cells})
    panels = common.ordered((k[0], k[1]) for k in cells)
    if len(batches) < 2 and len({k[1] for k in cells}) < 2:
        raise NotDrawn("a crossover map needs two methods or more at two batch sizes or generation "
                       "lengths")
    contexts = {}
    for key, entries in cells.items():
        contexts.setdefault((key[0], key[2]), context_of(entries[0][3]))
    names = common.ordered(common.method_label(r, *AXES) for r in rows)
    winners = [n for n in names if any(verdict(v)[0] == n for v in cells.values())]
    look = common.looks(names)
    families = {m: sorted({k[2] for k in cells if k[0] == m}, key=lambda f: contexts[(m, f)])
                for m in {k[0] for k in cells}}
    tall = max(len(f) for f in families.values())
    columns = min(3, len(panels))
    figure, axes = common.grid(len(panels), columns, common.PAGE if columns > 1 else 4.4,
                               0.7 + 0.48 * tall)
    for place, (cell, (model, generation)) in enumerate(zip(axes, panels)):
        lines = families[model]
        for y, family in enumerate(lines):
            for x, batch in enumerate(batches):
                entries = cells.get((model, generation, family, batch))
                if entries is None:
                    cell.text(x, y, "–", ha="center", va="center", color=common.QUIET)
                    continue
                name, margin, tie = verdict(entries)
                # The further ahead, the stronger the colour; a tie is hatched.
                strength = (min(1.0, 0.25 + 0.75 * math.log2(max(margin, 1)) / 2)
                            if margin else 1.0)
                cell.add_patch(common.plt.Rectangle(
                    (x - 0.47, y - 0.46), 0.94, 0.92, facecolor=look[name].colour, linewidth=0,
                    alpha=strength))
                if tie:
                    cell.add_patch(common.plt.Rectangle(
                        (x - 0.47, y - 0.46), 0.94, 0.92, facecolor="none", hatch="....",
                        edgecolor=common.PAPER, linewidth=0))
                share = metric(entries[0][3], "selection_share")
                text = (f"×{margin:.2f}" if margin else "alone") + (f"\nsel. {100 * share:.1f} %"
                                           if not math.isnan(share) else "")
                cell.text(x, y, text, ha="center", va="center", fontsize=common.TINY,
                          bbox={"boxstyle": "round,pad=0.15", "facecolor": common.PAPER,
                                "edgecolor": "none", "alpha": 0.75})
        cell.set_xlim(-0.5, len(batches) - 0.5)
        cell.set_ylim(-0.5, len(lines) - 0.5)
        cell.set_xticks(range(len(batches)), [str(b) for b in batches])
        cell.set_yticks(range(len(lines)), [f"{f.replace('_', ' ')}\n{contexts[(model, f)]:.0f} tokens"
                                            if place % columns == 0 else "" for f in lines])
        cell.grid(visible=False)
        cell.tick_params(length=0)
        for side in cell.spines.values():
            side.set_visible(False)
        text = f"{generation} tokens generated" if generation else "length as each task asks"
        cell.set_title(text if len(families) == 1 else f"{model}, {text}")
    common.label_below(figure, "requests in the batch")
    handles = [common.Patch(facecolor=look[n].colour, label=n) for n in winners]
    handles += [common.Patch(facecolor="none", edgecolor=common.QUIET, linewidth=0.5,
                             label=f"{n} (never fastest)") for n in names if n not in winners]
    handles += [common.Patch(facecolor="#BBBBBB", hatch="....", edgecolor=common.PAPER,
                             label="tie: inside the 95 % intervals")]
    common.legend_above(figure, handles)
    common.footnote(figure, rows, "colour: fastest method whose score is at most ten points below the "
                    "best; ×: its speed over the second best; sel.: its share of time spent on "
                    "selection")
    return [Drawing("", "Which method is fastest by batch size, context and generation length",
                    figure, rows)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "crossover"))
