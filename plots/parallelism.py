#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Score against tokens delivered a forward: each method's curve along the settings that were swept.

One panel per model and task; "all" is the tasks with an answer together. Curves of which no point is the
best of its panel at both, score and tokens a forward, are pale. The area below a curve, as d3LLM (arXiv
2601.07568) weighs it, is in the table: unmask table ROWS --view parallelism.
"""

import sys

import common
from common import Drawing, NotDrawn


def is_beaten(point, points):
    """Whether another point has at least its score and its tokens a forward, and more of one."""
    return any(x >= point[0] and y >= point[1] and (x, y) != tuple(point) for x, y in points)


def panel(cell, curves, look):
    points = [p for curve in curves for p in curve["points"]]
    for curve in curves:
        leads = any(not is_beaten(p, points) for p in curve["points"])
        xs, ys = zip(*curve["points"])
        cell.plot(xs, ys, alpha=1 if leads else 0.35, zorder=3 if leads else 2,
                  **look[curve["method"]].line(False))
    xs, ys = zip(*points)
    cell.set_xscale("log")
    cell.xaxis.set_major_locator(common.LogLocator(subs=(1, 2, 5)))
    cell.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    cell.xaxis.set_minor_formatter(common.NullFormatter())
    cell.set(xlim=(min(xs) / 1.2, max(xs) * 1.2), ylim=(max(-3, min(ys) - 6), min(103, max(ys) + 6)))


def draw(rows, options=None):
    if not rows.parallelism:
        raise NotDrawn("score against tokens a forward needs rows with a score and counted forwards")
    models = common.ordered(curve["model"] for curve in rows.parallelism)
    places = common.ordered((curve["model"], curve["task"]) for curve in rows.parallelism)
    names = common.ordered(curve["method"] for curve in rows.parallelism)
    look = common.looks(names)
    columns = common.columns_in(min(3, len(places)))
    figure, cells = common.grid(len(places), columns, common.PAGE if columns > 1 else 6.0, 2.3)
    for cell, (model, task) in zip(cells, places):
        curves = [c for c in rows.parallelism if (c["model"], c["task"]) == (model, task)]
        panel(cell, curves, look)
        title = (task or "all").replace("_", " ")
        cell.set_title(f"{model}, {title}" if len(models) > 1 else title)
        cell.set(xlabel="tokens a forward", ylabel="score, %")
        if common.SETUP.direct:
            common.name_directly(figure, cell, [(*c["points"][-1], c["method"], look[c["method"]].colour)
                                                for c in curves])
    common.legend_above(figure, [] if common.SETUP.direct else common.series_handles(names, look))
    shown = common.of_points(rows, (point for curve in rows.parallelism for point in curve["rows"]))
    common.footnote(figure, shown, "tokens up to and including the first end of sequence; pale: beaten everywhere "
                    "by another method at both")
    return [Drawing("", "Score against tokens delivered a forward", figure, shown)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "parallelism"))
