#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Latency of a forward pass T(x) with its fit, and unmasked tokens per step N(c) by chunk size (Optimus).

T(x) comes from the calibration of elastic rows; N(c) from rows of fixed chunks.
"""

import json
import math
import sys
import textwrap

import common
from common import Drawing, NotDrawn, metric


def fitted(fit, x):
    """Seconds of a forward of x rows by three affine pieces (methods/optimus/latency_model.h)."""
    (k1, k2), (s1, s2, s3) = fit["knots"], fit["slopes"]
    return (fit["intercept"] + s1 * min(x, k1) + s2 * min(max(x - k1, 0), k2 - k1)
            + s3 * max(0, x - k2))


def curves(fit):
    """[(rows, milliseconds, what it is)] of the fit over its samples."""
    if fit["fit"] == "pwl3" and len(fit["knots"]) == 2:
        last = max(s["rows"] for s in fit["samples"])
        first = min(s["rows"] for s in fit["samples"])
        xs = sorted({first, last, *(k for k in fit["knots"] if first < k < last)})
        # A straight piece is a curve on logarithmic axes.
        ends = list(zip(xs, xs[1:]))
        xs = [a * (b / a) ** (i / 24) for a, b in ends for i in range(25)]
        return [(xs, [1e3 * fitted(fit, x) for x in xs], "three affine pieces")]
    lines = []  # a table tells forwards of as many rows apart by their requests
    for count in sorted({s["requests"] for s in fit["samples"]}):
        points = sorted((s["rows"], 1e3 * s["fitted"]) for s in fit["samples"]
                        if s["requests"] == count)
        lines.append((*map(list, zip(*points)), "table, interpolated"))
    return lines


def draw_latency(cell, row, name):
    fit = row["calibration"]
    counts = sorted({s["requests"] for s in fit["samples"]})
    hollow = fit.get("origin") != "measured"
    for place, count in enumerate(counts):
        points = [(s["rows"], 1e3 * s["seconds"]) for s in fit["samples"] if s["requests"] == count]
        cell.plot(*zip(*points), label=f"{count} request" + ("s" if count > 1 else ""),
                  **common.Look(place).point(hollow))
    for place, (xs, ys, kind) in enumerate(curves(fit)):
        cell.plot(xs, ys, color=common.INK, linewidth=1.1, label=None if place else f"fit: {kind}")
    if fit["fit"] == "pwl3":
        for knot in fit["knots"]:
            cell.axvline(knot, color=common.QUIET, linewidth=0.7, linestyle=(0, (2, 2)))
    xs = [s["rows"] for s in fit["samples"]]
    ys = [1e3 * s["seconds"] for s in fit["samples"]] + [y for _, line, _ in curves(fit) for y in line]
    common.log_axis(cell, "x", min(xs) / 1.2, max(xs) * 1.2)
    common.log_axis(cell, "y", min(y for y in ys if y > 0) / 1.2, max(ys) * 1.2)
    cell.set(xlabel="computed positions, x", ylabel="T(x), ms")
    cell.set_title("\n".join([*textwrap.wrap(name, 48), f"up to {max(counts)} requests: "
                              f"mean error {100 * fit['mape']:.1f} %"]))
    cell.legend(fontsize=common.TINY, handlelength=1.4)


def draw_commits(cell, rows, label):
    """N(c) for the fixed chunks of one model, a line per task and batch size, and what else differs."""
    lines = {}
    for row in rows:
        lines.setdefault(label(row), []).append(row)
    seen = {}
    for name, line in lines.items():
        points = tuple(sorted((r["params"]["chunk"], metric(r, "committed_per_step")) for r in line))
        seen.setdefault((line[0]["workload"]["family"], points), []).append(name.split(", batch ", 1))
    largest = 0
    for place, ((_, points), names) in enumerate(seen.items()):
        sizes = ", ".join(batch for _, batch in names)
        cell.plot(*zip(*points), label=f"{names[0][0]}, batch {sizes}", **common.Look(place).line())
        largest = max(largest, points[-1][0])
    cell.plot([0, largest], [0, largest], color=common.QUIET, linewidth=0.8,
              linestyle=(0, (4, 2)), label="every position is unmasked")
    cell.set(xlim=(0, largest * 1.03), ylim=(0, None),
             xticks=[c for c in sorted({r["params"]["chunk"] for r in rows}) if c >= 4],
             xlabel="chunk c, positions per request", ylabel=f"N(c), {common.heading_of('committed_per_step')}",
             title=f"{rows[0]['model']['name']}: unmasked tokens")
    cell.legend(fontsize=common.TINY, handlelength=1.4)


def profiles_of(rows):
    """[rows that share a profile], in the order of their first: one of more requests is another."""
    found = {}
    for row in rows:
        fit = row.get("calibration")
        if fit and fit.get("samples"):
            key = json.dumps([fit["samples"], fit["fit"], fit.get("knots"), fit.get("slopes")])
            found.setdefault((row["model"]["name"], row["device"], row["machine"], row.get("source_hash"), key),
                             []).append(row)
    return list(found.values())


def draw(rows, options=None):
    profiles = profiles_of(rows)
    chunks = [r for r in rows if r["method"] == "optimus" and r["params"].get("chunk", 0) > 0
              and not math.isnan(metric(r, "committed_per_step"))]
    models = [m for m in common.ordered(r["model"]["name"] for r in chunks)
              if len({r["params"]["chunk"] for r in chunks if r["model"]["name"] == m}) > 1]
    panels = len(profiles) + len(models)
    if panels == 0:
        raise NotDrawn("latency and unmasking need rows of the method optimus: elastic ones for T(x), "
                       "two fixed chunk sizes for N(c)")
    columns = common.columns_in(min(2, panels))
    figure, cells = common.grid(panels, columns, common.PAGE if columns > 1 else 4.6, 2.7)
    firsts = [group[0] for group in profiles]
    name = common.told_apart(firsts, lambda r: r["model"]["name"],
                             lambda r: max(s["requests"] for s in r["calibration"]["samples"]))
    for cell, row in zip(cells, firsts):
        draw_latency(cell, row, name(row))
    label = common.told_apart(chunks, lambda r: f"{r['workload']['family'].replace('_', ' ')}, "
                              f"batch {r['batch_size']}",
                              lambda r: (r["model"]["name"], r["params"]["chunk"]))
    for cell, model in zip(cells[len(profiles):], models):
        draw_commits(cell, [r for r in chunks if r["model"]["name"] == model], label)
    points = {id(r) for group in profiles for r in group}
    points |= {id(r) for r in chunks if r["model"]["name"] in models}
    used = [r for r in rows if id(r) in points]
    shared = len(firsts) < sum(map(len, profiles))
    common.finish(figure)
    common.footnote(figure, used, "each mark: median of seven forward passes; vertical: knots of the fit"
                    + ("; rows with the same samples share a panel" if shared else "")
                    if profiles else "")
    return [Drawing("", "How long does a forward pass take, and how many tokens does a step unmask? By computed positions and chunk",
                    figure, used)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "latency"))
