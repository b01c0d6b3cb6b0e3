#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Score, speed and KV memory against a number: a swept parameter, or the length of the prompt.

One column of panels per number that takes three or more values with everything else equal, one line per
method and value of the other parameters. The tasks of a column, if there are several, count together: tokens over
seconds, the mean score of all items, the largest cache; every point of it is of the same tasks and of one kind of
score. Lengths are those of workloads named by them ("0.5K", "32K").
"""

import sys

import common
from common import Drawing, NotDrawn

CONTEXT = "tokens of the prompt"


SCORE = common.heading_of("score")


def score_spread(p):
    if p["score"] is None:
        return 0, 0
    low, high = p["interval"]
    return 100 * (p["score"] - low), 100 * (high - p["score"])


METRICS = [(SCORE, lambda p: 100 * p["score"] if p["score"] is not None else None, score_spread),
           (common.heading_of("tokens_per_second"), lambda p: p["tokens_per_second"],
            lambda p: (p["half_width"] or 0, p["half_width"] or 0)),
           (common.heading_of("peak_kv_bytes"), lambda p: p["kv_mib"] * 2**20 / 1e6, lambda p: (0, 0))]


def fewest(sweeps):
    """All sweeps; of a full factorial those of the axis with fewest lines, which says most."""
    lines = {axis: max(len(s["lines"]) for s in group)
             for axis, group in ((g[0]["axis"], g) for g in common.grouped(sweeps, lambda s: s["axis"]))}
    if max(lines.values()) > 6 and len(lines) > 1:
        axis = min(lines, key=lines.get)
        return [s for s in sweeps if s["axis"] == axis]
    return sweeps


def column_title(sweep, every):
    """The model and the tasks of a column if others of its axis have others."""
    models = len({s["model"] for s in every}) > 1
    said = [sweep["model"]] if models else []
    if sum((s["axis"], s["model"]) == (sweep["axis"], sweep["model"]) for s in every) > 1:
        tasks = [task.replace("_", " ") for task in sweep["tasks"]]
        said.append(", ".join(tasks) if len(tasks) <= 3 else f"{len(tasks)} of {sweep['of']} tasks")
    return ": ".join(said) + (" (likelihood)" if sweep["likelihood"] and said else "")


def axes_of(cell, sweep, title, value, spread):
    """Scales, ticks and limits of a panel."""
    points = [p for line in sweep["lines"] for p in line["points"] if value(p) is not None]
    xs = sorted({p["x"] for line in sweep["lines"] for p in line["points"]})
    if sweep["axis"] == CONTEXT:
        cell.set_xscale("log", base=2)
        cell.set_xticks(xs, [f"{x / 1024:g}K" for x in xs])
        cell.minorticks_off()
        if title != SCORE:
            values = [value(p) for p in points]
            common.log_axis(cell, "y", min(values) / 1.3, max(values) * 1.3)
    else:
        cell.set_xticks(xs, [f"{x:g}" for x in xs])
        if title != SCORE:
            cell.set_ylim(0, 1.12 * max(value(p) for p in points))
    if title == SCORE:
        common.score_axis(cell, [value(p) - spread(p)[0] for p in points], [value(p) + spread(p)[1] for p in points])


def panel(cell, sweep, metric, look):
    """Draws the lines of a panel; (the rows in them, the names of hollow ones)."""
    title, value, spread = metric
    used, hollow = set(), set()
    # Of two lines on each other both are seen: the first is the widest.
    widths = {name: max(1.1, 2.8 - 0.4 * place) for place, name in enumerate(look)}
    for line in sweep["lines"]:
        name, points = line["name"], [p for p in line["points"] if value(p) is not None]
        used.update(i for p in points for i in p["rows"])
        empty = any(p["hollow"] for p in points)
        hollow |= {name} if empty else set()
        if points:
            cell.errorbar([p["x"] for p in points], [value(p) for p in points],
                          yerr=list(zip(*(spread(p) for p in points))), elinewidth=0.6, capsize=1.5, linewidth=widths[name],
                          zorder=3 if look[name].named else 2, **look[name].line(empty))
            common.name_last(cell.figure, cell, [(points[-1]["x"], value(points[-1]))], look[name].text, look[name])
    axes_of(cell, sweep, title, value, spread)
    return used, hollow


def note_of(sweeps):
    said = ["whiskers: 95 % interval (score: Wilson)"]
    for tasks in dict.fromkeys(tuple(s["tasks"]) for s in sweeps):
        said += [common.together_note(tasks)] if len(tasks) > 1 else []
    if any(not line["points"] or line["points"][-1]["x"] < max(p["x"] for other in s["lines"] for p in other["points"])
           for s in sweeps for line in s["lines"]):
        said.append("a line ends at the last value that its method was measured at")
    return common.wrapped(said)


def draw(rows, options=None):
    if not rows.sweeps:
        raise NotDrawn("a sweep needs a number that takes three or more values with all else equal: a "
                       "swept parameter, or workloads named by their length")
    sweeps = fewest(rows.sweeps)
    shown = [metric for metric in METRICS
             if len({metric[1](p) for s in sweeps for line in s["lines"] for p in line["points"]
                     if metric[1](p) is not None}) > 1]
    names = common.ordered(line["name"] for s in sweeps for line in s["lines"])
    hollow_too = any(p["hollow"] for s in sweeps for line in s["lines"] for p in line["points"])
    look = common.looks(names, int(hollow_too))
    panels = [(metric, s) for metric in shown for s in sweeps
              if any(metric[1](p) is not None for line in s["lines"] for p in line["points"])]
    full = len(panels) == len(shown) * len(sweeps)
    columns = common.columns_in(len(sweeps)) if full else common.columns_in(min(3, len(panels)))
    stacked = columns < len(sweeps) or not full
    width = {1: 3.6, 2: 5.4}.get(columns, common.PAGE)
    figure, cells = common.grid(len(panels), columns, width, 1.75)
    used, hollow = set(), set()
    for place, (cell, (metric, s)) in enumerate(zip(cells, panels)):
        rows_of, hollow_of = panel(cell, s, metric, look)
        used, hollow = used | rows_of, hollow | hollow_of
        title = column_title(s, sweeps)
        if title and (place < columns or stacked):
            cell.set_title(common.fitted_title(title, cell))
        if place % columns == 0 or stacked:
            cell.set_ylabel(metric[0])
        if place >= len(panels) - columns or stacked:
            cell.set_xlabel(s["axis"].replace("_", " "))
    handles = common.series_handles(names, look, hollow)
    common.legend_above(figure, handles + common.provenance_handles(bool(hollow), False))
    drawn = common.of_points(rows, used)
    common.footnote(figure, drawn, note_of(sweeps))
    what = ", ".join(name.split(",")[0] for name, _, _ in shown)
    axes = ", ".join(common.ordered(s["axis"].replace("_", " ") for s in sweeps))
    return [Drawing("", f"What does another value change? {what[:1].upper()}{what[1:]} against {axes}",
                    figure, drawn)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "sweep"))
