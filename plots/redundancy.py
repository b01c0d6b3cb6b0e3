#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Rows computed per token decided against tokens decided per step: what speed is made of.

Down is less wasted work, right is more parallel decoding; each mark is one method on one family.
"""

import math

from matplotlib.ticker import LogLocator, NullFormatter

import common
from common import plt


def main():
    options = common.arguments(__doc__.splitlines()[0], "redundancy")
    rows = common.believable(common.read_rows(options.rows))
    common.style()
    series = common.ordered(common.series_label(r, rows) for r in rows)
    figure, axes = plt.subplots(figsize=(5.4, 3.8))
    for s, name in enumerate(series):
        points = [(common.metric(r, "committed_per_step"), common.metric(r, "redundancy"))
                  for r in rows if common.series_label(r, rows) == name]
        points = [p for p in points if not math.isnan(p[0] + p[1])]
        if not points:
            continue
        axes.plot([p[0] for p in points], [p[1] for p in points], linestyle="none", label=name,
                  marker=common.MARKERS[(s // 8 + s) % 8], markersize=5.5, markeredgecolor="white",
                  markeredgewidth=0.5, color=common.COLOURS[s % 8])
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("tokens decided per denoising step")
    axes.set_ylabel("rows computed per token decided")
    axes.set_xlim(left=0)
    common.legend_above(figure, series)
    common.footnote(figure, rows)
    common.save(figure, options.output)


if __name__ == "__main__":
    main()
