#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Score, speed and K/V memory against a number: a swept parameter, or the length of the prompt.

One column of panels per number that takes three or more values with everything else equal, one line per
method and value of the other parameters. All task families of a point count together: tokens over
seconds, the mean score of all items, the largest cache. Lengths are those of workloads named by them
("0.5K", "32K").
"""

import math
import re
import sys

import common
from common import Drawing, NotDrawn, metric

LENGTH = re.compile(r"\d+(\.\d+)?K")
CONTEXT = "tokens of the prompt"
SHOWN_ELSEWHERE = {"batch_size", "rate"}


def number(text):
    try:
        value = float(text)
        return value if math.isfinite(value) else None
    except ValueError:
        return None


def settings_of(row):
    """{number's name: value} that may be an axis, and the text of all other parts of the sweep."""
    numbers, rest = {}, []
    for part in row["variation"].split():
        key, _, text = part.partition("=")
        value = number(text)
        if value is None or key in SHOWN_ELSEWHERE:
            rest.append(part)
        else:
            numbers[key] = value
    if LENGTH.fullmatch(row["workload"]["family"]):
        numbers[CONTEXT] = metric(row, "prompt_tokens") / row["workload"]["items"]
    return numbers, " ".join(rest)


class Point:
    """All rows of one method at one setting."""

    def __init__(self, rows):
        seconds = [metric(r, "wall_seconds") for r in rows]
        tokens = sum(metric(r, "output_tokens") for r in rows)
        self.rows = rows
        self.speed = tokens / sum(seconds)
        spread = [s * (r["samples"].get("half_width") or 0) for s, r in zip(seconds, rows)]
        self.half = self.speed * math.hypot(*spread) / sum(seconds)
        self.kv = max(metric(r, "peak_kv_bytes") for r in rows) / 2**20
        scored = [r["score"] for r in rows if r.get("score") and r["score"].get("n")]
        n = sum(s["n"] for s in scored)
        total = sum(s["mean"] * s["n"] for s in scored)
        self.score = 100 * total / n if n else math.nan
        low, high = common.wilson(total, n)
        self.below, self.above = self.score - 100 * low, 100 * high - self.score


METRICS = [("score, %", lambda p: p.score, lambda p: (p.below, p.above)),
           ("output tokens per second", lambda p: p.speed, lambda p: (p.half, p.half)),
           ("peak K/V, MiB", lambda p: p.kv, lambda p: (0, 0))]


def lines_of(rows, axis, several_models):
    """{name: [(x, Point)]} with three or more x; other numbers are a part of the name."""
    groups = {}
    for r in rows:
        numbers, rest = settings_of(r)
        if axis not in numbers:
            continue
        others = tuple(sorted((k, v) for k, v in numbers.items() if k != axis))
        key = (r["label"], rest, others, r["model"]["name"] if several_models else "",
               r["batch_size"])
        groups.setdefault(key, {}).setdefault(numbers[axis], []).append(r)
    groups = {k: g for k, g in groups.items() if len(g) > 2}
    # Of the other numbers only those that tell lines apart are worth naming.
    telling = {k for key in groups for k, v in key[2]
               if len({dict(other[2]).get(k) for other in groups}) > 1}
    lines = {}
    for (label, rest, others, model, batch), points in groups.items():
        parts = [label, rest] + [f"{k}={v:g}" for k, v in others if k in telling] + [model]
        if len({key[4] for key in groups}) > 1 and "batch_size=" not in rest:
            parts.append(f"batch {batch}")
        lines[" ".join(p for p in parts if p)] = [(x, Point(points[x])) for x in sorted(points)]
    return lines


def draw(rows, options=None):
    rows = [r for r in rows if (r.get("serve") or {}).get("arrivals", "closed") == "closed"
            and not math.isnan(metric(r, "tokens_per_second"))]
    several = len({r["model"]["name"] for r in rows}) > 1
    axes = common.ordered(k for r in rows for k in settings_of(r)[0])
    of = {axis: lines for axis in axes if (lines := lines_of(rows, axis, several))}
    if not of:
        raise NotDrawn("a sweep needs a number that takes three or more values with all else equal: a "
                       "swept parameter, or workloads named by their length")
    # Few lines can be told apart; of a full factorial the axis with fewest lines says most.
    if max(map(len, of.values())) > 6 and len(of) > 1:
        fewest = min(of, key=lambda axis: len(of[axis]))
        of = {fewest: of[fewest]}
    shown = [(name, value, spread) for name, value, spread in METRICS
             if len({value(p) for lines in of.values() for line in lines.values()
                     for _, p in line if not math.isnan(value(p))}) > 1]
    names = common.ordered(n for lines in of.values() for n in lines)
    look = common.looks(names)
    columns = len(of)
    width = {1: 3.6, 2: 5.4}.get(columns, common.PAGE)
    figure, cells = common.grid(columns * len(shown), columns, width, 1.75)
    used, hollow = {}, set()
    for place, (title, value, spread) in enumerate(shown):
        for column, (axis, lines) in enumerate(of.items()):
            cell = cells[place * columns + column]
            for name, line in lines.items():
                used.update({r["point_id"]: r for _, p in line for r in p.rows})
                empty = any(common.not_measured(r, "tokens_per_second")
                            for _, p in line for r in p.rows)
                if empty:
                    hollow.add(name)
                cell.errorbar([x for x, _ in line], [value(p) for _, p in line],
                              yerr=list(zip(*(spread(p) for _, p in line))), elinewidth=0.6,
                              capsize=1.5, **look[name].line(empty))
            if axis == CONTEXT:
                lengths = sorted({x for line in lines.values() for x, _ in line})
                cell.set_xscale("log", base=2)
                cell.set_xticks(lengths, [f"{x / 1024:g}K" for x in lengths])
                cell.minorticks_off()
                if place > 0 or title != "score, %":
                    cell.set_yscale("log")
            else:
                values = sorted({x for line in lines.values() for x, _ in line})
                cell.set_xticks(values, [f"{x:g}" for x in values])
                if title != "score, %":
                    cell.set_ylim(0, 1.12 * max(value(p) for line in lines.values()
                                                for _, p in line))
            if title == "score, %":
                cell.set_ylim(-3, 103)
            if column == 0:
                cell.set_ylabel(title)
            if place == len(shown) - 1:
                cell.set_xlabel(axis.replace("_", " "))
    common.legend_above(figure, common.series_handles(names, look, hollow)
                        + common.provenance_handles(bool(hollow), False))
    common.footnote(figure, list(used.values()),
                    "all tasks together; whiskers: 95 % interval (score: Wilson)")
    what = [name.split(",")[0] for name, _, _ in shown]
    return [Drawing("", f"{', '.join(what).capitalize()} against "
                    + ", ".join(axis.replace("_", " ") for axis in of),
                    figure, list(used.values()))]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "sweep"))
