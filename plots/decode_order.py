#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Unmask Authors
"""Decoding order: at which forward each position of an answer was decided, and which were computed.

From the probe decode_trace; one line of panels per request, one panel per method.
"""

import sys

import numpy as np

import common
from common import Drawing, NotDrawn

SHOWN = 4  # methods side by side


def state_map(decode):
    """[steps, positions] 0 not computed, 1 computed, 2 dropped on the way; steps decided at."""
    begin, length = len(decode["prompt"]), decode["length"]
    steps = decode["steps"]
    state = np.zeros((len(steps), length - begin))
    decided = {}
    for t, step in enumerate(steps):
        for value, key in ((1, "rows"), (2, "dropped")):
            for first, last in step[key]:
                state[t, max(0, first - begin):max(0, last - begin)] = value
        for c in step["accepted"]:
            decided[step["position"][c] - begin] = (t, step["confidence"][c])
    return state, decided


def panel(cell, decode):
    from matplotlib.colors import ListedColormap
    state, decided = state_map(decode)
    cell.imshow(state, cmap=ListedColormap(["#FFFFFF", "#DCE6F0", "#F4C9A8"]), vmin=0, vmax=2,
                aspect="auto", interpolation="nearest",
                extent=(0, state.shape[1], state.shape[0], 0))
    places = sorted(decided)
    # Marks as wide as a position, as far as they can be told apart.
    return cell.scatter([p + 0.5 for p in places], [decided[p][0] + 0.5 for p in places],
                        c=[decided[p][1] for p in places], cmap="viridis", vmin=0, vmax=1, s=9,
                        marker="s", linewidths=0)


def draw(rows, options=None):
    traced = [r for r in rows if r.get("probes", {}).get("decode_trace", {}).get("decodes")]
    if not traced:
        raise NotDrawn("decoding order needs the probe decode_trace; add it to [probe] names")
    groups = {}  # what was asked: prompts differ between tokenizers, so models stay apart
    for row in traced:
        groups.setdefault((row["model"]["name"], row["workload"]["family"]), []).append(row)
    drawings = []
    lines = [(key, group[start:start + SHOWN]) for key, group in groups.items()
             for start in range(0, len(group), SHOWN)]
    figure, axes = common.plt.subplots(len(lines), SHOWN, squeeze=False,
                                       figsize=(common.PAGE, 1.75 * len(lines) + 0.4))
    mark = None
    for line, ((model, family), group) in zip(axes, lines):
        for cell in line[len(group):]:
            cell.set_axis_off()
        for cell, row in zip(line, group):
            decode = row["probes"]["decode_trace"]["decodes"][0]
            mark = panel(cell, decode)
            cell.set_title(row["label"], fontsize=common.SMALL, fontweight="normal")
            cell.grid(visible=False)
            cell.yaxis.set_major_locator(common.MaxNLocator(4, integer=True))
            cell.xaxis.set_major_locator(common.MaxNLocator(4, integer=True))
        line[0].set_ylabel(f"{model}\n{family.replace('_', ' ')}\nforward")
    common.label_below(figure, "position in the answer")
    common.finish(figure)
    figure.subplots_adjust(right=0.9)
    side = figure.add_axes((0.925, 0.35, 0.012, 0.35))
    bar = figure.colorbar(mark, cax=side)
    bar.outline.set_visible(False)
    bar.set_label("confidence when decided", fontsize=common.SMALL)
    common.footnote(figure, traced, "blue: computed; orange: computed, then dropped inside the "
                    "forward; squares: decided. First request of each workload")
    drawings.append(Drawing("", "Decoding order: which positions were computed and decided when",
                            figure, traced))
    return drawings


if __name__ == "__main__":
    sys.exit(common.main(draw, __doc__.splitlines()[0], "decode_order"))
