#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Score against output tokens per second: the methods that no other method beats at both.

Every mark is one method on one model over all scored task families together: tokens over seconds,
and the mean score of all items with its Wilson interval. Fronts are drawn per model, because other
weights are another question. With --by-task one panel per family.
"""

import math
import sys

import common
from common import Drawing, NotDrawn, metric


def pooled(rows):
    """(tokens per second, score, low, high, n) of one method over its scored rows."""
    tokens = sum(metric(r, "output_tokens") for r in rows)
    seconds = sum(metric(r, "wall_seconds") for r in rows)
    n = sum(r["score"]["n"] for r in rows)
    total = sum(r["score"]["mean"] * r["score"]["n"] for r in rows)
    return (tokens / seconds, total / n, *common.wilson(total, n), n)


def front(points):
    """Names that no other point beats at both, fastest last."""
    best = [n for n, p in points.items()
            if not any(q[0] >= p[0] and q[1] >= p[1] and (q[0] > p[0] or q[1] > p[1])
                       for m, q in points.items() if m != n)]
    return sorted(best, key=lambda n: points[n][0])


def draw_front(cell, points, best):
    """Steps through the best: what lies right of and above them would be new."""
    xs = [points[n][0] for n in best]
    ys = [100 * points[n][1] for n in best]
    cell.plot([x for x in xs for _ in (0, 1)][:-1], ys[:1] + [y for y in ys[1:] for _ in (0, 1)],
              color=common.QUIET, linewidth=0.9, linestyle=(0, (4, 2)), zorder=0)


def panel(cell, points, look, model_of):
    best = []
    for model in common.ordered(model_of[n] for n in points):
        kept = front({n: p for n, p in points.items() if model_of[n] == model})
        if len(kept) > 1:
            draw_front(cell, points, kept)
        best += kept
    for name, (speed, score, low, high, _) in points.items():
        kept = name in best
        cell.errorbar(speed, 100 * score, yerr=[[100 * (score - low)], [100 * (high - score)]],
                      elinewidth=0.6, capsize=1.5, alpha=1 if kept else 0.45,
                      markersize=6 if kept else 4.5, **look[name].point())
    cell.set_xscale("log")
    cell.xaxis.set_major_locator(common.LogLocator(subs=(1, 2, 5)))
    cell.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    cell.xaxis.set_minor_formatter(common.NullFormatter())
    speeds = [p[0] for p in points.values()]
    cell.set_xlim(min(speeds) / 1.35, max(speeds) * 1.35)
    cell.set_ylim(-3, 103)


def draw(rows, options=None):
    rows = [r for r in rows if r.get("score") and r["score"].get("n")
            and not math.isnan(metric(r, "tokens_per_second"))]
    if not rows:
        raise NotDrawn("a Pareto front needs rows with a score; these have none")
    if any(r["model"]["weights"] == "synthetic" for r in rows):
        raise NotDrawn("rows of synthetic weights have no score")
    by_task = bool(getattr(options, "by_task", False))
    names = common.ordered(common.series_label(r, rows) for r in rows)
    look = common.looks(names)
    model_of = {common.series_label(r, rows): r["model"]["name"] for r in rows}
    families = common.ordered(r["workload"]["family"] for r in rows) if by_task else [None]
    columns = min(3, len(families))
    figure, cells = common.grid(len(families), columns, common.PAGE if columns > 1 else 6.0,
                                2.3 if columns > 1 else 3.0)
    for cell, family in zip(cells, families):
        points = {}
        for name in names:
            chosen = [r for r in rows if common.series_label(r, rows) == name
                      and family in (None, r["workload"]["family"])]
            if chosen:
                points[name] = pooled(chosen)
        panel(cell, points, look, model_of)
        cell.set_xlabel("output tokens per second")
        cell.set_ylabel("score, %")
        if family:
            cell.set_title(family.replace("_", " "))
    common.legend_above(figure, common.series_handles(names, look))
    common.footnote(figure, rows, "whiskers: 95 % interval (Wilson); dashed: Pareto front of a model; "
                    "pale: beaten at both by another method on the same model")
    return [Drawing("", "Score against output tokens per second, with the Pareto front",
                    figure, rows)]


def more_arguments(parser):
    parser.add_argument("--by-task", action="store_true", help="one panel per task family")


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "pareto", more_arguments))
