#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Score against tokens/forward: each method's curve along the settings that were swept.

One panel per model and task, and one of all tasks with an answer together. Curves of which no point is the
best of its panel at both, score and tokens/forward, are pale. The area below a curve, as d3LLM (arXiv
2601.07568) weighs it, is in the table: unmask table ROWS --view parallelism.
"""

import sys

import common
from common import Drawing, NotDrawn


def is_beaten(point, points):
    """Whether another point has at least its score and its tokens/forward, and more of one."""
    return any(x >= point[0] and y >= point[1] and (x, y) != tuple(point) for x, y in points)


def leads(curve, points):
    return any(not is_beaten(p, points) for p in curve["points"])


def panel(cell, curves, look):
    points = [p for curve in curves for p in curve["points"]]
    for curve in curves:
        xs, ys = zip(*curve["points"])
        mine = look[curve["method"]]
        cell.plot(xs, ys, alpha=1 if leads(curve, points) else 0.45, zorder=3 if mine.named else 2,
                  **mine.line(False))
    xs, ys = zip(*points)
    common.log_axis(cell, "x", min(xs) / 1.1, max(xs) * 1.1)
    common.score_axis(cell, ys, ys)


def draw(rows, options=None):
    if not rows.parallelism:
        raise NotDrawn("score against tokens/forward needs rows with a score and counted forward passes")
    models = common.ordered(curve["model"] for curve in rows.parallelism)
    panels = common.grouped(rows.parallelism, lambda curve: (curve["model"], curve["task"]))
    names = common.ordered(curve["method"] for curve in rows.parallelism)
    first = [c["method"] for curves in panels for c in curves
             if leads(c, [p for curve in curves for p in curve["points"]])]
    baseline = common.ordered(r["label"] for r in rows)[0]  # of the first row: what others are compared with
    look = common.looks(common.ordered([*(n for n in names if n == baseline), *first, *names]))
    columns = common.columns_in(min(3, len(panels)))
    figure, cells = common.grid(len(panels), columns, common.PAGE if columns > 1 else 6.0, 2.3)
    for cell, curves in zip(cells, panels):
        model, task = curves[0]["model"], curves[0]["task"]
        panel(cell, curves, look)
        title = (task or "all tasks with an answer").replace("_", " ")
        cell.set_title(f"{model}, {title}" if len(models) > 1 else title)
        cell.set(xlabel=common.heading_of("tpf"),
                 ylabel="likelihood of the text, %" if curves[0]["likelihood"] else common.heading_of("score"))
        if common.SETUP.direct:
            named = [(c["points"][-1], look[c["method"]]) for c in curves if look[c["method"]].named]
            common.name_directly(figure, cell, [(*point, mine.text, mine.colour) for point, mine in named])
    common.legend_above(figure, common.series_handles(names, look))
    shown = common.of_points(rows, (point for curve in rows.parallelism for point in curve["rows"]))
    common.footnote(figure, shown, "tokens up to and including the first end of sequence; pale: everywhere another "
                    "method is at least as good at both")
    return [Drawing("", "Which method keeps its score as it decodes more tokens per forward pass?", figure, shown)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "parallelism"))
