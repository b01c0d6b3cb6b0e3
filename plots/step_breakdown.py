#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Where the time of a step goes: milliseconds per forward pass by phase, a bar per method.

Time is the device's where kernels were traced, else the CPU's own time of each phase (without the
phases inside it), so the parts of a bar add up to the traced run. Phases below 1.5 % of every bar
are drawn together; so are all but the seven largest.
"""

import sys
import textwrap

import common
from common import COLOURS, HATCHES, Drawing, NotDrawn

SMALL_SHARE = 0.015
OTHER = "other phases"
# In the order of a forward; what is not named here comes last.
ORDER = ["vision", "across_ranks", "plan", "selection", "embed", "project", "cache_update", "attention", "attention_output",
         "feed_forward", "final_norm", "candidates", "lm_head", "decide", "commit", "settle",
         "accounting", "between phases"]


def parts_of(methods):
    """{series: {phase: ms per forward pass}} with small phases together, and the phases in order."""
    per_forward = {m["series"]: {p["phase"]: 1e3 * p["seconds"] / m["forwards"] for p in m["phases"]}
                   for m in methods if m["forwards"] > 0}
    sums = {name: sum(parts.values()) for name, parts in per_forward.items()}
    shares = {}  # the largest of each phase
    for name, parts in per_forward.items():
        for p, ms in parts.items():
            if sums[name] > 0 and ms / sums[name] >= SMALL_SHARE:
                shares[p] = max(shares.get(p, 0), ms / sums[name])
    large = set(sorted(shares, key=lambda p: (-shares[p], p))[:common.LEGEND - 1])
    merged = {}
    for name, parts in per_forward.items():
        merged[name] = {p: ms for p, ms in parts.items() if p in large}
        rest = sum(ms for p, ms in parts.items() if p not in large)
        if rest > 0:
            merged[name][OTHER] = rest
    known = [p for p in ORDER if p in large] + sorted(large - set(ORDER))
    return merged, known + ([OTHER] if any(OTHER in m for m in merged.values()) else [])


def draw(rows, options=None):  # pylint: disable=unused-argument
    parts, kinds = parts_of(rows.phases)
    timed = [point for m in rows.phases if m["forwards"] > 0 for point in m["rows"]]
    rows = common.of_points(common.profiled(rows, "a breakdown of a step"), timed)
    if not parts or not kinds:
        raise NotDrawn("the profiled rows made no forward")
    names = list(parts)
    inches = common.SETUP.width or common.PAGE
    ticks = ["\n".join(textwrap.wrap(name, int(0.4 * inches / 0.055), break_on_hyphens=False)) for name in names]
    lines = max(text.count("\n") for text in ticks)
    figure, (cell,) = common.grid(1, 1, common.PAGE, 0.45 + (0.3 + 0.1 * lines) * len(names))
    for place, name in enumerate(names):
        left = 0.0
        for k, phase in enumerate(kinds):
            width = parts[name].get(phase, 0.0)
            cell.barh(place, width, 0.66, left=left, color=COLOURS[k % len(COLOURS)],
                      edgecolor="white", linewidth=0.4,
                      hatch=HATCHES[1 + k % (len(HATCHES) - 1)] if k >= len(COLOURS) else "")
            left += width
        cell.text(left, place, f" {left:.3g}", va="center", fontsize=common.SMALL)
    cell.set_yticks(range(len(names)), ticks)
    cell.invert_yaxis()
    cell.margins(x=0.6 / inches)  # the number behind the longest bar
    cell.grid(axis="y", visible=False)
    common.label_below(figure, "milliseconds per forward pass of the batch")
    common.legend_above(figure, [
        common.Patch(facecolor=COLOURS[k % len(COLOURS)], label=phase, edgecolor="white",
                     hatch=HATCHES[1 + k % (len(HATCHES) - 1)] if k >= len(COLOURS) else "")
        for k, phase in enumerate(kinds)])
    sources = {r["probes"]["phases"]["provenance"]["time"] for r in rows}
    common.footnote(figure, rows, "time: " + ", ".join(
        {"clock": "CPU clock, phases without those inside them",
         "cupti": "kernels on the device (CUPTI)"}.get(s, s) for s in sorted(sources)))
    return [Drawing("", "Where does the time of a forward pass go? Milliseconds by phase", figure, rows)]


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "step_breakdown"))
