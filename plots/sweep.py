#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Score, speed and K/V memory against a number: a swept parameter, or the length of the prompt.

One column of panels per number that takes three or more values with everything else equal, one line per
method and value of the other parameters. All task families of a point count together: tokens over
seconds, the mean score of all items, the largest cache. Lengths are those of workloads named by them
("0.5K", "32K").
"""

import sys

import common
from common import Drawing, NotDrawn

CONTEXT = "tokens of the prompt"


def score_spread(p):
    low, high = p["interval"]
    return 100 * (p["score"] - low), 100 * (high - p["score"])


METRICS = [("score, %", lambda p: 100 * p["score"] if p["score"] is not None else None, score_spread),
           ("output tokens per second", lambda p: p["tokens_per_second"],
            lambda p: (p["half_width"], p["half_width"])),
           ("peak K/V, MiB", lambda p: p["kv_mib"], lambda p: (0, 0))]


def draw(rows, options=None):
    of = {sweep["axis"]: {line["name"]: line["points"] for line in sweep["lines"]}
          for sweep in rows.sweeps}
    if not of:
        raise NotDrawn("a sweep needs a number that takes three or more values with all else equal: a "
                       "swept parameter, or workloads named by their length")
    # Few lines can be told apart; of a full factorial the axis with fewest lines says most.
    if max(map(len, of.values())) > 6 and len(of) > 1:
        fewest = min(of, key=lambda axis: len(of[axis]))
        of = {fewest: of[fewest]}
    shown = [(name, value, spread) for name, value, spread in METRICS
             if len({value(p) for lines in of.values() for line in lines.values()
                     for p in line if value(p) is not None}) > 1]
    names = common.ordered(n for lines in of.values() for n in lines)
    look = common.looks(names)
    columns = common.columns_in(len(of))
    stacked = columns < len(of)
    width = {1: 3.6, 2: 5.4}.get(columns, common.PAGE)
    figure, cells = common.grid(len(of) * len(shown), columns, width, 1.75)
    used, hollow = set(), set()
    for place, (title, value, spread) in enumerate(shown):
        for column, (axis, lines) in enumerate(of.items()):
            cell = cells[place * len(of) + column]
            for name, line in lines.items():
                line = [p for p in line if value(p) is not None]
                used.update(i for p in line for i in p["rows"])
                empty = any(p["hollow"] for p in line)
                if empty:
                    hollow.add(name)
                if line:
                    cell.errorbar([p["x"] for p in line], [value(p) for p in line],
                                  yerr=list(zip(*(spread(p) for p in line))), elinewidth=0.6,
                                  capsize=1.5, **look[name].line(empty))
            if axis == CONTEXT:
                lengths = sorted({x for line in lines.values() for x in (p["x"] for p in line)})
                cell.set_xscale("log", base=2)
                cell.set_xticks(lengths, [f"{x / 1024:g}K" for x in lengths])
                cell.minorticks_off()
                if place > 0 or title != "score, %":
                    cell.set_yscale("log")
            else:
                values = sorted({x for line in lines.values() for x in (p["x"] for p in line)})
                cell.set_xticks(values, [f"{x:g}" for x in values])
                if title != "score, %":
                    cell.set_ylim(0, 1.12 * max(value(p) for line in lines.values()
                                                for p in line))
            if title == "score, %":
                cell.set_ylim(-3, 103)
            if common.SETUP.direct:
                ends = {name: [p for p in line if value(p) is not None] for name, line in lines.items()}
                common.name_directly(figure, cell, [
                    (line[-1]["x"], value(line[-1]), name, look[name].colour)
                    for name, line in ends.items() if line])
            if column == 0 or stacked:
                cell.set_ylabel(title)
            if place == len(shown) - 1 or stacked:
                cell.set_xlabel(axis.replace("_", " "))
    handles = [] if common.SETUP.direct else common.series_handles(names, look, hollow)
    common.legend_above(figure, handles + common.provenance_handles(bool(hollow), False))
    drawn = common.of_points(rows, used)
    common.footnote(figure, drawn,
                    "all tasks together; whiskers: 95 % interval (score: Wilson)")
    what = [name.split(",")[0] for name, _, _ in shown]
    return [Drawing("", f"{', '.join(what).capitalize()} against "
                    + ", ".join(axis.replace("_", " ") for axis in of),
                    figure, drawn)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "sweep"))
