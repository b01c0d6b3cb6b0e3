#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Score against output tokens per second: the methods that no other method beats at both.

Every mark is one method over the tasks of its panel: tokens over seconds, and the mean score of all items
with its Wilson interval. A panel is one model, one kind of score and the tasks that the same methods were
measured on: nothing is a mean over other tasks than its neighbours, and the likelihood of judged text is in
no mean with right answers. With --by-task one panel per model and task.
"""

import sys

import common
from common import Drawing, NotDrawn

TITLE_WORDS = 3  # tasks that a title names one by one


def draw_front(cell, best):
    """Steps through the best, slowest first: what lies right of and above them would be new."""
    xs = [p["tokens_per_second"] for p in best]
    ys = [100 * p["score"] for p in best]
    cell.plot([x for x in xs for _ in (0, 1)][:-1], ys[:1] + [y for y in ys[1:] for _ in (0, 1)],
              color=common.QUIET, linewidth=0.9, linestyle=(0, (4, 2)), zorder=0)


def panel(cell, points, look):
    best = sorted((p for p in points if p["front"]), key=lambda p: p["tokens_per_second"])
    if len(best) > 1:
        draw_front(cell, best)
    for p in points:
        low, high = p["interval"]
        mine = look[p["series"]]
        cell.errorbar(p["tokens_per_second"], 100 * p["score"],
                      yerr=[[100 * (p["score"] - low)], [100 * (high - p["score"])]],
                      elinewidth=0.6, capsize=1.5, alpha=1 if p["front"] else 0.45,
                      zorder=3 if mine.named else 2,
                      markersize=6 if p["front"] else 4.5, **mine.point())
    speeds = [p["tokens_per_second"] for p in points]
    common.log_axis(cell, "x", min(speeds) / 1.35, max(speeds) * 1.35)
    common.score_axis(cell, [100 * p["interval"][0] for p in points], [100 * p["interval"][1] for p in points])


def panels_of(points):
    """The marks of each panel."""
    return common.grouped(points, lambda p: (p["model"], p["likelihood"], tuple(p["tasks"])))


def title_of(points, models):
    """What a panel's marks are means over."""
    tasks, of, model = points[0]["tasks"], points[0]["of"], points[0]["model"]
    said = (", ".join(task.replace("_", " ") for task in tasks) if len(tasks) <= TITLE_WORDS
            else f"{len(tasks)} tasks")
    if len(tasks) < of:
        said += f" ({len(tasks)} of {of} tasks)" if len(tasks) <= TITLE_WORDS else f" of {of}"
    return f"{model}: {said}" if models > 1 else said


def note_of(panels):
    """The sentences that say what was taken together and what was not."""
    wider = "; of likelihoods it is wider than need be" if any(p[0]["likelihood"] for p in panels) else ""
    said = [f"whiskers: 95 % interval (Wilson{wider}); dashed: front of the panel; pale: another method is at least as "
            "good at both"]
    long = [p[0] for p in panels if len(p[0]["tasks"]) > TITLE_WORDS]
    for tasks in dict.fromkeys(tuple(first["tasks"]) for first in long):
        said.append(f"{len(tasks)} tasks: " + ", ".join(task.replace("_", " ") for task in tasks))
    if any(p[0]["of"] > len(p[0]["tasks"]) for p in panels):
        said.append("a panel holds the tasks that the same methods were measured on")
    return common.wrapped(said)


def draw(rows, options=None):
    if not rows.pooled:
        raise NotDrawn("a Pareto front needs rows with a score; these have none")
    chosen = rows.by_task if getattr(options, "by_task", False) else rows.pooled
    names = common.ordered(p["series"] for p in chosen)
    # Of many methods those have names that nothing beats, and the first, which is what others are compared with.
    look = common.looks(common.ordered([names[0], *(p["series"] for p in chosen if p["front"]), *names]))
    panels = panels_of(chosen)
    models = len({p["model"] for p in chosen})
    columns = common.columns_in(min(3, len(panels)))
    figure, cells = common.grid(len(panels), columns, common.PAGE if columns > 1 else 6.0,
                                2.3 if columns > 1 else 3.0)
    for cell, points in zip(cells, panels):
        panel(cell, points, look)
        likelihood = points[0]["likelihood"]
        cell.set(xlabel=common.heading_of("tokens_per_second"),
                 ylabel="likelihood of the text, %" if likelihood else common.heading_of("score"))
        if len(panels) > 1 or models > 1:
            cell.set_title(common.fitted_title(title_of(points, models), cell))
        if common.SETUP.direct:
            common.name_directly(figure, cell, [
                (p["tokens_per_second"], 100 * p["score"], look[p["series"]].text, look[p["series"]].colour)
                for p in points if look[p["series"]].named])
    common.legend_above(figure, common.series_handles(names, look, marks_only=True))
    shown = common.of_points(rows, (point for p in chosen for point in p["rows"]))
    common.footnote(figure, shown, note_of(panels))
    return [Drawing("", "Which method is both fast and right? Score against output tokens per second",
                    figure, shown)]


def more_arguments(parser):
    parser.add_argument("--by-task", action="store_true", help="one panel per model and task")


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "pareto", more_arguments))
