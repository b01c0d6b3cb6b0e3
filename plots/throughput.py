#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Output tokens per second of each method, one panel per task family, with 95 % intervals."""

import math
import sys

import common
from common import Drawing, NotDrawn, metric


def value_text(value):
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def bars(cell, names, look, found, limit):
    """One horizontal bar per name: found[name] = (value, half width, hollow, what is written at its end)."""
    for place, name in enumerate(names):
        if name not in found:
            cell.text(0, place, " not run", va="center", fontsize=common.TINY, color=common.QUIET)
            continue
        value, half, hollow, said = found[name]
        cell.barh(place, value, 0.72, **look[name].bar(hollow))
        if half > 0:
            cell.errorbar(value, place, xerr=half, fmt="none", ecolor=common.INK, elinewidth=0.7,
                          capsize=1.5, capthick=0.7)
        cell.text(min(value + half, limit) + 0.015 * limit, place, said, va="center",
                  fontsize=common.TINY, clip_on=False)
    cell.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, limit * 1.3))
    cell.grid(axis="y", visible=False)
    cell.tick_params(axis="y", length=0)


def said_of(row):
    """The speed and the score, without which it says nothing."""
    value = value_text(metric(row, "tokens_per_second"))
    score = row["score"]
    return f"{value} ({100 * score['mean']:.0f} %)" if score and score["n"] > 0 else value


def draw(rows, options=None):
    rows = [r for r in rows if not math.isnan(metric(r, "tokens_per_second"))]
    if not rows:
        raise NotDrawn("no row holds tokens_per_second")
    models = len({r["model"]["name"] for r in rows}) > 1

    def without_model(row):
        return common.series_label(row, rows).removesuffix(f" · {row['model']['name']}")

    def place_of(row):
        return row["model"]["name"], row["workload"]["family"]
    label = common.told_apart(rows, without_model, place_of)
    panels = common.grouped(sorted(rows, key=lambda r, m=common.ordered(r["model"]["name"] for r in rows):
                                   m.index(r["model"]["name"])), place_of)
    # A model's panels stand side by side; its names stand at the first of each line.
    names = {place_of(group[0])[0]: [] for group in panels}
    for group in panels:
        name = group[0]["model"]["name"]
        names[name] = common.ordered([*names[name], *map(label, group)])
    look = common.bar_looks(common.ordered(n for of_model in names.values() for n in of_model))
    most = max(map(len, names.values()))
    families = max(sum(place_of(group[0])[0] == model for group in panels) for model in names)
    columns = common.columns_in(min(families, 4 if most < 8 else 3))
    lines = [[group for group in panels if place_of(group[0])[0] == model] for model in names]
    lines = [of_model[at:at + columns] for of_model in lines for at in range(0, len(of_model), columns)]
    figure, cells = common.grid(len(lines) * columns, columns, common.PAGE if columns > 1 else 5.0,
                                0.55 + 0.16 * max(3, most))
    hollow = False
    for at, cell in enumerate(cells):
        line = lines[at // columns]
        if at % columns >= len(line):
            cell.set_axis_off()
            continue
        group = line[at % columns]
        model, family = place_of(group[0])
        hollow = hollow or any(common.not_measured(r, "tokens_per_second") for r in group)
        found = {label(r): (metric(r, "tokens_per_second"), common.half_width(r),
                            common.not_measured(r, "tokens_per_second"), said_of(r)) for r in group}
        bars(cell, names[model], look, found, max(v + h for v, h, _, _ in found.values()))
        title = family.replace("_", " ")
        cell.set_title(common.fitted_title(f"{model}: {title}" if models else title, cell))
        texts = [look[name].text for name in names[model]]
        cell.set_yticks(range(len(texts)), texts if at % columns == 0 else [""] * len(texts))
        cell.xaxis.set_major_locator(common.MaxNLocator(3))
    common.label_below(figure, common.heading_of("tokens_per_second"))
    common.legend_above(figure, common.provenance_handles(hollow, False))
    scored = any(r["score"] and r["score"]["n"] > 0 for r in rows)
    common.footnote(figure, rows, "bars: mean; whiskers: 95 % interval of the mean"
                    + ("; in brackets: score" if scored else ""))
    return [Drawing("", "How many tokens per second, by method and task", figure, rows)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__, "throughput"))
