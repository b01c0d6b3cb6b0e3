#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Score against output tokens per second: the methods that no other method beats at both.

Every mark is one method on one model over all scored task families together: tokens over seconds,
and the mean score of all items with its Wilson interval. Fronts are drawn per model, because other
weights are another question. With --by-task one panel per family.
"""

import sys

import common
from common import Drawing, NotDrawn


def draw_front(cell, best):
    """Steps through the best, slowest first: what lies right of and above them would be new."""
    xs = [p["tokens_per_second"] for p in best]
    ys = [100 * p["score"] for p in best]
    cell.plot([x for x in xs for _ in (0, 1)][:-1], ys[:1] + [y for y in ys[1:] for _ in (0, 1)],
              color=common.QUIET, linewidth=0.9, linestyle=(0, (4, 2)), zorder=0)


def panel(cell, points, look):
    for model in common.ordered(p["model"] for p in points):
        best = sorted((p for p in points if p["front"] and p["model"] == model),
                      key=lambda p: p["tokens_per_second"])
        if len(best) > 1:
            draw_front(cell, best)
    for p in points:
        low, high = p["interval"]
        cell.errorbar(p["tokens_per_second"], 100 * p["score"],
                      yerr=[[100 * (p["score"] - low)], [100 * (high - p["score"])]],
                      elinewidth=0.6, capsize=1.5, alpha=1 if p["front"] else 0.45,
                      markersize=6 if p["front"] else 4.5, **look[p["series"]].point())
    cell.set_xscale("log")
    cell.xaxis.set_major_locator(common.LogLocator(subs=(1, 2, 5)))
    cell.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    cell.xaxis.set_minor_formatter(common.NullFormatter())
    speeds = [p["tokens_per_second"] for p in points]
    cell.set(xlim=(min(speeds) / 1.35, max(speeds) * 1.35), ylim=(-3, 103))


def draw(rows, options=None):
    if not rows.pooled:
        raise NotDrawn("a Pareto front needs rows with a score; these have none")
    by_task = bool(getattr(options, "by_task", False))
    chosen = [p for p in rows.pooled if (p["workload"] is not None) == by_task]
    names = common.ordered(p["series"] for p in chosen)
    look = common.looks(names)
    families = common.ordered(p["workload"] for p in chosen)
    columns = common.columns_in(min(3, len(families)))
    figure, cells = common.grid(len(families), columns, common.PAGE if columns > 1 else 6.0,
                                2.3 if columns > 1 else 3.0)
    for cell, family in zip(cells, families):
        panel(cell, [p for p in chosen if p["workload"] == family], look)
        cell.set(xlabel="output tokens per second", ylabel="score, %")
        if family:
            cell.set_title(family.replace("_", " "))
        if common.SETUP.direct:
            common.name_directly(figure, cell, [
                (p["tokens_per_second"], 100 * p["score"], p["series"], look[p["series"]].colour)
                for p in chosen if p["workload"] == family])
    common.legend_above(figure, [] if common.SETUP.direct else common.series_handles(names, look))
    shown = common.of_points(rows, (point for p in chosen for point in p["rows"]))
    common.footnote(figure, shown, "whiskers: 95 % interval (Wilson); dashed: Pareto front of a "
                    "model; pale: beaten at both by another method on the same model")
    return [Drawing("", "Score against output tokens per second, with the Pareto front",
                    figure, shown)]


def more_arguments(parser):
    parser.add_argument("--by-task", action="store_true", help="one panel per task family")


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "pareto", more_arguments))
