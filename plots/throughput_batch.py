#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Output tokens per second against the number of requests decoded together, one line per method."""

import math
import sys

import common
from common import Drawing, NotDrawn, metric


def draw(rows, options=None):
    # Of served rows those whose batch is kept full: others have a rate of arrivals for an axis.
    rows = [r for r in rows if not math.isnan(metric(r, "tokens_per_second"))
            and (r.get("serve") or {"arrivals": "closed"})["arrivals"] == "closed"]
    sizes = sorted({r["batch_size"] for r in rows})
    if len(sizes) < 2:
        raise NotDrawn("throughput against batch size needs rows with at least two batch sizes; "
                       "sweep batch_size in the experiment")
    published = []
    if getattr(options, "published", None):
        published = common.read_published(options.published, options.artifact, options.metric)
    label = common.told_apart(rows, lambda r: common.series_label(r, rows, "batch_size"),
                              lambda r: (r["workload"]["family"], r["batch_size"]))
    names = common.ordered(label(r) for r in rows)
    more = common.ordered(v["row"] for v in published)
    synthetic = any(common.not_measured(r, "tokens_per_second") for r in rows)
    look = common.looks(names + [n for n in more if n not in names], int(synthetic) + bool(more))
    families = common.ordered(r["workload"]["family"] for r in rows)
    columns = common.columns_in(min(3, len(families)))
    width = {1: 4.6, 2: 6.2}.get(columns, common.PAGE)
    figure, cells = common.grid(len(families), columns, width, 2.5)
    hollow = set()
    for cell, family in zip(cells, families):
        for name in names:
            line = sorted((r for r in rows
                           if label(r) == name and r["workload"]["family"] == family),
                          key=lambda r: r["batch_size"])
            if not line:
                continue
            empty = any(common.not_measured(r, "tokens_per_second") for r in line)
            if empty:
                hollow.add(name)
            cell.errorbar([r["batch_size"] for r in line],
                          [metric(r, "tokens_per_second") for r in line],
                          yerr=[common.half_width(r) for r in line], elinewidth=0.7, capsize=1.5,
                          label=name, zorder=3 if look[name].named else 2, **look[name].line(empty))
            common.name_last(figure, cell, [(r["batch_size"], metric(r, "tokens_per_second"))
                                            for r in line], look[name].text, look[name])
        for name in more:
            points = sorted((common.first_number(v.get("column", "")), v["value"])
                            for v in published if v["row"] == name)
            points = [p for p in points if not math.isnan(p[0])]
            cell.plot(*zip(*points), label=f"{name} (published)", color=look[name].colour,
                      linestyle=":", marker="x") if points else None
            common.name_last(figure, cell, points, f"{name} (published)", look[name])
        cell.set_xscale("log", base=2)
        cell.set_xticks(sizes, [str(s) for s in sizes])
        cell.minorticks_off()
        cell.set(ylim=(0, None), xlabel="requests in the batch", ylabel=common.heading_of("tokens_per_second"))
        if len(families) > 1:
            cell.set_title(family.replace("_", " "))
    handles = common.series_handles(names, look, hollow)
    crosses = [common.Line2D([], [], color=look[n].colour, linestyle=":", marker="x", label=f"{n} (published)")
               for n in more if look[n].named]
    provenance = common.provenance_handles(bool(hollow), False)
    if more and len(handles) + len(crosses) + len(provenance) > common.LEGEND or len(crosses) < len(more):
        crosses = [common.Line2D([], [], color=common.QUIET, linestyle=":", marker="x", label="published")]
    common.legend_above(figure, handles + ([] if common.SETUP.direct else crosses) + provenance)
    common.footnote(figure, rows, "whiskers: 95 % interval of the mean")
    return [Drawing("", "Does a larger batch help? Output tokens per second against batch size", figure, rows)]


def more_arguments(parser):
    parser.add_argument("--published", help="experiments/published/PAPER.toml drawn beside the rows")
    parser.add_argument("--artifact", help="of the published values, e.g. figure_3")
    parser.add_argument("--metric", help="of the published values")


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__, "throughput_batch", more_arguments))
