#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Computed positions per unmasked token (FOCUS, Table 5), by method and task; 1 would be no redundancy.

Rows of prefill forwards do not count, tokens that they decide do (as FOCUS counts): short answers go
below 1.
"""

import math
import sys

import common
from common import Drawing, NotDrawn, metric
from throughput import value_text


def collapse(rows, label):
    """{name: (value, hollow)}; batch sizes that agree within half a percent share a mark."""
    found = {}
    for name in common.ordered(label(r) for r in rows):
        by_batch = {r["batch_size"]: r for r in rows if label(r) == name}
        values = [metric(r, "redundancy") for r in by_batch.values()]
        if max(values) <= 1.005 * min(values):
            by_batch = {0: next(iter(by_batch.values()))}
        for batch, row in sorted(by_batch.items()):
            text = name + (f", batch {batch}" if batch else "")
            found[text] = (metric(row, "redundancy"), common.not_measured(row, "redundancy"))
    return found


def panel(cell, names, found, look, start, limit):
    """A line for each name: found[name] = (value, hollow), of a published one (value, None)."""
    log = start > 0
    if log:
        common.log_axis(cell, "x", start, limit * 2.2)
    for place, name in enumerate(names):
        if name not in found:
            continue
        value, hollow = found[name]
        printed = hollow is None
        if log:
            kind = {"linestyle": "none", "marker": "x", "color": common.QUIET}
            cell.plot([value], [place], **kind if printed else look[name].point(hollow))
        else:
            cell.barh(place, value, 0.72, **common.published_bar() if printed else look[name].bar(hollow))
        cell.annotate(value_text(value), (value, place), (5 if log else 3, 0), textcoords="offset points",
                      va="center", fontsize=common.TINY,
                      bbox={"facecolor": common.PAPER, "edgecolor": "none", "pad": 0.4})  # over the dashed line
    cell.axvline(1, color=common.INK, linewidth=0.7, linestyle=(0, (3, 2)))
    cell.set(xlim=(start, limit * (2.2 if log else 1.2)), ylim=(len(names) - 0.4, -0.6))
    cell.grid(axis="y", visible=False)
    cell.tick_params(axis="y", length=0)


def draw(rows, options=None):
    rows = [r for r in rows if not math.isnan(metric(r, "redundancy"))]
    if not rows:
        raise NotDrawn("no row holds the metric redundancy")
    published = []
    if getattr(options, "published", None):
        published = common.read_published(options.published, options.artifact, "redundancy")
    label = common.told_apart(rows, lambda r: common.series_label(r, rows, "batch_size"),
                              lambda r: (r["workload"]["family"], r["batch_size"]))

    families = common.ordered(r["workload"]["family"] for r in rows)
    found = {f: collapse([r for r in rows if r["workload"]["family"] == f], label)
             for f in families}
    names = common.ordered(n for f in families for n in found[f])
    # What is published has a panel of its own: it is of the paper's tasks.
    extra = {}
    for value in published:
        extra[f"{value['row']}, {value.get('column', '')}"] = (float(value["value"]), None)
    look = common.bar_looks([*names, *extra])
    panels = [(family.replace("_", " "), names, found[family]) for family in families]
    panels += [("published", list(extra), extra)] if extra else []
    columns = common.columns_in(2 if extra else min(len(families), 4 if len(names) < 8 else 3))
    figure, cells = common.grid(len(panels), columns, common.PAGE if columns > 1 else 5.0,
                                0.6 + 0.16 * max(len(names), len(extra)))
    everything = [v for f in found.values() for v, _ in f.values()] + [v for v, _ in extra.values()]
    # One kind of scale for all panels, logarithmic where values are far apart; those start below the smallest.
    log = max(everything) > 30 * min(everything)
    start = min(0.5, 0.7 * min(everything)) if log else 0
    for place, (cell, (title, every, of_panel)) in enumerate(zip(cells, panels)):
        panel(cell, every, of_panel, look, start, max(v for v, _ in of_panel.values()))
        labelled = place % columns == 0 or every is not names
        cell.set_yticks(range(len(every)), [look[n].text for n in every] if labelled else [""] * len(every))
        cell.set_title(common.fitted_title(title, cell))
    common.label_below(figure, common.heading_of("redundancy"))
    hollow = any(h for f in found.values() for _, h in f.values())
    common.legend_above(figure, common.provenance_handles(hollow, bool(extra), log))
    shared = sum(len(f) for f in found.values()) < len(rows)
    common.footnote(figure, rows, "dashed: one position per token; prefill passes are left out, as in FOCUS, Table 5; "
                    "below 1: prefill passes unmasked tokens" +
                    ("; batch sizes that agree within 0.5 % share a mark" if shared else ""))
    return [Drawing("", "How many positions are computed for a token? By method and task", figure, rows)]


def more_arguments(parser):
    parser.add_argument("--published", help="experiments/published/PAPER.toml drawn beside the rows")
    parser.add_argument("--artifact", help="of the published values, e.g. table_5")


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "redundancy", more_arguments))
