#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Output tokens per second of each method, one panel per task family, with 95 % intervals."""

import math
import sys

import common
from common import Drawing, NotDrawn, metric


def value_text(value):
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def bars(cell, names, look, found, limit):
    """One horizontal bar per name: found[name] = (value, half width, hollow)."""
    for place, name in enumerate(names):
        if name not in found:
            cell.text(0, place, " not run", va="center", fontsize=common.TINY, color=common.QUIET)
            continue
        value, half, hollow = found[name]
        cell.barh(place, value, 0.72, **look[name].bar(hollow))
        if half > 0:
            cell.errorbar(value, place, xerr=half, fmt="none", ecolor=common.INK, elinewidth=0.7,
                          capsize=1.5, capthick=0.7)
        cell.text(min(value + half, limit) + 0.015 * limit, place, value_text(value), va="center",
                  fontsize=common.TINY, clip_on=False)
    cell.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, limit * 1.17))
    cell.grid(axis="y", visible=False)
    cell.tick_params(axis="y", length=0)


def draw(rows, options=None):
    rows = [r for r in rows if not math.isnan(metric(r, "tokens_per_second"))]
    if not rows:
        raise NotDrawn("no row holds tokens_per_second")
    label = common.told_apart(rows, lambda r: common.series_label(r, rows),
                              lambda r: r["workload"]["family"])
    names = common.ordered(label(r) for r in rows)
    families = common.ordered(r["workload"]["family"] for r in rows)
    look = common.looks(names)
    columns = common.columns_in(min(len(families), 4 if len(names) < 8 else 3))
    wide = len(families) > 1
    figure, cells = common.grid(len(families), columns, common.PAGE if wide else 5.0,
                                0.55 + 0.16 * max(3, len(names)))
    hollow = False
    for place, (cell, family) in enumerate(zip(cells, families)):
        found = {}
        for row in rows:
            if row["workload"]["family"] != family:
                continue
            empty = common.not_measured(row, "tokens_per_second")
            hollow = hollow or empty
            found[label(row)] = (metric(row, "tokens_per_second"), common.half_width(row), empty)
        limit = max(v + h for v, h, _ in found.values())
        bars(cell, names, look, found, limit)
        cell.set_title(family.replace("_", " "))
        cell.set_yticks(range(len(names)), names if place % columns == 0 else [""] * len(names))
        cell.xaxis.set_major_locator(common.MaxNLocator(3))
    common.label_below(figure, "output tokens per second")
    common.legend_above(figure, common.provenance_handles(hollow, False))
    common.footnote(figure, rows, "bars: mean; whiskers: 95 % interval of the mean")
    return [Drawing("", "Output tokens per second by method and task", figure, rows)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__, "throughput"))
