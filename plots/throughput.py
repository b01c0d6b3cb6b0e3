#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Output tokens per second of each method by task family, with 95 % intervals of the mean."""

import math

import common
from common import plt


def main():
    options = common.arguments(__doc__, "throughput")
    rows = common.believable(common.read_rows(options.rows))
    common.style()
    families = common.ordered(r["workload"]["family"] for r in rows)
    series = common.ordered(common.series_label(r, rows) for r in rows)
    cells = {(common.series_label(r, rows), r["workload"]["family"]): r for r in rows}

    width = 0.8 / len(series)
    figure, axes = plt.subplots(figsize=(max(5.0, 1.0 + 1.1 * len(families)), 3.6))
    for s, name in enumerate(series):
        places, values, spreads = [], [], []
        for f, family in enumerate(families):
            row = cells.get((name, family))
            if row is None:
                continue
            value = common.metric(row, "tokens_per_second")
            half = row["samples"]["half_width"]
            places.append(f + (s - (len(series) - 1) / 2) * width)
            values.append(value)
            spreads.append(value * half if half is not None else 0.0)
        axes.bar(places, values, width * 0.95, label=name, edgecolor="white", linewidth=0.3,
                 color=common.COLOURS[s % 8], hatch=common.HATCHES[(s // 8 + s) % 8])
        shown = [(p, v, e) for p, v, e in zip(places, values, spreads)
                 if e > 0 and not math.isnan(v)]
        if shown:
            axes.errorbar(*zip(*[(p, v) for p, v, _ in shown]), yerr=[e for _, _, e in shown],
                          fmt="none", ecolor="black", elinewidth=0.8, capsize=1.5)
    axes.set_xticks(range(len(families)), families, rotation=20, ha="right")
    axes.set_ylabel("output tokens per second")
    axes.set_ylim(bottom=0)
    axes.grid(axis="x", visible=False)
    common.legend_above(figure, series)
    common.footnote(figure, rows)
    common.save(figure, options.output)


if __name__ == "__main__":
    main()
