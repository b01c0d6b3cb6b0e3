#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Decoding order: at which forward pass each position of a response was unmasked for good, and which were computed.

From the probe decode_trace; one line of panels per request, one panel per method.
"""

import sys

import numpy as np
from matplotlib.colors import ListedColormap

import common
from common import Drawing, NotDrawn

NARROWEST = 1.5  # inches of a panel
BAR = 0.6  # inches right of the panels, for the colours of confidence


def side_by_side():
    """How many methods are next to each other: four on a page, fewer in a narrower figure."""
    return max(1, min(4, int((common.SETUP.width or common.PAGE) / NARROWEST)))


def state_map(decode):
    """[steps, positions] 0 not computed, 1 computed, 2 dropped on the way; {position: (step, confidence)} of
    the last event of each position that ends decided."""
    begin, length = len(decode["prompt"]), decode["length"]
    steps = decode["steps"]
    state = np.zeros((len(steps), length - begin))
    decided = {}
    for t, step in enumerate(steps):
        for value, key in ((1, "rows"), (2, "dropped")):
            for first, last in step[key]:
                state[t, max(0, first - begin):max(0, last - begin)] = value
        for c in step["accepted"] + step.get("replaced", []):
            decided[step["position"][c] - begin] = (t, step["confidence"][c])
        for c in step.get("reopened", []):
            decided.pop(step["position"][c] - begin, None)
    return state, decided


def last_touched(decode):
    """One past the last position of the answer that any forward computed."""
    begin = len(decode["prompt"])
    return max((last - begin for step in decode["steps"] for _, last in step["rows"]), default=1)


def telling_request(group):
    """Index of the request whose decodes take most forwards together."""
    decodes = [r["probes"]["decode_trace"]["decodes"] for r in group]
    return max(range(min(len(d) for d in decodes)),
               key=lambda i: sum(len(d[i]["steps"]) for d in decodes))


def panel(cell, decode, forwards, width):
    state, decided = state_map(decode)
    state = state[:, :width]
    cell.imshow(state, cmap=ListedColormap(["#FFFFFF", "#C9D9EA", "#F2B58A"]), vmin=0, vmax=2,
                aspect="auto", interpolation="nearest",
                extent=(0, state.shape[1], state.shape[0], 0))
    cell.set(ylim=(forwards, 0), xlim=(0, width))
    if len(state) < forwards:
        cell.axhline(len(state), color=common.QUIET, linewidth=0.8)
        cell.text(width / 2, len(state) + 0.02 * forwards, f"done after {len(state)}", va="top",
                  ha="center", fontsize=common.TINY, color=common.QUIET)
    places = sorted(decided)
    # Marks as wide as a position, as far as they can be told apart.
    return cell.scatter([p + 0.5 for p in places], [decided[p][0] + 0.5 for p in places],
                        c=[decided[p][1] for p in places], cmap="viridis", vmin=0, vmax=1, s=9,
                        marker="s", linewidths=0.3 if width < 40 else 0, edgecolors=common.INK)


def confidence_bar(figure, mark):
    """What the colours of the squares mean, right of the panels. It belongs to a panel, so that it moves with no
    layout."""
    width = figure.get_figwidth()
    side = figure.axes[0].inset_axes((1 - 0.525 / width, 0.35, 0.084 / width, 0.35), transform=figure.transFigure)
    side.set_in_layout(False)
    bar = figure.colorbar(mark, cax=side)
    bar.outline.set_visible(False)
    bar.set_label("confidence when unmasked", fontsize=common.SMALL)


def draw(rows, options=None):
    traced = [r for r in rows if r.get("probes", {}).get("decode_trace", {}).get("decodes")]
    task = getattr(options, "task", None)
    if task and task not in {r["workload"]["family"] for r in traced}:
        raise NotDrawn(f"no decode_trace of the task {task} here")
    traced = [r for r in traced if task in (None, r["workload"]["family"])]
    if not traced:
        raise NotDrawn("decoding order needs the probe decode_trace; add it to [probe] names")
    label = common.told_apart(traced, lambda r: r["label"], lambda r: (r["model"]["name"],
                                                                       r["workload"]["family"]))
    groups = {}  # what was asked: prompts differ between tokenizers, so models stay apart
    for row in traced:
        groups.setdefault((row["model"]["name"], row["workload"]["family"]), []).append(row)
    columns = side_by_side()
    lines = [(key, group[start:start + columns]) for key, group in groups.items()
             for start in range(0, len(group), columns)]
    figure, axes = common.plt.subplots(len(lines), columns, squeeze=False,
                                       figsize=(common.SETUP.width or common.PAGE, 1.75 * len(lines) + 0.4))
    mark = None
    for line, ((model, family), group) in zip(axes, lines):
        for cell in line[len(group):]:
            cell.set_axis_off()
        which = telling_request(groups[(model, family)])
        decodes = [r["probes"]["decode_trace"]["decodes"][which] for r in group]
        forwards = max(len(d["steps"]) for d in decodes)
        width = max(last_touched(d) for d in decodes)
        for cell, row, decode in zip(line, group, decodes):
            mark = panel(cell, decode, forwards, width)
            cell.set_title(label(row).replace(", ", ",\n", 1), fontsize=common.SMALL, fontweight="normal")
            cell.grid(visible=False)
            cell.yaxis.set_major_locator(common.MaxNLocator(4, integer=True))
            cell.xaxis.set_major_locator(common.MaxNLocator(4, integer=True))
        line[0].set_ylabel(f"{model}\n{family.replace('_', ' ')}\nforward pass")
    common.label_below(figure, "position in the response")
    figure.aside = BAR
    common.finish(figure)
    confidence_bar(figure, mark)
    common.footnote(figure, traced, "blue: computed; orange: computed, then evicted inside the "
                    "forward pass; squares: unmasked. Of each workload the "
                    "request with most forward passes")
    return [Drawing("", "Which positions are computed, and when are they unmasked?", figure,
                    traced)]


def more_arguments(parser):
    parser.add_argument("--task", help="only this task, e.g. word_problem")


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "decode_order", more_arguments))
