#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Phases under the roofs of the machine: FLOP/s against FLOPs per byte, a point per phase and method.

The roofs were measured in the process that measured the phases. A point is hollow when its FLOPs and
bytes are analytic (least traffic: every operand once), solid when counters counted them. Phases that
do no arithmetic, or whose bytes are not known, have no place in this figure and are not drawn. One
panel per device, weight format and machine.
"""

import sys

import common
from common import MARKERS, PAPER, QUIET, Drawing, NotDrawn


def panel_key(row):
    report = row["probes"]["phases"]
    return (row["device"], row["model"]["format"], report["roofs"]["source"], row["machine"])


def points_of(methods, rows):
    """(series, phase, FLOPs per byte, FLOP/s, analytic) of what can be placed, of these rows."""
    points = {r["mark"] for r in rows}
    return [(m["series"], p["phase"], p["flops"] / p["bytes"], p["flops"] / p["seconds"],
             p["analytic"])
            for m in methods if points.issuperset(m["rows"]) for p in m["phases"]
            if p["flops"] > 0 and p["bytes"] and p["seconds"] > 0]


def best_roofs(rows):
    """The highest of each roof among the rows' processes: what the machine can do."""
    def best(name):
        values = [r["probes"]["phases"]["roofs"][name] for r in rows]
        return max((v for v in values if v), default=None)
    return best("flops_per_second"), best("bytes_per_second")


def draw_roofs(cell, flops, bandwidth, xs):
    low, high = min(xs) / 2, max(xs) * 2
    if flops and bandwidth:
        low, high = min(low, flops / bandwidth / 3), max(high, flops / bandwidth * 3)
    line = {"color": QUIET, "linewidth": 1.0, "zorder": 1}
    ridge = flops / bandwidth if flops and bandwidth else None
    flops = flops and flops / 1e9
    bandwidth = bandwidth and bandwidth / 1e9
    if bandwidth:
        end = min(high, ridge) if ridge else high
        cell.plot([low, end], [low * bandwidth, end * bandwidth], **line)
        # Below the line and along it: the roof itself stays free.
        cell.annotate(f"{bandwidth:.0f} GB/s", (low, low * bandwidth), xytext=(10, -3), va="top",
                      textcoords="offset points", fontsize=common.TINY + 1, color=QUIET)
    if flops:
        cell.plot([max(low, ridge or low), high], [flops, flops], **line)
        cell.annotate(f"{flops:.0f} GFLOP/s", (high, flops), xytext=(-2, 3), ha="right",
                      textcoords="offset points", fontsize=common.TINY + 1, color=QUIET)
    common.log_axis(cell, "x", low, high)


def draw(rows, options=None):  # pylint: disable=unused-argument
    methods = rows.phases
    rows = common.profiled(rows, "a roofline")
    panels = {}
    for row in rows:
        panels.setdefault(panel_key(row), []).append(row)
    drawn = []
    for key, chosen in panels.items():
        points = points_of(methods, chosen)
        if points:
            drawn.append((key, chosen, points))
    if not drawn:
        raise NotDrawn("no phase of these rows has both FLOPs and bytes")
    names = common.ordered(p[0] for _, _, points in drawn for p in points)
    kinds = common.ordered(p[1] for _, _, points in drawn for p in points)
    look = common.looks(names)
    colour = {name: look[name].colour for name in names}
    marker = {phase: MARKERS[i % len(MARKERS)] for i, phase in enumerate(kinds)}
    columns = common.columns_in(min(2, len(drawn)))
    figure, cells = common.grid(len(drawn), columns, common.PAGE if columns > 1 else 5.2, 3.1)
    for cell, ((device, kind, _, where), chosen, points) in zip(cells, drawn):
        cell.set(xscale="log", yscale="log")
        draw_roofs(cell, *best_roofs(chosen), [p[2] for p in points])
        for name, phase, x, y, analytic in points:
            cell.plot([x], [y / 1e9], linestyle="none", marker=marker[phase], markersize=5.5,
                      markerfacecolor=PAPER if analytic else colour[name],
                      markeredgecolor=colour[name], markeredgewidth=1.0, zorder=3 if look[name].named else 2)
        if common.SETUP.direct:
            common.name_directly(figure, cell, [(x, y / 1e9, phase, colour[name])
                                                for name, phase, x, y, _ in points])
        cell.set(xlabel="FLOPs per byte", ylabel="GFLOP/s")
        low, high = cell.get_ylim()
        common.log_axis(cell, "y", low / 1.6, high)  # the bandwidth is written below its line
        if len(drawn) > 1:
            several = len({key[3] for key, _, _ in drawn}) > 1
            cell.set_title(f"{device}, {kind}" + (f", {where}" if several else ""))
    methods_shown = [common.Patch(facecolor=colour[n], label=look[n].text) for n in look if look[n].named]
    others = common.others_of(names, look)
    if others:
        methods_shown.append(common.Patch(facecolor=common.OTHERS, label=f"{others} others"))
    phases = [] if common.SETUP.direct else [  # else phases are named where they are
        common.Line2D([], [], linestyle="none", color=QUIET, marker=marker[p], label=p, markerfacecolor=PAPER)
        for p in kinds]
    common.legends_above(figure, [methods_shown, phases])
    hollow = any(p[4] for _, _, points in drawn for p in points)
    placed = {p[0] for _, _, points in drawn for p in points}
    shown = common.of_points(rows, (point for m in methods if m["series"] in placed for point in m["rows"]))
    common.footnote(figure, shown, "roofs measured in the same process"
                    + ("; hollow: FLOPs and bytes analytic, time measured" if hollow else ""))
    return [Drawing("", "How close is each phase of a step to the roof? FLOP/s against FLOPs per byte", figure, shown)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "roofline"))
